//! A cache device behind memory, and its admission policy.
//!
//! An L2ARC is fed: a thread copies, at intervals, blocks that are about to leave memory. What
//! memory drops between two of its passes never gets there. Other caches take a block as it is read
//! from the disk, at once or when it was read often enough.
//!
//! Sources: ZFS, `arc.c` (`l2arc_feed_thread`, `l2arc_write_buffers`, `l2arc_write_interval`) of
//! OpenSolaris snv_102 and snv_107, OpenZFS 2.2 and OpenZFS pull requests 15457 and 18093;
//! Open-CAS, `promotion/nhit`; for dm-cache see `smq.rs`.

use crate::lists::Lists;
use crate::smq::Smq;

const HELD: u8 = 0;
const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// The feed of an L2ARC: how it scans memory and writes the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceFeed {
    /// Bytes written in a pass at most.
    pub pass_bytes: u64,
    /// Additional bytes until memory is full for the first time.
    pub boost_bytes: u64,
    /// Whether a full memory makes no difference: passes stay large and begin with the newest
    /// blocks. ZFS calls memory warm when the machine is short of it, not when it is full, and
    /// zfs-fuse never is (`arc.c`, `arc_warm`).
    pub is_always_boosted: bool,
    /// Bytes scanned in each list of memory, as a multiple of the bytes of a pass.
    pub headroom: u32,
    /// The time between passes.
    pub interval_ns: u64,
    /// The time after a pass that wrote more than half of its limit.
    pub busy_interval_ns: u64,
    /// Whether blocks on the device can be read while a pass writes.
    pub reads_while_writing: bool,
    /// Device sizes written in a day at most, once the device is full.
    pub device_writes_per_day: Option<f64>,
    /// Memory that a block on the device takes.
    pub header_bytes: u32,
}

/// Declares the devices: name, description and admission.
macro_rules! devices {
    ($($name:literal $text:literal $admission:expr;)*) => {
        /// Name, description and working of each kind of cache device.
        pub const DEVICES: &[(&str, &str, Admission)] = &[$(($name, $text, $admission),)*];
    };
}

const MIB: u64 = 1 << 20;
const FEED_2008: DeviceFeed = DeviceFeed {
    pass_bytes: 8 * MIB,
    boost_bytes: 8 * MIB,
    is_always_boosted: false,
    headroom: 2,
    interval_ns: SECOND_NS,
    busy_interval_ns: SECOND_NS,
    reads_while_writing: false,
    device_writes_per_day: None,
    header_bytes: 200,
};
const FEED_2020: DeviceFeed = DeviceFeed {
    busy_interval_ns: SECOND_NS / 5,
    reads_while_writing: true,
    header_bytes: 96,
    ..FEED_2008
};

const BCACHE: Admission = Admission::Accesses {
    accesses_min: 1,
    from_fill: 0.0,
    stream_bytes_max: 4 * MIB as u32,
    takes_streams_first: false,
};

/// The admission of blocks to the device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Admission {
    /// From memory, by passes.
    Feed(DeviceFeed),
    /// As they are read from the disk, or written to it.
    Accesses {
        /// Accesses before a block is admitted, including the present one.
        accesses_min: u8,
        /// Share of the device that is filled with blocks of one access.
        from_fill: f64,
        /// Length from which sequential streams bypass the device.
        stream_bytes_max: u32,
        /// Whether streams matter on a full device alone.
        takes_streams_first: bool,
    },
    /// As smq promotes them, by a read of the disk for that.
    Smq,
}

