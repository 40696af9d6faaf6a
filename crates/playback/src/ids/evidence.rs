//! What the log shows of the position of a sequence.

use std::collections::{BTreeMap, HashMap};

use super::anchor::{Anchor, CatalogFit, DrawUsePair, Evidence, FirstUse, UncountedDraws};
use super::infer::SequenceInference;
use super::late_uses::{LEAD_MAX, LateUse, from_late_uses};
use super::scan::{DrawCount, NONE, UNUSED};

impl SequenceInference<'_> {
    pub(super) fn anchor(&self) -> Anchor {
        let anchor = self.anchor_by(&self.ids);
        let first_new = self.ids.partition_point(|&(rank, _)| rank < 0);
        if anchor.fit != CatalogFit::Unknown
            || self.definition.next_value.is_none()
            || first_new == 0
        {
            return anchor;
        }
        // Rows that were there before, as the catalogue has it, hide what sessions draw themselves
        // where they use many. Without them that shows, if the catalogue is right; if it is not,
        // what is left does not agree with it.
        self.anchor_by(&self.ids[first_new..])
    }

    /// The anchor that follows from these ids.
    fn anchor_by(&self, ids: &[(i64, u32)]) -> Anchor {
        let (mut pairs, drew_before) = self.own_pairs(ids);
        let exact = self.exact();
        for (index, drawing) in self.drawings.iter().enumerate() {
            if let Some(&rank) = exact.get(&drawing.first_slot).filter(|_| drawing.slots > 0) {
                pairs.insert(index, self.pair(index, rank, 0, 0));
            }
        }
        let mut pairs: Vec<DrawUsePair> = pairs.into_values().collect();
        pairs.sort_unstable_by_key(|pair| pair.drawing);
        let anchor = Anchor::of(&Evidence {
            pairs: &pairs,
            uses: &self.uses(),
            uncounted: &self.uncounted(),
            befores: &self.drawings.iter().map(|drawing| drawing.before()).collect::<Vec<_>>(),
            drew_before,
            is_reported: self.definition.next_value.is_some(),
            ranks: &self.ids.iter().map(|&(rank, _)| rank).collect::<Vec<_>>(),
            before_last: &self.before_last(),
        });
        if matches!(anchor.fit, CatalogFit::Shifted(_)) || self.definition.next_value.is_none() {
            return anchor;
        }
        match from_late_uses(&self.late_uses(ids), self.drawings.len()) {
            Some(late_uses) => Anchor { fit: CatalogFit::Same, ..anchor.within(&late_uses) },
            None => anchor,
        }
    }

    /// Own ids of sessions, whenever they drew them, in the order of ranks.
    fn late_uses(&self, used: &[(i64, u32)]) -> Vec<LateUse> {
        let (drawing_indexes, rows) = (self.drawing_indexes(), self.rows_of_sessions());
        let of = |&(rank, id): &(i64, u32)| {
            let used = &self.scan.used[id as usize];
            let at = used.uses().find(|at| at.latest != NONE)?;
            let (drawing, own) = (*drawing_indexes.get(&at.latest)?, rows.get(&at.session)?);
            let own = &own[..own.partition_point(|&(index, _)| index <= drawing)];
            let lead = own.iter().rev().map(|&(index, row)| {
                let rank = rank - i64::from(row);
                (rank - self.windows.most[index], rank - self.windows.least[index], index)
            });
            let near = lead
                .skip_while(|&(_, most, _)| most < -LEAD_MAX)
                .take_while(|&(least, ..)| least <= LEAD_MAX);
            let is_its = |&(_, _, index): &(i64, i64, usize)| {
                let class = self.drawings[index].class;
                class == NONE || class == used.class
            };
            Some(LateUse { candidates: near.filter(is_its).collect() })
        };
        used.iter().filter_map(of).collect()
    }

    /// What sessions used after they had drawn, as if it were their own: ids that follow on a
    /// drawing are of it, or where they are more than it drew, of it and those before it. Besides
    /// these, how many ids were used first by sessions that had drawn.
    fn own_pairs(&self, used: &[(i64, u32)]) -> (HashMap<usize, DrawUsePair>, usize) {
        let drawing_indexes = self.drawing_indexes();
        let mut ids: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        let mut drew_before = 0;
        for &(rank, id) in used {
            let used = &self.scan.used[id as usize];
            drew_before += usize::from(used.first.latest != NONE);
            let latest = used.uses().map(|at| at.latest).find(|&latest| latest != NONE);
            if let Some(&drawing) = latest.and_then(|latest| drawing_indexes.get(&latest)) {
                // They come in the order of their ranks.
                ids.entry(drawing).or_default().push(rank);
            }
        }
        let rows = self.rows_of_sessions();
        let mut pairs = HashMap::new();
        for (drawing, ranks) in ids {
            let slots = self.drawings[drawing].slots as usize;
            if ranks.len() <= slots {
                // The least may be any of the first rows, unless all of them are used.
                let before = (slots - ranks.len()) as i64;
                pairs.entry(drawing).or_insert(self.pair(drawing, ranks[0], 0, before));
                continue;
            }
            let own = rows.get(&self.drawings[drawing].session).map_or(&[][..], Vec::as_slice);
            let end = own.partition_point(|&(index, _)| index <= drawing);
            let Some(begin) = end.checked_sub(ranks.len()) else { continue };
            for (&(index, row), &rank) in own[begin..end].iter().zip(&ranks) {
                pairs.entry(index).or_insert(self.pair(index, rank, i64::from(row), 0));
            }
        }
        (pairs, drew_before)
    }

    /// By session: the drawing and the row of each value that it drew.
    fn rows_of_sessions(&self) -> HashMap<u32, Vec<(usize, u32)>> {
        let mut rows: HashMap<u32, Vec<(usize, u32)>> = HashMap::new();
        for (index, drawing) in self.drawings.iter().enumerate() {
            if drawing.count == DrawCount::Known && drawing.class != UNUSED {
                let own = rows.entry(drawing.session).or_default();
                own.extend((0..drawing.slots).map(|row| (index, row)));
            }
        }
        rows
    }

    /// The evidence of an id that is a row of a drawing, or one of `rows_behind` rows after it.
    fn pair(&self, drawing: usize, rank: i64, row: i64, rows_behind: i64) -> DrawUsePair {
        let (least, most) = (self.windows.least[drawing], self.windows.most[drawing]);
        let rank = rank - row;
        let lead = (rank - most - rows_behind, rank - least);
        DrawUsePair { drawing, lead, by_order: rank - self.counted()[drawing] }
    }

    /// By drawing: maximum number of counted values drawn before its last one.
    fn before_last(&self) -> Vec<i64> {
        let own = self.drawings.iter().map(|drawing| i64::from(drawing.slots.max(1)) - 1);
        self.windows.most.iter().zip(own).map(|(most, own)| most + own).collect()
    }

    /// The minimum lead at each first use.
    fn uses(&self) -> Vec<FirstUse> {
        let of = |&(rank, id): &(i64, u32)| {
            let deadline = self.deadline(id);
            let lead_min = rank + 1 - self.windows.drawn_by(deadline);
            FirstUse { deadline, lead_min }
        };
        let mut uses: Vec<FirstUse> =
            self.ids.iter().filter(|(rank, _)| *rank >= 0).map(of).collect();
        uses.sort_unstable_by_key(|one| one.deadline);
        uses
    }

    /// The time by which an id was known.
    pub(super) fn deadline(&self, id: u32) -> u64 {
        let used = &self.scan.used[id as usize];
        used.uses().map(|at| at.deadline).min().unwrap_or(0)
    }

    /// Uncounted values that may have been drawn before each drawing.
    fn uncounted(&self) -> Vec<UncountedDraws> {
        let mut events: Vec<(u64, UncountedDraws)> = Vec::new();
        for drawing in &self.drawings {
            match drawing.count {
                DrawCount::Known => {}
                DrawCount::Failed => {
                    let failed = i64::from(drawing.slots);
                    events.push((drawing.after, UncountedDraws { failed, unknown: 0 }));
                }
                DrawCount::Unknown => {
                    events.push((drawing.after, UncountedDraws { failed: 0, unknown: 1 }));
                }
            }
        }
        let obscure = self.scan.obscure.iter();
        events.extend(obscure.map(|&(after, _)| (after, UncountedDraws { failed: 0, unknown: 1 })));
        events.sort_unstable_by_key(|(after, _)| *after);
        let mut sums = vec![UncountedDraws::default()];
        let mut sum = UncountedDraws::default();
        for (_, more) in &events {
            sum.failed += more.failed;
            sum.unknown += more.unknown;
            sums.push(sum);
        }
        let until = |before: u64| events.partition_point(|(after, _)| *after < before);
        self.drawings.iter().map(|drawing| sums[until(drawing.before())]).collect()
    }
}
