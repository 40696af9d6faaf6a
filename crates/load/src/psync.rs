//! Plain system calls, one request at a time, as in most databases. They always work.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use seatrial_gauge::{Clock, InFlight, Operation};

use crate::buffers::Buffers;
use crate::engine::{Completion, Engine, Request};
use crate::spec::SyncKind;
use crate::target::Target;

/// The psync engine of one worker.
#[derive(Debug)]
pub struct PsyncEngine<'t> {
    clock: Clock,
    target: &'t Target,
    sync_kind: SyncKind,
    buffers: Buffers,
    ended: Option<Completion>,
}

impl<'t> PsyncEngine<'t> {
    /// An engine with one slot.
    pub fn new(clock: Clock, target: &'t Target, sync_kind: SyncKind, buffers: Buffers) -> Self {
        PsyncEngine { clock, target, sync_kind, buffers, ended: None }
    }

    fn perform(&mut self, request: &Request) -> i32 {
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let number = self.buffers.number(request.slot, request.operation);
        let address = self.buffers.address(number);
        let target = self.target.fd();
        match request.operation {
            Operation::Read => read_at(target, address, length, offset),
            Operation::Write => write_at(target, address, length, offset),
            Operation::Sync => self.sync_all(),
            // No cell of this engine can have it (spec.rs).
            Operation::Metadata => -libc::EOPNOTSUPP,
            Operation::Commit => {
                let written = write_at(target, address, length, offset);
                if written != length as i32 || self.target.is_dsync() {
                    return written;
                }
                let synced = sync(target, self.sync_kind);
                if synced < 0 { synced } else { written }
            }
            Operation::Copy => {
                let read = read_at(target, address, length, offset);
                if read != length as i32 {
                    return read;
                }
                write_at(self.target.copy_fd().unwrap_or(-1), address, length, offset)
            }
        }
    }
}

impl PsyncEngine<'_> {
    /// Data may have been written to the target, or by a copy to the other file.
    fn sync_all(&self) -> i32 {
        let mut results = self.target.written_fds().map(|fd| sync(fd, self.sync_kind));
        results.find(|&result| result < 0).unwrap_or(0)
    }
}

impl Engine for PsyncEngine<'_> {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    #[inline]
    fn submit(&mut self, request: Request, in_flight: &InFlight) {
        in_flight.begin(request.slot, request.operation, self.clock.now_ns());
        let mut result = self.perform(&request);
        if self.target.is_null() {
            // The call was made for its cost; its result for /dev/null does not matter.
            result = request.length_bytes as i32;
        }
        self.ended = Some(Completion { slot: request.slot, at_ns: self.clock.now_ns(), result });
    }

    #[inline]
    fn reap(
        &mut self,
        _wanted: usize,
        _until_ns: u64,
        _flight: &InFlight,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()> {
        ended.extend(self.ended.take());
        Ok(())
    }

    fn sleep_until(&mut self, until_ns: u64) {
        sleep_until(&self.clock, until_ns);
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.slot(slot)
    }
}

/// Sleeps until a time of the clock.
pub fn sleep_until(clock: &Clock, until_ns: u64) {
    let left_ns = until_ns.saturating_sub(clock.now_ns());
    if left_ns > 0 {
        std::thread::sleep(Duration::from_nanos(left_ns));
    }
}

fn read_at(fd: RawFd, address: *mut u8, length_bytes: u32, offset_bytes: u64) -> i32 {
    // SAFETY: the address is that of a slot's buffer, which is at least as long as any request.
    let moved =
        unsafe { libc::pread64(fd, address.cast(), length_bytes as usize, offset_bytes as i64) };
    result_of(moved)
}

fn write_at(fd: RawFd, address: *mut u8, length_bytes: u32, offset_bytes: u64) -> i32 {
    // SAFETY: the address is that of a slot's buffer, which is at least as long as any request.
    let moved =
        unsafe { libc::pwrite64(fd, address.cast(), length_bytes as usize, offset_bytes as i64) };
    result_of(moved)
}

fn sync(fd: RawFd, kind: SyncKind) -> i32 {
    // SAFETY: both calls take nothing but a descriptor.
    let result = unsafe {
        match kind {
            SyncKind::Fdatasync => libc::fdatasync(fd),
            SyncKind::Fsync => libc::fsync(fd),
        }
    };
    result_of(result as isize)
}

fn result_of(moved: isize) -> i32 {
    if moved >= 0 {
        return moved as i32;
    }
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
