//! Log-linear histogram of nanoseconds: buckets at most 0.8 % wide, no overflow, exact merging.
//!
//! The layout is that of Gil Tene's HdrHistogram with 128 sub-buckets an octave, without an upper
//! bound: values below 256 have a bucket each, and every further power of two is cut into 128
//! equal buckets. All of 64 bits is covered, so that no bucket swallows "the rest".

use crate::varint;

/// Sub-buckets of one octave, as a power of two. A bucket is at most `1 / 2^7` = 0.78 % wide.
const SUB_BITS: u32 = 7;
const SUB_COUNT: u64 = 1 << SUB_BITS;

/// First byte of an encoded histogram.
const ENCODING_VERSION: u64 = 1;

/// Why bytes are not a histogram.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HistogramError {
    /// The bytes end early, or a number in them is longer than 64 bits.
    #[error("the histogram is cut short or damaged")]
    Damaged,
    /// Written by a later version.
    #[error("the histogram has encoding {0}, this version reads {ENCODING_VERSION}")]
    Version(u64),
    /// The buckets do not add up to the stated number of entries.
    #[error("the histogram states {stated} entries and holds {counted}")]
    Inconsistent {
        /// Entries by its head.
        stated: u64,
        /// Entries in its buckets.
        counted: u64,
    },
    /// Values and counts that do not belong together.
    #[error("{values} values and {counts} counts: each value needs one count")]
    Unequal {
        /// How many values were given.
        values: usize,
        /// How many counts were given.
        counts: usize,
    },
    /// More entries than 64 bits can count.
    #[error("the counts add up to more than 64 bits hold")]
    TooMany,
}

/// Bucket of a value.
#[inline]
pub fn bucket_of(value_ns: u64) -> usize {
    if value_ns < 2 * SUB_COUNT {
        return value_ns as usize;
    }
    let shift = 63 - value_ns.leading_zeros() - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value_ns >> shift)) as usize
}

/// Lowest value of a bucket.
pub fn bucket_low_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB_COUNT {
        return bucket;
    }
    (SUB_COUNT + bucket % SUB_COUNT) << (bucket / SUB_COUNT - 1)
}

/// Number of values in a bucket.
pub fn bucket_width_ns(bucket: usize) -> u64 {
    if (bucket as u64) < 2 * SUB_COUNT { 1 } else { 1 << (bucket as u64 / SUB_COUNT - 1) }
}

