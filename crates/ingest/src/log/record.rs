//! One record of a log: spans into the bytes that it was read from.

use serde::{Deserialize, Serialize};

use super::message::{self, Message, PhraseTable};
use super::record_counts::Reason;
use super::stamp::Zones;

/// A range of the bytes that a record was read from. Empty if not in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From one offset to another. Blocks and records are far below 4 GiB.
    #[inline]
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end.max(start) as u32 }
    }

    /// What it covers.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Where it begins.
    #[inline]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Where it ends.
    #[inline]
    pub fn end(self) -> usize {
        self.end as usize
    }

    /// Whether it covers nothing.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns the span, moved by an offset.
    #[inline]
    pub fn behind(self, offset_bytes: usize) -> Span {
        Span::new(self.start() + offset_bytes, self.end() + offset_bytes)
    }
}

/// The severity of a record, as far as it matters to the outcome of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// LOG, and all below ERROR.
    #[default]
    Log,
    /// ERROR: the statement failed.
    Error,
    /// FATAL and PANIC: the session ended.
    Fatal,
}

/// The process that wrote a record, as far as the log shows, whatever its format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// When it was written, in us since 1970; None if not in the log.
    pub time_us: Option<i64>,
    /// Process number; 0 if not in the log.
    pub pid: u32,
    /// When the process started, in s since 1970; 0 if not in the log.
    pub started_s: u32,
    /// The log's name for the session, `%c`; else the process number.
    pub name: Span,
    /// `%l`: number of the record within its session, from 1; 0 if not in the log.
    pub session_line: u64,
    /// User.
    pub user: Span,
    /// Database.
    pub database: Span,
    /// Application.
    pub application: Span,
    /// Number of the transaction, `%v` without the backend, else `%x`; 0 for none.
    pub transaction: u64,
    /// The error code; zeros if not in the log.
    pub code: [u8; 5],
    /// A process that serves no client: a checkpointer, a parallel worker.
    pub is_background: bool,
}

impl Origin {
    /// Whether the log shows which session it is of.
    #[inline]
    pub fn has_session(&self) -> bool {
        self.key() != 0
    }

    /// Identifies the session: start and process, or the process alone.
    #[inline]
    pub fn key(&self) -> u64 {
        u64::from(self.started_s) << 32 | u64::from(self.pid)
    }
}

/// One record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Who wrote it, and when.
    pub origin: Origin,
    /// Its severity.
    pub severity: Severity,
    /// Its message.
    pub message: Message,
    /// Values of the parameters: `$1 = '...', ...`.
    pub parameters: Span,
    /// The statement that an error came from.
    pub statement: Span,
    /// The log ends within it.
    pub is_cut: bool,
}

/// The texts of a record, whatever its format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordTexts {
    /// Its message.
    pub message: Span,
    /// DETAIL, where parameters are.
    pub detail: Span,
    /// STATEMENT, which an error came from.
    pub statement: Span,
    /// CONTEXT, which may have the parameters of a failed statement.
    pub context: Span,
}

impl Record {
    /// Makes a record from its texts.
    #[inline]
    pub fn new(bytes: &[u8], mut origin: Origin, severity: Severity, texts: RecordTexts) -> Record {
        let (mut message, mut parameters) = (Message::default(), Span::default());
        // The server's own messages about a statement have neither; RAISE LOG in a function
        // may use the same words.
        let is_of_function = !(texts.statement.is_empty() && texts.context.is_empty());
        if severity == Severity::Log && !is_of_function {
            message = PhraseTable::get().message(bytes, texts.message, &mut origin);
            parameters = message::detail_parameters(bytes, texts.detail);
        } else if severity != Severity::Log && !texts.context.is_empty() {
            parameters = message::context_parameters(bytes, texts.context);
        }
        let statement = texts.statement;
        Record { origin, severity, message, parameters, statement, is_cut: false }
    }
}

/// Something that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Why.
    pub reason: Reason,
    /// Where in the block, in bytes.
    pub offset_bytes: usize,
    /// Which line of the block, from 0.
    pub line: usize,
    /// Its text.
    pub text: Span,
}

/// The records and faults of a block.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct BlockContent {
    /// Records in their order.
    pub records: Vec<Record>,
    /// What could not be read, in its order.
    pub faults: Vec<Fault>,
    /// Time zones that are unknown or ambiguous.
    pub zones: Zones,
}

impl BlockContent {
    /// Clears it for the next block.
    pub fn clear(&mut self) {
        self.records.clear();
        self.faults.clear();
    }

    /// Notes an unreadable line or remainder of a record.
    #[cold]
    pub fn fault(&mut self, reason: Reason, line: usize, text: Span) {
        self.faults.push(Fault { reason, offset_bytes: text.start(), line, text });
    }
}

/// Bytes of a line that show whether it begins a record, whatever its prefix. A line that
/// is cut off before them is undecided.
pub const HEAD_BYTES_MAX: usize = 2 << 10;

/// A log format: splits bytes into records and parses them.
///
/// The beginning of a record must be recognizable from its line alone, whatever precedes it. Blocks
/// can then be read in parallel, and a torn record costs nothing but itself.
pub trait LogReader: Send + Sync {
    /// Where the first line that begins a record begins, in bytes that begin with a line; None
    /// when there is none.
    fn first_record(&self, bytes: &[u8]) -> Option<usize>;

    /// Reads records from bytes that begin with a line, and returns where it stopped: at the end if
    /// `is_whole`, else where the last record begins, which may continue in the next block. It may
    /// change the bytes that it has passed, for example to remove doubled quotes.
    fn read(&self, bytes: &mut [u8], is_whole: bool, content: &mut BlockContent) -> usize;
}
