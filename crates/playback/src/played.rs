//! The result of a playback.
//!
//! [`ReplayResult`] has the parts that any sample has, and a [`ReplayRecord`] of what is particular
//! to a replay; the record crosses to Python as JSON and is stored as it is
//! (`seatrial.results.replay.ReplayRecord` has the same fields).

use std::collections::BTreeMap;

use seatrial_gauge::timeline::SliceRow;
use seatrial_gauge::{Histogram, Outcome};
use seatrial_sqltext::lexer::class::Class;
use serde::Serialize;

use super::rewrite::reported::Ids;
use super::spec::Order;

/// A playback that ended.
#[derive(Debug)]
pub struct ReplayResult {
    /// When it began.
    pub start_unix_ns: u64,
    /// How long it lasted.
    pub duration_ns: u64,
    /// How it ended.
    pub end: PlaybackEnd,
    /// What became of all that was sent: `offered = completed + failed + in flight at the end`.
    pub outcome: Outcome,
    /// By class, of those that were sent.
    pub kinds: Vec<ClassTimes>,
    /// Length of a timeline's slice.
    pub slice_ns: u64,
    /// Answers by time; kinds are indexes of `kinds`.
    pub slices: Vec<SliceRow>,
    /// Times without answers, longest threshold and more: start, length (ns), open statements.
    pub stalls: Vec<Stall>,
    /// Stalls beyond those that are kept.
    pub stalls_dropped: u64,
    /// What percentiles of several hosts together are computed from; None for a whole trace.
    pub counts: Option<MergeableCounts>,
    /// How late after the agreed moment it began; 0 without such.
    pub start_lateness_ns: u64,
    /// What is particular to a replay.
    pub record: ReplayRecord,
}

/// Counts of times, which can be added to those of other hosts.
#[derive(Debug)]
pub struct MergeableCounts {
    /// By fingerprint.
    pub queries: BTreeMap<String, QueryCounts>,
    /// How late statements were sent after they were due.
    pub lag: Histogram,
    /// From when a statement could be sent to when it was.
    pub driver_lag: Histogram,
}

/// Encoded histograms of one fingerprint, without the longest time: the record has it.
#[derive(Debug)]
pub struct QueryCounts {
    /// From the actual start.
    pub service: Vec<u8>,
    /// From the intended start.
    pub response: Vec<u8>,
    /// On the server, in the capture.
    pub captured: Vec<u8>,
}

/// How a playback ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaybackEnd {
    /// Every statement was sent or skipped.
    Complete,
    /// The user ended it.
    Interrupted,
    /// The server went away, or takes no connections; its words.
    ServerLost(String),
}

/// Statements of one class.
#[derive(Debug)]
pub struct ClassTimes {
    /// The class.
    pub class: Class,
    /// Answered well.
    pub completed: u64,
    /// Answered by an error, or not at all.
    pub failed: u64,
    /// From the intended start.
    pub response: Histogram,
    /// From the actual start.
    pub service: Histogram,
}

/// A time in which statements were open and none was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// From the start of the playback.
    pub start_ns: u64,
    /// Until the next answer.
    pub length_ns: u64,
    /// Statements that were open at its end.
    pub depth: u32,
}

/// What is particular to a replay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ReplayRecord {
    /// By class: `captured = ok + failed + skipped + not_reached`.
    pub classes: BTreeMap<String, Account>,
    /// Transactions and statements outside of them that ended well.
    pub commits: Commits,
    /// Errors against those of the capture.
    pub errors: Errors,
    /// Rows and results against those of the capture.
    pub rows: Rows,
    /// How late statements were sent.
    pub lag: Lag,
    /// By slices of time: what was answered, and what had been captured.
    pub timeline: Vec<TimelineSlice>,
    /// Length of a slice of `timeline`, in s.
    pub timeline_slice_s: f64,
    /// By kind of query, those that took the most time first.
    pub queries: Vec<Query>,
    /// Statements of queries beyond those in `queries`.
    pub queries_dropped: u64,
    /// What the order delayed.
    pub order: OrderDelays,
    /// Sessions and their connections.
    pub sessions: Sessions,
    /// What the driver itself used.
    pub client: DriverUsage,
    /// From the first captured statement to the end of the last that is played, in s.
    pub captured_s: f64,
    /// Ids, and which of them were rewritten.
    pub ids: Ids,
}

/// Statements of one class, all of them accounted for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Account {
    /// In the trace.
    pub captured: u64,
    /// Sent, and answered well.
    pub ok: u64,
    /// Sent, and answered by an error, or never.
    pub failed: u64,
    /// Not sent, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Not sent because the playback ended before.
    pub not_reached: u64,
}

