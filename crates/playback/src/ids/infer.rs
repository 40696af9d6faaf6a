//! Which draw gave which id: the levels of evidence, put together.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use seatrial_sqltext::catalog::{Catalog, Sequence};
use seatrial_sqltext::reading::ValueSource;

use super::anchor::{Anchor, CatalogFit, rank};
use super::in_order::{OrderedUses, OwnSlots, OwnUse};
use super::pattern::{self, Case, PairPattern, PairPatterns};
use super::proof::{Proof, RankedId, Slot};
use super::scan::{DrawCount, DrawStatement, NONE, Scan, UNUSED, UsedId};
use super::windows::Windows;

/// How often proved ids limit what is unknown.
const LIMITS_MAX: usize = 8;

/// How it is known which draw gave an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It was captured as it came back.
    Exact,
    /// No other draw can have given it.
    Proved,
    /// Others could have, but all that are proved of its kind are of one pattern.
    ByPattern,
}

/// Why it is not known which draw gave an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Several draws can have given it.
    SeveralDraws,
    /// It is of one of several rows, and which is unknown.
    WhichRow,
    /// No draw can have given it by the time of its first use.
    NotDrawn,
    /// Random values have no order: it may be of any draw, or of none.
    Random,
    /// The position of the sequence when the log began is unknown, or not that of the catalogue.
    SequenceElsewhere,
    /// The sequence does not give its values in the order of the draws: sessions take several at
    /// once, it is changed by others, it begins again, or the trace is not in the order of a log.
    NoOrder,
    /// Its values come from more than one sequence.
    SeveralSources,
    /// Several draws gave it, as its sequence began again.
    GivenAgain,
}

impl Reason {
    /// Its name: the word that a record has.
    pub fn name(self) -> &'static str {
        match self {
            Reason::SeveralDraws => "several_draws",
            Reason::WhichRow => "which_row",
            Reason::NotDrawn => "not_drawn",
            Reason::Random => "random",
            Reason::SequenceElsewhere => "sequence_elsewhere",
            Reason::NoOrder => "no_order",
            Reason::SeveralSources => "several_sources",
            Reason::GivenAgain => "given_again",
        }
    }

    /// Whether an id would be known if the value were that a draw gave.
    pub fn is_of_draws(name: &str) -> bool {
        let of_draws = [
            Reason::SeveralDraws,
            Reason::WhichRow,
            Reason::NotDrawn,
            Reason::Random,
            Reason::SequenceElsewhere,
            Reason::NoOrder,
            Reason::SeveralSources,
        ];
        of_draws.map(Reason::name).contains(&name)
    }
}

/// What is known of an id that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSource {
    /// A slot gave it.
    Slot(u32, Level),
    /// It is none of those that were drawn: it was there before.
    NotGenerated,
    /// It is unknown, and this many draws can have given it.
    Unresolved(Reason, u32),
}

/// What the log shows of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencePosition {
    /// The sequence.
    pub sequence: u32,
    /// What the target would give next, if known.
    pub next_value_target: Option<i64>,
    /// What the log's first draw gave, if the log shows it.
    pub next_value_log: Option<i64>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Inferred {
    /// For each id that was used.
    pub found: Vec<IdSource>,
    /// Sequences of which ids are used.
    pub positions: Vec<SequencePosition>,
    /// What pairs of texts do.
    pub patterns: Vec<(pattern::TextPair, PairPattern)>,
    /// Evidence of ids with several possible draws, by their index among the used ids: how many of
    /// a thousand of these draws returned their values.
    pub given_back_per_mille: HashMap<u32, u64>,
}

