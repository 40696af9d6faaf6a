//! Histograms that take little memory: thousands of them exist at once.
//!
//! Buckets are those of [`seatrial_gauge::histogram`], 0.8 % wide, put together by twos as often as
//! memory makes it necessary (`shift`, one for all of them), and only those between the lowest and
//! the highest that were seen.

use seatrial_gauge::Histogram;
use seatrial_gauge::histogram::{bucket_low_ns, bucket_of};

/// Buckets that are added at once, to avoid a reallocation for each new time.
const ROOM_BUCKETS: usize = 8;

/// Counts of times.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Coarse {
    /// The bucket of the first count.
    first: usize,
    counts: Vec<u32>,
    entries: u64,
    max_ns: u64,
}

impl Coarse {
    /// Adds a time; returns the growth in bytes.
    #[inline]
    pub fn record(&mut self, time_ns: u64, shift: u32) -> usize {
        let bucket = bucket_of(time_ns) >> shift;
        let index = bucket.wrapping_sub(self.first);
        let grown_bytes = if index < self.counts.len() { 0 } else { self.widen(bucket) };
        let count = &mut self.counts[bucket - self.first];
        *count = count.saturating_add(1);
        self.entries += 1;
        self.max_ns = self.max_ns.max(time_ns);
        grown_bytes
    }

    /// Adds buckets up to one outside of the range.
    #[cold]
    fn widen(&mut self, bucket: usize) -> usize {
        let before = self.counts.len();
        if before == 0 {
            self.first = bucket.saturating_sub(ROOM_BUCKETS / 2);
        }
        if bucket < self.first {
            let first = bucket.saturating_sub(ROOM_BUCKETS);
            let mut counts = vec![0; self.first - first];
            counts.append(&mut self.counts);
            (self.first, self.counts) = (first, counts);
        } else {
            let length = bucket - self.first + ROOM_BUCKETS;
            self.counts.reserve_exact(length - before);
            self.counts.resize(length, 0);
        }
        (self.counts.len() - before) * size_of::<u32>()
    }

    /// Doubles the width of buckets: `shift` is one more from now on.
    pub fn halve(&mut self) {
        let first = self.first / 2;
        let end = (self.first + self.counts.len()).div_ceil(2);
        let mut counts = vec![0u32; end - first];
        for (index, &count) in self.counts.iter().enumerate() {
            let joined = &mut counts[(self.first + index) / 2 - first];
            *joined = joined.saturating_add(count);
        }
        (self.first, self.counts) = (first, counts);
    }

    pub fn memory_bytes(&self) -> usize {
        self.counts.len() * size_of::<u32>()
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The longest time; exact.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The counts as a histogram, each at the middle of its bucket.
    pub fn histogram(&self, shift: u32) -> Histogram {
        let counted = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        let (middles_ns, counts): (Vec<u64>, Vec<u64>) = counted
            .map(|(index, &count)| (middle_ns(self.first + index, shift), u64::from(count)))
            .unzip();
        // It refuses only more than 64 bits hold, and a count has 32.
        Histogram::from_counts(&middles_ns, &counts).unwrap_or_default()
    }

    /// The time that `percent` of the entries do not exceed: the middle of its bucket; 0 when
    /// empty.
    pub fn percentile_ns(&self, percent: f64, shift: u32) -> u64 {
        let counted: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        // 99.9 % of 1,000 are 999, although in binary fractions they are a trifle more.
        let share = percent.clamp(0.0, 100.0) / 100.0 * (1.0 - 1e-12);
        let rank = (share * counted as f64).ceil().max(1.0) as u64;
        if rank >= counted {
            return self.max_ns;
        }
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return middle_ns(self.first + index, shift).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// The middle of a bucket.
fn middle_ns(bucket: usize, shift: u32) -> u64 {
    let low_ns = bucket_low_ns(bucket << shift);
    let high_ns = bucket_low_ns((bucket + 1) << shift);
    low_ns + (high_ns - low_ns) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    proptest! {
        /// Checks that a percentile is within half a bucket, however often buckets were joined.
        #[test]
        fn a_percentile_is_in_the_bucket_of_the_exact_one(
            times in proptest::collection::vec((0..HOUR_NS, prop::bool::weighted(0.05)), 1..200),
            percent in 0.0..=100.0f64,
        ) {
            let (mut coarse, mut shift, mut bytes) = (Coarse::default(), 0, 0usize);
            let mut exact: Vec<u64> = Vec::new();
            for &(time_ns, is_halved) in &times {
                bytes += coarse.record(time_ns, shift);
                prop_assert_eq!(bytes, coarse.memory_bytes());
                exact.push(time_ns);
                if is_halved && shift < 5 {
                    coarse.halve();
                    shift += 1;
                    bytes = coarse.memory_bytes();
                }
            }
            exact.sort_unstable();
            let rank = ((percent / 100.0 * exact.len() as f64).ceil() as usize).max(1);
            let expected_ns = exact[rank - 1];
            let read_ns = coarse.percentile_ns(percent, shift);
            let is_same = bucket_of(read_ns) >> shift == bucket_of(expected_ns) >> shift;
            prop_assert!(is_same, "{read_ns} for {expected_ns} at {shift}");
            prop_assert_eq!(coarse.entries(), exact.len() as u64);
            prop_assert_eq!(Some(&coarse.max_ns()), exact.last());
        }

        #[test]
        fn without_halving_it_equals_the_histogram(
            times in proptest::collection::vec(0..HOUR_NS, 1..100), percent in 1.0..100.0f64,
        ) {
            let (mut coarse, mut histogram) = (Coarse::default(), Histogram::new());
            for &time_ns in &times {
                coarse.record(time_ns, 0);
                histogram.record(time_ns);
            }
            let buckets = [coarse.percentile_ns(percent, 0), histogram.percentile_ns(percent)]
                .map(bucket_of);
            prop_assert_eq!(buckets[0], buckets[1]);
            let same: Vec<_> = coarse.histogram(0).buckets().collect();
            prop_assert_eq!(same, histogram.buckets().collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_empty_one_says_zero() {
        let empty = Coarse::default();
        assert_eq!((empty.percentile_ns(99.0, 3), empty.max_ns(), empty.entries()), (0, 0, 0));
    }
}
