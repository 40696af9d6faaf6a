//! What has to be done before a statement is sent, where more than each session's own order is
//! kept.
//!
//! | order | what waits |
//! |---|---|
//! | commit | a statement for all transactions that had ended when it began |
//! | object | one that touches a table or sequence for all before it that do, if either writes |
//! | key | the same, but rows that differ in a key are separate objects |
//! | strict | each for the one before it |
//!
//! Object, key and strict keep one and the same order of all statements, their turns: strict keeps
//! it of all, the others where two statements of different sessions conflict. So whatever else
//! overlaps, the three leave the same data.
//!
//! | part | rule |
//! |---|---|
//! | [`commit`] | the order of commits |
//! | [`object_access`] | what a statement touches |
//! | [`access_analyser`] | the same, of a text and its values |
//! | [`snapshots`] | whose transaction sees one moment |
//! | [`locks`] | rows that open transactions have locked |
//! | [`turns`] | the turns of statements |
//! | [`scan`] | both, as the trace is read |
//! | [`edges`] | who waits for whom |
//! | [`last`] | who touched what last |
//! | [`graph`] | what is done, and who may go on |
//! | [`keeper`] | whichever it is |

pub mod access_analyser;
pub mod commit;
pub mod edges;
pub mod graph;
pub mod keeper;
pub mod last;
pub mod locks;
pub mod object_access;
pub mod scan;
pub mod snapshots;
#[cfg(test)]
mod tests;
pub mod turns;

/// A place in the order: a time of the capture or a turn, and a number that separates equal ones.
pub type OrderPosition = (i64, u64);
