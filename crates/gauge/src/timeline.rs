//! Completions by time: a histogram for every slice and operation kind, within bounded memory.
//!
//! Slices without completions take no memory. Current slices are kept open; older ones
//! are kept encoded (two or three bytes a bucket). When a long or scattered sample would outgrow
//! its budget, neighbouring slices are merged in pairs: resolution in time is halved, and nothing
//! else is lost. The bound for an hour is stated and tested: 64 MiB.
//!
//! A kind is a number here; its name belongs to the user of the timeline: the load engine knows a
//! fixed set ([`crate::Operation`]), a log or a replay has the kinds that its scripts have.

use std::collections::BTreeMap;

use crate::histogram::Histogram;

/// Memory for encoded slices. Together with open slices, the recorders of 64 workers and the map's
/// nodes it fits into 64 MiB.
const BUDGET_BYTES: usize = 40 << 20;

/// Overhead of one encoded row in addition to its bytes: map node, box, counters.
const ROW_OVERHEAD_BYTES: usize = 96;

/// Slices kept open behind the newest one; workers flush within one slice of each other.
const OPEN_SLICES: u64 = 3;

/// Slice and kind.
type Key = (u64, usize);

/// One operation kind in one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceRow {
    /// The slice covers `[index, index + 1) * slice_ns` from the sample's start.
    pub index: u64,
    /// The kind.
    pub kind: usize,
    /// Completed requests.
    pub completed: u64,
    /// Bytes that they transferred.
    pub transferred_bytes: u64,
    /// Their response times, encoded.
    pub response: Vec<u8>,
}

/// Completions of some whole slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Length of the slices together; 0 before the first is over.
    pub length_ns: u64,
    /// Requests of all kinds that count.
    pub completed: u64,
    /// Bytes transferred.
    pub transferred_bytes: u64,
    /// Response times, one entry for each request of any kind.
    pub response: Histogram,
}

#[derive(Debug, Default)]
struct OpenRow {
    transferred_bytes: u64,
    response: Histogram,
}

#[derive(Debug)]
struct ClosedRow {
    completed: u64,
    transferred_bytes: u64,
    response: Box<[u8]>,
}

/// The timeline of one sample, shared by its workers.
#[derive(Debug)]
pub struct Timeline {
    base_slice_ns: u64,
    /// Times that neighbouring slices were merged in pairs.
    halvings: u32,
    open: BTreeMap<Key, OpenRow>,
    closed: BTreeMap<Key, ClosedRow>,
    closed_bytes: usize,
    budget_bytes: usize,
}

impl Timeline {
    /// An empty timeline with slices of `slice_ns`.
    pub fn new(slice_ns: u64) -> Timeline {
        Timeline::with_budget(slice_ns, BUDGET_BYTES)
    }

    /// An empty timeline whose closed slices take at most the given memory.
    pub fn with_budget(slice_ns: u64, budget_bytes: usize) -> Timeline {
        Timeline {
            base_slice_ns: slice_ns.max(1),
            halvings: 0,
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            closed_bytes: 0,
            budget_bytes,
        }
    }

    /// Length of a slice now; it doubles when memory would run out.
    pub fn slice_ns(&self) -> u64 {
        self.base_slice_ns << self.halvings
    }

    /// Adds what one worker completed in one slice. `base_index` counts slices of the length that
    /// the timeline was made with. `fill` adds to the slice's histogram.
    pub fn add(
        &mut self,
        base_index: u64,
        kind: usize,
        transferred_bytes: u64,
        fill: impl FnOnce(&mut Histogram),
    ) {
        let key = (base_index >> self.halvings, kind);
        let row = self.open.entry(key).or_default();
        if let Some(closed) = self.closed.remove(&key) {
            self.closed_bytes -= closed.cost_bytes();
            row.take_in(&closed);
        }
        row.transferred_bytes += transferred_bytes;
        fill(&mut row.response);
        self.close_before(key.0.saturating_sub(OPEN_SLICES));
    }