devices! {
    "l2arc-2008" "ZFS of November 2008: 8 MiB a second." Admission::Feed(FEED_2008);
    "l2arc-2009" "ZFS since January 2009: up to five passes of 8 MiB a second."
        Admission::Feed(DeviceFeed { busy_interval_ns: SECOND_NS / 5, ..FEED_2008 });
    "zfs-fuse" "zfs-fuse 0.7: as 2009, but with 16 MiB a pass, the newest blocks first."
        Admission::Feed(DeviceFeed {
            is_always_boosted: true,
            busy_interval_ns: SECOND_NS / 5,
            ..FEED_2008
        });
    "l2arc-2.0" "OpenZFS 2.0 to 2.2: as 2009, and reads go on while it writes."
        Admission::Feed(FEED_2020);
    "l2arc-2.3" "OpenZFS 2.3: passes of 32 MiB, four times the headroom."
        Admission::Feed(DeviceFeed {
            pass_bytes: 32 * MIB,
            boost_bytes: 32 * MIB,
            headroom: 8,
            ..FEED_2020
        });
    "l2arc-2025" "OpenZFS of December 2025: 64 MiB a second, one device size a day once it is full."
        Admission::Feed(DeviceFeed {
            pass_bytes: 64 * MIB,
            boost_bytes: 0,
            headroom: 8,
            busy_interval_ns: SECOND_NS,
            device_writes_per_day: Some(1.0),
            ..FEED_2020
        });
    "bcache" "bcache: what is read or written, but not streams from 4 MiB on."
        BCACHE;
    "open-cas" "Open-CAS with nhit: when used three times, once four fifths are filled."
        Admission::Accesses {
            accesses_min: 3,
            from_fill: 0.8,
            stream_bytes_max: MIB as u32,
            takes_streams_first: true,
        };
    "dm-cache" "dm-cache with smq: chunks that its hotspot queue has in a high level."
        Admission::Smq;
}

impl Admission {
    /// Returns an admission by the name that a user types.
    pub fn of_name(name: &str) -> Option<Admission> {
        let found = DEVICES.iter().find(|(known, _, _)| *known == name);
        found.map(|&(_, _, admission)| admission)
    }

    /// Returns how long the streams are that it leaves to the disks (bytes); `None` without one.
    pub fn stream_bytes_max(self) -> Option<u32> {
        match self {
            Admission::Accesses { stream_bytes_max, .. } => Some(stream_bytes_max),
            Admission::Feed(_) | Admission::Smq => None,
        }
    }

    /// Returns the memory that a block on the device takes.
    pub fn header_bytes(self) -> u32 {
        match self {
            Admission::Feed(feed) => feed.header_bytes,
            Admission::Accesses { .. } | Admission::Smq => 0,
        }
    }
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The block is on the device.
    OnDevice,
    /// It is not; if it is admitted, the same read fills the device.
    Absent,
    /// It is not, and a separate read fills the device.
    Copied,
}

/// The device.
pub struct SecondTier {
    capacity_blocks: usize,
    block_bytes: u64,
    write_bytes_per_s: f64,
    admission: Admission,
    /// By the time of writing for a feed, by last use else. Its mark counts reads.
    lists: Lists<1>,
    /// Instead of the lists.
    smq: Option<Smq>,
    was_full: bool,
    blocked_until_ns: u64,
    written_blocks: u64,
}

impl SecondTier {
    /// An empty device; `capacity_blocks` and `blocks` count blocks.
    pub fn new(
        capacity_blocks: usize,
        blocks: u32,
        block_bytes: u32,
        admission: Admission,
        write_bytes_per_s: f64,
    ) -> SecondTier {
        SecondTier {
            capacity_blocks,
            block_bytes: u64::from(block_bytes),
            write_bytes_per_s,
            admission,
            lists: Lists::new(blocks),
            smq: None,
            was_full: false,
            blocked_until_ns: 0,
            written_blocks: 0,
        }
    }

    /// Sets the addresses of the blocks, by their numbers, on storage of a given size:
    /// only [`Admission::Smq`] needs them.
    #[must_use]
    pub fn on_storage(self, block_addresses: &[u64], storage_blocks: u64) -> SecondTier {
        let smq = matches!(self.admission, Admission::Smq)
            .then(|| Smq::new(self.capacity_blocks, block_addresses.to_vec(), storage_blocks));
        SecondTier { smq, ..self }
    }

    /// Returns how many blocks are on it.
    pub fn len(&self) -> usize {
        self.smq.as_ref().map_or_else(|| self.lists.len(HELD), Smq::len)
    }

