//! csvlog: 23 columns up to PostgreSQL 12, 24 in 13, 26 since 14; a few more do no harm.
//!
//! Source of the columns: PostgreSQL's manual, "Using CSV-Format Log Output"; `csvlog.c`. A record
//! begins where a line begins like one, from its time to its error code, whether or not the record
//! before it is at its end: quotes inside of a text are doubled, so nothing in a text looks like
//! that. One that is torn, as where a disk was full, therefore costs itself alone.

use super::message::PhraseTable;
use super::prefix::{self, is_background, is_code, session_id, virtual_transaction};
use super::record::{BlockContent, Fault, LogReader, Origin, Record, RecordTexts, Severity, Span};
use super::record_counts::Reason;
use super::stamp::{Zones, is_stamp, read_stamp_in_session};

/// Columns up to the error code.
const HEAD: usize = 13;

/// Columns of the oldest PostgreSQL.
const COLUMNS_MIN: usize = 23;

/// Columns that a future one may have.
const COLUMNS_MAX: usize = 32;

// Columns, from 0.
pub(super) const TIME: usize = 0;
pub(super) const USER: usize = 1;
pub(super) const DATABASE: usize = 2;
pub(super) const PID: usize = 3;
pub(super) const SESSION: usize = 5;
pub(super) const LINE: usize = 6;
pub(super) const STARTED: usize = 8;
pub(super) const VIRTUAL_TRANSACTION: usize = 9;
pub(super) const TRANSACTION: usize = 10;
pub(super) const SEVERITY: usize = 11;
pub(super) const CODE: usize = 12;
pub(super) const MESSAGE: usize = 13;
pub(super) const DETAIL: usize = 14;
pub(super) const CONTEXT: usize = 18;
pub(super) const STATEMENT: usize = 19;
pub(super) const APPLICATION: usize = 22;
pub(super) const BACKEND: usize = 23;

/// Reads csvlog.
#[derive(Debug)]
pub struct Csv {
    is_of_windows: bool,
}

impl Csv {
    /// A reader for lines that end in LF, or in CR and LF, inside of texts as well.
    pub fn new(is_of_windows: bool) -> Csv {
        Csv { is_of_windows }
    }
}

/// A column, and whether it has doubled quotes, or in jsonlog escapes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Column {
    /// Its range.
    pub span: Span,
    /// Whether it has to be decoded.
    pub is_escaped: bool,
}

/// Why a record's end was not found.
enum ColumnError {
    /// The bytes end within it.
    AtEnd,
    /// The bytes are not valid CSV.
    Malformed,
}

/// The columns of a record, by their index in csvlog; jsonlog has the same ones.
pub type Columns = [Column; COLUMNS_MAX];

/// Reads a column; returns it and the offset of the delimiter behind it.
#[inline]
fn column(bytes: &[u8], at: usize) -> Result<(Column, usize), ColumnError> {
    if bytes.get(at) != Some(&b'"') {
        let rest = bytes.get(at..).unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b',' | b'\n' | b'\r');
        let length = rest.iter().position(is_end).ok_or(ColumnError::AtEnd)?;
        return Ok((Column { span: Span::new(at, at + length), is_escaped: false }, at + length));
    }
    let (mut end, mut is_escaped) = (at + 1, false);
    loop {
        end += memchr::memchr(b'"', &bytes[end..]).ok_or(ColumnError::AtEnd)?;
        match bytes.get(end + 1) {
            Some(b'"') => (end, is_escaped) = (end + 2, true),
            Some(b',' | b'\n' | b'\r') => break,
            Some(_) => return Err(ColumnError::Malformed),
            None => return Err(ColumnError::AtEnd),
        }
    }
    Ok((Column { span: Span::new(at + 1, end), is_escaped }, end + 1))
}

