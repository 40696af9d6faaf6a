//! When statements were due, sent and answered: lag, timeline, stalls.

use seatrial_gauge::{Histogram, STALLS_MAX, keep_longest};

use super::accounting::{DelayCause, Times};
use super::item::Item;
use super::played::{Lag, Stall, TimelineSlice};

/// A lag above this is late.
const LATE_NS: u64 = 1_000_000;

/// A statement is overdue after this many times its captured duration; as many median latencies are
/// normal in the finding `stall`.
const OVERDUE_FACTOR: u64 = 4;

/// Maximum slices of a playback's timeline; beyond it, each becomes twice as long.
const MOMENTS_MAX: usize = 2_048;

/// Maximum slices of the capture: at maximum speed it may be much longer than the playback.
const CAPTURED_MAX: usize = 1 << 18;

/// How late statements were sent, and whose fault it was.
///
/// A late statement counts against the greater part of its lag: what it waited for until it could
/// be sent, or the driver from then on.
#[derive(Debug, Default)]
pub struct LagRecorder {
    within_1ms: u64,
    late: [u64; 4],
    lags: Histogram,
    driver: Histogram,
    due_ns_last: u64,
    sent_ns_last: u64,
}

impl LagRecorder {
    /// Records a statement that was sent.
    #[inline]
    pub fn take(&mut self, times: &Times) {
        self.driver.record(times.sent_ns.saturating_sub(times.sendable_ns));
        let (Some(due_ns), Some(lag_ns)) = (times.due_ns, times.lag_ns()) else { return };
        self.due_ns_last = self.due_ns_last.max(due_ns);
        self.sent_ns_last = self.sent_ns_last.max(times.sent_ns);
        self.lags.record(lag_ns);
        if lag_ns <= LATE_NS {
            self.within_1ms += 1;
        } else {
            self.late[times.main_cause() as usize] += 1;
        }
    }

    /// Lags after due times.
    pub fn lags(&self) -> &Histogram {
        &self.lags
    }

    /// Lags of the driver alone.
    pub fn driver_lags(&self) -> &Histogram {
        &self.driver
    }

    /// The results.
    pub fn finish(self) -> Lag {
        let late_by = |delay_cause: DelayCause| self.late[delay_cause as usize];
        Lag {
            paced: self.lags.entries(),
            within_1ms: self.within_1ms,
            ns_p50: self.lags.percentile_ns(50.0),
            ns_p99: self.lags.percentile_ns(99.0),
            ns_max: self.lags.max_ns(),
            late_by_session: late_by(DelayCause::Session),
            late_by_order: late_by(DelayCause::Order),
            late_by_connections: late_by(DelayCause::Connections),
            late_by_driver: late_by(DelayCause::Nothing),
            driver_ns_p99: self.driver.percentile_ns(99.0),
            driver_ns_max: self.driver.max_ns(),
            due_ns_last: self.due_ns_last,
            sent_ns_last: self.sent_ns_last,
        }
    }
}

/// Slices of a timeline, two of which can be merged.
trait Mergeable: Clone + Default {
    fn join(&mut self, next: &Self);
}

impl Mergeable for u32 {
    fn join(&mut self, next: &u32) {
        *self = self.saturating_add(*next);
    }
}

/// Slices of equal length, up to a maximum number.
#[derive(Debug)]
struct Series<S> {
    slice_ns: u64,
    slots_max: usize,
    slots: Vec<S>,
}

impl<S: Mergeable> Series<S> {
    fn new(slice_ns: u64, slots_max: usize) -> Series<S> {
        Series { slice_ns: slice_ns.max(1), slots_max, slots: Vec::new() }
    }

