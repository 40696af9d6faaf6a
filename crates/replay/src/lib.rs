//! SQL logs: readers, playback, capture.
//!
//! - [`capture`] is a proxy that makes a trace of what clients and a server say to each other.
//! - [`playback`] sends a trace to a server again.

pub mod capture;
pub mod ids;
pub mod playback;

// For `ids`, which moves last.
use seatrial_sqltext::{catalog, lexer, reading};
use seatrial_trace as trace;
use seatrial_trace::captured;

#[cfg(test)]
#[path = "../../sqltext/src/lexer/sql_like.rs"]
mod sql_like;
