//! Random streams: one seed gives every thread and every purpose its own stream.
//!
//! A study is repeatable only when the numbers that one thread draws do not depend on how often
//! another one drew. So nothing is shared: each user of randomness takes the stream of its purpose.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The odd constant nearest to 2^64 divided by the golden ratio: the step of SplitMix64.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the stream that `seed` gives to `purpose` (a fixed word such as `"address"`) and `index`
/// (the number of the thread, or of any other user of a separate stream).
///
/// Equal arguments give equal streams, on every machine and in every version; arguments that
/// differ in any part give streams that have nothing in common.
#[must_use]
pub fn stream(seed: u64, purpose: &str, index: u64) -> Xoshiro256PlusPlus {
    let purpose_key = purpose.bytes().fold(0, |key, byte| mix(key ^ u64::from(byte)));
    let key = mix(mix(mix(seed) ^ purpose_key) ^ index);
    Xoshiro256PlusPlus::seed_from_u64(key)
}

/// Returns a well stirred bijection of `value`: one output of SplitMix64 (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", OOPSLA 2014; Stafford's variant 13).
#[inline]
#[must_use]
pub(crate) const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(GOLDEN);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Draws a number below `bound`, which is at least 1.
///
/// Multiply and shift, without the rejection step that would make it exact: the bias is at most
/// `bound` / 2^64, which for a petabyte of 512-byte blocks is one in eight million.
#[inline]
pub fn below(rng: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Returns the draws of 64 bits (of all 2^64) that fall below `share`, which is 0 to 1.
#[inline]
pub(crate) fn threshold(share: f64) -> u64 {
    // 2^64 as a float; the cast saturates, so that a share of 1 takes all draws but one.
    (share * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn equal_arguments_give_equal_streams() {
        let (mut first, mut second) = (stream(7, "address", 3), stream(7, "address", 3));
        for _ in 0..100 {
            assert_eq!(first.next_u64(), second.next_u64());
        }
    }

    #[test]
    fn the_streams_are_the_same_for_ever() {
        // A results file names the seed only; another version must draw what this one drew.
        // The number was computed by another program from the published algorithms.
        assert_eq!(stream(7, "address", 0).next_u64(), 2_290_331_606_331_356_764);
    }

    #[test]
    fn every_seed_purpose_and_index_has_its_own_stream() {
        let mut seen = HashSet::new();
        for seed in 0..20 {
            for purpose in ["address", "arrival", "data", "mix", ""] {
                for index in 0..40 {
                    let mut rng = stream(seed, purpose, index);
                    for _ in 0..4 {
                        assert!(seen.insert(rng.next_u64()), "{seed} {purpose} {index}");
                    }
                }
            }
        }
    }

    #[test]
    fn below_stays_below_and_reaches_every_number() {
        let mut rng = stream(1, "test", 0);
        for bound in [1, 2, 3, 7, 10] {
            let drawn: HashSet<u64> = (0..1000).map(|_| below(&mut rng, bound)).collect();
            assert_eq!(drawn, (0..bound).collect());
        }
        assert!((0..1000).all(|_| below(&mut rng, u64::MAX) < u64::MAX));
    }

    #[test]
    fn threshold_spans_all_draws() {
        assert_eq!(threshold(0.0), 0);
        assert_eq!(threshold(0.5), 1 << 63);
        assert_eq!(threshold(1.0), u64::MAX);
    }
}
