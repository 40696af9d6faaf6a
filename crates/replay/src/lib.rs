//! SQL logs: readers, playback, capture.
//!
//! - [`capture`] is a proxy that makes a trace of what clients and a server say to each other.
//! - [`log`] reads logs of a server into them, in any of its formats.
//! - [`pgbench_log`] turns pgbench's per-transaction logs into the parts of a sample.
//! - [`streams`] splits a log without sessions into some that run side by side.
//! - [`intake`] takes logs into a trace, and tells a user what came of it.
//! - [`playback`] sends a trace to a server again.

pub mod capture;
pub mod ids;
pub mod intake;
pub mod log;
pub mod pgbench_log;
pub mod playback;
pub mod streams;

// For `ids`, which moves last.
use seatrial_sqltext::{catalog, lexer, reading};
use seatrial_trace as trace;
use seatrial_trace::captured;

#[cfg(test)]
#[path = "../../sqltext/src/lexer/sql_like.rs"]
mod sql_like;
