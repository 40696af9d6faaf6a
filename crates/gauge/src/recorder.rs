//! The recorder of a worker: every single latency, by slice and kind.
//!
//! One recorder a worker. A completion costs one entry in a dense array of the current slice; when
//! the slice ends, the array is added to the sample's totals and to the shared timeline. The worker
//! holds its recorder's lock for a batch of completions, so that a sample can be closed even while
//! the worker hangs in a system call that never returns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::histogram::{Histogram, bucket_of};
use crate::in_flight::{InFlight, InFlightView};
use crate::operation::Operation;
use crate::outcome::{Accounting, AccountingError, Outcome};
use crate::stall::{QuietPeriod, WorkerQuietPeriods, keep_longest};
use crate::timeline::Timeline;

const KINDS: usize = Operation::ALL.len();

/// Quiet times kept for one worker, the longest; others are counted in `quiet_periods_dropped`.
const QUIET_PERIODS_MAX: usize = 16_384;

/// Completions of one kind in the current slice.
#[derive(Debug, Default)]
struct OpenSlice {
    counts: Vec<u32>,
    lowest: usize,
    highest: usize,
    entries: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

/// Totals of one operation kind.
#[derive(Clone, Debug, Default)]
pub struct KindTotals {
    /// Requests that ended well.
    pub completed: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Bytes that the completed requests moved.
    pub transferred_bytes: u64,
    /// Times from the intended start.
    pub response: Histogram,
    /// Times from the actual start; empty in a closed loop, where they are the same.
    pub service: Histogram,
}

#[derive(Debug, Default)]
struct Kind {
    totals: KindTotals,
    slice_bytes: u64,
    response: OpenSlice,
    service: OpenSlice,
}

/// Settings of a sample's recorders; the same for all its workers.
#[derive(Clone, Copy, Debug)]
pub struct RecorderSettings {
    /// The sample's start.
    pub start_ns: u64,
    /// Length of a slice.
    pub slice_ns: u64,
    /// A worker without completions for longer than this notes a quiet period.
    pub stall_threshold_ns: u64,
    /// Whether requests have an intended start apart from the actual one.
    pub scheduled: bool,
}

/// The recorder of one worker.
#[derive(Debug)]
pub struct Recorder {
    settings: RecorderSettings,
    in_flight: Arc<InFlight>,
    timeline: Arc<Mutex<Timeline>>,
    kinds: Box<[Kind]>,
    slice_index: u64,
    slice_end_ns: u64,
    last_end_ns: u64,
    quiet_periods: Vec<QuietPeriod>,
    quiet_periods_dropped: u64,
}

/// The result of a recorder.
#[derive(Debug)]
pub struct RecorderParts {
    /// The worker's terms of the accounting equation.
    pub outcome: Outcome,
    /// Totals by kind: operations, or the kinds of `with_kinds`.
    pub kinds: Vec<KindTotals>,
    /// Periods without completions, for finding stalls.
    pub quiet: WorkerQuietPeriods,
    /// Quiet periods beyond the bound.
    pub quiet_periods_dropped: u64,
}

impl Recorder {
    /// A recorder over a worker's flight and the sample's timeline.
    pub fn new(
        settings: RecorderSettings,
        in_flight: Arc<InFlight>,
        timeline: Arc<Mutex<Timeline>>,
    ) -> Recorder {
        Recorder::with_kinds(settings, in_flight, timeline, KINDS)
    }

    /// A recorder that counts by `kinds` kinds of the caller instead of operations.
    pub fn with_kinds(
        settings: RecorderSettings,
        in_flight: Arc<InFlight>,
        timeline: Arc<Mutex<Timeline>>,
        kinds: usize,
    ) -> Recorder {
        Recorder {
            settings,
            in_flight,
            timeline,
            kinds: (0..kinds).map(|_| Kind::default()).collect(),
            slice_index: 0,
            slice_end_ns: settings.start_ns + settings.slice_ns,
            last_end_ns: settings.start_ns,
            quiet_periods: Vec::new(),
            quiet_periods_dropped: 0,
        }
    }

    /// A request ended well at `at_ns`: its latency is recorded here. `intended_ns` is when it was
    /// due; in a closed loop, when the one before it had ended.
    #[inline]
    pub fn complete(&mut self, slot: usize, intended_ns: u64, at_ns: u64, transferred_bytes: u64) {
        self.advance(at_ns, intended_ns);
        let Some((operation, started_ns)) = self.in_flight.end(slot) else { return };
        self.record(operation.index(), started_ns, intended_ns, at_ns, transferred_bytes);
    }

