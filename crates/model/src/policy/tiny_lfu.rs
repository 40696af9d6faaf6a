//! W-TinyLFU: a small window of LRU; what leaves it enters the main part only if it was used more
//! often, of late, than the block that would leave for it.
//!
//! Source: G. Einziger, R. Friedman and B. Manes, "TinyLFU: A Highly Efficient Cache Admission
//! Policy", ACM Transactions on Storage 13 (4), 2017: a window of a hundredth, four fifths of the
//! rest protected, counters up to 15 that are halved after ten times as many accesses as the cache
//! has blocks. Counters are exact, where that paper shares them among blocks by a sketch.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const WINDOW: u8 = 0;
const PROBATION: u8 = 1;
const PROTECTED: u8 = 2;
const USES_MAX: u8 = 15;

#[derive(Clone, Copy)]
struct UseCount {
    count: u8,
    /// How often all counters had been halved when this one was counted last.
    halvings: u32,
}

/// The cache.
pub struct TinyLfu {
    window_max: usize,
    main_max: usize,
    protected_max: usize,
    sample: u64,
    accesses: u64,
    uses: Vec<UseCount>,
    lists: Lists<3>,
}

impl TinyLfu {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> TinyLfu {
        let window_max = (capacity_blocks / 100).max(1);
        let main_max = capacity_blocks - window_max;
        TinyLfu {
            window_max,
            main_max,
            protected_max: main_max * 4 / 5,
            sample: 10 * capacity_blocks as u64,
            accesses: 0,
            uses: vec![UseCount { count: 0, halvings: 0 }; blocks as usize],
            lists: Lists::new(blocks),
        }
    }

    fn halvings(&self) -> u32 {
        u32::try_from(self.accesses / self.sample).unwrap_or(u32::MAX)
    }

    fn uses(&self, block: u32) -> u8 {
        let uses = self.uses[block as usize];
        uses.count.checked_shr(self.halvings() - uses.halvings).unwrap_or(0)
    }

    fn count(&mut self, block: u32) {
        self.accesses += 1;
        let count = (self.uses(block) + 1).min(USES_MAX);
        self.uses[block as usize] = UseCount { count, halvings: self.halvings() };
    }

    /// Takes in what left the window; returns what leaves the cache.
    fn admit(&mut self, candidate: u32) -> Option<u32> {
        let main = self.lists.len(PROBATION) + self.lists.len(PROTECTED);
        if main < self.main_max {
            self.lists.push(PROBATION, candidate);
            return None;
        }
        let list = if self.lists.len(PROBATION) > 0 { PROBATION } else { PROTECTED };
        let Some(victim) = self.lists.oldest(list) else { return Some(candidate) };
        if self.uses(candidate) <= self.uses(victim) {
            return Some(candidate);
        }
        self.lists.remove(victim);
        self.lists.push(PROBATION, candidate);
        Some(victim)
    }
}

impl Policy for TinyLfu {
    fn access(&mut self, access: Access) -> Outcome {
        let block = access.block;
        self.count(block);
        match self.lists.list_of(block) {
            Some(WINDOW) => self.lists.push(WINDOW, block),
            Some(_) => {
                self.lists.push(PROTECTED, block);
                let is_over = self.lists.len(PROTECTED) > self.protected_max;
                if let Some(demoted) = is_over.then(|| self.lists.pop(PROTECTED)).flatten() {
                    self.lists.push(PROBATION, demoted);
                }
            }
            None => {
                self.lists.push(WINDOW, block);
                let is_over = self.lists.len(WINDOW) > self.window_max;
                let candidate = is_over.then(|| self.lists.pop(WINDOW)).flatten();
                return Outcome::Miss { evicted: candidate.and_then(|each| self.admit(each)) };
            }
        }
        Outcome::Hit
    }

    fn holds(&self, block: u32) -> bool {
        self.lists.list_of(block).is_some()
    }

    fn len(&self) -> usize {
        (WINDOW..=PROTECTED).map(|list| self.lists.len(list)).sum()
    }
}
