//! Recognises the messages about statements and connections.

use std::sync::LazyLock;

use memchr::memmem;
use seatrial_sqltext::statements;
use serde::{Deserialize, Serialize};

use super::phrases::{LANGUAGES, Language, Section};
use super::prefix::number;
use super::record::{Origin, Severity, Span};

/// PostgreSQL's name for the unnamed statement and the unnamed portal.
const UNNAMED: &[u8] = b"<unnamed>";

/// The text behind the application's name where a connection is authorized, in any language.
const ENCRYPTION: [&[u8]; 2] = [b" SSL", b" GSS ("];

/// The event that a message reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageKind {
    /// Any other event.
    #[default]
    Other,
    /// A statement of the simple protocol.
    Statement,
    /// A statement was parsed.
    Parse,
    /// Parameters were bound to a statement.
    Bind,
    /// A bound statement is executed.
    Execute,
    /// More rows are fetched from a portal.
    Fetch,
    /// A function was called without SQL.
    FastPath,
    /// How long something took that was logged before.
    Duration,
    /// A connection came in.
    Received,
    /// A connection was let in.
    Authorized,
    /// Something else of a connection: that it was authenticated, that it is ready.
    Connection,
    /// A connection ended.
    Disconnected,
}

/// A parsed message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The event that it reports.
    pub kind: MessageKind,
    /// How long it took, if the record says so.
    pub duration_us: Option<u64>,
    /// Name of the prepared statement; empty for the unnamed one.
    pub name: Span,
    /// Name of the portal; empty for the unnamed one.
    pub portal: Span,
    /// The statement's text.
    pub text: Span,
}

/// A placeholder between two literals of a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    Duration,
    Name,
    Text,
}

/// A phrase, compiled for matching.
#[derive(Debug)]
struct Phrase {
    kind: MessageKind,
    language: &'static Language,
    before: &'static [u8],
    placeholders: Vec<(Placeholder, &'static [u8])>,
}

impl Phrase {
    fn new(language: &'static Language, kind: MessageKind, template: &'static str) -> Phrase {
        let mut parts = template.split('{');
        let before = parts.next().unwrap_or_default().as_bytes();
        let placeholder = |part: &'static str| match part.split_once('}') {
            Some(("d", literal)) => (Placeholder::Duration, literal.as_bytes()),
            Some(("n", literal)) => (Placeholder::Name, literal.as_bytes()),
            Some((_, literal)) => (Placeholder::Text, literal.as_bytes()),
            None => (Placeholder::Text, part.as_bytes()),
        };
        Phrase { kind, language, before, placeholders: parts.map(placeholder).collect() }
    }

    /// Parses a text, if it matches this phrase.
    #[inline]
    fn read(&self, text: &[u8], offset_bytes: usize) -> Option<Message> {
        let mut at = self.before.len();
        let mut message = Message { kind: self.kind, ..Message::default() };
        for &(placeholder, literal) in &self.placeholders {
            let rest = &text[at..];
            let length = match placeholder {
                Placeholder::Duration => {
                    let (duration_us, length) = read_ms(rest)?;
                    message.duration_us = Some(duration_us);
                    length
                }
                Placeholder::Name => {
                    let length = name_bytes(rest, literal)?;
                    (message.name, message.portal) = names(&rest[..length], offset_bytes + at);
                    length
                }
                Placeholder::Text => {
                    message.text = Span::new(offset_bytes + at, offset_bytes + text.len());
                    return Some(message);
                }
            };
            at += length + literal.len();
            if !rest[length..].starts_with(literal) {
                return None;
            }
        }
        (at == text.len()).then_some(message)
    }
}

/// Ten years: what is longer is no duration of a statement.
const DURATION_MS_MAX: u64 = 3_653 * 86_400_000;

/// Milliseconds with three decimals, in µs, and the length of their text.
#[inline]
fn read_ms(text: &[u8]) -> Option<(u64, usize)> {
    let (ms, length) = number(text).filter(|&(_, length)| text.get(length) == Some(&b'.'))?;
    let (part_us, decimals) = number(text.get(length + 1..length + 4)?)?;
    let is_duration = length > 0 && decimals == 3 && ms <= DURATION_MS_MAX;
    is_duration.then(|| (ms * 1_000 + part_us, length + 4))
}

/// Names that PostgreSQL cuts no shorter: `NAMEDATALEN` of a statement, and that of its portal.
const NAMES_BYTES_MAX: usize = 130;

/// The length of a name that ends in a literal such as `: `. If the name contains the literal, it
/// ends where SQL begins.
#[inline]
fn name_bytes(text: &[u8], literal: &[u8]) -> Option<usize> {
    let first = find(text, literal)?;
    let behind = first + literal.len();
    let in_names = &text[behind..text.len().min(NAMES_BYTES_MAX).max(behind)];
    if find(in_names, literal).is_none() { Some(first) } else { name_by_sql(text, literal) }
}

#[cold]
fn name_by_sql(text: &[u8], literal: &[u8]) -> Option<usize> {
    let mut ends = memmem::find_iter(text, literal);
    let first = ends.next()?;
    let ends = std::iter::once(first).chain(ends).take_while(|&end| end < NAMES_BYTES_MAX);
    let mut ends = ends.filter(|end| statements::begins_statement(&text[end + literal.len()..]));
    Some(ends.next().unwrap_or(first))
}