impl Inferred {
    /// What follows from a pass over a trace.
    pub fn of(scan: &mut Scan, catalog: &Catalog) -> Inferred {
        scan.finish();
        let nothing = |used: &UsedId| match scan.classes.all[used.class as usize].source {
            ValueSource::Sequence(_) => IdSource::Unresolved(Reason::NotDrawn, 0),
            ValueSource::Random | ValueSource::Time => IdSource::Unresolved(Reason::Random, 0),
        };
        let mut inferred =
            Inferred { found: scan.used.iter().map(nothing).collect(), ..Inferred::default() };
        for (sequence, definition) in (0..).zip(&catalog.sequences) {
            if scan.classes.of_sequence(sequence as usize).next().is_some() {
                SequenceInference::new(scan, sequence, definition).infer(&mut inferred);
            }
        }
        for (used, found) in scan.used.iter().zip(&mut inferred.found) {
            let exact = scan.exact.get(&(used.class, used.id)).copied();
            let row = scan.rows.of(used.class, used.id).map(|row| scan.slots + row);
            let row = row.filter(|_| is_open(scan, *found, exact));
            let Some(slot) = row.or(exact) else { continue };
            let sequence = match scan.classes.all[used.class as usize].source {
                ValueSource::Sequence(sequence) => Some(sequence),
                ValueSource::Random | ValueSource::Time => None,
            };
            // Where a sequence began again, what was not captured may be the same id.
            let may_be_again = sequence.is_some_and(|sequence| {
                let begins_again = scan.is_set(sequence as u32) || catalog.cycles(sequence);
                begins_again && scan.not_captured.contains(&(sequence as u32))
            });
            *found = if may_be_again || scan.given_again.contains(&(used.class, used.id)) {
                IdSource::Unresolved(Reason::GivenAgain, 0)
            } else {
                IdSource::Slot(slot, Level::Exact)
            };
        }
        inferred
    }
}

/// Whether nothing follows for an id from draws, or only from one whose row is uncertain.
fn is_open(scan: &Scan, found: IdSource, exact: Option<u32>) -> bool {
    let may_conflict = |slot| scan.of_slot(slot).is_some_and(|drawing| drawing.may_conflict);
    match (exact, found) {
        (Some(slot), _) | (None, IdSource::Slot(slot, _)) => may_conflict(slot),
        (None, IdSource::Unresolved(..)) => true,
        (None, IdSource::NotGenerated) => false,
    }
}

/// Inference for one sequence.
pub(super) struct SequenceInference<'a> {
    pub(super) scan: &'a Scan,
    sequence: u32,
    pub(super) definition: &'a Sequence,
    /// Statements that drew from it.
    pub(super) drawings: Vec<&'a DrawStatement>,
    /// Ids of its classes by their ranks, with their indexes among those that were used.
    pub(super) ids: Vec<(i64, u32)>,
    /// Ids that it never generates.
    foreign_ids: Vec<u32>,
    pub(super) windows: Windows,
    pub(super) counted: OnceCell<Vec<i64>>,
}