    #[inline]
    fn at(&mut self, time_ns: u64) -> &mut S {
        let mut index = time_ns / self.slice_ns;
        while index >= self.slots_max as u64 {
            self.lengthen();
            index = time_ns / self.slice_ns;
        }
        let index = index as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, S::default());
        }
        &mut self.slots[index]
    }

    /// Doubles the length of slices.
    #[cold]
    fn lengthen(&mut self) {
        self.slice_ns = self.slice_ns.saturating_mul(2);
        for index in 0..self.slots.len().div_ceil(2) {
            let mut joined = std::mem::take(&mut self.slots[index * 2]);
            if let Some(next) = self.slots.get(index * 2 + 1) {
                joined.join(next);
            }
            self.slots[index] = joined;
        }
        self.slots.truncate(self.slots.len().div_ceil(2));
    }
}

/// A slice of the playback.
#[derive(Clone, Debug, Default)]
struct Slice {
    answered: u64,
    failed: u64,
    due: u64,
    lag_ns_sum: u64,
    lag_ns_max: u64,
    response_ns_sum: u64,
    sessions: Option<u32>,
}

impl Mergeable for Slice {
    fn join(&mut self, next: &Slice) {
        self.answered += next.answered;
        self.failed += next.failed;
        self.due += next.due;
        self.lag_ns_sum = self.lag_ns_sum.saturating_add(next.lag_ns_sum);
        self.lag_ns_max = self.lag_ns_max.max(next.lag_ns_max);
        self.response_ns_sum = self.response_ns_sum.saturating_add(next.response_ns_sum);
        self.sessions = next.sessions.or(self.sessions);
    }
}

/// The playback by slices of time, together with the capture.
///
/// Where statements are due, those of the capture are put where they were due; at maximum speed,
/// where they were in the capture's own time, and what was captured later than the playback lasted
/// is left out. What the playback never came to is in neither.
#[derive(Debug)]
pub struct PlaybackTimeline {
    start_us: i64,
    speed: Option<f64>,
    slices: Series<Slice>,
    captured: Series<u32>,
}

impl PlaybackTimeline {
    /// An empty timeline, of a capture that begins at a time.
    pub fn new(slice_ns: u64, start_us: i64, speed: Option<f64>) -> PlaybackTimeline {
        PlaybackTimeline {
            start_us,
            speed,
            slices: Series::new(slice_ns, MOMENTS_MAX),
            captured: Series::new(slice_ns, CAPTURED_MAX),
        }
    }

    /// Records a statement of the capture, whatever its outcome.
    #[inline]
    pub fn captured(&mut self, start_us: i64) {
        let since_us = start_us.saturating_sub(self.start_us).max(0) as u64;
        let since_ns = since_us.saturating_mul(1_000);
        // A float of 2^53 ns is exact to a hundred days.
        let at_ns = self.speed.map_or(since_ns, |speed| (since_ns as f64 / speed) as u64);
        *self.captured.at(at_ns) += 1;
    }

    /// Records a statement that was answered.
    #[inline]
    pub fn answered(&mut self, times: &Times, is_ok: bool) {
        let slice = self.slices.at(times.ended_ns);
        slice.answered += 1;
        slice.failed += u64::from(!is_ok);
        slice.response_ns_sum = slice.response_ns_sum.saturating_add(times.response_ns());
        self.sent(times);
    }

    /// Records a statement that was sent.
    #[inline]
    pub fn sent(&mut self, times: &Times) {
        let Some(lag_ns) = times.lag_ns() else { return };
        let slice = self.slices.at(times.sent_ns);
        slice.due += 1;
        slice.lag_ns_sum = slice.lag_ns_sum.saturating_add(lag_ns);
        slice.lag_ns_max = slice.lag_ns_max.max(lag_ns);
    }

    /// Records the number of connected sessions from a time on.
    pub fn sessions_open(&mut self, at_ns: u64, open: u32) {
        self.slices.at(at_ns).sessions = Some(open);
    }

