//! A log read in blocks, by one thread or several, with the same outcome.
//!
//! Blocks are read one after the other and each is handed to a worker, which finds the first record
//! that begins in it and reads on from there. The bytes before that, together with the remainder of
//! the previous block, are the record that both share; it is read where the blocks are joined
//! again, in their order.

use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use seatrial_trace::captured::Sink;
use serde::{Deserialize, Serialize};

use super::assemble::Assembler;
use super::files::DetectedFile;
use super::parts::ParsedChunk;
use super::record::{BlockContent, Fault, HEAD_BYTES_MAX, LogReader, Record, Span};
use super::record_counts::{BlockStart, Reason};
use super::stamp::Zones;
use super::{LogError, ReadError};

/// The longest record that is held. A statement has at most 1 GB in PostgreSQL; what a log is
/// worth reading for has less.
const RECORD_BYTES_MAX: usize = 96 << 20;

/// Blocks that wait for a worker, and blocks that wait behind it.
const WAITING_BLOCKS: usize = 2;

/// Part of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Block {
    pub(super) file: usize,
    #[serde(skip)]
    pub(super) bytes: Vec<u8>,
    pub(super) offset_bytes: u64,
    /// Whether the byte before it ends a line.
    pub(super) begins_line: bool,
    pub(super) content: BlockContent,
}

impl Block {
    fn is_first(&self) -> bool {
        self.offset_bytes == 0
    }
}

/// A block that was read; its bytes are sent apart from the rest.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Parsed {
    pub(super) block: Block,
    /// Where the first record begins; the end where none does.
    pub(super) head: usize,
    /// Where an unfinished record begins, behind the head.
    pub(super) stop: usize,
    /// Lines of the whole, and of the part before the first record.
    pub(super) lines: usize,
    pub(super) head_lines: usize,
    /// Lines up to the unfinished record.
    pub(super) stop_lines: usize,
}

/// Reads the blocks of all files.
struct BlockReader<'a> {
    files: &'a mut [DetectedFile],
    block_bytes: usize,
    file: usize,
    source: Option<Box<dyn Read + Send>>,
    offset_bytes: u64,
    ended_line: bool,
}

impl BlockReader<'_> {
    /// The next block, in the memory of an old one; None at the end of the last file.
    fn next(&mut self, mut block: Block) -> Result<Option<Block>, LogError> {
        while self.file < self.files.len() {
            let known = &mut self.files[self.file];
            let source = match &mut self.source {
                Some(source) => source,
                None => {
                    (self.offset_bytes, self.ended_line) = (0, true);
                    self.source.insert(known.open()?)
                }
            };
            block.bytes.clear();
            let mut part = source.take(self.block_bytes as u64);
            let read = part.read_to_end(&mut block.bytes);
            let read = read.map_err(LogError::io(&known.file.path))?;
            if read == 0 {
                self.source = None;
                self.file += 1;
                continue;
            }
            block.file = self.file;
            (block.offset_bytes, block.begins_line) = (self.offset_bytes, self.ended_line);
            self.offset_bytes += read as u64;
            self.ended_line = block.bytes.last() == Some(&b'\n');
            known.file.log_bytes = self.offset_bytes;
            return Ok(Some(block));
        }
        Ok(None)
    }
}

fn count_lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// Reads the records that begin in a block, but for the last if it may go on.
pub(super) fn parse(reader: &dyn LogReader, mut block: Block) -> Parsed {
    let bytes = &mut block.bytes;
    let lines = count_lines(bytes);
    let line = if block.begins_line { Some(0) } else { memchr::memchr(b'\n', bytes) };
    let line = line.map(|end| if block.begins_line { end } else { end + 1 });
    let head = line.and_then(|line| Some(line + reader.first_record(&bytes[line..])?));
    let is_in_sight = |head: &usize| {
        let rest = &bytes[*head..];
        rest.len() >= HEAD_BYTES_MAX || memchr::memchr(b'\n', rest).is_some()
    };
    let head = head.filter(is_in_sight).unwrap_or(bytes.len());
    let head_lines = count_lines(&bytes[..head]);
    block.content.clear();
    let stop = reader.read(&mut bytes[head..], false, &mut block.content);
    block.content.faults.retain(|fault| fault.offset_bytes < stop);
    let stop_lines = lines - count_lines(&bytes[head + stop..]);
    Parsed { block, head, stop, lines, head_lines, stop_lines }
}

