//! What was drawn now: values come from answers, and go into the statements that use them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use seatrial_pgwire::answer::Answer;

use super::bound::{Bound, UseNow};
use super::reported::DrawnNow;
use crate::ids::infer::Level;
use crate::ids::mentions::written_as;
use crate::ids::plan::{Plan, Shows};
use crate::ids::rows::Several;
use crate::ids::values::{Id, Kind, Spelled, replaced};
use crate::item::Item;

/// Why a slot has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// The statement that draws it has not been answered, and could not be waited for.
    NotInTime,
    /// It failed, or was not sent.
    Failed,
    /// It gave back another number of rows.
    OtherRows,
    /// It gives back nothing, and cannot be made to.
    ReturnsNothing,
}

impl Missing {
    /// Its name: the word that a record has.
    pub fn name(self) -> &'static str {
        match self {
            Missing::NotInTime => "not_drawn_in_time",
            Missing::Failed => "draw_failed",
            Missing::OtherRows => "draw_other_rows",
            Missing::ReturnsNothing => "draw_returns_nothing",
        }
    }
}

/// A slot of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Slot {
    /// Its statement has not been answered.
    #[default]
    Open,
    /// It was drawn.
    Drawn(Box<[u8]>),
    /// It will not be drawn.
    Missing(Missing),
}

/// All slots, and who waits for them. A slot takes 24 bytes, and what was drawn.
#[derive(Debug)]
pub struct Now {
    plan: Arc<Plan>,
    slots: Vec<Slot>,
    waiting: HashMap<u32, Vec<u32>>,
    /// By class.
    drawn: Vec<DrawnNow>,
    /// Uses that were written anew.
    rewritten: Vec<u64>,
    /// Uses that could not be, by class, level and reason.
    missed: BTreeMap<(u32, Level, Missing), u64>,
    /// How long statements waited for draws.
    pub waited_ns: u64,
}

impl Now {
    /// Nothing was drawn yet.
    pub fn new(plan: Arc<Plan>) -> Now {
        let classes = plan.classes.all.len();
        Now {
            slots: vec![Slot::Open; plan.slots as usize],
            waiting: HashMap::new(),
            drawn: vec![DrawnNow::default(); classes],
            rewritten: vec![0; classes],
            missed: BTreeMap::new(),
            waited_ns: 0,
            plan,
        }
    }

    /// A slot that a statement needs and that was not drawn yet.
    pub fn lacks(&self, bound: &Bound) -> Option<u32> {
        let mut slots = bound.uses.iter().map(|one| one.slot);
        slots.find(|&slot| self.slots[slot as usize] == Slot::Open)
    }

    /// A session waits for a slot.
    pub fn wait(&mut self, slot: u32, session: u32) {
        self.waiting.entry(slot).or_default().push(session);
    }

    /// The session that draws a slot.
    pub fn drawer(&self, slot: u32) -> Option<u32> {
        self.plan.giver(slot).map(|(_, session)| session)
    }

    /// Writes what was drawn now into a statement.
    pub fn write(&mut self, item: &mut Item, bound: &Bound) {
        let mut uses = bound.uses.as_slice();
        while let Some(first) = uses.first() {
            let count = uses.iter().take_while(|one| one.parameter == first.parameter).count();
            let (of_one, rest) = uses.split_at(count);
            uses = rest;
            match first.parameter {
                None => item.sql = self.written(&item.sql, of_one),
                Some(parameter) => {
                    if let Some(Some(value)) = item.parameters.get_mut(parameter as usize) {
                        *value = self.written(value, of_one);
                    }
                }
            }
        }
    }

    fn written(&mut self, text: &[u8], uses: &[UseNow]) -> Vec<u8> {
        let mut changes = Vec::with_capacity(uses.len());
        for one in uses {
            let missing = match &self.slots[one.slot as usize] {
                Slot::Drawn(value) => {
                    let old = &text[one.range.clone()];
                    let new = if one.is_mention {
                        written_as(old, value)
                    } else {
                        Spelled { text: old, is_literal: one.is_literal }.with(value)
                    };
                    changes.push((one.range.clone(), new));
                    self.rewritten[one.class as usize] += 1;
                    continue;
                }
                Slot::Missing(why) => *why,
                Slot::Open => Missing::NotInTime,
            };
            *self.missed.entry((one.class, one.level, missing)).or_default() += 1;
        }
        replaced(text, &changes)
    }

    /// Columns of its rows that a statement is to give back, and how many rows.
    pub fn keeps(bound: &Bound) -> (impl Iterator<Item = u32>, usize) {
        let rows = bound.draws.iter().map(|draw| draw.slots).max().unwrap_or(0);
        let shown_rows = bound.several.as_ref().map_or(1, |several| several.rows.len());
        let rows = (rows as usize).max(if bound.shows.is_empty() { 0 } else { shown_rows });
        let shown = bound.shows.iter().map(|shows| shows.returned);
        let several = bound.several.iter().flat_map(|several| several.columns.iter().copied());
        let drawn = bound.draws.iter().filter_map(|draw| draw.column);
        (drawn.chain(shown).chain(several), rows)
    }

