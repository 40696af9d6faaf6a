//! LIRS: the blocks with the shortest reuse distances stay; a hundredth of the cache is for others.
//!
//! Source: S. Jiang and X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement
//! Policy", SIGMETRICS 2002. The stack is bounded to twice the cache, as its authors' program does:
//! the ghosts that left the cache first are dropped.

use super::{Outcome, Policy};
use crate::accesses::Access;
use crate::lists::Lists;

const ONLY: u8 = 0;

/// The state of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not in the cache.
    Absent,
    /// In the cache, with a short reuse distance.
    Low,
    /// In the cache, in the eviction queue.
    High,
}

/// The cache.
pub struct Lirs {
    capacity_blocks: usize,
    low_max: usize,
    low: usize,
    states: Vec<State>,
    /// By last use: all low ones, and those used since the oldest of them.
    stack: Lists<1>,
    /// High ones in the cache, the next to leave first.
    queue: Lists<1>,
    /// Those of the stack that are not in the cache, by when they left.
    ghosts: Lists<1>,
}

impl Lirs {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> Lirs {
        let high_max = (capacity_blocks / 100).max(1);
        Lirs {
            capacity_blocks,
            low_max: capacity_blocks - high_max,
            low: 0,
            states: vec![State::Absent; blocks as usize],
            stack: Lists::new(blocks),
            queue: Lists::new(blocks),
            ghosts: Lists::new(blocks),
        }
    }

    fn set(&mut self, block: u32, state: State) {
        self.states[block as usize] = state;
    }

    fn make_low(&mut self, block: u32) {
        self.set(block, State::Low);
        self.queue.remove(block);
        self.stack.push(ONLY, block);
        self.low += 1;
    }

    /// The low block that was not used for the longest becomes a high one.
    fn demote(&mut self) {
        while self.low > self.low_max {
            self.prune();
            let Some(block) = self.stack.pop(ONLY) else { return };
            self.set(block, State::High);
            self.queue.push(ONLY, block);
            self.low -= 1;
        }
        self.prune();
    }

    /// Removes from the stack what is older than all low blocks.
    fn prune(&mut self) {
        while let Some(block) = self.stack.oldest(ONLY) {
            if self.states[block as usize] == State::Low {
                return;
            }
            self.stack.pop(ONLY);
            self.ghosts.remove(block);
        }
    }

    /// Takes a high block out of the cache; it remains a ghost if it is in the stack.
    fn evict(&mut self) -> Option<u32> {
        let block = self.queue.pop(ONLY)?;
        self.set(block, State::Absent);
        if self.stack.is_in(ONLY, block) {
            self.ghosts.push(ONLY, block);
        }
        Some(block)
    }

    fn bound_stack(&mut self) {
        while self.stack.len(ONLY) > 2 * self.capacity_blocks {
            let Some(ghost) = self.ghosts.pop(ONLY) else { return };
            self.stack.remove(ghost);
        }
    }

    fn hit_high(&mut self, block: u32) {
        if self.stack.is_in(ONLY, block) {
            self.make_low(block);
            self.demote();
        } else {
            self.stack.push(ONLY, block);
            self.queue.push(ONLY, block);
        }
    }

    fn admit(&mut self, block: u32) {
        if self.low < self.low_max {
            self.make_low(block);
        } else if self.stack.is_in(ONLY, block) && self.low_max > 0 {
            self.make_low(block);
            self.demote();
        } else {
            self.set(block, State::High);
            self.stack.push(ONLY, block);
            self.queue.push(ONLY, block);
            if self.low_max == 0 {
                self.prune();
            }
        }
    }
}

impl Policy for Lirs {
    fn access(&mut self, access: Access) -> Outcome {
        let block = access.block;
        match self.states[block as usize] {
            State::Low => {
                self.stack.push(ONLY, block);
                self.prune();
                Outcome::Hit
            }
            State::High => {
                self.hit_high(block);
                Outcome::Hit
            }
            State::Absent => {
                let is_full = self.len() == self.capacity_blocks;
                let evicted = is_full.then(|| self.evict()).flatten();
                self.ghosts.remove(block);
                self.admit(block);
                self.bound_stack();
                Outcome::Miss { evicted }
            }
        }
    }

    fn holds(&self, block: u32) -> bool {
        self.states[block as usize] != State::Absent
    }

    fn len(&self) -> usize {
        self.low + self.queue.len(ONLY)
    }
}
