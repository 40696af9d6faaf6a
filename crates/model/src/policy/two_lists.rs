//! Linux's page cache of one file system: an inactive list for pages used once, an active one for
//! those used again, and shadows of pages that left, so that one that comes back soon is active.
//!
//! Source: Linux 6.12, mm/swap.c (`folio_mark_accessed`), mm/vmscan.c (`inactive_is_low`,
//! `folio_check_references`), mm/workingset.c. One control group, unmapped clean pages; readahead
//! is that of [`crate::page_cache`].

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const INACTIVE: u8 = 0;
const ACTIVE: u8 = 1;

/// The cache.
pub struct TwoLists {
    capacity_blocks: usize,
    /// How many times as long the active list may be as the inactive one.
    active_ratio: usize,
    /// The mark of an inactive page is whether it was referenced.
    lists: Lists<2>,
    /// Pages that left the inactive list, or became active.
    age_pages: u64,
    /// The age_pages at which each page left, plus 1; 0 for a page that never did.
    left: Vec<u64>,
}

impl TwoLists {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32, block_bytes: u32) -> TwoLists {
        let gigabytes = (capacity_blocks as u64 * u64::from(block_bytes)) >> 30;
        let active_ratio = if gigabytes > 0 { (10 * gigabytes).isqrt() as usize } else { 1 };
        TwoLists {
            capacity_blocks,
            active_ratio,
            lists: Lists::new(blocks),
            age_pages: 0,
            left: vec![0; blocks as usize],
        }
    }

    /// Makes room for blocks below `blocks`.
    pub(crate) fn make_room(&mut self, blocks: u32) {
        self.lists.make_room(blocks);
        self.left.resize(blocks as usize, 0);
    }

    /// Returns whether a block is in the cache.
    pub(crate) fn is_held(&self, block: u32) -> bool {
        self.lists.list_of(block).is_some()
    }

    /// Brings a block in that is absent, and that nobody has used yet; returns what left for it.
    pub(crate) fn add(&mut self, block: u32) -> Option<u32> {
        let is_full = self.len() == self.capacity_blocks;
        let is_of_working_set = self.is_of_working_set(block);
        let evicted = is_full.then(|| self.evict()).flatten();
        if is_of_working_set {
            self.activate(block);
        } else {
            self.lists.set_mark(block, 0);
            self.lists.push(INACTIVE, block);
        }
        evicted
    }

    /// Uses a block that is in the cache.
    pub(crate) fn reference(&mut self, block: u32) {
        match self.lists.list_of(block) {
            Some(INACTIVE) if self.lists.mark(block) == 1 => self.activate(block),
            // A page of the active list keeps its place.
            _ => self.lists.set_mark(block, 1),
        }
    }

    fn activate(&mut self, block: u32) {
        self.lists.set_mark(block, 0);
        self.lists.push(ACTIVE, block);
        self.age_pages += 1;
    }

    fn evict(&mut self) -> Option<u32> {
        while self.lists.len(INACTIVE) * self.active_ratio < self.lists.len(ACTIVE) {
            let Some(block) = self.lists.pop(ACTIVE) else { break };
            self.lists.push(INACTIVE, block);
        }
        let block = self.lists.pop(INACTIVE).or_else(|| self.lists.pop(ACTIVE))?;
        self.age_pages += 1;
        self.left[block as usize] = self.age_pages;
        Some(block)
    }

    /// Returns whether a page would still be here, had the active list been as much shorter.
    fn is_of_working_set(&self, block: u32) -> bool {
        let left = self.left[block as usize];
        left > 0 && self.age_pages - left <= self.lists.len(ACTIVE) as u64
    }
}

impl Policy for TwoLists {
    fn access(&mut self, access: Access) -> Outcome {
        let is_hit = self.is_held(access.block);
        let evicted = if is_hit { None } else { self.add(access.block) };
        // The read that brings a page in counts as its first reference.
        self.reference(access.block);
        if is_hit { Outcome::Hit } else { Outcome::Miss { evicted } }
    }

    fn holds(&self, block: u32) -> bool {
        self.is_held(block)
    }

    fn len(&self) -> usize {
        self.lists.len(INACTIVE) + self.lists.len(ACTIVE)
    }
}