    /// Takes in what a statement drew; returns the sessions that waited for it.
    pub fn take(&mut self, bound: &Bound, answer: &Answer) -> Vec<u32> {
        if answer.error.is_some() {
            return self.lose(bound, Missing::Failed);
        }
        let columns = Now::keeps(bound).0.count();
        let mut waited = Vec::new();
        let mut place = 0;
        for draw in &bound.draws {
            let rows = answer.kept.len().checked_div(columns).unwrap_or(0);
            let is_whole =
                answer.rows == Some(u64::from(draw.slots)) && rows == draw.slots as usize;
            for row in 0..draw.slots {
                let value = || answer.kept.get(row as usize * columns + place)?.clone();
                let slot = match draw.column {
                    None => Slot::Missing(Missing::ReturnsNothing),
                    Some(_) if !is_whole => Slot::Missing(Missing::OtherRows),
                    Some(_) => value().map_or(Slot::Missing(Missing::OtherRows), Slot::Drawn),
                };
                if let Slot::Drawn(value) = &slot {
                    self.note(draw.class, value);
                }
                self.set(draw.first_slot + row, slot, &mut waited);
            }
            place += usize::from(draw.column.is_some());
        }
        let rows = places_of_rows(bound, answer, columns);
        for (place, shows) in (place..).zip(&bound.shows) {
            let row = match shows.of_several {
                Some(row) => rows.as_ref().and_then(|rows| rows.get(&row).copied()),
                None => (shows.is_by_key || answer.rows == Some(1)).then_some(0),
            };
            let value = row.and_then(|row| answer.kept.get(row * columns + place)?.clone());
            match value {
                Some(value) => self.show(*shows, value, &mut waited),
                None => self.show_not(*shows, Missing::OtherRows, &mut waited),
            }
        }
        waited
    }

    /// A row was shown: who was first to show it says what its id is.
    fn show(&mut self, shows: Shows, value: Box<[u8]>, waited: &mut Vec<u32>) {
        if !matches!(self.slots[shows.slot as usize], Slot::Drawn(_)) {
            self.set(shows.slot, Slot::Drawn(value), waited);
        }
    }

    /// A row was not shown; who waits for it, waits for the first statement that should.
    fn show_not(&mut self, shows: Shows, why: Missing, waited: &mut Vec<u32>) {
        if shows.is_first && self.slots[shows.slot as usize] == Slot::Open {
            self.set(shows.slot, Slot::Missing(why), waited);
        }
    }

    /// A statement will never draw; returns the sessions that waited for it.
    pub fn lose(&mut self, bound: &Bound, why: Missing) -> Vec<u32> {
        let mut waited = Vec::new();
        for draw in &bound.draws {
            for slot in draw.first_slot..draw.first_slot + draw.slots {
                if self.slots[slot as usize] == Slot::Open {
                    self.set(slot, Slot::Missing(why), &mut waited);
                }
            }
        }
        for &shows in &bound.shows {
            self.show_not(shows, why, &mut waited);
        }
        waited
    }

    fn set(&mut self, slot: u32, value: Slot, waited: &mut Vec<u32>) {
        self.slots[slot as usize] = value;
        if !self.waiting.is_empty() {
            waited.extend(self.waiting.remove(&slot).unwrap_or_default());
        }
    }

    fn note(&mut self, class: u32, value: &[u8]) {
        let Some(about) = self.plan.class(class) else { return };
        let number = (about.kind == Kind::Number).then(|| Id::read(Kind::Number, value)).flatten();
        self.drawn[class as usize].add(number.map(Id::number));
    }

    /// Returns the result: by class the drawn values and the rewritten uses; and those that could
    /// not be.
    pub fn finish(self) -> Outcome {
        let Now { drawn, rewritten, missed, waited_ns, .. } = self;
        Outcome { drawn, rewritten, missed, waited_ns }
    }
}

/// Where the rows are in an answer of several that the capture's had; None where it has others.
fn places_of_rows(bound: &Bound, answer: &Answer, columns: usize) -> Option<HashMap<u64, usize>> {
    let several = bound.several.as_ref()?;
    let first = columns - several.columns.len();
    let is_whole = answer.rows == Some(several.rows.len() as u64);
    let rows = answer.kept.chunks_exact(columns).filter(|_| is_whole);
    let known: Vec<u64> =
        rows.map(|row| Several::row(row[first..].iter().map(Option::as_deref))).collect();
    several.places(&known)
}

/// The result of a playback for ids.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By class.
    pub drawn: Vec<DrawnNow>,
    /// By class: uses that were written anew.
    pub rewritten: Vec<u64>,
    /// Uses that could not be, by class, level and reason.
    pub missed: BTreeMap<(u32, Level, Missing), u64>,
    /// How long statements waited for draws.
    pub waited_ns: u64,
}