    /// As [`Recorder::complete`], for a kind of the caller (`with_kinds`).
    pub fn complete_as(&mut self, kind: usize, slot: usize, at_ns: u64, transferred_bytes: u64) {
        self.advance(at_ns, at_ns);
        let Some((_, started_ns)) = self.in_flight.end(slot) else { return };
        self.record(kind, started_ns, started_ns, at_ns, transferred_bytes);
    }

    #[inline]
    fn record(
        &mut self,
        kind: usize,
        started_ns: u64,
        intended_ns: u64,
        at_ns: u64,
        transferred_bytes: u64,
    ) {
        let service_ns = at_ns.saturating_sub(started_ns);
        let kind = &mut self.kinds[kind];
        kind.totals.completed += 1;
        kind.slice_bytes += transferred_bytes;
        if self.settings.scheduled {
            kind.response.record(at_ns.saturating_sub(intended_ns));
            kind.service.record(service_ns);
        } else {
            kind.response.record(service_ns);
        }
    }

    /// A request ended with an error at `at_ns`: it is counted and has no latency.
    pub fn fail(&mut self, slot: usize, intended_ns: u64, at_ns: u64) {
        self.advance(at_ns, intended_ns);
        if let Some((operation, _)) = self.in_flight.end(slot) {
            self.kinds[operation.index()].totals.failed += 1;
        }
    }

    /// As [`Recorder::fail`], for a kind of the caller (`with_kinds`).
    pub fn fail_as(&mut self, kind: usize, slot: usize, at_ns: u64) {
        self.advance(at_ns, at_ns);
        if self.in_flight.end(slot).is_some() {
            self.kinds[kind].totals.failed += 1;
        }
    }

    /// Ends the sample at `end_ns`.
    pub fn finish(&mut self, end_ns: u64) -> Result<RecorderParts, AccountingError> {
        self.flush();
        let view = self.in_flight.view();
        let outcome = self.accounting(&view).close()?;
        self.quiet_periods.sort_unstable_by_key(|quiet| quiet.from_ns);
        Ok(RecorderParts {
            outcome,
            kinds: self.kinds.iter().map(|kind| kind.totals.clone()).collect(),
            quiet: WorkerQuietPeriods {
                quiet_periods: std::mem::take(&mut self.quiet_periods),
                last: self.quiet_until(end_ns, &view),
            },
            quiet_periods_dropped: self.quiet_periods_dropped,
        })
    }

    fn accounting(&self, view: &InFlightView) -> Accounting {
        Accounting {
            offered: self.in_flight.offered(),
            started: self.in_flight.started(),
            completed: self.kinds.iter().map(|kind| kind.totals.completed).sum(),
            failed: self.kinds.iter().map(|kind| kind.totals.failed).sum(),
            in_flight: u64::from(view.depth()),
        }
    }

    /// Advances to the time of a completion: notes a quiet period, ends slices that are over.
    #[inline]
    fn advance(&mut self, at_ns: u64, intended_ns: u64) {
        if at_ns.saturating_sub(self.last_end_ns) >= self.settings.stall_threshold_ns {
            self.note_quiet_period(at_ns, intended_ns);
        }
        if at_ns != self.last_end_ns {
            self.last_end_ns = at_ns;
            self.in_flight.completed_at(at_ns);
        }
        if at_ns >= self.slice_end_ns {
            self.end_slice(at_ns);
        }
    }

    /// A worker that could not start a due request was quiet too.
    #[cold]
    fn note_quiet_period(&mut self, at_ns: u64, intended_ns: u64) {
        let mut view = self.in_flight.view();
        view.oldest_start_ns = view.oldest_start_ns.map(|start_ns| start_ns.min(intended_ns));
        let quiet = self.quiet_until(at_ns, &view);
        let length_ns = |each: &QuietPeriod| each.to_ns - each.from_ns;
        let dropped = keep_longest(&mut self.quiet_periods, QUIET_PERIODS_MAX, quiet, length_ns);
        self.quiet_periods_dropped += u64::from(dropped);
    }

    fn quiet_until(&self, to_ns: u64, view: &InFlightView) -> QuietPeriod {
        QuietPeriod {
            from_ns: self.last_end_ns,
            busy_from_ns: view.oldest_start_ns.map(|start_ns| start_ns.max(self.last_end_ns)),
            // A request may end while the sample is being closed.
            to_ns: to_ns.max(self.last_end_ns),
            operations: view.operations,
        }
    }

    #[cold]
    fn end_slice(&mut self, at_ns: u64) {
        self.flush();
        self.slice_index = (at_ns - self.settings.start_ns) / self.settings.slice_ns;
        self.slice_end_ns =
            self.settings.start_ns + (self.slice_index + 1) * self.settings.slice_ns;
    }

