//! blktrace: records of 48 bytes of the kernel's `struct blk_io_trace`, one file a processor.
//!
//! A request is what was issued to the driver (action D) and completed (C); it arrived when the
//! first of its parts was queued (Q). Devices without requests of their own, such as those of
//! device-mapper, have Q and C alone, and only the sum of both times.
//!
//! Source: include/uapi/linux/blktrace_api.h.

use std::collections::{HashMap, HashSet};

use super::bytes::{u16_at, u32_at, u64_at};
use super::fields::{OFFSET_BYTES_MAX, SECOND_NS, SECTOR_BYTES};
use super::left_out::OmissionCounts;
use super::row::Row;
use crate::request::Operation;

/// Length of a record without what follows it.
pub const RECORD_BYTES: usize = 48;
/// Magic number of records, whose low byte is the version.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const MINOR_BITS: u32 = 20;

const CATEGORY_SHIFT: u32 = 16;
const READ: u32 = 1;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const PASSED_THROUGH: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const DISCARD: u32 = 1 << 13;

const QUEUED: u32 = 1;
const BACK_MERGED: u32 = 2;
const FRONT_MERGED: u32 = 3;
const REQUEUED: u32 = 6;
const ISSUED: u32 = 7;
const COMPLETED: u32 = 8;
const NOTIFY_PROCESS: u32 = 0;
const NOTIFY_TIME: u32 = 1;
const ACTION_MASK: u32 = 0xff;

/// An event of a request.
#[derive(Debug, Clone, Copy)]
struct TraceEvent {
    at_ns: u64,
    sequence: u32,
    action: u32,
    key: RequestKey,
    length_bytes: u64,
    pid: u32,
    is_sync: bool,
    failed: bool,
}

/// Requests in flight are distinguished by device, first sector and operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct RequestKey {
    device: u32,
    sector: u64,
    operation: Operation,
}

/// The events of a trace, in order of time.
#[derive(Debug, Default)]
pub struct TraceEvents {
    events: Vec<TraceEvent>,
    processes: HashMap<u32, Vec<u8>>,
    with_issues: HashSet<u32>,
    /// Unix time of the trace's time 0, where it says so.
    pub epoch_unix_ns: Option<u64>,
}

/// Returns whether a file begins with a record.
pub fn is_beginning(beginning: &[u8]) -> bool {
    beginning.len() >= RECORD_BYTES && u32_at(beginning, 0) & !0xff == MAGIC
}

/// Returns how many bytes follow a record, or what is wrong with it.
pub fn follow_bytes(record: &[u8]) -> Result<usize, String> {
    let magic = u32_at(record, 0);
    if magic & !0xff != MAGIC {
        return Err(format!("the record begins with {magic:#010x}, not blktrace's magic number"));
    }
    if magic & 0xff != VERSION {
        return Err(format!("the record is of version {}, not {VERSION}", magic & 0xff));
    }
    Ok(usize::from(u16_at(record, 46)))
}

impl TraceEvents {
    /// Adds a record and what follows it.
    pub fn add(&mut self, record: &[u8], following: &[u8]) {
        let (at_ns, action, pid) = (u64_at(record, 8), u32_at(record, 28), u32_at(record, 32));
        let category = action >> CATEGORY_SHIFT;
        let action = action & ACTION_MASK;
        if category & NOTIFY != 0 {
            self.add_note(action, at_ns, pid, following);
            return;
        }
        let length_bytes = u64::from(u32_at(record, 24));
        let device = u32_at(record, 36);
        let operation = operation_of(category, length_bytes);
        let is_sync = match operation {
            Operation::Read => category & AHEAD == 0,
            Operation::Flush => true,
            _ => category & SYNC != 0,
        };
        let sector = if operation == Operation::Flush { 0 } else { u64_at(record, 16) };
        if action == ISSUED {
            self.with_issues.insert(device);
        }
        self.events.push(TraceEvent {
            at_ns,
            sequence: u32_at(record, 4),
            action,
            key: RequestKey { device, sector, operation },
            length_bytes,
            pid,
            is_sync,
            failed: u16_at(record, 44) != 0,
        });
    }

