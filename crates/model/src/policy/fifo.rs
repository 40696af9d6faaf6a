//! FIFO: evicts the block that was admitted first.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const QUEUE: u8 = 0;

/// The cache.
pub struct Fifo {
    capacity_blocks: usize,
    lists: Lists<1>,
}

impl Fifo {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> Fifo {
        Fifo { capacity_blocks, lists: Lists::new(blocks) }
    }
}

impl Policy for Fifo {
    #[inline]
    fn access(&mut self, access: Access) -> Outcome {
        if self.lists.is_in(QUEUE, access.block) {
            return Outcome::Hit;
        }
        let is_full = self.lists.len(QUEUE) >= self.capacity_blocks;
        let evicted = is_full.then(|| self.lists.pop(QUEUE)).flatten();
        self.lists.push(QUEUE, access.block);
        Outcome::Miss { evicted }
    }

    fn holds(&self, block: u32) -> bool {
        self.lists.is_in(QUEUE, block)
    }

    fn len(&self) -> usize {
        self.lists.len(QUEUE)
    }

    fn resize(&mut self, capacity_blocks: usize) {
        self.capacity_blocks = capacity_blocks;
        while self.len() > capacity_blocks {
            self.lists.pop(QUEUE);
        }
    }

    fn leaving(&self, count: usize) -> Vec<u32> {
        self.lists.iter(QUEUE).take(count).collect()
    }

    fn newest(&self, count: usize) -> Vec<u32> {
        self.lists.iter(QUEUE).rev().take(count).collect()
    }
}
