//! Belady's MIN: the block that is used last of all leaves, which no cache can know. It is the
//! bound of all others; a block that is used later than all in the cache is not admitted.
//!
//! Source: L. Belady, "A Study of Replacement Algorithms for a Virtual-Storage Computer", IBM
//! Systems Journal 5 (2), 1966.

use std::collections::BinaryHeap;

use super::{Outcome, Policy};
use crate::accesses::Access;

/// The next use of a block that is not in the cache.
const ABSENT: u32 = 0;

/// The cache.
pub struct Belady {
    capacity_blocks: usize,
    len: usize,
    /// Of each access, the index of the next to the same block.
    next_uses: Vec<u32>,
    accesses: usize,
    /// Of each block in the cache, the index of its next use.
    next_of: Vec<u32>,
    /// Next use and block; entries of former uses are stale.
    heap: BinaryHeap<(u32, u32)>,
}

impl Belady {
    /// An empty cache; `next_uses` are those of the accesses that will be made, in that order.
    pub fn new(capacity_blocks: usize, blocks: u32, next_uses: Vec<u32>) -> Belady {
        let next_of = vec![ABSENT; blocks as usize];
        Belady { capacity_blocks, len: 0, next_uses, accesses: 0, next_of, heap: BinaryHeap::new() }
    }

    fn evict(&mut self) -> Option<u32> {
        while let Some((next, block)) = self.heap.pop() {
            if self.next_of[block as usize] == next {
                self.next_of[block as usize] = ABSENT;
                self.len -= 1;
                return Some(block);
            }
        }
        None
    }
}

impl Policy for Belady {
    fn access(&mut self, access: Access) -> Outcome {
        let block = access.block;
        // Never 0: the next use lies behind this one.
        let next = self.next_uses[self.accesses];
        self.accesses += 1;
        let is_hit = self.next_of[block as usize] != ABSENT;
        self.next_of[block as usize] = next;
        self.heap.push((next, block));
        if is_hit {
            return Outcome::Hit;
        }
        self.len += 1;
        let is_over = self.len > self.capacity_blocks;
        Outcome::Miss { evicted: is_over.then(|| self.evict()).flatten() }
    }

    fn holds(&self, block: u32) -> bool {
        self.next_of[block as usize] != ABSENT
    }

    fn len(&self) -> usize {
        self.len
    }
}
