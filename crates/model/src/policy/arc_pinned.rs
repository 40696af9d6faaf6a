//! The ARC of zfs-fuse 0.7: its target never moves, and blocks used often get no room of their own.
//!
//! Source: zfs-fuse 0.7, `src/lib/libzpool/arc.c`. What differs from the paper:
//!
//! - **The target.** `arc_read_nolock` calls `arc_access` before `arc_get_data_buf`. So the block
//!   of a ghost is one used often by the time that `arc_adapt` asks for its state, which finds no
//!   ghost, and the target of blocks used once (`arc_p`) stays where it was when the ARC was full
//!   for the first time: at all that headers and metadata left. That list never reaches it.
//! - **A new block** therefore takes the place of one used often as long as there is one that is
//!   not being read, else of the oldest used once (`arc_get_data_buf`, case 1).
//! - **A block that was used before** (a ghost, or one that only the L2ARC holds) takes the place
//!   of one used often alone: `arc_change_state` and `arc_get_data_buf` both count it, so that
//!   their list seems too long for ever (case 4). Is there none, the ARC becomes too large.
//! - **Once a second** (`arc_adjust`) the oldest blocks used once leave until the ARC is as large
//!   as it should be, unless those used often take more than was left to headers and metadata: then
//!   these leave. Ghosts leave until each kind fits.
//! - **If it is smaller than it should be** at that moment, the difference is taken for a huge
//!   number (0.7.0 subtracts without a sign), and blocks used once leave until they, headers and
//!   metadata fit into the target. So the ARC has room for a moment, in which nothing leaves, and
//!   blocks used often gather. When a cache device was added, 0.5 to 3 MB of data left the ARC in
//!   that second (measured, four times); that freed metadata leads to it is read from the source.
//! - **A block that is being read** is in no list: nothing evicts it, and no feed sees it.
//! - **A block is used often** from its second use on if 1/16 s passed since its first
//!   (`ARC_MINTIME`), else it only becomes the newest of its list.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const RECENT: u8 = 0;
const FREQUENT: u8 = 1;
const GHOST_RECENT: u8 = 2;
const GHOST_FREQUENT: u8 = 3;
/// Being read; its mark is the list that it gets to.
const READ: u8 = 4;
const OFTEN_AFTER_NS: u64 = 1_000_000_000 / 16;
/// Headers and metadata take so large a part of what data takes, as measured (docs/cache.md).
const METADATA_PART: usize = 8;
const ADJUSTED_EVERY_NS: u64 = 1_000_000_000;

/// The cache.
pub struct ArcPinned {
    capacity_blocks: usize,
    lists: Lists<5>,
    /// None while no time was noted: then each block is read at once.
    now_ns: Option<u64>,
    adjusted_at_ns: u64,
    /// Whether metadata was freed since.
    is_smaller: bool,
    /// When each block was read first, or became one that is used often.
    used_at_ns: Vec<u64>,
}

impl ArcPinned {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> ArcPinned {
        ArcPinned {
            capacity_blocks,
            lists: Lists::new(blocks),
            now_ns: None,
            adjusted_at_ns: 0,
            is_smaller: false,
            used_at_ns: vec![0; blocks as usize],
        }
    }

    fn hit(&mut self, block: u32, list: u8) {
        let now_ns = self.now_ns.unwrap_or(u64::MAX);
        let is_soon = now_ns <= self.used_at_ns[block as usize].saturating_add(OFTEN_AFTER_NS);
        if list == RECENT && is_soon && self.now_ns.is_some() {
            return self.lists.push(RECENT, block);
        }
        self.used_at_ns[block as usize] = self.now_ns.unwrap_or(0);
        self.lists.push(FREQUENT, block);
    }

    /// A block leaves for the ghosts of its list.
    fn evict(&mut self, list: u8) -> Option<u32> {
        let block = self.lists.pop(list)?;
        self.lists.push(if list == RECENT { GHOST_RECENT } else { GHOST_FREQUENT }, block);
        Some(block)
    }

