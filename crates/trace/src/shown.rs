//! What a trace holds, as it crosses to Python in JSON.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::mix::Mix;
use crate::{TraceError, TraceReader};

/// What a trace holds, and what it was made of.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    /// The trace.
    pub trace: String,
    /// Its size.
    pub trace_bytes: u64,
    /// What it was made of (see [`super::origin::Origin`]).
    pub origin: Value,
    /// Its figures, with the first of the fingerprints only.
    pub mix: Mix,
    /// What is not among these fingerprints.
    pub rest: Rest,
}

/// Statements whose fingerprints are not told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Rest {
    /// Fingerprints; at least so many where the trace has more than can be told apart.
    pub fingerprints: u64,
    /// Their statements.
    pub calls: u64,
    /// Sum of their durations.
    pub total_us: u64,
}

impl Shown {
    /// Reads a trace once, and keeps the first `top` fingerprints by their total time.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is no trace.
    pub fn of(trace: &Path, top: usize) -> Result<Shown, TraceError> {
        let reader = TraceReader::open(trace)?;
        let mut mix = Mix::of(&reader)?;
        let rest = rest(&mix, top);
        mix.fingerprints.truncate(top);
        Ok(Shown {
            trace: trace.to_string_lossy().into_owned(),
            trace_bytes: trace.metadata().map_or(0, |about| about.len()),
            origin: reader.origin().clone(),
            mix,
            rest,
        })
    }
}

fn rest(mix: &Mix, top: usize) -> Rest {
    let others = Rest {
        fingerprints: mix.others.let_go,
        calls: mix.others.calls,
        total_us: mix.others.total_us,
    };
    mix.fingerprints.iter().skip(top).fold(others, |rest, one| Rest {
        fingerprints: rest.fingerprints + 1,
        calls: rest.calls + one.sums.calls,
        total_us: rest.total_us.saturating_add(one.sums.total_us),
    })
}