    /// Completions of the last whole slices before `now_ns` (from the sample's start) that make
    /// up `window_ns`. The current slice is left out: workers add a slice when it is over. Requests
    /// of the kind `uncounted` are none of the completed ones.
    pub fn last(&self, window_ns: u64, now_ns: u64, uncounted: Option<usize>) -> Window {
        let end = now_ns / self.slice_ns();
        let begin = end.saturating_sub((window_ns / self.slice_ns()).max(1));
        let keys = (begin, 0)..(end, 0);
        let mut window = Window { length_ns: (end - begin) * self.slice_ns(), ..Window::default() };
        let mut add = |kind, transferred_bytes, response: &Histogram| {
            window.completed += if uncounted == Some(kind) { 0 } else { response.entries() };
            window.transferred_bytes += transferred_bytes;
            window.response.merge(response);
        };
        for (&(_, kind), row) in self.closed.range(keys.clone()) {
            add(kind, row.transferred_bytes, &row.histogram());
        }
        for (&(_, kind), row) in self.open.range(keys) {
            add(kind, row.transferred_bytes, &row.response);
        }
        window
    }

    /// The length of a slice in ns, and all rows in order of time.
    pub fn into_rows(mut self) -> (u64, Vec<SliceRow>) {
        self.close_before(u64::MAX);
        let row_of = |((index, kind), row): (Key, ClosedRow)| SliceRow {
            index,
            kind,
            completed: row.completed,
            transferred_bytes: row.transferred_bytes,
            response: row.response.into_vec(),
        };
        (self.slice_ns(), std::mem::take(&mut self.closed).into_iter().map(row_of).collect())
    }

    /// Memory used, as the timeline counts it.
    pub fn memory_bytes(&self) -> usize {
        let open_bytes: usize =
            self.open.values().map(|row| row.response.memory_bytes() + ROW_OVERHEAD_BYTES).sum();
        self.closed_bytes + open_bytes
    }

    fn close_before(&mut self, index: u64) {
        while let Some(entry) = self.open.first_entry() {
            if entry.key().0 >= index {
                break;
            }
            let (key, row) = entry.remove_entry();
            // A merge of pairs may have left the slice's first half closed already.
            let closed = match self.closed.remove(&key) {
                Some(first_half) => {
                    self.closed_bytes -= first_half.cost_bytes();
                    row.close().joined(&first_half)
                }
                None => row.close(),
            };
            self.closed_bytes += closed.cost_bytes();
            self.closed.insert(key, closed);
        }
        while self.closed_bytes > self.budget_bytes && self.closed_slices_are_several() {
            self.merge_pairs();
        }
    }

    /// The rows of one slice cannot be merged any further.
    fn closed_slices_are_several(&self) -> bool {
        let index = |row: Option<(&Key, &ClosedRow)>| row.map(|(key, _)| key.0);
        index(self.closed.first_key_value()) != index(self.closed.last_key_value())
    }

    fn merge_pairs(&mut self) {
        self.halvings += 1;
        let mut merged: BTreeMap<Key, ClosedRow> = BTreeMap::new();
        for ((index, kind), row) in std::mem::take(&mut self.closed) {
            let key = (index / 2, kind);
            let row = match merged.remove(&key) {
                Some(first) => first.joined(&row),
                None => row,
            };
            merged.insert(key, row);
        }
        self.closed = merged;
        self.closed_bytes = self.closed.values().map(ClosedRow::cost_bytes).sum();
        for ((index, kind), row) in std::mem::take(&mut self.open) {
            let joined = self.open.entry((index / 2, kind)).or_default();
            joined.transferred_bytes += row.transferred_bytes;
            joined.response.merge(&row.response);
        }
    }
}

impl OpenRow {
    fn take_in(&mut self, closed: &ClosedRow) {
        self.transferred_bytes += closed.transferred_bytes;
        self.response.merge(&closed.histogram());
    }

    fn close(self) -> ClosedRow {
        ClosedRow {
            completed: self.response.entries(),
            transferred_bytes: self.transferred_bytes,
            response: self.response.encode().into_boxed_slice(),
        }
    }
}

impl ClosedRow {
    fn cost_bytes(&self) -> usize {
        self.response.len() + ROW_OVERHEAD_BYTES
    }

    /// The row's own bytes, written by `encode` above: they cannot be damaged.
    fn histogram(&self) -> Histogram {
        Histogram::decode(&self.response).unwrap_or_default()
    }

