//! Ids drawn in the playback: values come from answers, and go into the statements that use them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use seatrial_pgwire::answer::Answer;

use super::binder::{BoundUse, IdBindings};
use super::reported::DrawnValues;
use crate::ids::infer::Level;
use crate::ids::mentions::written_as;
use crate::ids::plan::{Plan, ReturnedRow};
use crate::ids::rows::MultiRowAnswer;
use crate::ids::values::{Id, Kind, ValueText, replaced};
use crate::item::Item;

/// Why a slot has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingReason {
    /// The statement that draws it has not been answered, and waiting for it was not possible.
    NotInTime,
    /// It failed, or was not sent.
    Failed,
    /// It returned another number of rows.
    OtherRows,
    /// It returns nothing, and no RETURNING can be added.
    ReturnsNothing,
}

impl MissingReason {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            MissingReason::NotInTime => "not_drawn_in_time",
            MissingReason::Failed => "draw_failed",
            MissingReason::OtherRows => "draw_other_rows",
            MissingReason::ReturnsNothing => "draw_returns_nothing",
        }
    }
}

/// The state of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum SlotState {
    /// Its statement has not been answered.
    #[default]
    Open,
    /// It was drawn.
    Drawn(Box<[u8]>),
    /// It will not be drawn.
    MissingReason(MissingReason),
}

/// All slots, and the sessions that wait for them. A slot takes 24 bytes and its value.
#[derive(Debug)]
pub struct IdSlots {
    plan: Arc<Plan>,
    slots: Vec<SlotState>,
    waiting: HashMap<u32, Vec<u32>>,
    /// The result so far.
    pub outcome: RewriteOutcome,
}

impl IdSlots {
    /// Without any draws.
    pub fn new(plan: Arc<Plan>) -> IdSlots {
        let classes = plan.classes.all.len();
        IdSlots {
            slots: vec![SlotState::Open; plan.slots as usize],
            waiting: HashMap::new(),
            outcome: RewriteOutcome {
                drawn: vec![DrawnValues::default(); classes],
                rewritten: vec![0; classes],
                ..RewriteOutcome::default()
            },
            plan,
        }
    }

    /// A slot that a statement uses and that is still open.
    pub fn lacks(&self, bindings: &IdBindings) -> Option<u32> {
        let mut slots = bindings.uses.iter().map(|one| one.slot);
        slots.find(|&slot| self.slots[slot as usize] == SlotState::Open)
    }

    /// Records that a session waits for a slot.
    pub fn wait(&mut self, slot: u32, session: u32) {
        self.waiting.entry(slot).or_default().push(session);
    }

    /// The session that draws a slot.
    pub fn drawer(&self, slot: u32) -> Option<u32> {
        self.plan.giver(slot).map(|(_, session)| session)
    }

