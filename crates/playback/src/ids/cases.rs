//! Uses of ids by sessions that had drawn, compared with the order and the times of the draws.
//!
//! The order of records says little of the order of draws where many statements are active at once
//! and wait for one thing, such as a commit: they begin in one order and end in another. Their
//! times say more, to the millisecond. A sequence counts on, so ids of about the same rank were
//! drawn at about the same time. If a session's id is its own, then the draws of those around it
//! began while its own statement was active; if it is of another session, that is so by chance.
//! How often chance would do it is counted as well: by how many of the ids around it, used by other
//! sessions, are of a time at which its own statement was not active.

use super::anchor::Anchor;
use super::infer::OfSequence;
use super::pattern::{Case, Pair};
use super::scan::{Count, Drawing, NONE};
use super::windows::Windows;

/// How far a time in a log may be off.
const OFF_US: i64 = 2_500;

/// Ids that are looked at on each side.
const AROUND: usize = 4;

impl OfSequence<'_> {
    /// What sessions used after they had drawn, in the order of the trace: by the order of the
    /// draws that the log shows best.
    pub(super) fn cases(&self, anchor: &Anchor, first_slots: &[u32]) -> Vec<Case> {
        if !self.is_reported_at_end() {
            return self.cases_by(&self.windows.by_start, anchor, first_slots);
        }
        let by_end = self.cases_by(&self.windows.by_end, anchor, first_slots);
        let by_time = self.cases_by(&self.windows.by_time, anchor, first_slots);
        let agreeing = |cases: &[Case]| cases.iter().filter(|case| case.is_expected).count();
        if agreeing(&by_time) > agreeing(&by_end) { by_time } else { by_end }
    }

    /// Whether most drawings are reported when they end.
    fn is_reported_at_end(&self) -> bool {
        let at_end = self.drawings.iter().filter(|drawing| drawing.ends_us.is_some()).count();
        at_end * 2 >= self.drawings.len()
    }

    /// Values before each drawing, in the order that the log shows best: of the records, or of the
    /// times at which they began, where records are written at the end. It is the one in which more
    /// neighbours are as far ahead of the draws as each other.
    pub(super) fn counted(&self) -> &[i64] {
        self.counted.get_or_init(|| {
            let Windows { by_start, by_end, by_time, .. } = &self.windows;
            if !self.is_reported_at_end() {
                by_start.clone()
            } else if self.neighbours(by_time) > self.neighbours(by_end) {
                by_time.clone()
            } else {
                by_end.clone()
            }
        })
    }

    /// How many ids that sessions used after they had drawn are as far ahead of the draws as the
    /// one before them, if all drew in this order.
    fn neighbours(&self, counted: &[i64]) -> usize {
        let places = self.places();
        let ahead = self.ids.iter().filter_map(|&(rank, id)| {
            let mut latest = self.scan.used[id as usize].uses().map(|at| at.latest);
            let drawing = places.get(&latest.find(|&latest| latest != NONE)?)?;
            Some(rank - counted[*drawing])
        });
        let ahead: Vec<i64> = ahead.collect();
        ahead.windows(2).filter(|two| two[0] == two[1]).count()
    }

    fn cases_by(&self, counted: &[i64], anchor: &Anchor, first_slots: &[u32]) -> Vec<Case> {
        let places = self.places();
        let mut in_order: Vec<(i64, usize)> = (0..).zip(counted).map(|(at, &n)| (n, at)).collect();
        in_order.sort_unstable();
        // With each its time, and where its drawing is in the order.
        let mut cases: Vec<(u64, (i64, usize), Case)> = Vec::new();
        for (place, &(rank, id)) in (0..).zip(&self.ids) {
            let mut is_first = true;
            let used = &self.scan.used[id as usize];
            for at in used.uses().filter(|at| at.latest != NONE) {
                let Some(&drawing) = places.get(&at.latest) else { continue };
                let about = self.drawings[drawing];
                if about.count != Count::Known {
                    continue;
                }
                let is_sure = anchor.ahead(drawing).is_some();
                let own = rank - anchor.least[drawing];
                let turn = in_order.partition_point(|&(before, _)| before <= own);
                let expected = turn.checked_sub(1).map(|turn| self.drawings[in_order[turn].1]);
                let apart = |other: &_| about.reported_us().abs_diff(Drawing::reported_us(other));
                let case = Case {
                    id: place,
                    session: at.session,
                    pair: Pair { class: used.class, draw: about.text, used: at.text },
                    first_slot: first_slots[drawing],
                    slots: about.slots,
                    shift: is_sure.then(|| shift(own - counted[drawing], about.slots)),
                    is_expected: false,
                    apart_us: expected.map_or(0, apart),
                    in_time: None,
                    is_first,
                };
                cases.push((at.number, (counted[drawing], drawing), case));
                is_first = false;
            }
        }
        cases.sort_by_key(|&(_, order, case)| (order, case.id));
        expect(&mut cases);
        cases.sort_by_key(|&(number, ..)| number);
        let at_work = |(_, (_, drawing), _): &(u64, (i64, usize), Case)| {
            let Drawing { begun_us, done_us, .. } = *self.drawings[*drawing];
            AtWork { begun_us, done_us }
        };
        let at_work: Vec<AtWork> = cases.iter().map(at_work).collect();
        let mut cases: Vec<Case> = cases.into_iter().map(|(.., case)| case).collect();
        if !self.scan.clock.is_cut_to_seconds() {
            let reported = in_time(&cases, &at_work);
            for (case, reported) in cases.iter_mut().zip(reported) {
                case.in_time = reported;
            }
        }
        cases
    }
}

/// The distance of a row from the rows of the statement.
fn shift(row: i64, slots: u32) -> i64 {
    let behind = row - i64::from(slots) + 1;
    if row < 0 { row } else { behind.max(0) }
}

/// Which of them, in the order of the draws, are where that puts them. One draw that came late, as
/// its process was descheduled, is far off, and those that overtook it are all off by one: they are
/// off as much as a neighbour is.
fn expect(cases: &mut [(u64, (i64, usize), Case)]) {
    let firsts: Vec<usize> = (0..cases.len()).filter(|&place| cases[place].2.is_first).collect();
    let shifts: Vec<Option<i64>> = firsts.iter().map(|&place| cases[place].2.shift).collect();
    for (turn, &place) in firsts.iter().enumerate() {
        let own = shifts[turn];
        let is_as = |other: Option<&Option<i64>>| own.is_some() && other == Some(&own);
        let before = turn.checked_sub(1).and_then(|turn| shifts.get(turn));
        cases[place].2.is_expected = own == Some(0) || is_as(before) || is_as(shifts.get(turn + 1));
    }
}

/// When a statement that drew was active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AtWork {
    /// From when on.
    begun_us: i64,
    /// Until when at most; None where the log does not say.
    done_us: Option<i64>,
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
    /// Whether the ids around it were drawn while its statement was active.
    pub agrees: bool,
    /// How many of those around it, which are other sessions', would not have agreed.
    pub apart: u64,
}

/// What times say of each case; None for one that is not the first of its id and of its draw.
fn in_time(cases: &[Case], at_work: &[AtWork]) -> Vec<Option<InTime>> {
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
