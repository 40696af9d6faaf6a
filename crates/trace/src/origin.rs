//! What a trace was made from, as it is kept in its metadata and crosses to Python in JSON.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a trace is made of, and what of the log is not in it.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
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
    /// End of the last statement according to the logged durations, likewise.
    pub ended_at: Option<f64>,
    /// How a log without sessions was split; None where it was not.
    pub split: Option<Streams>,
    /// The server's own number for its data: a replay is never sent there. None if unknown.
    pub system_identifier: Option<u64>,
}

/// A file that was read.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct File {
    /// Its path, or what was listened to.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its size unpacked.
    pub log_bytes: u64,
    /// Its format.
    pub format: &'static str,
    /// The prefix of its lines; empty where the format has none.
    pub prefix: String,
    /// Whether the prefix was guessed.
    pub is_guessed: bool,
}

/// Where every record went (see [`crate::captured`]).
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Accounting {
    /// Records, or messages of clients.
    pub records: u64,
    /// Statements, each once.
    pub statements: u64,
    /// Records that say more of a statement.
    pub joined: u64,
    /// Records of connections that come and go.
    pub sessions: u64,
    /// Records of anything else.
    pub others: u64,
    /// What could not be read, by its reason.
    pub unreadable: BTreeMap<&'static str, u64>,
    /// Statements that can be sent again.
    pub executable: u64,
    /// Statements that cannot, by their reason.
    pub skipped: BTreeMap<String, u64>,
}

/// Something that could not be read.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Unreadable {
    /// Why.
    pub reason: &'static str,
    /// The file.
    pub file: String,
    /// Its line in the file, from 1.
    pub line: u64,
    /// Where in the file, unpacked.
    pub offset_bytes: u64,
    /// The text there, or its beginning; empty where the trace is masked.
    pub text: String,
}

/// How a log without sessions was split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Streams {
    /// Streams that got a statement.
    pub streams: usize,
    /// Transactions, each statement outside of any block being one.
    pub transactions: u64,
    /// Transactions that had to be in the first stream.
    pub pinned: u64,
    /// Transactions that conflict with every other.
    pub alone: u64,
    /// Length of the schedule in statements; None where the log has times.
    pub steps: Option<u64>,
    /// Whether the streams are those that were active at once.
    pub is_measured: bool,
    /// Statements that begin while the previous one in their stream is active.
    pub crowded: u64,
}
