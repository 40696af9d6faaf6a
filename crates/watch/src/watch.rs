//! All block requests of the machine, or of some devices, from now until this is dropped.

use std::collections::HashMap;
use std::path::Path;

use seatrial_gauge::Histogram;

use crate::bpf::{ALLOCATE_LATE, AttachedProgram, Map, MapKind, processors};
use crate::error::WatchError;
use crate::layout::{
    BUCKETS, Counts, GroupKey, Losses, Record, Request, RequestKey, SLOT_BITS, TableSlot,
    bucket_middle_ns,
};
use crate::program::{Maps, assemble};
use crate::ring::Ring;
use crate::source::{Event, Source, by_fields, sources};

/// Requests in flight that are known at once.
const REQUESTS_MAX: u32 = 1 << 16;
/// Groups that are counted; 7 KiB each and processor, allocated when they appear.
const GROUPS_MAX: u32 = 1 << 12;
/// From so many on, groups of processes that have ended make room for others.
const GROUPS_KEPT: usize = GROUPS_MAX as usize / 2;
/// Groups of no process, allocated at once: the kernel may have no memory when they appear. A busy
/// device has up to 18.
const UNNAMED_MAX: u32 = 1 << 7;
/// A quarter of a second at a million requests a second.
const RING_BYTES: u32 = 1 << 24;

/// The devices to watch, and how.
#[derive(Debug, Clone, Default)]
pub struct WatchSpec {
    /// Devices, as major number << 20 | minor number; all if empty.
    pub devices: Vec<u32>,
    /// Whether requests are also handed over one by one.
    pub records: bool,
    /// Whether to do without the kernel's types, as on a kernel that has none.
    pub by_fields: bool,
}

/// Losses since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostCounts {
    /// Completions of requests whose issue was not seen: begun before, or two alike at once.
    pub unmatched: u64,
    /// Requests for which a map had no room.
    pub uncounted: u64,
    /// Requests that the reader of single requests was too slow for; they are counted.
    pub unrecorded: u64,
    /// Events during which another program ran on the same processor.
    pub missed: u64,
}

/// The counters of a group since the last call.
#[derive(Debug, Clone)]
pub struct Group {
    /// Its key.
    pub key: GroupKey,
    /// Its counts.
    pub counts: Counts,
}

impl Group {
    /// Returns the times at the device, each as the middle of its bucket.
    pub fn device(&self) -> Histogram {
        histogram(&self.counts.device_buckets)
    }

    /// Returns the times in the queue, each as the middle of its bucket.
    pub fn queue(&self) -> Histogram {
        histogram(&self.counts.queue_buckets)
    }
}

fn histogram(buckets: &[u32; BUCKETS]) -> Histogram {
    let filled = buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
    let (middles, counts): (Vec<_>, Vec<_>) =
        filled.map(|(bucket, &count)| (bucket_middle_ns(bucket), u64::from(count))).unzip();
    // 865 counts of 32 bits never overflow.
    Histogram::from_counts(&middles, &counts).unwrap_or_default()
}

/// The programs, while they run.
#[derive(Debug)]
pub struct Watch {
    /// Each processor counts for itself: they would fight for the counters' memory.
    groups: Map<GroupKey, Counts>,
    /// Those for which `groups` has no room, without their process.
    unnamed: Map<GroupKey, Counts>,
    processors: usize,
    /// The counters at the last call.
    before: HashMap<GroupKey, Counts>,
    losses: Map<u32, Losses>,
    ring: Option<Ring>,
    attached: Vec<AttachedProgram>,
    _slots: Map<u32, TableSlot>,
    _scratch: Map<u32, u64>,
    _requests: Map<RequestKey, Request>,
    _empty: Map<u32, Counts>,
}

impl Watch {
    /// Begins to watch: by the fields of the tracepoints where the kernel rejects the programs that
    /// read its structures, as one before Linux 5.12 does.
    ///
    /// # Errors
    ///
    /// If the kernel has no such tracepoints or no BPF, or this process lacks the rights.
    pub fn start(spec: &WatchSpec) -> Result<Watch, WatchError> {
        if spec.by_fields {
            return Watch::start_by(by_fields()?, spec);
        }
        match Watch::start_by(sources()?, spec) {
            Err(WatchError::Rejected { .. }) => Watch::start_by(by_fields()?, spec),
            started => started,
        }
    }