/// The offset of a short literal. Looking for its first byte is quicker than preparing a search.
#[inline]
fn find(text: &[u8], literal: &[u8]) -> Option<usize> {
    let first = *literal.first()?;
    let mut positions = memchr::memchr_iter(first, text);
    positions.find(|&at| text[at..].starts_with(literal))
}

/// `NAME` or `NAME/PORTAL`.
#[inline]
fn names(text: &[u8], offset_bytes: usize) -> (Span, Span) {
    let slash = memchr::memrchr(b'/', text).unwrap_or(text.len());
    let portal = Span::new(offset_bytes + (slash + 1).min(text.len()), offset_bytes + text.len());
    if &text[..slash] == UNNAMED {
        return (Span::default(), portal);
    }
    (Span::new(offset_bytes, offset_bytes + slash), portal)
}

/// What follows the prefix of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// A record.
    Record(Severity),
    /// A part of the record before it.
    Section(Section),
}

/// The phrases and labels of all languages, by their first byte.
#[derive(Debug)]
pub struct PhraseTable {
    phrases: Vec<Vec<Phrase>>,
    labels: Vec<Vec<(&'static [u8], Label)>>,
}

static PHRASES: LazyLock<PhraseTable> = LazyLock::new(PhraseTable::new);

impl PhraseTable {
    /// The table of all languages.
    pub fn get() -> &'static PhraseTable {
        &PHRASES
    }

    fn new() -> PhraseTable {
        let mut table = PhraseTable {
            phrases: (0..256).map(|_| Vec::new()).collect(),
            labels: (0..256).map(|_| Vec::new()).collect(),
        };
        for language in &LANGUAGES {
            let severities = language.severities.iter();
            let severities = severities.map(|&(word, severity)| (word, Label::Record(severity)));
            let sections = language.labels.iter();
            let sections = sections.map(|&(word, section)| (word, Label::Section(section)));
            for (word, label) in severities.chain(sections) {
                table.labels[usize::from(word.as_bytes()[0])].push((word.as_bytes(), label));
            }
            for &(kind, template) in language.messages {
                let first = usize::from(template.as_bytes()[0]);
                table.phrases[first].push(Phrase::new(language, kind, template));
            }
        }
        table
    }

    /// The label that bytes begin with, and its length.
    #[inline]
    pub fn label(&self, bytes: &[u8]) -> Option<(Label, usize)> {
        let labels = &self.labels[usize::from(*bytes.first()?)];
        let found = labels.iter().find(|(word, _)| bytes.starts_with(word));
        found.map(|&(word, label)| (label, word.len()))
    }

    /// The severity of a word in a separate column; None for an unknown word.
    #[inline]
    pub fn severity(&self, word: &[u8]) -> Option<Severity> {
        let labels = &self.labels[usize::from(*word.first()?)];
        let is_it = |label: &[u8]| label.strip_suffix(b":  ") == Some(word);
        labels.iter().find_map(|&(label, kind)| match kind {
            Label::Record(severity) if is_it(label) => Some(severity),
            _ => None,
        })
    }

    /// Parses a message. An authorized connection sets user and database of the origin.
    #[inline]
    pub fn message(&self, bytes: &[u8], span: Span, origin: &mut Origin) -> Message {
        let text = span.of(bytes);
        let Some(&first) = text.first() else { return Message::default() };
        for phrase in &self.phrases[usize::from(first)] {
            if !text.starts_with(phrase.before) {
                continue;
            }
            if let Some(message) = phrase.read(text, span.start()) {
                if message.kind == MessageKind::Authorized {
                    authorized(phrase.language, bytes, message.text, origin);
                }
                return message;
            }
        }
        Message::default()
    }
}

/// `USER database=DATABASE application_name=APPLICATION SSL enabled (...)`.
#[cold]
fn authorized(language: &Language, bytes: &[u8], span: Span, origin: &mut Origin) {
    let text = span.of(bytes);
    let find = |word: &[u8]| memmem::find(text, word);
    let ends = ENCRYPTION.iter().filter_map(|word| find(word));
    let end = ends.min().unwrap_or(text.len());
    let application = find(language.application.as_bytes()).filter(|&at| at < end).unwrap_or(end);
    let database =
        find(language.database.as_bytes()).filter(|&at| at < application).unwrap_or(application);
    let part = |from: usize, to: usize| Span::new(span.start() + from.min(to), span.start() + to);
    origin.user = part(0, database);
    origin.database = part(database + language.database.len(), application);
    if application < end {
        origin.application = part(application + language.application.len(), end);
    }
}

/// The span of the parameters' values in DETAIL; empty if it has none.
#[inline]
pub fn detail_parameters(bytes: &[u8], detail: Span) -> Span {
    let text = detail.of(bytes);
    if text.is_empty() {
        return Span::default();
    }
    let labels = LANGUAGES.iter().flat_map(|language| language.parameters);
    let found = labels.map(|label| label.as_bytes()).find(|label| text.starts_with(label));
    found.map_or(Span::default(), |label| Span::new(detail.start() + label.len(), detail.end()))
}

/// The span of the parameters' values in the CONTEXT of an error
/// (`log_parameter_max_length_on_error`); empty if it has none.
#[cold]
pub fn context_parameters(bytes: &[u8], context: Span) -> Span {
    let text = context.of(bytes);
    let labels = LANGUAGES.iter().flat_map(|language| language.portal_parameters);
    let found = labels.filter_map(|label| {
        let at = memmem::find(text, label.as_bytes())?;
        Some(at + label.len())
    });
    let start = found.min();
    start.map_or(Span::default(), |at| Span::new(context.start() + at, context.end()))
}
