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
    /// Messages that say more of a statement: parse, bind, describe, sync, data of COPY.
    pub joined: u64,
    /// Messages that begin, let in, cancel and end.
    pub sessions: u64,
    /// Statements that the server passed over, as one before them in a pipeline had failed.
    pub others: u64,
    /// Messages of a kind that no client sends.
    pub not_understood: u64,
    /// Statements that are not in the trace because its writer was behind.
    pub writer_behind: u64,
    /// Statements that can be sent again.
    pub executable: u64,
    /// Statements that cannot, by [`Skip`].
    pub skipped: [u64; Skip::COUNT],
    /// What is particular to a capture.
    pub seen: WireCounts,
    /// Start of the first statement and end of the last, in microseconds since 1970.
    pub span: Option<(i64, i64)>,
}

/// What was seen on the wire besides statements.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct WireCounts {
    /// Connections that clients made.
    pub connections: u64,
    /// Open at once, at most.
    pub open_max: u64,
    /// Of these, encrypted between client and server: passed on unread.
    pub encrypted: u64,
    /// Of these, for replication: passed on unread.
    pub replication: u64,
    /// Of these, requests to cancel what another does.
    pub cancels: u64,
    /// Of these, not let in by the server.
    pub not_let_in: u64,
    /// Of these, with no server to go to.
    pub no_server: u64,
    /// Of these, in a protocol that is not PostgreSQL's, from some point on: passed on unread.
    pub not_understood: u64,
    /// Of the former, those of clients that were let in before.
    pub broken_off: u64,
    /// Of these, where a defect of ours showed: passed on unread from then on.
    pub defects: u64,
    /// Answers that fit no request; what was requested before them is not in the trace.
    pub out_of_step: u64,
    /// Statements that were never answered: their connection ended, or the capture did.
    pub unanswered: u64,
    /// Statements whose returned values were kept.
    pub returned: u64,
    /// Rows of them.
    pub returned_rows: u64,
    /// Of these statements, how many returned more than is kept.
    pub returned_cut: u64,
    /// Values of kept rows that came in a form that has no text of ours.
    pub returned_unread: u64,
    /// Statements of which rows are not kept, as nobody knows which of several results they are.
    pub returned_unclear: u64,
    /// Statements that can be sent again although they were rolled back with a later one.
    pub rolled_back_kept: u64,
    /// Sessions by the name of what they set as they connected.
    pub settings: BTreeMap<String, u64>,
    /// Bytes that went to the server.
    pub to_server_bytes: u64,
    /// Bytes that went to clients.
    pub to_clients_bytes: u64,
    /// What is particular to packets, where it was captured from them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketCounts>,
}

impl WireCounts {
    /// Takes in that a session set something as it connected.
    pub fn setting(&mut self, name: String) {
        if self.settings.len() < SETTINGS_MAX || self.settings.contains_key(&name) {
            *self.settings.entry(name).or_default() += 1;
        }
    }
}

impl MessageCounts {
    /// Counts a statement that goes into the trace.
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

    /// Makes what was counted add up with what was written. What is missing then was under way
    /// where a defect of ours showed; a sentence where none did that is known.
    pub fn settle(&mut self, written: &Counts) -> Option<String> {
        let was_reported = self.seen.defects > 0;
        let fault = format!(
            "{} messages, of which {} are accounted for; {} statements were seen and {} written: \
             this is a defect of ours, please report it. The trace has all that was written.",
            self.records,
            self.accounted(),
            self.statements,
            written.statements
        );
        let seen = (self.records, self.statements, self.executable);
        if seen == (self.accounted(), written.statements, written.executable) {
            return None;
        }
        (self.statements, self.executable) = (written.statements, written.executable);
        self.not_understood += self.records.saturating_sub(self.accounted());
        self.records = self.accounted();
        if was_reported {
            return None;
        }
        self.seen.defects += 1;
        Some(fault)
    }

    /// The sum of where messages went; it is `records`.
    pub fn accounted(&self) -> u64 {
        self.statements
            + self.joined
            + self.sessions
            + self.others
            + self.not_understood
            + self.writer_behind
    }
}
