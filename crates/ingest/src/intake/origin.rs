//! The summary of reading logs: reported, and stored in the trace.

use seatrial_trace::Counts;
use seatrial_trace::origin::{Accounting, File, Origin, Streams, Unreadable};
use serde::Serialize;

use crate::log::Reading;
use crate::log::files::LogFile;
use crate::log::record_counts::{Example, Reason, RecordCounts};

/// The result of reading, with the trace that it was written to.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct IntakeResult {
    /// The trace.
    pub trace: String,
    /// Its size.
    pub trace_bytes: u64,
    /// How long it took.
    pub took_s: f64,
    /// The summary.
    #[serde(flatten)]
    pub origin: Origin,
}

/// Returns the summary of a reading. Where the trace is masked, it contains nothing of the log's
/// text.
pub fn origin_of(
    reading: &Reading,
    counts: &Counts,
    split: Option<Streams>,
    is_masked: bool,
    system_identifier: Option<u64>,
) -> Origin {
    let seconds = |us: i64| us as f64 / 1e6;
    Origin {
        is_masked,
        files: reading.files.iter().map(file).collect(),
        accounting: accounting(&reading.counted, counts),
        unreadable: reading.counted.examples.iter().map(|one| unreadable(one, is_masked)).collect(),
        notes: reading.notes.clone(),
        session_count: counts.sessions,
        started_at: reading.span.map(|span| seconds(span.first_us)),
        ended_at: reading.span.map(|span| seconds(span.last_us)),
        split,
        system_identifier,
    }
}

fn file(file: &LogFile) -> File {
    File {
        path: file.path.to_string_lossy().into_owned(),
        size_bytes: file.size_bytes,
        log_bytes: file.log_bytes,
        format: file.format.name(),
        prefix: file.prefix.clone(),
        is_guessed: file.is_guessed,
    }
}

fn accounting(counted: &RecordCounts, counts: &Counts) -> Accounting {
    let by_reason = Reason::ALL.map(|reason| (reason.name(), counted.unreadable[reason as usize]));
    Accounting {
        records: counted.records,
        statements: counted.statements,
        joined: counted.joined,
        sessions: counted.sessions,
        others: counted.others,
        unreadable: by_reason.into_iter().filter(|(_, count)| *count > 0).collect(),
        executable: counted.executable,
        skipped: counts.skipped.clone(),
    }
}

fn unreadable(example: &Example, is_masked: bool) -> Unreadable {
    let text = String::from_utf8_lossy(&example.text).into_owned();
    Unreadable {
        reason: example.reason.name(),
        file: example.file.to_string_lossy().into_owned(),
        line: example.line,
        offset_bytes: example.offset_bytes,
        text: if is_masked { String::new() } else { text },
    }
}
