//! Calls and time of each fingerprint, by equal slices of time.
//!
//! The significance of a difference between two captures depends on the variation over time, so a
//! comparison needs more than sums. Memory is bounded: at most 512 slices, at most 2,000
//! fingerprints; beyond that, the half with the least time goes into [`TimeSeries::others`].

use std::collections::BTreeMap;

use seatrial_sqltext::lexer::class::Class;
use serde::Serialize;

use super::end_us;
use super::fingerprints::{ByFingerprint, EvictedStatements, TRACKED_MAX, evict, shown};
use crate::{Columns, TraceError, TraceReader, Traced};

/// Slices at most: with more, each becomes twice as long.
const SLICES_MAX: u64 = 512;

/// Slices are of a millisecond at least.
const SLICE_US_MIN: i64 = 1_000;

/// Calls and time of each fingerprint over the time of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct TimeSeries {
    /// When the first slice begins; None without statements.
    pub first_us: Option<i64>,
    /// When the last statement ended, as far as durations are known.
    pub last_us: Option<i64>,
    /// Length of a slice.
    pub slice_us: i64,
    /// How many there are, from that of the first statement to that of the last.
    pub slices: u64,
    /// Statements.
    pub statements: u64,
    /// Of how many a duration is known.
    pub timed: u64,
    /// Those with the most time first.
    pub queries: Vec<QueryTimeSeries>,
    /// What is not among these.
    pub others: EvictedStatements,
}

/// Statements of a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct QueryTimeSeries {
    /// The hash, as 16 hexadecimal digits.
    pub hash: String,
    /// The text, of which more than 4 KiB are cut off.
    pub text: String,
    /// What kind of statement it is.
    pub class: Class,
    /// How many there are.
    pub calls: u64,
    /// Of how many a duration is known.
    pub timed: u64,
    /// Sum of these durations.
    pub total_us: u64,
    /// How many ended with an error.
    pub errors: u64,
    /// Number of a slice, statements with a duration that began in it, the sum of these.
    pub time_series: Vec<(u64, u64, u64)>,
}

#[derive(Default)]
struct Sums {
    timed: u64,
    total_us: u64,
}

struct Tracked {
    text: String,
    class: Class,
    calls: u64,
    errors: u64,
    sums: Sums,
    /// By slice, counted from 1970.
    time_series: BTreeMap<i64, Sums>,
}

/// What is known while a trace is read.
struct TimeSeriesBuilder {
    slice_us: i64,
    /// First and last slice.
    range: Option<(i64, i64)>,
    last_us: Option<i64>,
    all: Sums,
    statements: u64,
    tracked: ByFingerprint<Tracked>,
    others: EvictedStatements,
}

impl TimeSeries {
    /// Reads a trace once.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is damaged.
    pub fn of(trace: &TraceReader) -> Result<TimeSeries, TraceError> {
        let mut builder = TimeSeriesBuilder::default();
        let mut statements = trace.statements(Columns::Figures);
        while let Some(traced) = statements.next_statement()? {
            builder.take(&traced);
        }
        Ok(builder.finish())
    }
}

impl Default for TimeSeriesBuilder {
    fn default() -> TimeSeriesBuilder {
        TimeSeriesBuilder {
            slice_us: SLICE_US_MIN,
            range: None,
            last_us: None,
            all: Sums::default(),
            statements: 0,
            tracked: ByFingerprint::default(),
            others: EvictedStatements::default(),
        }
    }
}

impl TimeSeriesBuilder {
    fn take(&mut self, traced: &Traced<'_>) {
        let statement = &traced.statement;
        let slice = self.slice_of(statement.start_us);
        let last_us = end_us(statement.start_us, statement.duration_us);
        self.last_us = Some(self.last_us.unwrap_or(i64::MIN).max(last_us));
        self.statements += 1;
        if self.tracked.len() >= TRACKED_MAX && !self.tracked.contains_key(&traced.fingerprint) {
            evict(&mut self.tracked, &mut self.others, |one| (one.sums.total_us, one.calls));
        }
        let tracked = self.tracked.entry(traced.fingerprint).or_insert_with(|| Tracked {
            text: shown(traced.text),
            class: traced.class,
            calls: 0,
            errors: 0,
            sums: Sums::default(),
            time_series: BTreeMap::new(),
        });
        tracked.calls += 1;
        tracked.errors += u64::from(statement.error.is_some());
        if let Some(duration_us) = statement.duration_us {
            self.all.add(duration_us);
            tracked.sums.add(duration_us);
            tracked.time_series.entry(slice).or_default().add(duration_us);
        }
    }

    /// The slice of a time, after all slices were made so long that there are not too many.
    fn slice_of(&mut self, time_us: i64) -> i64 {
        loop {
            let slice = time_us.div_euclid(self.slice_us);
            let (first, last) = self.range.unwrap_or((slice, slice));
            let (first, last) = (first.min(slice), last.max(slice));
            if last.abs_diff(first) < SLICES_MAX {
                self.range = Some((first, last));
                return slice;
            }
            self.lengthen();
        }
    }

