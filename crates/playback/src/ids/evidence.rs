//! What the log shows of the position of a sequence.

use std::collections::{BTreeMap, HashMap};

use super::anchor::{Anchor, Evidence, Fit, Pair, Uncounted, Use};
use super::infer::OfSequence;
use super::own_late::{Late, PLACES, by_late};
use super::scan::{Count, NOBODY, NONE};

impl OfSequence<'_> {
    pub(super) fn anchor(&self) -> Anchor {
        let anchor = self.anchor_by(&self.ids);
        let first_new = self.ids.partition_point(|&(rank, _)| rank < 0);
        if anchor.fit != Fit::NotShown || self.reported.next_value.is_none() || first_new == 0 {
            return anchor;
        }
        // Rows that were there before, as the catalogue has it, hide what sessions draw themselves
        // where they use many. Without them that shows, if the catalogue is right; if it is not,
        // what is left does not agree with it.
        self.anchor_by(&self.ids[first_new..])
    }

    /// What these ids say.
    fn anchor_by(&self, ids: &[(i64, u32)]) -> Anchor {
        let (mut pairs, drew_before) = self.own_pairs(ids);
        let exact = self.exact();
        for (place, drawing) in self.drawings.iter().enumerate() {
            if let Some(&rank) = exact.get(&drawing.first_slot).filter(|_| drawing.slots > 0) {
                pairs.insert(place, self.pair(place, rank, 0, 0));
            }
        }
        let mut pairs: Vec<Pair> = pairs.into_values().collect();
        pairs.sort_unstable_by_key(|pair| pair.drawing);
        let anchor = Anchor::of(&Evidence {
            pairs: &pairs,
            uses: &self.uses(),
            uncounted: &self.uncounted(),
            befores: &self.drawings.iter().map(|drawing| drawing.before()).collect::<Vec<_>>(),
            drew_before,
            is_reported: self.reported.next_value.is_some(),
            ranks: &self.ids.iter().map(|&(rank, _)| rank).collect::<Vec<_>>(),
            before_last: &self.before_last(),
        });
        if matches!(anchor.fit, Fit::Elsewhere(_)) || self.reported.next_value.is_none() {
            return anchor;
        }
        match by_late(&self.late(ids), self.drawings.len()) {
            Some(late) => Anchor { fit: Fit::Same, ..anchor.within(&late) },
            None => anchor,
        }
    }

    /// What sessions used of their own, whenever they drew it, in the order of the ranks.
    fn late(&self, used: &[(i64, u32)]) -> Vec<Late> {
        let (places, rows) = (self.places(), self.rows_of_sessions());
        let of = |&(rank, id): &(i64, u32)| {
            let used = &self.scan.used[id as usize];
            let at = used.uses().find(|at| at.latest != NONE)?;
            let (drawing, own) = (*places.get(&at.latest)?, rows.get(&at.session)?);
            let own = &own[..own.partition_point(|&(place, _)| place <= drawing)];
            let ahead = own.iter().rev().map(|&(place, row)| {
                let rank = rank - i64::from(row);
                (rank - self.windows.most[place], rank - self.windows.least[place], place)
            });
            let near = ahead
                .skip_while(|&(_, most, _)| most < -PLACES)
                .take_while(|&(least, ..)| least <= PLACES);
            let is_its = |&(_, _, place): &(i64, i64, usize)| {
                let class = self.drawings[place].class;
                class == NONE || class == used.class
            };
            Some(Late { may_be: near.filter(is_its).collect() })
        };
        used.iter().filter_map(of).collect()
    }

    /// What sessions used after they had drawn, as if it were their own: ids that follow on a
    /// drawing are of it, or where they are more than it drew, of it and those before it. Besides
    /// these, how many ids were used first by sessions that had drawn.
    fn own_pairs(&self, used: &[(i64, u32)]) -> (HashMap<usize, Pair>, usize) {
        let places = self.places();
        let mut ids: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        let mut drew_before = 0;
        for &(rank, id) in used {
            let used = &self.scan.used[id as usize];
            drew_before += usize::from(used.first.latest != NONE);
            let latest = used.uses().map(|at| at.latest).find(|&latest| latest != NONE);
            if let Some(&drawing) = latest.and_then(|latest| places.get(&latest)) {
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
            let end = own.partition_point(|&(place, _)| place <= drawing);
            let Some(begin) = end.checked_sub(ranks.len()) else { continue };
            for (&(place, row), &rank) in own[begin..end].iter().zip(&ranks) {
                pairs.entry(place).or_insert(self.pair(place, rank, i64::from(row), 0));
            }
        }
        (pairs, drew_before)
    }

    /// What each session drew: the drawing, and the row of it.
    fn rows_of_sessions(&self) -> HashMap<u32, Vec<(usize, u32)>> {
        let mut rows: HashMap<u32, Vec<(usize, u32)>> = HashMap::new();
        for (place, drawing) in self.drawings.iter().enumerate() {
            if drawing.count == Count::Known && drawing.class != NOBODY {
                let own = rows.entry(drawing.session).or_default();
                own.extend((0..drawing.slots).map(|row| (place, row)));
            }
        }
        rows
    }

    /// The evidence of an id that is a row of a drawing, or one of `rows_behind` rows after it.
    fn pair(&self, drawing: usize, rank: i64, row: i64, rows_behind: i64) -> Pair {
        let (least, most) = (self.windows.least[drawing], self.windows.most[drawing]);
        let rank = rank - row;
        let ahead = (rank - most - rows_behind, rank - least);
        Pair { drawing, ahead, by_order: rank - self.counted()[drawing] }
    }

    /// Values that may have been drawn before the last of each drawing, at most, of those counted.
    fn before_last(&self) -> Vec<i64> {
        let own = self.drawings.iter().map(|drawing| i64::from(drawing.slots.max(1)) - 1);
        self.windows.most.iter().zip(own).map(|(most, own)| most + own).collect()
    }

    /// By how much ids are ahead at least, as each had been drawn when it was used.
    fn uses(&self) -> Vec<Use> {
        let of = |&(rank, id): &(i64, u32)| {
            let deadline = self.deadline(id);
            let ahead_min = rank + 1 - self.windows.drawn_by(deadline);
            Use { deadline, ahead_min }
        };
        let mut uses: Vec<Use> = self.ids.iter().filter(|(rank, _)| *rank >= 0).map(of).collect();
        uses.sort_unstable_by_key(|one| one.deadline);
        uses
    }

    /// The time by which an id was known.
    pub(super) fn deadline(&self, id: u32) -> u64 {
        let used = &self.scan.used[id as usize];
        used.uses().map(|at| at.deadline).min().unwrap_or(0)
    }

    /// Uncounted values that may have been drawn before each drawing.
    fn uncounted(&self) -> Vec<Uncounted> {
        let mut events: Vec<(u64, Uncounted)> = Vec::new();
        for drawing in &self.drawings {
            match drawing.count {
                Count::Known => {}
                Count::Failed => {
                    let failed = i64::from(drawing.slots);
                    events.push((drawing.after, Uncounted { failed, unknown: 0 }));
                }
                Count::Unknown => {
                    events.push((drawing.after, Uncounted { failed: 0, unknown: 1 }));
                }
            }
        }
        let obscure = self.scan.obscure.iter();
        events.extend(obscure.map(|&(after, _)| (after, Uncounted { failed: 0, unknown: 1 })));
        events.sort_unstable_by_key(|(after, _)| *after);
        let mut sums = vec![Uncounted::default()];
        let mut sum = Uncounted::default();
        for (_, more) in &events {
            sum.failed += more.failed;
            sum.unknown += more.unknown;
            sums.push(sum);
        }
        let until = |before: u64| events.partition_point(|(after, _)| *after < before);
        self.drawings.iter().map(|drawing| sums[until(drawing.before())]).collect()
    }
}
