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

use super::assemble::Assembler;
use super::files::Known;
use super::parts::Piece;
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
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) file: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) offset_bytes: u64,
    /// The byte before it ends a line.
    pub(super) begins_line: bool,
    pub(super) found: BlockContent,
}

impl Block {
    fn is_first(&self) -> bool {
        self.offset_bytes == 0
    }
}

/// A block that was read.
#[derive(Debug)]
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
struct Feed<'a> {
    files: &'a mut [Known],
    block_bytes: usize,
    file: usize,
    source: Option<Box<dyn Read + Send>>,
    offset_bytes: u64,
    ended_line: bool,
}

impl Feed<'_> {
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
            let io_error = |source| LogError::Io { path: known.file.path.clone(), source };
            let mut part = source.take(self.block_bytes as u64);
            let read = part.read_to_end(&mut block.bytes).map_err(io_error)?;
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
    block.found.clear();
    let stop = reader.read(&mut bytes[head..], false, &mut block.found);
    block.found.faults.retain(|fault| fault.offset_bytes < stop);
    let stop_lines = lines - count_lines(&bytes[head + stop..]);
    Parsed { block, head, stop, lines, head_lines, stop_lines }
}

/// Where blocks come from.
#[derive(Debug, Clone, Copy)]
pub enum How<'a> {
    /// They are read here.
    Blocks {
        /// Threads that read.
        workers: usize,
        /// What a thread reads at once.
        block_bytes: usize,
    },
    /// They are read elsewhere, and come in their order; None is the end.
    Parts(&'a Receiver<Option<Piece>>),
}

/// What of the bytes that were carried over is of one file.
struct Stretch {
    /// Where it begins in them.
    start: usize,
    /// Lines before it in them.
    lines: usize,
    /// Where it begins in its file.
    place: BlockStart,
}

/// Puts the blocks together in their order.
struct Merge<'a, 's, S: Sink> {
    readers: &'a [&'a dyn LogReader],
    paths: &'a [PathBuf],
    assembler: &'a mut Assembler<'s, S>,
    /// The record that is not yet at its end, the file that it began in, and whence it is.
    carry: Vec<u8>,
    carry_file: usize,
    stretches: Vec<Stretch>,
    /// It is the midst of a record whose beginning is not in the log.
    is_fragment: bool,
    /// It is too long to be held; its place and beginning are kept.
    is_too_long: bool,
    /// Lines of the file before this block.
    lines: u64,
    found: BlockContent,
    met: Met,
    /// The latest time of this file and of those before.
    latest_us: i64,
    /// The last file of which a record was read.
    begun_file: usize,
}

/// What was met that a reader of the outcome should know.
#[derive(Debug, Default)]
pub struct Met {
    /// Time zones.
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
        self.met.zones.merge(&block.found.zones);
        if *head > 0 {
            self.add_to_carry(parsed);
        }
        if *head < block.bytes.len() {
            self.finish_carry()?;
            self.note_times(block.file, &block.found.records);
            let bytes = &block.bytes[*head..];
            for record in &block.found.records {
                self.assembler.take_in(record, bytes)?;
            }
            let place = self.place(block, *head, parsed.head_lines);
            for fault in &block.found.faults {
                self.assembler.counted.unreadable(fault, bytes, &place);
            }
            self.carry.extend_from_slice(&bytes[*stop..]);
            self.carry_file = block.file;
            let place = self.place(block, head + stop, parsed.stop_lines);
            self.stretches = vec![Stretch { start: 0, lines: 0, place }];
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
        if is_early && file > self.begun_file {
            let (before, after) = (&self.paths[file - 1], &self.paths[file]);
            self.met.overlap.get_or_insert_with(|| (before.clone(), after.clone()));
        }
        self.begun_file = file;
        let latest_us = records.iter().filter_map(|record| record.origin.time_us).max();
        self.latest_us = self.latest_us.max(latest_us.unwrap_or(i64::MIN));
    }

