//! A cache in memory, a cache device and a disk on a virtual clock: how a load warms them, and how
//! fast it is meanwhile.
//!
//! Requests come at their recorded times, or from clients that each wait for one before they send
//! the next. A read passes the path (processor, network), then takes the service time of the tier
//! that has its block; each device serves as many requests at once as it has servers, in the order
//! in which they arrive. Blocks that were read go to memory; writes go to memory and, in the
//! background, to the disk.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seatrial_gauge::histogram::Histogram;

use crate::accesses::Accesses;
use crate::policy::{Outcome, Policy};
use crate::second_tier::{ReadOutcome, SecondTier};

/// A service station: servers with a common queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Number of servers; 0 for no limit, if the service times were recorded under load.
    pub servers: usize,
    /// Service times, equally likely.
    pub service_ns: Vec<u64>,
    /// Whether a block has a server of its own, as on disks that are striped.
    pub is_striped: bool,
}

/// The stations that serve reads, by the tier that has the block.
#[derive(Debug, Clone, PartialEq)]
pub struct Stations {
    /// The path that every request passes first.
    pub path: Station,
    /// The cache device.
    pub device: Station,
    /// The disks behind.
    pub disk: Station,
}

/// The arrival process.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// A closed loop of clients, until the end.
    Closed {
        /// Number of clients.
        clients: usize,
    },
    /// Recorded times.
    Recorded {
        /// The arrival of each access, in order.
        at_ns: Vec<u64>,
    },
}

/// The simulated load.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedLoad {
    /// The arrival process.
    pub arrivals: Arrivals,
    /// When the cache device is added.
    pub device_at_ns: u64,
    /// The end.
    pub end_ns: u64,
    /// Length of a slice of the result.
    pub slice_ns: u64,
    /// Seed of the service times.
    pub seed: u64,
    /// Memory that the header of a block takes which the device holds and memory does not, as a
    /// share of a block.
    pub header_share: f64,
    /// Blocks that fit into memory without such headers.
    pub memory_blocks: usize,
}

/// The requests that ended in a slice of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slice {
    /// Reads that memory served.
    pub memory_hits: u64,
    /// Reads that the cache device served.
    pub device_hits: u64,
    /// Reads that the disk served.
    pub disk_reads: u64,
    /// Writes.
    pub writes: u64,
    /// Blocks on the cache device at its end.
    pub device_blocks: u64,
    /// Blocks written to the cache device until its end.
    pub device_written_blocks: u64,
    /// Blocks that memory has no room for at its end, for the headers of the device's blocks.
    pub header_blocks: u64,
    /// Response times of reads.
    pub latency: Histogram,
}

struct Queue {
    station: Station,
    free_at_ns: BinaryHeap<Reverse<u64>>,
    own_free_at_ns: Vec<u64>,
}

impl Queue {
    fn new(station: Station) -> Queue {
        Queue {
            free_at_ns: std::iter::repeat_n(Reverse(0), station.servers).collect(),
            own_free_at_ns: vec![0; station.servers],
            station,
        }
    }

