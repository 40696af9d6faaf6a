//! A log in parts: ranges of bytes that are read anywhere, and put together in their order.
//!
//! A part is read as blocks are (see [`super::blocks`]): its first record is the first that begins
//! in it, and the bytes before belong to the unfinished record of the previous part. So it
//! makes no difference where the parts begin. What was read of a part is compressed: it is small
//! enough to be sent. A compressed file can only be read from its beginning: it is one
//! part, which is read and sent chunk by chunk.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use seatrial_trace::captured::digest;
use serde::{Deserialize, Serialize};

use super::blocks::{Block, Parsed, parse};
use super::files::{self, DetectedFile};
use super::record::LogReader;
use super::{BLOCK_BYTES, Format, LogError};

/// The fastest level: the result is sent once.
const ZSTD_LEVEL: i32 = 1;

/// Bytes at a file's beginning that identify it on another host.
const HEAD_BYTES: u64 = 64 << 10;

/// A range of a file's bytes, as it is sent to the process that reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogPart {
    /// Which of the log's files, in their order.
    pub file: usize,
    /// Its path, the same on every host.
    pub path: PathBuf,
    /// Where the part begins.
    pub start_bytes: u64,
    /// Where it ends; None for the end of a compressed file.
    pub end_bytes: Option<u64>,
    format: String,
    prefix: String,
    is_of_windows: bool,
    /// A hash of the file's beginning.
    head: String,
    /// The version of Seatrial that planned it.
    version: String,
}

/// Plans the parts of a log, each of at most the given size.
///
/// # Errors
///
/// When a file cannot be read, or is not to be read in parts: standard input, a file of SQL.
pub fn plan(files: &[DetectedFile], part_bytes: u64) -> Result<Vec<LogPart>, LogError> {
    let mut parts = Vec::new();
    for (index, detected) in files.iter().enumerate() {
        let path = &detected.file.path;
        if detected.is_standard_input() || detected.file.format == Format::Raw {
            return Err(LogError::NotInParts { path: path.clone() });
        }
        let part = LogPart {
            file: index,
            path: path.clone(),
            start_bytes: 0,
            end_bytes: None,
            format: detected.file.format.name().to_owned(),
            prefix: detected.file.prefix.clone(),
            is_of_windows: detected.is_of_windows,
            head: head_of(path)?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        if files::is_packed(path)? {
            parts.push(part);
            continue;
        }
        let starts_bytes = (0..detected.file.size_bytes).step_by(part_bytes.max(1) as usize);
        parts.extend(starts_bytes.map(|start_bytes| LogPart {
            start_bytes,
            end_bytes: Some(detected.file.size_bytes.min(start_bytes + part_bytes)),
            ..part.clone()
        }));
    }
    Ok(parts)
}

fn head_of(path: &PathBuf) -> Result<String, LogError> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(LogError::io(path))?;
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(LogError::io(path))?;
    Ok(String::from_utf8_lossy(&digest(&head)).into_owned())
}

/// Reads a part, chunk by chunk.
pub struct LogPartReader {
    part: LogPart,
    reader: Box<dyn LogReader>,
    source: Box<dyn Read + Send>,
    offset_bytes: u64,
    ended_line: bool,
    is_at_end: bool,
}

impl LogPartReader {
    /// Opens the file of a part.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is another file than the one that was planned for.
    pub fn open(part: LogPart) -> Result<LogPartReader, LogError> {
        let path = &part.path;
        let format = Format::ALL.into_iter().find(|format| format.name() == part.format);
        let reader =
            format.and_then(|format| files::reader(format, &part.prefix, part.is_of_windows));
        let other = || LogError::DifferentFile { path: path.clone() };
        let reader = reader.filter(|_| part.version == env!("CARGO_PKG_VERSION"));
        let reader = reader.ok_or_else(other)?;
        if head_of(path)? != part.head {
            return Err(other());
        }
        let mut ended_line = true;
        let source: Box<dyn Read + Send> = match part.end_bytes {
            None => files::open(path)?,
            Some(end_bytes) => {
                let mut file = File::open(path).map_err(LogError::io(path))?;
                if let Some(before) = part.start_bytes.checked_sub(1) {
                    let mut byte = [0];
                    file.seek(SeekFrom::Start(before)).map_err(LogError::io(path))?;
                    let read = file.read(&mut byte).map_err(LogError::io(path))?;
                    ended_line = read == 1 && byte == *b"\n";
                }
                Box::new(file.take(end_bytes.saturating_sub(part.start_bytes)))
            }
        };
        let offset_bytes = part.start_bytes;
        Ok(LogPartReader { part, reader, source, offset_bytes, ended_line, is_at_end: false })
    }

    /// Reads at most the given number of bytes, and compresses the result; None at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is shorter than it was.
    pub fn next(&mut self, chunk_bytes: u64) -> Result<Option<Vec<u8>>, LogError> {
        let path = &self.part.path;
        let until_bytes = self.offset_bytes.saturating_add(chunk_bytes.max(1));
        let mut packed = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL).map_err(LogError::io(path))?;
        let mut block = Block::default();
        let mut is_empty = true;
        while self.offset_bytes < until_bytes && !self.is_at_end {
            let read_bytes = (until_bytes - self.offset_bytes).min(BLOCK_BYTES as u64);
            block.bytes.clear();
            let mut part = self.source.by_ref().take(read_bytes);
            let read = part.read_to_end(&mut block.bytes).map_err(LogError::io(path))?;
            self.is_at_end = (read as u64) < read_bytes;
            if read == 0 {
                break;
            }
            block.file = self.part.file;
            (block.offset_bytes, block.begins_line) = (self.offset_bytes, self.ended_line);
            self.offset_bytes += read as u64;
            self.ended_line = block.bytes.last() == Some(&b'\n');
            let parsed = parse(self.reader.as_ref(), block);
            pack(&parsed, &mut packed).map_err(LogError::io(path))?;
            block = parsed.block;
            is_empty = false;
        }
        let is_cut =
            self.is_at_end && self.part.end_bytes.is_some_and(|end| self.offset_bytes < end);
        if is_cut {
            return Err(LogError::Truncated {
                path: path.clone(),
                length_bytes: self.offset_bytes,
            });
        }
        let packed = packed.finish().map_err(LogError::io(path))?;
        Ok(Some(packed).filter(|_| !is_empty))
    }
}

/// Writes a block: everything but its bytes, their count, and the bytes.
fn pack(parsed: &Parsed, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let bytes = &parsed.block.bytes;
    out.write_all(&postcard::to_allocvec(&(parsed, bytes.len())).map_err(std::io::Error::other)?)?;
    out.write_all(bytes)
}

/// The parsed blocks of one chunk of a part, decompressed.
#[derive(Debug)]
pub struct ParsedChunk(pub(super) Vec<Parsed>);

impl ParsedChunk {
    /// Decompresses the output of [`LogPartReader::next`].
    ///
    /// # Errors
    ///
    /// When it was not made by it.
    pub fn unpack(packed: &[u8]) -> std::io::Result<ParsedChunk> {
        let unpacked = zstd::decode_all(packed)?;
        let (mut rest, mut blocks) = (unpacked.as_slice(), Vec::new());
        while !rest.is_empty() {
            let ((mut parsed, length), behind): ((Parsed, usize), _) =
                postcard::take_from_bytes(rest).map_err(std::io::Error::other)?;
            let split = behind.split_at_checked(length);
            let (bytes, next) = split.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            parsed.block.bytes = bytes.to_vec();
            blocks.push(parsed);
            rest = next;
        }
        Ok(ParsedChunk(blocks))
    }
}