/// Counts of values in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Never ends with a zero, so that equal contents are equal vectors.
    counts: Vec<u64>,
    entries: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// A histogram of values that were counted elsewhere, such as the bins of a foreign result.
    ///
    /// Extremes and mean are as exact as the values are: of a bin's middle, that of the middle.
    pub fn from_counts(values_ns: &[u64], counts: &[u64]) -> Result<Histogram, HistogramError> {
        if values_ns.len() != counts.len() {
            return Err(HistogramError::Unequal { values: values_ns.len(), counts: counts.len() });
        }
        let entries = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        entries.ok_or(HistogramError::TooMany)?;
        let mut histogram = Histogram::new();
        for (&value_ns, &count) in values_ns.iter().zip(counts) {
            histogram.add_bucket(bucket_of(value_ns), count);
            // At most 2^64 entries of 64 bits each: their sum stays below 2^128.
            histogram.widen(value_ns, value_ns, count, u128::from(value_ns) * u128::from(count));
        }
        Ok(histogram)
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.add_bucket(bucket_of(value_ns), 1);
        self.widen(value_ns, value_ns, 1, u128::from(value_ns));
    }

    /// Adds all entries of another histogram. Exact: the order of merging never matters.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.widen(other.min_ns, other.max_ns, other.entries, other.sum_ns);
    }

    /// Adds the counts of single buckets together with the exact extremes and sum.
    pub fn merge_buckets(
        &mut self,
        buckets: impl Iterator<Item = (usize, u64)>,
        min_ns: u64,
        max_ns: u64,
        sum_ns: u128,
    ) {
        let mut entries = 0;
        for (bucket, count) in buckets {
            self.add_bucket(bucket, count);
            entries += count;
        }
        self.widen(min_ns, max_ns, entries, sum_ns);
    }

    #[inline]
    fn add_bucket(&mut self, bucket: usize, count: u64) {
        if count == 0 {
            return;
        }
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += count;
    }

    fn widen(&mut self, min_ns: u64, max_ns: u64, entries: u64, sum_ns: u128) {
        if entries == 0 {
            return;
        }
        self.min_ns = if self.entries == 0 { min_ns } else { self.min_ns.min(min_ns) };
        self.max_ns = self.max_ns.max(max_ns);
        self.entries += entries;
        self.sum_ns += sum_ns;
    }

    /// Number of values.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Exact smallest value; 0 when empty.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// Exact largest value; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Exact mean; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        if self.entries == 0 { 0.0 } else { self.sum_ns as f64 / self.entries as f64 }
    }

    /// The value that `percent` of the entries do not exceed: the middle of its bucket, never
    /// outside of what was seen; 0 when empty. `percent` is taken into 0..=100.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        if self.entries == 0 {
            return 0;
        }
        // 99.9 % of 1,000 are 999, although in binary fractions they are a trifle more.
        let share = percent.clamp(0.0, 100.0) / 100.0 * (1.0 - 1e-12);
        let rank = (share * self.entries as f64).ceil().max(1.0) as u64;
        if rank >= self.entries {
            return self.max_ns;
        }
        let mut seen = 0;
        for (bucket, count) in self.buckets() {
            seen += count;
            if seen >= rank {
                let middle_ns = bucket_low_ns(bucket) + bucket_width_ns(bucket) / 2;
                return middle_ns.clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }

    /// Bytes held in memory.
    pub fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>() + size_of::<Self>()
    }

    /// Buckets with entries, in rising order: (bucket, count).
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// The canonical bytes (docs/engine.md): equal contents give equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let head = [
            ENCODING_VERSION,
            self.entries,
            self.sum_ns as u64,
            (self.sum_ns >> 64) as u64,
            self.min_ns,
            self.max_ns,
        ];
        head.into_iter().for_each(|value| varint::put(&mut out, value));
        let mut previous = 0;
        for (bucket, count) in self.buckets() {
            varint::put(&mut out, (bucket - previous) as u64);
            varint::put(&mut out, count);
            previous = bucket;
        }
        out
    }

    /// Reads what [`Histogram::encode`] wrote.
    pub fn decode(mut bytes: &[u8]) -> Result<Histogram, HistogramError> {
        let mut next = || varint::take(&mut bytes).ok_or(HistogramError::Damaged);
        let version = next()?;
        if version != ENCODING_VERSION {
            return Err(HistogramError::Version(version));
        }
        let entries = next()?;
        let sum_ns = u128::from(next()?) | (u128::from(next()?) << 64);
        let (min_ns, max_ns) = (next()?, next()?);
        let mut histogram = Histogram { counts: Vec::new(), entries, sum_ns, min_ns, max_ns };
        let (mut bucket, mut counted) = (0u64, 0u64);
        while !bytes.is_empty() {
            let mut next = || varint::take(&mut bytes).ok_or(HistogramError::Damaged);
            bucket = bucket.checked_add(next()?).ok_or(HistogramError::Damaged)?;
            let count = next()?;
            if bucket > bucket_of(u64::MAX) as u64 {
                return Err(HistogramError::Damaged);
            }
            counted = counted.checked_add(count).ok_or(HistogramError::Damaged)?;
            histogram.add_bucket(bucket as usize, count);
        }
        if counted != entries {
            return Err(HistogramError::Inconsistent { stated: entries, counted });
        }
        if min_ns > max_ns {
            return Err(HistogramError::Damaged);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn histogram_of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_value_and_is_at_most_0_8_percent_wide(value in 1..=HOUR_NS) {
            let bucket = bucket_of(value);
            let (low, width) = (bucket_low_ns(bucket), bucket_width_ns(bucket));
            prop_assert!(low <= value && value - low < width);
            prop_assert!(width == 1 || width as f64 <= 0.008 * low as f64);
        }

        #[test]
        fn every_64_bit_value_has_a_bucket(value in any::<u64>()) {
            let bucket = bucket_of(value);
            prop_assert!(bucket_low_ns(bucket) <= value);
            prop_assert!(value - bucket_low_ns(bucket) < bucket_width_ns(bucket));
        }

        #[test]
        fn buckets_follow_each_other(bucket in 0usize..7000) {
            let end = bucket_low_ns(bucket) + bucket_width_ns(bucket);
            prop_assert_eq!(bucket_low_ns(bucket + 1), end);
        }

        #[test]
        fn merge_order_never_changes_a_byte(
            parts in proptest::collection::vec(
                proptest::collection::vec(0..HOUR_NS, 0..30), 1..8),
            rotation in 0usize..8,
        ) {
            let pooled = histogram_of(&parts.concat());
            let mut turned = parts.clone();
            turned.rotate_left(rotation % parts.len());
            let mut merged = Histogram::new();
            turned.iter().for_each(|part| merged.merge(&histogram_of(part)));
            prop_assert_eq!(merged.encode(), pooled.encode());
        }

        #[test]
        fn a_percentile_is_within_half_a_bucket_of_the_exact_one(
            mut values in proptest::collection::vec(1..HOUR_NS, 1..200),
            percent in 0.0..=100.0f64,
        ) {
            let histogram = histogram_of(&values);
            values.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let read = histogram.percentile_ns(percent) as f64;
            prop_assert!((read - exact).abs() <= 0.004 * exact + 1.0, "{read} for {exact}");
        }

        #[test]
        fn encoding_keeps_everything(values in proptest::collection::vec(any::<u64>(), 0..50)) {
            let histogram = histogram_of(&values);
            prop_assert_eq!(Histogram::decode(&histogram.encode()), Ok(histogram));
        }

        #[test]
        fn counts_give_what_recording_each_value_gives(
            pairs in proptest::collection::vec((any::<u64>(), 0..20u64), 0..30),
        ) {
            let (values, counts): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
            let each: Vec<u64> =
                pairs.iter().flat_map(|&(value, count)| (0..count).map(move |_| value)).collect();
            prop_assert_eq!(Histogram::from_counts(&values, &counts), Ok(histogram_of(&each)));
        }

        #[test]
        fn damaged_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Histogram::decode(&bytes);
        }
    }

    #[test]
    fn extremes_and_mean_are_exact() {
        let histogram = histogram_of(&[1_000_003, 7, 999_999_999]);
        assert_eq!((histogram.min_ns(), histogram.max_ns()), (7, 999_999_999));
        assert_eq!(histogram.percentile_ns(100.0), 999_999_999);
        assert!((histogram.mean_ns() - 1_001_000_009.0 / 3.0).abs() < 1e-3);
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        let unequal = HistogramError::Unequal { values: 2, counts: 1 };
        assert_eq!(Histogram::from_counts(&[1, 2], &[3]), Err(unequal));
        let too_many = Histogram::from_counts(&[1, 2], &[u64::MAX, 1]);
        assert_eq!(too_many, Err(HistogramError::TooMany));
        let full = Histogram::from_counts(&[u64::MAX], &[u64::MAX]);
        assert!(full.is_ok_and(|histogram| histogram.entries() == u64::MAX));
    }

    #[test]
    fn a_percentile_leaves_out_as_many_as_it_says() {
        let thousand: Vec<u64> = (1..=1_000).map(|number| number * 10_000).collect();
        let histogram = histogram_of(&thousand);
        let is_of = |percent, number: u64| {
            bucket_of(histogram.percentile_ns(percent)) == bucket_of(number * 10_000)
        };
        assert!(is_of(99.9, 999) && is_of(99.0, 990) && is_of(50.0, 500) && is_of(0.0, 1));
        assert_eq!(histogram.percentile_ns(100.0), 10_000_000);
    }

    #[test]
    fn an_empty_histogram_says_zero() {
        let empty = Histogram::new();
        assert_eq!((empty.entries(), empty.percentile_ns(99.0), empty.max_ns()), (0, 0, 0));
        assert_eq!(Histogram::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn a_false_head_is_found() {
        let mut bytes = histogram_of(&[5, 5]).encode();
        bytes[1] = 3;
        let expected = HistogramError::Inconsistent { stated: 3, counted: 2 };
        assert_eq!(Histogram::decode(&bytes), Err(expected));
        assert_eq!(Histogram::decode(&[9]), Err(HistogramError::Version(9)));
        // One entry in bucket 5 of sum 5, whose minimum is 6 and whose maximum is 5.
        let extremes = Histogram::decode(&[1, 1, 5, 0, 6, 5, 5, 1]);
        assert_eq!(extremes, Err(HistogramError::Damaged));
    }
}
