//! Orders of statements across sessions.
//!
//! | order | what waits |
//! |---|---|
//! | commit | a statement for all transactions that had ended when it began |
//! | object | a statement for earlier ones on the same table or sequence, if either writes |
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
//! | [`object_access`] | what a statement accesses |
//! | [`access_analyser`] | the same, of a text and its values |
//! | [`snapshots`] | snapshots of transactions |
//! | [`locks`] | rows that open transactions have locked |
//! | [`turns`] | the turns of statements |
//! | [`scan`] | accesses and turns, as the trace is read |
//! | [`edges`] | waits between statements |
//! | [`last_accesses`] | the last accesses to each object |
//! | [`graph`] | the graph of statements that wait |
//! | [`statement_order`] | the selected order |

mod access_analyser;
mod commit;
pub mod edges;
mod graph;
mod last_accesses;
mod locks;
pub mod object_access;
pub mod scan;
mod snapshots;
pub mod statement_order;
#[cfg(test)]
mod tests;
pub mod turns;

/// A position in the order: a captured time or a turn, and a number that distinguishes equal ones.
pub type OrderPosition = (i64, u64);
