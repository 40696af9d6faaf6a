//! SIEVE: FIFO with a hand. The hand walks from the oldest block to the newest, spares those that
//! were used since it passed, and takes the first that was not; used blocks stay in their place.
//!
//! Source: Y. Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024.

use super::{Outcome, Policy};
use crate::accesses::Access;

/// The slot of an evicted block.
const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Unused,
    Used,
}

/// The cache.
pub struct Sieve {
    capacity_blocks: usize,
    len: usize,
    states: Vec<State>,
    /// From the oldest to the newest, with holes.
    queue: Vec<u32>,
    /// The index that it looks at next.
    hand: usize,
}

impl Sieve {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> Sieve {
        Sieve {
            capacity_blocks,
            len: 0,
            states: vec![State::Absent; blocks as usize],
            queue: Vec::new(),
            hand: 0,
        }
    }

    fn evict(&mut self) -> u32 {
        loop {
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
            let block = self.queue[self.hand];
            self.hand += 1;
            if block == EMPTY {
                continue;
            }
            let state = &mut self.states[block as usize];
            if *state == State::Used {
                *state = State::Unused;
                continue;
            }
            *state = State::Absent;
            self.queue[self.hand - 1] = EMPTY;
            self.len -= 1;
            // The newest is the end of its walk, whatever comes after it.
            if self.hand == self.queue.len() {
                self.hand = 0;
            }
            return block;
        }
    }

    fn close_holes(&mut self) {
        let before = self.queue[..self.hand].iter().filter(|&&block| block != EMPTY).count();
        self.queue.retain(|&block| block != EMPTY);
        self.hand = before;
    }
}

impl Policy for Sieve {
    #[inline]
    fn access(&mut self, access: Access) -> Outcome {
        let state = &mut self.states[access.block as usize];
        if *state != State::Absent {
            *state = State::Used;
            return Outcome::Hit;
        }
        let evicted = (self.len == self.capacity_blocks).then(|| self.evict());
        if self.queue.len() > 2 * self.capacity_blocks + 64 {
            self.close_holes();
        }
        self.states[access.block as usize] = State::Unused;
        self.queue.push(access.block);
        self.len += 1;
        Outcome::Miss { evicted }
    }

    fn holds(&self, block: u32) -> bool {
        self.states[block as usize] != State::Absent
    }

    fn len(&self) -> usize {
        self.len
    }
}