    fn flush(&mut self) {
        let mut timeline = lock(&self.timeline);
        for (index, kind) in self.kinds.iter_mut().enumerate() {
            if kind.response.entries > 0 {
                let bytes = std::mem::take(&mut kind.slice_bytes);
                kind.totals.transferred_bytes += bytes;
                kind.response.add_to(&mut kind.totals.response);
                timeline.add(self.slice_index, index, bytes, |histogram| {
                    kind.response.add_to(histogram);
                });
                kind.response.clear();
            }
            if kind.service.entries > 0 {
                kind.service.add_to(&mut kind.totals.service);
                kind.service.clear();
            }
        }
    }
}

impl OpenSlice {
    #[inline]
    fn record(&mut self, value_ns: u64) {
        let bucket = bucket_of(value_ns);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        if self.entries == 0 {
            (self.lowest, self.highest) = (bucket, bucket);
            (self.min_ns, self.max_ns) = (value_ns, value_ns);
        } else {
            self.lowest = self.lowest.min(bucket);
            self.highest = self.highest.max(bucket);
            self.min_ns = self.min_ns.min(value_ns);
            self.max_ns = self.max_ns.max(value_ns);
        }
        self.entries += 1;
        self.sum_ns += u128::from(value_ns);
    }

    fn add_to(&self, histogram: &mut Histogram) {
        let used = self.counts[self.lowest..=self.highest].iter();
        let buckets =
            used.enumerate().map(|(index, &count)| (self.lowest + index, u64::from(count)));
        histogram.merge_buckets(buckets, self.min_ns, self.max_ns, self.sum_ns);
    }