    fn start_by(sources: [Option<Source>; 3], spec: &WatchSpec) -> Result<Watch, WatchError> {
        let ring = spec.records.then(|| Ring::create(RING_BYTES)).transpose()?;
        let groups = Map::create(MapKind::HashPerProcessor, GROUPS_MAX, ALLOCATE_LATE)?;
        let unnamed = Map::create(MapKind::HashPerProcessor, UNNAMED_MAX, 0)?;
        let losses = Map::create(MapKind::Array, 1, 0)?;
        let empty = Map::create(MapKind::Array, 1, 0)?;
        let requests = Map::create(requests_kind(&sources), REQUESTS_MAX, 0)?;
        let slots = Map::create(MapKind::Array, 1 << SLOT_BITS, 0)?;
        let scratch = Map::create(MapKind::ArrayPerProcessor, 1, 0)?;
        let maps = Maps {
            scratch: scratch.fd(),
            slots: slots.fd(),
            requests: requests.fd(),
            groups: groups.fd(),
            unnamed: unnamed.fd(),
            empty: empty.fd(),
            losses: losses.fd(),
            ring: ring.as_ref().map(Ring::fd),
        };
        let mut attached = Vec::new();
        for (event, source) in Event::ALL.into_iter().zip(&sources) {
            if let Some(source) = source {
                let program = assemble(event, source, maps, &spec.devices)?;
                attached.push(AttachedProgram::attach(event, source, &program)?);
            }
        }
        let before = HashMap::new();
        Ok(Watch {
            groups,
            unnamed,
            processors: processors()?,
            before,
            losses,
            ring,
            attached,
            _slots: slots,
            _scratch: scratch,
            _requests: requests,
            _empty: empty,
        })
    }

    /// Whether the time in the queue is known.
    pub fn knows_queue(&self) -> bool {
        self.attached.len() == Event::ALL.len()
    }

    /// Returns the counters since the last call, by group; groups without a request are absent.
    pub fn take_groups(&mut self) -> Vec<Group> {
        let (mut taken, mut idle) = (Vec::new(), Vec::new());
        let (named, unnamed) = (self.groups.keys(), self.unnamed.keys());
        for (number, key) in named.iter().chain(&unnamed).copied().enumerate() {
            let has_process = number < named.len();
            let map = if has_process { &self.groups } else { &self.unnamed };
            let Some(all) = map.get_all(&key, self.processors) else { continue };
            let mut now = Counts::EMPTY;
            all.iter().for_each(|counts| now.add(counts));
            let counts = self.before.get(&key).map_or(now, |before| grown(before, &now));
            // Between two sums of the program there is no request yet: the next look has it whole.
            if counts.requests > 0 {
                self.before.insert(key, now);
                taken.push(Group { key, counts });
            } else if has_process {
                idle.push(key);
            }
        }
        if named.len() > GROUPS_KEPT {
            self.forget_ended(&idle);
        }
        taken
    }

    /// Removes the groups without a new request whose process has ended: none is in flight.
    fn forget_ended(&mut self, idle: &[GroupKey]) {
        let mut is_there = HashMap::new();
        for key in idle {
            let runs = is_there
                .entry(key.pid)
                .or_insert_with(|| Path::new("/proc").join(key.pid.to_string()).exists());
            if !*runs {
                self.groups.remove(key);
                self.before.remove(key);
            }
        }
    }

    /// Returns the losses since the start.
    pub fn lost(&self) -> LostCounts {
        let losses = self.losses.get(&0).unwrap_or_default();
        LostCounts {
            unmatched: losses.unmatched,
            uncounted: losses.uncounted,
            unrecorded: losses.unrecorded,
            missed: self.attached.iter().map(AttachedProgram::missed).sum(),
        }
    }

    /// Takes the requests that completed since the last call, in that order.
    pub fn take(&mut self, each: impl FnMut(&Record)) {
        if let Some(ring) = &mut self.ring {
            ring.take(each);
        }
    }
}

/// Returns the difference of two readings; the kernel's program may be between two sums.
fn grown(before: &Counts, now: &Counts) -> Counts {
    let buckets = |before: &[u32; BUCKETS], now: &[u32; BUCKETS]| {
        std::array::from_fn(|bucket| now[bucket].wrapping_sub(before[bucket]))
    };
    Counts {
        requests: now.requests - before.requests,
        bytes: now.bytes - before.bytes,
        device_ns: now.device_ns - before.device_ns,
        queued: now.queued - before.queued,
        queue_ns: now.queue_ns - before.queue_ns,
        failed: now.failed - before.failed,
        device_buckets: buckets(&before.device_buckets, &now.device_buckets),
        queue_buckets: buckets(&before.queue_buckets, &now.queue_buckets),
    }
}

/// Known by their sectors, requests that were merged into others would stay for ever.
fn requests_kind(sources: &[Option<Source>]) -> MapKind {
    let by_fields = sources.iter().flatten().any(|source| matches!(source, Source::Fields(_)));
    if by_fields { MapKind::LruHash } else { MapKind::Hash }
}
