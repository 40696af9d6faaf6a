//! A fixed pseudo-random order of the numbers below a bound, computed instead of stored.

use crate::rng::{GOLDEN, mix};

/// Rounds of the network; four make a pseudo-random permutation (Luby and Rackoff, "How to
/// construct pseudorandom permutations from pseudorandom functions", SIAM J. Comput. 17(2), 1988).
const ROUNDS: usize = 4;

/// A bijection of the numbers below a count that scatters neighbours: it decides which block has
/// which rank, so that the hot blocks are not next to each other.
///
/// A Feistel network over the next power of two, walked until the number is below it (Black
/// and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002): fewer than two steps on
/// average, no table, no division.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    count: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Returns the order of the numbers below `count` (at least 1) that belongs to `seed`.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let low_bits = bits / 2;
        let mut key = seed;
        let keys = std::array::from_fn(|_| {
            key = mix(key);
            key
        });
        Self { count, low_bits, low_mask: mask(low_bits), high_mask: mask(bits - low_bits), keys }
    }

    /// Returns how many numbers are permuted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number at `index`, which must be below the count.
    #[inline]
    #[must_use]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut number = self.shuffled(index);
        // Ends: going on from a number below the count comes back to it at last.
        while number >= self.count {
            number = self.shuffled(number);
        }
        number
    }

    /// One pass of the network over the power of two; each half step is undone by itself.
    #[inline]
    fn shuffled(&self, number: u64) -> u64 {
        let (mut low, mut high) = (number & self.low_mask, number >> self.low_bits);
        let [first, second, third, fourth] = self.keys;
        low ^= stirred(high, first) & self.low_mask;
        high ^= stirred(low, second) & self.high_mask;
        low ^= stirred(high, third) & self.low_mask;
        high ^= stirred(low, fourth) & self.high_mask;
        (high << self.low_bits) | low
    }
}

/// Returns a number whose low bits depend on all of `half`.
#[inline]
fn stirred(half: u64, key: u64) -> u64 {
    let product = (half ^ key).wrapping_mul(GOLDEN);
    product ^ (product >> 32)
}

fn mask(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |bound| bound - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_small_count_is_a_bijection() {
        for count in 1..600 {
            let permutation = Permutation::new(count, count * 31);
            let mut numbers: Vec<u64> = (0..count).map(|index| permutation.at(index)).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..count), "count {count}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_count_is_a_bijection(count in 1_u64..50_000, seed in any::<u64>()) {
            let permutation = Permutation::new(count, seed);
            let mut seen = vec![false; count as usize];
            for index in 0..count {
                let number = permutation.at(index);
                prop_assert!(number < count);
                prop_assert!(!std::mem::replace(&mut seen[number as usize], true));
            }
        }

        #[test]
        fn huge_counts_stay_below(count in (1_u64 << 40)..=u64::MAX, index in any::<u64>()) {
            let permutation = Permutation::new(count, 3);
            prop_assert!(permutation.at(index % count) < count);
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let count = 262_144_u64;
        let permutation = Permutation::new(count, 5);
        let near = (1..count)
            .filter(|&index| permutation.at(index).abs_diff(permutation.at(index - 1)) < 64)
            .count();
        // By chance 2 * 63 of 262144 distances are so small: 126 of the pairs.
        assert!((80..180).contains(&near), "{near} neighbours stayed near");
    }

    #[test]
    fn the_first_ranks_lie_all_over_the_range() {
        let count = 1_000_000_u64;
        let permutation = Permutation::new(count, 11);
        let mut tenths = [0_u32; 10];
        for rank in 0..10_000 {
            tenths[(permutation.at(rank) * 10 / count) as usize] += 1;
        }
        assert!(tenths.iter().all(|&count| (850..1150).contains(&count)), "{tenths:?}");
    }

    #[test]
    fn the_seed_decides_the_order() {
        let (first, second) = (Permutation::new(1 << 20, 1), Permutation::new(1 << 20, 2));
        let same = (0..1000).filter(|&index| first.at(index) == second.at(index)).count();
        assert!(same < 5, "{same} of 1000 agree");
    }
}
