//! The one-pass fill: flash brought to the steady state of random writes by writing it once.
//!
//! Under endless uniform random writes, flash collected in the order in which it was written comes
//! to a state that can be computed. Let s be the over-provisioning as a share of the capacity, so
//! that there are 1 + s capacities of flash, and u the share of valid pages of the block that is
//! collected next ([`victim_valid_share`]). While all of the flash is written once, the host
//! writes (1 + s)(1 - u) capacities (the rest are copies), so that of what was written when a
//! share a of that had still to be written,
//!
//! ```text
//! v(a) = exp(-(1 + s)(1 - u) a)
//! ```
//!
//! is valid now: all of the newest block, u of the oldest. Erased flash can be given that state
//! with as many writes as it has pages: the fill goes through it region by region, and in each
//! region writes just so many blocks that will be written again in a later one that a share v(a)
//! is left. Every block is written at least once, for what is left is each block's last write.
//! What comes after meets flash that is full, whose next victim is as valid as in the steady
//! state: there is no transition any more.
//!
//! The idea of one random pass is fio's (`sprandom`, 2025); the derivation and the code are ours.
//! The law of validity is that of first-in first-out collection (Desnoyers, "Analytic modeling of
//! SSD write performance", SYSTOR 2012), which greedy collection comes near to as blocks grow. A
//! real drive's translation layer is not known, nor is its over-provisioning: what follows must be
//! measured.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Permutation;
use super::pattern::SharedPosition;
use crate::rng::mix;

/// Steps in which the validity is approximated.
const REGIONS_MAX: u64 = 256;

/// Blocks of a region, where there are enough: fewer would make steps of nothing but rounding.
const REGION_BLOCKS_MIN: u64 = 16;

/// Returns the share of a block's pages that are still valid when it is collected, in the steady
/// state of uniform random writes: the root u below 1 of u = exp(-(1 + s)(1 - u)), with s the
/// over-provisioning as a share of the capacity.
///
/// In closed form it is -W(-a e^-a) / a with a = 1 + s and Lambert's W (Desnoyers 2012; Xiang and
/// Kurkoski, arXiv:1110.4245). The write amplification is 1 / (1 - u).
#[must_use]
pub fn victim_valid_share(over_provisioning_share: f64) -> f64 {
    let physical = 1.0 + over_provisioning_share;
    // The other root is 1; between this one and 1 / physical the difference has one sign.
    let (mut low, mut high) = (0.0, 1.0 / physical);
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        if middle < (-physical * (1.0 - middle)).exp() { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Returns how many writes fill a range of `blocks` blocks in one pass: about 1 + s times as many.
#[must_use]
pub fn one_pass_writes(blocks: u64, over_provisioning_share: f64) -> u64 {
    OnePassPlan::new(blocks, over_provisioning_share, 0).writes
}

/// One region of the pass: a run of writes with one share of blocks that are written again later.
///
/// Blocks are numbered in the order in which they are written first. Of those that are new in a
/// region, the first `lost` are written again; all of these, region after region, are the pass's
/// repetitions in their order.
#[derive(Clone, Copy, Debug)]
struct Region {
    /// The first of its writes.
    first_write: u64,
    /// The order of its writes, in which new blocks and repetitions are mixed.
    order: Permutation,
    /// How many of its writes are repetitions.
    repeats: u64,
    /// The number of the first of these among all repetitions.
    first_repeat: u64,
    /// The number of its first new block.
    first_new: u64,
    /// Blocks of earlier regions that are written again.
    lost_before: u64,
}

/// The plan of a fill: for each write, in its order, the block that it goes to.
#[derive(Debug)]
struct OnePassPlan {
    writes: u64,
    region_writes: u64,
    regions: Vec<Region>,
    /// Maps the number of a block to its position.
    scatter: Permutation,
}

impl OnePassPlan {
    fn new(blocks: u64, over_provisioning_share: f64, seed: u64) -> Self {
        let count = (blocks / REGION_BLOCKS_MIN).clamp(1, REGIONS_MAX);
        let last = count - 1;
        // The share that each region is left with: that of its end, so that the last loses none.
        let exponent =
            (1.0 + over_provisioning_share) * (1.0 - victim_valid_share(over_provisioning_share));
        let valid = |region: u64| (-exponent * (last - region) as f64 / count as f64).exp();
        let valid_sum: f64 = (0..count).map(valid).sum();
        let region_writes = (blocks as f64 / valid_sum).ceil() as u64;
        let (mut regions, mut valid_below) = (Vec::with_capacity(count as usize), 0.0);
        let (mut kept, mut new, mut lost, mut repeated) = (0, 0, 0, 0);
        for number in 0..count {
            valid_below += valid(number);
            let kept_here = (blocks as f64 * valid_below / valid_sum).round() as u64 - kept;
            let lost_here = region_writes - kept_here;
            // As soon as can be, but only new blocks are lost, so there must be enough of them.
            let (repeats, new_here) = if number < last {
                let repeats = (lost - repeated).min(kept_here);
                (repeats, region_writes - repeats)
            } else {
                (lost - repeated, blocks - new)
            };
            regions.push(Region {
                first_write: number * region_writes,
                order: Permutation::new((repeats + new_here).max(1), mix(mix(seed) ^ number)),
                repeats,
                first_repeat: repeated,
                first_new: new,
                lost_before: lost,
            });
            kept += kept_here;
            new += new_here;
            repeated += repeats;
            lost += if number < last { lost_here } else { 0 };
        }
        Self {
            writes: blocks + repeated,
            region_writes: region_writes.max(1),
            regions,
            scatter: Permutation::new(blocks.max(1), seed),
        }
    }

    /// Returns the block that a write goes to; `None` after the last.
    #[inline]
    fn block(&self, write: u64) -> Option<u64> {
        if write >= self.writes {
            return None;
        }
        // The last region ends where the pass does, be it a little longer than the others.
        let number = ((write / self.region_writes) as usize).min(self.regions.len() - 1);
        let region = &self.regions[number];
        let drawn = region.order.at(write - region.first_write);
        let new = if drawn < region.repeats {
            self.lost(region.first_repeat + drawn)
        } else {
            region.first_new + (drawn - region.repeats)
        };
        Some(self.scatter.at(new))
    }

    /// Returns the number of the block that is written again by a repetition.
    #[inline]
    fn lost(&self, repeat: u64) -> u64 {
        let behind = self.regions.partition_point(|region| region.lost_before <= repeat);
        let region = &self.regions[behind.saturating_sub(1)];
        region.first_new + (repeat - region.lost_before)
    }
}

/// The fill as one worker goes through it; clones go on together.
#[derive(Clone, Debug)]
pub(super) struct OnePass {
    pass: Arc<OnePassPlan>,
    position: Arc<SharedPosition>,
    block_bytes: u64,
}

impl OnePass {
    /// Returns the fill of `blocks` blocks that belongs to `seed`.
    pub(super) fn new(
        blocks: u64,
        block_bytes: u64,
        over_provisioning_share: f64,
        seed: u64,
    ) -> Self {
        let pass = Arc::new(OnePassPlan::new(blocks, over_provisioning_share, seed));
        Self { pass, position: Arc::default(), block_bytes }
    }

    /// Takes the next write and returns its position in bytes; `None` when all are taken.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        let write = self.position.0.fetch_add(1, Ordering::Relaxed);
        self.pass.block(write).map(|block| block * self.block_bytes)
    }
}

#[cfg(test)]
mod tests;
