//! Uses of ids by sessions that had drawn, compared with the order and the times of the draws.
//!
//! If many statements are active at once and wait for one thing, such as a commit, they begin in
//! one order and end in another, so the order of records says little about the order of draws.
//! Times, in milliseconds, say more: ids of about the same rank were drawn at about the same time.
//! If a session's id is its own, the draws of neighbouring ids began while its own statement was
//! active; if it is another session's, that is a coincidence. The probability of a coincidence is
//! estimated by the number of neighbouring ids, used by other sessions, whose times are outside of
//! its own statement.

use super::anchor::Anchor;
use super::infer::SequenceInference;
use super::pattern::{Case, TextPair};
use super::scan::{DrawCount, DrawStatement, NONE};
use super::windows::Windows;

/// Maximum error of a logged time.
const OFF_US: i64 = 2_500;

/// Ids examined on each side.
const AROUND: usize = 4;

impl SequenceInference<'_> {
    /// The ids that sessions used after they had drawn, in the order of the trace and by the order
    /// of draws with the most evidence.
    pub(super) fn cases(&self, anchor: &Anchor, first_slots: &[u32]) -> Vec<Case> {
        if !self.is_reported_at_end() {
            return self.cases_by(&self.windows.by_start, anchor, first_slots);
        }
        let by_end = self.cases_by(&self.windows.by_end, anchor, first_slots);
        let by_time = self.cases_by(&self.windows.by_time, anchor, first_slots);
        let agreeing = |cases: &[Case]| cases.iter().filter(|case| case.is_expected).count();
        if agreeing(&by_time) > agreeing(&by_end) { by_time } else { by_end }
    }

    /// Whether most drawings are reported at their end.
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

    /// Number of ids, used by sessions after they had drawn, that have the same lead as the
    /// previous one, if all drew in this order.
    fn neighbours(&self, counted: &[i64]) -> usize {
        let drawing_indexes = self.drawing_indexes();
        let lead = self.ids.iter().filter_map(|&(rank, id)| {
            let mut latest = self.scan.used[id as usize].uses().map(|at| at.latest);
            let drawing = drawing_indexes.get(&latest.find(|&latest| latest != NONE)?)?;
            Some(rank - counted[*drawing])
        });
        let lead: Vec<i64> = lead.collect();
        lead.windows(2).filter(|two| two[0] == two[1]).count()
    }

    fn cases_by(&self, counted: &[i64], anchor: &Anchor, first_slots: &[u32]) -> Vec<Case> {
        let drawing_indexes = self.drawing_indexes();
        let mut in_order: Vec<(i64, usize)> = (0..).zip(counted).map(|(at, &n)| (n, at)).collect();
        in_order.sort_unstable();
        // With each its time, and where its drawing is in the order.
        let mut cases: Vec<(u64, (i64, usize), Case)> = Vec::new();
        for (index, &(rank, id)) in (0..).zip(&self.ids) {
            let mut is_first = true;
            let used = &self.scan.used[id as usize];
            for at in used.uses().filter(|at| at.latest != NONE) {
                let Some(&drawing) = drawing_indexes.get(&at.latest) else { continue };
                let about = self.drawings[drawing];
                if about.count != DrawCount::Known {
                    continue;
                }
                let is_sure = anchor.lead(drawing).is_some();
                let own = rank - anchor.least[drawing];
                let turn = in_order.partition_point(|&(before, _)| before <= own);
                let expected = turn.checked_sub(1).map(|turn| self.drawings[in_order[turn].1]);
                let apart =
                    |other: &_| about.reported_us().abs_diff(DrawStatement::reported_us(other));
                let case = Case {
                    id: index,
                    session: at.session,
                    pair: TextPair { class: used.class, draw: about.text, used: at.text },
                    first_slot: first_slots[drawing],
                    slots: about.slots,
                    shift: is_sure.then(|| shift(own - counted[drawing], about.slots)),
                    is_expected: false,
                    apart_us: expected.map_or(0, apart),
                    time_evidence: None,
                    is_first,
                };
                cases.push((at.number, (counted[drawing], drawing), case));
                is_first = false;
            }
        }
        cases.sort_by_key(|&(_, order, case)| (order, case.id));
        expect(&mut cases);
        cases.sort_by_key(|&(number, ..)| number);
        let active_times = |(_, (_, drawing), _): &(u64, (i64, usize), Case)| {
            let DrawStatement { begun_us, done_us, .. } = *self.drawings[*drawing];
            ActiveTime { begun_us, done_us }
        };
        let active_times: Vec<ActiveTime> = cases.iter().map(active_times).collect();
        let mut cases: Vec<Case> = cases.into_iter().map(|(.., case)| case).collect();
        if !self.scan.clock.is_cut_to_seconds() {
            let all = time_evidence(&cases, &active_times);
            for (case, evidence) in cases.iter_mut().zip(all) {
                case.time_evidence = evidence;
            }
        }
        cases
    }
}

