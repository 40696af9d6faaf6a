//! When things happened, as far as the order of the trace and its times show.

/// Statements whose times are kept together.
const BUCKET: u64 = 64;

/// A lower bound for how much earlier than recorded a statement with a logged duration may have
/// been sent: its process may have been descheduled between taking the one and the other. Where
/// records are later than others with a later time, it may be more.
const WRITTEN_LATE_US: i64 = 50_000;

/// Maximum error of times that are truncated to seconds.
const SECOND_US: i64 = 1_000_000;

/// Percentage of statements that may end before their predecessor in a trace that is in the order
/// of ends.
const DISORDER_PERCENT: u64 = 1;

/// The times of a trace.
#[derive(Debug)]
pub struct Clock {
    /// By bucket of positions: the latest time of a record of a statement in it, and the number of
    /// statements with such a time.
    reported: Vec<(i64, u64)>,
    /// After the pass: the time by which all statements up to there had been reported.
    reported_us: Vec<i64>,
    /// By bucket of positions: the latest start of a statement reported up to there.
    latest_starts_us: Vec<i64>,
    /// Maximum time by which a statement began before one that had already been reported.
    late_us: i64,
    latest_end_us: i64,
    timed: u64,
    disordered: u64,
    is_cut_to_seconds: bool,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock {
            reported: Vec::new(),
            reported_us: Vec::new(),
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
    /// Adds a statement. `last` is the position behind its session's last one, and whether that
    /// one's record did not say when it ended, so that it had ended when this one was sent.
    pub fn take(&mut self, number: u64, last: (u64, bool), start_us: i64, took_us: Option<u64>) {
        let (after, is_reported_now) = last;
        let bucket = (number / BUCKET) as usize;
        if self.latest_starts_us.len() <= bucket {
            let latest_us = self.latest_starts_us.last().copied().unwrap_or(i64::MIN);
            self.latest_starts_us.resize(bucket + 1, latest_us);
        }
        self.latest_starts_us[bucket] = self.latest_starts_us[bucket].max(start_us);
        if let Some(before) = (after / BUCKET).checked_sub(1) {
            let latest_us = self.latest_starts_us[before as usize];
            self.late_us = self.late_us.max(latest_us.saturating_sub(start_us));
        }
        if let Some(position) = after.checked_sub(1).filter(|_| is_reported_now) {
            self.reported(position, start_us);
        }
        let end_us = start_us.saturating_add_unsigned(took_us.unwrap_or(0));
        self.is_cut_to_seconds &= end_us % SECOND_US == 0;
        if took_us.is_some() {
            self.reported(number, end_us);
            self.timed += 1;
            let is_late = end_us < self.latest_end_us.saturating_sub(WRITTEN_LATE_US);
            self.disordered += u64::from(is_late);
            self.latest_end_us = self.latest_end_us.max(end_us);
        }
    }

    fn reported(&mut self, number: u64, at_us: i64) {
        let bucket = (number / BUCKET) as usize;
        if self.reported.len() <= bucket {
            self.reported.resize(bucket + 1, (i64::MIN, 0));
        }
        let (latest_us, count) = &mut self.reported[bucket];
        (*latest_us, *count) = (at_us.max(*latest_us), *count + 1);
    }

    pub fn finish(&mut self) {
        // A session's last statement had been reported when those behind it were.
        let mut behind_us = i64::MAX;
        self.reported_us = vec![i64::MIN; self.reported.len()];
        for (known_us, &(reported_us, count)) in
            self.reported_us.iter_mut().zip(&self.reported).rev()
        {
            *known_us = if count < BUCKET { behind_us.max(reported_us) } else { reported_us };
            behind_us = if count > 0 { reported_us } else { behind_us };
        }
        let mut latest_us = i64::MIN;
        for known_us in &mut self.reported_us {
            latest_us = latest_us.max(*known_us);
            *known_us = latest_us;
        }
    }

    /// Whether statements are in the order in which they ended, as in a log; otherwise their
    /// positions show nothing.
    pub fn is_in_order(&self) -> bool {
        self.disordered * 100 <= self.timed * DISORDER_PERCENT
    }

    /// Whether times are in whole seconds.
    pub fn is_cut_to_seconds(&self) -> bool {
        self.is_cut_to_seconds
    }

    /// A position such that all statements before it had been reported when a statement began at
    /// this time.
    pub fn reported_before(&self, start_us: i64) -> u64 {
        let cut_us = if self.is_cut_to_seconds { SECOND_US } else { 0 };
        let margin_us = cut_us + WRITTEN_LATE_US + self.late_us.saturating_mul(2);
        let is_before = |by_us: &i64| by_us.saturating_add(margin_us) < start_us;
        let buckets = self.reported_us.partition_point(is_before) as u64;
        buckets * BUCKET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_show_which_statements_ended_before() {
        let mut clock = Clock::default();
        for number in 0..1_000u64 {
            clock.take(number, (number, true), number as i64 * 1_001, None);
        }
        clock.finish();
        assert!(clock.is_in_order());
        let number = clock.reported_before(900 * 1_001);
        assert!((700..=850).contains(&number), "{number}");
        assert_eq!(clock.reported_before(0), 0);
    }

    #[test]
    fn late_records_widen_the_margin() {
        let mut clock = Clock::default();
        for number in 0..1_000u64 {
            let late_us = if number == 500 { 300_000 } else { 0 };
            clock.take(number, (number, true), number as i64 * 1_001 - late_us, None);
        }
        clock.finish();
        assert!(clock.reported_before(900 * 1_001) < 500);
    }

    /// Statements of a log of beginnings, some of whose records are written long after their times:
    /// of each, in the order of the trace, the position behind its session's last one, and its
    /// time.
    fn with_late_records(seed: u64) -> Vec<(u64, i64)> {
        let mut state = seed;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % bound
        };
        let mut records: Vec<(i64, usize, i64)> = Vec::new();
        for session in 0..8 {
            let mut now_us = 0;
            for _ in 0..200 {
                now_us += below(120_000) as i64;
                let late_us = if below(50) == 0 { below(400_000) as i64 } else { 0 };
                records.push((now_us + late_us, session, now_us));
                now_us += late_us;
            }
        }
        records.sort_unstable();
        let (mut records_of, mut last) = (Vec::new(), [(0, None); 8]);
        for (_, session, start_us) in records {
            let mut after = 0;
            if let (behind, Some(start_us)) = last[session] {
                records_of.push((behind, start_us));
                after = records_of.len() as u64;
            }
            last[session] = (after, Some(start_us));
        }
        records_of
    }

    #[test]
    fn reported_statements_started_earlier() {
        for seed in 0..50 {
            let all = with_late_records(seed);
            let mut clock = Clock::default();
            for (number, &(after, start_us)) in (0..).zip(&all) {
                clock.take(number, (after, true), start_us, None);
            }
            clock.finish();
            for &(_, start_us) in &all {
                let before = clock.reported_before(start_us);
                let is_before = |&&(after, _): &&(u64, i64)| (1..=before).contains(&after);
                let latest_us = all.iter().filter(is_before).map(|&(_, at_us)| at_us).max();
                assert!(latest_us.is_none_or(|latest_us| latest_us < start_us), "{seed}");
            }
        }
    }

    #[test]
    fn order_of_starts_is_distinguished_from_order_of_ends() {
        let (mut by_end, mut by_start) = (Clock::default(), Clock::default());
        for number in 0..100u64 {
            let length_us = if number % 2 == 0 { 1_000_000 } else { 10 };
            let start_us = number as i64 * 1_000;
            by_start.take(number, (number, false), start_us, Some(length_us));
            by_end.take(number, (number, false), start_us - length_us as i64, Some(length_us));
        }
        assert!(!by_start.is_in_order() && by_end.is_in_order());
    }
}