    /// Writes the drawn values into a statement.
    pub fn write(&mut self, item: &mut Item, bindings: &IdBindings) {
        let mut uses = bindings.uses.as_slice();
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

    fn written(&mut self, text: &[u8], uses: &[BoundUse]) -> Vec<u8> {
        let mut changes = Vec::with_capacity(uses.len());
        for one in uses {
            let missing = match &self.slots[one.slot as usize] {
                SlotState::Drawn(value) => {
                    let old = &text[one.range.clone()];
                    let new = if one.is_mention {
                        written_as(old, value)
                    } else {
                        ValueText { text: old, is_literal: one.is_literal }.with(value)
                    };
                    changes.push((one.range.clone(), new));
                    self.outcome.rewritten[one.class as usize] += 1;
                    continue;
                }
                SlotState::MissingReason(why) => *why,
                SlotState::Open => MissingReason::NotInTime,
            };
            *self.outcome.missed.entry((one.class, one.level, missing)).or_default() += 1;
        }
        replaced(text, &changes)
    }

    /// Columns of a statement's result that have to be kept, and for how many rows.
    pub fn keeps(bindings: &IdBindings) -> (impl Iterator<Item = u32>, usize) {
        let rows = bindings.draws.iter().map(|draw| draw.slots).max().unwrap_or(0);
        let shown_rows = bindings.multi_row.as_ref().map_or(1, |multi_row| multi_row.rows.len());
        let rows = (rows as usize).max(if bindings.shows.is_empty() { 0 } else { shown_rows });
        let shown = bindings.shows.iter().map(|shows| shows.returned);
        let multi_row =
            bindings.multi_row.iter().flat_map(|multi_row| multi_row.columns.iter().copied());
        let drawn = bindings.draws.iter().filter_map(|draw| draw.column);
        (drawn.chain(shown).chain(multi_row), rows)
    }

    /// Records the draws of a statement; returns the sessions that waited for them.
    pub fn take(&mut self, bindings: &IdBindings, answer: &Answer) -> Vec<u32> {
        if answer.error.is_some() {
            return self.lose(bindings, MissingReason::Failed);
        }
        let columns = IdSlots::keeps(bindings).0.count();
        let mut waited = Vec::new();
        let mut column = 0;
        for draw in &bindings.draws {
            let rows = answer.kept.len().checked_div(columns).unwrap_or(0);
            let is_whole =
                answer.rows == Some(u64::from(draw.slots)) && rows == draw.slots as usize;
            for row in 0..draw.slots {
                let value = || answer.kept.get(row as usize * columns + column)?.clone();
                let slot = match draw.column {
                    None => SlotState::MissingReason(MissingReason::ReturnsNothing),
                    Some(_) if !is_whole => SlotState::MissingReason(MissingReason::OtherRows),
                    Some(_) => value().map_or(
                        SlotState::MissingReason(MissingReason::OtherRows),
                        SlotState::Drawn,
                    ),
                };
                if let SlotState::Drawn(value) = &slot {
                    self.note(draw.class, value);
                }
                self.set(draw.first_slot + row, slot, &mut waited);
            }
            column += usize::from(draw.column.is_some());
        }
        let rows = row_indexes(bindings, answer, columns);
        for (column, shows) in (column..).zip(&bindings.shows) {
            let row = match shows.row_digest {
                Some(row) => rows.as_ref().and_then(|rows| rows.get(&row).copied()),
                None => (shows.is_by_key || answer.rows == Some(1)).then_some(0),
            };
            let value = row.and_then(|row| answer.kept.get(row * columns + column)?.clone());
            match value {
                Some(value) => self.show(*shows, value, &mut waited),
                None => self.show_not(*shows, MissingReason::OtherRows, &mut waited),
            }
        }
        waited
    }

    /// A row was returned: the first statement that returns it gives its id.
    fn show(&mut self, shows: ReturnedRow, value: Box<[u8]>, waited: &mut Vec<u32>) {
        if !matches!(self.slots[shows.slot as usize], SlotState::Drawn(_)) {
            self.set(shows.slot, SlotState::Drawn(value), waited);
        }
    }

    /// A row was not returned: sessions that wait for it then wait for the next statement that
    /// should return it.
    fn show_not(&mut self, shows: ReturnedRow, why: MissingReason, waited: &mut Vec<u32>) {
        if shows.is_first && self.slots[shows.slot as usize] == SlotState::Open {
            self.set(shows.slot, SlotState::MissingReason(why), waited);
        }
    }

    /// A statement will never draw; returns the sessions that waited for it.
    pub fn lose(&mut self, bindings: &IdBindings, why: MissingReason) -> Vec<u32> {
        let mut waited = Vec::new();
        for draw in &bindings.draws {
            for slot in draw.first_slot..draw.first_slot + draw.slots {
                if self.slots[slot as usize] == SlotState::Open {
                    self.set(slot, SlotState::MissingReason(why), &mut waited);
                }
            }
        }
        for &shows in &bindings.shows {
            self.show_not(shows, why, &mut waited);
        }
        waited
    }

    fn set(&mut self, slot: u32, value: SlotState, waited: &mut Vec<u32>) {
        self.slots[slot as usize] = value;
        if !self.waiting.is_empty() {
            waited.extend(self.waiting.remove(&slot).unwrap_or_default());
        }
    }

    fn note(&mut self, class: u32, value: &[u8]) {
        let Some(about) = self.plan.class(class) else { return };
        let number = (about.kind == Kind::Number).then(|| Id::read(Kind::Number, value)).flatten();
        self.outcome.drawn[class as usize].add(number.map(Id::number));
    }

    /// Returns the drawn values and the rewritten and missed uses.
    pub fn finish(self) -> RewriteOutcome {
        self.outcome
    }
}

/// The indexes of the captured rows in an answer of several; None if it has others.
fn row_indexes(
    bindings: &IdBindings,
    answer: &Answer,
    columns: usize,
) -> Option<HashMap<u64, usize>> {
    let multi_row = bindings.multi_row.as_ref()?;
    let first = columns - multi_row.columns.len();
    let is_whole = answer.rows == Some(multi_row.rows.len() as u64);
    let rows = answer.kept.chunks_exact(columns).filter(|_| is_whole);
    let known: Vec<u64> =
        rows.map(|row| MultiRowAnswer::row(row[first..].iter().map(Option::as_deref))).collect();
    multi_row.row_indexes(&known)
}

/// The result of a playback for ids.
#[derive(Debug, Default)]
pub struct RewriteOutcome {
    pub drawn: Vec<DrawnValues>,
    /// By class: uses that were rewritten.
    pub rewritten: Vec<u64>,
    /// Uses that could not be rewritten, by class, level and reason.
    pub missed: BTreeMap<(u32, Level, MissingReason), u64>,
    /// How long statements waited for draws.
    pub waited_ns: u64,
}