    /// Returns the completion time of a request that arrives now.
    fn serve(&mut self, now_ns: u64, block: u32, random: &mut fastrand::Rng) -> u64 {
        let values = &self.station.service_ns;
        let service_ns = match values.len() {
            0 => 0,
            1 => values[0],
            count => values[random.usize(..count)],
        };
        if self.station.servers == 0 {
            return now_ns + service_ns;
        }
        if self.station.is_striped {
            // Blocks are numbered by first access: a multiplication spreads them.
            let spread = u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let server = (spread % self.own_free_at_ns.len() as u64) as usize;
            let free_at_ns = &mut self.own_free_at_ns[server];
            *free_at_ns = (*free_at_ns).max(now_ns) + service_ns;
            return *free_at_ns;
        }
        let Reverse(free_at_ns) = self.free_at_ns.pop().unwrap_or(Reverse(0));
        let done_ns = free_at_ns.max(now_ns) + service_ns;
        self.free_at_ns.push(Reverse(done_ns));
        done_ns
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The cache device is added.
    Added,
    /// A pass of the feed; before requests of the same moment.
    Feed,
    /// A request arrives: its number.
    Arrives(u64),
    /// A missing block has been read into memory; before the requests that wait for it.
    BlockRead(u32),
    /// A request has passed the path: its number and arrival.
    Passed(u64, u64),
    /// A request is complete: its arrival, and the tier that served it.
    Done(u64, ServedBy),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ServedBy {
    Memory,
    Device,
    Disk,
    Write,
}

struct Simulation<'a> {
    accesses: &'a Accesses,
    load: &'a SimulatedLoad,
    memory: Option<Box<dyn Policy>>,
    device: Option<SecondTier>,
    path: Queue,
    device_queue: Queue,
    disk: Queue,
    random: fastrand::Rng,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// The number of the next request.
    next: u64,
    memory_was_full: bool,
    /// The time at which each block will be in memory; empty without memory.
    read_at_ns: Vec<u64>,
    headers: HeaderMemory,
    slices: Vec<Slice>,
}

/// Memory for the headers of the device's blocks.
#[derive(Default)]
struct HeaderMemory {
    /// Blocks that memory loses to them.
    blocks: usize,
    /// Accesses since they were counted.
    accesses: usize,
}

/// Simulates a load; memory and device may be absent.
///
/// Returns one slice for each part of the time until its end.
pub fn simulate(
    accesses: &Accesses,
    memory: Option<Box<dyn Policy>>,
    device: Option<SecondTier>,
    stations: Stations,
    load: &SimulatedLoad,
) -> Vec<Slice> {
    if accesses.is_empty() || load.slice_ns == 0 {
        return Vec::new();
    }
    let slices = load.end_ns.div_ceil(load.slice_ns) as usize;
    let remembered = if memory.is_some() { accesses.different as usize } else { 0 };
    let mut simulation = Simulation {
        accesses,
        load,
        memory,
        device,
        path: Queue::new(stations.path),
        device_queue: Queue::new(stations.device),
        disk: Queue::new(stations.disk),
        random: fastrand::Rng::with_seed(load.seed),
        events: BinaryHeap::new(),
        next: 0,
        memory_was_full: false,
        read_at_ns: vec![0; remembered],
        headers: HeaderMemory::default(),
        slices: vec![Slice::default(); slices],
    };
    simulation.run();
    simulation.slices
}

impl Simulation<'_> {
    fn run(&mut self) {
        match &self.load.arrivals {
            Arrivals::Closed { clients } => {
                for _ in 0..*clients {
                    self.arrive(0);
                }
            }
            Arrivals::Recorded { .. } => self.arrive_recorded(),
        }
        if self.device.is_some() {
            self.at(self.load.device_at_ns, Event::Added);
            self.at(self.load.device_at_ns, Event::Feed);
        }
        let mut slice = 0;
        while let Some(Reverse((now_ns, event))) = self.events.pop() {
            if now_ns >= self.load.end_ns {
                break;
            }
            while ((slice + 1) as u64) * self.load.slice_ns <= now_ns {
                self.close(slice);
                slice += 1;
            }
            match event {
                Event::Added => {
                    if let Some(memory) = &mut self.memory {
                        memory.device_added();
                    }
                }
                Event::Feed => self.feed(now_ns),
                Event::Arrives(number) => {
                    let block = self.block(number);
                    let passed_ns = self.path.serve(now_ns, block, &mut self.random);
                    self.at(passed_ns, Event::Passed(number, now_ns));
                    self.arrive_recorded();
                }
                Event::BlockRead(block) => {
                    if let Some(memory) = &mut self.memory {
                        memory.at(now_ns);
                        memory.arrived(block);
                    }
                }
                Event::Passed(number, arrived_ns) => self.access(number, arrived_ns, now_ns),
                Event::Done(arrived_ns, served) => self.finish(arrived_ns, now_ns, served),
            }
        }
        for index in slice..self.slices.len() {
            self.close(index);
        }
    }

    fn at(&mut self, when_ns: u64, event: Event) {
        self.events.push(Reverse((when_ns, event)));
    }

    fn block(&self, number: u64) -> u32 {
        self.accesses.blocks[(number % self.accesses.len() as u64) as usize]
    }

    fn arrive(&mut self, now_ns: u64) {
        self.at(now_ns, Event::Arrives(self.next));
        self.next += 1;
    }

    /// Schedules the next recorded request.
    fn arrive_recorded(&mut self) {
        if let Arrivals::Recorded { at_ns } = &self.load.arrivals
            && let Some(&when_ns) = at_ns.get(self.next as usize)
        {
            self.arrive(when_ns);
        }
    }

