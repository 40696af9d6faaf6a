//! csvlog: 23 columns up to PostgreSQL 12, 24 in 13, 26 since 14; a few more do no harm.
//!
//! Source of the columns: PostgreSQL's manual, "Using CSV-Format Log Output"; `csvlog.c`. A record
//! begins where a line begins like one, from its time to its error code, whether or not the record
//! before it is at its end: quotes inside of a text are doubled, so nothing in a text looks like
//! that. One that is torn, as where a disk was full, therefore costs itself alone.

use super::message::Book;
use super::prefix::{is_background, is_code, session_id, virtual_transaction};
use super::record::{BlockContent, Fault, LogReader, Origin, Record, Severity, Span, Texts};
use super::record_counts::Reason;
use super::stamp::{Zones, is_stamp, read_stamp_in_session};

/// Columns up to the error code.
const HEAD: usize = 13;

/// Columns of the oldest PostgreSQL.
const COLUMNS_MIN: usize = 23;

/// Columns that a future one may have.
const COLUMNS_MAX: usize = 32;

// Columns, from 0.
const TIME: usize = 0;
const USER: usize = 1;
const DATABASE: usize = 2;
const PID: usize = 3;
const SESSION: usize = 5;
const LINE: usize = 6;
const STARTED: usize = 8;
const VIRTUAL_TRANSACTION: usize = 9;
const TRANSACTION: usize = 10;
const SEVERITY: usize = 11;
const CODE: usize = 12;
const MESSAGE: usize = 13;
const DETAIL: usize = 14;
const CONTEXT: usize = 18;
const STATEMENT: usize = 19;
const APPLICATION: usize = 22;
const BACKEND: usize = 23;

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

/// A column, and whether quotes in it are doubled.
#[derive(Debug, Clone, Copy, Default)]
struct Column {
    span: Span,
    is_doubled: bool,
}

/// Why a record's end was not found.
enum Unfinished {
    /// The bytes end within it.
    AtEnd,
    /// The bytes are not valid CSV.
    Malformed,
}

type Columns = [Column; COLUMNS_MAX];

/// Reads a column: returns its place and that of the delimiter behind it.
#[inline]
fn column(bytes: &[u8], at: usize) -> Result<(Column, usize), Unfinished> {
    if bytes.get(at) != Some(&b'"') {
        let rest = bytes.get(at..).unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b',' | b'\n' | b'\r');
        let length = rest.iter().position(is_end).ok_or(Unfinished::AtEnd)?;
        return Ok((Column { span: Span::new(at, at + length), is_doubled: false }, at + length));
    }
    let (mut end, mut is_doubled) = (at + 1, false);
    loop {
        end += memchr::memchr(b'"', &bytes[end..]).ok_or(Unfinished::AtEnd)?;
        match bytes.get(end + 1) {
            Some(b'"') => (end, is_doubled) = (end + 2, true),
            Some(b',' | b'\n' | b'\r') => break,
            Some(_) => return Err(Unfinished::Malformed),
            None => return Err(Unfinished::AtEnd),
        }
    }
    Ok((Column { span: Span::new(at + 1, end), is_doubled }, end + 1))
}

/// Reads the columns up to the error code; where the next one begins. They are of one line, so that
/// the end of a block is not taken for that of a name that was torn.
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

