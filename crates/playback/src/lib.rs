//! Playback: sends captured statements to a server again, and accounts for each of them.
//!
//! One thread plays all sessions: it reads the trace ahead, delays statements that have to wait,
//! sends those that are due and reads the answers. No statement waits for another session except
//! for the requested order. For every statement of the trace
//!
//! ```text
//! captured = ok + failed + skipped(by reason) + not reached
//! ```
//!
//! holds, for each class of statements; the captured statements are counted in a separate pass.
//!
//! | part | rule |
//! |---|---|
//! | `spec` | the options of a playback |
//! | `connection` | one connection's side of the protocol |
//! | `item` | a statement to be sent, and why it may be skipped |
//! | [`played`] | the result of a playback |
//! | `survey` | totals of a trace, counted in a separate pass |
//! | `feed` | the trace, read ahead as far as memory allows |
//! | `parts` | the sessions that each of several hosts plays |
//! | `pace` | when a statement is due |
//! | `order` | statements that wait for others |
//! | [`ids`] | values that the server had generated for an earlier statement |
//! | `rewrite` | replaces them by the values generated now |
//! | `locks` | lock waits between sessions |
//! | [`drive`] | the loop that sends statements and reads answers |
//! | `accounting` | the accounting of every statement |
//! | `timing` | lag, timeline, stalls |
//! | `divergence` | rows, tags and commits against the capture |
//! | `rules` | statements that are not sent |
//! | `playback_errors` | errors against those of the capture |

mod accounting;
mod connection;
mod divergence;
pub mod drive;
mod feed;
mod identity_hash;
pub mod ids;
mod item;
mod locks;
mod order;
mod pace;
mod parts;
mod playback_errors;
pub mod played;
mod rewrite;
mod rules;
mod spec;
mod survey;
mod timing;

#[cfg(test)]
#[path = "../../sqltext/src/lexer/sql_like.rs"]
mod sql_like;
