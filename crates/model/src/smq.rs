//! What dm-cache's policy smq promotes: queues of 64 levels, in which what is used climbs.
//!
//! A hotspot queue keeps larger blocks of the origin, as they are missed. A chunk is promoted when
//! it is missed and its hotspot block is in a level that is high enough; how high depends on how
//! well the queue foresees what is missed. A queue of the cached chunks says which of them leaves.
//!
//! Source: Linux, drivers/md/dm-cache-policy-smq.c since 4.12 (`__lookup`, `queue_promotion`,
//! `queue_demotion`) and dm-cache-target.c for its clock, which goes on when a read that it marked
//! has ended (`need_tick_bio`). Reads alone: nothing is dirty.

use rustc_hash::FxHashMap;

use crate::second_tier::ReadOutcome;

const LEVELS: usize = 64;
const NONE: u32 = u32::MAX;
/// Period after which the hotspot queue is redistributed.
const HOTSPOT_PERIOD_NS: u64 = 1_000_000_000;
/// Period after which the queue of cached chunks is redistributed.
const CACHE_PERIOD_NS: u64 = 60 * HOTSPOT_PERIOD_NS;
/// Chunks of a hotspot block at most.
const HOTSPOT_CHUNKS_MAX: u64 = 16;
const HOTSPOTS_MIN: usize = 1024;
/// Levels at the top of the hotspot queue that hold few blocks.
const TOP_LEVELS: usize = 8;
/// The lowest level whose accesses count as hits (`stats_level_accessed`).
const HOT_LEVEL: usize = LEVELS * 3 / 4;
/// Entries in levels, each level from the oldest to the newest.
struct Queue {
    next: Vec<u32>,
    previous: Vec<u32>,
    level: Vec<u8>,
    heads: [u32; LEVELS],
    tails: [u32; LEVELS],
    counts: [usize; LEVELS],
    /// The top levels that hold few, and how many these hold together; 0 where all are alike.
    top: (usize, usize),
}

impl Queue {
    fn new(entries: usize, top: (usize, usize)) -> Queue {
        Queue {
            next: vec![NONE; entries],
            previous: vec![NONE; entries],
            level: vec![0; entries],
            heads: [NONE; LEVELS],
            tails: [NONE; LEVELS],
            counts: [0; LEVELS],
            top,
        }
    }

    fn level(&self, entry: u32) -> usize {
        usize::from(self.level[entry as usize])
    }

    /// Makes an entry that is in no level the newest of one.
    fn push(&mut self, entry: u32, level: usize) {
        let tail = std::mem::replace(&mut self.tails[level], entry);
        self.set_links(entry, tail, NONE, level);
        match tail {
            NONE => self.heads[level] = entry,
            _ => self.next[tail as usize] = entry,
        }
    }

    /// Makes an entry that is in no level the oldest of one.
    fn push_oldest(&mut self, entry: u32, level: usize) {
        let head = std::mem::replace(&mut self.heads[level], entry);
        self.set_links(entry, NONE, head, level);
        match head {
            NONE => self.tails[level] = entry,
            _ => self.previous[head as usize] = entry,
        }
    }

    fn set_links(&mut self, entry: u32, previous: u32, next: u32, level: usize) {
        self.previous[entry as usize] = previous;
        self.next[entry as usize] = next;
        self.level[entry as usize] = level as u8;
        self.counts[level] += 1;
    }

    fn remove(&mut self, entry: u32) {
        let level = self.level(entry);
        let (previous, next) = (self.previous[entry as usize], self.next[entry as usize]);
        match previous {
            NONE => self.heads[level] = next,
            _ => self.next[previous as usize] = next,
        }
        match next {
            NONE => self.tails[level] = previous,
            _ => self.previous[next as usize] = previous,
        }
        self.counts[level] -= 1;
    }

    /// Returns the oldest entry of the lowest level of some that has one.
    fn lowest(&self, levels: std::ops::Range<usize>) -> Option<u32> {
        levels.map(|level| self.heads[level]).find(|&entry| entry != NONE)
    }