    fn add_note(&mut self, action: u32, at_ns: u64, pid: u32, following: &[u8]) {
        if action == NOTIFY_PROCESS {
            let end = following.iter().position(|&byte| byte == 0).unwrap_or(following.len());
            self.processes.insert(pid, following[..end].to_vec());
        } else if action == NOTIFY_TIME && following.len() >= 8 {
            let (seconds, part_ns) = (u32_at(following, 0), u32_at(following, 4));
            let unix_ns = u64::from(seconds) * SECOND_NS + u64::from(part_ns);
            self.epoch_unix_ns = unix_ns.checked_sub(at_ns);
        }
    }

    /// Brings the events of all processors in order.
    pub fn sort(&mut self) {
        self.events.sort_by_key(|event| (event.at_ns, event.sequence));
    }

    /// Hands over every request, in the order in which they complete.
    pub fn rows(
        &self,
        left_out: &mut OmissionCounts,
        sink: &mut dyn FnMut(Row<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut flight = InFlight::default();
        for event in &self.events {
            let Some(summary) = flight.follow(event, &self.with_issues, left_out) else { continue };
            if summary.offset_bytes() > OFFSET_BYTES_MAX {
                left_out.count("requests with an impossible sector", 1);
                continue;
            }
            let process = match self.processes.get(&summary.pid) {
                Some(name) => format!("{} ({})", String::from_utf8_lossy(name), summary.pid),
                None => format!("process {}", summary.pid),
            };
            let device = format!(
                "{}:{}",
                summary.key.device >> MINOR_BITS,
                summary.key.device & ((1 << MINOR_BITS) - 1)
            );
            sink(Row {
                device: device.as_bytes(),
                is_sync: Some(summary.is_sync),
                failed: event.failed,
                queue_ns: summary.queue_ns,
                device_ns: Some(summary.device_ns),
                process: Some(process.as_bytes()),
                ..Row::new(
                    summary.arrived_ns,
                    summary.key.operation,
                    summary.offset_bytes(),
                    summary.length_bytes,
                )
            })?;
        }
        left_out.count("requests that had not completed at the end", flight.len());
        Ok(())
    }
}

fn operation_of(category: u32, length_bytes: u64) -> Operation {
    if category & DISCARD != 0 {
        Operation::Discard
    } else if category & PASSED_THROUGH != 0 {
        Operation::Other
    } else if category & FLUSH != 0 && length_bytes == 0 {
        Operation::Flush
    } else if category & WRITE != 0 {
        Operation::Write
    } else if category & READ != 0 {
        Operation::Read
    } else {
        Operation::Other
    }
}

/// Outstanding requests.
#[derive(Debug, Default)]
struct InFlight {
    queued: HashMap<RequestKey, QueuedRequest>,
    issued: HashMap<RequestKey, IssuedRequest>,
}

#[derive(Debug, Clone, Copy)]
struct QueuedRequest {
    at_ns: u64,
    pid: u32,
    is_sync: bool,
    length_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct IssuedRequest {
    at_ns: u64,
    first: RequestKey,
    queued: Option<QueuedRequest>,
    pid: u32,
    is_sync: bool,
    length_bytes: u64,
    left_bytes: u64,
}

/// A completed request.
struct CompletedRequest {
    key: RequestKey,
    arrived_ns: u64,
    queue_ns: Option<u64>,
    device_ns: u64,
    length_bytes: u64,
    pid: u32,
    is_sync: bool,
}

impl CompletedRequest {
    fn offset_bytes(&self) -> u64 {
        self.key.sector.saturating_mul(SECTOR_BYTES)
    }
}

impl InFlight {
    fn len(&self) -> u64 {
        self.issued.len() as u64
    }