/// Reads the columns behind the error code: how many there are, and where the next line begins.
#[inline]
fn tail(
    bytes: &[u8],
    mut at: usize,
    is_whole: bool,
    columns: &mut Columns,
) -> Result<(usize, usize), Unfinished> {
    for (index, slot) in columns.iter_mut().enumerate().skip(HEAD) {
        let (column, end) = match column(bytes, at) {
            // The last line of a log may lack its end.
            Err(Unfinished::AtEnd) if is_whole && bytes.get(at) != Some(&b'"') => {
                (Column { span: Span::new(at, bytes.len()), is_doubled: false }, bytes.len())
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
            Some(b'\r') if bytes.get(end + 1).is_some() => return Err(Unfinished::Malformed),
            Some(b'\r') if !is_whole => return Err(Unfinished::AtEnd),
            _ => (end + 1).min(bytes.len()),
        };
        if index + 1 < COLUMNS_MIN {
            return Err(Unfinished::Malformed);
        }
        return Ok((index + 1, next));
    }
    Err(Unfinished::Malformed)
}

/// Where the first record begins at or behind the first line's end from `at` on.
fn next_head(bytes: &[u8], at: usize, end: usize) -> Option<usize> {
    let mut columns = Columns::default();
    memchr::memchr_iter(b'\n', &bytes[at..end])
        .map(|length| at + length + 1)
        .find(|&start| head(bytes, start, &mut columns).is_some())
}

/// Takes the second of doubled quotes out, in place.
fn undouble(bytes: &mut [u8], column: Column) -> Span {
    let (start, end) = (column.span.start(), column.span.end());
    if !column.is_doubled {
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

/// Takes the CR before each line's end out, in place.
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

/// Builds a record from its columns.
#[inline]
fn record(
    bytes: &mut [u8],
    columns: &Columns,
    (count, is_of_windows): (usize, bool),
    zones: &mut Zones,
) -> Record {
    let mut text = |index: usize| {
        let span = undouble(bytes, columns[index]);
        if is_of_windows { without_returns(bytes, span) } else { span }
    };
    let (user, database, application) = (text(USER), text(DATABASE), text(APPLICATION));
    let (message, detail) = (text(MESSAGE), text(DETAIL));
    let (statement, context) = (text(STATEMENT), text(CONTEXT));
    let plain = |index: usize| columns[index].span.of(bytes);
    let (started_s, pid, _) = session_id(plain(SESSION)).unwrap_or_default();
    let origin = Origin {
        time_us: read_stamp_in_session(plain(TIME), (plain(STARTED), started_s), zones),
        pid,
        started_s,
        name: columns[SESSION].span,
        session_line: number(plain(LINE)),
        user,
        database,
        application,
        transaction: transaction(plain(VIRTUAL_TRANSACTION), plain(TRANSACTION)),
        code: plain(CODE).first_chunk().copied().unwrap_or_default(),
        is_background: count > BACKEND && is_background(plain(BACKEND)),
    };
    let severity = severity_of(plain(SEVERITY), &origin.code);
    Record::new(bytes, origin, severity, Texts { message, detail, statement, context })
}

/// How grave a record is; by its code where the word is of a language that is not known here.
#[inline]
pub fn severity_of(word: &[u8], code: &[u8; 5]) -> Severity {
    Book::get().severity(word).unwrap_or(match &code[..2] {
        b"00" | b"01" | b"02" | b"\0\0" => Severity::Log,
        _ => Severity::Error,
    })
}

/// The number of a record's transaction: the virtual transaction's where that column is set, else
/// that of the other column. In a failed block the first is 0 and the second stays: the two are
/// never mixed.
#[inline]
pub fn transaction(virtual_one: &[u8], other: &[u8]) -> u64 {
    match virtual_transaction(virtual_one) {
        (_, 0) => number(other),
        (transaction, _) => transaction,
    }
}

/// A number of digits alone; 0 where it is invalid, or too great for any.
#[inline]
pub fn number(text: &[u8]) -> u64 {
    let add = |number: Option<u64>, byte: &u8| {
        let digit = byte.is_ascii_digit().then_some(u64::from(byte.wrapping_sub(b'0')))?;
        number?.checked_mul(10)?.checked_add(digit)
    };
    text.iter().fold(Some(0), add).unwrap_or(0)
}

impl LogReader for Csv {
    fn first_record(&self, bytes: &[u8]) -> Option<usize> {
        let mut columns = Columns::default();
        if head(bytes, 0, &mut columns).is_some() {
            return Some(0);
        }
        next_head(bytes, 0, bytes.len())
    }

    fn read(&self, bytes: &mut [u8], is_whole: bool, found: &mut BlockContent) -> usize {
        let mut columns = Columns::default();
        let (mut at, mut line) = (0, 0);
        while at < bytes.len() {
            let Some(behind) = head(bytes, at, &mut columns) else {
                let length = memchr::memchr(b'\n', &bytes[at..]);
                let Some(length) = length.or(is_whole.then_some(bytes.len() - at)) else {
                    return at;
                };
                if !matches!(&bytes[at..at + length], b"" | b"\r") {
                    found.fault(Reason::Malformed, line, Span::new(at, at + length));
                }
                (at, line) = ((at + length + 1).min(bytes.len()), line + 1);
                continue;
            };
            let end = match tail(bytes, behind, is_whole, &mut columns) {
                Ok((count, end)) if next_head(bytes, behind, end - 1).is_none() => {
                    line += memchr::memchr_iter(b'\n', &bytes[at..end]).count();
                    let how = (count, self.is_of_windows);
                    found.records.push(record(bytes, &columns, how, &mut found.zones));
                    at = end;
                    continue;
                }
                _ => next_head(bytes, behind, bytes.len()),
            };
            // If none begins here, the next block decides.
            let Some(end) = end.or(is_whole.then_some(bytes.len())) else { return at };
            let (reason, text) = (Reason::Torn, Span::new(at, end));
            found.faults.push(Fault { reason, offset_bytes: at, line, text });
            line += memchr::memchr_iter(b'\n', &bytes[at..end]).count();
            at = end;
        }
        bytes.len()
    }
}
