//! The requests of a thread: what each flowop does to files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seatrial_load::rng::below;

use crate::aio::PendingWrite;
use crate::fileset::{EntryResult, EntryState, FileSet, NoEntry};
use crate::slots::ALIGN_BYTES;
use crate::spec::{Flowop, IO_BYTES_MAX, Verb};
use crate::worker::{NextStep, Worker};

/// Direct I/O moves whole sectors.
const SECTOR_BYTES: u64 = 512;

/// A flowop that another one should have opened a file for.
fn not_open() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

impl Worker {
    /// Does one request, or finds out why there is none.
    pub fn request(&mut self, flowop: &Flowop) -> NextStep {
        let done = match flowop.verb {
            Verb::OpenFile => self.open_file(flowop),
            Verb::CreateFile => self.create_file(flowop),
            Verb::CloseFile => self.close_file(flowop),
            Verb::DeleteFile => self.delete_file(flowop),
            Verb::StatFile => self.stat_file(flowop),
            Verb::MakeDir => self.make_folder(flowop),
            Verb::RemoveDir => self.remove_folder(flowop),
            Verb::ListDir => self.list_folder(flowop),
            Verb::Fsync => self.sync(flowop),
            Verb::FsyncSet => self.sync_set(flowop),
            _ => self.transfer(flowop),
        };
        match done {
            Ok(()) => NextStep::Continue,
            Err(none) => none.into(),
        }
    }

    fn set_of(&self, flowop: &Flowop) -> usize {
        // The reader of workload files gives every flowop that needs one a set.
        flowop.set.unwrap_or(0)
    }

    fn index(&mut self, flowop: &Flowop) -> Option<u64> {
        flowop.index.as_ref().map(|index| index.draw_whole(&mut self.rng))
    }

    fn take_file(&mut self, flowop: &Flowop, state: EntryState) -> Result<u32, NoEntry> {
        let index = self.index(flowop);
        let shared = &self.shared;
        shared.sets[self.set_of(flowop)].take_file(state, index, &shared.sample_end)
    }

