//! What makes a trace of a file whose writing was cut off: see [`seatrial_columnar`].
//!
//! A capture may last for days and may be killed, so it makes checkpoints.

use std::path::Path;

pub use seatrial_columnar::names::{end_of, part_of, was_cut_off};
use seatrial_columnar::recovery;

use super::{TraceError, TraceReader};

/// Makes a trace of one that was cut off, as it was when its end was written last.
///
/// # Errors
///
/// When there is none, it is still being written, or its files cannot be written or do not fit each
/// other.
pub fn recover(trace: &Path) -> Result<TraceReader, TraceError> {
    recovery::recover(trace).map_err(|error| TraceError::of(trace, error))?;
    TraceReader::open(trace)
}
