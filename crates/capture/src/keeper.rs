//! What was seen on the wire on its way to the trace: packed into batches, so that whoever passes
//! bytes on wakes the writer seldom and never waits for it.
//!
//! What is on its way is bounded ([`HELD_BYTES_MAX`]). A statement for which there is no room is
//! counted and left out; sessions are never left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use seatrial_pgwire::answer::Tag;
use seatrial_trace::captured::{Protocol, Returned, Session, SessionId, Skip};

use super::tally::Tally;

/// What may be on its way to the writer: of a busy server some seconds.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// A batch is sent when it has so many bytes of text.
const BATCH_BYTES: usize = 128 << 10;

/// Or so many entries.
const BATCH_ENTRIES: usize = 1 << 10;

/// Or when its first entry has waited so long.
pub const BATCH_US: i64 = 100_000;

/// The length that stands for NULL.
pub const NULL: u32 = u32::MAX;

/// One thing that was seen.
#[derive(Debug)]
pub enum Entry {
    /// A session began.
    Session(Box<Session>),
    /// More is known of a session.
    Changed(SessionId, Box<Session>),
    /// A statement.
    Statement(Box<Kept>),
}

/// A statement without its texts, which are in the batch's bytes one after the other: the prepared
/// name, the text, and each parameter behind its length (of 4 bytes, [`NULL`] for NULL).
#[derive(Debug)]
pub struct Kept {
    /// What is not text.
    pub figures: Figures,
    /// Length of the prepared name.
    pub prepared_bytes: usize,
    /// Length of the text.
    pub sql_bytes: usize,
    /// How many parameters there are.
    pub parameters: usize,
}

/// What of a statement is no text.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // as in seatrial_trace::captured::Statement
pub struct Figures {
    pub session: SessionId,
    pub start_us: i64,
    pub duration_us: Option<u64>,
    pub protocol: Protocol,
    pub transaction: u64,
    pub rows: Option<u64>,
    pub tag: Option<Tag>,
    pub returned: Option<Box<Returned>>,
    pub error: Option<[u8; 5]>,
    pub skip: Option<Skip>,
}

/// What is handed over at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order in which they were seen.
    pub entries: Vec<Entry>,
    /// Their texts.
    pub bytes: Vec<u8>,
    /// Memory that it takes, as it was counted.
    pub held_bytes: usize,
}

/// What both ends know.
#[derive(Debug, Default)]
pub struct Shared {
    /// Bytes on their way.
    pub held_bytes: AtomicUsize,
    /// The trace cannot be written any more.
    pub has_failed: AtomicBool,
    /// Statements so far, for whoever watches.
    pub statements: AtomicU64,
    /// Statements that were left out so far, likewise.
    pub left_out: AtomicU64,
    /// Connections that are open, likewise.
    pub open: AtomicU64,
    /// Connections that are encrypted, so far.
    pub encrypted: AtomicU64,
}

/// The near end.
#[derive(Debug)]
pub struct Keeper {
    /// What was counted.
    pub tally: Tally,
    /// What the time is, in microseconds since 1970.
    pub now_us: i64,
    sessions: u32,
    batch: Batch,
    /// Bytes of the batch whose entries are in it.
    packed_bytes: usize,
    begun_us: i64,
    batches: Sender<Batch>,
    shared: Arc<Shared>,
}

impl Keeper {
    /// A keeper that hands batches over.
    pub fn new(batches: Sender<Batch>, shared: Arc<Shared>) -> Keeper {
        Keeper {
            tally: Tally::default(),
            now_us: 0,
            sessions: 0,
            batch: Batch::default(),
            packed_bytes: 0,
            begun_us: 0,
            batches,
            shared,
        }
    }

    /// A session begins.
    pub fn begin_session(&mut self, session: &Session) -> SessionId {
        self.sessions += 1;
        self.push(Entry::Session(Box::new(session.clone())));
        SessionId(self.sessions - 1)
    }

