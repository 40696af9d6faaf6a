//! FIFO: the block that came first leaves.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const CAME: u8 = 0;

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
        if self.lists.is_in(CAME, access.block) {
            return Outcome::Hit;
        }
        let is_full = self.lists.len(CAME) >= self.capacity_blocks;
        let evicted = is_full.then(|| self.lists.pop(CAME)).flatten();
        self.lists.push(CAME, access.block);
        Outcome::Miss { evicted }
    }

    fn holds(&self, block: u32) -> bool {
        self.lists.is_in(CAME, block)
    }

    fn len(&self) -> usize {
        self.lists.len(CAME)
    }

    fn resize(&mut self, capacity_blocks: usize) {
        self.capacity_blocks = capacity_blocks;
        while self.len() > capacity_blocks {
            self.lists.pop(CAME);
        }
    }

    fn leaving(&self, count: usize) -> Vec<u32> {
        self.lists.iter(CAME).take(count).collect()
    }

    fn newest(&self, count: usize) -> Vec<u32> {
        self.lists.iter(CAME).rev().take(count).collect()
    }
}
