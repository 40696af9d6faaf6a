//! jsonlog, since PostgreSQL 15: one object a line.
//!
//! Source of the keys: PostgreSQL's manual, "Using JSON-Format Log Output"; `jsonlog.c`. Only what
//! PostgreSQL writes is read: one flat object of texts, numbers and null, without blanks.

use super::csv::{number, severity_of, transaction};
use super::prefix::{is_background, session_id};
use super::record::{BlockContent, LogReader, Origin, Record, Span, Texts};
use super::record_counts::Reason;
use super::stamp::{Zones, read_stamp_in_session};

/// Reads jsonlog.
#[derive(Debug)]
pub struct Json;

/// Keys that are needed, in the order in which they are kept.
const KEYS: [&[u8]; 17] = [
    b"timestamp",
    b"user",
    b"dbname",
    b"session_id",
    b"line_num",
    b"vxid",
    b"txid",
    b"error_severity",
    b"state_code",
    b"message",
    b"detail",
    b"context",
    b"statement",
    b"application_name",
    b"backend_type",
    b"pid",
    b"session_start",
];

// Their places.
const TIME: usize = 0;
const USER: usize = 1;
const DATABASE: usize = 2;
const SESSION: usize = 3;
const LINE: usize = 4;
const VIRTUAL_TRANSACTION: usize = 5;
const TRANSACTION: usize = 6;
const SEVERITY: usize = 7;
const CODE: usize = 8;
const MESSAGE: usize = 9;
const DETAIL: usize = 10;
const CONTEXT: usize = 11;
const STATEMENT: usize = 12;
const APPLICATION: usize = 13;
const BACKEND: usize = 14;
const PID: usize = 15;
const STARTED: usize = 16;

/// A value, and whether something in it is written with a backslash.
#[derive(Debug, Clone, Copy, Default)]
struct Value {
    span: Span,
    is_escaped: bool,
}

type Values = [Value; KEYS.len()];

/// Where a key is kept; None for one that is not needed.
#[inline]
fn place(key: &[u8]) -> Option<usize> {
    KEYS.iter().position(|&known| known == key)
}

/// Reads a text whose first quote is passed: its value, and the place behind its last quote.
#[inline]
fn text(line: &[u8], start: usize) -> Option<(Value, usize)> {
    let (mut end, mut is_escaped) = (start, false);
    loop {
        end += memchr::memchr2(b'"', b'\\', line.get(end..)?)?;
        if line[end] == b'"' {
            return Some((Value { span: Span::new(start, end), is_escaped }, end + 1));
        }
        (end, is_escaped) = (end + 2, true);
    }
}

/// Reads `{"key":value,...}` from a line that ends at the end of `line`.
#[inline]
fn object(line: &[u8], start: usize, values: &mut Values) -> Option<()> {
    let mut at = start;
    if line.get(at) != Some(&b'{') {
        return None;
    }
    loop {
        // At the brace or a comma: a key follows.
        if line.get(at + 1) != Some(&b'"') {
            return None;
        }
        let (key, colon) = text(line, at + 2)?;
        if line.get(colon) != Some(&b':') {
            return None;
        }
        let (value, end) = match line.get(colon + 1)? {
            b'"' => text(line, colon + 2)?,
            _ => bare(line, colon + 1)?,
        };
        if let Some(place) = place(key.span.of(line)) {
            values[place] = value;
        }
        match line.get(end)? {
            b',' => at = end,
            b'}' => return (end + 1 == line.len()).then_some(()),
            _ => return None,
        }
    }
}

/// A number or null.
#[inline]
fn bare(line: &[u8], start: usize) -> Option<(Value, usize)> {
    let length = memchr::memchr2(b',', b'}', &line[start..])?;
    let is_null = &line[start..start + length] == b"null";
    let span = Span::new(start, if is_null { start } else { start + length });
    Some((Value { span, is_escaped: false }, start + length))
}

/// Takes the backslashes out of a text, in place.
#[inline]
fn unescaped(bytes: &mut [u8], value: Value) -> Span {
    if value.is_escaped { unescape(bytes, value.span) } else { value.span }
}

