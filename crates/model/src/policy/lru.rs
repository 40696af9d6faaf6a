//! LRU: the least recently used block leaves.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const RECENCY: u8 = 0;

/// The cache.
pub struct Lru {
    capacity_blocks: usize,
    lists: Lists<1>,
}

impl Lru {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> Lru {
        Lru { capacity_blocks, lists: Lists::new(blocks) }
    }
}

impl Policy for Lru {
    #[inline]
    fn access(&mut self, access: Access) -> Outcome {
        let is_hit = self.lists.is_in(RECENCY, access.block);
        self.lists.push(RECENCY, access.block);
        if is_hit {
            return Outcome::Hit;
        }
        let is_over = self.lists.len(RECENCY) > self.capacity_blocks;
        Outcome::Miss { evicted: is_over.then(|| self.lists.pop(RECENCY)).flatten() }
    }

    fn holds(&self, block: u32) -> bool {
        self.lists.is_in(RECENCY, block)
    }

    fn len(&self) -> usize {
        self.lists.len(RECENCY)
    }

    fn resize(&mut self, capacity_blocks: usize) {
        self.capacity_blocks = capacity_blocks;
        while self.len() > capacity_blocks {
            self.lists.pop(RECENCY);
        }
    }

    fn leaving(&self, count: usize) -> Vec<u32> {
        self.lists.iter(RECENCY).take(count).collect()
    }

    fn newest(&self, count: usize) -> Vec<u32> {
        self.lists.iter(RECENCY).rev().take(count).collect()
    }
}