/// Where blocks come from.
#[derive(Debug, Clone, Copy)]
pub enum BlockSource<'a> {
    /// They are read here.
    Blocks {
        /// Threads that read.
        workers: usize,
        /// What a thread reads at once.
        block_bytes: usize,
    },
    /// They are read elsewhere, and come in their order; None is the end.
    Parts(&'a Receiver<Option<ParsedChunk>>),
}

/// The part of the carried-over bytes that belongs to one file.
struct CarriedRange {
    /// Its offset in the carried-over bytes.
    offset_bytes: usize,
    /// Lines before that offset.
    lines: usize,
    /// Where it begins in its file.
    start: BlockStart,
}

/// Puts the blocks together in their order.
struct Merge<'a, 's, S: Sink> {
    readers: &'a [&'a dyn LogReader],
    paths: &'a [PathBuf],
    assembler: &'a mut Assembler<'s, S>,
    /// An unfinished record, the file that it began in, and the ranges that it came from.
    carry: Vec<u8>,
    carry_file: usize,
    carried_ranges: Vec<CarriedRange>,
    /// It continues a record whose beginning is not in the log.
    is_fragment: bool,
    /// It exceeds [`RECORD_BYTES_MAX`]; only its position and its first bytes are kept.
    is_oversized: bool,
    /// Lines of the file before this block.
    lines: u64,
    content: BlockContent,
    warnings: ReadWarnings,
    /// The latest time of this file and of those before.
    latest_us: i64,
    /// The last file of which a record was read.
    last_file: usize,
}

/// Irregularities that the summary reports.
#[derive(Debug, Default)]
pub struct ReadWarnings {
    /// Time zones that are unknown or ambiguous.
    pub zones: Zones,
    /// Two files of which the second begins before the first one ends.
    pub overlap: Option<(PathBuf, PathBuf)>,
}

/// Records of several processes come into a log in another order than their times, by less than
/// this.
const DISORDER_US_MAX: i64 = 2_000_000;

impl<S: Sink> Merge<'_, '_, S> {
    /// Takes in the next block.
    fn take_in(&mut self, parsed: &Parsed) -> Result<(), S::Error> {
        let Parsed { block, head, stop, .. } = parsed;
        if block.is_first() {
            self.lines = 0;
        }
        if block.is_first() && *head > 0 {
            self.settle_carry()?;
        }
        self.warnings.zones.merge(&block.content.zones);
        if *head > 0 {
            self.add_to_carry(parsed);
        }
        if *head < block.bytes.len() {
            self.finish_carry()?;
            self.note_times(block.file, &block.content.records);
            let bytes = &block.bytes[*head..];
            for record in &block.content.records {
                self.assembler.take_in(record, bytes)?;
            }
            let start = self.start(block, *head, parsed.head_lines);
            for fault in &block.content.faults {
                self.assembler.counted.unreadable(fault, bytes, &start);
            }
            self.carry.extend_from_slice(&bytes[*stop..]);
            self.carry_file = block.file;
            let start = self.start(block, head + stop, parsed.stop_lines);
            self.carried_ranges = vec![CarriedRange { offset_bytes: 0, lines: 0, start }];
        }
        self.lines += parsed.lines as u64;
        Ok(())
    }

