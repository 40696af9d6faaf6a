//! A plain file of SQL: statements with semicolons between them, in one session, without times.
//!
//! The statements are those that psql would send: data behind `COPY ... FROM STDIN` are passed
//! over, and psql's own commands are reported. Each statement keeps its semicolon and the comments
//! inside and before it.

use std::io::Read;

use seatrial_sqltext::statements::{is_copy_in, is_something, statement_end};
use seatrial_trace::captured::Sink;

use super::assemble::Assembler;
use super::files::Known;
use super::message::{Message, Said};
use super::record::{Fault, Record, Span};
use super::record_counts::{BlockStart, Reason};
use super::{LogError, ReadError};

/// The end of data behind COPY.
const DATA_END: &[u8] = b"\n\\.";

/// The syntax at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// A statement, and where the next piece begins.
    Statement(usize, usize),
    /// A command of psql.
    Command(usize, usize),
    /// Something that has no end, which the file ends in.
    Torn(usize),
    /// Nothing but blanks and comments.
    Nothing,
    /// Its end is not in sight.
    Unfinished(usize),
}

/// Returns the syntax at a place. At the file's end, a statement needs no semicolon.
fn piece(bytes: &[u8], at: usize, is_end: bool) -> Piece {
    let blanks = bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let start = at + blanks;
    if bytes.get(start) == Some(&b'\\') {
        let length = memchr::memchr(b'\n', &bytes[start..]);
        return match length.or(is_end.then_some(bytes.len() - start)) {
            Some(length) => Piece::Command(start, start + length),
            None => Piece::Unfinished(start),
        };
    }
    if let Some(length) = statement_end(&bytes[start..]) {
        let end = start + length;
        if is_copy_in(&bytes[start..end]) {
            return match memchr::memmem::find(&bytes[end..], DATA_END) {
                Some(length) => Piece::Statement(start, end + length + DATA_END.len()),
                None if is_end => Piece::Statement(start, bytes.len()),
                None => Piece::Unfinished(start),
            };
        }
        return Piece::Statement(start, end);
    }
    if !is_end {
        return Piece::Unfinished(start);
    }
    // What is open takes a semicolon in.
    let is_open = statement_end(&[&bytes[start..], b"\n;"].concat()).is_none();
    match (is_open, is_something(&bytes[start..])) {
        (true, _) => Piece::Torn(start),
        (false, true) => Piece::Statement(start, bytes.len()),
        (false, false) => Piece::Nothing,
    }
}

/// A file of SQL that is being read.
struct Reading<'a, 's, S: Sink> {
    assembler: &'a mut Assembler<'s, S>,
    buffer: Vec<u8>,
    place: BlockStart,
}

impl<S: Sink> Reading<'_, '_, S> {
    /// Reads the pieces that are in sight, and forgets them.
    fn read(&mut self, is_end: bool) -> Result<(), S::Error> {
        let mut at = 0;
        let (mut counted, mut line) = (0, 0);
        while at < self.buffer.len() {
            let piece = piece(&self.buffer, at, is_end);
            let (reason, start, end) = match piece {
                Piece::Statement(start, end) => {
                    self.statement(start, end)?;
                    at = end;
                    continue;
                }
                Piece::Command(start, end) => (Reason::PsqlCommand, start, end),
                Piece::Torn(start) => (Reason::Torn, start, self.buffer.len()),
                Piece::Nothing => {
                    at = self.buffer.len();
                    break;
                }
                Piece::Unfinished(start) => {
                    at = start;
                    break;
                }
            };
            line += memchr::memchr_iter(b'\n', &self.buffer[counted..start]).count();
            counted = start;
            let text = Span::new(start, end);
            let fault = Fault { reason, offset_bytes: start, line, text };
            self.assembler.counted.unreadable(&fault, &self.buffer, &self.place);
            at = end;
        }
        self.place.offset_bytes += at as u64;
        self.place.lines += memchr::memchr_iter(b'\n', &self.buffer[..at]).count() as u64;
        self.buffer.drain(..at);
        Ok(())
    }

    fn statement(&mut self, start: usize, behind: usize) -> Result<(), S::Error> {
        // Of COPY only the statement itself, not its data.
        let length = statement_end(&self.buffer[start..behind]).unwrap_or(behind - start);
        let text = self.buffer[start..start + length].trim_ascii_end();
        if !is_something(text) {
            return Ok(());
        }
        let text = Span::new(start, start + text.len());
        let message = Message { said: Said::Statement, text, ..Message::default() };
        let record = Record { message, ..Record::default() };
        self.assembler.take_in(&record, &self.buffer)
    }
}

/// Reads a file, and hands its statements to the assembler.
///
/// # Errors
///
/// When it cannot be read, or the sink gave up.
pub fn read<S: Sink>(
    known: &mut Known,
    block_bytes: usize,
    assembler: &mut Assembler<'_, S>,
) -> Result<(), ReadError<S::Error>> {
    let mut source = known.open()?;
    let path = known.file.path.clone();
    let place = BlockStart { file: path.clone(), ..BlockStart::default() };
    let mut reading = Reading { assembler, buffer: Vec::new(), place };
    let mut wanted_bytes = block_bytes;
    loop {
        let before = reading.buffer.len();
        let mut part = source.by_ref().take((wanted_bytes.saturating_sub(before)).max(1) as u64);
        let read = part.read_to_end(&mut reading.buffer);
        let read = read.map_err(|source| LogError::Io { path: path.clone(), source })?;
        known.file.log_bytes += read as u64;
        let is_end = read == 0;
        reading.read(is_end).map_err(ReadError::Sink)?;
        if is_end {
            return Ok(());
        }
        // A statement that fills the buffer is looked at again when twice as much is there.
        wanted_bytes = block_bytes.max(reading.buffer.len() * 2);
    }
}