    /// Moves an entry up by some levels, in exchange for the oldest that is there (`q_requeue`).
    fn requeue(&mut self, entry: u32, up: usize) {
        let old_level = self.level(entry);
        self.remove(entry);
        let mut level = old_level;
        if up > 0 && old_level < LEVELS - 1 {
            level = (old_level + up).min(LEVELS - 1);
            let other = self.heads[level];
            if other != NONE {
                self.remove(other);
                self.push(other, old_level);
            }
        }
        self.push(entry, level);
    }

    /// Returns how many entries a level should have (`q_set_targets`).
    fn target(&self, level: usize, entries: usize) -> usize {
        let (top_levels, in_top) = self.top;
        let below = LEVELS - top_levels;
        let (first, levels, entries) = match level {
            _ if level >= below => (below, top_levels, in_top),
            _ => (0, below, entries.saturating_sub(in_top)),
        };
        entries / levels + usize::from(level - first < entries % levels)
    }

    /// Gives each level its share of the entries (`q_redistribute`).
    fn redistribute(&mut self) {
        let entries = self.counts.iter().sum();
        for level in 0..LEVELS - 1 {
            let target = self.target(level, entries);
            while self.counts[level] < target {
                let Some(entry) = self.lowest(level + 1..LEVELS) else { break };
                self.remove(entry);
                self.push(entry, level);
            }
            while self.counts[level] > target {
                let entry = self.tails[level];
                self.remove(entry);
                self.push_oldest(entry, level + 1);
            }
        }
    }
}

/// Hits and misses of the hot levels (`struct stats`).
#[derive(Default)]
struct HotspotStats {
    hits: u64,
    misses: u64,
}

impl HotspotStats {
    fn note(&mut self, level: Option<usize>) {
        match level {
            Some(level) if level >= HOT_LEVEL => self.hits += 1,
            _ => self.misses += 1,
        }
    }

    /// The number of levels that are not promoted from, and that a missed block climbs.
    fn caution(&self) -> usize {
        let all = self.hits + self.misses;
        match (self.hits * 256).checked_div(all).unwrap_or(0) {
            0..16 => 4,
            16..32 => 2,
            _ => 1,
        }
    }
}

/// The policy for chunks, which have consecutive numbers and addresses on the origin.
pub(crate) struct Smq {
    chunks_max: usize,
    block_addresses: Vec<u64>,
    hotspot_chunks: u64,
    hotspots_max: usize,
    hotspots: Queue,
    hotspot_of: FxHashMap<u64, u32>,
    block_of: Vec<u64>,
    /// The tick in which each was used last, plus 1.
    hotspot_used: Vec<u64>,
    hotspot_foresight: HotspotStats,
    level_jump: usize,
    promote_level: usize,
    /// Cached chunks, by their numbers.
    cached: Queue,
    is_cached: Vec<bool>,
    /// When each was copied.
    copied_ns: Vec<u64>,
    chunks: usize,
    cache_used: Vec<u64>,
    cache_period: u64,
    ticks: u64,
    /// When the read ends that is marked; none where none is.
    tick_ends_ns: Option<u64>,
    hotspot_period_ends_ns: u64,
    cache_period_ends_ns: u64,
}

impl Smq {
    /// An empty cache of a number of chunks, on an origin of `origin_chunks`; `block_addresses` are
    /// those of those of the chunks, by number.
    pub fn new(chunks_max: usize, block_addresses: Vec<u64>, origin_chunks: u64) -> Smq {
        let hotspots_max = (chunks_max / 4).max(HOTSPOTS_MIN);
        let mut hotspot_chunks = HOTSPOT_CHUNKS_MAX;
        while hotspot_chunks > 1 && hotspot_chunks * hotspots_max as u64 > origin_chunks {
            hotspot_chunks /= 2;
        }
        let in_top = (hotspots_max / LEVELS).min(chunks_max / hotspot_chunks as usize);
        let chunks = block_addresses.len();
        Smq {
            chunks_max,
            block_addresses,
            hotspot_chunks,
            hotspots_max,
            hotspots: Queue::new(hotspots_max, (TOP_LEVELS, in_top)),
            hotspot_of: FxHashMap::default(),
            block_of: Vec::new(),
            hotspot_used: vec![0; hotspots_max],
            hotspot_foresight: HotspotStats::default(),
            level_jump: 1,
            promote_level: LEVELS,
            cached: Queue::new(chunks, (0, 0)),
            is_cached: vec![false; chunks],
            copied_ns: vec![0; chunks],
            chunks: 0,
            cache_used: vec![0; chunks],
            cache_period: 1,
            ticks: 0,
            tick_ends_ns: None,
            hotspot_period_ends_ns: 0,
            cache_period_ends_ns: 0,
        }
    }

