//! What the programs in the kernel and their reader share: keys, values, records and buckets.

use std::mem::offset_of;

/// The key of a request: its address in the kernel, or its device and first sector.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct RequestKey {
    /// Its address, or its device.
    pub first: u64,
    /// 0, or the first sector; all bits set for requests that wait for a flush of a device.
    pub second: u64,
}

/// A request that has arrived, and perhaps was issued to the device.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Request {
    /// When it arrived in the block layer (CLOCK_MONOTONIC); 0 if unknown.
    pub arrived_ns: u64,
    /// When it was issued to the device; 0 if it was not.
    pub issued_ns: u64,
    /// Process that sent it.
    pub pid: u32,
    /// Always 0.
    pub padding: u32,
    /// Name of the process, which ends with a zero.
    pub command: [u8; 16],
}

/// A slot in a table for one request that is identified by its address.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TableSlot {
    /// The address of the request that has it for good; 0 if none has.
    pub owner: u64,
    /// The request.
    pub request: Request,
}

/// Number of [`TableSlot`]s, as a power of two: many more than the kernel has structures for
/// requests, which it uses again and again, so that two of them rarely want the same.
pub const SLOT_BITS: u32 = 16;

/// The key of a group of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct GroupKey {
    /// The device: major number << 20 | minor number.
    pub device: u32,
    /// Index of the operation in [`OPERATIONS`].
    pub operation: u8,
    /// Bit 0: a process waits for it: a read, a flush, a write with REQ_SYNC.
    pub flags: u8,
    /// 0 for no bytes, else 1 + the logarithm to base 2 of its length in sectors, rounded down.
    pub octave: u8,
    /// 0; in a single request 1 if it failed.
    pub failed: u8,
    /// Process.
    pub pid: u32,
    /// Name of the process.
    pub command: [u8; 16],
}

/// The flag of a request that a process waits for.
pub const FLAG_SYNC: u8 = 1;

/// Operations, in the order of their numbers.
pub const OPERATIONS: [&str; 5] = ["read", "write", "flush", "discard", "other"];

/// Sub-buckets of an octave, as a power of two: a bucket is at most 1/32 wide.
pub const SUB_BITS: u32 = 5;
/// Latencies below 2^10 ns share one bucket.
pub const LOW_BITS: u32 = 10;
/// Latencies of 2^37 ns (137 s) and longer are in the last bucket.
pub const HIGH_BITS: u32 = 37;
/// Number of buckets.
pub const BUCKETS: usize = 1 + (((HIGH_BITS - LOW_BITS) << SUB_BITS) as usize);

/// The counters of a group.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Counts {
    /// Completed requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their time at the device.
    pub device_ns: u64,
    /// Requests whose time in the queue is known.
    pub queued: u64,
    /// Sum of their time in the queue.
    pub queue_ns: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests by time at the device.
    pub device_buckets: [u32; BUCKETS],
    /// Requests by time in the queue.
    pub queue_buckets: [u32; BUCKETS],
}

impl Counts {
    /// Nothing.
    pub const EMPTY: Counts = Counts {
        requests: 0,
        bytes: 0,
        device_ns: 0,
        queued: 0,
        queue_ns: 0,
        failed: 0,
        device_buckets: [0; BUCKETS],
        queue_buckets: [0; BUCKETS],
    };

    /// Adds the counters of another processor.
    pub fn add(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.device_ns += other.device_ns;
        self.queued += other.queued;
        self.queue_ns += other.queue_ns;
        self.failed += other.failed;
        for (to, from) in [
            (&mut self.device_buckets, &other.device_buckets),
            (&mut self.queue_buckets, &other.queue_buckets),
        ] {
            for (count, more) in to.iter_mut().zip(from) {
                *count = count.wrapping_add(*more);
            }
        }
    }
}

/// One completed request, as the ring buffer has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Its group.
    pub key: GroupKey,
    /// Its length in bytes.
    pub bytes: u32,
    /// The first sector.
    pub sector: u64,
    /// When it completed (CLOCK_MONOTONIC).
    pub completed_ns: u64,
    /// How long it was at the device.
    pub device_ns: u64,
    /// How long it was in the queue; all bits set if unknown.
    pub queue_ns: u64,
}

impl Record {
    /// Whether the request failed.
    pub fn has_failed(&self) -> bool {
        self.key.failed != 0
    }