    fn place(&self, block: &Block, offset_bytes: usize, lines: usize) -> BlockStart {
        BlockStart {
            file: self.paths[block.file].clone(),
            offset_bytes: block.offset_bytes + offset_bytes as u64,
            lines: self.lines + lines as u64,
        }
    }

    /// Adds the bytes before a block's first record.
    fn add_to_carry(&mut self, parsed: &Parsed) {
        let block = &parsed.block;
        let place = self.place(block, 0, 0);
        if self.carry.is_empty() {
            self.carry_file = block.file;
            self.stretches = vec![Stretch { start: 0, lines: 0, place }];
            self.is_fragment = block.is_first();
        } else if block.is_first() {
            let (start, lines) = (self.carry.len(), count_lines(&self.carry));
            self.stretches.push(Stretch { start, lines, place });
        }
        if self.carry.len() + parsed.head > RECORD_BYTES_MAX {
            self.is_too_long = true;
        }
        if !self.is_too_long {
            self.carry.extend_from_slice(&block.bytes[..parsed.head]);
        }
    }

    /// Notes what could not be read of what was carried over, in bytes that begin at such an
    /// offset and line of it.
    fn note(&mut self, fault: &Fault, bytes: &[u8], (start, lines): (usize, usize)) {
        let (offset_bytes, line) = (start + fault.offset_bytes, lines + fault.line);
        if let Some(place) = self.place_in_carry(offset_bytes, line) {
            let fault = Fault { offset_bytes: 0, line: 0, ..*fault };
            self.assembler.counted.unreadable(&fault, bytes, &place);
        }
    }

    /// Where in its file something is that begins at such an offset and line of the carry.
    fn place_in_carry(&self, offset_bytes: usize, line: usize) -> Option<BlockStart> {
        let mut stretches = self.stretches.iter().rev();
        let stretch = stretches.find(|stretch| stretch.start <= offset_bytes)?;
        let mut place = stretch.place.clone();
        place.offset_bytes += (offset_bytes - stretch.start) as u64;
        place.lines += (line - stretch.lines) as u64;
        Some(place)
    }

