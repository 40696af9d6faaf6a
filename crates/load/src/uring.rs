//! The kernel's asynchronous interface: batches of submits and reaps in one system call.
//!
//! Buffers, the file and the ring itself are registered where the kernel allows it, so that a
//! request pins no pages and takes no reference. All requests of a batch become visible to the
//! kernel in one call, and all ends that it saw become visible to us when it returns; so one clock
//! reading on each side of the call is exact for what an application sees, and every request still
//! gets its own histogram entry.

use std::io;

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{CompletionQueue, IoUring, SubmissionQueue, Submitter, opcode, squeue};
use seatrial_gauge::{Clock, InFlight, Operation};

use crate::buffers::Buffers;
use crate::engine::{Completion, Engine, Request};
use crate::psync::sleep_until;
use crate::spec::SyncKind;
use crate::target::Target;

/// Longest wait in one system call, so that a stop is noticed.
const WAIT_NS_MAX: u64 = 100_000_000;

/// Longest wait for a batch to fill once one request of it may have ended.
const BATCH_WAIT_NS_MAX: u64 = 5_000_000;

/// Opens a ring with the cheapest flags that the kernel knows.
///
/// # Errors
///
/// The kernel's reason, such as EPERM where a sysctl or seccomp forbids io_uring.
pub fn open_ring(depth: usize, iopoll: bool) -> io::Result<IoUring> {
    let entries = u32::try_from(depth.next_power_of_two()).unwrap_or(u32::MAX);
    let mut lean = IoUring::builder();
    lean.setup_single_issuer().setup_coop_taskrun();
    let mut leanest = lean.clone();
    leanest.setup_defer_taskrun().setup_no_sqarray();
    let mut plain = IoUring::builder();
    if iopoll {
        for builder in [&mut leanest, &mut lean, &mut plain] {
            builder.setup_iopoll();
        }
    }
    let ring = leanest
        .build(entries)
        .or_else(|_| lean.build(entries))
        .or_else(|_| plain.build(entries))?;
    // Without it no wait has an end, and a worker would never notice that its time is over.
    if !ring.params().is_feature_ext_arg() {
        let reason = "the kernel's io_uring is older than that of Linux 5.11";
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    Ok(ring)
}

/// Says by name why io_uring cannot be used; `None` when it can.
pub fn unavailable_reason() -> Option<String> {
    let error = open_ring(1, false).err()?;
    let errno = error.raw_os_error().unwrap_or(0);
    let forbidden = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
        .is_ok_and(|value| value.trim() != "0");
    Some(match errno {
        libc::ENOSYS => "the kernel has no io_uring".to_owned(),
        libc::EPERM if forbidden => "the sysctl kernel.io_uring_disabled forbids it".to_owned(),
        libc::EPERM => "a seccomp filter forbids it".to_owned(),
        libc::ENOMEM => "the locked-memory limit (ulimit -l) is too low".to_owned(),
        _ => error.to_string(),
    })
}

/// The target's index among the registered files.
const TARGET: Fixed = Fixed(0);

/// The io_uring engine of one worker, over a ring that the worker's own thread opened.
pub struct UringEngine<'r> {
    clock: Clock,
    submitter: Submitter<'r>,
    submissions: SubmissionQueue<'r>,
    completions: CompletionQueue<'r>,
    buffers: Buffers,
    buffers_registered: bool,
    is_null: bool,
    fsync_flags: FsyncFlags,
    /// Taken since the last system call.
    waiting: Vec<(usize, Operation)>,
    /// Whether a request found no room, which a ring as deep as its slots always has.
    overflowed: bool,
}

