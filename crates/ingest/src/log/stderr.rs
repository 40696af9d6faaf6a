//! PostgreSQL's plain log: lines with a prefix, a label and a text.
//!
//! Further lines of a text begin with a tab, so a line without one is never inside of a text.
//! DETAIL, STATEMENT and the others are lines with a prefix of their own, written together with the
//! record that they belong to.

use super::message::Label;
use super::phrases::Section;
use super::prefix::{Prefix, is_code};
use super::record::{
    BlockContent, HEAD_BYTES_MAX, LogReader, Origin, Record, RecordTexts, Severity, Span,
};
use super::record_counts::Reason;
use super::stamp::Zones;

/// Reads lines that begin with a prefix.
#[derive(Debug)]
pub struct Stderr {
    prefix: Prefix,
    is_of_windows: bool,
}

impl Stderr {
    /// A reader for a prefix, and for lines that end in LF, or in CR and LF.
    pub fn new(prefix: Prefix, is_of_windows: bool) -> Stderr {
        Stderr { prefix, is_of_windows }
    }
}

/// Texts of a record.
#[derive(Debug, Clone, Copy)]
enum TextKind {
    Message = 0,
    Detail = 1,
    Statement = 2,
    Context = 3,
}

const TEXT_KINDS: usize = 4;

/// The range of a text, and whether it has more than one line.
#[derive(Debug, Clone, Copy, Default)]
struct TextRange {
    start: usize,
    end: usize,
    is_long: bool,
}

/// A record whose end was not read yet.
#[derive(Debug)]
struct Draft {
    start: usize,
    origin: Origin,
    severity: Severity,
    extents: [TextRange; TEXT_KINDS],
    /// The text that a line with a tab continues; None if it is not needed.
    current: Option<TextKind>,
}

impl Draft {
    #[inline]
    fn new(start: usize, origin: Origin, severity: Severity, text: TextRange) -> Draft {
        let mut extents = [TextRange::default(); TEXT_KINDS];
        extents[TextKind::Message as usize] = text;
        Draft { start, origin, severity, extents, current: Some(TextKind::Message) }
    }

    #[inline]
    fn section(&mut self, section: Section, text: TextRange) {
        self.current = match section {
            Section::Detail => Some(TextKind::Detail),
            Section::Statement => Some(TextKind::Statement),
            Section::Context => Some(TextKind::Context),
            Section::Other => None,
        };
        if let Some(part) = self.current {
            self.extents[part as usize] = text;
        }
    }

    #[inline]
    fn go_on(&mut self, end: usize) {
        if let Some(part) = self.current {
            let extent = &mut self.extents[part as usize];
            (extent.end, extent.is_long) = (end, true);
        }
    }

    /// Finishes the record. Tabs that PostgreSQL inserted are removed.
    #[inline]
    fn finish(mut self, bytes: &mut [u8], is_of_windows: bool, is_cut: bool) -> Record {
        let mut text = |part: TextKind| plain(bytes, self.extents[part as usize], is_of_windows);
        let (message, detail) = (text(TextKind::Message), text(TextKind::Detail));
        let (statement, context) = (text(TextKind::Statement), text(TextKind::Context));
        let message = verbose_code(bytes, message, &mut self.origin);
        let texts = RecordTexts { message, detail, statement, context };
        let mut record = Record::new(bytes, self.origin, self.severity, texts);
        record.is_cut = is_cut;
        record
    }
}

/// A text without its line end and the tabs of its lines, which are removed in place.
#[inline]
fn plain(bytes: &mut [u8], extent: TextRange, is_of_windows: bool) -> Span {
    let TextRange { start, mut end, is_long } = extent;
    if is_of_windows && end > start && bytes[end - 1] == b'\r' {
        end -= 1;
    }
    if is_long {
        end = without_tabs(bytes, start, end, is_of_windows);
    }
    Span::new(start, end)
}