    fn access(&mut self, number: u64, arrived_ns: u64, now_ns: u64) {
        let index = (number % self.accesses.len() as u64) as usize;
        let access = self.accesses.access(index);
        let is_write = self.accesses.is_write(index);
        let is_there = now_ns >= self.load.device_at_ns;
        let is_held = self.device.as_ref().is_some_and(|each| is_there && each.holds(access.block));
        let outcome = self.memory.as_mut().map(|memory| {
            memory.at(now_ns);
            if is_held { memory.access_held(access) } else { memory.access(access) }
        });
        self.headers.accesses += 1;
        if let Some(Outcome::Miss { evicted: Some(_) }) = outcome {
            self.memory_was_full = true;
        }
        let stream_bytes = self.accesses.stream_bytes(index);
        if is_write {
            self.write_through(access.block, stream_bytes, now_ns);
            if let Some(memory) = &mut self.memory {
                memory.arrived(access.block);
            }
            return self.at(now_ns, Event::Done(arrived_ns, ServedBy::Write));
        }
        if outcome == Some(Outcome::Hit) {
            // Who comes while a block is read waits for it.
            let there_ns = self.read_at_ns[access.block as usize].max(now_ns);
            return self.at(there_ns, Event::Done(arrived_ns, ServedBy::Memory));
        }
        let device = self.device.as_mut().filter(|_| is_there);
        let read = device
            .map_or(ReadOutcome::Absent, |each| each.read(access.block, stream_bytes, now_ns));
        let (served, queue) = match read {
            ReadOutcome::OnDevice => (ServedBy::Device, &mut self.device_queue),
            ReadOutcome::Absent | ReadOutcome::Copied => (ServedBy::Disk, &mut self.disk),
        };
        let done_ns = queue.serve(now_ns, access.block, &mut self.random);
        if let Some(device) = &mut self.device {
            device.ends(done_ns);
            if read == ReadOutcome::Copied {
                // The disk reads it once more, when nobody reads it any longer (`mg_lock_writes`).
                let copied_ns = self.disk.serve(done_ns, access.block, &mut self.random);
                device.copied(access.block, copied_ns);
            }
        }
        if outcome.is_some() {
            self.read_at_ns[access.block as usize] = done_ns;
            self.at(done_ns, Event::BlockRead(access.block));
        }
        self.at(done_ns, Event::Done(arrived_ns, served));
    }

    /// Writes to the device, if there is one; no request waits for that or for the disk.
    fn write_through(&mut self, block: u32, stream_bytes: u32, now_ns: u64) {
        let is_there = now_ns >= self.load.device_at_ns;
        let Some(device) = self.device.as_mut().filter(|_| is_there) else { return };
        if device.write(block, stream_bytes, now_ns) == ReadOutcome::Copied {
            device.copied(block, self.disk.serve(now_ns, block, &mut self.random));
        }
        device.ends(now_ns);
    }

    fn finish(&mut self, arrived_ns: u64, now_ns: u64, served: ServedBy) {
        let slice = &mut self.slices[(now_ns / self.load.slice_ns) as usize];
        match served {
            ServedBy::Memory => slice.memory_hits += 1,
            ServedBy::Device => slice.device_hits += 1,
            ServedBy::Disk => slice.disk_reads += 1,
            ServedBy::Write => slice.writes += 1,
        }
        if served != ServedBy::Write {
            slice.latency.record(now_ns - arrived_ns);
        }
        if matches!(self.load.arrivals, Arrivals::Closed { .. }) {
            self.arrive(now_ns);
        }
    }

    fn feed(&mut self, now_ns: u64) {
        let (Some(device), Some(memory)) = (&mut self.device, &self.memory) else { return };
        let was_full = self.memory_was_full && device.heeds_full_memory();
        let read = |count| if was_full { memory.leaving(count) } else { memory.newest(count) };
        if let Some(next_ns) = device.feed(now_ns, was_full, read) {
            self.at(next_ns, Event::Feed);
        }
        self.charge_headers();
    }

    /// Shrinks memory by the headers of the device's blocks.
    ///
    /// A block that is in memory too needs no further header. They are counted again when memory
    /// may have changed considerably.
    fn charge_headers(&mut self) {
        let (Some(device), Some(memory)) = (&self.device, &mut self.memory) else { return };
        let headers = &mut self.headers;
        if self.load.header_share <= 0.0 || headers.accesses < memory.len() / 8 {
            return;
        }
        headers.accesses = 0;
        let both = memory.newest(usize::MAX).into_iter().filter(|&block| device.holds(block));
        let alone = device.len() - both.count();
        headers.blocks = (alone as f64 * self.load.header_share).ceil() as usize;
        memory.resize(self.load.memory_blocks.saturating_sub(headers.blocks).max(1));
    }

