//! SQL logs: readers, playback, capture.
//!
//! - [`playback`] sends a trace to a server again.

pub mod ids;
pub mod playback;

// For `ids`, which moves last.
use seatrial_sqltext::{catalog, lexer, reading};
use seatrial_trace as trace;
use seatrial_trace::captured;

#[cfg(test)]
#[path = "../../sqltext/src/lexer/sql_like.rs"]
mod sql_like;