    /// Makes slices twice as long.
    fn lengthen(&mut self) {
        self.slice_us = self.slice_us.saturating_mul(2);
        self.range = self.range.map(|(first, last)| (first.div_euclid(2), last.div_euclid(2)));
        for tracked in self.tracked.values_mut() {
            let mut time_series: BTreeMap<i64, Sums> = BTreeMap::new();
            for (slice, sums) in std::mem::take(&mut tracked.time_series) {
                let longer = time_series.entry(slice.div_euclid(2)).or_default();
                longer.timed += sums.timed;
                longer.total_us = longer.total_us.saturating_add(sums.total_us);
            }
            tracked.time_series = time_series;
        }
    }

    fn finish(self) -> TimeSeries {
        let (first, last) = self.range.unwrap_or((0, -1));
        let mut queries: Vec<QueryTimeSeries> =
            self.tracked.into_iter().map(|(hash, tracked)| tracked.finish(hash, first)).collect();
        queries.sort_by(|one, other| {
            let weight = |query: &QueryTimeSeries| (query.total_us, query.calls);
            weight(other).cmp(&weight(one)).then(one.hash.cmp(&other.hash))
        });
        TimeSeries {
            first_us: self.range.map(|_| first.saturating_mul(self.slice_us)),
            last_us: self.last_us,
            slice_us: self.slice_us,
            slices: (last - first + 1) as u64,
            statements: self.statements,
            timed: self.all.timed,
            queries,
            others: self.others,
        }
    }
}

impl Tracked {
    fn finish(self, hash: u64, first: i64) -> QueryTimeSeries {
        let row_of =
            |(slice, sums): (i64, Sums)| (slice.abs_diff(first), sums.timed, sums.total_us);
        QueryTimeSeries {
            hash: format!("{hash:016x}"),
            text: self.text,
            class: self.class,
            calls: self.calls,
            timed: self.sums.timed,
            total_us: self.sums.total_us,
            errors: self.errors,
            time_series: self.time_series.into_iter().map(row_of).collect(),
        }
    }
}

impl Sums {
    fn add(&mut self, duration_us: u64) {
        self.timed += 1;
        self.total_us = self.total_us.saturating_add(duration_us);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;
    use crate::tests::{Owned, trace_of};

    /// 2026-11-21 08:00:00 UTC.
    const START_US: i64 = 1_795_248_000_000_000;

    fn time_series_of(statements: &[Owned]) -> TimeSeries {
        let folder = TempDir::new().unwrap();
        TimeSeries::of(&trace_of(&folder, statements, None)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn slices_add_up(
            rows in proptest::collection::vec(
                (0i64..40_000_000_000, 0usize..3, proptest::option::of(0u64..5_000)), 1..60),
        ) {
            let texts = ["select 1", "select 'x' from t", "update t set a = 5"];
            let statements: Vec<Owned> = rows
                .iter()
                .map(|&(offset_us, text, duration_us)| Owned {
                    duration_us,
                    ..Owned::new(0, START_US + offset_us, texts[text])
                })
                .collect();
            let time_series = time_series_of(&statements);
            prop_assert_eq!(time_series.statements, rows.len() as u64);
            prop_assert!(time_series.slices <= SLICES_MAX);
            let first_us = time_series.first_us.unwrap();
            let starts = rows.iter().map(|row| START_US + row.0);
            prop_assert!(first_us <= starts.clone().min().unwrap());
            let end_us = first_us + time_series.slices as i64 * time_series.slice_us;
            prop_assert!(starts.max().unwrap() < end_us);
            prop_assert_eq!(
                time_series.timed,
                time_series.queries.iter().map(|query| query.timed).sum::<u64>());
            for query in &time_series.queries {
                let sums = query.time_series.iter().fold((0, 0), |sum, slice| {
                    (sum.0 + slice.1, sum.1 + slice.2)
                });
                prop_assert_eq!(sums, (query.timed, query.total_us));
                prop_assert!(query.time_series.iter().all(|slice| slice.0 < time_series.slices));
            }
        }
    }

    #[test]
    fn a_statement_is_in_the_slice_in_which_it_began() {
        let at = |offset_us: i64, duration_us: u64| Owned {
            duration_us: Some(duration_us),
            ..Owned::new(0, START_US + offset_us, "select 1")
        };
        let time_series = time_series_of(&[at(0, 10), at(999, 20), at(1_000, 5_000)]);
        assert_eq!((time_series.slice_us, time_series.slices), (1_000, 2));
        assert_eq!(time_series.queries[0].time_series, [(0, 2, 30), (1, 1, 5_000)]);
        assert_eq!(time_series.last_us, Some(START_US + 6_000));
    }

    #[test]
    fn a_trace_without_statements_has_no_slices() {
        let time_series = time_series_of(&[]);
        assert_eq!((time_series.slices, time_series.first_us), (0, None));
        assert!(time_series.queries.is_empty());
    }
}