    /// Notes where a file begins before those before it end.
    fn note_times(&mut self, file: usize, records: &[Record]) {
        let Some(first) = records.first() else { return };
        let is_early = first
            .origin
            .time_us
            .is_some_and(|first_us| first_us < self.latest_us.saturating_sub(DISORDER_US_MAX));
        if is_early && file > self.last_file {
            let (before, after) = (&self.paths[file - 1], &self.paths[file]);
            self.warnings.overlap.get_or_insert_with(|| (before.clone(), after.clone()));
        }
        self.last_file = file;
        let latest_us = records.iter().filter_map(|record| record.origin.time_us).max();
        self.latest_us = self.latest_us.max(latest_us.unwrap_or(i64::MIN));
    }

    fn start(&self, block: &Block, offset_bytes: usize, lines: usize) -> BlockStart {
        BlockStart {
            file: self.paths[block.file].clone(),
            offset_bytes: block.offset_bytes + offset_bytes as u64,
            lines: self.lines + lines as u64,
        }
    }

    /// Adds the bytes before a block's first record.
    fn add_to_carry(&mut self, parsed: &Parsed) {
        let block = &parsed.block;
        let start = self.start(block, 0, 0);
        if self.carry.is_empty() {
            self.carry_file = block.file;
            self.carried_ranges = vec![CarriedRange { offset_bytes: 0, lines: 0, start }];
            self.is_fragment = block.is_first();
        } else if block.is_first() {
            let (offset_bytes, lines) = (self.carry.len(), count_lines(&self.carry));
            self.carried_ranges.push(CarriedRange { offset_bytes, lines, start });
        }
        if self.carry.len() + parsed.head > RECORD_BYTES_MAX {
            self.is_oversized = true;
        }
        if !self.is_oversized {
            self.carry.extend_from_slice(&block.bytes[..parsed.head]);
        }
    }

    /// Notes a fault in the carried-over bytes; `bytes` begin at this offset and line of them.
    fn note(&mut self, fault: &Fault, bytes: &[u8], (offset_bytes, lines): (usize, usize)) {
        let (offset_bytes, line) = (offset_bytes + fault.offset_bytes, lines + fault.line);
        if let Some(start) = self.start_in_carry(offset_bytes, line) {
            let fault = Fault { offset_bytes: 0, line: 0, ..*fault };
            self.assembler.counted.unreadable(&fault, bytes, &start);
        }
    }

    /// The position in its file of an offset and line of the carried-over bytes.
    fn start_in_carry(&self, offset_bytes: usize, line: usize) -> Option<BlockStart> {
        let mut carried_ranges = self.carried_ranges.iter().rev();
        let range = carried_ranges.find(|range| range.offset_bytes <= offset_bytes)?;
        let mut start = range.start.clone();
        start.offset_bytes += (offset_bytes - range.offset_bytes) as u64;
        start.lines += (line - range.lines) as u64;
        Some(start)
    }

    /// Reads the complete records at the end of a file, so that the next file continues only an
    /// unfinished one.
    fn settle_carry(&mut self) -> Result<(), S::Error> {
        if self.carry.is_empty() || self.is_oversized {
            return Ok(());
        }
        let reader = self.readers[self.carry_file];
        if self.is_fragment {
            let Some(length) = reader.first_record(&self.carry) else { return Ok(()) };
            let carry = std::mem::take(&mut self.carry);
            self.note_lost(Reason::BeginsInside, length, &carry);
            self.is_fragment = false;
            let lines = count_lines(&carry[..length]);
            self.carry_from(carry, (length, lines));
        }
        let mut carry = std::mem::take(&mut self.carry);
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        let lines = count_lines(&carry);
        let stop = reader.read(&mut carry, false, &mut content);
        for record in &content.records {
            self.assembler.take_in(record, &carry)?;
        }
        for fault in content.faults.iter().filter(|fault| fault.offset_bytes < stop) {
            self.note(fault, &carry, (0, 0));
        }
        self.note_times(self.carry_file, &content.records);
        self.content = content;
        // Line ends are counted in what is not yet changed.
        let stop_lines = lines - count_lines(&carry[stop..]);
        self.carry_from(carry, (stop, stop_lines));
        Ok(())
    }

