//! jsonlog, since PostgreSQL 15: one object a line.
//!
//! Source of the keys: PostgreSQL's manual, "Using JSON-Format Log Output"; `jsonlog.c`. Only what
//! PostgreSQL writes is read: one flat object of texts, numbers and null, without blanks.

use super::csv::{self, Column, Columns};
use super::record::{BlockContent, LogReader, Span};
use super::record_counts::Reason;

/// Reads jsonlog.
#[derive(Debug)]
pub struct Json;

/// The keys that are needed, with their columns in csvlog.
const KEYS: [(&[u8], usize); 17] = [
    (b"timestamp", csv::TIME),
    (b"user", csv::USER),
    (b"dbname", csv::DATABASE),
    (b"session_id", csv::SESSION),
    (b"line_num", csv::LINE),
    (b"vxid", csv::VIRTUAL_TRANSACTION),
    (b"txid", csv::TRANSACTION),
    (b"error_severity", csv::SEVERITY),
    (b"state_code", csv::CODE),
    (b"message", csv::MESSAGE),
    (b"detail", csv::DETAIL),
    (b"context", csv::CONTEXT),
    (b"statement", csv::STATEMENT),
    (b"application_name", csv::APPLICATION),
    (b"backend_type", csv::BACKEND),
    (b"pid", csv::PID),
    (b"session_start", csv::STARTED),
];

/// Reads a text behind its first quote; returns its value and the offset behind its last quote.
#[inline]
fn text(line: &[u8], start: usize) -> Option<(Column, usize)> {
    let (mut end, mut is_escaped) = (start, false);
    loop {
        end += memchr::memchr2(b'"', b'\\', line.get(end..)?)?;
        if line[end] == b'"' {
            return Some((Column { span: Span::new(start, end), is_escaped }, end + 1));
        }
        (end, is_escaped) = (end + 2, true);
    }
}

/// Reads `{"key":value,...}` from a line that ends at the end of `line`.
#[inline]
fn object(line: &[u8], start: usize, columns: &mut Columns) -> Option<()> {
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
        if let Some((_, index)) = KEYS.iter().find(|(name, _)| *name == key.span.of(line)) {
            columns[*index] = value;
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
fn bare(line: &[u8], start: usize) -> Option<(Column, usize)> {
    let length = memchr::memchr2(b',', b'}', &line[start..])?;
    let is_null = &line[start..start + length] == b"null";
    let span = Span::new(start, if is_null { start } else { start + length });
    Some((Column { span, is_escaped: false }, start + length))
}

/// Takes the backslashes out of a text, in place.
#[inline]
fn unescaped(bytes: &mut [u8], value: Column) -> Span {
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

impl LogReader for Json {
    fn first_record(&self, bytes: &[u8]) -> Option<usize> {
        if bytes.first() == Some(&b'{') {
            return Some(0);
        }
        memchr::memchr_iter(b'\n', bytes)
            .map(|end| end + 1)
            .find(|&at| bytes.get(at) == Some(&b'{'))
    }

    fn read(&self, bytes: &mut [u8], is_whole: bool, content: &mut BlockContent) -> usize {
        let (mut at, mut line) = (0, 0);
        while at < bytes.len() {
            let length = memchr::memchr(b'\n', &bytes[at..]);
            let Some(length) = length.or(is_whole.then_some(bytes.len() - at)) else { return at };
            let mut end = at + length;
            let next = (end + 1).min(bytes.len());
            if length > 0 && bytes[end - 1] == b'\r' {
                end -= 1;
            }
            let mut columns = Columns::default();
            if object(&bytes[..end], at, &mut columns).is_some()
                && !columns[csv::TIME].span.is_empty()
            {
                let record = csv::record(bytes, &columns, unescaped, &mut content.zones);
                content.records.push(record);
            } else if end > at {
                let is_torn = bytes[at] == b'{' && bytes[end - 1] != b'}';
                let reason = if is_torn { Reason::Torn } else { Reason::Malformed };
                content.fault(reason, line, Span::new(at, end));
            }
            (at, line) = (next, line + 1);
        }
        bytes.len()
    }
}