fn unescape(bytes: &mut [u8], span: Span) -> Span {
    let (mut from, mut to, end) = (span.start(), span.start(), span.end());
    while let Some(length) = memchr::memchr(b'\\', &bytes[from..end]) {
        bytes.copy_within(from..from + length, to);
        (from, to) = (from + length, to + length);
        let escape = bytes.get(from + 1).copied().unwrap_or_default();
        if escape == b'u' {
            let (sign, length) = unicode(&bytes[from..end]);
            let mut utf8 = [0; 4];
            let written = sign.encode_utf8(&mut utf8).as_bytes();
            bytes[to..to + written.len()].copy_from_slice(written);
            (from, to) = ((from + length).min(end), to + written.len());
            continue;
        }
        bytes[to] = match escape {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            sign => sign,
        };
        (from, to) = ((from + 2).min(end), to + 1);
    }
    bytes.copy_within(from..end, to);
    Span::new(span.start(), to + end - from)
}

/// Returns the character of `\u00e9`, or of a surrogate pair, and the length of its escape.
fn unicode(text: &[u8]) -> (char, usize) {
    let unit = |at: usize| -> Option<u16> {
        let digits = text.get(at..at + 6).filter(|part| part.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let Some(first) = unit(0) else { return ('?', 6.min(text.len())) };
    let units = [Some(first), unit(6)].into_iter().map_while(|unit| unit);
    match char::decode_utf16(units).next() {
        Some(Ok(sign)) => (sign, if sign.len_utf16() == 2 { 12 } else { 6 }),
        _ => (char::REPLACEMENT_CHARACTER, 6),
    }
}

/// Builds a record from the values of a line.
#[inline]
fn record(bytes: &mut [u8], values: &Values, zones: &mut Zones) -> Record {
    let mut text = |index: usize| unescaped(bytes, values[index]);
    let (user, database, application) = (text(USER), text(DATABASE), text(APPLICATION));
    let (message, detail) = (text(MESSAGE), text(DETAIL));
    let (statement, context) = (text(STATEMENT), text(CONTEXT));
    let plain = |index: usize| values[index].span.of(bytes);
    let session = session_id(plain(SESSION)).map(|(started_s, pid, _)| (started_s, pid));
    let (started_s, pid) = session.unwrap_or((0, number(plain(PID)) as u32));
    let origin = Origin {
        time_us: read_stamp_in_session(plain(TIME), (plain(STARTED), started_s), zones),
        pid,
        started_s,
        name: values[if session.is_some() { SESSION } else { PID }].span,
        session_line: number(plain(LINE)),
        user,
        database,
        application,
        transaction: transaction(plain(VIRTUAL_TRANSACTION), plain(TRANSACTION)),
        // A success has no code.
        code: plain(CODE).first_chunk().copied().unwrap_or_default(),
        is_background: is_background(plain(BACKEND)),
    };
    let severity = severity_of(plain(SEVERITY), &origin.code);
    Record::new(bytes, origin, severity, Texts { message, detail, statement, context })
}

impl LogReader for Json {
    fn first_record(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.first() == Some(&b'{') {
            return Some(0);
        }
        memchr::memchr_iter(b'\n', bytes)
            .map(|end| end + 1)
            .find(|&at| bytes.get(at) == Some(&b'{'))
    }

    fn read(&self, bytes: &mut [u8], is_whole: bool, found: &mut BlockContent) -> usize {
        let (mut at, mut line) = (0, 0);
        while at < bytes.len() {
            let length = memchr::memchr(b'\n', &bytes[at..]);
            let Some(length) = length.or(is_whole.then_some(bytes.len() - at)) else { return at };
            let mut end = at + length;
            let next = (end + 1).min(bytes.len());
            if length > 0 && bytes[end - 1] == b'\r' {
                end -= 1;
            }
            let mut values = Values::default();
            if object(&bytes[..end], at, &mut values).is_some() && !values[TIME].span.is_empty() {
                found.records.push(record(bytes, &values, &mut found.zones));
            } else if end > at {
                let is_torn = bytes[at] == b'{' && bytes[end - 1] != b'}';
                let reason = if is_torn { Reason::Torn } else { Reason::Malformed };
                found.fault(reason, line, Span::new(at, end));
            }
            (at, line) = (next, line + 1);
        }
        bytes.len()
    }
}
