//! The queue of observed statements to the trace: packed into batches, so that the forwarding
//! thread rarely wakes the writer and never waits for it.
//!
//! The queue is bounded ([`QUEUE_BYTES_MAX`]). A statement that does not fit is counted and
//! dropped; sessions are never dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use seatrial_gauge::lock;
use seatrial_pgwire::answer::Tag;
use seatrial_trace::captured::{Protocol, Session, SessionId, Skip};

use super::message_counts::MessageCounts;
use super::returned::PackedRows;

/// Maximum size of the queue to the writer: some seconds of a busy server.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// A batch is sent when it has this many bytes of text.
const BATCH_BYTES: usize = 128 << 10;

/// Or this many entries.
const BATCH_ENTRIES: usize = 1 << 10;

/// Or when its first entry is this old.
pub const BATCH_US: i64 = 100_000;

/// Written batches that are kept to be filled again.
const SPARE_MAX: usize = 4;

/// Length that represents NULL.
pub const NULL: u32 = u32::MAX;

#[derive(Debug)]
pub enum Entry {
    Session(Box<Session>),
    /// Further facts of a session.
    Changed(SessionId, Box<Session>),
    Statement(PackedStatement),
}

/// A statement without its texts, which are in the batch's bytes in sequence: the prepared name,
/// the text, the declared types, each parameter after its length (4 bytes, [`NULL`] for NULL), and
/// returned rows, whose bytes are left out of their own structure.
#[derive(Debug)]
pub struct PackedStatement {
    pub fields: StatementFields,
    pub prepared_bytes: usize,
    pub sql_bytes: usize,
    pub types_bytes: Option<usize>,
    pub parameters: usize,
}

/// The fields of a statement that are not text.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // as in seatrial_trace::captured::Statement
pub struct StatementFields {
    pub session: SessionId,
    pub start_us: i64,
    pub duration_us: Option<u64>,
    pub protocol: Protocol,
    pub transaction: u64,
    pub rows: Option<u64>,
    pub tag: Option<Tag>,
    pub returned: Option<PackedRows>,
    pub error: Option<[u8; 5]>,
    pub skip: Option<Skip>,
}

/// The entries that are passed on at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order of observation.
    pub entries: Vec<Entry>,
    /// Their texts.
    pub bytes: Vec<u8>,
    /// Their memory, as counted.
    pub queued_bytes: usize,
}

#[derive(Debug, Default)]
pub struct Shared {
    /// Bytes in the queue.
    pub queued_bytes: AtomicUsize,
    /// The trace is not writable any more.
    pub has_failed: AtomicBool,
    /// Statements so far, for progress reports.
    pub statements: AtomicU64,
    /// Dropped statements so far, likewise.
    pub left_out: AtomicU64,
    /// Open connections, likewise.
    pub open: AtomicU64,
    /// Encrypted connections so far.
    pub encrypted: AtomicU64,
    /// Written batches.
    spare: Mutex<Vec<Batch>>,
}

impl Shared {
    /// Returns a batch that was written. The filling thread clears it: memory that one thread
    /// allocates and another one frees costs both.
    pub fn give_back(&self, batch: Batch) {
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_MAX {
            spare.push(batch);
        }
    }

    /// An empty batch, with the memory of a written one if there is any.
    fn empty_batch(&self) -> Batch {
        let mut spare = lock(&self.spare);
        let Some(Batch { mut entries, mut bytes, .. }) = spare.pop() else {
            return Batch::default();
        };
        drop(spare);
        entries.clear();
        bytes.clear();
        // A batch may exceed its size by one statement of any length.
        bytes.shrink_to(2 * BATCH_BYTES);
        Batch { entries, bytes, queued_bytes: 0 }
    }
}

/// The sending end.
#[derive(Debug)]
pub struct TraceQueue {
    /// What was counted.
    pub counted: MessageCounts,
    /// Current time in microseconds since 1970.
    pub now_us: i64,
    sessions: u32,
    batch: Batch,
    /// Memory of the current batch.
    packed_bytes: usize,
    begun_us: i64,
    batches: Sender<Batch>,
    shared: Arc<Shared>,
}

impl TraceQueue {
    /// A queue that sends batches.
    pub fn new(batches: Sender<Batch>, shared: Arc<Shared>) -> TraceQueue {
        TraceQueue {
            counted: MessageCounts::default(),
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

    /// Further facts of a session.
    pub fn change_session(&mut self, id: SessionId, session: &Session) {
        self.push(Entry::Changed(id, Box::new(session.clone())));
    }

    /// A connection is encrypted, and not readable.
    pub fn encrypted(&mut self) {
        self.counted.wire.encrypted += 1;
        self.shared.encrypted.fetch_add(1, Ordering::Relaxed);
    }

    /// Queues a statement; `put` packs its parameters and returns their number, and why some are
    /// missing.
    pub fn statement(
        &mut self,
        mut fields: StatementFields,
        prepared: &[u8],
        sql: &[u8],
        types: Option<&[u8]>,
        put: impl FnOnce(&mut Vec<u8>) -> (usize, Option<Skip>),
    ) {
        if !self.has_room(prepared.len() + sql.len()) {
            self.counted.writer_behind += 1;
            self.shared.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // What follows belongs to a statement with an internal error.
        self.batch.bytes.truncate(self.packed_bytes);
        self.batch.bytes.extend_from_slice(prepared);
        self.batch.bytes.extend_from_slice(sql);
        self.batch.bytes.extend_from_slice(types.unwrap_or_default());
        let (parameters, skip) = put(&mut self.batch.bytes);
        fields.skip = fields.skip.or(skip);
        if let Some(returned) = &mut fields.returned {
            self.counted.wire.returned += 1;
            self.counted.wire.returned_rows += returned.rows as u64;
            self.batch.bytes.extend_from_slice(&returned.bytes);
            returned.bytes = Vec::new();
        }
        let end_us = fields.start_us.saturating_add_unsigned(fields.duration_us.unwrap_or(0));
        self.counted.statement(fields.skip, fields.start_us, end_us);
        let packed_statement = PackedStatement {
            fields,
            prepared_bytes: prepared.len(),
            sql_bytes: sql.len(),
            types_bytes: types.map(<[u8]>::len),
            parameters,
        };
        self.push(Entry::Statement(packed_statement));
    }

    fn has_room(&self, bytes: usize) -> bool {
        let queued = self.shared.queued_bytes.load(Ordering::Relaxed) + self.batch.bytes.len();
        queued + bytes < QUEUE_BYTES_MAX && !self.shared.has_failed.load(Ordering::Relaxed)
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

    /// Sends what has waited long enough; returns how long the rest may still wait.
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

    pub fn flush(&mut self) {
        if self.batch.entries.is_empty() {
            return;
        }
        let mut batch = std::mem::replace(&mut self.batch, self.shared.empty_batch());
        self.packed_bytes = 0;
        batch.queued_bytes += batch.bytes.capacity() + batch.entries.len() * size_of::<Entry>();
        self.shared.queued_bytes.fetch_add(batch.queued_bytes, Ordering::Relaxed);
        self.shared.statements.store(self.counted.statements, Ordering::Relaxed);
        // Without a receiver, the writer has failed, and reports it itself.
        let _ = self.batches.send(batch);
    }
}