    /// Reads what is at its end of what a file leaves, so that only a record which may go on takes
    /// in what the next file begins with.
    fn settle_carry(&mut self) -> Result<(), S::Error> {
        if self.carry.is_empty() || self.is_too_long {
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
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let lines = count_lines(&carry);
        let stop = reader.read(&mut carry, false, &mut found);
        for record in &found.records {
            self.assembler.take_in(record, &carry)?;
        }
        for fault in found.faults.iter().filter(|fault| fault.offset_bytes < stop) {
            self.note(fault, &carry, (0, 0));
        }
        self.note_times(self.carry_file, &found.records);
        self.found = found;
        // Line ends are counted in what is not yet changed.
        let stop_lines = lines - count_lines(&carry[stop..]);
        self.carry_from(carry, (stop, stop_lines));
        Ok(())
    }

    /// Goes on with what was carried over, from an offset and line on.
    fn carry_from(&mut self, mut carry: Vec<u8>, (at, line): (usize, usize)) {
        let place = self.place_in_carry(at, line);
        carry.drain(..at);
        self.carry = carry;
        self.stretches.retain(|stretch| stretch.start > at);
        for stretch in &mut self.stretches {
            (stretch.start, stretch.lines) = (stretch.start - at, stretch.lines - line);
        }
        let first = place.map(|place| Stretch { start: 0, lines: 0, place });
        self.stretches.splice(..0, first);
    }

    /// Notes that the carried-over bytes begin with an unreadable part of this length.
    fn note_lost(&mut self, reason: Reason, length_bytes: usize, carry: &[u8]) {
        if length_bytes > 0 {
            let text = Span::new(0, length_bytes);
            let fault = Fault { reason, offset_bytes: 0, line: 0, text };
            self.note(&fault, carry, (0, 0));
        }
    }

    /// Reads what was carried over from one block to the next.
    fn finish_carry(&mut self) -> Result<(), S::Error> {
        let mut carry = std::mem::take(&mut self.carry);
        let reader = self.readers[self.carry_file];
        let lost = match (self.is_too_long, self.is_fragment) {
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
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let bytes = &mut carry[head..];
        reader.read(bytes, true, &mut found);
        for record in &found.records {
            self.assembler.take_in(record, bytes)?;
        }
        self.note_times(self.carry_file, &found.records);
        for fault in &found.faults {
            self.note(fault, bytes, (head, head_lines));
        }
        self.found = found;
        (self.is_fragment, self.is_too_long) = (false, false);
        carry.clear();
        self.carry = carry;
        Ok(())
    }
}

/// Reads all files, and hands their records to the assembler in their order. Tells what was
/// met.
///
/// # Errors
///
/// When a file cannot be read, or the sink gave up.
pub fn read<S: Sink>(
    files: &mut [Known],
    how: How<'_>,
    assembler: &mut Assembler<'_, S>,
) -> Result<Met, ReadError<S::Error>> {
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
        stretches: Vec::new(),
        is_fragment: false,
        is_too_long: false,
        lines: 0,
        found: BlockContent::default(),
        met: Met::default(),
        latest_us: i64::MIN,
        begun_file: 0,
    };
    match how {
        How::Parts(pieces) => read_pieces(files, pieces, &mut merge)?,
        How::Blocks { workers, block_bytes } => {
            let (file, offset_bytes) = (0, 0);
            let feed =
                Feed { files, block_bytes, file, source: None, offset_bytes, ended_line: true };
            if workers > 1 {
                read_in_parallel(feed, workers, &readers, &mut merge)?;
            } else {
                read_alone(feed, &readers, &mut merge)?;
            }
        }
    }
    merge.finish_carry().map_err(ReadError::Sink)?;
    let mut met = merge.met;
    met.zones.merge(&merge.found.zones);
    Ok(met)
}

/// Takes in what was read elsewhere. The pieces must follow each other without a gap.
fn read_pieces<S: Sink>(
    files: &mut [Known],
    pieces: &Receiver<Option<Piece>>,
    merge: &mut Merge<'_, '_, S>,
) -> Result<(), ReadError<S::Error>> {
    let (mut file, mut offset_bytes) = (0, 0);
    let out_of_order = || ReadError::Log(LogError::OutOfOrder);
    loop {
        let Ok(piece) = pieces.recv() else { return Err(ReadError::GivenUp) };
        let Some(Piece(blocks)) = piece else { break };
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

fn read_alone<S: Sink>(
    mut feed: Feed<'_>,
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
    feed: Feed<'_>,
    workers: usize,
    readers: &[&dyn LogReader],
    merge: &mut Merge<'_, '_, S>,
) -> Result<(), ReadError<S::Error>> {
    std::thread::scope(|scope| {
        let (mut to_workers, mut from_workers) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (to_worker, blocks) = sync_channel::<Result<Block, LogError>>(WAITING_BLOCKS);
            let (done, from_worker) = sync_channel(WAITING_BLOCKS);
            scope.spawn(move || {
                for block in blocks {
                    let parsed = block.map(|block| parse(readers[block.file], block));
                    if done.send(parsed).is_err() {
                        break;
                    }
                }
            });
            to_workers.push(to_worker);
            from_workers.push(from_worker);
        }
        let (give_back, spares) = channel();
        scope.spawn(move || feed_workers(feed, &to_workers, &spares));
        put_together(&from_workers, &give_back, merge)
    })
}

fn feed_workers(mut feed: Feed<'_>, to_workers: &[ToWorker], spares: &Receiver<Block>) {
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

fn put_together<S: Sink>(
    from_workers: &[FromWorker],
    give_back: &Sender<Block>,
    merge: &mut Merge<'_, '_, S>,
) -> Result<(), ReadError<S::Error>> {
    for from_worker in from_workers.iter().cycle() {
        let Ok(parsed) = from_worker.recv() else { break };
        let parsed = parsed?;
        merge.take_in(&parsed).map_err(ReadError::Sink)?;
        // The reader may have ended; then the memory is no longer needed.
        let _ = give_back.send(parsed.block);
    }
    Ok(())
}