/// Reads the columns up to the error code; returns the offset of the next one. They are on one
/// line, so the end of a block is not taken for the end of a torn name.
#[inline]
fn head(bytes: &[u8], at: usize, columns: &mut Columns) -> Option<usize> {
    if !bytes.get(at..).is_some_and(is_stamp) {
        return None;
    }
    let mut next = at;
    for slot in &mut columns[..HEAD] {
        let (column, end) = column(bytes, next).ok()?;
        if bytes[end] != b',' {
            return None;
        }
        (*slot, next) = (column, end + 1);
    }
    let text = |index: usize| columns[index].span.of(bytes);
    let is_head = is_number(text(PID))
        && session_id(text(SESSION)).is_some_and(|(.., length)| length == text(SESSION).len())
        && is_number(text(LINE))
        && is_code(text(CODE))
        && memchr::memchr(b'\n', &bytes[at..next]).is_none()
        && !is_doubled_quote(&bytes[next..]);
    is_head.then_some(next)
}

/// Whether a message's quote is that of a text with doubled quotes, which contains a record.
#[inline]
fn is_doubled_quote(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\"\"") && !matches!(bytes.get(2), Some(b',' | b'"'))
}

#[inline]
fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Reads the columns behind the error code; returns their count and the offset of the next line.
#[inline]
fn tail(
    bytes: &[u8],
    mut at: usize,
    is_whole: bool,
    columns: &mut Columns,
) -> Result<(usize, usize), ColumnError> {
    for (index, slot) in columns.iter_mut().enumerate().skip(HEAD) {
        let (column, end) = match column(bytes, at) {
            // The last line of a log may lack its end.
            Err(ColumnError::AtEnd) if is_whole && bytes.get(at) != Some(&b'"') => {
                (Column { span: Span::new(at, bytes.len()), is_escaped: false }, bytes.len())
            }
            column => column?,
        };
        *slot = column;
        let next = match bytes.get(end) {
            Some(b',') => {
                at = end + 1;
                continue;
            }
            Some(b'\r') if bytes.get(end + 1) == Some(&b'\n') => end + 2,
            Some(b'\r') if bytes.get(end + 1).is_some() => return Err(ColumnError::Malformed),
            Some(b'\r') if !is_whole => return Err(ColumnError::AtEnd),
            _ => (end + 1).min(bytes.len()),
        };
        if index + 1 < COLUMNS_MIN {
            return Err(ColumnError::Malformed);
        }
        return Ok((index + 1, next));
    }
    Err(ColumnError::Malformed)
}

/// The offset of the first record that begins after a line end in `at..end`.
fn next_head(bytes: &[u8], at: usize, end: usize) -> Option<usize> {
    let mut columns = Columns::default();
    memchr::memchr_iter(b'\n', &bytes[at..end])
        .map(|length| at + length + 1)
        .find(|&start| head(bytes, start, &mut columns).is_some())
}

/// Replaces doubled quotes by single ones, in place.
fn undouble(bytes: &mut [u8], column: Column) -> Span {
    let (start, end) = (column.span.start(), column.span.end());
    if !column.is_escaped {
        return column.span;
    }
    let (mut from, mut to) = (start, start);
    while let Some(length) = memchr::memchr(b'"', &bytes[from..end]) {
        let behind = from + length + 1;
        bytes.copy_within(from..behind, to);
        (from, to) = ((behind + 1).min(end), to + length + 1);
    }
    bytes.copy_within(from..end, to);
    Span::new(start, to + end - from)
}

/// Removes the CR before each line end, in place.
#[cold]
fn without_returns(bytes: &mut [u8], span: Span) -> Span {
    let (start, end) = (span.start(), span.end());
    let mut to = start;
    for from in start..end {
        if bytes[from] == b'\r' && from + 1 < end && bytes[from + 1] == b'\n' {
            continue;
        }
        bytes[to] = bytes[from];
        to += 1;
    }
    Span::new(start, to)
}