    fn clear(&mut self) {
        self.counts[self.lowest..=self.highest].fill(0);
        self.entries = 0;
        self.sum_ns = 0;
    }
}

/// Locks a mutex even if a thread panicked while it held it: the sample ends anyway.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn recorder(depth: usize, scheduled: bool) -> (Recorder, Arc<InFlight>, Arc<Mutex<Timeline>>) {
        let in_flight = Arc::new(InFlight::new(depth, 0));
        let timeline = Arc::new(Mutex::new(Timeline::new(100 * MS)));
        let settings = RecorderSettings {
            start_ns: 0,
            slice_ns: 100 * MS,
            stall_threshold_ns: 50 * MS,
            scheduled,
        };
        (Recorder::new(settings, in_flight.clone(), timeline.clone()), in_flight, timeline)
    }

    proptest! {
        /// Offers, starts, completions and failures in any order that a queue can live through.
        #[test]
        fn the_equation_holds_for_any_interleaving(
            events in proptest::collection::vec((0u8..4, 1u64..40 * MS), 0..400),
        ) {
            let (mut recorder, in_flight, _timeline) = recorder(4, false);
            let (mut now_ns, mut waiting, mut busy) = (0u64, 0u64, Vec::new());
            let (mut completed, mut failed) = (0u64, 0u64);
            for (event, step_ns) in events {
                now_ns += step_ns;
                match event {
                    0 => { in_flight.offer(); waiting += 1; }
                    1 if waiting > 0 => {
                        if let Some(slot) = (0..4).find(|slot| !busy.contains(slot)) {
                            in_flight.begin(slot, Operation::ALL[slot], now_ns);
                            busy.push(slot);
                            waiting -= 1;
                        }
                    }
                    2 if !busy.is_empty() => {
                        recorder.complete(busy.remove(0), 0, now_ns, 512);
                        completed += 1;
                    }
                    3 if !busy.is_empty() => {
                        recorder.fail(busy.remove(0), now_ns, now_ns);
                        failed += 1;
                    }
                    _ => {}
                }
            }
            let parts = recorder.finish(now_ns).unwrap();
            prop_assert!(parts.outcome.adds_up());
            prop_assert_eq!(parts.outcome.late_skipped, waiting);
            prop_assert_eq!(parts.outcome.in_flight_at_end, busy.len() as u64);
            prop_assert_eq!((parts.outcome.completed, parts.outcome.failed), (completed, failed));
            let recorded: u64 = parts.kinds.iter().map(|kind| kind.response.entries()).sum();
            prop_assert_eq!(recorded, completed);
        }
    }

    #[test]
    fn a_slot_reaped_twice_breaks_the_equation() {
        let (mut recorder, in_flight, _timeline) = recorder(1, false);
        in_flight.offer();
        in_flight.begin(0, Operation::Read, 0);
        recorder.complete(0, 0, 5, 512);
        recorder.kinds[0].totals.completed += 1;
        assert!(recorder.finish(10).is_err());
    }

    #[test]
    fn response_counts_from_the_intended_start_and_service_from_the_actual_one() {
        let (mut recorder, in_flight, _timeline) = recorder(1, true);
        in_flight.offer();
        in_flight.begin(0, Operation::Write, 30 * MS);
        recorder.complete(0, 10 * MS, 31 * MS, 4096);
        let totals = &recorder.finish(40 * MS).unwrap().kinds[Operation::Write.index()];
        assert_eq!((totals.response.max_ns(), totals.service.max_ns()), (21 * MS, MS));
        assert_eq!((totals.completed, totals.transferred_bytes), (1, 4096));
    }

    #[test]
    fn totals_and_timeline_hold_the_same_entries() {
        let (mut recorder, in_flight, timeline) = recorder(1, false);
        for step in 0..1_000u64 {
            in_flight.offer();
            in_flight.begin(0, Operation::Read, step * MS);
            recorder.complete(0, 0, step * MS + 1 + step * step, 512);
        }
        let totals = recorder.finish(1_000 * MS).unwrap().kinds[0].clone();
        drop(recorder);
        let (_, rows) = Arc::try_unwrap(timeline).unwrap().into_inner().unwrap().into_rows();
        let mut pooled = Histogram::new();
        for row in &rows {
            pooled.merge(&Histogram::decode(&row.response).unwrap());
        }
        assert_eq!((rows.len(), pooled), (10, totals.response));
    }

    #[test]
    fn a_quiet_time_starts_at_the_last_completion_or_the_oldest_start() {
        let (mut recorder, in_flight, _timeline) = recorder(2, false);
        in_flight.begin(0, Operation::Read, 0);
        in_flight.begin(1, Operation::Write, 20 * MS);
        in_flight.offer();
        in_flight.offer();
        recorder.complete(0, 0, 70 * MS, 512);
        recorder.complete(1, 0, 75 * MS, 512);
        let quiet = recorder.finish(80 * MS).unwrap().quiet;
        let expected = QuietPeriod {
            from_ns: 0,
            busy_from_ns: Some(0),
            to_ns: 70 * MS,
            operations: [1, 1, 0, 0, 0, 0],
        };
        assert_eq!(quiet.quiet_periods, [expected]);
        assert_eq!((quiet.last.from_ns, quiet.last.busy_from_ns), (75 * MS, None));
    }

    #[test]
    fn the_longest_quiet_times_are_kept_in_order() {
        let (mut recorder, in_flight, _timeline) = recorder(1, false);
        let places = QUIET_PERIODS_MAX as u64;
        let mut now_ns = 0;
        for length_ms in (0..places).map(|_| 60).chain([500, 60]) {
            in_flight.offer();
            in_flight.begin(0, Operation::Read, now_ns);
            now_ns += length_ms * MS;
            recorder.complete(0, 0, now_ns, 512);
        }
        let parts = recorder.finish(now_ns).unwrap();
        let kept = &parts.quiet.quiet_periods;
        assert_eq!((kept.len(), parts.quiet_periods_dropped), (QUIET_PERIODS_MAX, 2));
        assert!(kept.is_sorted_by_key(|quiet| quiet.from_ns));
        let last = kept.last().unwrap();
        assert_eq!((last.from_ns, last.to_ns), (places * 60 * MS, (places * 60 + 500) * MS));
    }

    #[test]
    fn a_request_that_ends_while_the_sample_is_closed_makes_no_quiet_time() {
        let (mut recorder, in_flight, _timeline) = recorder(1, false);
        in_flight.begin(0, Operation::Read, 0);
        in_flight.offer();
        recorder.complete(0, 0, 120 * MS, 512);
        let quiet = recorder.finish(100 * MS).unwrap().quiet;
        assert_eq!((quiet.last.from_ns, quiet.last.to_ns), (120 * MS, 120 * MS));
        assert_eq!(crate::find_stalls(&[quiet], 100 * MS, 50 * MS).len(), 1);
    }

    /// A worker that is stopped between two requests has nothing outstanding, but is stalled.
    #[test]
    fn a_request_that_was_due_counts_as_outstanding_before_its_start() {
        for (intended_ms, busy_ms) in [(10, 10), (300, 300)] {
            let (mut recorder, in_flight, _timeline) = recorder(1, intended_ms == 300);
            in_flight.begin(0, Operation::Read, 9 * MS);
            in_flight.offer();
            recorder.complete(0, 9 * MS, 10 * MS, 512);
            in_flight.begin(0, Operation::Read, 900 * MS);
            in_flight.offer();
            recorder.complete(0, intended_ms * MS, 901 * MS, 512);
            let quiet = recorder.finish(950 * MS).unwrap().quiet.quiet_periods[0];
            assert_eq!((quiet.from_ns, quiet.busy_from_ns), (10 * MS, Some(busy_ms * MS)));
        }
    }
}
