//! Ids that sessions used after they had drawn, held against the times of the draws.
//!
//! The order of records says little of the order of draws where many statements are at work at once
//! and wait for one thing, such as a commit: they begin in one order and end in another. Their
//! times say more, to the millisecond. A sequence counts on, so ids of about the same rank were
//! drawn at about the same time. If a session's id is its own, then the draws of those around it
//! began while its own statement was at work; if it is of another session, that is so by chance.
//! How often chance would do it is counted as well: by how many of the ids around it, used by other
//! sessions, are of a time at which its own statement was not at work.

use super::pattern::{Case, Pair};

/// How far a time in a log may be off.
const OFF_US: i64 = 2_500;

/// Ids that are looked at on each side.
const AROUND: usize = 4;

/// When a statement that drew was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtWork {
    /// From when on.
    pub begun_us: i64,
    /// Until when at most; None where the log does not say.
    pub done_us: Option<i64>,
}

impl AtWork {
    fn is_at(&self, time_us: i64) -> bool {
        let done_us = self.done_us.unwrap_or(i64::MAX);
        self.begun_us.saturating_sub(OFF_US) <= time_us && time_us <= done_us.saturating_add(OFF_US)
    }
}

/// What times say of one id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InTime {
    /// Whether the ids around it were drawn while its statement was at work.
    pub agrees: bool,
    /// How many of those around it, which are other sessions', would not have agreed.
    pub apart: u64,
}

/// What times say of each case; None for one that is not the first of its id and of its draw.
pub fn in_time(cases: &[Case], at_work: &[AtWork]) -> Vec<Option<InTime>> {
    let mut of_pair: std::collections::BTreeMap<Pair, Vec<usize>> =
        std::collections::BTreeMap::new();
    for (place, case) in cases.iter().enumerate().filter(|(_, case)| case.is_first) {
        of_pair.entry(case.pair).or_default().push(place);
    }
    let mut found = vec![None; cases.len()];
    for mut places in of_pair.into_values() {
        // Places in the proof are in the order of ranks.
        places.sort_unstable_by_key(|&place| cases[place].id);
        places.dedup_by_key(|place| cases[*place].first_slot);
        for (turn, &place) in places.iter().enumerate() {
            let around = turn.saturating_sub(AROUND)..(turn + AROUND + 1).min(places.len());
            found[place] = Some(one(&places[around], place, cases, at_work));
        }
    }
    found
}

fn one(around: &[usize], own: usize, cases: &[Case], at_work: &[AtWork]) -> InTime {
    let mut begun_us: Vec<i64> = around.iter().map(|&place| at_work[place].begun_us).collect();
    begun_us.sort_unstable();
    let middle_us = begun_us[begun_us.len() / 2];
    let is_apart = |&&place: &&usize| {
        let is_other = cases[place].session != cases[own].session;
        is_other && !at_work[own].is_at(at_work[place].begun_us)
    };
    InTime {
        agrees: at_work[own].is_at(middle_us),
        apart: around.iter().filter(is_apart).count() as u64,
    }
}
