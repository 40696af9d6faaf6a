//! CLOCK: FIFO with a second chance for blocks that were used since they were last passed.
//!
//! Source: F. Corbató, "A Paging Experiment with the Multics System", 1968.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const RING: u8 = 0;

/// The cache.
pub struct Clock {
    capacity_blocks: usize,
    lists: Lists<1>,
}

impl Clock {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> Clock {
        Clock { capacity_blocks, lists: Lists::new(blocks) }
    }

    fn evict(&mut self) -> Option<u32> {
        while let Some(block) = self.lists.pop(RING) {
            if self.lists.mark(block) == 0 {
                return Some(block);
            }
            self.lists.set_mark(block, 0);
            self.lists.push(RING, block);
        }
        None
    }
}

impl Policy for Clock {
    #[inline]
    fn access(&mut self, access: Access) -> Outcome {
        if self.lists.is_in(RING, access.block) {
            self.lists.set_mark(access.block, 1);
            return Outcome::Hit;
        }
        let is_full = self.lists.len(RING) == self.capacity_blocks;
        let evicted = is_full.then(|| self.evict()).flatten();
        self.lists.push(RING, access.block);
        Outcome::Miss { evicted }
    }

    fn holds(&self, block: u32) -> bool {
        self.lists.is_in(RING, block)
    }

    fn len(&self) -> usize {
        self.lists.len(RING)
    }
}