    /// Follows an event; returns the request that it completes.
    fn follow(
        &mut self,
        event: &TraceEvent,
        with_issues: &HashSet<u32>,
        left_out: &mut OmissionCounts,
    ) -> Option<CompletedRequest> {
        match event.action {
            QUEUED => {
                self.queued.entry(event.key).or_insert(QueuedRequest {
                    at_ns: event.at_ns,
                    pid: event.pid,
                    is_sync: event.is_sync,
                    length_bytes: event.length_bytes,
                });
            }
            BACK_MERGED => {
                self.queued.remove(&event.key);
            }
            FRONT_MERGED => self.merge_in_front(event),
            REQUEUED => {
                if let Some(issued) = self.issued.remove(&event.key) {
                    if let Some(queued) = issued.queued {
                        self.queued.insert(event.key, queued);
                    }
                }
            }
            ISSUED => self.issue(event, left_out),
            COMPLETED if with_issues.contains(&event.key.device) => {
                return self.complete(event, left_out);
            }
            COMPLETED => return self.complete_queued(event, left_out),
            _ => {}
        }
        None
    }

    fn merge_in_front(&mut self, event: &TraceEvent) {
        let after = event.key.sector.saturating_add(event.length_bytes / SECTOR_BYTES);
        let behind = self.queued.remove(&RequestKey { sector: after, ..event.key });
        if let (Some(behind), Some(own)) = (behind, self.queued.get_mut(&event.key)) {
            own.at_ns = own.at_ns.min(behind.at_ns);
        }
    }

    fn issue(&mut self, event: &TraceEvent, left_out: &mut OmissionCounts) {
        let queued = self.queued.remove(&event.key).filter(|own| own.at_ns <= event.at_ns);
        let issued = IssuedRequest {
            at_ns: event.at_ns,
            first: event.key,
            queued,
            pid: queued.map_or(event.pid, |own| own.pid),
            is_sync: event.is_sync,
            length_bytes: event.length_bytes,
            left_bytes: event.length_bytes,
        };
        if self.issued.insert(event.key, issued).is_some() {
            left_out.count("requests in flight to the same sector as another one", 1);
        }
    }

    fn complete(
        &mut self,
        event: &TraceEvent,
        left_out: &mut OmissionCounts,
    ) -> Option<CompletedRequest> {
        let Some(mut issued) = self.issued.remove(&event.key) else {
            left_out.count("completions of requests that were issued before the beginning", 1);
            return None;
        };
        if event.length_bytes < issued.left_bytes && event.length_bytes > 0 && !event.failed {
            issued.left_bytes -= event.length_bytes;
            let sector = event.key.sector.saturating_add(event.length_bytes / SECTOR_BYTES);
            self.issued.insert(RequestKey { sector, ..event.key }, issued);
            return None;
        }
        let arrived_ns = issued.queued.map_or(issued.at_ns, |own| own.at_ns);
        Some(CompletedRequest {
            key: issued.first,
            arrived_ns,
            queue_ns: issued.queued.map(|own| issued.at_ns - own.at_ns),
            device_ns: event.at_ns.saturating_sub(issued.at_ns),
            length_bytes: issued.length_bytes,
            pid: issued.pid,
            is_sync: issued.is_sync,
        })
    }

    fn complete_queued(
        &mut self,
        event: &TraceEvent,
        left_out: &mut OmissionCounts,
    ) -> Option<CompletedRequest> {
        let Some(queued) = self.queued.remove(&event.key) else {
            left_out.count("completions of requests that were issued before the beginning", 1);
            return None;
        };
        Some(CompletedRequest {
            key: event.key,
            arrived_ns: queued.at_ns,
            queue_ns: None,
            device_ns: event.at_ns.saturating_sub(queued.at_ns),
            length_bytes: queued.length_bytes,
            pid: queued.pid,
            is_sync: queued.is_sync,
        })
    }
}
