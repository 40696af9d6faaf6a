//! Where the programs find what they need of a request.
//!
//! With the kernel's types (BTF) they read its structure: requests are known by their address, and
//! programs of different tracepoints may interrupt each other. Without, they read the fields of the
//! tracepoints, whose programs the kernel does not run while another one of them runs on the same
//! processor; what is missed so is counted.

use crate::btf::Btf;
use crate::error::WatchError;
use crate::tracefs::{Tracepoint, block_tracepoints};

/// The events of a request, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It arrives in the block layer (Linux 6.5 and later).
    Arrives,
    /// It is issued to the device.
    IsIssued,
    /// The device has answered.
    IsCompleted,
}

impl Event {
    /// All events; completions first, so that the completion of every issued request is seen.
    pub const ALL: [Event; 3] = [Event::IsCompleted, Event::IsIssued, Event::Arrives];

    /// Returns the name of its tracepoint.
    pub fn tracepoint(self) -> &'static str {
        match self {
            Event::Arrives => "block_io_start",
            Event::IsIssued => "block_rq_issue",
            Event::IsCompleted => "block_rq_complete",
        }
    }
}

/// Offsets and constants of the structures of the running kernel.
#[derive(Debug, Clone, Copy)]
pub struct StructureOffsets {
    /// Of `struct request`: the queue.
    pub queue: i16,
    /// Of `struct request`: the first sector.
    pub sector: i16,
    /// Of `struct request`: the bytes that are left.
    pub bytes: i16,
    /// Of `struct request`: operation and flags.
    pub flags: i16,
    /// Of `struct request_queue`: the disk.
    pub disk: i16,
    /// Of `struct gendisk`: the major number.
    pub major: i16,
    /// Of `struct gendisk`: the first minor number.
    pub first_minor: i16,
    /// The bit of a request that a process waits for.
    pub sync_bit: u32,
    /// The bit of a request that asks for a flush first.
    pub preflush_bit: u32,
}

impl StructureOffsets {
    fn read(btf: &Btf) -> Option<StructureOffsets> {
        let flag = |name| btf.constant("req_flag_bits", name);
        let operations = ["REQ_OP_READ", "REQ_OP_WRITE", "REQ_OP_FLUSH", "REQ_OP_DISCARD"];
        let numbers = operations.map(|name| btf.constant("req_op", name));
        (numbers == [Some(0), Some(1), Some(2), Some(3)]).then_some(())?;
        Some(StructureOffsets {
            queue: btf.offset_bytes("request", "q")?,
            sector: btf.offset_bytes("request", "__sector")?,
            bytes: btf.offset_bytes("request", "__data_len")?,
            flags: btf.offset_bytes("request", "cmd_flags")?,
            disk: btf.offset_bytes("request_queue", "disk")?,
            major: btf.offset_bytes("gendisk", "major")?,
            first_minor: btf.offset_bytes("gendisk", "first_minor")?,
            sync_bit: flag("__REQ_SYNC")?,
            preflush_bit: flag("__REQ_PREFLUSH")?,
        })
    }
}

/// The source of a program's fields.
#[derive(Debug, Clone)]
pub enum Source {
    /// In the request's structure; the number is that of the tracepoint's type.
    Structure(StructureOffsets, u32),
    /// In the fields of the tracepoint.
    Fields(Tracepoint),
}

/// Returns the sources of all events, by the kernel's types where it has them; None for those that
/// this kernel does not have.
///
/// # Errors
///
/// If tracefs cannot be read, or the kernel has no tracepoints of requests.
pub fn sources() -> Result<[Option<Source>; 3], WatchError> {
    if let Some(found) = Btf::of_kernel().ok().and_then(|btf| by_structures(&btf)) {
        return Ok(found);
    }
    by_fields()
}

fn by_structures(btf: &Btf) -> Option<[Option<Source>; 3]> {
    let structures = StructureOffsets::read(btf)?;
    let found = Event::ALL.map(|event| {
        let number = btf.typedef(&format!("btf_trace_{}", event.tracepoint()))?;
        Some(Source::Structure(structures, number))
    });
    (found[0].is_some() && found[1].is_some()).then_some(found)
}

/// Returns the sources by the tracepoints' fields.
///
/// # Errors
///
/// If tracefs cannot be read, or the kernel has no tracepoints of requests.
pub fn by_fields() -> Result<[Option<Source>; 3], WatchError> {
    let [completed, issued, arrives] = block_tracepoints(Event::ALL.map(Event::tracepoint))?;
    let arrives = arrives.ok().map(Source::Fields);
    Ok([Some(Source::Fields(completed?)), Some(Source::Fields(issued?)), arrives])
}