/// Transactions that ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Commits {
    /// COMMIT and END in the trace, of transactions that had not failed as far as known.
    pub captured: u64,
    /// Those answered by the tag COMMIT.
    pub committed: u64,
    /// Those answered by the tag ROLLBACK: their transaction failed now.
    pub rolled_back: u64,
    /// Those answered by an error: their transaction was rolled back, too.
    pub failed: u64,
}

/// Errors, against those of the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Errors {
    /// Of the same code as in the capture.
    pub same: u64,
    /// Where the capture has another code.
    pub other: u64,
    /// Where the capture has none.
    pub new: u64,
    /// In the capture, of statements that succeeded now.
    pub gone: u64,
    /// In the capture.
    pub captured: u64,
    /// Statements that were sent and never answered.
    pub unanswered: u64,
    /// By code, of statements that were answered.
    pub by_code: BTreeMap<String, CodeErrors>,
    /// The most frequent, at most 32.
    pub examples: Vec<ErrorExample>,
}

/// Errors of one code, in the capture and now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CodeErrors {
    /// In the capture.
    pub captured: u64,
    /// Now.
    pub now: u64,
}

/// Errors of one code of one kind of query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ErrorExample {
    /// `same`, `other`, `new`, `gone` or `unanswered`.
    pub kind: String,
    /// Code in the capture; empty for none.
    pub captured_sqlstate: String,
    /// Code now; empty for none.
    pub sqlstate: String,
    /// The server's sentence to the first of them.
    pub message: String,
    /// The query's text without its literals.
    pub text: String,
    /// How many.
    pub count: u64,
    /// Position of the first in the trace, from 0.
    pub number: u64,
    /// Its session's name in the log.
    pub session: String,
}

/// Rows and results, against those of the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Rows {
    /// Statements with captured row counts that succeeded in both.
    pub compared: u64,
    /// Of these, with as many rows.
    pub equal: u64,
    /// Commands whose tag is not what their text says, such as a COMMIT that was a ROLLBACK.
    pub tags_different: u64,
    /// Commands whose tag was compared.
    pub tags_compared: u64,
    /// Of `writes`, those that affected no row.
    pub empty_writes: u64,
    /// UPDATE and DELETE without a captured row count that were answered well.
    pub writes: u64,
    /// Of `reads`, those that returned no row.
    pub empty_reads: u64,
    /// SELECT without a captured row count that were answered well.
    pub reads: u64,
    /// The first differences of each query, at most 32.
    pub examples: Vec<RowsExample>,
    /// Expected and observed, by class of statement.
    pub by_class: BTreeMap<String, ClassRows>,
}

/// Rows and errors of one class of statements, expected and observed, of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ClassRows {
    /// Statements with captured row counts that succeeded in both.
    pub compared: u64,
    /// Of these, in the capture.
    pub expected_rows: u64,
    /// Of these, now.
    pub observed_rows: u64,
    /// Of these, statements with another number of them.
    pub different: u64,
    /// Statements that failed in the capture.
    pub expected_errors: u64,
    /// That failed now.
    pub observed_errors: u64,
}

/// A statement that had other rows than in the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RowsExample {
    /// The query's text without its literals.
    pub text: String,
    /// Rows in the capture; None where a tag differs.
    pub captured: Option<u64>,
    /// Rows now.
    pub rows: Option<u64>,
    /// The command tag now.
    pub tag: String,
    /// How many of this query differ.
    pub count: u64,
    /// Position of the first in the trace, from 0.
    pub number: u64,
}

/// How late statements were sent after they were due; at maximum speed nothing is due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Lag {
    /// Statements that were due at a time.
    pub paced: u64,
    /// Sent within a millisecond of it.
    pub within_1ms: u64,
    /// Median of the lag.
    pub ns_p50: u64,
    /// 99th percentile of the lag.
    pub ns_p99: u64,
    /// Longest lag.
    pub ns_max: u64,
    /// Of what was late by more than a millisecond: its session was still busy.
    pub late_by_session: u64,
    /// The order delayed it.
    pub late_by_order: u64,
    /// There was no connection for it: all were in use.
    pub late_by_connections: u64,
    /// The driver itself was late.
    pub late_by_driver: u64,
    /// Lag of the driver alone: from when a statement could be sent to when it was.
    pub driver_ns_p99: u64,
    /// Longest lag of the driver alone.
    pub driver_ns_max: u64,
    /// When the last of the statements that were due was due, from the start of the playback.
    pub due_ns_last: u64,
    /// When the last of them was sent.
    pub sent_ns_last: u64,
}