impl<'a> SequenceInference<'a> {
    fn new(scan: &'a Scan, sequence: u32, definition: &'a Sequence) -> SequenceInference<'a> {
        let drawings: Vec<&DrawStatement> =
            scan.drawings.iter().filter(|drawing| drawing.sequence == sequence).collect();
        let (mut ids, mut foreign_ids) = (Vec::new(), Vec::new());
        for (index, used) in (0..).zip(&scan.used) {
            let source = scan.classes.all[used.class as usize].source;
            if source != ValueSource::Sequence(sequence as usize) {
                continue;
            }
            match rank(used.id, definition.next_value.unwrap_or(0), definition.increment) {
                Some(rank) => ids.push((rank, index)),
                None => foreign_ids.push(index),
            }
        }
        ids.sort_unstable();
        let windows = Windows::of(&drawings);
        SequenceInference {
            scan,
            sequence,
            definition,
            drawings,
            ids,
            foreign_ids,
            windows,
            counted: OnceCell::new(),
        }
    }

    fn infer(&self, inferred: &mut Inferred) {
        let next_value_target = self.definition.next_value;
        let mut position =
            SequencePosition { sequence: self.sequence, next_value_target, next_value_log: None };
        for &id in &self.foreign_ids {
            inferred.found[id as usize] = IdSource::Unresolved(Reason::NotDrawn, 0);
        }
        if let Some((reason, keeps_old)) = self.refused() {
            self.refuse(reason, keeps_old, inferred);
            inferred.positions.push(position);
            return;
        }
        let anchor = self.anchor();
        let further = match anchor.fit {
            CatalogFit::Same => Some(0),
            CatalogFit::Shifted(further) => Some(further),
            CatalogFit::Unknown => None,
        };
        let from = next_value_target.unwrap_or(0);
        position.next_value_log = further.map(|further| from + further * self.definition.increment);
        inferred.positions.push(position);
        match anchor.fit {
            CatalogFit::Shifted(_) if next_value_target.is_some() => {
                self.refuse(Reason::SequenceElsewhere, false, inferred);
            }
            _ => self.find(anchor, inferred),
        }
    }

    /// Why nothing can be concluded about its ids, and whether ids below its next value are old
    /// nevertheless.
    fn refused(&self) -> Option<(Reason, bool)> {
        if self.scan.is_set(self.sequence) || self.definition.cycles {
            return Some((Reason::NoOrder, false));
        }
        let is_foreign = |drawing: &DrawStatement| {
            let class = self.scan.classes.all.get(drawing.class as usize);
            let own = ValueSource::Sequence(self.sequence as usize);
            class.is_some_and(|class| class.source == own) && drawing.sequence != self.sequence
        };
        if self.scan.drawings.iter().any(is_foreign) {
            return Some((Reason::SeveralSources, true));
        }
        let has_order = self.definition.cache <= 1 && self.scan.clock.is_in_order();
        (!has_order).then_some((Reason::NoOrder, true))
    }

    fn refuse(&self, reason: Reason, keeps_old: bool, inferred: &mut Inferred) {
        for &(rank, id) in &self.ids {
            let is_old = keeps_old && rank < 0 && self.definition.next_value.is_some();
            inferred.found[id as usize] =
                if is_old { IdSource::NotGenerated } else { IdSource::Unresolved(reason, 0) };
        }
    }

    /// Positions of its drawings by their indexes among all.
    pub(super) fn drawing_indexes(&self) -> HashMap<u32, usize> {
        let all = (0..).zip(&self.scan.drawings);
        let own = all.filter(|(_, drawing)| drawing.sequence == self.sequence);
        own.enumerate().map(|(index, (global, _))| (global, index)).collect()
    }

    /// Ranks of slots whose ids were captured.
    pub(super) fn exact(&self) -> HashMap<u32, i64> {
        if self.scan.exact.is_empty() {
            return HashMap::new();
        }
        let from = self.definition.next_value.unwrap_or(0);
        let conflicting: HashSet<u32> = self
            .drawings
            .iter()
            .filter(|drawing| drawing.may_conflict)
            .flat_map(|drawing| drawing.first_slot..drawing.first_slot + drawing.slots)
            .collect();
        let exact = self.scan.exact.iter();
        exact
            .filter_map(|(&(class, id), &slot)| {
                let source = self.scan.classes.all[class as usize].source;
                let is_own = source == ValueSource::Sequence(self.sequence as usize)
                    && !conflicting.contains(&slot);
                is_own
                    .then(|| rank(id, from, self.definition.increment).map(|rank| (slot, rank)))?
            })
            .collect()
    }

    /// Proves, learns patterns, and concludes the source of each id.
    fn find(&self, anchor: Anchor, inferred: &mut Inferred) {
        let mut ranked: Vec<RankedId> = Vec::with_capacity(self.ids.len());
        for &(rank, id) in &self.ids {
            let used = &self.scan.used[id as usize];
            let deadline = self.deadline(id);
            let UsedId { class, present, .. } = *used;
            ranked.push(RankedId { rank, deadline, class, present });
        }
        let anchor = &self.limited(anchor, &ranked);
        let (slots, first_slots, globals) = self.slots(anchor);
        let mut proof = Proof::new(&slots, &ranked);
        proof.follow();
        let is_proved: Vec<bool> = proof.given.iter().map(|&slot| slot != NONE).collect();
        let cases = self.cases(anchor, &first_slots);
        let patterns = PairPatterns::of(&cases, &proof);
        for &(slot, id) in &patterns.claims {
            proof.settle(slot, id);
        }
        proof.follow();
        let in_order = self.in_order(anchor, &slots, &first_slots, &cases, &patterns, &proof);
        for &(slot, id) in &in_order.claims {
            proof.settle(slot, id);
        }
        proof.follow();
        let least = slots.iter().map(|slot| slot.least).min().unwrap_or(i64::MAX);
        for (index, &(rank, id)) in self.ids.iter().enumerate() {
            let given = proof.given[index];
            inferred.found[id as usize] = if given != NONE {
                let level = if is_proved[index] { Level::Proved } else { Level::ByPattern };
                IdSource::Slot(globals[given as usize], level)
            } else if rank < least {
                IdSource::NotGenerated
            } else {
                let left = proof.left(index as u32);
                let draws = proof.candidates(index as u32).map(|slot| {
                    let drawing = first_slots.partition_point(|&first| first <= slot) - 1;
                    u64::from(self.drawings[drawing].is_given_back)
                });
                let (given_back, all) = draws.fold((0, 0), |(sum, all), one| (sum + one, all + 1));
                if let Some(per_mille) = (given_back * 1_000u64).checked_div(all) {
                    inferred.given_back_per_mille.insert(id, per_mille);
                }
                IdSource::Unresolved(self.reason(&proof, &patterns, index as u32), left)
            };
        }
        let PairPatterns { mut by_pair, .. } = patterns;
        by_pair.extend(in_order.by_pair.into_iter().filter(|(_, pattern)| pattern.is_trusted()));
        inferred.patterns.extend(by_pair);
    }

    /// If the number of draws outside of the log is unknown, each proved id limits how many of
    /// these were before it, which may prove others.
    fn limited(&self, mut anchor: Anchor, ranked: &[RankedId]) -> Anchor {
        let befores: Vec<u64> = self.drawings.iter().map(|drawing| drawing.before()).collect();
        for _ in 0..LIMITS_MAX {
            let is_open = anchor.least.iter().zip(&anchor.most).any(|(l, m)| Some(*l) != *m);
            if !is_open {
                break;
            }
            let (slots, first_slots, _) = self.slots(&anchor);
            let mut proof = Proof::new(&slots, ranked);
            proof.follow();
            let proved = proof.given.iter().zip(ranked).filter(|(slot, _)| **slot != NONE);
            let shown = proved.map(|(&slot, ranked)| {
                let drawing = first_slots.partition_point(|&first| first <= slot) - 1;
                let row = i64::from(slot - first_slots[drawing]);
                (self.drawings[drawing].after, ranked.rank - row - self.windows.least[drawing])
            });
            if !anchor.limit(shown.collect(), &befores) {
                break;
            }
        }
        anchor
    }

    fn reason(&self, proof: &Proof<'_>, patterns: &PairPatterns, id: u32) -> Reason {
        if patterns.which_row.contains(&id) {
            Reason::WhichRow
        } else if proof.left(id) == 0 && !proof.is_tainted(id) {
            Reason::NotDrawn
        } else {
            Reason::SeveralDraws
        }
    }

    /// The conclusion if sessions use their own ids, but not those that they drew last.
    fn in_order(
        &self,
        anchor: &Anchor,
        slots: &[Slot],
        first_slots: &[u32],
        cases: &[Case],
        patterns: &PairPatterns,
        proof: &Proof<'_>,
    ) -> OrderedUses {
        let mut own_slots = OwnSlots::new();
        let mut expected = vec![None; slots.len()];
        for (index, drawing) in self.drawings.iter().enumerate() {
            if drawing.count != DrawCount::Known || drawing.class == UNUSED {
                continue;
            }
            for row in 0..drawing.slots {
                let slot = first_slots[index] + row;
                let rank = self.counted()[index] + i64::from(row);
                expected[slot as usize] = anchor.lead(index).map(|lead| rank + lead);
                for class in self.scan.classes_of(drawing) {
                    own_slots.entry((drawing.session, class)).or_default().push(slot);
                }
            }
        }
        let is_open = |case: &&Case| {
            let pattern = patterns.by_pair.get(&case.pair);
            case.is_first && pattern.is_some_and(|pattern| !pattern.is_trusted())
        };
        let own = |case: &Case| OwnUse {
            owner: (case.session, case.pair.class),
            id: case.id,
            pair: case.pair,
        };
        let mut ids: Vec<OwnUse> = cases.iter().filter(is_open).map(own).collect();
        ids.sort_by_key(|own| own.id);
        OrderedUses::of(&ids, &own_slots, &expected, proof)
    }

    /// The possible ranks of each slot; the first slot of each drawing; and the number of each slot
    /// among all.
    fn slots(&self, anchor: &Anchor) -> (Vec<Slot>, Vec<u32>, Vec<u32>) {
        let exact = self.exact();
        let (mut slots, mut first_slots, mut globals) = (Vec::new(), Vec::new(), Vec::new());
        for (index, drawing) in self.drawings.iter().enumerate() {
            first_slots.push(slots.len() as u32);
            let least = self.windows.least[index] + anchor.least[index];
            let most = anchor.most[index].map(|most| self.windows.most[index] + most);
            let slot = Slot {
                least,
                most,
                after: drawing.after,
                session: drawing.session,
                visible_after: drawing.visible_after,
                class: drawing.class,
                is_doubtful: drawing.count != DrawCount::Known,
            };
            if slot.is_doubtful {
                let most = most.map(|most| most + i64::from(drawing.slots));
                slots.push(Slot { most, ..slot });
                globals.push(NONE);
                continue;
            }
            for row in 0..drawing.slots {
                let global = drawing.first_slot + row;
                let known = exact.get(&global).copied();
                let row = i64::from(row);
                slots.push(Slot {
                    least: known.unwrap_or(least + row),
                    most: known.or(most.map(|most| most + row)),
                    ..slot
                });
                globals.push(global);
            }
        }
        (slots, first_slots, globals)
    }
}