impl<'r> UringEngine<'r> {
    /// An engine over `ring`.
    ///
    /// # Errors
    ///
    /// When the target cannot be registered. That buffers cannot be (a low locked-memory limit)
    /// only costs time.
    pub fn new(
        clock: Clock,
        ring: &'r mut IoUring,
        target: &Target,
        sync_kind: SyncKind,
        buffers: Buffers,
    ) -> io::Result<UringEngine<'r>> {
        let (mut submitter, submissions, completions) = ring.split();
        submitter.register_files(&[target.fd()])?;
        // Before Linux 5.18 there is no such registration, and every call looks the ring up.
        let _ = submitter.register_ring_fd();
        // SAFETY: the buffers move into the engine, and the worker does not drop the engine
        // before all requests have ended.
        let buffers_registered = unsafe { submitter.register_buffers(&buffers.iovecs()) }.is_ok();
        Ok(UringEngine {
            clock,
            submitter,
            submissions,
            completions,
            buffers,
            buffers_registered,
            is_null: target.is_null(),
            fsync_flags: match sync_kind {
                SyncKind::Fdatasync => FsyncFlags::DATASYNC,
                SyncKind::Fsync => FsyncFlags::empty(),
            },
            waiting: Vec::new(),
            overflowed: false,
        })
    }

    /// Whether requests go without pinning pages.
    pub fn buffers_registered(&self) -> bool {
        self.buffers_registered
    }

    #[inline]
    fn entry(&self, request: &Request) -> squeue::Entry {
        let number = self.buffers.number(request.slot, request.operation);
        let address = self.buffers.address(number);
        let (offset, length) = (request.offset_bytes, request.length_bytes);
        let index = number as u16;
        let entry = match (request.operation, self.buffers_registered) {
            _ if self.is_null => opcode::Nop::new().build(),
            (Operation::Sync, _) => opcode::Fsync::new(TARGET).flags(self.fsync_flags).build(),
            (Operation::Read, true) => {
                opcode::ReadFixed::new(TARGET, address, length, index).offset(offset).build()
            }
            (Operation::Read, false) => {
                opcode::Read::new(TARGET, address, length).offset(offset).build()
            }
            (_, true) => {
                opcode::WriteFixed::new(TARGET, address, length, index).offset(offset).build()
            }
            (_, false) => opcode::Write::new(TARGET, address, length).offset(offset).build(),
        };
        // A completion brings back the slot, and for the null target the length.
        entry.user_data(request.slot as u64 | u64::from(length) << 32)
    }

    fn publish_starts(&mut self, in_flight: &InFlight) {
        if self.waiting.is_empty() {
            return;
        }
        let started_ns = self.clock.now_ns();
        for (slot, operation) in self.waiting.drain(..) {
            in_flight.begin(slot, operation, started_ns);
        }
    }

    fn enter(&mut self, min_ended: usize, timeout_ns: u64) -> io::Result<()> {
        let timeout = Timespec::new()
            .sec(timeout_ns / 1_000_000_000)
            .nsec((timeout_ns % 1_000_000_000) as u32);
        let arguments = SubmitArgs::new().timespec(&timeout);
        self.submissions.sync();
        let entered = self.submitter.submit_with_args(min_ended, &arguments);
        // Learns how many entries the kernel took, which is the room for the next ones.
        self.submissions.sync();
        match entered {
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    #[inline]
    fn collect(&mut self, ended: &mut Vec<Completion>) {
        self.completions.sync();
        let at_ns = self.clock.now_ns();
        for entry in &mut self.completions {
            let tag = entry.user_data();
            let length_bytes = (tag >> 32) as i32;
            let failed_or_real = entry.result() < 0 || !self.is_null;
            let result = if failed_or_real { entry.result() } else { length_bytes };
            ended.push(Completion { slot: (tag & 0xffff_ffff) as usize, at_ns, result });
        }
        // Tells the kernel what was taken; else the next wait would count it as ended anew.
        self.completions.sync();
    }
}

impl Engine for UringEngine<'_> {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    #[inline]
    fn submit(&mut self, request: Request, _flight: &InFlight) {
        let entry = self.entry(&request);
        // SAFETY: the buffer behind the entry lives until the request has ended.
        let pushed = unsafe { self.submissions.push(&entry) };
        self.overflowed |= pushed.is_err();
        self.waiting.push((request.slot, request.operation));
    }

    fn reap(
        &mut self,
        min_ended: usize,
        until_ns: u64,
        in_flight: &InFlight,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()> {
        if self.overflowed {
            return Err(io::Error::other("the submission queue overflowed"));
        }
        self.publish_starts(in_flight);
        let left_ns = until_ns.saturating_sub(self.clock.now_ns());
        let longest_ns = if min_ended > 1 { BATCH_WAIT_NS_MAX } else { WAIT_NS_MAX };
        self.enter(min_ended, left_ns.min(longest_ns))?;
        self.collect(ended);
        Ok(())
    }

    fn sleep_until(&mut self, until_ns: u64) {
        sleep_until(&self.clock, until_ns);
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.slot(slot)
    }
}

/// A time-out, a signal, or a kernel that wants completions reaped before it takes more.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::spec::CellSpec;

    /// A FIFO as target: a read of it takes until somebody writes.
    fn fifo(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("seatrial-{}-{name}", std::process::id()));
        let c_path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the string is alive and ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0);
        path
    }

    fn spec(path: &std::path::Path) -> CellSpec {
        let json = format!(
            r#"{{"seed": 1, "limit": {{"duration_s": 1}},
                "target": {{"kind": "file", "path": {path:?}, "size_bytes": 65536,
                            "direct": false}},
                "range": {{"start_bytes": 0, "length_bytes": 65536}},
                "accesses": [{{"operation": "write", "sizes": [{{"bytes": 4096}}],
                               "align_bytes": 4096, "address": {{"kind": "random"}}}}]}}"#
        );
        CellSpec::parse(&json).unwrap()
    }

    fn read(slot: usize) -> Request {
        Request { slot, operation: Operation::Read, offset_bytes: 0, length_bytes: 4096 }
    }

    /// Completions that were reaped before must not count for the present wait: it would end at
    /// once, once for every request.
    #[test]
    fn a_wait_lasts_until_something_ends() {
        if let Some(reason) = unavailable_reason() {
            eprintln!("skipped: {reason}");
            return;
        }
        let path = fifo("wait");
        let target = Target::open(&spec(&path)).unwrap();
        let mut other_end = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let clock = Clock::new(false);
        let mut ring = open_ring(4, false).unwrap();
        let buffers = Buffers::map(4, 4096).unwrap();
        let mut engine =
            UringEngine::new(clock, &mut ring, &target, SyncKind::Fdatasync, buffers).unwrap();
        let in_flight = InFlight::new(4, clock.now_ns());
        let mut ended = Vec::new();
        for slot in 0..2 {
            other_end.write_all(&[7; 4096]).unwrap();
            engine.submit(read(slot), &in_flight);
            engine.reap(1, clock.now_ns() + 1_000_000_000, &in_flight, &mut ended).unwrap();
        }
        assert_eq!(
            ended.iter().map(|end| (end.slot, end.result)).collect::<Vec<_>>(),
            [(0, 4096), (1, 4096)]
        );
        let begin = Instant::now();
        engine.submit(read(2), &in_flight);
        engine.reap(1, clock.now_ns() + 50_000_000, &in_flight, &mut ended).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(45), "ended after {:?}", begin.elapsed());
        other_end.write_all(&[7; 4096]).unwrap();
        engine.reap(1, clock.now_ns() + 1_000_000_000, &in_flight, &mut ended).unwrap();
        assert_eq!(ended.len(), 3);
    }
}