    /// Returns how many chunks are cached.
    pub fn len(&self) -> usize {
        self.chunks
    }

    /// Returns whether a chunk is cached.
    pub fn holds(&self, chunk: u32) -> bool {
        self.is_cached[chunk as usize]
    }

    /// Reads a chunk, and promotes it or not; until [`Smq::copied`] it is missed nevertheless.
    pub fn read(&mut self, chunk: u32, now_ns: u64) -> ReadOutcome {
        if self.tick_ends_ns.is_some_and(|ends_ns| ends_ns <= now_ns) {
            self.tick(now_ns);
            self.tick_ends_ns = None;
        }
        if self.holds(chunk) && self.copied_ns[chunk as usize] <= now_ns {
            let used = &mut self.cache_used[chunk as usize];
            if std::mem::replace(used, self.cache_period) != self.cache_period {
                self.cached.requeue(chunk, 1);
            }
            return ReadOutcome::OnDevice;
        }
        if self.use_hotspot(chunk) < self.promote_level || self.holds(chunk) {
            return ReadOutcome::Absent;
        }
        if self.is_full() {
            // Something leaves now, and this chunk is promoted another time.
            if let Some(other) = self.cached.lowest(0..LEVELS / 2) {
                self.discard(other);
            }
            return ReadOutcome::Absent;
        }
        self.is_cached[chunk as usize] = true;
        self.copied_ns[chunk as usize] = u64::MAX;
        self.chunks += 1;
        self.cached.push(chunk, LEVELS - 1);
        ReadOutcome::Copied
    }

    /// Notes when a chunk that was promoted has been copied.
    pub fn copied(&mut self, chunk: u32, done_ns: u64) {
        self.copied_ns[chunk as usize] = done_ns;
    }

    /// Drops a chunk.
    pub fn discard(&mut self, chunk: u32) {
        if std::mem::take(&mut self.is_cached[chunk as usize]) {
            self.cached.remove(chunk);
            self.chunks -= 1;
        }
    }

    fn is_full(&self) -> bool {
        self.chunks >= self.chunks_max
    }

    /// Notes the miss of a chunk's hotspot block; returns its level (`update_hotspot_queue`).
    fn use_hotspot(&mut self, chunk: u32) -> usize {
        let block = self.block_addresses[chunk as usize] / self.hotspot_chunks;
        if let Some(&entry) = self.hotspot_of.get(&block) {
            self.hotspot_foresight.note(Some(self.hotspots.level(entry)));
            let period = self.ticks + 1;
            let was_used = std::mem::replace(&mut self.hotspot_used[entry as usize], period);
            let up = if was_used == period { 0 } else { self.level_jump };
            self.hotspots.requeue(entry, up);
            return self.hotspots.level(entry);
        }
        self.hotspot_foresight.note(None);
        let (entry, level) = if self.block_of.len() < self.hotspots_max {
            self.block_of.push(block);
            (self.block_of.len() as u32 - 1, 0)
        } else {
            let Some(entry) = self.hotspots.lowest(0..LEVELS) else { return 0 };
            let level = self.hotspots.level(entry);
            self.hotspots.remove(entry);
            self.hotspot_of.remove(&self.block_of[entry as usize]);
            self.hotspot_used[entry as usize] = 0;
            self.block_of[entry as usize] = block;
            (entry, level)
        };
        self.hotspots.push(entry, level);
        self.hotspot_of.insert(block, entry);
        level
    }

    /// Notes when the last read ends: it is marked if none is.
    pub fn ends(&mut self, done_ns: u64) {
        self.tick_ends_ns.get_or_insert(done_ns);
    }