    fn close(&mut self, slice: usize) {
        if let Some(device) = &self.device {
            self.slices[slice].device_blocks = device.len() as u64;
            self.slices[slice].device_written_blocks = device.written_blocks();
            self.slices[slice].header_blocks = self.headers.blocks as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Kind;
    use crate::second_tier::Admission;

    const SECOND_NS: u64 = 1_000_000_000;

    fn station(servers: usize, service_ns: u64, is_striped: bool) -> Station {
        Station { servers, service_ns: vec![service_ns], is_striped }
    }

    fn stations(disk: Station) -> Stations {
        Stations { path: station(8, 0, false), device: station(64, 100_000, false), disk }
    }

    fn uniform(blocks: u64, count: usize) -> Accesses {
        let mut random = fastrand::Rng::with_seed(1);
        let blocks: Vec<u64> = (0..count).map(|_| random.u64(..blocks)).collect();
        Accesses::new(&blocks).unwrap_or_default()
    }

    fn load(arrivals: Arrivals, seconds: u64) -> SimulatedLoad {
        SimulatedLoad {
            arrivals,
            device_at_ns: 0,
            end_ns: seconds * SECOND_NS,
            slice_ns: SECOND_NS,
            seed: 1,
            header_share: 0.0,
            memory_blocks: 0,
        }
    }

    #[test]
    fn without_a_cache_clients_get_what_the_disk_serves() {
        let accesses = uniform(100_000, 10_000);
        let disk = station(4, 8_000_000, false);
        let load = load(Arrivals::Closed { clients: 8 }, 10);
        let slices = simulate(&accesses, None, None, stations(disk), &load);
        let reads: u64 = slices.iter().map(|slice| slice.disk_reads).sum();
        // Four servers of 125 a second; the last ones are not done at the end.
        assert!((4990..=5000).contains(&reads), "{reads}");
        // Two rounds of the queue: 16 ms each.
        assert_eq!(slices[5].latency.max_ns(), 16_000_000);
    }

    #[test]
    fn recorded_requests_come_at_their_times_once() {
        let accesses = uniform(10, 100);
        let at_ns = (0..100).map(|number| number * SECOND_NS / 10).collect();
        let load = load(Arrivals::Recorded { at_ns }, 20);
        let memory = Kind::Lru.cache(20, &accesses, 8192);
        let disk = station(1, 1000, false);
        let slices = simulate(&accesses, Some(memory), None, stations(disk), &load);
        assert_eq!(slices.iter().map(|slice| slice.disk_reads).sum::<u64>(), 10);
        assert_eq!(slices.iter().map(|slice| slice.memory_hits).sum::<u64>(), 90);
        assert!(slices[..10].iter().all(|slice| slice.memory_hits + slice.disk_reads == 10));
        assert!(slices[10..].iter().all(|slice| slice.memory_hits + slice.disk_reads == 0));
    }

    #[test]
    fn a_fed_device_serves_what_it_holds_of_a_uniform_load() {
        let (blocks, memory_blocks) = (20_000, 2500);
        let accesses = uniform(blocks, 2_000_000);
        let memory = Kind::Arc.cache(memory_blocks, &accesses, 8192);
        let admission = Admission::of_name("l2arc-2009").unwrap_or(Admission::Smq);
        let device = SecondTier::new(40_000, accesses.different, 8192, admission, 4e8);
        let disk = station(4, 2_000_000, true);
        let load = load(Arrivals::Closed { clients: 8 }, 60);
        let slices = simulate(&accesses, Some(memory), Some(device), stations(disk), &load);
        let mut checked = 0;
        for pair in slices.windows(2).skip(2) {
            let misses = pair[1].device_hits + pair[1].disk_reads;
            let device_blocks = (pair[0].device_blocks + pair[1].device_blocks) as f64 / 2.0;
            if misses > 1000 && device_blocks < 0.95 * blocks as f64 {
                let share = pair[1].device_hits as f64 / misses as f64;
                // The law of a uniform load: of the blocks that memory lacks, as large a share as
                // the device holds, which also has some that memory does not lack yet.
                let lacking = (blocks - memory_blocks as u64) as f64;
                let low = (device_blocks - memory_blocks as f64) / lacking - 0.03;
                assert!(
                    share > low && share < device_blocks / lacking + 0.03,
                    "{share} {device_blocks}"
                );
                checked += 1;
            }
        }
        assert!(checked >= 3, "{checked}");
        // The last ones come slowly: memory turns over many times between two passes.
        let filled = slices.last().map_or(0.0, |slice| slice.device_blocks as f64 / blocks as f64);
        assert!(filled > 0.95, "{filled}");
    }

    #[test]
    fn what_a_device_serves_does_not_drive_out_what_it_lacks() {
        // Memory turns over several times a second, a pass comes once a second.
        let accesses = uniform(20_000, 2_000_000);
        let filled = |kind: Kind| {
            let memory = kind.cache(2000, &accesses, 8192);
            let admission = Admission::of_name("l2arc-2009").unwrap_or(Admission::Smq);
            let device = SecondTier::new(40_000, accesses.different, 8192, admission, 0.0);
            let disk = station(4, 8_000_000, false);
            let load = load(Arrivals::Closed { clients: 8 }, 60);
            let stations = Stations { path: station(1, 70_000, false), ..stations(disk) };
            let slices = simulate(&accesses, Some(memory), Some(device), stations, &load);
            slices.last().map_or(0, |slice| slice.device_blocks)
        };
        let (arc, lru) = (filled(Kind::ArcPinned), filled(Kind::Lru));
        assert!(arc > 19_950 && lru < 19_850, "{arc} {lru}");
    }

    #[test]
    fn what_is_written_is_read_from_the_device_unless_it_is_part_of_a_long_stream() {
        let mut accesses = Accesses::new(&[1, 2, 1, 1]).unwrap_or_default();
        accesses.writes = vec![false, false, true, false];
        let load = load(Arrivals::Recorded { at_ns: vec![0, 1, 2, 3] }, 1);
        for (stream_bytes, expected) in [(8192, (2, 1, 1)), (4 << 20, (3, 0, 1))] {
            accesses.streams_bytes = vec![8192, 8192, stream_bytes, 8192];
            let admission = Admission::of_name("bcache").unwrap_or(Admission::Smq);
            let device = SecondTier::new(10, 2, 8192, admission, 0.0);
            let disk = stations(station(1, 0, false));
            let slice = simulate(&accesses, None, Some(device), disk, &load).remove(0);
            assert_eq!((slice.disk_reads, slice.device_hits, slice.writes), expected);
        }
    }

    #[test]
    fn headers_take_memory_as_blocks_come_that_only_the_device_holds() {
        let accesses = uniform(4000, 200_000);
        for kind in [Kind::Lru, Kind::Fifo, Kind::Arc, Kind::ArcPinned] {
            let memory = kind.cache(1000, &accesses, 8192);
            let admission = Admission::of_name("l2arc-2.0").unwrap_or(Admission::Smq);
            let device = SecondTier::new(8000, accesses.different, 8192, admission, 0.0);
            let disk = station(4, 2_000_000, false);
            let mut load = load(Arrivals::Closed { clients: 8 }, 30);
            (load.header_share, load.memory_blocks) = (0.1, 1000);
            let stations = Stations { path: station(1, 500_000, false), ..stations(disk) };
            let slices = simulate(&accesses, Some(memory), Some(device), stations, &load);
            let headers: Vec<u64> = slices.iter().map(|slice| slice.header_blocks).collect();
            assert!(headers[0] < 150 && headers.is_sorted_by(|a, b| *a <= b + 10), "{headers:?}");
            // All 4,000 are on the device in the end, and memory has what headers leave:
            // headers = 0.1 (4000 - (1000 - headers)), so 333.
            let last = headers[headers.len() - 1];
            assert!(last.abs_diff(333) <= 5, "{} {headers:?}", kind.name());
            let hits: u64 = slices[20..].iter().map(|slice| slice.memory_hits).sum();
            let reads: u64 =
                slices[20..].iter().map(|slice| slice.memory_hits + slice.device_hits).sum();
            let share = hits as f64 / reads as f64;
            assert!((share - 667.0 / 4000.0).abs() < 0.015, "{} {share}", kind.name());
        }
    }

    #[test]
    fn who_wants_a_block_that_is_read_waits_for_it() {
        let accesses = Accesses::new(&[1, 1, 1]).unwrap_or_default();
        for kind in [Kind::Lru, Kind::ArcPinned] {
            let load = load(Arrivals::Recorded { at_ns: vec![0, 400, 5000] }, 1);
            let memory = kind.cache(2, &accesses, 8192);
            let disk = station(1, 1000, false);
            let slices = simulate(&accesses, Some(memory), None, stations(disk), &load);
            assert_eq!((slices[0].disk_reads, slices[0].memory_hits), (1, 2));
            // One waits for 1,000 ns, one for the 600 that are left, one for nothing.
            assert_eq!(slices[0].latency.mean_ns().round() as u64, 1600 / 3);
        }
    }
}
