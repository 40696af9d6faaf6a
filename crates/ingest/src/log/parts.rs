//! A log in parts: ranges of bytes that are read anywhere, and put together in their order.
//!
//! A part is read as blocks are (see [`super::blocks`]): its first record is the first that begins
//! in it, and the bytes before belong to the record that the part before leaves unfinished. So it
//! makes no difference where the parts begin. What was read of a part is packed, and so small
//! enough to be sent. A file that is packed itself can only be entered at its beginning: it is one
//! part, which is read and handed on piece by piece.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use seatrial_trace::captured::digest;
use serde::{Deserialize, Serialize};

use super::blocks::{Block, Parsed, parse};
use super::files::{self, Known};
use super::record::{BlockContent, Fault, LogReader, Record};
use super::stamp::Zones;
use super::{BLOCK_BYTES, Format, LogError};

/// What was read is packed as fast as it can be: it is sent once.
const ZSTD_LEVEL: i32 = 1;

/// What of a file shows that another host has the same one.
const HEAD_BYTES: u64 = 64 << 10;

/// A range of a file's bytes, as it is sent to what reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Which of the log's files, in their order.
    pub file: usize,
    /// Its path, the same on every host.
    pub path: PathBuf,
    /// Where the part begins.
    pub start_bytes: u64,
    /// Where it ends; None for the end of a packed file.
    pub end_bytes: Option<u64>,
    format: String,
    prefix: String,
    is_of_windows: bool,
    /// A hash of the file's beginning.
    head: String,
    /// The version of what planned it.
    version: String,
}

/// Plans the parts of a log, each of so many bytes at most.
///
/// # Errors
///
/// When a file cannot be read, or is not to be read in parts: standard input, a file of SQL.
pub fn plan(known: &[Known], part_bytes: u64) -> Result<Vec<Part>, LogError> {
    let mut parts = Vec::new();
    for (file, known) in known.iter().enumerate() {
        let path = &known.file.path;
        if known.is_standard_input() || known.file.format == Format::Raw {
            return Err(LogError::Whole { path: path.clone() });
        }
        let part = Part {
            file,
            path: path.clone(),
            start_bytes: 0,
            end_bytes: None,
            format: known.file.format.name().to_owned(),
            prefix: known.file.prefix.clone(),
            is_of_windows: known.is_of_windows,
            head: head_of(path)?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        if files::is_packed(path)? {
            parts.push(part);
            continue;
        }
        let starts_bytes = (0..known.file.size_bytes).step_by(part_bytes.max(1) as usize);
        parts.extend(starts_bytes.map(|start_bytes| Part {
            start_bytes,
            end_bytes: Some(known.file.size_bytes.min(start_bytes + part_bytes)),
            ..part.clone()
        }));
    }
    Ok(parts)
}

fn head_of(path: &PathBuf) -> Result<String, LogError> {
    let io_error = |source| LogError::Io { path: path.clone(), source };
    let mut head = Vec::new();
    let file = File::open(path).map_err(io_error)?;
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(io_error)?;
    Ok(String::from_utf8_lossy(&digest(&head)).into_owned())
}

/// Reads a part, piece by piece.
pub struct PartReader {
    part: Part,
    reader: Box<dyn LogReader>,
    source: Box<dyn Read + Send>,
    offset_bytes: u64,
    ended_line: bool,
    is_at_end: bool,
}

impl PartReader {
    /// Opens the file of a part.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is another file than the one that was planned for.
    pub fn open(part: Part) -> Result<PartReader, LogError> {
        let path = &part.path;
        let io_error = |source| LogError::Io { path: path.clone(), source };
        let format = Format::ALL.into_iter().find(|format| format.name() == part.format);
        let reader =
            format.and_then(|format| files::reader(format, &part.prefix, part.is_of_windows));
        let other = || LogError::Other { path: path.clone() };
        let reader = reader.filter(|_| part.version == env!("CARGO_PKG_VERSION"));
        let reader = reader.ok_or_else(other)?;
        if head_of(path)? != part.head {
            return Err(other());
        }
        let mut ended_line = true;
        let source: Box<dyn Read + Send> = match part.end_bytes {
            None => files::open(path)?,
            Some(end_bytes) => {
                let mut file = File::open(path).map_err(io_error)?;
                if let Some(before) = part.start_bytes.checked_sub(1) {
                    let mut byte = [0];
                    file.seek(SeekFrom::Start(before)).map_err(io_error)?;
                    let read = file.read(&mut byte).map_err(io_error)?;
                    ended_line = read == 1 && byte == *b"\n";
                }
                Box::new(file.take(end_bytes.saturating_sub(part.start_bytes)))
            }
        };
        let offset_bytes = part.start_bytes;
        Ok(PartReader { part, reader, source, offset_bytes, ended_line, is_at_end: false })
    }

    /// Reads up to so many bytes, and packs what was read; None at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is shorter than it was.
    pub fn next(&mut self, piece_bytes: u64) -> Result<Option<Vec<u8>>, LogError> {
        let path = &self.part.path;
        let io_error = |source| LogError::Io { path: path.clone(), source };
        let until_bytes = self.offset_bytes.saturating_add(piece_bytes.max(1));
        let mut packed = zstd::Encoder::new(Vec::new(), ZSTD_LEVEL).map_err(io_error)?;
        let mut block = Block::default();
        let mut is_empty = true;
        while self.offset_bytes < until_bytes && !self.is_at_end {
            let wanted_bytes = (until_bytes - self.offset_bytes).min(BLOCK_BYTES as u64);
            block.bytes.clear();
            let mut part = self.source.by_ref().take(wanted_bytes);
            let read = part.read_to_end(&mut block.bytes).map_err(io_error)?;
            self.is_at_end = (read as u64) < wanted_bytes;
            if read == 0 {
                break;
            }
            block.file = self.part.file;
            (block.offset_bytes, block.begins_line) = (self.offset_bytes, self.ended_line);
            self.offset_bytes += read as u64;
            self.ended_line = block.bytes.last() == Some(&b'\n');
            let mut parsed = parse(self.reader.as_ref(), block);
            pack(&mut parsed, &mut packed).map_err(io_error)?;
            block = parsed.block;
            is_empty = false;
        }
        let is_cut =
            self.is_at_end && self.part.end_bytes.is_some_and(|end| self.offset_bytes < end);
        if is_cut {
            return Err(LogError::Shorter { path: path.clone(), length_bytes: self.offset_bytes });
        }
        let packed = packed.finish().map_err(io_error)?;
        Ok(Some(packed).filter(|_| !is_empty))
    }
}

/// A block that was read, but for its bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Outline {
    file: usize,
    offset_bytes: u64,
    begins_line: bool,
    head: usize,
    stop: usize,
    lines: usize,
    head_lines: usize,
    stop_lines: usize,
    records: Vec<Record>,
    faults: Vec<Fault>,
    unknown: Vec<String>,
    ambiguous: Vec<String>,
}

