//! The patterns: random, sequential, strided, zipf, hot and cold, and the one-pass fill.
//!
//! Positions are counted from the start of the span that a pattern covers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_distr::{Distribution, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use super::one_pass::OnePass;
use super::{Grid, Permutation};
use crate::rng::{below, threshold};
use crate::spec::{AccessSpec, AddressSpec};

/// How one access moves over its span; a clone goes on together with the original where threads
/// share a position.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Random(Positions),
    Sequential(SequentialPosition),
    Strided { walk: SequentialPosition, stride_bytes: u64 },
    Skewed(SkewedAddresses),
    OnePass(OnePass),
}

impl Pattern {
    /// Returns the pattern of `access` over `span_bytes`. A skewed access needs `grid` and
    /// `scatter`; `None` when they lack or the numbers are out of bounds.
    pub(super) fn new(
        access: &AccessSpec,
        span_bytes: u64,
        grid: Option<Grid>,
        scatter: Option<Permutation>,
        seed: u64,
    ) -> Option<Self> {
        let align_bytes = access.align_bytes;
        let walk = || SequentialPosition::new(span_bytes, None);
        let scattered = |ranks| {
            let grain_bytes = grid?.grain_bytes;
            let inside = Positions::new(grain_bytes, align_bytes);
            Some(Self::Skewed(SkewedAddresses { ranks, scatter: scatter?, grain_bytes, inside }))
        };
        let grains = scatter.map_or(1, |scatter| scatter.count());
        match access.address {
            AddressSpec::Random {} => Some(Self::Random(Positions::new(span_bytes, align_bytes))),
            AddressSpec::Sequential {} => Some(Self::Sequential(walk())),
            AddressSpec::Strided { stride_bytes } => {
                (stride_bytes > 0).then(|| Self::Strided { walk: walk(), stride_bytes })
            }
            AddressSpec::Zipf { theta } => scattered(RankDistribution::zipf(grains, theta)?),
            AddressSpec::HotCold { hot_share, hot_access_share } => {
                scattered(RankDistribution::hot_cold(grains, hot_share, hot_access_share))
            }
            AddressSpec::OnePass { over_provisioning_share } => {
                let block_bytes = access.size_bytes_max();
                let blocks = span_bytes.checked_div(block_bytes)?;
                Some(Self::OnePass(OnePass::new(
                    blocks,
                    block_bytes,
                    over_provisioning_share,
                    seed,
                )))
            }
        }
    }

    /// Returns the pattern of a worker that keeps to its own `span_bytes`, made of grains that no
    /// block may leave. Ranks need no change: they already count what each worker has.
    pub(super) fn confined(&self, span_bytes: u64, grain_bytes: u64) -> Self {
        let walk = || SequentialPosition::new(span_bytes, Some(grain_bytes));
        match self {
            Self::Random(all) => Self::Random(Positions::new(span_bytes, all.align_bytes)),
            Self::Sequential(_) => Self::Sequential(walk()),
            &Self::Strided { stride_bytes, .. } => Self::Strided { walk: walk(), stride_bytes },
            Self::Skewed(scattered) => Self::Skewed(scattered.clone()),
            // Refused with verifiable data, for which alone workers are confined.
            Self::OnePass(fill) => Self::OnePass(fill.clone()),
        }
    }

    /// Returns the position of the next request; `None` when the pattern is at its end.
    #[inline]
    pub(super) fn next(&mut self, rng: &mut Xoshiro256PlusPlus, length_bytes: u64) -> Option<u64> {
        Some(match self {
            Self::Random(positions) => positions.draw(rng, length_bytes),
            Self::Sequential(walk) => walk.step(length_bytes),
            Self::Strided { walk, stride_bytes } => walk.stride(length_bytes, *stride_bytes),
            Self::Skewed(scattered) => scattered.draw(rng, length_bytes),
            Self::OnePass(fill) => return fill.next(),
        })
    }
}

/// All aligned positions at which a block fits into a span.
#[derive(Clone, Debug)]
pub(super) struct Positions {
    span_bytes: u64,
    align_bytes: u64,
    /// The block size that `count` is for: sizes repeat, and a division costs more than a draw.
    counted_bytes: u64,
    count: u64,
}

impl Positions {
    fn new(span_bytes: u64, align_bytes: u64) -> Self {
        Self { span_bytes, align_bytes, counted_bytes: 0, count: 0 }
    }

    /// Draws one of them, each with equal probability.
    #[inline]
    fn draw(&mut self, rng: &mut Xoshiro256PlusPlus, length_bytes: u64) -> u64 {
        if length_bytes != self.counted_bytes {
            self.recount(length_bytes);
        }
        if self.count == 1 { 0 } else { below(rng, self.count) * self.align_bytes }
    }

    fn recount(&mut self, length_bytes: u64) {
        debug_assert!(length_bytes <= self.span_bytes);
        self.counted_bytes = length_bytes;
        self.count = self.span_bytes.saturating_sub(length_bytes) / self.align_bytes + 1;
    }
}