    /// The length of a slice, and all slices up to the end.
    pub fn finish(mut self, duration_ns: u64) -> (u64, Vec<TimelineSlice>) {
        self.slices.at(duration_ns.saturating_sub(1));
        let is_paced = self.speed.is_some();
        while self.slices.slice_ns < self.captured.slice_ns
            || (is_paced && self.captured.slots.len() > MOMENTS_MAX)
        {
            if self.captured.slice_ns <= self.slices.slice_ns {
                self.captured.lengthen();
            } else {
                self.slices.lengthen();
            }
        }
        while self.captured.slice_ns < self.slices.slice_ns {
            self.captured.lengthen();
        }
        let captured = &self.captured.slots;
        let of_capture = if is_paced { captured.len() } else { 0 };
        let length = self.slices.slots.len().max(of_capture);
        self.slices.slots.resize(length, Slice::default());
        let mut sessions = 0;
        let report = |(index, slice): (usize, &Slice)| {
            sessions = slice.sessions.unwrap_or(sessions);
            let captured = captured.get(index).copied().unwrap_or(0);
            slice.reported(u64::from(captured), sessions)
        };
        (self.slices.slice_ns, self.slices.slots.iter().enumerate().map(report).collect())
    }
}

impl Slice {
    fn reported(&self, captured: u64, sessions: u32) -> TimelineSlice {
        let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
        TimelineSlice {
            answered: self.answered,
            failed: self.failed,
            captured,
            due: self.due,
            lag_ns_mean: mean(self.lag_ns_sum, self.due),
            lag_ns_max: (self.due > 0).then_some(self.lag_ns_max),
            response_ns_mean: mean(self.response_ns_sum, self.answered),
            sessions,
        }
    }
}

/// When the first of the open statements is overdue, given each with the time at which it was sent;
/// the maximum if none will be.
///
/// One is overdue after [`OVERDUE_FACTOR`] times its captured duration. If that is unknown, a
/// statement that is open alone may just be a long one; of several at least one is taken to be
/// short, unless they ended with an error in the capture, such as that of a timeout.
pub fn overdue_ns<'a>(open: impl Iterator<Item = (u64, &'a Item)>) -> u64 {
    let mut overdue_ns = u64::MAX;
    // The times of the first two statements of unknown duration.
    let mut unknown_ns = [u64::MAX; 2];
    for (sent_ns, item) in open {
        if let Some(duration_us) = item.duration_us {
            let usual_ns = duration_us.saturating_mul(1_000 * OVERDUE_FACTOR);
            overdue_ns = overdue_ns.min(sent_ns.saturating_add(usual_ns));
        } else if item.error.is_none() {
            let [first, second] = unknown_ns;
            unknown_ns = [first.min(sent_ns), second.min(first.max(sent_ns))];
        }
    }
    overdue_ns.min(unknown_ns[1])
}

/// Times in which statements were open and none was answered.
#[derive(Debug)]
pub struct StallWatch {
    threshold_ns: u64,
    open: u32,
    /// The time of the last answer, or of the first statement sent when none was open.
    since_ns: u64,
    kept: Vec<Stall>,
    dropped: u64,
}

impl StallWatch {
    /// Without open statements.
    pub fn new(threshold_ns: u64) -> StallWatch {
        StallWatch { threshold_ns, open: 0, since_ns: 0, kept: Vec::new(), dropped: 0 }
    }

    /// Records that a statement was sent.
    #[inline]
    pub fn sent(&mut self, at_ns: u64) {
        if self.open == 0 {
            self.since_ns = at_ns;
        }
        self.open += 1;
    }

    /// Whether the gap until a time is long enough for a stall.
    #[inline]
    pub fn is_gap(&self, at_ns: u64) -> bool {
        at_ns.saturating_sub(self.since_ns) >= self.threshold_ns && self.open > 0
    }

    /// The current gap is expected until a time.
    pub fn expect_gap(&mut self, until_ns: u64) {
        self.since_ns = self.since_ns.max(until_ns);
    }

    /// Records that a statement was answered or given up.
    #[inline]
    pub fn ended(&mut self, at_ns: u64) {
        if self.is_gap(at_ns) {
            self.note(at_ns - self.since_ns);
        }
        self.since_ns = self.since_ns.max(at_ns);
        self.open = self.open.saturating_sub(1);
    }

