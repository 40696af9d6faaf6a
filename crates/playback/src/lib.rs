//! Playback: what was captured is sent to a server again, and everything is accounted for.
//!
//! One thread plays all sessions: it reads the trace ahead, holds statements that have to wait,
//! sends those that are due and takes in the answers. No statement waits for another session except
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
//! | [`spec`] | the options of a playback |
//! | [`connection`] | one connection's side of the protocol |
//! | [`copying`] | COPY over the connection |
//! | [`item`] | a statement on its way, and why it may be skipped |
//! | [`played`] | the result of a playback |
//! | [`survey`] | what a trace holds, counted by itself |
//! | [`feed`] | the trace, read ahead as far as memory allows |
//! | [`parts`] | which sessions each of several hosts plays |
//! | [`pace`] | when a statement is due |
//! | [`order`] | what has to be done before a statement is sent |
//! | [`ids`] | which values of a statement the server had made for another |
//! | [`rewrite`] | these are sent as it makes them now |
//! | [`locks`] | who waits for a lock of whom |
//! | [`drive`] | the loop that sends and takes in |
//! | [`accounting`] | the accounting of every statement |
//! | [`timing`] | lag, timeline, stalls |
//! | [`divergence`] | rows, tags and commits against the capture |
//! | [`rules`] | what is not sent |
//! | [`playback_errors`] | errors against those of the capture |

pub mod accounting;
pub mod connection;
pub mod copying;
pub mod divergence;
pub mod drive;
pub mod feed;
pub mod ids;
pub mod item;
pub mod locks;
pub mod order;
pub mod pace;
pub mod parts;
pub mod playback_errors;
pub mod played;
pub mod rewrite;
pub mod rules;
pub mod spec;
pub mod survey;
pub mod timing;

#[cfg(test)]
#[path = "../../sqltext/src/lexer/sql_like.rs"]
mod sql_like;