    fn miss(&mut self, block: u32, was_used: bool) -> Option<u32> {
        let target = if was_used { FREQUENT } else { RECENT };
        // A ghost is none from here on: it does not count when others are dropped.
        self.lists.set_mark(block, target);
        let is_full = self.len() >= self.capacity_blocks;
        self.lists.push(READ, block);
        let evicted = if !is_full {
            None
        } else if was_used || self.lists.len(FREQUENT) > 0 {
            self.evict(FREQUENT)
        } else {
            self.evict(RECENT)
        };
        if self.now_ns.is_some() {
            return evicted;
        }
        self.arrived(block);
        evicted.or_else(|| self.adjust())
    }

    /// `arc_adjust`; returns one of the blocks that left.
    fn adjust(&mut self) -> Option<u32> {
        let mut evicted = None;
        let others = self.capacity_blocks / METADATA_PART;
        if std::mem::take(&mut self.is_smaller) {
            let wanted = self.capacity_blocks - others;
            while self.lists.len(RECENT) + self.lists.len(READ) > wanted {
                let Some(block) = self.evict(RECENT) else { break };
                evicted = Some(block);
            }
        }
        let over = self.len().saturating_sub(self.capacity_blocks);
        let of_recent = over.min((over + others).saturating_sub(self.lists.len(FREQUENT)));
        for number in 0..over {
            let first = if number < of_recent { RECENT } else { FREQUENT };
            evicted = self.evict(first).or_else(|| self.evict(FREQUENT)).or(evicted);
        }
        // The ARC counts headers and metadata, and the lists of ghosts are as long as it is large.
        let size = self.capacity_blocks + others;
        while self.lists.len(RECENT) + self.lists.len(GHOST_RECENT) > size
            && self.lists.pop(GHOST_RECENT).is_some()
        {}
        while self.lists.len(GHOST_RECENT) + self.lists.len(GHOST_FREQUENT) > size
            && self.lists.pop(GHOST_FREQUENT).is_some()
        {}
        evicted
    }

    fn accessed(&mut self, block: u32, is_on_device: bool) -> Outcome {
        match self.lists.list_of(block) {
            Some(list @ (RECENT | FREQUENT)) => {
                self.hit(block, list);
                Outcome::Hit
            }
            // Who wants a block that is being read waits for it.
            Some(READ) => Outcome::Hit,
            ghosts => Outcome::Miss { evicted: self.miss(block, ghosts.is_some() || is_on_device) },
        }
    }
}

impl Policy for ArcPinned {
    fn access(&mut self, access: Access) -> Outcome {
        self.accessed(access.block, false)
    }

    fn access_held(&mut self, access: Access) -> Outcome {
        self.accessed(access.block, true)
    }

    fn at(&mut self, now_ns: u64) {
        self.now_ns = Some(now_ns);
        if now_ns >= self.adjusted_at_ns + ADJUSTED_EVERY_NS {
            self.adjusted_at_ns = now_ns;
            self.adjust();
        }
    }

    fn arrived(&mut self, block: u32) {
        if self.lists.is_in(READ, block) {
            self.used_at_ns[block as usize] = self.now_ns.unwrap_or(0);
            self.lists.push(self.lists.mark(block), block);
        }
    }

    fn device_added(&mut self) {
        self.is_smaller = true;
    }

    fn resize(&mut self, capacity_blocks: usize) {
        self.capacity_blocks = capacity_blocks;
        if self.now_ns.is_none() {
            self.adjust();
        }
    }

    fn holds(&self, block: u32) -> bool {
        matches!(self.lists.list_of(block), Some(RECENT | FREQUENT | READ))
    }

    fn len(&self) -> usize {
        self.lists.len(RECENT) + self.lists.len(FREQUENT) + self.lists.len(READ)
    }

    fn leaving(&self, count: usize) -> Vec<u32> {
        let recent = self.lists.iter(RECENT).take(count);
        self.lists.iter(FREQUENT).take(count).chain(recent).collect()
    }