    /// Returns whether nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether a block is on it.
    pub fn holds(&self, block: u32) -> bool {
        match &self.smq {
            Some(smq) => smq.holds(block),
            None => self.lists.is_in(HELD, block),
        }
    }

    /// Returns how many blocks were written to it.
    pub fn written_blocks(&self) -> u64 {
        self.written_blocks
    }

    /// Reads a block that memory does not have, as part of a stream of the given length.
    pub fn read(&mut self, block: u32, stream_bytes: u32, now_ns: u64) -> ReadOutcome {
        match self.admission {
            Admission::Smq => {
                let read =
                    self.smq.as_mut().map_or(ReadOutcome::Absent, |smq| smq.read(block, now_ns));
                self.written_blocks += u64::from(read == ReadOutcome::Copied);
                read
            }
            Admission::Feed(_) => {
                let is_held = self.lists.is_in(HELD, block) && now_ns >= self.blocked_until_ns;
                if is_held { ReadOutcome::OnDevice } else { ReadOutcome::Absent }
            }
            Admission::Accesses { .. } => {
                if self.lists.is_in(HELD, block) {
                    self.lists.push(HELD, block);
                    return ReadOutcome::OnDevice;
                }
                if self.admits(block, stream_bytes) {
                    self.put(block);
                }
                ReadOutcome::Absent
            }
        }
    }

    /// Writes a block, through the device to the disk, as part of a stream of the given length.
    ///
    /// An L2ARC has no block that was written since. Returns [`ReadOutcome::Copied`] where the
    /// device gets it by a separate read.
    pub fn write(&mut self, block: u32, stream_bytes: u32, now_ns: u64) -> ReadOutcome {
        match self.admission {
            Admission::Smq => {
                let read = self.read(block, stream_bytes, now_ns);
                self.written_blocks += u64::from(read == ReadOutcome::OnDevice);
                return read;
            }
            Admission::Feed(_) => self.lists.remove(block),
            Admission::Accesses { .. } => {
                let is_bypassed = self.is_bypassed(stream_bytes);
                let is_held = self.lists.is_in(HELD, block);
                if !is_bypassed && (is_held || self.admits(block, stream_bytes)) {
                    self.put(block);
                } else if is_held {
                    self.lists.remove(block);
                }
            }
        }
        ReadOutcome::Absent
    }

    /// Returns whether a stream of the given length passes the device by.
    fn is_bypassed(&self, stream_bytes: u32) -> bool {
        let Admission::Accesses { stream_bytes_max, takes_streams_first, .. } = self.admission
        else {
            return false;
        };
        let counts = !takes_streams_first || self.lists.len(HELD) >= self.capacity_blocks;
        counts && stream_bytes >= stream_bytes_max
    }

    /// Counts an access to a block that is not there; returns whether the device gets it.
    fn admits(&mut self, block: u32, stream_bytes: u32) -> bool {
        let Admission::Accesses { accesses_min, from_fill, .. } = self.admission else {
            return false;
        };
        if self.is_bypassed(stream_bytes) {
            return false;
        }
        let accesses = self.lists.mark(block).saturating_add(1);
        self.lists.set_mark(block, accesses);
        let is_filling = (self.len() as f64) < from_fill * self.capacity_blocks as f64;
        is_filling || accesses >= accesses_min
    }

    /// Notes when the copy of a block by a separate read is complete.
    pub fn copied(&mut self, block: u32, done_ns: u64) {
        if let Some(smq) = &mut self.smq {
            smq.copied(block, done_ns);
        }
    }

    /// Notes the end of the last read, whichever tier served it.
    pub fn ends(&mut self, done_ns: u64) {
        if let Some(smq) = &mut self.smq {
            smq.ends(done_ns);
        }
    }

    /// Returns whether a feed regards memory as full, once it was.
    pub fn heeds_full_memory(&self) -> bool {
        !matches!(self.admission, Admission::Feed(DeviceFeed { is_always_boosted: true, .. }))
    }

