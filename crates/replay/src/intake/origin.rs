//! What came of reading logs: it is told, and kept in the trace.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::log::Reading;
use crate::log::files::LogFile;
use crate::log::tally::{Example, Reason, Tally};
use crate::streams::SplitReport;
use crate::trace::Counts;

/// What a trace is made of, and what of the log is not in it.
#[derive(Debug, Clone, Serialize)]
pub struct Origin {
    /// Whether literals and parameters were replaced.
    pub is_masked: bool,
    /// What was read, in that order.
    pub files: Vec<File>,
    /// Where every record went.
    pub accounting: Accounting,
    /// The first of what could not be read.
    pub unreadable: Vec<Unreadable>,
    /// What was taken for granted, as sentences.
    pub notes: Vec<String>,
    /// Sessions, or streams.
    pub session_count: u64,
    /// Start of the first statement, Unix time in s; None where the log has no times.
    pub started_at: Option<f64>,
    /// End of the last statement as far as durations tell, likewise.
    pub ended_at: Option<f64>,
    /// How a log without sessions was split; None where it was not.
    pub split: Option<Streams>,
    /// The server's own number for its data: a replay is never sent there. None if unknown.
    pub system_identifier: Option<u64>,
}

/// What came of reading, with the trace that it was written to.
#[derive(Debug, Clone, Serialize)]
pub struct Taken {
    /// The trace.
    pub trace: String,
    /// Its size.
    pub trace_bytes: u64,
    /// How long it took.
    pub took_s: f64,
    /// What it is made of.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A file that was read.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // as in crate::log::files::LogFile
pub struct File {
    pub path: String,
    pub size_bytes: u64,
    pub log_bytes: u64,
    pub format: &'static str,
    pub prefix: String,
    pub is_guessed: bool,
}

/// Where every record went (see [`crate::captured`]).
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // as in crate::log::tally::Tally
pub struct Accounting {
    pub records: u64,
    pub statements: u64,
    pub joined: u64,
    pub sessions: u64,
    pub others: u64,
    pub unreadable: BTreeMap<&'static str, u64>,
    pub executable: u64,
    pub skipped: BTreeMap<String, u64>,
}

/// Something that could not be read.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // as in crate::log::tally::Example
pub struct Unreadable {
    pub reason: &'static str,
    pub file: String,
    pub line: u64,
    pub offset_bytes: u64,
    pub text: String,
}

/// How a log without sessions was split.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // as in crate::streams::SplitReport
pub struct Streams {
    pub streams: usize,
    pub transactions: u64,
    pub pinned: u64,
    pub alone: u64,
    pub steps: Option<u64>,
    pub is_measured: bool,
    pub crowded: u64,
}

impl Origin {
    /// What came of a reading. Where the trace is masked, nothing of the log's text is kept.
    pub fn new(
        reading: &Reading,
        counts: &Counts,
        split: Option<SplitReport>,
        is_masked: bool,
        system_identifier: Option<u64>,
    ) -> Origin {
        let seconds = |us: i64| us as f64 / 1e6;
        Origin {
            is_masked,
            files: reading.files.iter().map(file).collect(),
            accounting: accounting(&reading.tally, counts),
            unreadable: reading
                .tally
                .examples
                .iter()
                .map(|one| unreadable(one, is_masked))
                .collect(),
            notes: reading.notes.clone(),
            session_count: counts.sessions,
            started_at: reading.span.map(|span| seconds(span.first_us)),
            ended_at: reading.span.map(|span| seconds(span.last_us)),
            split: split.map(streams),
            system_identifier,
        }
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

fn accounting(tally: &Tally, counts: &Counts) -> Accounting {
    let by_reason = Reason::ALL.map(|reason| (reason.name(), tally.unreadable[reason as usize]));
    Accounting {
        records: tally.records,
        statements: tally.statements,
        joined: tally.joined,
        sessions: tally.sessions,
        others: tally.others,
        unreadable: by_reason.into_iter().filter(|(_, count)| *count > 0).collect(),
        executable: tally.executable,
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

fn streams(split: SplitReport) -> Streams {
    let SplitReport { streams, transactions, pinned, alone, steps, is_measured, crowded, .. } =
        split;
    Streams { streams, transactions, pinned, alone, steps, is_measured, crowded }
}
