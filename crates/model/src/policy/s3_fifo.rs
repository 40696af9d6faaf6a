//! S3-FIFO: new blocks enter a small queue; those used there move to the main one, the others leave
//! and become ghosts; a ghost that is accessed enters the main queue.
//!
//! Source: J. Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023: a tenth of
//! the cache for the small queue, ghosts for nine tenths, moved to main when used twice. As in its
//! authors' later version, new blocks enter the main queue while the small one is full and the
//! cache has never been.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const SMALL: u8 = 0;
const MAIN: u8 = 1;
const GHOST: u8 = 2;
const USES_MAX: u8 = 3;
const USES_TO_MOVE: u8 = 2;

/// The cache.
pub struct S3Fifo {
    capacity_blocks: usize,
    small_max: usize,
    was_full: bool,
    main_max: usize,
    ghosts_max: usize,
    /// The mark of a block is how often it was used, up to three.
    lists: Lists<3>,
}

impl S3Fifo {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> S3Fifo {
        let small_max = capacity_blocks / 10;
        S3Fifo {
            capacity_blocks,
            small_max,
            was_full: false,
            main_max: capacity_blocks - small_max,
            ghosts_max: capacity_blocks * 9 / 10,
            lists: Lists::new(blocks),
        }
    }

    fn evict(&mut self) -> Option<u32> {
        loop {
            let is_of_main = self.lists.len(MAIN) > self.main_max || self.lists.len(SMALL) == 0;
            let left = if is_of_main { self.evict_main() } else { self.evict_small() };
            if left.is_some() || self.is_empty() {
                return left;
            }
        }
    }

    fn evict_small(&mut self) -> Option<u32> {
        while let Some(block) = self.lists.pop(SMALL) {
            let uses = self.lists.mark(block);
            self.lists.set_mark(block, 0);
            if uses >= USES_TO_MOVE {
                self.lists.push(MAIN, block);
                continue;
            }
            if self.ghosts_max > 0 {
                if self.lists.len(GHOST) == self.ghosts_max {
                    self.lists.pop(GHOST);
                }
                self.lists.push(GHOST, block);
            }
            return Some(block);
        }
        None
    }

    fn evict_main(&mut self) -> Option<u32> {
        while let Some(block) = self.lists.pop(MAIN) {
            let uses = self.lists.mark(block);
            if uses == 0 {
                return Some(block);
            }
            self.lists.set_mark(block, uses - 1);
            self.lists.push(MAIN, block);
        }
        None
    }
}

impl Policy for S3Fifo {
    fn access(&mut self, access: Access) -> Outcome {
        let block = access.block;
        let list = self.lists.list_of(block);
        if let Some(SMALL | MAIN) = list {
            let uses = self.lists.mark(block);
            self.lists.set_mark(block, (uses + 1).min(USES_MAX));
            return Outcome::Hit;
        }
        self.lists.remove(block);
        self.was_full |= self.len() == self.capacity_blocks;
        let evicted = (self.len() == self.capacity_blocks).then(|| self.evict()).flatten();
        self.lists.set_mark(block, 0);
        let has_room = self.was_full || self.lists.len(SMALL) < self.small_max;
        let is_new = list != Some(GHOST) && has_room;
        self.lists.push(if is_new { SMALL } else { MAIN }, block);
        Outcome::Miss { evicted }
    }

    fn holds(&self, block: u32) -> bool {
        matches!(self.lists.list_of(block), Some(SMALL | MAIN))
    }

    fn len(&self) -> usize {
        self.lists.len(SMALL) + self.lists.len(MAIN)
    }
}