/// Writes the length of an outline and of the block's bytes, then both.
fn pack(parsed: &mut Parsed, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let block = &mut parsed.block;
    let outline = Outline {
        file: block.file,
        offset_bytes: block.offset_bytes,
        begins_line: block.begins_line,
        head: parsed.head,
        stop: parsed.stop,
        lines: parsed.lines,
        head_lines: parsed.head_lines,
        stop_lines: parsed.stop_lines,
        records: std::mem::take(&mut block.found.records),
        faults: std::mem::take(&mut block.found.faults),
        unknown: std::mem::take(&mut block.found.zones.unknown),
        ambiguous: std::mem::take(&mut block.found.zones.ambiguous),
    };
    let packed = postcard::to_allocvec(&outline).map_err(std::io::Error::other)?;
    out.write_all(&(packed.len() as u32).to_le_bytes())?;
    out.write_all(&(block.bytes.len() as u32).to_le_bytes())?;
    out.write_all(&packed)?;
    out.write_all(&block.bytes)
}

/// What was read of a part's piece, unpacked.
#[derive(Debug)]
pub struct Piece(pub(super) Vec<Parsed>);

impl Piece {
    /// Unpacks what [`PartReader::next`] made.
    ///
    /// # Errors
    ///
    /// When it was not made by it.
    pub fn unpack(packed: &[u8]) -> std::io::Result<Piece> {
        let mut source = zstd::Decoder::new(packed)?;
        let mut blocks = Vec::new();
        let mut both = [0; 8];
        while read_lengths(&mut source, &mut both)? {
            let [outline_bytes, block_bytes] = [0, 4].map(|at| {
                let four: [u8; 4] = std::array::from_fn(|byte| both[at + byte]);
                u64::from(u32::from_le_bytes(four))
            });
            let mut outline = Vec::new();
            source.by_ref().take(outline_bytes).read_to_end(&mut outline)?;
            let outline = postcard::from_bytes(&outline).map_err(std::io::Error::other)?;
            let mut bytes = Vec::new();
            source.by_ref().take(block_bytes).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != block_bytes {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            blocks.push(parsed(outline, bytes));
        }
        Ok(Piece(blocks))
    }
}

/// Reads the lengths of a block; false at the end.
fn read_lengths(source: &mut impl Read, both: &mut [u8; 8]) -> std::io::Result<bool> {
    let mut first = Vec::new();
    source.by_ref().take(8).read_to_end(&mut first)?;
    match <[u8; 8]>::try_from(first) {
        Ok(all) => {
            *both = all;
            Ok(true)
        }
        Err(few) if few.is_empty() => Ok(false),
        Err(_) => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

fn parsed(outline: Outline, bytes: Vec<u8>) -> Parsed {
    let Outline { records, faults, unknown, ambiguous, .. } = outline;
    let zones = Zones::met(unknown, ambiguous);
    Parsed {
        block: Block {
            file: outline.file,
            bytes,
            offset_bytes: outline.offset_bytes,
            begins_line: outline.begins_line,
            found: BlockContent { records, faults, zones },
        },
        head: outline.head,
        stop: outline.stop,
        lines: outline.lines,
        head_lines: outline.head_lines,
        stop_lines: outline.stop_lines,
    }
}
