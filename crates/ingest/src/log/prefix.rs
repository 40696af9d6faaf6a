//! A compiled `log_line_prefix`.
//!
//! Escapes are those of PostgreSQL 14 to 18 (manual, "Error Reporting and Logging",
//! `log_line_prefix`; `elog.c`, `log_status_format`), with a width such as `%-10u`. Fields with a
//! fixed syntax (times, numbers, `%c`, `%e`) are read by it. Names have none, so they end where
//! the rest fits: the next literal, and finally a label such as `LOG:  `. If it does not
//! fit, the next position is tried.

use super::message::{Label, PhraseTable};
use super::record::{Origin, Span};
use super::stamp::{Zones, read_epoch, read_stamp};

/// Bytes that a name may have: an application 63, a host name 255 and its port.
const NAME_BYTES_MAX: usize = 300;

/// Positions tried in a line before it counts as one that does not fit.
const ATTEMPTS_MAX: u32 = 2_000;

/// PostgreSQL's word for an unknown name, in its languages.
/// Source: catalogs as for [`super::phrases`].
const UNKNOWN_NAMES: [&[u8]; 11] = [
    b"[unknown]",
    b"[unbekannt]",
    b"[desconocido]",
    b"[inconnu]",
    b"[sconosciuto]",
    "[不明]".as_bytes(),
    "[უცნობი]".as_bytes(),
    "[알수없음]".as_bytes(),
    "[н/д]".as_bytes(),
    "[okänd]".as_bytes(),
    "[未知]".as_bytes(),
];

/// Backend types of background processes that log statements which no client sent.
const BACKGROUND: [&[u8]; 3] = [b"parallel worker", b"walsender", b"logical replication"];

/// An escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Application,
    User,
    Database,
    /// Host, port or command: nothing that is needed.
    Other,
    Backend,
    Pid,
    Leader,
    /// With milliseconds.
    Stamp,
    StampInSeconds,
    Epoch,
    Code,
    Session,
    Line,
    Started,
    VirtualTransaction,
    Transaction,
    Query,
}

/// The minimum width of a field, and its alignment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Padding {
    width: usize,
    is_left: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PrefixPart {
    Literal(Vec<u8>),
    Field(Field, Padding),
    /// `%q`: processes without a session write no more.
    EndOfBackground,
}

/// A compiled `log_line_prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    text: String,
    parts: Vec<PrefixPart>,
}

/// The label behind the prefix of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLabel {
    /// The label, such as `LOG:  `.
    pub label: Label,
    /// Where what follows it begins.
    pub at: usize,
}

impl Prefix {
    /// Compiles the output of `SHOW log_line_prefix`. Escapes that PostgreSQL does not know write
    /// nothing, as they do there.
    pub fn new(text: &str) -> Prefix {
        let (mut parts, mut literal) = (Vec::new(), Vec::new());
        let mut bytes = text.as_bytes();
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = rest;
            if byte != b'%' {
                literal.push(byte);
                continue;
            }
            let padding = read_padding(&mut bytes);
            let Some((&escape, rest)) = bytes.split_first() else { break };
            bytes = rest;
            match escape {
                b'%' => literal.push(b'%'),
                b'q' => push(&mut parts, &mut literal, PrefixPart::EndOfBackground),
                escape => {
                    if let Some(field) = field(escape) {
                        push(&mut parts, &mut literal, PrefixPart::Field(field, padding));
                    }
                }
            }
        }
        if !literal.is_empty() {
            parts.push(PrefixPart::Literal(literal));
        }
        Prefix { text: text.to_owned(), parts }
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it identifies sessions.
    pub fn has_session(&self) -> bool {
        self.has(&[Field::Pid, Field::Session])
    }

    /// Whether it contains the time.
    pub fn has_time(&self) -> bool {
        self.has(&[Field::Stamp, Field::StampInSeconds, Field::Epoch])
    }

    /// The resolution of its time: `%t` in s, the others in ms.
    pub fn resolution_us(&self) -> i64 {
        if self.has(&[Field::Stamp, Field::Epoch]) { 1_000 } else { 1_000_000 }
    }

    /// Whether it contains error codes.
    pub fn has_code(&self) -> bool {
        self.has(&[Field::Code])
    }

    fn has(&self, fields: &[Field]) -> bool {
        self.parts.iter().any(|part| match part {
            PrefixPart::Field(field, _) => fields.contains(field),
            _ => false,
        })
    }

    /// Reads a line's prefix and label; None where it has none. Spans are of `bytes`; the line is
    /// at `start..end`.
    #[inline]
    pub fn read(
        &self,
        bytes: &[u8],
        (start, end): (usize, usize),
        zones: &mut Zones,
        origin: &mut Origin,
    ) -> Option<LineLabel> {
        let line = &bytes[..end];
        let phrases = PhraseTable::get();
        let mut reader =
            LineReader { line, zones, origin, has_virtual: false, attempts: 0, phrases };
        reader.fit(&self.parts, start)
    }
}