    /// Returns the name of the process that sent it.
    pub fn command(&self) -> String {
        self.key.command()
    }
}

impl GroupKey {
    /// Returns the name of the process.
    pub fn command(&self) -> String {
        let end = self.command.iter().position(|&byte| byte == 0).unwrap_or(self.command.len());
        String::from_utf8_lossy(&self.command[..end]).into_owned()
    }
}

/// The time in the queue of a request whose arrival was not seen.
pub const UNKNOWN_NS: u64 = u64::MAX;

/// Requests that could not be counted.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Losses {
    /// Completions of requests whose issue was not seen.
    pub unmatched: u64,
    /// Requests for which a map had no room.
    pub uncounted: u64,
    /// Requests for which the ring buffer had no room.
    pub unrecorded: u64,
}

/// Returns the offset of a field as instructions have it; structures here are a few KiB at most.
const fn short(offset_bytes: usize) -> i16 {
    offset_bytes as i16
}

/// Offsets of [`Counts`].
pub mod counts_at {
    use super::{Counts, offset_of, short};

    /// Of `requests`.
    pub const REQUESTS: i16 = short(offset_of!(Counts, requests));
    /// Of `bytes`.
    pub const BYTES: i16 = short(offset_of!(Counts, bytes));
    /// Of `device_ns`.
    pub const DEVICE_NS: i16 = short(offset_of!(Counts, device_ns));
    /// Of `queued`.
    pub const QUEUED: i16 = short(offset_of!(Counts, queued));
    /// Of `queue_ns`.
    pub const QUEUE_NS: i16 = short(offset_of!(Counts, queue_ns));
    /// Of `failed`.
    pub const FAILED: i16 = short(offset_of!(Counts, failed));
    /// Of `device_buckets`.
    pub const DEVICE_BUCKETS: i16 = short(offset_of!(Counts, device_buckets));
    /// Of `queue_buckets`.
    pub const QUEUE_BUCKETS: i16 = short(offset_of!(Counts, queue_buckets));
}

/// Returns the bucket of a latency, as the program in the kernel computes it.
pub fn bucket_of(latency_ns: u64) -> usize {
    let latency_ns = latency_ns.min((1 << HIGH_BITS) - 1);
    let Some(octave) = (latency_ns >> LOW_BITS).checked_ilog2() else { return 0 };
    let sub_bucket = latency_ns >> (octave + LOW_BITS - SUB_BITS) & ((1 << SUB_BITS) - 1);
    1 + ((octave as usize) << SUB_BITS) + sub_bucket as usize
}

/// Returns the lowest latency of a bucket.
pub fn bucket_low_ns(bucket: usize) -> u64 {
    let Some(index) = bucket.checked_sub(1) else { return 0 };
    let octave = (index >> SUB_BITS) as u32;
    let sub_bucket = (index & ((1 << SUB_BITS) - 1)) as u64;
    ((1 << SUB_BITS) + sub_bucket) << (octave + LOW_BITS - SUB_BITS)
}

/// Returns the latency that stands for a bucket: its middle.
pub fn bucket_middle_ns(bucket: usize) -> u64 {
    (bucket_low_ns(bucket) + bucket_low_ns(bucket + 1)) / 2
}

/// Returns the least length of requests of an octave; the next one begins at twice as much.
pub fn length_bytes_min(octave: u8) -> u64 {
    if octave == 0 { 0 } else { 256 << octave }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_latency_lies_in_its_bucket(latency_ns in 0u64..1 << HIGH_BITS) {
            let bucket = bucket_of(latency_ns);
            prop_assert!(bucket < BUCKETS);
            prop_assert!(bucket_low_ns(bucket) <= latency_ns);
            prop_assert!(latency_ns < bucket_low_ns(bucket + 1));
        }
    }

    #[test]
    fn buckets_are_at_most_a_32nd_wide() {
        for bucket in 1..BUCKETS {
            let (low, end) = (bucket_low_ns(bucket), bucket_low_ns(bucket + 1));
            assert!((end - low) * 32 <= low, "{bucket}: {low} to {end}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn structures_have_no_hidden_padding() {
        assert_eq!(size_of::<GroupKey>(), 28);
        assert_eq!(size_of::<Record>(), 64);
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(size_of::<TableSlot>(), 48);
        assert_eq!(size_of::<Counts>(), 48 + 2 * 4 * BUCKETS);
    }
}