/// A slice of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TimelineSlice {
    /// Statements answered in it.
    pub answered: u64,
    /// Of these, by an error.
    pub failed: u64,
    /// Statements of the capture that were due in it at the requested speed; at maximum speed,
    /// those of the capture's own time.
    pub captured: u64,
    /// Statements sent in it that had a due time.
    pub due: u64,
    /// Mean lag of what was sent in it, in ns; None where nothing was due.
    pub lag_ns_mean: Option<f64>,
    /// Longest lag of what was sent in it, in ns.
    pub lag_ns_max: Option<u64>,
    /// Mean response time of what was answered in it, in ns.
    pub response_ns_mean: Option<f64>,
    /// Sessions connected at its end.
    pub sessions: u32,
}

/// All statements of one fingerprint that were sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Query {
    /// Hash of the fingerprint, 16 digits of base 16.
    pub fingerprint: String,
    /// Text without its literals.
    pub text: String,
    /// Class.
    pub class: String,
    /// Answered well.
    pub ok: u64,
    /// Answered by an error, or never.
    pub failed: u64,
    /// Service time of all of them together, in ns.
    pub service_ns_sum: u64,
    /// Median of the service time, in ns.
    pub service_ns_p50: u64,
    /// 95th percentile of the service time, in ns.
    pub service_ns_p95: u64,
    /// 99th percentile of the service time, in ns.
    pub service_ns_p99: u64,
    /// Longest service time, in ns.
    pub service_ns_max: u64,
    /// Median of the response time, in ns.
    pub response_ns_p50: u64,
    /// 99th percentile of the response time, in ns.
    pub response_ns_p99: u64,
    /// Statements with a captured duration.
    pub captured_known: u64,
    /// Sum of the durations in the capture, on the server, in ns.
    pub captured_ns_sum: u64,
    /// Median of the durations in the capture, in ns.
    pub captured_ns_p50: u64,
    /// 95th percentile of the durations in the capture, in ns.
    pub captured_ns_p95: u64,
    /// 99th percentile of the durations in the capture, in ns.
    pub captured_ns_p99: u64,
    /// Rows that came of it.
    pub rows: u64,
}

/// What the order delayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OrderDelays {
    /// Which order it is.
    pub mode: Order,
    /// Statements that had to wait for other sessions.
    pub delayed: u64,
    /// How long all of them waited together.
    pub waited_ns: u64,
    /// Released before their turn: a backend waited for a lock of their session.
    pub released_by_lock: u64,
    /// Released before their turn: nothing else moved for as long as the patience lasts.
    pub released_by_patience: u64,
    /// Given a later turn than the capture's: the server made them wait for a lock that another
    /// session had here first.
    pub postponed: u64,
    /// How often more of the trace had to be read ahead than is usual, for a lock's sake.
    pub read_further: u64,
    /// Edges from statements to those that had to wait for them, done or not.
    pub edges: u64,
    /// What an edge took the driver, with all that finding it took; None where there are fewer
    /// edges than statements.
    pub edge_ns: Option<f64>,
    /// Driver time for ordering a statement, with or without edges; None if no such order was kept.
    pub statement_ns: Option<f64>,
    /// Statements that had to wait, by what they waited for last.
    pub delayed_by: BTreeMap<&'static str, u64>,
}

/// Sessions and their connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Sessions {
    /// In the trace, of the databases that are played.
    pub captured: u64,
    /// Open at once in the capture, at most.
    pub captured_open_max: u64,
    /// Connections made.
    pub connected: u64,
    /// Connections open at once, at most.
    pub open_max: u64,
    /// Connection attempts that the server refused; a session tries again.
    pub refused: u64,
    /// Connections that the server ended.
    pub lost: u64,
    /// Sessions that never disconnected in the capture: closed after their last statement.
    pub never_ended: u64,
    /// The server's words to the first refusal or loss; empty for none.
    pub words: String,
}

/// What the driver itself used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct DriverUsage {
    /// Processor time of its two threads: the loop, which sends all statements, and the reader of
    /// the trace.
    pub cpu_user_ns: u64,
    /// Their processor time in the kernel.
    pub cpu_system_ns: u64,
    /// Of both, the processor time of the reader.
    pub reader_cpu_ns: u64,
    /// Time that the loop could have run and did not (`/proc/thread-self/schedstat`).
    pub run_delay_ns: u64,
    /// Time that the loop waited for the server or the clock.
    pub idle_ns: u64,
    /// Most memory that the process had, in bytes (`VmHWM` cannot be reset: sampled).
    pub memory_bytes_max: u64,
    /// Maximum number of statements read ahead.
    pub read_ahead_max: u64,
}
