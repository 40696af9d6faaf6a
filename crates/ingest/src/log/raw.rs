//! A plain file of SQL: statements with semicolons between them, in one session, without times.
//!
//! The statements are those that psql would send: data behind `COPY ... FROM STDIN` and psql's
//! `\copy ... from stdin` are passed over, and psql's own commands are reported. Each statement
//! keeps its semicolon and the comments inside and before it.

use std::io::Read;

use seatrial_sqltext::statements::{is_copy_in, is_something, statement_end};
use seatrial_trace::captured::Sink;

use super::assemble::Assembler;
use super::files::DetectedFile;
use super::message::{Message, MessageKind};
use super::record::{Fault, Record, Span};
use super::record_counts::{BlockStart, Reason};
use super::{LogError, ReadError};

/// The end of data behind COPY.
const DATA_END: &[u8] = b"\n\\.";

/// Marks UTF-8 at the beginning of a file; psql passes over it.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An item of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptItem {
    /// A statement, and where the next item begins.
    Statement(usize, usize),
    /// A command of psql.
    Command(usize, usize),
    /// An unterminated item at the file's end.
    Torn(usize),
    /// Blanks and comments only.
    Nothing,
    /// Its end is not in the buffer yet.
    Incomplete(usize),
}

/// Returns the item at an offset. At the file's end, a statement needs no semicolon.
fn item(bytes: &[u8], at: usize, is_end: bool) -> ScriptItem {
    let blanks = bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let start = at + blanks;
    if bytes.get(start) == Some(&b'\\') {
        let length = memchr::memchr(b'\n', &bytes[start..]);
        return match length.or(is_end.then_some(bytes.len() - start)) {
            Some(length) => ScriptItem::Command(start, start + length),
            None => ScriptItem::Incomplete(start),
        };
    }
    if let Some(length) = statement_end(&bytes[start..]) {
        return ScriptItem::Statement(start, start + length);
    }
    if !is_end {
        return ScriptItem::Incomplete(start);
    }
    // An open quote or comment swallows the semicolon.
    let is_open = statement_end(&[&bytes[start..], b"\n;"].concat()).is_none();
    match (is_open, is_something(&bytes[start..])) {
        (true, _) => ScriptItem::Torn(start),
        (false, true) => ScriptItem::Statement(start, bytes.len()),
        (false, false) => ScriptItem::Nothing,
    }
}

/// Reads a file of SQL.
struct ScriptReader<'a, 's, S: Sink> {
    assembler: &'a mut Assembler<'s, S>,
    buffer: Vec<u8>,
    start: BlockStart,
    /// Between a COPY and the end of its data, which are not kept: they can be of any length.
    is_in_data: bool,
}

impl<S: Sink> ScriptReader<'_, '_, S> {
    /// Reads the complete items in the buffer, and drops them.
    fn read(&mut self, is_end: bool) -> Result<(), S::Error> {
        let mut at = 0;
        if self.start.offset_bytes == 0 && self.buffer.starts_with(BYTE_ORDER_MARK) {
            at = BYTE_ORDER_MARK.len();
        }
        let (mut counted, mut line) = (0, 0);
        while at < self.buffer.len() {
            if self.is_in_data {
                let end = memchr::memmem::find(&self.buffer[at..], DATA_END);
                self.is_in_data = end.is_none();
                // The beginning of the end may be in the buffer.
                let behind = self.buffer.len().saturating_sub(DATA_END.len() - 1).max(at);
                at = end.map_or(behind, |length| at + length + DATA_END.len());
                if self.is_in_data {
                    break;
                }
                continue;
            }
            let item = item(&self.buffer, at, is_end);
            let (reason, start, end) = match item {
                ScriptItem::Statement(start, end) => {
                    self.statement(start, end)?;
                    self.is_in_data = is_copy_in(&self.buffer[start..end]);
                    at = end;
                    continue;
                }
                ScriptItem::Command(start, end) => {
                    // psql's \copy has the words of COPY.
                    self.is_in_data = is_copy_in(&self.buffer[start + 1..end]);
                    (Reason::PsqlCommand, start, end)
                }
                ScriptItem::Torn(start) => (Reason::Torn, start, self.buffer.len()),
                ScriptItem::Nothing => {
                    at = self.buffer.len();
                    break;
                }
                ScriptItem::Incomplete(start) => {
                    at = start;
                    break;
                }
            };
            line += memchr::memchr_iter(b'\n', &self.buffer[counted..start]).count();
            counted = start;
            let text = Span::new(start, end);
            let fault = Fault { reason, offset_bytes: start, line, text };
            self.assembler.counted.unreadable(&fault, &self.buffer, &self.start);
            at = end;
        }
        self.start.offset_bytes += at as u64;
        self.start.lines += memchr::memchr_iter(b'\n', &self.buffer[..at]).count() as u64;
        self.buffer.drain(..at);
        Ok(())
    }

    fn statement(&mut self, start: usize, end: usize) -> Result<(), S::Error> {
        let text = self.buffer[start..end].trim_ascii_end();
        if !is_something(text) {
            return Ok(());
        }
        let text = Span::new(start, start + text.len());
        let message = Message { kind: MessageKind::Statement, text, ..Message::default() };
        let record = Record { message, ..Record::default() };
        self.assembler.take_in(&record, &self.buffer)
    }
}

/// Reads a file and passes its statements to the assembler.
///
/// # Errors
///
/// When it cannot be read, or the sink gave up.
pub fn read<S: Sink>(
    known: &mut DetectedFile,
    block_bytes: usize,
    assembler: &mut Assembler<'_, S>,
) -> Result<(), ReadError<S::Error>> {
    let mut source = known.open()?;
    let path = known.file.path.clone();
    let start = BlockStart { file: path.clone(), ..BlockStart::default() };
    let mut reader = ScriptReader { assembler, buffer: Vec::new(), start, is_in_data: false };
    let mut wanted_bytes = block_bytes;
    loop {
        let before = reader.buffer.len();
        let mut part = source.by_ref().take((wanted_bytes.saturating_sub(before)).max(1) as u64);
        let read = part.read_to_end(&mut reader.buffer);
        let read = read.map_err(LogError::io(&path))?;
        known.file.log_bytes += read as u64;
        let is_end = read == 0;
        reader.read(is_end).map_err(ReadError::Sink)?;
        if is_end {
            return Ok(());
        }
        // A statement that fills the buffer is looked at again when twice as much is there.
        wanted_bytes = block_bytes.max(reader.buffer.len() * 2);
    }
}
