//! Requests of the kernel, as they are recorded.

use std::collections::HashMap;

use seatrial_watch::layout::{FLAG_SYNC, Record, UNKNOWN_NS};

use crate::{Operation, RecordingError, RecordingWriter, Request};

/// Processes that are recorded by number and name; those beyond are recorded by name.
const PROCESSES_MAX: usize = 1 << 16;
/// Bytes of a sector, whatever the device calls so.
const SECTOR_BYTES: u64 = 512;
const MINOR_BITS: u32 = 20;

/// Writes the events of the kernel to a recording.
#[derive(Debug)]
pub struct WatchedWriter {
    /// The recording.
    pub writer: RecordingWriter,
    began_ns: u64,
    devices: HashMap<u32, u32>,
    processes: HashMap<(u32, [u8; 16]), u32>,
}

impl WatchedWriter {
    /// Takes a recording that began at a time of CLOCK_MONOTONIC.
    pub fn new(writer: RecordingWriter, began_ns: u64) -> WatchedWriter {
        WatchedWriter { writer, began_ns, devices: HashMap::new(), processes: HashMap::new() }
    }

    /// Names a device.
    pub fn name_device(&mut self, major: u32, minor: u32, name: &str, size_bytes: Option<u64>) {
        let number = self.writer.device(name, size_bytes);
        self.devices.insert(major << MINOR_BITS | minor, number);
    }

    /// Adds a request, with the number of its relation if that is known.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn add(&mut self, record: &Record, relation: Option<u32>) -> Result<(), RecordingError> {
        let queue_ns = (record.queue_ns != UNKNOWN_NS).then_some(record.queue_ns);
        let lasted_ns = record.device_ns.saturating_add(queue_ns.unwrap_or(0));
        let arrived_ns = record.completed_ns.saturating_sub(lasted_ns);
        let request = Request {
            arrived_ns: arrived_ns.saturating_sub(self.began_ns),
            device: self.device(record.key.device),
            operation: Operation::of_number(record.key.operation).unwrap_or(Operation::Other),
            is_sync: Some(record.key.flags & FLAG_SYNC != 0),
            has_failed: record.has_failed(),
            offset_bytes: offset_bytes(record),
            length_bytes: record.bytes,
            queue_ns,
            device_ns: Some(record.device_ns),
            process: Some(self.process(record)),
            relation,
        };
        self.writer.add(request)
    }

    /// The number of a device; one that came meanwhile is named by its numbers.
    fn device(&mut self, device: u32) -> u32 {
        if let Some(&number) = self.devices.get(&device) {
            return number;
        }
        let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
        let number = self.writer.device(&format!("{major}:{minor}"), None);
        self.devices.insert(device, number);
        number
    }

    fn process(&mut self, record: &Record) -> u32 {
        let key = (record.key.pid, record.key.command);
        if let Some(&number) = self.processes.get(&key) {
            return number;
        }
        let name = record.command();
        if self.processes.len() >= PROCESSES_MAX {
            return self.writer.process(&name);
        }
        let number = self.writer.process(&format!("{name} ({})", record.key.pid));
        self.processes.insert(key, number);
        number
    }
}

/// The first byte; 0 for requests without one, such as a flush or a driver's own command, whose
/// sector is -1.
fn offset_bytes(record: &Record) -> u64 {
    let offset_bytes = record.sector.checked_mul(SECTOR_BYTES).filter(|_| record.bytes > 0);
    offset_bytes.filter(|&offset| i64::try_from(offset).is_ok()).unwrap_or(0)
}