fn push(parts: &mut Vec<PrefixPart>, literal: &mut Vec<u8>, part: PrefixPart) {
    if !literal.is_empty() {
        parts.push(PrefixPart::Literal(std::mem::take(literal)));
    }
    parts.push(part);
}

/// `-10` in `%-10u`.
fn read_padding(bytes: &mut &[u8]) -> Padding {
    let is_left = bytes.first() == Some(&b'-');
    let digits = &bytes[usize::from(is_left)..];
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let add = |width: usize, digit: &u8| width * 10 + usize::from(digit - b'0');
    let width = digits[..count.min(4)].iter().fold(0, add);
    *bytes = &digits[count..];
    Padding { width, is_left }
}

fn field(escape: u8) -> Option<Field> {
    Some(match escape {
        b'a' => Field::Application,
        b'u' => Field::User,
        b'd' => Field::Database,
        b'r' | b'h' | b'L' | b'i' => Field::Other,
        b'b' => Field::Backend,
        b'p' => Field::Pid,
        b'P' => Field::Leader,
        b'm' => Field::Stamp,
        b't' => Field::StampInSeconds,
        b'n' => Field::Epoch,
        b'e' => Field::Code,
        b'c' => Field::Session,
        b'l' => Field::Line,
        b's' => Field::Started,
        b'v' => Field::VirtualTransaction,
        b'x' => Field::Transaction,
        b'Q' => Field::Query,
        _ => return None,
    })
}

/// Matches one line against the parts of a prefix.
struct LineReader<'a> {
    line: &'a [u8],
    zones: &'a mut Zones,
    origin: &'a mut Origin,
    /// Whether `%v` was read: in a failed transaction it is 0, while `%x` keeps its value.
    has_virtual: bool,
    attempts: u32,
    phrases: &'static PhraseTable,
}

impl LineReader<'_> {
    /// Fits the parts to the line from `at` on.
    #[inline]
    fn fit(&mut self, parts: &[PrefixPart], mut at: usize) -> Option<LineLabel> {
        for (index, part) in parts.iter().enumerate() {
            let rest = &parts[index + 1..];
            at = match part {
                PrefixPart::Literal(literal) if self.line[at..].starts_with(literal) => {
                    at + literal.len()
                }
                PrefixPart::Literal(_) => return None,
                PrefixPart::Field(field, padding) if is_name(*field) => {
                    return self.fit_name(*field, *padding, rest, at);
                }
                PrefixPart::Field(field, padding) => self.typed(*field, *padding, at)?,
                PrefixPart::EndOfBackground => {
                    let of_session = self.fit(rest, at);
                    return of_session.or_else(|| self.fit(&[], at));
                }
            };
        }
        let (label, length) = self.phrases.label(&self.line[at..])?;
        Some(LineLabel { label, at: at + length })
    }

    /// Fits a name, which ends where the rest fits.
    fn fit_name(
        &mut self,
        field: Field,
        padding: Padding,
        rest: &[PrefixPart],
        at: usize,
    ) -> Option<LineLabel> {
        let last = self.line.len().min(at + NAME_BYTES_MAX.max(padding.width));
        let mut end = at + padding.width;
        while end <= last {
            if let Some(PrefixPart::Literal(literal)) = rest.first() {
                end += memchr::memmem::find(&self.line[end..], literal)?;
            }
            self.attempts += 1;
            if self.attempts > ATTEMPTS_MAX {
                return None;
            }
            if let Some(line_label) = self.fit(rest, end) {
                self.note_name(field, trimmed(self.line, at, end, padding));
                return Some(line_label);
            }
            end += 1;
        }
        None
    }

    #[inline]
    fn note_name(&mut self, field: Field, span: Span) {
        match field {
            Field::Application => self.origin.application = known_name(self.line, span),
            Field::User => self.origin.user = known_name(self.line, span),
            Field::Database => self.origin.database = known_name(self.line, span),
            Field::Backend => self.origin.is_background |= is_background(span.of(self.line)),
            _ => {}
        }
    }

    /// Reads a field with a fixed syntax, and returns where it ends.
    #[inline]
    fn typed(&mut self, field: Field, padding: Padding, at: usize) -> Option<usize> {
        let mut start = at;
        if padding.width > 0 && !padding.is_left {
            start += self.line[at..].iter().take_while(|&&byte| byte == b' ').count();
        }
        let mut end = start + self.form(field, start)?;
        while padding.is_left && end < at + padding.width && self.line.get(end) == Some(&b' ') {
            end += 1;
        }
        Some(end)
    }

    /// Reads a field by its syntax into the origin; returns its length.
    #[inline]
    fn form(&mut self, field: Field, at: usize) -> Option<usize> {
        let text = &self.line[at..];
        match field {
            Field::Stamp | Field::StampInSeconds | Field::Started => {
                let (time_us, length) = read_stamp(text, self.zones)?;
                if field == Field::Started {
                    self.origin.started_s = (time_us / 1_000_000) as u32;
                } else {
                    self.origin.time_us = Some(time_us);
                }
                Some(length)
            }
            Field::Epoch => {
                let (time_us, length) = read_epoch(text)?;
                self.origin.time_us = Some(time_us);
                Some(length)
            }
            Field::Pid => {
                let (pid, length) = number(text).filter(|&(_, length)| length > 0)?;
                self.origin.pid = pid as u32;
                if self.origin.name.is_empty() {
                    self.origin.name = Span::new(at, at + length);
                }
                Some(length)
            }
            Field::Session => {
                let (started_s, pid, length) = session_id(text)?;
                (self.origin.started_s, self.origin.pid) = (started_s, pid);
                self.origin.name = Span::new(at, at + length);
                Some(length)
            }
            Field::Code => {
                let code = text.first_chunk::<5>().filter(|code| is_code(*code))?;
                self.origin.code = *code;
                Some(5)
            }
            Field::Line => {
                let (line, length) = number(text).filter(|&(_, length)| length > 0)?;
                self.origin.session_line = line;
                Some(length)
            }
            Field::VirtualTransaction => self.virtual_transaction(text),
            Field::Transaction => {
                let (transaction, length) = number(text)?;
                if !self.has_virtual {
                    self.origin.transaction = transaction;
                }
                Some(length)
            }
            Field::Leader => {
                let (_, length) = number(text)?;
                self.origin.is_background |= length > 0;
                Some(length)
            }
            _ => {
                let sign = usize::from(text.first() == Some(&b'-'));
                Some(sign + number(&text[sign..])?.1)
            }
        }
    }

    /// `3/24`, or nothing outside of transactions; the second number is the transaction.
    #[inline]
    fn virtual_transaction(&mut self, text: &[u8]) -> Option<usize> {
        let (transaction, length) = virtual_transaction(text);
        if length > 0 {
            self.origin.transaction = transaction;
            self.has_virtual = true;
        }
        Some(length)
    }
}

