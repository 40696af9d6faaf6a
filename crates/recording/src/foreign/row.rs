//! A record of another program's trace, before names become indexes and times differences.

use crate::request::Operation;

/// A record.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// When it arrived, by the trace's own clock.
    pub at_ns: u64,
    /// Name of the device.
    pub device: &'a [u8],
    /// What it does.
    pub operation: Operation,
    /// Whether a process waits for it.
    pub is_sync: Option<bool>,
    /// Whether it failed.
    pub failed: bool,
    /// Its first byte.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// Its time in the queue.
    pub queue_ns: Option<u64>,
    /// Its time at the device, or with that in the queue if only the sum is known.
    pub device_ns: Option<u64>,
    /// Name of the process.
    pub process: Option<&'a [u8]>,
}

impl Row<'_> {
    /// Returns a record of which no more is known, of the only device.
    pub fn new(
        at_ns: u64,
        operation: Operation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Row<'static> {
        Row {
            at_ns,
            device: b"device",
            operation,
            is_sync: None,
            failed: false,
            offset_bytes,
            length_bytes,
            queue_ns: None,
            device_ns: None,
            process: None,
        }
    }
}
