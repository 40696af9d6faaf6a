//! FIFO and LRU: one queue, which blocks leave in the order of admission, or of use.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const QUEUE: u8 = 0;

/// The cache.
pub struct Queue {
    capacity_blocks: usize,
    moves_used: bool,
    lists: Lists<1>,
}

impl Queue {
    /// An empty cache for blocks below `blocks`; one that is used moves to the end, or stays.
    pub fn new(capacity_blocks: usize, blocks: u32, moves_used: bool) -> Queue {
        Queue { capacity_blocks, moves_used, lists: Lists::new(blocks) }
    }
}

impl Policy for Queue {
    #[inline]
    fn access(&mut self, access: Access) -> Outcome {
        let is_hit = self.lists.is_in(QUEUE, access.block);
        if !is_hit || self.moves_used {
            self.lists.push(QUEUE, access.block);
        }
        if is_hit {
            return Outcome::Hit;
        }
        let is_over = self.lists.len(QUEUE) > self.capacity_blocks;
        Outcome::Miss { evicted: is_over.then(|| self.lists.pop(QUEUE)).flatten() }
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
