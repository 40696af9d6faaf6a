//! 2Q: a queue for new blocks; those that come back after they left it enter an LRU list.
//!
//! Source: T. Johnson and D. Shasha, "2Q: A Low Overhead High Performance Buffer Management
//! Replacement Algorithm", VLDB 1994, the full version: a quarter of the cache is for new blocks,
//! and ghosts are half as many as the cache has blocks.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const NEW: u8 = 0;
const GHOST: u8 = 1;
const FREQUENT: u8 = 2;

/// The cache.
pub struct TwoQ {
    capacity_blocks: usize,
    new_max: usize,
    ghosts_max: usize,
    lists: Lists<3>,
}

impl TwoQ {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> TwoQ {
        let new_max = (capacity_blocks / 4).max(1);
        TwoQ {
            capacity_blocks,
            new_max,
            ghosts_max: (capacity_blocks / 2).max(1),
            lists: Lists::new(blocks),
        }
    }

    fn make_room(&mut self) -> Option<u32> {
        if self.len() < self.capacity_blocks {
            return None;
        }
        if self.lists.len(NEW) < self.new_max && self.lists.len(FREQUENT) > 0 {
            return self.lists.pop(FREQUENT);
        }
        let evicted = self.lists.pop(NEW)?;
        self.lists.push(GHOST, evicted);
        if self.lists.len(GHOST) > self.ghosts_max {
            self.lists.pop(GHOST);
        }
        Some(evicted)
    }
}

impl Policy for TwoQ {
    fn access(&mut self, access: Access) -> Outcome {
        match self.lists.list_of(access.block) {
            Some(FREQUENT) => {
                self.lists.push(FREQUENT, access.block);
                Outcome::Hit
            }
            Some(NEW) => Outcome::Hit,
            Some(_) => {
                self.lists.remove(access.block);
                let evicted = self.make_room();
                self.lists.push(FREQUENT, access.block);
                Outcome::Miss { evicted }
            }
            None => {
                let evicted = self.make_room();
                self.lists.push(NEW, access.block);
                Outcome::Miss { evicted }
            }
        }
    }

    fn holds(&self, block: u32) -> bool {
        matches!(self.lists.list_of(block), Some(NEW | FREQUENT))
    }

    fn len(&self) -> usize {
        self.lists.len(NEW) + self.lists.len(FREQUENT)
    }
}
