//! pgbench's per-transaction log (`pgbench --log`), read into the parts of a sample.
//!
//! The log is described in PostgreSQL's manual, "pgbench", "Per-Transaction Logging"; the rest
//! is from `src/bin/pgbench/pgbench.c` (`doLog`, `processXactStats`):
//!
//! - A transaction's `time` counts from its scheduled start where `--rate` is given, so it holds
//!   the schedule lag: response time = `time`, service time = `time` - `schedule_lag`.
//! - The time stamp is read when the line is written, right after the transaction ended: start =
//!   stamp - `time`.
//! - Each thread writes its own file, in the order in which its transactions end. All files
//!   together are therefore in order of time once they are merged, and none is held in memory.
//! - pgbench ends by itself only when every transaction has ended, so none is in flight at the end.
//!
//! | part | rule |
//! |---|---|
//! | [`mod@line`] | one line |
//! | [`mod@file`] | the lines of one file, the order of time checked |
//! | [`merge`] | the lines of all files in order of time |
//! | [`totals`] | totals, histograms and timeline |
//! | [`stalls`] | stalls |

pub mod file;
pub mod line;
pub mod merge;
pub mod spec;
pub mod stalls;
#[cfg(test)]
mod tests;
pub mod totals;

use std::path::PathBuf;

use seatrial_gauge::{AccountingError, KindTotals, Outcome, SliceRow, UserError};

use file::LogFile;
use merge::Merge;
use spec::LogSpec;
use stalls::{StallFinder, Stalls};
use totals::{ExactTotals, Failure, SampleTotals};

/// Why logs cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The request makes no sense.
    #[error("the log's specification is malformed: {0}")]
    Spec(String),
    /// A file cannot be opened or read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A line is none of pgbench's, or not one of the run that was described.
    #[error("{}, line {line}: {text:?}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// The text there, or its beginning.
        text: String,
        /// A phrase that names the error.
        reason: String,
    },
    /// The terms of the accounting equation do not agree.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

impl LogError {
    /// Returns it as a user reads it.
    pub fn explained(&self) -> UserError {
        let seen = self.to_string();
        match self {
            LogError::Line { .. } => UserError::usage(
                seen,
                "The log was edited, or put together from several files",
                "Name the files as pgbench wrote them, one for each of its threads",
            ),
            LogError::Io { .. } => UserError::usage(
                seen,
                "It is missing, or closed to this user",
                "See `ls -l` of its folder",
            ),
            LogError::Spec(_) | LogError::Accounting(_) => UserError::defect(seen),
        }
    }
}

/// The content of one sample's logs.
#[derive(Debug)]
pub struct LogSample {
    /// The sample's start, from which slices and stalls count.
    pub start_unix_ns: u64,
    /// As given; else until the last transaction ended.
    pub duration_ns: u64,
    /// The accounting equation's terms.
    pub outcome: Outcome,
    /// Names of the kinds, in the order of their index in all that follows.
    pub kind_names: Vec<String>,
    /// Totals by kind.
    pub kinds: Vec<KindTotals>,
    /// Length of a timeline slice.
    pub slice_ns: u64,
    /// The timeline.
    pub slices: Vec<SliceRow>,
    /// Stalls in order of time, and how many more there were.
    pub stalls: Stalls,
    /// Examples of failed transactions.
    pub failures: Vec<Failure>,
    /// Exact sums over all processes.
    pub total: ExactTotals,
    /// Exact sums by process, in the order in which they were given.
    pub processes: Vec<ExactTotals>,
    /// Files whose last line was cut off: one transaction each of which nothing more is known.
    pub truncated_lines: u64,
    /// Lines with an earlier time than the one before them, as when a wall clock is set back.
    pub disordered_lines: u64,
}

/// Reads all logs of a sample.
///
/// # Errors
///
/// When a file cannot be read, a line makes no sense, or lines are not in order of time.
pub fn read(spec: &LogSpec) -> Result<LogSample, LogError> {
    let start_unix_ns = match spec.start_unix_ns {
        Some(start_ns) => start_ns,
        None => earliest_start_us(spec)?.unwrap_or(0) * 1_000,
    };
    let (kind_names, kinds) = (spec.kind_names(), spec.kinds_by_script());
    let mut totals = SampleTotals::new(spec, start_unix_ns, kind_names.len());
    let mut stall_finder = StallFinder::new(spec, start_unix_ns / 1_000, kind_names.len());
    let mut merge = Merge::open(spec)?;
    while let Some((process, line)) = merge.next_line()? {
        let kind = kinds[line.script as usize];
        stall_finder.take_in(process, kind, &line);
        totals.take_in(process, kind, &line);
    }
    let (truncated_lines, disordered_lines) = merge.damaged_lines();
    let parts = totals.finish()?;
    let last_end_ns = parts.total.last_end_unix_us.unwrap_or(0) * 1_000;
    Ok(LogSample {
        start_unix_ns,
        duration_ns: spec.duration_ns.unwrap_or(last_end_ns.saturating_sub(start_unix_ns)),
        outcome: parts.outcome,
        kind_names,
        kinds: parts.kinds,
        slice_ns: parts.slice_ns,
        slices: parts.slices,
        stalls: stall_finder.finish(),
        failures: parts.failures,
        total: parts.total,
        processes: parts.processes,
        truncated_lines,
        disordered_lines,
    })
}

/// Intended start of the earliest transaction. Any line may be that of a transaction that began
/// before all others and lasted, so all of them are looked at.
fn earliest_start_us(spec: &LogSpec) -> Result<Option<u64>, LogError> {
    let mut earliest_us: Option<u64> = None;
    for path in spec.processes.iter().flatten() {
        let mut file = LogFile::open(path, spec)?;
        while let Some(line) = file.next_line()? {
            let start_us = line.start_unix_us();
            earliest_us = Some(earliest_us.map_or(start_us, |earlier_us| earlier_us.min(start_us)));
        }
    }
    Ok(earliest_us)
}