    fn open_file(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let slot = self.turn(flowop);
        let set = self.set_of(flowop);
        let entry = self.take_file(flowop, EntryState::Existing)?;
        let opened = self.timed(flowop, |worker| {
            if worker.slots[slot].file.is_some() {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            Ok((0, open(&worker.shared.sets[set], entry, flowop, false)?))
        });
        self.opened(slot, set, entry, opened, EntryResult::Unchanged(0));
        Ok(())
    }

    fn create_file(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let slot = self.turn(flowop);
        let set = self.set_of(flowop);
        let entry = self.take_file(flowop, EntryState::Missing)?;
        let opened = self.timed(flowop, |worker| {
            if worker.slots[slot].file.is_some() {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            Ok((0, open(&worker.shared.sets[set], entry, flowop, true)?))
        });
        self.opened(slot, set, entry, opened, EntryResult::NotMade);
        Ok(())
    }

    fn opened(
        &mut self,
        slot: usize,
        set: usize,
        entry: u32,
        file: Option<File>,
        otherwise: EntryResult,
    ) {
        let result = match (&file, otherwise) {
            (None, _) => otherwise,
            (Some(_), EntryResult::NotMade) => EntryResult::Made(1),
            (Some(_), _) => EntryResult::Unchanged(1),
        };
        self.shared.sets[set].give_back_file(entry, result);
        if let Some(file) = file {
            let open_slot = &mut self.slots[slot];
            open_slot.file = Some(Arc::new(file));
            open_slot.entry = Some((set, entry));
            open_slot.position_bytes = 0;
        }
    }

    fn close_file(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let open_slot = &mut self.slots[flowop.slot];
        let (file, entry) = (open_slot.file.take(), open_slot.entry);
        let shared = self.shared.clone();
        // The file is still known to `deletefile`, `statfile` and `srcfd` after this.
        let held = entry.filter(|&(set, entry)| {
            file.is_some() && shared.sets[set].take_this(entry, &shared.sample_end)
        });
        self.timed(flowop, |_| {
            let file = file.ok_or_else(not_open)?;
            // A write that a helper has not ended yet closes it then.
            Arc::try_unwrap(file).map_or(Ok((0, ())), |file| close(file).map(|()| (0, ())))
        });
        if let Some((set, entry)) = held {
            shared.sets[set].give_back_file(entry, EntryResult::Unchanged(-1));
        }
        Ok(())
    }

    fn delete_file(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let shared = self.shared.clone();
        let known = self.slots[flowop.slot].entry.filter(|_| flowop.by_slot);
        let (set, entry) = match known {
            Some((set, entry)) => {
                self.slots[flowop.slot].entry = None;
                if !shared.sets[set].take_this(entry, &shared.sample_end) {
                    // Another thread has deleted it: the request fails as in the kernel.
                    let gone = |_: &mut Worker| Err(io::Error::from_raw_os_error(libc::ENOENT));
                    self.timed::<()>(flowop, gone);
                    return Ok(());
                }
                (set, entry)
            }
            None => (self.set_of(flowop), self.take_file(flowop, EntryState::Unopened)?),
        };
        let path = shared.sets[set].file_path(entry);
        let deleted = self.timed(flowop, |_| fs::remove_file(&path).map(|()| (0, ())));
        let result =
            if deleted.is_some() { EntryResult::Deleted } else { EntryResult::Unchanged(0) };
        shared.sets[set].give_back_file(entry, result);
        Ok(())
    }

    fn stat_file(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        if let Some(file) = self.slots[flowop.slot].file.clone().filter(|_| flowop.by_slot) {
            self.timed(flowop, |_| file.metadata().map(|_| (0, ())));
            return Ok(());
        }
        let entry = self.take_file(flowop, EntryState::Existing)?;
        let set = self.set_of(flowop);
        let path = self.shared.sets[set].file_path(entry);
        self.timed(flowop, |_| fs::symlink_metadata(&path).map(|_| (0, ())));
        self.shared.sets[set].give_back_file(entry, EntryResult::Unchanged(0));
        Ok(())
    }

    fn make_folder(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let (shared, set, index) = (self.shared.clone(), self.set_of(flowop), self.index(flowop));
        let set = &shared.sets[set];
        let leaf = set.take_leaf(EntryState::Missing, index, &shared.sample_end)?;
        let path = set.leaf_path(leaf);
        let made = self.timed(flowop, |_| fs::create_dir(&path).map(|()| (0, ())));
        set.give_back_leaf(
            leaf,
            if made.is_some() { EntryResult::Made(0) } else { EntryResult::NotMade },
        );
        Ok(())
    }

    fn remove_folder(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let (shared, set, index) = (self.shared.clone(), self.set_of(flowop), self.index(flowop));
        let set = &shared.sets[set];
        let leaf = set.take_leaf(EntryState::Existing, index, &shared.sample_end)?;
        let path = set.leaf_path(leaf);
        let removed = self.timed(flowop, |_| fs::remove_dir(&path).map(|()| (0, ())));
        set.give_back_leaf(
            leaf,
            if removed.is_some() { EntryResult::Deleted } else { EntryResult::Unchanged(0) },
        );
        Ok(())
    }

    fn list_folder(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let set = &self.shared.sets[self.set_of(flowop)];
        let folder = below(&mut self.rng, set.tree.folders.len() as u64) as usize;
        let path = set.root.join(&set.tree.folders[folder]);
        self.timed(flowop, |_| {
            let mut names_bytes = 0;
            for entry in fs::read_dir(&path)? {
                names_bytes += entry?.file_name().len() as u64;
            }
            Ok((names_bytes, ()))
        });
        Ok(())
    }

    fn sync(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let file = self.slots[flowop.slot].file.clone();
        self.timed(flowop, |_| file.ok_or_else(not_open)?.sync_all().map(|()| (0, ())));
        Ok(())
    }

    /// Syncs all files of the set that this thread has open, as one request.
    fn sync_set(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let set = self.set_of(flowop);
        let is_of_set =
            |entry: Option<(usize, u32)>| entry.is_some_and(|(number, _)| number == set);
        let open = self.slots.iter().filter(|slot| is_of_set(slot.entry));
        let files: Vec<Arc<File>> = open.filter_map(|slot| slot.file.clone()).collect();
        self.timed(flowop, |_| files.iter().try_for_each(|file| file.sync_all()).map(|()| (0, ())));
        Ok(())
    }

    /// The slot of a flowop's file: the next one if it uses several in turn.
    fn turn(&mut self, flowop: &Flowop) -> usize {
        if flowop.rotates <= 1 {
            return flowop.slot;
        }
        let turn = &mut self.turns[flowop.kind];
        let slot = flowop.slot + *turn % flowop.rotates;
        *turn = (*turn + 1) % flowop.rotates;
        slot
    }

    /// A request that moves data; a file that is not open yet is opened before, untimed.
    fn transfer(&mut self, flowop: &Flowop) -> Result<(), NoEntry> {
        let slot = self.turn(flowop);
        if self.slots[slot].file.is_none() && flowop.set.is_some() {
            let set = self.set_of(flowop);
            let entry = self.take_file(flowop, EntryState::Existing)?;
            let opened = open(&self.shared.sets[set], entry, flowop, false);
            let failed = opened.as_ref().err().and_then(io::Error::raw_os_error);
            self.opened(slot, set, entry, opened.ok(), EntryResult::Unchanged(0));
            if let Some(errno) = failed {
                let refused = |_: &mut Worker| Err(io::Error::from_raw_os_error(errno));
                self.timed::<()>(flowop, refused);
                return Ok(());
            }
        }
        let open_slot = &self.slots[slot];
        let (Some(file), Some(entry)) = (open_slot.file.clone(), open_slot.entry) else {
            self.timed::<()>(flowop, |_| Err(not_open()));
            return Ok(());
        };
        let job = Transfer { slot, file, set: entry.0, entry: entry.1 };
        match flowop.verb {
            Verb::Read => self.read(flowop, &job),
            Verb::ReadWholeFile => self.read_whole(flowop, &job),
            Verb::WriteWholeFile => self.write_whole(flowop, &job),
            Verb::AppendFile | Verb::AppendFileRand => self.append(flowop, &job),
            Verb::AioWrite => return self.write_later(flowop, &job),
            _ => self.write(flowop, &job),
        }
        Ok(())
    }

    /// Bytes of one transfer; of the whole file where none are given.
    fn io_bytes(&mut self, flowop: &Flowop, whole_bytes: u64) -> u64 {
        let given = flowop.io_bytes.as_ref().map_or(0, |bytes| bytes.draw_whole(&mut self.rng));
        let wanted_bytes = if given == 0 { whole_bytes } else { given };
        wanted_bytes.clamp(1, IO_BYTES_MAX.min(self.shared.data.all().len() as u64))
    }

    /// The part of a file that random transfers use.
    fn working_set_bytes(&mut self, flowop: &Flowop, job: &Transfer) -> u64 {
        let length_bytes = self.shared.sets[job.set].length_bytes(job.entry);
        let given = flowop.working_set_bytes.as_ref();
        match given.map_or(0, |bytes| bytes.draw_whole(&mut self.rng)) {
            0 => length_bytes,
            given => given.min(length_bytes),
        }
    }

    /// A random offset in a working set, a multiple of the transfer size.
    fn random_place(&mut self, io_bytes: u64, working_set_bytes: u64) -> u64 {
        below(&mut self.rng, (working_set_bytes / io_bytes).max(1)) * io_bytes
    }

    fn read(&mut self, flowop: &Flowop, job: &Transfer) {
        let used_bytes = self.working_set_bytes(flowop, job);
        let io_bytes = self.io_bytes(flowop, used_bytes);
        let offset_bytes = if flowop.random {
            self.random_place(io_bytes, used_bytes)
        } else {
            self.next_place(job, io_bytes, used_bytes)
        };
        self.timed(flowop, |worker| {
            let buffer = worker.buffer.at_least(io_bytes as usize);
            let moved_bytes = job.file.read_at(buffer, offset_bytes)?;
            Ok((moved_bytes as u64, ()))
        });
    }

    /// The offset after the last transfer; 0 once the end is reached.
    fn next_place(&mut self, job: &Transfer, io_bytes: u64, end_bytes: u64) -> u64 {
        let open_slot = &mut self.slots[job.slot];
        if open_slot.position_bytes >= end_bytes {
            open_slot.position_bytes = 0;
        }
        let offset_bytes = open_slot.position_bytes;
        open_slot.position_bytes += io_bytes;
        offset_bytes
    }

    fn read_whole(&mut self, flowop: &Flowop, job: &Transfer) {
        let length_bytes = self.shared.sets[job.set].length_bytes(job.entry);
        let io_bytes = self.io_bytes(flowop, length_bytes.next_multiple_of(SECTOR_BYTES));
        self.timed(flowop, |worker| {
            let buffer = worker.buffer.at_least(io_bytes as usize);
            let mut offset_bytes = 0;
            loop {
                match job.file.read_at(buffer, offset_bytes)? {
                    0 => return Ok((offset_bytes, ())),
                    moved => offset_bytes += moved as u64,
                }
            }
        });
    }

    fn write(&mut self, flowop: &Flowop, job: &Transfer) {
        let (offset_bytes, data) = self.place_of_write(flowop, job);
        let end_bytes = offset_bytes + data.len() as u64;
        self.timed(flowop, |worker| {
            let data = &worker.shared.data.all()[data];
            job.file.write_all_at(data, offset_bytes)?;
            Ok((data.len() as u64, ()))
        });
        self.shared.sets[job.set].reached(job.entry, end_bytes);
    }

    /// Where a write goes and what it writes. One after the other they lengthen the file until its
    /// set has grown by its limit; then they begin again.
    fn place_of_write(&mut self, flowop: &Flowop, job: &Transfer) -> (u64, std::ops::Range<usize>) {
        let shared = self.shared.clone();
        let set = &shared.sets[job.set];
        let used_bytes = self.working_set_bytes(flowop, job);
        let io_bytes = self.io_bytes(flowop, used_bytes);
        let is_full = |end_bytes: u64| {
            let beyond_bytes = end_bytes.saturating_sub(set.size_bytes(job.entry));
            beyond_bytes > shared.spec.growth_bytes.max(io_bytes)
        };
        let offset_bytes = if flowop.random {
            self.random_place(io_bytes, used_bytes)
        } else {
            let position_bytes = self.slots[job.slot].position_bytes;
            let is_done = flowop.working_set_bytes.is_some() && position_bytes >= used_bytes;
            let wraps = is_done || is_full(position_bytes + io_bytes);
            let end_bytes = if wraps && position_bytes > 0 { 0 } else { u64::MAX };
            self.next_place(job, io_bytes, end_bytes)
        };
        (offset_bytes, self.data(io_bytes))
    }

    /// A part of the shared data, at a random page.
    fn data(&mut self, length_bytes: u64) -> std::ops::Range<usize> {
        let room = (self.shared.data.all().len() as u64).saturating_sub(length_bytes);
        let page = below(&mut self.rng, room / ALIGN_BYTES as u64 + 1);
        let start = page as usize * ALIGN_BYTES;
        start..start + length_bytes as usize
    }

    fn write_whole(&mut self, flowop: &Flowop, job: &Transfer) {
        let shared = self.shared.clone();
        let source = flowop.source_slot.and_then(|slot| self.slots[slot].entry);
        let (set, entry) = source.unwrap_or((job.set, job.entry));
        let size_bytes = shared.sets[set].size_bytes(entry);
        let io_bytes = self.io_bytes(flowop, size_bytes);
        let data = self.data(io_bytes.min(size_bytes.max(1)));
        self.timed(flowop, |worker| {
            let data = &worker.shared.data.all()[data];
            let mut offset_bytes = 0;
            while offset_bytes < size_bytes {
                let count = (size_bytes - offset_bytes).min(data.len() as u64);
                job.file.write_all_at(&data[..count as usize], offset_bytes)?;
                offset_bytes += count;
            }
            Ok((offset_bytes, ()))
        });
        shared.sets[job.set].reached(job.entry, size_bytes);
    }

    fn append(&mut self, flowop: &Flowop, job: &Transfer) {
        let shared = self.shared.clone();
        let set = &shared.sets[job.set];
        let mut io_bytes = self.io_bytes(flowop, SECTOR_BYTES);
        if flowop.verb == Verb::AppendFileRand {
            io_bytes = below(&mut self.rng, io_bytes) + 1;
            if flowop.direct {
                io_bytes = io_bytes.next_multiple_of(SECTOR_BYTES);
            }
        }
        let data = self.data(io_bytes);
        self.timed(flowop, |worker| {
            let growth_bytes = shared.spec.growth_bytes;
            let open_slot = set.grow(job.entry, io_bytes, growth_bytes);
            let offset_bytes = match open_slot {
                Some(offset_bytes) => offset_bytes,
                None => {
                    job.file.set_len(set.size_bytes(job.entry))?;
                    set.cut(job.entry);
                    shared.cuts.fetch_add(1, Ordering::Relaxed);
                    set.grow(job.entry, io_bytes, growth_bytes.max(u64::MAX / 2)).unwrap_or(0)
                }
            };
            job.file.write_all_at(&worker.shared.data.all()[data], offset_bytes)?;
            Ok((io_bytes, ()))
        });
    }

    /// Hands a write to the helpers; its time counts until it has ended.
    fn write_later(&mut self, flowop: &Flowop, job: &Transfer) -> Result<(), NoEntry> {
        let (offset_bytes, data) = self.place_of_write(flowop, job);
        let (shared, operation) = (self.shared.clone(), flowop.verb.operation());
        let (Some(aio), Some(operation)) = (self.aio.as_ref(), operation) else { return Ok(()) };
        let slot = aio.claim_slot(&shared.sample_end).ok_or(NoEntry::Ended)?;
        self.in_flight.offer();
        self.in_flight.begin(slot, operation, shared.sample_end.clock.now_ns());
        self.done[flowop.kind] += 1;
        self.moved_bytes[flowop.kind] += data.len() as u64;
        shared.sets[job.set].reached(job.entry, offset_bytes + data.len() as u64);
        let file = job.file.clone();
        aio.submit(PendingWrite { file, offset_bytes, data, kind: flowop.kind, slot });
        Ok(())
    }
}

/// An open file of a set, in a slot of a thread.
struct Transfer {
    slot: usize,
    file: Arc<File>,
    set: usize,
    entry: u32,
}

fn open(set: &FileSet, entry: u32, flowop: &Flowop, create: bool) -> io::Result<File> {
    let mut flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    if flowop.direct {
        flags |= libc::O_DIRECT;
    }
    if flowop.dsync {
        flags |= libc::O_DSYNC;
    }
    let file = OpenOptions::new()
        .read(!set.spec.write_only || set.spec.read_only)
        .write(!set.spec.read_only || create)
        .create(create)
        .truncate(create)
        .mode(0o600)
        .custom_flags(flags)
        .open(set.file_path(entry))?;
    if flowop.no_read_ahead {
        // SAFETY: the call takes nothing but a descriptor, which is open, and numbers. It is
        // advice, and a file system may ignore it.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
    }
    Ok(file)
}

fn close(file: File) -> io::Result<()> {
    let descriptor = file.into_raw_fd();
    // SAFETY: the descriptor was that of a file that nobody else holds.
    match unsafe { libc::close(descriptor) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
