//! The choice of the next request, by weight of access and of block size.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use seatrial_gauge::Operation;

use crate::address::{AddressCursor, AddressPlan};
use crate::listed::{ListCursor, ListEntry};
use crate::rng::{stream, threshold};
use crate::spec::{AccessSpec, CellSpec};

/// A weighted choice of a number.
#[derive(Clone, Debug)]
pub struct WeightedChoice {
    /// For all but the last: the draws of 64 bits below which it, or one before it, is chosen.
    bounds: Vec<u64>,
}

impl WeightedChoice {
    /// Returns the choice between `weights`, each above 0.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let mut below = 0.0;
        let bounds = weights.iter().map(|weight| {
            below += weight;
            threshold(below / total)
        });
        let mut bounds: Vec<u64> = bounds.collect();
        bounds.pop();
        Self { bounds }
    }

    /// Draws a number; with a single weight none is needed, and the stream stays where it is.
    #[inline]
    pub fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> usize {
        if self.bounds.is_empty() {
            return 0;
        }
        let draw = rng.next_u64();
        self.bounds.partition_point(|&bound| bound <= draw)
    }
}

/// The block sizes of an access by weight.
#[derive(Clone, Debug)]
pub struct Sizes {
    choice: WeightedChoice,
    sizes_bytes: Vec<u32>,
}

impl Sizes {
    /// Returns the distribution of `access`.
    #[must_use]
    pub fn new(access: &AccessSpec) -> Self {
        let weights: Vec<f64> = access.sizes.iter().map(|size| size.weight).collect();
        Self {
            choice: WeightedChoice::new(&weights),
            sizes_bytes: access.sizes.iter().map(|size| narrowed(size.bytes)).collect(),
        }
    }

    /// Draws a block size in bytes.
    #[inline]
    pub fn draw_bytes(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        self.sizes_bytes[self.choice.draw(rng)]
    }
}

/// A checked specification has no size above 1 GiB.
fn narrowed(size_bytes: u64) -> u32 {
    u32::try_from(size_bytes).unwrap_or(u32::MAX)
}

/// One request to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The operation.
    pub operation: Operation,
    /// Its offset on the target.
    pub offset_bytes: u64,
    /// How long it is.
    pub length_bytes: u32,
}

/// The requests of one worker: a mix of the cell's accesses, endless except for a one-pass fill, or
/// a list.
#[derive(Debug)]
pub struct AccessMix {
    listed: Option<ListCursor>,
    rng: Xoshiro256PlusPlus,
    choice: WeightedChoice,
    members: Vec<WeightedAccess>,
}

#[derive(Debug)]
struct WeightedAccess {
    operation: Operation,
    sizes: Sizes,
    cursor: AddressCursor,
}

impl AccessMix {
    /// Returns the mix of `worker` (0 to threads - 1) over the addresses of `plan`, which must be
    /// of the same `spec`.
    #[must_use]
    pub fn new(spec: &CellSpec, plan: &AddressPlan, worker: u32) -> Self {
        let (stream_number, _) = spec.place_of(worker);
        let planned = spec.accesses.iter().zip(plan.cursors(worker));
        let (accesses, cursors): (Vec<_>, Vec<_>) =
            planned.filter(|(access, _)| access.stream == stream_number).unzip();
        let weights: Vec<f64> = accesses.iter().map(|access| access.weight).collect();
        let members = accesses.into_iter().zip(cursors).map(|(access, cursor)| WeightedAccess {
            operation: access.operation,
            sizes: Sizes::new(access),
            cursor,
        });
        Self {
            listed: None,
            rng: stream(spec.seed, "mix", u64::from(worker)),
            choice: WeightedChoice::new(&weights),
            members: members.collect(),
        }
    }

    /// Returns the mix that takes its requests from a list.
    #[must_use]
    pub fn with_list(self, list: Arc<[ListEntry]>) -> Self {
        Self { listed: Some(ListCursor::new(list)), ..self }
    }

