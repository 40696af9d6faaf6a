//! ARC: two LRU lists, of blocks used once and of blocks used often, and ghosts of both that say
//! which of them is too short.
//!
//! Source: N. Megiddo and D. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
//! 2003, figure 4; T1, T2, B1, B2 and p are ONCE, OFTEN, their ghosts and `once_target`.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const ONCE: u8 = 0;
const OFTEN: u8 = 1;
const GHOST_ONCE: u8 = 2;
const GHOST_OFTEN: u8 = 3;

/// The cache.
pub struct Arc {
    capacity_blocks: usize,
    /// How many blocks used once the cache wants to hold.
    once_target: f64,
    lists: Lists<4>,
}

impl Arc {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> Arc {
        Arc { capacity_blocks, once_target: 0.0, lists: Lists::new(blocks) }
    }

    fn adapt(&mut self, is_ghost_of_once: bool) {
        let once = self.lists.len(GHOST_ONCE) as f64;
        let often = self.lists.len(GHOST_OFTEN) as f64;
        self.once_target = if is_ghost_of_once {
            (self.once_target + (often / once).max(1.0)).min(self.capacity_blocks as f64)
        } else {
            (self.once_target - (once / often).max(1.0)).max(0.0)
        };
    }

    /// The procedure REPLACE: a block leaves for the ghosts of its list.
    fn replace(&mut self, is_ghost_of_often: bool) -> Option<u32> {
        let once = self.lists.len(ONCE);
        let is_over = once as f64 > self.once_target
            || (is_ghost_of_often && once as f64 == self.once_target);
        let (list, ghosts) = if (once > 0 && is_over) || self.lists.len(OFTEN) == 0 {
            (ONCE, GHOST_ONCE)
        } else {
            (OFTEN, GHOST_OFTEN)
        };
        let evicted = self.lists.pop(list)?;
        self.lists.push(ghosts, evicted);
        Some(evicted)
    }

    /// Case IV of the paper, without the block's entry.
    fn make_room(&mut self) -> Option<u32> {
        if self.lists.len(ONCE) + self.lists.len(GHOST_ONCE) >= self.capacity_blocks {
            if self.lists.len(GHOST_ONCE) == 0 {
                return self.lists.pop(ONCE);
            }
            self.lists.pop(GHOST_ONCE);
            return self.replace_if_full();
        }
        let all: usize = (ONCE..=GHOST_OFTEN).map(|list| self.lists.len(list)).sum();
        if all >= 2 * self.capacity_blocks {
            self.lists.pop(GHOST_OFTEN);
        }
        self.replace_if_full()
    }

    fn replace_if_full(&mut self) -> Option<u32> {
        if self.len() < self.capacity_blocks { None } else { self.replace(false) }
    }
}

impl Policy for Arc {
    fn access(&mut self, access: Access) -> Outcome {
        let block = access.block;
        let evicted = match self.lists.list_of(block) {
            Some(ONCE | OFTEN) => {
                self.lists.push(OFTEN, block);
                return Outcome::Hit;
            }
            Some(ghosts) => {
                self.adapt(ghosts == GHOST_ONCE);
                self.lists.remove(block);
                let evicted = self.replace(ghosts == GHOST_OFTEN);
                self.lists.push(OFTEN, block);
                evicted
            }
            None => {
                let evicted = self.make_room();
                self.lists.push(ONCE, block);
                evicted
            }
        };
        Outcome::Miss { evicted }
    }

    /// To ZFS, a block that an L2ARC holds has been used before, though no ghost knows it: it is
    /// one that is used often (`arc.c`, `arc_access`, the state `arc_l2c_only`).
    fn access_held(&mut self, access: Access) -> Outcome {
        let outcome = self.access(access);
        if outcome != Outcome::Hit && self.lists.is_in(ONCE, access.block) {
            self.lists.push(OFTEN, access.block);
        }
        outcome
    }

    fn resize(&mut self, capacity_blocks: usize) {
        self.capacity_blocks = capacity_blocks;
        self.once_target = self.once_target.min(capacity_blocks as f64);
        while self.len() > capacity_blocks && self.replace(false).is_some() {}
    }

    fn holds(&self, block: u32) -> bool {
        matches!(self.lists.list_of(block), Some(ONCE | OFTEN))
    }

    fn len(&self) -> usize {
        self.lists.len(ONCE) + self.lists.len(OFTEN)
    }

    fn leaving(&self, count: usize) -> Vec<u32> {
        let once = self.lists.iter(ONCE).take(count);
        self.lists.iter(OFTEN).take(count).chain(once).collect()
    }

    fn newest(&self, count: usize) -> Vec<u32> {
        let once = self.lists.iter(ONCE).rev().take(count);
        self.lists.iter(OFTEN).rev().take(count).chain(once).collect()
    }
}