/// A position that goes through a span and starts again at its end.
#[derive(Clone, Debug)]
pub(super) struct SequentialPosition {
    position: Arc<SharedPosition>,
    span_bytes: u64,
    /// Length of the grains that no block may leave, where there are such.
    grain_bytes: Option<u64>,
}

/// Alone on its pair of cache lines, as every thread writes it with every request.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct SharedPosition(pub(super) AtomicU64);

impl SequentialPosition {
    fn new(span_bytes: u64, grain_bytes: Option<u64>) -> Self {
        Self { position: Arc::default(), span_bytes, grain_bytes }
    }

    /// Takes the block that follows the one taken last.
    #[inline]
    fn step(&self, length_bytes: u64) -> u64 {
        self.take(|position| {
            let taken = self.behind_grain_end(position, length_bytes);
            let taken = if self.fits(taken, length_bytes) { taken } else { 0 };
            (taken, taken + length_bytes)
        })
    }

    /// Takes the block one stride behind the one taken last.
    #[inline]
    fn stride(&self, length_bytes: u64, stride_bytes: u64) -> u64 {
        self.take(|position| {
            let fits = self.fits(position, length_bytes);
            let taken = if fits {
                position
            } else {
                self.next_column(position, length_bytes, stride_bytes)
            };
            (taken, taken + stride_bytes)
        })
    }

    /// Returns where the next lap starts: one block further than this one did, so that in the end
    /// the laps have visited the blocks between the strides.
    fn next_column(&self, position: u64, length_bytes: u64, stride_bytes: u64) -> u64 {
        let column = position % stride_bytes + length_bytes;
        if column < stride_bytes && self.fits(column, length_bytes) { column } else { 0 }
    }

    #[inline]
    fn fits(&self, position: u64, length_bytes: u64) -> bool {
        position.checked_add(length_bytes).is_some_and(|end| end <= self.span_bytes)
    }

    /// Returns `position`, or the start of the next grain where a block would leave its own.
    #[inline]
    fn behind_grain_end(&self, position: u64, length_bytes: u64) -> u64 {
        let Some(grain_bytes) = self.grain_bytes else { return position };
        let room_bytes = grain_bytes - position % grain_bytes;
        if length_bytes <= room_bytes { position } else { position + room_bytes }
    }

    /// Moves the position by `step` (from the current position to the one that is taken and the
    /// next one), so that no two threads take the same.
    #[inline]
    fn take(&self, step: impl Fn(u64) -> (u64, u64)) -> u64 {
        let shared = &self.position.0;
        let mut position = shared.load(Ordering::Relaxed);
        loop {
            let (taken, next) = step(position);
            let order = Ordering::Relaxed;
            match shared.compare_exchange_weak(position, next, order, order) {
                Ok(_) => return taken,
                Err(seen) => position = seen,
            }
        }
    }
}

/// Grains of unequal rank, scattered over the span.
#[derive(Clone, Debug)]
pub(super) struct SkewedAddresses {
    ranks: RankDistribution,
    scatter: Permutation,
    grain_bytes: u64,
    inside: Positions,
}

impl SkewedAddresses {
    #[inline]
    fn draw(&mut self, rng: &mut Xoshiro256PlusPlus, length_bytes: u64) -> u64 {
        let grain = self.scatter.at(self.ranks.draw(rng));
        grain * self.grain_bytes + self.inside.draw(rng, length_bytes)
    }
}

/// How often the grain of each rank (0 is the hottest) is chosen.
#[derive(Clone, Debug)]
enum RankDistribution {
    Zipf {
        zipf: Zipf<f64>,
        grains: u64,
    },
    /// A draw of 64 bits below `hot_draws` goes to the hot grains, which are the first ranks.
    HotCold {
        hot_grains: u64,
        grains: u64,
        hot_draws: u64,
    },
}

impl RankDistribution {
    fn zipf(grains: u64, theta: f64) -> Option<Self> {
        // So near to 1 the sampler's 1 / (1 - theta) would lose its digits; 1 is a special case.
        let theta = if (theta - 1.0).abs() < 1e-9 { 1.0 } else { theta };
        let zipf = Zipf::new(grains as f64, theta).ok()?;
        Some(Self::Zipf { zipf, grains })
    }

    fn hot_cold(grains: u64, hot_share: f64, hot_access_share: f64) -> Self {
        let hot_grains = ((grains as f64 * hot_share).round() as u64).clamp(1, grains);
        Self::HotCold { hot_grains, grains, hot_draws: threshold(hot_access_share) }
    }

    #[inline]
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        match *self {
            // Ranks of the sampler count from 1; rounding may reach one past the last.
            Self::Zipf { zipf, grains } => (zipf.sample(rng) as u64).clamp(1, grains) - 1,
            Self::HotCold { hot_grains, grains, hot_draws } => {
                let all_hot = hot_grains == grains;
                if all_hot || rng.next_u64() < hot_draws {
                    below(rng, hot_grains)
                } else {
                    hot_grains + below(rng, grains - hot_grains)
                }
            }
        }
    }
}
