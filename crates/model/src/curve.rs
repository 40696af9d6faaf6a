//! The hits of an LRU cache of every size, from the reuse distances of one pass.
//!
//! The reuse distance of an access is the number of different blocks since the last access to the
//! same one; a cache of more blocks than that serves it.
//!
//! Sources: R. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal
//! 9 (2), 1970; C. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015.

use crate::accesses::Accesses;

const WORD_BITS: usize = 64;
/// Positions before they are numbered anew, as a multiple of the different blocks.
const SPACE: usize = 4;
const NEVER: u32 = u32::MAX;

/// Numbers of reads by reuse distance; writes are accesses that are not counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// By reuse distance.
    counts: Vec<u64>,
    reads: u64,
    /// Share of the blocks that were sampled.
    share: f64,
    /// The reads that a sample of that share should have.
    expected: f64,
}

impl Curve {
    /// The curve of all accesses; exact.
    pub fn exact(accesses: &Accesses) -> Curve {
        Curve::sampled(accesses, 1.0, accesses.reads())
    }

    /// The curve of accesses to a share of the blocks (see [`is_sampled`]), by that share and the
    /// reads of all blocks (SHARDS, fixed rate).
    pub fn sampled(accesses: &Accesses, share: f64, all_reads: u64) -> Curve {
        let counts = distances(accesses);
        Curve { counts, reads: accesses.reads(), share, expected: all_reads as f64 * share }
    }

