//! PostgreSQL's shared buffers: a clock sweep over usage counts, and rings of buffers for scans.
//!
//! Source: PostgreSQL 17, src/backend/storage/buffer/README, freelist.c and bufmgr.c. A usage count
//! rises to 5 at most, and the sweep takes one from each buffer it passes. A scan uses 32 buffers
//! (256 KiB) in turn; a buffer of its ring that others used more than once is left to them.

use super::{Outcome, Policy};
use crate::accesses::Access;

const USAGE_MAX: u8 = 5;
const RING_BUFFERS: usize = 32;
/// A buffer without a block, and a block without a buffer.
const NONE: u32 = u32::MAX;

/// The cache.
pub struct ClockSweep {
    /// The block of each buffer.
    blocks: Vec<u32>,
    usages: Vec<u8>,
    buffer_of: Vec<u32>,
    used: usize,
    hand: usize,
    ring: Vec<u32>,
    ring_next: usize,
}

impl ClockSweep {
    /// An empty cache for blocks below `blocks`.
    pub fn new(capacity_blocks: usize, blocks: u32) -> ClockSweep {
        // A ring takes an eighth of the buffers at most.
        let ring = RING_BUFFERS.min((capacity_blocks / 8).max(1));
        ClockSweep {
            blocks: vec![NONE; capacity_blocks],
            usages: vec![0; capacity_blocks],
            buffer_of: vec![NONE; blocks as usize],
            used: 0,
            hand: 0,
            ring: vec![NONE; ring],
            ring_next: 0,
        }
    }

    fn sweep(&mut self) -> usize {
        if self.used < self.blocks.len() {
            self.used += 1;
            return self.used - 1;
        }
        loop {
            let buffer = self.hand;
            self.hand = (self.hand + 1) % self.blocks.len();
            if self.usages[buffer] == 0 {
                return buffer;
            }
            self.usages[buffer] -= 1;
        }
    }

    fn of_ring(&mut self) -> usize {
        self.ring_next = (self.ring_next + 1) % self.ring.len();
        let candidate = self.ring[self.ring_next];
        if candidate != NONE && self.usages[candidate as usize] <= 1 {
            return candidate as usize;
        }
        let buffer = self.sweep();
        self.ring[self.ring_next] = buffer as u32;
        buffer
    }
}

impl Policy for ClockSweep {
    fn access(&mut self, access: Access) -> Outcome {
        let buffer = self.buffer_of[access.block as usize];
        if buffer != NONE {
            let usage = &mut self.usages[buffer as usize];
            let usage_max = if access.is_scan { 1 } else { USAGE_MAX };
            if *usage < usage_max {
                *usage += 1;
            }
            return Outcome::Hit;
        }
        let buffer = if access.is_scan { self.of_ring() } else { self.sweep() };
        let former = std::mem::replace(&mut self.blocks[buffer], access.block);
        self.usages[buffer] = 1;
        self.buffer_of[access.block as usize] = buffer as u32;
        let evicted = (former != NONE).then_some(former);
        if let Some(block) = evicted {
            self.buffer_of[block as usize] = NONE;
        }
        Outcome::Miss { evicted }
    }

    fn holds(&self, block: u32) -> bool {
        self.buffer_of[block as usize] != NONE
    }

    fn len(&self) -> usize {
        self.used
    }
}