    #[cold]
    fn note(&mut self, length_ns: u64) {
        let stall = Stall { start_ns: self.since_ns, length_ns, depth: self.open };
        let dropped = keep_longest(&mut self.kept, STALLS_MAX, stall, |each| each.length_ns);
        self.dropped += u64::from(dropped);
    }

    /// The kept stalls, and the number of further ones.
    pub fn finish(mut self) -> (Vec<Stall>, u64) {
        self.kept.sort_by_key(|stall| stall.start_ns);
        (self.kept, self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS_NS: u64 = 1_000_000;

    fn times(due_ns: u64, sendable_ns: u64, sent_ns: u64, delay_cause: DelayCause) -> Times {
        Times { due_ns: Some(due_ns), sendable_ns, sent_ns, ended_ns: sent_ns + MS_NS, delay_cause }
    }

    #[test]
    fn cause_of_the_lag_is_reported() {
        let mut lag = LagRecorder::default();
        lag.take(&times(0, 0, MS_NS, DelayCause::Nothing));
        lag.take(&times(0, 5 * MS_NS, 6 * MS_NS, DelayCause::Session));
        lag.take(&times(0, 5 * MS_NS, 6 * MS_NS, DelayCause::Order));
        lag.take(&times(0, 5 * MS_NS, 5 * MS_NS, DelayCause::Connections));
        lag.take(&times(0, 0, 2 * MS_NS, DelayCause::Nothing));
        // It waited for its session for a moment, and for the driver for long.
        lag.take(&times(0, MS_NS, 9 * MS_NS, DelayCause::Session));
        lag.take(&times(3 * MS_NS, 3 * MS_NS, 3 * MS_NS, DelayCause::Nothing));
        let lag = lag.finish();
        assert_eq!((lag.paced, lag.within_1ms), (7, 2));
        assert_eq!((lag.due_ns_last, lag.sent_ns_last), (3 * MS_NS, 9 * MS_NS));
        let late = [lag.late_by_session, lag.late_by_order, lag.late_by_connections];
        assert_eq!((late, lag.late_by_driver), ([1, 1, 1], 2));
        assert_eq!((lag.ns_max, lag.driver_ns_max), (9 * MS_NS, 8 * MS_NS));
    }

    #[test]
    fn at_maximum_speed_nothing_is_due() {
        let mut lag = LagRecorder::default();
        lag.take(&Times { due_ns: None, ..times(0, 0, 3 * MS_NS, DelayCause::Nothing) });
        let lag = lag.finish();
        assert_eq!((lag.paced, lag.late_by_driver, lag.driver_ns_max), (0, 0, 3 * MS_NS));
    }

    #[test]
    fn captured_statements_are_counted_when_they_are_due() {
        let mut timeline = PlaybackTimeline::new(1_000, 50, Some(2.0));
        [50, 51, 54, 55, 60].into_iter().for_each(|start_us| timeline.captured(start_us));
        timeline.answered(&times(2_000, 2_000, 2_500, DelayCause::Nothing), true);
        timeline.sessions_open(100, 2);
        let (slice_ns, slices) = timeline.finish(1_500_000);
        assert_eq!((slice_ns, slices.len()), (1_000, 1_500));
        let captured: Vec<u64> = slices[..6].iter().map(|slice| slice.captured).collect();
        assert_eq!(captured, [2, 0, 2, 0, 0, 1]);
        assert_eq!((slices[2].lag_ns_max, slices[2].lag_ns_mean), (Some(500), Some(500.0)));
        assert_eq!((slices[1_002].answered, slices[1_002].lag_ns_max), (1, None));
        assert!(slices.iter().all(|slice| slice.sessions == 2));
    }

    #[test]
    fn at_maximum_speed_the_timeline_ends_with_the_playback() {
        let mut timeline = PlaybackTimeline::new(1_000, 0, None);
        (0..1_000_000).for_each(|start_us| timeline.captured(start_us));
        timeline.answered(&Times { due_ns: None, ..times(0, 0, 0, DelayCause::Nothing) }, false);
        let (slice_ns, slices) = timeline.finish(MS_NS + 1);
        assert_eq!((slice_ns, slices.len()), (4_000, 251));
        assert!(slices.iter().all(|slice| slice.captured == 4));
        assert_eq!((slices[250].answered, slices[250].failed), (1, 1));
    }

    #[test]
    fn stall_lasts_while_statements_are_open_until_an_answer() {
        let mut stall_watch = StallWatch::new(100);
        stall_watch.sent(1_000);
        stall_watch.sent(1_050);
        stall_watch.ended(1_099);
        stall_watch.ended(1_300);
        // Nothing is open, so nothing waits.
        stall_watch.sent(9_000);
        stall_watch.ended(9_100);
        let stalls = [(1_099, 201, 1), (9_000, 100, 1)];
        let expected =
            stalls.map(|(start_ns, length_ns, depth)| Stall { start_ns, length_ns, depth });
        assert_eq!(stall_watch.finish(), (expected.to_vec(), 0));
    }

    #[test]
    fn a_long_statement_is_expected_to_take_long() {
        let overdue_ns = |durations_us: &[Option<u64>]| {
            let item = |&duration_us: &_| Item { duration_us, ..Item::default() };
            let items: Vec<Item> = durations_us.iter().map(item).collect();
            super::overdue_ns((10..).zip(&items))
        };
        assert_eq!(overdue_ns(&[Some(5_000_000)]), 10 + 20_000 * MS_NS);
        assert_eq!(overdue_ns(&[Some(5_000_000), Some(1)]), 11 + 4_000);
        assert_eq!(overdue_ns(&[None]), u64::MAX);
        assert_eq!(overdue_ns(&[None, Some(5_000_000)]), 11 + 20_000 * MS_NS);
        assert_eq!(overdue_ns(&[None, None, None]), 11);
        let cancelled = Item { error: Some(*b"57014"), ..Item::default() };
        assert_eq!(super::overdue_ns([(10, &cancelled), (11, &cancelled)].into_iter()), u64::MAX);
        let mut stall_watch = StallWatch::new(100);
        stall_watch.sent(1_000);
        assert!(!stall_watch.is_gap(1_099) && stall_watch.is_gap(1_100));
        stall_watch.expect_gap(1_200);
        stall_watch.ended(1_350);
        let stalls = stall_watch.finish().0;
        assert_eq!((stalls[0].start_ns, stalls[0].length_ns, stalls.len()), (1_200, 150, 1));
    }

    #[test]
    fn stalls_above_the_limit_are_counted() {
        let mut stall_watch = StallWatch::new(1);
        for number in 0..1_500 {
            stall_watch.sent(number * 10);
            stall_watch.ended(number * 10 + if number == 1_400 { 9 } else { 5 });
        }
        let (kept, dropped) = stall_watch.finish();
        assert_eq!((kept.len(), dropped), (1_000, 500));
        assert!(kept.iter().any(|stall| stall.length_ns == 9), "the longest are kept");
    }

    proptest! {
        /// However long it lasts, the number of slices is bounded and the counts are complete.
        #[test]
        fn slices_become_longer_and_lose_nothing(
            times_ns in proptest::collection::vec(0u64..1_000_000, 0..200),
            slots_max in 1usize..40,
        ) {
            let mut series: Series<u32> = Series::new(7, slots_max);
            times_ns.iter().for_each(|&time_ns| *series.at(time_ns) += 1);
            prop_assert!(series.slots.len() <= slots_max);
            let counted: u32 = series.slots.iter().sum();
            prop_assert_eq!(counted as usize, times_ns.len());
            for (index, &count) in series.slots.iter().enumerate() {
                let is_in = |time_ns: &&u64| *time_ns / series.slice_ns == index as u64;
                prop_assert_eq!(times_ns.iter().filter(is_in).count(), count as usize);
            }
        }
    }
}
