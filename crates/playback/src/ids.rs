//! Ids: values that the server generated for an earlier statement, so that a playback can replace
//! them by those generated now.
//!
//! A server numbers rows itself (serial and identity columns, sequences, UUIDs), and later
//! statements refer to the rows by these numbers. A playback gets other numbers, so a statement
//! with captured numbers finds other rows. Each id of a statement is therefore traced to the draw
//! that generated it, and replaced by the value that this draw generates now. An id that cannot be
//! traced is left unchanged, counted and reported.
//!
//! A log lacks the values that a statement returned, but a sequence counts up, so an id shows how
//! many draws preceded its own.
//!
//! | level | when |
//! |---|---|
//! | exact | what came back was captured |
//! | proved | no other draw can have given it |
//! | by pattern | others could have, but all that are proved of these two texts are of one kind |
//!
//! | part | rule |
//! |---|---|
//! | `classes` | columns that hold the same ids |
//! | `values` | ids as they are written |
//! | `last_drawn` | what `lastval` returns to a session |
//! | `scan` | a pass over the trace: draws and uses |
//! | `clock` | when things happened |
//! | `windows` | how many draws there were before one |
//! | `anchor` | the position of a sequence when the log begins |
//! | `late_uses` | the same, from ids that sessions use some time after they drew them |
//! | `evidence` | what the log has to say of that |
//! | `proof` | what follows by elimination |
//! | `cases` | uses by sessions that had drawn, by the order and the times of the draws |
//! | `pattern` | what sessions do with what they drew |
//! | `in_order` | sessions that draw several times before they use it |
//! | [`infer`] | all of it together |
//! | `possible_ids` | ids that may have been drawn at all |
//! | `rows` | rows that statements pick and show |
//! | `mentions` | numbers and UUIDs within texts |
//! | `spots` | which of these are ids |
//! | [`plan`] | what a playback has to know of it |

mod anchor;
mod cases;
pub(crate) mod classes;
mod clock;
mod evidence;
mod in_order;
pub mod infer;
mod last_drawn;
mod late_uses;
pub(crate) mod mentions;
mod pattern;
pub mod plan;
mod possible_ids;
mod proof;
pub(crate) mod rows;
mod scan;
pub(crate) mod spots;
#[cfg(test)]
mod tests;
pub(crate) mod values;
mod windows;
