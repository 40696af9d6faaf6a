//! Accounting: what became of every message of a client, and of every connection.

use std::collections::BTreeMap;

use seatrial_trace::Counts;
use seatrial_trace::captured::Skip;

use super::packets::counts::PacketCounts;

/// Names of settings that are counted apart.
const SETTINGS_MAX: usize = 64;

/// What was counted. A client's messages are the records of a capture (see
/// [`seatrial_trace::captured`]):
///
/// ```text
/// records = statements + joined + sessions + others + unreadable(by reason)
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Messages of clients that were read.
    pub records: u64,
    /// Statements that went into the trace.
    pub statements: u64,
    /// Further messages of a statement: parse, bind, describe, sync, data of COPY.
    pub joined: u64,
    /// Messages of startup, authentication, cancellation and termination.
    pub sessions: u64,
    /// Statements that the server skipped because an earlier one of their pipeline had failed.
    pub others: u64,
    /// Messages of a kind that no client sends.
    pub not_understood: u64,
    /// Statements that are not in the trace because its writer was behind.
    pub writer_behind: u64,
    /// Statements that can be sent again.
    pub executable: u64,
    /// Statements that cannot, by [`Skip`].
    pub skipped: [u64; Skip::COUNT],
    /// Counters that only a capture has.
    pub wire: WireCounts,
    /// Start of the first statement and end of the last, in microseconds since 1970.
    pub span: Option<(i64, i64)>,
}

/// What was captured besides statements.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct WireCounts {
    /// Connections that clients made.
    pub connections: u64,
    /// Open at once, at most.
    pub open_max: u64,
    /// Of these, encrypted: forwarded without being read.
    pub encrypted: u64,
    /// Of these, for replication: forwarded without being read.
    pub replication: u64,
    /// Of these, cancel requests.
    pub cancels: u64,
    /// Of these, rejected by the server.
    pub not_let_in: u64,
    /// Of these, closed because the server could not be reached.
    pub no_server: u64,
    /// Of these, in another protocol than PostgreSQL's: forwarded without being read from there on.
    pub not_understood: u64,
    /// Of the former, those that were authenticated before.
    pub broken_off: u64,
    /// Of these, with an internal error: forwarded without being read from there on.
    pub defects: u64,
    /// Answers that match no request; requests before them are not in the trace.
    pub out_of_step: u64,
    /// Statements without an answer: their connection or the capture ended first.
    pub unanswered: u64,
    /// Statements whose returned values were kept.
    pub returned: u64,
    /// Their rows.
    pub returned_rows: u64,
    /// Of these statements, how many returned more than is kept.
    pub returned_cut: u64,
    /// Values of kept rows in a binary format that is not converted to text.
    pub returned_unread: u64,
    /// Statements whose rows are not kept because it is unknown which of several results they are.
    pub returned_unclear: u64,
    /// Statements that can be sent again although they were rolled back with a later one.
    pub rolled_back_kept: u64,
    /// Number of sessions by setting that they sent at startup.
    pub settings: BTreeMap<String, u64>,
    /// Bytes that went to the server.
    pub to_server_bytes: u64,
    /// Bytes that went to clients.
    pub to_clients_bytes: u64,
    /// Counters that only a capture from packets has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketCounts>,
}

impl WireCounts {
    /// Counts that a session sent a setting at startup.
    pub fn setting(&mut self, name: String) {
        if self.settings.len() < SETTINGS_MAX || self.settings.contains_key(&name) {
            *self.settings.entry(name).or_default() += 1;
        }
    }
}

impl MessageCounts {
    pub fn statement(&mut self, skip: Option<Skip>, start_us: i64, end_us: i64) {
        self.statements += 1;
        match skip {
            None => self.executable += 1,
            Some(skip) => self.skipped[skip as usize] += 1,
        }
        let (first_us, last_us) = self.span.get_or_insert((start_us, end_us));
        *first_us = start_us.min(*first_us);
        *last_us = end_us.max(*last_us);
    }

    /// Makes the counters agree with what was written. Missing statements were in progress at an
    /// internal error; returns a sentence if no such error is known.
    pub fn settle(&mut self, written: &Counts) -> Option<String> {
        let was_reported = self.wire.defects > 0;
        let fault = format!(
            "{} messages, of which {} are accounted for; {} statements were seen and {} written: \
             this is a defect of ours, please report it. The trace has all that was written.",
            self.records,
            self.accounted(),
            self.statements,
            written.statements
        );
        let observed = (self.records, self.statements, self.executable);
        if observed == (self.accounted(), written.statements, written.executable) {
            return None;
        }
        (self.statements, self.executable) = (written.statements, written.executable);
        self.not_understood += self.records.saturating_sub(self.accounted());
        self.records = self.accounted();
        if was_reported {
            return None;
        }
        self.wire.defects += 1;
        Some(fault)
    }

    /// The sum of the outcomes of messages; it equals `records`.
    pub fn accounted(&self) -> u64 {
        self.statements
            + self.joined
            + self.sessions
            + self.others
            + self.not_understood
            + self.writer_behind
    }
}