/// Distance of a row from the rows of the statement.
fn shift(row: i64, slots: u32) -> i64 {
    let behind = row - i64::from(slots) + 1;
    if row < 0 { row } else { behind.max(0) }
}

/// Which of them, in the order of the draws, are where that puts them. One draw that came late, as
/// its process was descheduled, is far off, and those that overtook it are all off by one: they are
/// off as much as a neighbour is.
fn expect(cases: &mut [(u64, (i64, usize), Case)]) {
    let firsts: Vec<usize> = (0..cases.len()).filter(|&index| cases[index].2.is_first).collect();
    let shifts: Vec<Option<i64>> = firsts.iter().map(|&index| cases[index].2.shift).collect();
    for (turn, &index) in firsts.iter().enumerate() {
        let own = shifts[turn];
        let is_as = |other: Option<&Option<i64>>| own.is_some() && other == Some(&own);
        let before = turn.checked_sub(1).and_then(|turn| shifts.get(turn));
        cases[index].2.is_expected = own == Some(0) || is_as(before) || is_as(shifts.get(turn + 1));
    }
}

/// When a drawing statement was active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ActiveTime {
    /// Its start.
    begun_us: i64,
    /// Its latest end; None if not in the log.
    done_us: Option<i64>,
}

impl ActiveTime {
    fn is_at(&self, time_us: i64) -> bool {
        let done_us = self.done_us.unwrap_or(i64::MAX);
        self.begun_us.saturating_sub(OFF_US) <= time_us && time_us <= done_us.saturating_add(OFF_US)
    }
}

/// The evidence of times for one id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeEvidence {
    /// Whether the ids around it were drawn while its statement was active.
    pub agrees: bool,
    /// How many ids of other sessions around it would not have agreed.
    pub apart: u64,
}

/// The evidence of times for each case; None for one that is not the first of its id and its draw.
fn time_evidence(cases: &[Case], active_times: &[ActiveTime]) -> Vec<Option<TimeEvidence>> {
    let mut of_pair: std::collections::BTreeMap<TextPair, Vec<usize>> =
        std::collections::BTreeMap::new();
    for (index, case) in cases.iter().enumerate().filter(|(_, case)| case.is_first) {
        of_pair.entry(case.pair).or_default().push(index);
    }
    let mut found = vec![None; cases.len()];
    for mut drawing_indexes in of_pair.into_values() {
        // Indexes in the proof are in the order of ranks.
        drawing_indexes.sort_unstable_by_key(|&index| cases[index].id);
        drawing_indexes.dedup_by_key(|index| cases[*index].first_slot);
        for (turn, &index) in drawing_indexes.iter().enumerate() {
            let around =
                turn.saturating_sub(AROUND)..(turn + AROUND + 1).min(drawing_indexes.len());
            found[index] = Some(evidence_of(&drawing_indexes[around], index, cases, active_times));
        }
    }
    found
}

fn evidence_of(
    around: &[usize],
    own: usize,
    cases: &[Case],
    active_times: &[ActiveTime],
) -> TimeEvidence {
    let mut begun_us: Vec<i64> = around.iter().map(|&index| active_times[index].begun_us).collect();
    begun_us.sort_unstable();
    let middle_us = begun_us[begun_us.len() / 2];
    let is_apart = |&&index: &&usize| {
        let is_other = cases[index].session != cases[own].session;
        is_other && !active_times[own].is_at(active_times[index].begun_us)
    };
    TimeEvidence {
        agrees: active_times[own].is_at(middle_us),
        apart: around.iter().filter(is_apart).count() as u64,
    }
}