    fn joined(self, other: &ClosedRow) -> ClosedRow {
        let mut row = OpenRow::default();
        row.take_in(&self);
        row.take_in(other);
        row.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(timeline: &mut Timeline, index: u64, latency_ns: u64) {
        timeline.add(index, 0, 512, |histogram| histogram.record(latency_ns));
    }

    fn total(rows: &[SliceRow]) -> Histogram {
        let mut pooled = Histogram::new();
        for row in rows {
            pooled.merge(&Histogram::decode(&row.response).unwrap());
        }
        pooled
    }

    proptest! {
        /// However late a worker flushes and however small the budget: nothing is lost.
        #[test]
        fn every_completion_is_in_some_slice(
            entries in proptest::collection::vec((0u64..200, 1u64..1_000_000_000), 1..300),
            budget_bytes in 500usize..50_000,
        ) {
            let mut timeline = Timeline::with_budget(100, budget_bytes);
            let mut pooled = Histogram::new();
            for &(index, latency_ns) in &entries {
                add(&mut timeline, index, latency_ns);
                pooled.record(latency_ns);
            }
            let (slice_ns, rows) = timeline.into_rows();
            prop_assert_eq!(total(&rows), pooled);
            prop_assert!(rows.windows(2).all(|pair| pair[0].index < pair[1].index));
            let last_ns = rows.last().map(|row| row.index * slice_ns);
            let latest_ns = entries.iter().map(|&(index, _)| index * 100).max();
            prop_assert!(last_ns <= latest_ns && latest_ns < last_ns.map(|ns| ns + slice_ns));
        }
    }

    /// An hour at 100 ms in which every slice scatters a thousand reads and a thousand writes
    /// over four decades of latency: far worse than any device.
    #[test]
    fn an_hour_of_scattered_latencies_stays_within_64_mib() {
        let mut timeline = Timeline::new(100_000_000);
        let mut state = 1u64;
        let mut worst_bytes = 0;
        for index in 0..36_000 {
            for kind in [0, 1] {
                timeline.add(index, kind, 512_000, |histogram| {
                    for _ in 0..1_000 {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        let exponent = 10_000.0 * 10f64.powf((state >> 40) as f64 / 4194304.0);
                        histogram.record(exponent as u64);
                    }
                });
            }
            worst_bytes = worst_bytes.max(timeline.memory_bytes());
        }
        assert!(worst_bytes < 64 << 20, "{worst_bytes} bytes");
        assert!(timeline.slice_ns() > 100_000_000, "the budget was never reached: test more");
    }

    /// One slice of many kinds cannot be merged with anything, however small the budget is.
    #[test]
    fn a_slice_of_many_kinds_is_kept_whole() {
        let mut timeline = Timeline::with_budget(100, 500);
        for kind in 0..40 {
            timeline.add(7, kind, 512, |histogram| histogram.record(1_000));
        }
        let (slice_ns, rows) = timeline.into_rows();
        assert_eq!((slice_ns, rows.len()), (100, 40));
        assert!(rows.iter().enumerate().all(|(kind, row)| (row.kind, row.index) == (kind, 7)));
    }

    #[test]
    fn the_last_second_can_be_read_while_it_is_filled() {
        let mut timeline = Timeline::new(100_000_000);
        (0..50).for_each(|index| add(&mut timeline, index, 1_000 + index));
        let last = |now_ms: u64| timeline.last(1_000_000_000, now_ms * 1_000_000, None);
        let window = last(5_000);
        assert_eq!((window.length_ns, window.transferred_bytes), (1_000_000_000, 5_120));
        assert_eq!((window.response.min_ns(), window.response.max_ns()), (1_040, 1_049));
        assert_eq!(last(5_099), window, "the slice under way is not there yet");
        assert_eq!(last(5_100).response.entries(), 9);
        assert_eq!(last(250).length_ns, 200_000_000);
        assert_eq!(last(99), Window::default());
    }

    #[test]
    fn an_uncounted_kind_has_times_but_is_none_of_the_completed() {
        let mut timeline = Timeline::new(100);
        for (kind, count) in [(1, 3), (2, 2)] {
            (0..count).for_each(|_| timeline.add(0, kind, 512, |times| times.record(70)));
        }
        let counts = |uncounted| {
            let window = timeline.last(100, 100, uncounted);
            (window.completed, window.transferred_bytes, window.response.entries())
        };
        assert_eq!((counts(None), counts(Some(2))), ((5, 2560, 5), (3, 2560, 5)));
    }
}