/// Removes the tab behind each line's end, and on Windows the CR before it; returns the new end of
/// the text.
fn without_tabs(bytes: &mut [u8], start: usize, end: usize, is_of_windows: bool) -> usize {
    let (mut from, mut to) = (start, start);
    while let Some(length) = memchr::memchr(b'\n', &bytes[from..end]) {
        let behind = from + length + 1;
        bytes.copy_within(from..behind, to);
        to += length + 1;
        if is_of_windows && length > 0 && bytes[to - 2] == b'\r' {
            bytes[to - 2] = b'\n';
            to -= 1;
        }
        from = if bytes.get(behind) == Some(&b'\t') { behind + 1 } else { behind };
    }
    bytes.copy_within(from..end, to);
    to + end - from
}

/// `log_error_verbosity = verbose` writes the code before the message: `42P01: relation ...`.
#[inline]
fn verbose_code(bytes: &[u8], message: Span, origin: &mut Origin) -> Span {
    let text = message.of(bytes);
    if text.get(5..7) != Some(b": ") || !is_code(&text[..5]) {
        return message;
    }
    origin.code.copy_from_slice(&text[..5]);
    Span::new(message.start() + 7, message.end())
}

impl LogReader for Stderr {
    fn first_record(&self, bytes: &[u8]) -> Option<usize> {
        let mut zones = Zones::default();
        let mut at = 0;
        while at < bytes.len() {
            let length = memchr::memchr(b'\n', &bytes[at..]).unwrap_or(bytes.len() - at);
            let line = (at, at + length);
            let mut origin = Origin::default();
            let line_label = match bytes[at] {
                b'\t' => None,
                _ => self.prefix.read(bytes, line, &mut zones, &mut origin),
            };
            if line_label.is_some_and(|line_label| matches!(line_label.label, Label::Record(_))) {
                return Some(at);
            }
            at += length + 1;
        }
        None
    }

    fn read(&self, bytes: &mut [u8], is_whole: bool, content: &mut BlockContent) -> usize {
        let mut draft: Option<Draft> = None;
        let (mut at, mut line) = (0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = memchr::memchr(b'\n', rest);
            if length.is_none() && !is_whole && rest.len() < HEAD_BYTES_MAX {
                // It is undecided yet.
                return draft.map_or(at, |draft| draft.start);
            }
            let end = at + length.unwrap_or(rest.len());
            let next = end + 1;
            match &mut draft {
                Some(draft) if bytes[at] == b'\t' => draft.go_on(end),
                _ => self.read_line(bytes, (at, end), line, &mut draft, content),
            }
            (at, line) = (next, line + 1);
        }
        let Some(draft) = draft else { return bytes.len() };
        if !is_whole {
            return draft.start;
        }
        let is_cut = bytes.last() != Some(&b'\n');
        content.records.push(draft.finish(bytes, self.is_of_windows, is_cut));
        bytes.len()
    }
}

impl Stderr {
    /// Reads a line that does not continue the one before it.
    #[inline]
    fn read_line(
        &self,
        bytes: &mut [u8],
        (at, end): (usize, usize),
        line: usize,
        draft: &mut Option<Draft>,
        content: &mut BlockContent,
    ) {
        let mut origin = Origin::default();
        let line_label = self.prefix.read(bytes, (at, end), &mut content.zones, &mut origin);
        let text = |start: usize| TextRange { start, end, is_long: false };
        match (line_label.map(|line_label| (line_label.label, text(line_label.at))), &mut *draft) {
            (Some((Label::Record(severity), text)), _) => {
                let next = Draft::new(at, origin, severity, text);
                if let Some(last) = draft.replace(next) {
                    content.records.push(last.finish(bytes, self.is_of_windows, false));
                }
            }
            (Some((Label::Section(section), text)), Some(draft))
                if draft.origin.key() == origin.key() =>
            {
                draft.section(section, text);
            }
            (Some(_), _) => content.fault(Reason::Stray, line, Span::new(at, end)),
            (None, _) if matches!(&bytes[at..end], b"" | b"\r") => {}
            (None, draft) => {
                // Lines that continue this one are not the record's.
                if let Some(draft) = draft {
                    draft.current = None;
                }
                content.fault(Reason::NoPrefix, line, Span::new(at, end));
            }
        }
    }
}
