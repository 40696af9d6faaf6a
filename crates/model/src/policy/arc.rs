//! ARC: two LRU lists, of blocks used once and of blocks used often, and ghosts of both that say
//! which of them is too short.
//!
//! Source: N. Megiddo and D. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
//! 2003, figure 4; T1, T2, B1, B2 and p are RECENT, FREQUENT, their ghosts and `once_target`.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const RECENT: u8 = 0;
const FREQUENT: u8 = 1;
const GHOST_RECENT: u8 = 2;
const GHOST_FREQUENT: u8 = 3;

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
        let recent = self.lists.len(GHOST_RECENT) as f64;
        let frequent = self.lists.len(GHOST_FREQUENT) as f64;
        self.once_target = if is_ghost_of_once {
            (self.once_target + (frequent / recent).max(1.0)).min(self.capacity_blocks as f64)
        } else {
            (self.once_target - (recent / frequent).max(1.0)).max(0.0)
        };
    }

    /// The procedure REPLACE: a block leaves for the ghosts of its list.
    fn replace(&mut self, is_ghost_of_often: bool) -> Option<u32> {
        let recent = self.lists.len(RECENT);
        let is_over = recent as f64 > self.once_target
            || (is_ghost_of_often && recent as f64 == self.once_target);
        let (list, ghosts) = if (recent > 0 && is_over) || self.lists.len(FREQUENT) == 0 {
            (RECENT, GHOST_RECENT)
        } else {
            (FREQUENT, GHOST_FREQUENT)
        };
        let evicted = self.lists.pop(list)?;
        self.lists.push(ghosts, evicted);
        Some(evicted)
    }

    /// Case IV of the paper, without the block's entry.
    fn make_room(&mut self) -> Option<u32> {
        if self.lists.len(RECENT) + self.lists.len(GHOST_RECENT) >= self.capacity_blocks {
            if self.lists.len(GHOST_RECENT) == 0 {
                return self.lists.pop(RECENT);
            }
            self.lists.pop(GHOST_RECENT);
            return self.replace_if_full();
        }
        let all: usize = (RECENT..=GHOST_FREQUENT).map(|list| self.lists.len(list)).sum();
        if all >= 2 * self.capacity_blocks {
            self.lists.pop(GHOST_FREQUENT);
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
            Some(RECENT | FREQUENT) => {
                self.lists.push(FREQUENT, block);
                return Outcome::Hit;
            }
            Some(ghosts) => {
                self.adapt(ghosts == GHOST_RECENT);
                self.lists.remove(block);
                let evicted = self.replace(ghosts == GHOST_FREQUENT);
                self.lists.push(FREQUENT, block);
                evicted
            }
            None => {
                let evicted = self.make_room();
                self.lists.push(RECENT, block);
                evicted
            }
        };
        Outcome::Miss { evicted }
    }

    /// To ZFS, a block that an L2ARC holds has been used before, though no ghost knows it: it is
    /// one that is used often (`arc.c`, `arc_access`, the state `arc_l2c_only`).
    fn access_held(&mut self, access: Access) -> Outcome {
        let outcome = self.access(access);
        if outcome != Outcome::Hit && self.lists.is_in(RECENT, access.block) {
            self.lists.push(FREQUENT, access.block);
        }
        outcome
    }

    fn resize(&mut self, capacity_blocks: usize) {
        self.capacity_blocks = capacity_blocks;
        self.once_target = self.once_target.min(capacity_blocks as f64);
        while self.len() > capacity_blocks && self.replace(false).is_some() {}
    }

    fn holds(&self, block: u32) -> bool {
        matches!(self.lists.list_of(block), Some(RECENT | FREQUENT))
    }

    fn len(&self) -> usize {
        self.lists.len(RECENT) + self.lists.len(FREQUENT)
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
