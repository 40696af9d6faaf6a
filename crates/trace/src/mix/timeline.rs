//! Statements and open sessions over time.

use std::collections::BTreeMap;

use serde::Serialize;

/// Slices at most: with more, each becomes twice as long.
const SLICES_MAX: usize = 4_096;

/// Slices are of a second at least.
const SECOND_US: i64 = 1_000_000;

/// Length of a minute.
const MINUTE_US: i64 = 60 * SECOND_US;

/// Minutes that statements may still be added to: logs are nearly in order of time.
const MINUTES_OPEN_MAX: usize = 1_440;

/// The minute with the most statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct BusiestMinute {
    /// When it begins, on the clock.
    pub start_us: i64,
    /// Statements that began in it.
    pub statements: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Slice {
    /// When it begins.
    pub start_us: i64,
    /// Statements that began in it.
    pub statements: u64,
    /// Sessions that were open at once in it, at most.
    pub sessions_max: u64,
}

/// The slices from the first statement or session to the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct TimelineMix {
    /// Length of each: a second, or as many as a power of two, so that there are at most 4,096.
    pub slice_s: u64,
    /// In order of time, without gaps.
    pub slices: Vec<Slice>,
}

/// The timeline while a trace is read.
#[derive(Debug)]
pub struct Timeline {
    slice_us: i64,
    /// Statements by slice, counted from 1970.
    counts: BTreeMap<i64, u64>,
    minutes: BTreeMap<i64, u64>,
    busiest: Option<BusiestMinute>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            slice_us: SECOND_US,
            counts: BTreeMap::new(),
            minutes: BTreeMap::new(),
            busiest: None,
        }
    }
}

impl Timeline {
    pub fn take(&mut self, start_us: i64) {
        *self.counts.entry(start_us.div_euclid(self.slice_us)).or_default() += 1;
        if self.counts.len() > SLICES_MAX {
            self.lengthen();
        }
        let minute = start_us.div_euclid(MINUTE_US);
        let statements = self.minutes.entry(minute).or_default();
        *statements += 1;
        let statements = *statements;
        if self.busiest.is_none_or(|busiest| busiest.statements < statements) {
            self.busiest = Some(BusiestMinute { start_us: minute * MINUTE_US, statements });
        }
        if self.minutes.len() > MINUTES_OPEN_MAX {
            self.minutes.pop_first();
        }
    }

    /// The minute with the most statements.
    pub fn busiest_minute(&self) -> Option<BusiestMinute> {
        self.busiest
    }

    /// Makes slices twice as long.
    fn lengthen(&mut self) {
        self.slice_us *= 2;
        let mut counts = BTreeMap::new();
        for (slice, count) in std::mem::take(&mut self.counts) {
            *counts.entry(slice.div_euclid(2)).or_default() += count;
        }
        self.counts = counts;
    }

    /// The slices, given when sessions were open: begin and end of each.
    pub fn finish(mut self, sessions: &[(i64, i64)]) -> TimelineMix {
        let begins = sessions.iter().map(|&(begin_us, _)| begin_us);
        let ends = sessions.iter().map(|&(_, end_us)| end_us);
        loop {
            let of = |time_us: i64| time_us.div_euclid(self.slice_us);
            let counted = || self.counts.keys().copied();
            let first = counted().chain(begins.clone().map(of)).min();
            let last = counted().chain(ends.clone().map(of)).max();
            let (Some(first), Some(last)) = (first, last) else { return TimelineMix::default() };
            if last.abs_diff(first) >= SLICES_MAX as u64 {
                self.lengthen();
                continue;
            }
            let slice = |number: i64| Slice {
                start_us: number.saturating_mul(self.slice_us),
                statements: self.counts.get(&number).copied().unwrap_or(0),
                sessions_max: 0,
            };
            let mut slices: Vec<Slice> = (first..=last).map(slice).collect();
            put_sessions(&mut slices, self.slice_us, sessions);
            return TimelineMix { slice_s: (self.slice_us / SECOND_US) as u64, slices };
        }
    }
}

/// A session that opens, or one that closes; of the same time, those that open come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Opens,
    Closes,
}

/// Sets how many sessions were open at once in each slice.
fn put_sessions(slices: &mut [Slice], slice_us: i64, sessions: &[(i64, i64)]) {
    let Some(first) = slices.first().map(|slice| slice.start_us.div_euclid(slice_us)) else {
        return;
    };
    let opens = sessions.iter().map(|&(begin_us, _)| (begin_us, Change::Opens));
    let closes = sessions.iter().map(|&(begin_us, end_us)| (end_us.max(begin_us), Change::Closes));
    let mut changes: Vec<(i64, Change)> = opens.chain(closes).collect();
    changes.sort_unstable();
    let mut changes = changes.into_iter().peekable();
    let mut open = 0u64;
    for (index, slice) in slices.iter_mut().enumerate() {
        slice.sessions_max = open;
        let of = |time_us: i64| time_us.div_euclid(slice_us);
        while let Some((_, change)) =
            changes.next_if(|&(time_us, _)| of(time_us) <= first + index as i64)
        {
            match change {
                Change::Opens => open += 1,
                Change::Closes => open -= 1,
            }
            slice.sessions_max = slice.sessions_max.max(open);
        }
    }
}