fn is_name(field: Field) -> bool {
    matches!(
        field,
        Field::Application | Field::User | Field::Database | Field::Other | Field::Backend
    )
}

/// The number at the beginning of a text and its length; None if it overflows.
#[inline]
pub fn number(text: &[u8]) -> Option<(u64, usize)> {
    let (mut number, mut length) = (0u64, 0);
    while let Some(digit) = text.get(length).filter(|byte| byte.is_ascii_digit()) {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        length += 1;
    }
    Some((number, length))
}

/// `BACKEND/TRANSACTION`, as `%v` and the other formats write it: the transaction
/// and the length; zeros if absent.
#[inline]
pub fn virtual_transaction(text: &[u8]) -> (u64, usize) {
    let sign = usize::from(text.first() == Some(&b'-'));
    let Some((_, backend)) = number(&text[sign..]) else { return (0, 0) };
    let slash = sign + backend;
    if backend == 0 || text.get(slash) != Some(&b'/') {
        return (0, 0);
    }
    match number(&text[slash + 1..]) {
        Some((transaction, length)) if length > 0 => (transaction, slash + 1 + length),
        _ => (0, 0),
    }
}

/// `6b01e826.74dd`: start and process number in hexadecimal, and the length.
#[inline]
pub fn session_id(text: &[u8]) -> Option<(u32, u32, usize)> {
    let (started_s, point) = hexadecimal(text)?;
    if text.get(point) != Some(&b'.') {
        return None;
    }
    let (pid, length) = hexadecimal(&text[point + 1..])?;
    Some((started_s as u32, pid as u32, point + 1 + length))
}

#[inline]
fn hexadecimal(text: &[u8]) -> Option<(u64, usize)> {
    let (mut number, mut length) = (0u64, 0);
    while let Some(&byte) = text.get(length) {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => break,
        };
        number = number << 4 | u64::from(digit);
        length += 1;
    }
    (1..=16).contains(&length).then_some((number, length))
}

/// Five digits and capitals, as SQLSTATE has it.
#[inline]
pub fn is_code(code: &[u8]) -> bool {
    code.len() == 5 && code.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'Z'))
}

/// A name; empty for the placeholder of an unknown one.
#[inline]
pub fn known_name(bytes: &[u8], span: Span) -> Span {
    let name = span.of(bytes);
    let is_unknown = name.first() == Some(&b'[') && UNKNOWN_NAMES.contains(&name);
    if is_unknown { Span::default() } else { span }
}

/// Whether a kind of backend serves no client.
#[inline]
pub fn is_background(backend: &[u8]) -> bool {
    BACKGROUND.iter().any(|kind| backend.starts_with(kind))
}

/// A padded name without its blanks.
fn trimmed(line: &[u8], mut start: usize, mut end: usize, padding: Padding) -> Span {
    let is_blank = |at: usize| line.get(at) == Some(&b' ');
    while padding.width > 0 && padding.is_left && end > start && is_blank(end - 1) {
        end -= 1;
    }
    while padding.width > 0 && !padding.is_left && start < end && is_blank(start) {
        start += 1;
    }
    Span::new(start, end)
}
