//! When things happened, as far as the order of the trace and its times tell.

/// Statements whose times are kept as one.
const BUCKET: u64 = 64;

/// How much later than it says a record may have been written, at least: its process may have been
/// put off the processor in between. Where records are later than others that say a later time,
/// it may be more.
const WRITTEN_LATE_US: i64 = 50_000;

/// Times that are cut to seconds are wrong by so much.
const SECOND_US: i64 = 1_000_000;

/// How many statements may end earlier than one before them in the trace, of a hundred, for it to
/// be in the order in which they ended.
const DISORDER_PERCENT: u64 = 1;

/// The times of a trace.
#[derive(Debug)]
pub struct Clock {
    /// By bucket of places: the earliest start of a statement whose session's last one is told
    /// there.
    starts_us: Vec<i64>,
    /// By bucket of places: the latest start of a statement that is told there, or before.
    latest_starts_us: Vec<i64>,
    /// By how much a statement began earlier than one that had been told when it did, at most.
    late_us: i64,
    latest_end_us: i64,
    timed: u64,
    disordered: u64,
    is_cut_to_seconds: bool,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            starts_us: Vec::new(),
            latest_starts_us: Vec::new(),
            late_us: 0,
            latest_end_us: i64::MIN,
            timed: 0,
            disordered: 0,
            is_cut_to_seconds: true,
        }
    }
}

impl Clock {
    /// Takes in a statement, and the place behind its session's last one.
    pub fn take(&mut self, number: u64, after: u64, start_us: i64, duration_us: Option<u64>) {
        let bucket = (number / BUCKET) as usize;
        if self.starts_us.len() <= bucket {
            self.starts_us.resize(bucket + 1, i64::MAX);
            let latest_us = self.latest_starts_us.last().copied().unwrap_or(i64::MIN);
            self.latest_starts_us.resize(bucket + 1, latest_us);
        }
        self.latest_starts_us[bucket] = self.latest_starts_us[bucket].max(start_us);
        if let Some(before) = (after / BUCKET).checked_sub(1) {
            let latest_us = self.latest_starts_us[before as usize];
            self.late_us = self.late_us.max(latest_us.saturating_sub(start_us));
        }
        if after > 0 {
            let known = &mut self.starts_us[(after / BUCKET) as usize];
            *known = start_us.min(*known);
        }
        let end_us = start_us.saturating_add_unsigned(duration_us.unwrap_or(0));
        self.is_cut_to_seconds &= end_us % SECOND_US == 0;
        if duration_us.is_some() {
            self.timed += 1;
            let is_late = end_us < self.latest_end_us.saturating_sub(WRITTEN_LATE_US);
            self.disordered += u64::from(is_late);
            self.latest_end_us = self.latest_end_us.max(end_us);
        }
    }

    /// No more comes: what is kept becomes, for each bucket, the time by which all that is told
    /// before it had been told.
    pub fn finish(&mut self) {
        let mut earliest_us = i64::MAX;
        for start_us in self.starts_us.iter_mut().rev() {
            earliest_us = earliest_us.min(*start_us);
            *start_us = earliest_us;
        }
    }

    /// Whether statements are in the order in which they ended, as in a log; else their places
    /// tell nothing.
    pub fn is_in_order(&self) -> bool {
        self.disordered * 100 <= self.timed * DISORDER_PERCENT
    }

    /// Whether times are in whole seconds.
    pub fn is_cut_to_seconds(&self) -> bool {
        self.is_cut_to_seconds
    }

    /// A place such that all before it had been told when a statement began at this time.
    pub fn told_before(&self, start_us: i64) -> u64 {
        let cut_us = if self.is_cut_to_seconds { SECOND_US } else { 0 };
        let margin_us = cut_us + WRITTEN_LATE_US + self.late_us.saturating_mul(2);
        let is_before = |by_us: &i64| by_us.saturating_add(margin_us) < start_us;
        let buckets = self.starts_us.partition_point(is_before) as u64;
        buckets.saturating_sub(1) * BUCKET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_long_before_a_statement_began_is_known_by_times() {
        let mut clock = Clock::default();
        for number in 0..1_000u64 {
            clock.take(number, number, number as i64 * 1_001, None);
        }
        clock.finish();
        assert!(clock.is_in_order());
        let place = clock.told_before(900 * 1_001);
        assert!((700..=850).contains(&place), "{place}");
        assert_eq!(clock.told_before(0), 0);
    }

    #[test]
    fn records_that_come_late_make_times_tell_less() {
        let mut clock = Clock::default();
        for number in 0..1_000u64 {
            let late_us = if number == 500 { 300_000 } else { 0 };
            clock.take(number, number, number as i64 * 1_001 - late_us, None);
        }
        clock.finish();
        assert!(clock.told_before(900 * 1_001) < 500);
    }

    #[test]
    fn a_trace_in_the_order_of_starts_is_told_from_one_in_the_order_of_ends() {
        let (mut by_end, mut by_start) = (Clock::default(), Clock::default());
        for number in 0..100u64 {
            let length_us = if number % 2 == 0 { 1_000_000 } else { 10 };
            let start_us = number as i64 * 1_000;
            by_start.take(number, number, start_us, Some(length_us));
            by_end.take(number, number, start_us - length_us as i64, Some(length_us));
        }
        assert!(!by_start.is_in_order() && by_end.is_in_order());
    }
}