    /// Drops the carried-over bytes before an offset and line.
    fn carry_from(&mut self, mut carry: Vec<u8>, (at, line): (usize, usize)) {
        let start = self.start_in_carry(at, line);
        carry.drain(..at);
        self.carry = carry;
        self.carried_ranges.retain(|range| range.offset_bytes > at);
        for range in &mut self.carried_ranges {
            (range.offset_bytes, range.lines) = (range.offset_bytes - at, range.lines - line);
        }
        let first = start.map(|start| CarriedRange { offset_bytes: 0, lines: 0, start });
        self.carried_ranges.splice(..0, first);
    }

    /// Notes that the carried-over bytes begin with an unreadable part of this length.
    fn note_lost(&mut self, reason: Reason, length_bytes: usize, carry: &[u8]) {
        if length_bytes > 0 {
            let text = Span::new(0, length_bytes);
            let fault = Fault { reason, offset_bytes: 0, line: 0, text };
            self.note(&fault, carry, (0, 0));
        }
    }

    /// Reads the record that continues from one block to the next.
    fn finish_carry(&mut self) -> Result<(), S::Error> {
        let mut carry = std::mem::take(&mut self.carry);
        let reader = self.readers[self.carry_file];
        let lost = match (self.is_oversized, self.is_fragment) {
            (true, _) => Some((Reason::TooLong, carry.len())),
            (_, true) => {
                Some((Reason::BeginsInside, reader.first_record(&carry).unwrap_or(carry.len())))
            }
            _ => None,
        };
        let (mut head, mut head_lines) = (0, 0);
        if let Some((reason, length)) = lost {
            self.note_lost(reason, length, &carry);
            (head, head_lines) = (length, count_lines(&carry[..length]));
        }
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        let bytes = &mut carry[head..];
        reader.read(bytes, true, &mut content);
        for record in &content.records {
            self.assembler.take_in(record, bytes)?;
        }
        self.note_times(self.carry_file, &content.records);
        for fault in &content.faults {
            self.note(fault, bytes, (head, head_lines));
        }
        self.content = content;
        (self.is_fragment, self.is_oversized) = (false, false);
        carry.clear();
        self.carry = carry;
        Ok(())
    }
}

/// Reads all files and passes their records to the assembler, in order.
///
/// # Errors
///
/// When a file cannot be read, or the sink gave up.
pub fn read<S: Sink>(
    files: &mut [DetectedFile],
    source: BlockSource<'_>,
    assembler: &mut Assembler<'_, S>,
) -> Result<ReadWarnings, ReadError<S::Error>> {
    let boxed: Vec<Box<dyn LogReader>> =
        files.iter_mut().filter_map(|known| known.reader.take()).collect();
    let readers: Vec<&dyn LogReader> = boxed.iter().map(Box::as_ref).collect();
    let paths: Vec<PathBuf> = files.iter().map(|known| known.file.path.clone()).collect();
    let mut merge = Merge {
        readers: &readers,
        paths: &paths,
        assembler,
        carry: Vec::new(),
        carry_file: 0,
        carried_ranges: Vec::new(),
        is_fragment: false,
        is_oversized: false,
        lines: 0,
        content: BlockContent::default(),
        warnings: ReadWarnings::default(),
        latest_us: i64::MIN,
        last_file: 0,
    };
    match source {
        BlockSource::Parts(chunks) => read_chunks(files, chunks, &mut merge)?,
        BlockSource::Blocks { workers, block_bytes } => {
            let (file, offset_bytes) = (0, 0);
            let feed = BlockReader {
                files,
                block_bytes,
                file,
                source: None,
                offset_bytes,
                ended_line: true,
            };
            if workers > 1 {
                read_in_parallel(feed, workers, &readers, &mut merge)?;
            } else {
                read_on_one_thread(feed, &readers, &mut merge)?;
            }
        }
    }
    merge.finish_carry().map_err(ReadError::Sink)?;
    let mut warnings = merge.warnings;
    warnings.zones.merge(&merge.content.zones);
    Ok(warnings)
}