    fn newest(&self, count: usize) -> Vec<u32> {
        let recent = self.lists.iter(RECENT).rev().take(count);
        self.lists.iter(FREQUENT).rev().take(count).chain(recent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn access(block: u32) -> Access {
        Access { block, is_scan: false }
    }

    fn missed(evicted: Option<u32>) -> Outcome {
        Outcome::Miss { evicted }
    }

    fn lists(cache: &ArcPinned) -> [Vec<u32>; 4] {
        [RECENT, FREQUENT, GHOST_RECENT, GHOST_FREQUENT]
            .map(|list| cache.lists.iter(list).collect())
    }

    /// Each step as `arc.c` takes it, by hand; lists from the oldest to the newest.
    #[test]
    fn a_small_trace_is_as_the_source_has_it() {
        let mut cache = ArcPinned::new(4, 10);
        for block in 0..4 {
            cache.at(u64::from(block) * MS);
            assert_eq!(cache.access(access(block)), missed(None));
            assert_eq!(
                lists(&cache)[0].len(),
                block as usize,
                "none is in a list while it is read"
            );
            cache.arrived(block);
        }
        // Again within 1/16 s: it becomes the newest, and stays one that was used once.
        cache.at(20 * MS);
        assert_eq!(cache.access(access(0)), Outcome::Hit);
        assert_eq!(lists(&cache), [vec![1, 2, 3, 0], vec![], vec![], vec![]]);
        // Later it is used often, and the next new block takes its place.
        cache.at(100 * MS);
        assert_eq!(cache.access(access(1)), Outcome::Hit);
        assert_eq!(lists(&cache), [vec![2, 3, 0], vec![1], vec![], vec![]]);
        assert_eq!(cache.access(access(4)), missed(Some(1)));
        assert_eq!(cache.access(access(4)), Outcome::Hit, "it is being read");
        assert_eq!(cache.newest(9), [0, 3, 2]);
        cache.arrived(4);
        // A ghost takes the place of one that is used often: there is none, so nothing leaves.
        assert_eq!(cache.access(access(1)), missed(None));
        cache.arrived(1);
        assert_eq!(lists(&cache), [vec![2, 3, 0, 4], vec![1], vec![], vec![]]);
        assert_eq!(cache.access(access(5)), missed(Some(1)));
        cache.arrived(5);
        assert_eq!(lists(&cache), [vec![2, 3, 0, 4, 5], vec![], vec![], vec![1]]);
        // Once a second what is too much leaves, of the ghosts, too.
        cache.at(1000 * MS);
        assert_eq!(lists(&cache), [vec![3, 0, 4, 5], vec![], vec![], vec![1]]);
        assert_eq!(cache.access(access(2)), missed(Some(3)));
        cache.arrived(2);
        assert_eq!(lists(&cache), [vec![0, 4, 5, 2], vec![], vec![3], vec![1]]);
        // What the cache device holds was used before, though no ghost knows it.
        assert_eq!(cache.access_held(access(6)), missed(None));
        cache.arrived(6);
        assert_eq!(lists(&cache), [vec![0, 4, 5, 2], vec![6], vec![3], vec![1]]);
    }

    #[test]
    fn there_is_room_for_a_moment_after_a_device_was_added() {
        let mut cache = ArcPinned::new(16, 100);
        for block in 0..16 {
            cache.at(0);
            cache.access(access(block));
            cache.arrived(block);
        }
        cache.at(999 * MS);
        cache.device_added();
        assert_eq!(cache.len(), 16);
        // An eighth: what headers and metadata take. Ghosts of it have room for two.
        cache.at(1000 * MS);
        assert_eq!(lists(&cache), [(2..16).collect(), vec![], vec![0, 1], vec![]]);
        // Two are used often, and no block that comes now takes their place.
        for block in [0, 20] {
            assert_eq!(cache.access(access(block)), missed(None));
            cache.arrived(block);
        }
        assert_eq!(lists(&cache)[1], [0]);
        assert_eq!(cache.access(access(21)), missed(Some(0)), "until the room is taken");
    }

    #[test]
    fn less_room_is_made_at_the_next_second() {
        let mut cache = ArcPinned::new(20, 100);
        for block in 0..20 {
            cache.at(0);
            cache.access(access(block));
            cache.arrived(block);
        }
        cache.resize(15);
        assert_eq!(cache.len(), 20);
        cache.at(1000 * MS);
        assert_eq!(lists(&cache)[0], (5..20).collect::<Vec<_>>());
        assert_eq!(lists(&cache)[2], [4], "ghosts are as many as the rest of the ARC has room for");
    }
}
