//! Ids: which values of a statement the server had made for another, so that a playback writes what
//! it made now.
//!
//! A server numbers rows by itself (serial and identity columns, sequences, UUIDs), and other
//! statements name the rows by these numbers. A playback gets other numbers, so a statement with
//! captured numbers finds another row. Each id of a statement is therefore traced to the draw that
//! gave it, and replaced by the value that this draw gives now. An id that cannot be traced is left
//! unchanged, counted and reported.
//!
//! A log does not hold what a statement gave back. What it shows is enough all the same: a sequence
//! counts on, so an id says how many draws there were before its own.
//!
//! | level | when |
//! |---|---|
//! | exact | what came back was captured |
//! | proved | no other draw can have given it |
//! | by pattern | others could have, but all that are proved of these two texts are of one kind |
//!
//! | part | rule |
//! |---|---|
//! | [`classes`] | columns that hold the same ids |
//! | [`values`] | ids as they are written |
//! | [`last_drawn`] | what `lastval` returns to a session |
//! | [`scan`] | a pass over the trace: draws and uses |
//! | [`clock`] | when things happened |
//! | [`windows`] | how many draws there were before one |
//! | [`anchor`] | the position of a sequence when the log begins |
//! | [`own_late`] | the same, from ids that sessions use some time after they drew them |
//! | [`evidence`] | what the log has to say of that |
//! | [`proof`] | what follows by elimination |
//! | [`cases`] | uses by sessions that had drawn, by the order and the times of the draws |
//! | [`pattern`] | what sessions do with what they drew |
//! | [`in_order`] | sessions that draw several times before they use it |
//! | [`infer`] | all of it together |
//! | [`reach`] | ids that may have been drawn at all |
//! | [`rows`] | rows that statements pick and show |
//! | [`mentions`] | numbers and UUIDs within texts |
//! | [`spots`] | which of these are ids |
//! | [`plan`] | what a playback has to know of it |

pub mod anchor;
pub mod cases;
pub mod classes;
pub mod clock;
pub mod evidence;
pub mod in_order;
pub mod infer;
pub mod last_drawn;
pub mod mentions;
pub mod own_late;
pub mod pattern;
pub mod plan;
pub mod proof;
pub mod reach;
pub mod rows;
pub mod scan;
pub mod spots;
#[cfg(test)]
mod tests;
pub mod values;
pub mod windows;