    /// Makes a pass, where the device is fed; returns when the next one is due.
    ///
    /// `leaving` gives the blocks of memory that will leave next.
    pub fn feed(
        &mut self,
        now_ns: u64,
        memory_was_full: bool,
        leaving: impl FnOnce(usize) -> Vec<u32>,
    ) -> Option<u64> {
        let Admission::Feed(feed) = self.admission else { return None };
        let bytes = feed.pass_bytes + if memory_was_full { 0 } else { feed.boost_bytes };
        // A pass never overwrites more than a quarter of a small device.
        let blocks =
            (bytes / self.block_bytes).min(self.capacity_blocks as u64 / 4).max(1) as usize;
        let mut written = 0;
        for block in leaving(blocks * feed.headroom as usize) {
            if written == blocks {
                break;
            }
            if !self.lists.is_in(HELD, block) {
                self.put(block);
                written += 1;
            }
        }
        let written_bytes = (written as u64 * self.block_bytes) as f64;
        if !feed.reads_while_writing && self.write_bytes_per_s > 0.0 {
            let took_ns = written_bytes / self.write_bytes_per_s * SECOND_NS as f64;
            self.blocked_until_ns = now_ns + took_ns as u64;
        }
        let is_busy = 2 * written > blocks;
        let interval_ns = if is_busy { feed.busy_interval_ns } else { feed.interval_ns };
        Some(now_ns + interval_ns.max(self.endurance_interval_ns(feed, written_bytes)))
    }

    /// The pause after a pass that keeps the device within its endurance.
    fn endurance_interval_ns(&self, feed: DeviceFeed, written_bytes: f64) -> u64 {
        let Some(per_day) = feed.device_writes_per_day.filter(|_| self.was_full) else { return 0 };
        let bytes_per_ns =
            per_day * (self.capacity_blocks as u64 * self.block_bytes) as f64 / DAY_NS as f64;
        (written_bytes / bytes_per_ns) as u64
    }