    /// Time has passed (`end_hotspot_period`, `end_cache_period`).
    fn tick(&mut self, now_ns: u64) {
        self.ticks += 1;
        let caution = self.hotspot_foresight.caution();
        self.promote_level = LEVELS - LEVELS / caution;
        if now_ns > self.hotspot_period_ends_ns {
            self.level_jump = caution;
            self.hotspots.redistribute();
            self.hotspot_foresight = HotspotStats::default();
            self.hotspot_period_ends_ns = now_ns + HOTSPOT_PERIOD_NS;
        }
        if now_ns > self.cache_period_ends_ns {
            self.cache_period += 1;
            self.cached.redistribute();
            self.cache_period_ends_ns = now_ns + CACHE_PERIOD_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smq(chunks_max: usize, chunks: u64, origin_chunks: u64) -> Smq {
        Smq::new(chunks_max, (0..chunks).collect(), origin_chunks)
    }

    #[test]
    fn hotspot_blocks_are_as_large_as_the_origin_allows() {
        let chunks = |origin_chunks| smq(4096, 1, origin_chunks).hotspot_chunks;
        assert_eq!([1 << 14, 1 << 13, 4096, 1024, 512].map(chunks), [16, 8, 4, 1, 1]);
        assert_eq!(smq(1 << 20, 1, 1 << 24).hotspots_max, 1 << 18);
    }

    #[test]
    fn levels_get_their_shares_and_keep_the_order() {
        let mut queue = Queue::new(1000, (8, 16));
        for entry in 0..1000 {
            queue.push(entry, 0);
        }
        queue.redistribute();
        let below: usize = queue.counts[..56].iter().sum();
        assert_eq!((below, queue.counts[56..].to_vec()), (984, vec![2; 8]));
        assert!(queue.counts[..56].iter().all(|&count| count == 17 || count == 18));
        let levels: Vec<usize> = (0..1000).map(|entry| queue.level(entry)).collect();
        assert!(levels.is_sorted());
        // One that is used climbs, and what was there comes down.
        let other = queue.heads[4];
        queue.requeue(0, 4);
        assert_eq!((queue.level(0), queue.level(other)), (4, 0));
    }

    #[test]
    fn nothing_is_promoted_before_the_first_tick_and_what_is_missed_again_is() {
        let mut cache = smq(10_000, 1000, 100_000);
        for chunk in 0..1000 {
            assert_eq!(cache.read(chunk, 0), ReadOutcome::Absent);
        }
        // Its levels said nothing of what was read: a quarter of them is promoted from.
        cache.ends(1);
        cache.read(0, 1);
        assert_eq!((cache.promote_level, cache.level_jump), (LEVELS - LEVELS / 4, 4));
        for step in 0..10_000u64 {
            let now_ns = HOTSPOT_PERIOD_NS + step * 1_000_000;
            cache.ends(now_ns);
            cache.read(900 + (step % 100) as u32, now_ns);
        }
        assert!((900..1000).all(|chunk| cache.holds(chunk)));
    }

    #[test]
    fn what_is_read_often_is_served_beside_a_scan() {
        let mut cache = smq(200, 100_000, 100_000);
        let mut random = fastrand::Rng::with_seed(3);
        let (mut once, mut hits, mut asked) = (1000, 0, 0);
        for step in 0..200_000u64 {
            let chunk = if step % 2 == 0 { random.u32(0..100) } else { once };
            once = if once == 99_999 { 1000 } else { once + 1 };
            let now_ns = step * 1_000_000;
            let read = cache.read(chunk, now_ns);
            cache.ends(now_ns + 5_000_000);
            if read == ReadOutcome::Copied {
                cache.copied(chunk, now_ns + 10_000_000);
            }
            if step >= 100_000 && chunk < 100 {
                asked += 1;
                hits += u32::from(read == ReadOutcome::OnDevice);
            }
        }
        // The others, of which none is read again while it is there, are promoted as well.
        assert!(f64::from(hits) > 0.5 * f64::from(asked), "{hits} of {asked}");
    }
}
