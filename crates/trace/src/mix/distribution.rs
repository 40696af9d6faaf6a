//! A distribution and its percentiles.

use seatrial_gauge::Histogram;
use serde::Serialize;

/// A distribution of times: percentiles, and the full counts for those who want others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Distribution {
    /// Values.
    pub entries: u64,
    /// Exact.
    pub mean_ns: f64,
    /// Exact.
    pub min_ns: u64,
    /// Within 0.4 %, like all percentiles.
    pub p50_ns: u64,
    /// 95 of 100 are not above.
    pub p95_ns: u64,
    /// 99 of 100 are not above.
    pub p99_ns: u64,
    /// Exact.
    pub max_ns: u64,
    /// All buckets, as the results file has them.
    pub histogram: Vec<u8>,
}

impl Distribution {
    /// What a histogram holds.
    pub fn of(histogram: &Histogram) -> Distribution {
        Distribution {
            entries: histogram.entries(),
            mean_ns: histogram.mean_ns(),
            min_ns: histogram.min_ns(),
            p50_ns: histogram.percentile_ns(50.0),
            p95_ns: histogram.percentile_ns(95.0),
            p99_ns: histogram.percentile_ns(99.0),
            max_ns: histogram.max_ns(),
            histogram: histogram.encode(),
        }
    }
}

/// Adds a time in microseconds.
pub fn record_us(histogram: &mut Histogram, time_us: u64) {
    histogram.record(time_us.saturating_mul(1_000));
}
