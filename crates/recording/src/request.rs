//! One recorded request.

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes written data durable.
    Flush,
    /// Frees space.
    Discard,
    /// Something else.
    Other,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard, Operation::Other];

    /// Returns the operation of a number.
    pub fn of_number(number: u8) -> Option<Operation> {
        Operation::ALL.get(usize::from(number)).copied()
    }
}

/// A request to a device. Fields that the source does not have are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it arrived in the block layer, or was sent; from the beginning of the recording.
    pub arrived_ns: u64,
    /// The device: an index in the recording's list of names.
    pub device: u32,
    /// What it does.
    pub operation: Operation,
    /// Whether a process waits for it.
    pub is_sync: Option<bool>,
    /// Whether it failed; false where that is not known.
    pub has_failed: bool,
    /// Its first byte on the device; 0 without one.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u32,
    /// How long it was in the queue, before it was issued to the device.
    pub queue_ns: Option<u64>,
    /// How long it was at the device; where the source knows only the sum, that sum.
    pub device_ns: Option<u64>,
    /// The process: an index in the recording's list of names.
    pub process: Option<u32>,
    /// The file, table or index of the database: an index in the recording's list of names.
    pub relation: Option<u32>,
}