    fn put(&mut self, block: u32) {
        self.lists.push(HELD, block);
        self.written_blocks += 1;
        if self.lists.len(HELD) > self.capacity_blocks {
            self.lists.pop(HELD);
            self.was_full = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(name: &str, capacity_blocks: usize) -> SecondTier {
        let admission = Admission::of_name(name);
        SecondTier::new(capacity_blocks, 100_000, 8192, admission.unwrap_or(BCACHE), 1e9)
    }

    #[test]
    fn a_feed_writes_what_it_may_and_comes_sooner_when_it_did() {
        let blocks: Vec<u32> = (0..20_000).collect();
        for (name, pass, sooner_ns) in [
            ("l2arc-2008", 1024, SECOND_NS),
            ("l2arc-2009", 1024, SECOND_NS / 5),
            ("l2arc-2.3", 4096, SECOND_NS / 5),
        ] {
            let mut device = feed(name, 100_000);
            let next = device.feed(0, true, |count| blocks[..count.min(blocks.len())].to_vec());
            assert_eq!((device.len(), next), (pass, Some(sooner_ns)), "{name}");
            // Nothing new: the full interval.
            assert_eq!(device.feed(0, true, |_| blocks[..pass].to_vec()), Some(SECOND_NS));
            assert_eq!(device.written_blocks(), pass as u64);
        }
    }

    #[test]
    fn a_feed_is_boosted_until_memory_is_full() {
        let mut device = feed("l2arc-2008", 100_000);
        device.feed(0, false, |count| (0..count as u32).collect());
        assert_eq!(device.len(), 2048);
    }

    #[test]
    fn a_feed_that_is_always_boosted_goes_on_so() {
        let mut device = feed("zfs-fuse", 100_000);
        assert!(!device.heeds_full_memory() && feed("l2arc-2009", 9).heeds_full_memory());
        let next = device.feed(0, false, |count| (0..count as u32).collect());
        assert_eq!((device.len(), next), (2048, Some(SECOND_NS / 5)));
    }

    #[test]
    fn an_old_device_is_not_read_while_it_is_written() {
        let mut device = feed("l2arc-2008", 100_000);
        device.feed(0, true, |_| vec![7]);
        // 8 KiB at 1 GB/s.
        assert_eq!(
            [8000, 8192].map(|now_ns| device.read(7, 0, now_ns)),
            [ReadOutcome::Absent, ReadOutcome::OnDevice]
        );
        let mut device = feed("l2arc-2.0", 100_000);
        device.feed(0, true, |_| vec![7]);
        assert_eq!(device.read(7, 0, 0), ReadOutcome::OnDevice);
    }

    #[test]
    fn a_full_device_is_written_no_more_than_it_lasts() {
        let mut device = feed("l2arc-2025", 40_000);
        let (mut now_ns, mut next) = (0, 0u32);
        let mut pass = |now_ns: u64| {
            let from = next;
            next = (next + 10_000) % 90_000;
            device.feed(now_ns, true, |_| (from..from + 10_000).collect()).unwrap_or(0)
        };
        for _ in 0..10 {
            now_ns = pass(now_ns);
        }
        let began_ns = now_ns;
        now_ns = pass(now_ns);
        // A pass is 64 MiB, of a device of 312.5 MiB that may be written once a day.
        let expected_ns = DAY_NS as f64 * 8192.0 / 40_000.0;
        assert!(((now_ns - began_ns) as f64 / expected_ns - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_device_that_takes_reads_takes_them_at_once_or_after_some() {
        let mut bcache = feed("bcache", 10);
        assert_eq!(
            [0; 2].map(|_| bcache.read(1, 0, 0)),
            [ReadOutcome::Absent, ReadOutcome::OnDevice]
        );
        let mut cas = feed("open-cas", 10);
        for block in 0..8 {
            assert_eq!(
                [0; 2].map(|_| cas.read(block, 0, 0)),
                [ReadOutcome::Absent, ReadOutcome::OnDevice]
            );
        }
        // Filled to four fifths: now the third read counts.
        let found = [0; 4].map(|_| cas.read(9, 0, 0));
        assert_eq!(
            found,
            [ReadOutcome::Absent, ReadOutcome::Absent, ReadOutcome::Absent, ReadOutcome::OnDevice]
        );
    }

    #[test]
    fn what_is_written_is_there_but_for_an_l2arc() {
        let mut bcache = feed("bcache", 10);
        bcache.write(1, 0, 0);
        assert_eq!((bcache.read(1, 0, 0), bcache.written_blocks()), (ReadOutcome::OnDevice, 1));
        bcache.write(1, 0, 0);
        assert_eq!((bcache.len(), bcache.written_blocks()), (1, 2));
        let mut cas = feed("open-cas", 1);
        cas.write(1, 0, 0);
        cas.write(2, 0, 0);
        assert_eq!([1, 2].map(|block| cas.holds(block)), [true, false]);
        let mut l2arc = feed("l2arc-2009", 10);
        l2arc.feed(0, true, |_| vec![1]);
        l2arc.write(1, 0, SECOND_NS);
        assert!(!l2arc.holds(1));
    }

    #[test]
    fn long_streams_pass_it_by() {
        let limit = 4 * MIB as u32;
        let mut bcache = feed("bcache", 2);
        bcache.read(1, limit - 1, 0);
        bcache.read(2, limit, 0);
        assert_eq!([1, 2].map(|block| bcache.holds(block)), [true, false]);
        // What is there is served, and dropped when it is written.
        assert_eq!(bcache.read(1, limit, 0), ReadOutcome::OnDevice);
        bcache.write(1, limit, 0);
        assert!(!bcache.holds(1));
        let mut cas = feed("open-cas", 2);
        for block in 0..2 {
            for _ in 0..3 {
                cas.read(block, limit, 0);
            }
        }
        assert_eq!([0, 1].map(|block| cas.holds(block)), [true, true]);
        for _ in 0..4 {
            cas.read(2, limit, 0);
        }
        assert!(!cas.holds(2));
    }
}