    /// More is known of a session.
    pub fn change_session(&mut self, id: SessionId, session: &Session) {
        self.push(Entry::Changed(id, Box::new(session.clone())));
    }

    /// A connection is encrypted, and cannot be read.
    pub fn encrypted(&mut self) {
        self.tally.seen.encrypted += 1;
        self.shared.encrypted.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps a statement, whose parameters `put` packs: how many they are, and why they are not all
    /// there.
    pub fn statement(
        &mut self,
        mut figures: Figures,
        prepared: &[u8],
        sql: &[u8],
        put: impl FnOnce(&mut Vec<u8>) -> (usize, Option<Skip>),
    ) {
        if !self.has_room(prepared.len() + sql.len()) {
            self.tally.writer_behind += 1;
            self.shared.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // What is behind them is of one at which a defect of ours showed.
        self.batch.bytes.truncate(self.packed_bytes);
        self.batch.bytes.extend_from_slice(prepared);
        self.batch.bytes.extend_from_slice(sql);
        let (parameters, skip) = put(&mut self.batch.bytes);
        figures.skip = figures.skip.or(skip);
        if let Some(returned) = &figures.returned {
            self.tally.seen.returned += 1;
            self.tally.seen.returned_rows += returned.rows.len() as u64;
            self.batch.held_bytes += returned_bytes(returned);
        }
        let end_us = figures.start_us.saturating_add_unsigned(figures.duration_us.unwrap_or(0));
        self.tally.statement(figures.skip, figures.start_us, end_us);
        let (prepared_bytes, sql_bytes) = (prepared.len(), sql.len());
        let kept = Kept { figures, prepared_bytes, sql_bytes, parameters };
        self.push(Entry::Statement(Box::new(kept)));
    }

    fn has_room(&self, bytes: usize) -> bool {
        let held = self.shared.held_bytes.load(Ordering::Relaxed) + self.batch.bytes.len();
        held + bytes < HELD_BYTES_MAX && !self.shared.has_failed.load(Ordering::Relaxed)
    }

    fn push(&mut self, entry: Entry) {
        if self.batch.entries.is_empty() {
            self.begun_us = self.now_us;
        }
        self.batch.entries.push(entry);
        self.packed_bytes = self.batch.bytes.len();
        if self.batch.bytes.len() >= BATCH_BYTES || self.batch.entries.len() >= BATCH_ENTRIES {
            self.flush();
        }
    }

    /// Hands over what has waited long enough; how long what is left may still wait.
    pub fn flush_due(&mut self) -> Option<i64> {
        if self.batch.entries.is_empty() {
            return None;
        }
        let left_us = self.begun_us + BATCH_US - self.now_us;
        if left_us <= 0 {
            self.flush();
            return None;
        }
        Some(left_us)
    }

    /// Hands over what there is.
    pub fn flush(&mut self) {
        if self.batch.entries.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        self.packed_bytes = 0;
        let each = size_of::<Entry>() + size_of::<Kept>();
        batch.held_bytes += batch.bytes.capacity() + batch.entries.len() * each;
        self.batch.bytes.reserve(batch.bytes.len().min(BATCH_BYTES));
        self.batch.entries.reserve(batch.entries.len().min(BATCH_ENTRIES));
        self.shared.held_bytes.fetch_add(batch.held_bytes, Ordering::Relaxed);
        self.shared.statements.store(self.tally.statements, Ordering::Relaxed);
        // Where nobody takes it any more, the writer has failed, and says so itself.
        let _ = self.batches.send(batch);
    }
}

fn returned_bytes(returned: &Returned) -> usize {
    let value = |value: &Option<Vec<u8>>| {
        size_of::<Option<Vec<u8>>>() + value.as_ref().map_or(0, Vec::capacity)
    };
    returned.rows.iter().flatten().map(value).sum()
}