    /// Returns the share of reads that are hits, by size of the cache in blocks.
    ///
    /// A sample with more reads than expected has too many of the hottest blocks, which hit in
    /// the smallest cache: the surplus is taken from there (SHARDS-adj).
    pub fn hit_ratios(&self, sizes_blocks: &[u64]) -> Vec<f64> {
        let mut sums = Vec::with_capacity(self.counts.len() + 1);
        sums.push(0u64);
        for &count in &self.counts {
            sums.push(sums.last().copied().unwrap_or(0) + count);
        }
        let surplus = self.reads as f64 - self.expected;
        let ratio = |&size_blocks: &u64| {
            let sampled_blocks = (size_blocks as f64 * self.share).ceil() as usize;
            let hits = sums[sampled_blocks.min(self.counts.len())] as f64;
            if self.expected > 0.0 {
                ((hits - surplus) / self.expected).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        sizes_blocks.iter().map(ratio).collect()
    }
}

/// Returns whether a block is in a sample of a share of the blocks: by a hash of its number.
#[inline]
pub fn is_sampled(block: u64, share: f64, salt: u64) -> bool {
    share >= 1.0 || hash(block, salt) < (share * (u64::MAX as f64)) as u64
}

/// The finalizer of SplitMix64.
#[inline]
fn hash(block: u64, salt: u64) -> u64 {
    let mixed = block.wrapping_add(salt);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Counts reads by reuse distance.
///
/// A bit is set at the position of the last access to each block; the distance is the number of
/// bits behind a position. Sums of 64 positions are kept in a tree, so that it stays in the
/// processor's cache.
fn distances(accesses: &Accesses) -> Vec<u64> {
    let different = accesses.different as usize;
    let mut counts = vec![0u64; different];
    let mut last = Positions::new(different);
    for (index, &block) in accesses.blocks.iter().enumerate() {
        if let Some(distance) = last.access(block) {
            counts[distance] += u64::from(!accesses.is_write(index));
        }
    }
    counts
}

struct Positions {
    /// The position of the last access to each block.
    of_block: Vec<u32>,
    /// The block at each position that is the last of one.
    words: Vec<u64>,
    /// A Fenwick tree over the bits of words.
    tree: Vec<u32>,
    next: usize,
    /// Blocks that were accessed.
    known: usize,
}

impl Positions {
    fn new(different: usize) -> Positions {
        let words = (SPACE * different.max(WORD_BITS)).div_ceil(WORD_BITS);
        Positions {
            of_block: vec![NEVER; different],
            words: vec![0; words],
            tree: vec![0; words + 1],
            next: 0,
            known: 0,
        }
    }

    /// Returns the number of different blocks since the last access to the same one, if any.
    #[inline]
    fn access(&mut self, block: u32) -> Option<usize> {
        if self.next == self.words.len() * WORD_BITS {
            self.number_anew();
        }
        let last = self.of_block[block as usize];
        let distance = if last == NEVER {
            self.known += 1;
            None
        } else {
            let (word, bit) = (last as usize / WORD_BITS, last as usize % WORD_BITS);
            let until = self.sum(word) + (self.words[word] << (63 - bit)).count_ones() as usize;
            self.words[word] &= !(1 << bit);
            self.add(word, u32::MAX);
            Some(self.known - until)
        };
        self.of_block[block as usize] = self.next as u32;
        self.words[self.next / WORD_BITS] |= 1 << (self.next % WORD_BITS);
        self.add(self.next / WORD_BITS, 1);
        self.next += 1;
        distance
    }

    /// Returns how many bits are in the words before one.
    #[inline]
    fn sum(&self, word: usize) -> usize {
        let (mut index, mut found) = (word, 0);
        while index > 0 {
            found += self.tree[index] as usize;
            index &= index - 1;
        }
        found
    }

    #[inline]
    fn add(&mut self, word: usize, difference: u32) {
        let mut index = word + 1;
        while index < self.tree.len() {
            self.tree[index] = self.tree[index].wrapping_add(difference);
            index += index & index.wrapping_neg();
        }
    }

    /// Closes the gaps between positions.
    fn number_anew(&mut self) {
        let mut before = vec![0u32; self.words.len() + 1];
        for (index, word) in self.words.iter().enumerate() {
            before[index + 1] = before[index] + word.count_ones();
        }
        for position in self.of_block.iter_mut().filter(|each| **each != NEVER) {
            let (word, bit) = (*position as usize / WORD_BITS, *position as usize % WORD_BITS);
            let below = self.words[word] & ((1 << bit) - 1);
            *position = before[word] + below.count_ones();
        }
        self.next = self.known;
        self.tree.fill(0);
        for index in 0..self.words.len() {
            let bits = self.known.saturating_sub(index * WORD_BITS).min(WORD_BITS);
            self.words[index] = if bits == WORD_BITS { u64::MAX } else { (1 << bits) - 1 };
            if bits > 0 {
                self.add(index, bits as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::Kind;

    proptest! {
        #[test]
        fn the_curve_is_what_caches_of_each_size_have(
            made in proptest::collection::vec(
                (prop_oneof![0u64..5, 0u64..300], proptest::bool::weighted(0.2)), 1..3000
            )
        ) {
            let (blocks, writes): (Vec<u64>, Vec<bool>) = made.into_iter().unzip();
            let accesses =
                Accesses { writes, ..Accesses::new(&blocks).unwrap_or_default() };
            if accesses.reads() == 0 {
                return Ok(());
            }
            let curve = Curve::exact(&accesses);
            for size_blocks in [1u64, 2, 3, 10, 100, 299, 1000] {
                let mut cache = Kind::Lru.cache(size_blocks as usize, &accesses, 8192);
                let hits = cache.hits_of(&accesses);
                let found = curve.hit_ratios(&[size_blocks])[0];
                prop_assert!((found - hits as f64 / accesses.reads() as f64).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_sample_of_a_tenth_of_the_blocks_is_near() {
        // Blocks by a power law, from a linear congruential generator.
        let mut state = 7u64;
        let blocks: Vec<u64> = (0..400_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let uniform = (state >> 11) as f64 / (1u64 << 53) as f64;
                (uniform.powi(3) * 50_000.0) as u64
            })
            .collect();
        let exact = Curve::exact(&Accesses::new(&blocks).unwrap_or_default());
        let sizes_blocks = [1000, 5000, 20_000, 40_000];
        let own: Vec<u64> =
            blocks.iter().copied().filter(|&block| is_sampled(block, 0.1, 3)).collect();
        let sample = Accesses::new(&own).unwrap_or_default();
        let near = Curve::sampled(&sample, 0.1, blocks.len() as u64).hit_ratios(&sizes_blocks);
        for (found, truth) in near.iter().zip(exact.hit_ratios(&sizes_blocks)) {
            assert!((found - truth).abs() < 0.03, "{found} {truth}");
        }
    }
}
