//! Uses of ids by sessions that had drawn, held against the order of the draws.

use super::anchor::Anchor;
use super::in_time::{AtWork, in_time};
use super::infer::OfSequence;
use super::pattern::{Case, Pair};
use super::scan::{Count, Drawing, NONE};
use super::windows::Windows;

impl OfSequence<'_> {
    /// What sessions used after they had drawn, in the order of the trace: by whatever order of the
    /// draws the log tells best.
    pub(super) fn cases(&self, anchor: &Anchor, first_slots: &[u32]) -> Vec<Case> {
        if !self.is_told_at_end() {
            return self.cases_by(&self.windows.by_start, anchor, first_slots);
        }
        let by_end = self.cases_by(&self.windows.by_end, anchor, first_slots);
        let by_time = self.cases_by(&self.windows.by_time, anchor, first_slots);
        let agreeing = |cases: &[Case]| cases.iter().filter(|case| case.is_expected).count();
        if agreeing(&by_time) > agreeing(&by_end) { by_time } else { by_end }
    }

    /// Whether most drawings are told when they end.
    fn is_told_at_end(&self) -> bool {
        let at_end = self.drawings.iter().filter(|drawing| drawing.ends_us.is_some()).count();
        at_end * 2 >= self.drawings.len()
    }

    /// Values before each drawing, in the order that the log tells best: of the records, or of the
    /// times at which they began, where records are written at the end. It is the one in which more
    /// neighbours are as far ahead of the draws as each other.
    pub(super) fn counted(&self) -> &[i64] {
        self.counted.get_or_init(|| {
            let Windows { by_start, by_end, by_time, .. } = &self.windows;
            if !self.is_told_at_end() {
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
                let apart = |other: &_| about.told_us().abs_diff(Drawing::told_us(other));
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
            let told = in_time(&cases, &at_work);
            for (case, told) in cases.iter_mut().zip(told) {
                case.in_time = told;
            }
        }
        cases
    }
}

/// By how much a row is beside the rows that there are.
fn shift(row: i64, slots: u32) -> i64 {
    let behind = row - i64::from(slots) + 1;
    if row < 0 { row } else { behind.max(0) }
}

/// Which of them, in the order of the draws, are where that puts them. One draw that came late, as
/// its process was put off, is far off, and those that overtook it are all off by one: they are
/// off as much as one beside them is.
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