/// Builds a record from its columns; `text` decodes one of them in place.
#[inline]
pub fn record(
    bytes: &mut [u8],
    columns: &Columns,
    text: impl Fn(&mut [u8], Column) -> Span,
    zones: &mut Zones,
) -> Record {
    let [user, database, application, message, detail, statement, context] =
        [USER, DATABASE, APPLICATION, MESSAGE, DETAIL, STATEMENT, CONTEXT]
            .map(|index| text(bytes, columns[index]));
    let plain = |index: usize| columns[index].span.of(bytes);
    let session = session_id(plain(SESSION)).map(|(started_s, pid, _)| (started_s, pid));
    let (started_s, pid) = session.unwrap_or((0, number(plain(PID)) as u32));
    let origin = Origin {
        time_us: read_stamp_in_session(plain(TIME), (plain(STARTED), started_s), zones),
        pid,
        started_s,
        name: columns[if session.is_some() { SESSION } else { PID }].span,
        session_line: number(plain(LINE)),
        user,
        database,
        application,
        transaction: transaction(plain(VIRTUAL_TRANSACTION), plain(TRANSACTION)),
        // A success has no code in jsonlog.
        code: plain(CODE).first_chunk().copied().unwrap_or_default(),
        is_background: is_background(plain(BACKEND)),
    };
    let severity = severity_of(plain(SEVERITY), &origin.code);
    Record::new(bytes, origin, severity, RecordTexts { message, detail, statement, context })
}

/// The severity of a record; from its code if the word is of an unknown language.
#[inline]
fn severity_of(word: &[u8], code: &[u8; 5]) -> Severity {
    PhraseTable::get().severity(word).unwrap_or(match &code[..2] {
        b"00" | b"01" | b"02" | b"\0\0" => Severity::Log,
        _ => Severity::Error,
    })
}

/// The number of a record's transaction: the virtual transaction's where that column is set, else
/// that of the other column. In a failed block the first is 0 and the second stays: the two are
/// never mixed.
#[inline]
fn transaction(virtual_one: &[u8], other: &[u8]) -> u64 {
    match virtual_transaction(virtual_one) {
        (_, 0) => number(other),
        (transaction, _) => transaction,
    }
}

/// A number of digits alone; 0 if it is invalid or too large.
#[inline]
fn number(text: &[u8]) -> u64 {
    let number = prefix::number(text).filter(|(_, length)| *length == text.len());
    number.map_or(0, |(number, _)| number)
}

impl LogReader for Csv {
    fn first_record(&self, bytes: &[u8]) -> Option<usize> {
        let mut columns = Columns::default();
        if head(bytes, 0, &mut columns).is_some() {
            return Some(0);
        }
        next_head(bytes, 0, bytes.len())
    }

    fn read(&self, bytes: &mut [u8], is_whole: bool, content: &mut BlockContent) -> usize {
        let mut columns = Columns::default();
        let (mut at, mut line) = (0, 0);
        while at < bytes.len() {
            let Some(behind) = head(bytes, at, &mut columns) else {
                let length = memchr::memchr(b'\n', &bytes[at..]);
                let Some(length) = length.or(is_whole.then_some(bytes.len() - at)) else {
                    return at;
                };
                if !matches!(&bytes[at..at + length], b"" | b"\r") {
                    content.fault(Reason::Malformed, line, Span::new(at, at + length));
                }
                (at, line) = ((at + length + 1).min(bytes.len()), line + 1);
                continue;
            };
            let end = match tail(bytes, behind, is_whole, &mut columns) {
                Ok((count, end)) if next_head(bytes, behind, end - 1).is_none() => {
                    line += memchr::memchr_iter(b'\n', &bytes[at..end]).count();
                    if count <= BACKEND {
                        columns[BACKEND] = Column::default();
                    }
                    let text = |bytes: &mut [u8], column: Column| {
                        let span = undouble(bytes, column);
                        if self.is_of_windows { without_returns(bytes, span) } else { span }
                    };
                    content.records.push(record(bytes, &columns, text, &mut content.zones));
                    at = end;
                    continue;
                }
                _ => next_head(bytes, behind, bytes.len()),
            };
            // Without a record that begins here, the next block decides.
            let Some(end) = end.or(is_whole.then_some(bytes.len())) else { return at };
            let (reason, text) = (Reason::Torn, Span::new(at, end));
            content.faults.push(Fault { reason, offset_bytes: at, line, text });
            line += memchr::memchr_iter(b'\n', &bytes[at..end]).count();
            at = end;
        }
        bytes.len()
    }
}
