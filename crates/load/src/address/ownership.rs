//! The division of blocks among workers, for data whose content must be known exactly.

use super::Grid;

/// The grains of one worker: every `workers`-th of the grid.
///
/// A read that races a write of the same block may rightly see either; it could not be checked.
/// So with verifiable data no block is ever accessed by two workers, and requests of one worker
/// exclude each other by the claims of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Ownership {
    grid: Grid,
    workers: u64,
    worker: u64,
}

impl Ownership {
    /// Returns what belongs to `worker`, one of `workers`; the grid must have a grain for each.
    #[must_use]
    pub fn new(grid: Grid, worker: u32, workers: u32) -> Self {
        Self { grid, workers: u64::from(workers), worker: u64::from(worker) }
    }

    /// Returns how many grains the worker has; they differ by at most one between workers.
    #[must_use]
    pub fn own_grains(&self) -> u64 {
        self.grid.grains.saturating_sub(self.worker).div_ceil(self.workers)
    }

    /// Returns the offset on the target of the block that starts at `position_bytes` of the
    /// worker's own grains, laid end to end.
    ///
    /// A block that would leave its grain is moved back to the grain's end; `length_bytes` is at
    /// most a grain.
    #[inline]
    #[must_use]
    pub fn offset_bytes(&self, position_bytes: u64, length_bytes: u64) -> u64 {
        let grain_bytes = self.grid.grain_bytes;
        debug_assert!(length_bytes <= grain_bytes);
        let grain = position_bytes / grain_bytes * self.workers + self.worker;
        let inside_bytes = (position_bytes % grain_bytes).min(grain_bytes - length_bytes);
        self.grid.start_bytes + grain * grain_bytes + inside_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The worker to whom the byte at `offset_bytes` of the grid belongs.
    fn owner(grid: Grid, workers: u32, offset_bytes: u64) -> u64 {
        (offset_bytes - grid.start_bytes) / grid.grain_bytes % u64::from(workers)
    }

    proptest! {
        #[test]
        fn the_workers_share_the_grid_without_rest(
            start_bytes in 0_u64..1 << 40, grain_blocks in 1_u64..64, grains in 1_u64..500,
            workers in 1_u32..40,
        ) {
            prop_assume!(grains >= u64::from(workers));
            let grain_bytes = grain_blocks * 512;
            let grid = Grid { start_bytes, grain_bytes, grains };
            let mut seen = vec![0; grains as usize];
            for worker in 0..workers {
                let ownership = Ownership::new(grid, worker, workers);
                prop_assert!(ownership.own_grains() - grains / u64::from(workers) <= 1);
                for own in 0..ownership.own_grains() {
                    let offset = ownership.offset_bytes(own * grain_bytes, grain_bytes);
                    prop_assert_eq!(owner(grid, workers, offset), u64::from(worker));
                    seen[((offset - start_bytes) / grain_bytes) as usize] += 1;
                }
            }
            prop_assert!(seen.iter().all(|&count| count == 1));
        }

        #[test]
        fn a_block_never_leaves_its_grain(position in 0_u64..1 << 30, blocks in 1_u64..=16) {
            let grid = Grid { start_bytes: 4096, grain_bytes: 8192, grains: 1 << 20 };
            let ownership = Ownership::new(grid, 2, 7);
            let (position, length) = (position / 512 * 512, blocks * 512);
            let offset = ownership.offset_bytes(position, length);
            prop_assert_eq!(owner(grid, 7, offset), 2);
            prop_assert_eq!(owner(grid, 7, offset + length - 1), 2);
            prop_assert_eq!((offset - 4096) / 8192, (offset + length - 1 - 4096) / 8192);
        }
    }
}