    /// Whether the next request may start while the given number of others are in flight.
    #[inline]
    #[must_use]
    pub fn may_start(&self, others: usize) -> bool {
        let next = self.listed.as_ref().and_then(ListCursor::peek);
        next.is_none_or(|next| others <= next.others_max as usize)
    }

    /// Draws the next request; `None` when there is none left.
    #[expect(clippy::should_implement_trait, reason = "it is drawn from, not iterated over")]
    #[inline]
    pub fn next(&mut self) -> Option<Access> {
        if let Some(listed) = &mut self.listed {
            return listed.take();
        }
        let member = &mut self.members[self.choice.draw(&mut self.rng)];
        let length_bytes = member.sizes.draw_bytes(&mut self.rng);
        let offset_bytes = member.cursor.next(u64::from(length_bytes))?;
        Some(Access { operation: member.operation, offset_bytes, length_bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::tests::spec_with;

    /// Asserts that `count` of `draws` is within six standard deviations of `share`.
    #[track_caller]
    fn assert_share(count: u64, draws: u64, share: f64) {
        let expected = share * draws as f64;
        let deviation = (expected * (1.0 - share)).sqrt();
        let off = (count as f64 - expected).abs();
        assert!(off <= 6.0 * deviation + 1.0, "{count} of {draws}, not {share}");
    }

    #[test]
    fn weights_decide_how_often() {
        let choice = WeightedChoice::new(&[1.0, 2.0, 0.5, 6.5]);
        let mut rng = stream(1, "test", 0);
        let mut counts = [0; 4];
        for _ in 0..100_000 {
            counts[choice.draw(&mut rng)] += 1;
        }
        for (count, share) in counts.into_iter().zip([0.1, 0.2, 0.05, 0.65]) {
            assert_share(count, 100_000, share);
        }
    }

    #[test]
    fn a_single_weight_draws_nothing() {
        let mut rng = stream(1, "test", 0);
        let before = rng.clone();
        assert_eq!(WeightedChoice::new(&[3.0]).draw(&mut rng), 0);
        assert_eq!(rng, before);
    }

    const MIX: &str = r#"
        {"weight": 70, "operation": "read", "align_bytes": 4096, "address": {"kind": "random"},
         "sizes": [{"bytes": 4096, "weight": 3}, {"bytes": 65536, "weight": 1}]},
        {"weight": 30, "operation": "write", "align_bytes": 8192, "sizes": [{"bytes": 8192}],
         "address": {"kind": "zipf", "theta": 1}}"#;

    fn mix(worker: u32) -> AccessMix {
        let spec = spec_with(MIX, r#"{"start_bytes": 0, "length_bytes": 1048576}"#, 2, "random");
        AccessMix::new(&spec, &AddressPlan::new(&spec).unwrap(), worker)
    }

    #[test]
    fn the_mix_is_as_requested() {
        let mut mix = mix(0);
        let draws: Vec<Access> = (0..100_000).map(|_| mix.next().unwrap()).collect();
        let count = |operation, length_bytes| {
            let alike = |access: &&Access| {
                access.operation == operation && access.length_bytes == length_bytes
            };
            draws.iter().filter(alike).count() as u64
        };
        assert_share(count(Operation::Write, 8192), 100_000, 0.3);
        assert_share(count(Operation::Read, 4096), 100_000, 0.7 * 0.75);
        assert_share(count(Operation::Read, 65536), 100_000, 0.7 * 0.25);
        assert!(draws.iter().all(|one| one.offset_bytes + u64::from(one.length_bytes) <= 1 << 20));
    }

    #[test]
    fn equal_workers_draw_alike_and_different_ones_do_not() {
        let draws = |worker| {
            let mut mix = mix(worker);
            (0..20).map(|_| mix.next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(0), draws(1));
    }

    proptest! {
        #[test]
        fn a_choice_never_misses(
            weights in prop::collection::vec(1e-12_f64..1e12, 1..50), seed in any::<u64>(),
        ) {
            let choice = WeightedChoice::new(&weights);
            let mut rng = stream(seed, "test", 0);
            for _ in 0..100 {
                prop_assert!(choice.draw(&mut rng) < weights.len());
            }
        }
    }
}