/// Takes in chunks that were read elsewhere. They must follow each other without a gap.
fn read_chunks<S: Sink>(
    files: &mut [DetectedFile],
    chunks: &Receiver<Option<ParsedChunk>>,
    merge: &mut Merge<'_, '_, S>,
) -> Result<(), ReadError<S::Error>> {
    let (mut file, mut offset_bytes) = (0, 0);
    let out_of_order = || ReadError::Log(LogError::OutOfOrder);
    loop {
        let Ok(chunk) = chunks.recv() else { return Err(ReadError::PartsEnded) };
        let Some(ParsedChunk(blocks)) = chunk else { break };
        for parsed in blocks {
            let block = &parsed.block;
            if block.file > file {
                (file, offset_bytes) = (file + 1, 0);
            }
            if (block.file, block.offset_bytes) != (file, offset_bytes) {
                return Err(out_of_order());
            }
            offset_bytes += block.bytes.len() as u64;
            files[file].file.log_bytes = offset_bytes;
            merge.take_in(&parsed).map_err(ReadError::Sink)?;
        }
    }
    let has_all = files.iter().all(|known| known.file.log_bytes > 0);
    if has_all { Ok(()) } else { Err(out_of_order()) }
}

fn read_on_one_thread<S: Sink>(
    mut feed: BlockReader<'_>,
    readers: &[&dyn LogReader],
    merge: &mut Merge<'_, '_, S>,
) -> Result<(), ReadError<S::Error>> {
    let mut spare = Block::default();
    while let Some(block) = feed.next(spare)? {
        let parsed = parse(readers[block.file], block);
        merge.take_in(&parsed).map_err(ReadError::Sink)?;
        spare = parsed.block;
    }
    Ok(())
}

type ToWorker = SyncSender<Result<Block, LogError>>;
type FromWorker = Receiver<Result<Parsed, LogError>>;

/// One thread reads, each worker gets every N-th block, and this thread joins them. The first one
/// to end hangs up, and so ends the others.
fn read_in_parallel<S: Sink>(
    feed: BlockReader<'_>,
    workers: usize,
    readers: &[&dyn LogReader],
    merge: &mut Merge<'_, '_, S>,
) -> Result<(), ReadError<S::Error>> {
    std::thread::scope(|scope| {
        let (mut to_workers, mut from_workers) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (to_worker, blocks) = sync_channel::<Result<Block, LogError>>(WAITING_BLOCKS);
            let (parsed_blocks, from_worker) = sync_channel(WAITING_BLOCKS);
            scope.spawn(move || {
                for block in blocks {
                    let parsed = block.map(|block| parse(readers[block.file], block));
                    if parsed_blocks.send(parsed).is_err() {
                        break;
                    }
                }
            });
            to_workers.push(to_worker);
            from_workers.push(from_worker);
        }
        let (spare_blocks, spares) = channel();
        scope.spawn(move || feed_workers(feed, &to_workers, &spares));
        join_blocks(&from_workers, &spare_blocks, merge)
    })
}

fn feed_workers(mut feed: BlockReader<'_>, to_workers: &[ToWorker], spares: &Receiver<Block>) {
    for to_worker in to_workers.iter().cycle() {
        let block = match feed.next(spares.try_recv().unwrap_or_default()) {
            Ok(None) => return,
            Ok(Some(block)) => Ok(block),
            Err(error) => Err(error),
        };
        let is_error = block.is_err();
        if to_worker.send(block).is_err() || is_error {
            return;
        }
    }
}

fn join_blocks<S: Sink>(
    from_workers: &[FromWorker],
    spare_blocks: &Sender<Block>,
    merge: &mut Merge<'_, '_, S>,
) -> Result<(), ReadError<S::Error>> {
    for from_worker in from_workers.iter().cycle() {
        let Ok(parsed) = from_worker.recv() else { break };
        let parsed = parsed?;
        merge.take_in(&parsed).map_err(ReadError::Sink)?;
        // The reader may have ended; then the memory is no longer needed.
        let _ = spare_blocks.send(parsed.block);
    }
    Ok(())
}
