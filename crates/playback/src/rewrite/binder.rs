//! Finds the ids that a statement uses and draws, as it is read, in the reader's thread.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use seatrial_gauge::lock;
use seatrial_sqltext::catalog::Catalog;
use seatrial_sqltext::lexer::class::Class;
use seatrial_sqltext::lexer::form::Parts;
use seatrial_sqltext::reading::{
    ColumnId, Reader, SessionNames, StatementEffects, UseKind, ValuePosition, ValueUse, Volatile,
};

use super::reported::{Example, Levels, Volatiles};
use crate::ids::infer::{IdSource, Level, Reason};
use crate::ids::mentions::Mention;
use crate::ids::plan::{Plan, ReturnedRow, UsedDraw, value_text};
use crate::ids::rows::MultiRowAnswer;
use crate::ids::values::{Id, elements, ids_in, with_returning};
use crate::item::Item;

/// Examples of each reason.
const EXAMPLES_EACH: usize = 4;

/// Values in a range condition, which cannot be traced to a draw.
const RANGE: &str = "bound";

/// Values in a notation that is not parsed: escapes, dollar quotes, casts of other types.
const SPELLING: &str = "spelling";

/// Values in expressions that are compared with a column or written to it.
const EXPRESSION: &str = "expression";

/// Values of several columns that are not the same id in all of them.
const SHARED: &str = "shared";

/// Arguments of functions, or of unknown prepared statements.
const FUNCTION: &str = "function";

/// Values in statements with unknown, temporary tables.
const UNKNOWN_TABLE: &str = "unknown_table";

/// Values in statements that are not understood.
const NOT_UNDERSTOOD: &str = "not_understood";

/// Maximum length of a shown value.
const VALUE_BYTES_MAX: usize = 200;

/// The ids of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdBindings {
    /// Draws that others use.
    pub draws: Vec<BoundDraws>,
    /// Returned rows whose ids others use.
    pub shows: Vec<ReturnedRow>,
    /// What identifies the rows of its answer, if it returns several.
    pub multi_row: Option<MultiRowAnswer>,
    /// Uses of others' draws, in the order of the positions in the text.
    pub uses: Vec<BoundUse>,
}

impl IdBindings {
    pub fn memory_bytes(&self) -> usize {
        size_of::<IdBindings>()
            + self.draws.capacity() * size_of::<BoundDraws>()
            + self.shows.capacity() * size_of::<ReturnedRow>()
            + self.multi_row.as_ref().map_or(0, |multi_row| multi_row.rows.len() * size_of::<u64>())
            + self.uses.capacity() * size_of::<BoundUse>()
    }
}

/// Values that a statement draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundDraws {
    /// The first of its slots.
    pub first_slot: u32,
    /// Number of values.
    pub slots: u32,
    /// Which column of its result has them; None if none has.
    pub column: Option<u32>,
    /// Their class.
    pub class: u32,
}

/// A value that a statement uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundUse {
    pub slot: u32,
    pub class: u32,
    /// How its slot is known.
    pub level: Level,
    /// The parameter that contains it; None for the text.
    pub parameter: Option<u32>,
    /// Its range in the text or the parameter.
    pub range: Range<usize>,
    /// Whether it is a whole literal, whose quotes are kept.
    pub is_literal: bool,
    /// Whether it is within a text, whose format is kept.
    pub is_mention: bool,
}

/// A value of a column, as written in a statement.
#[derive(Clone, Debug)]
struct Value<'a> {
    value_use: ValueUse,
    class: Option<u32>,
    parameter: Option<u32>,
    range: Range<usize>,
    is_literal: bool,
    text: &'a [u8],
    outcome: IdOutcome,
}

/// The source of an id.
#[derive(Clone, Copy, Debug)]
pub(super) enum IdOutcome {
    /// A slot gave it.
    Slot(u32, Level),
    /// It existed before the trace.
    NotGenerated,
    /// Its draw is unknown for this reason, and this many draws can have generated it.
    Unknown(&'static str, u32),
    /// The values of its column are not generated.
    NotAnId,
}

impl Value<'_> {
    fn at(&self) -> (Option<u32>, usize, usize) {
        (self.parameter, self.range.start, self.range.end)
    }
}

/// The first value of each class.
fn each_class<'v, 'a>(values: &[&'v Value<'a>]) -> Vec<(&'v Value<'a>, u32)> {
    let mut found: Vec<(&Value<'a>, u32)> = Vec::new();
    for &value in values {
        if let Some(class) = value.class {
            if found.iter().all(|&(_, known)| known != class) {
                found.push((value, class));
            }
        }
    }
    found
}

/// Counters of ids while reading.
#[derive(Clone, Debug, Default)]
pub struct IdCounts {
    pub classes: Vec<Levels>,
    /// Values that may be ids at positions where ids are not followed, by kind of position.
    pub not_followed: BTreeMap<&'static str, u64>,
    /// Values that a captured draw generated or may have generated, and that are sent as captured.
    pub doubtful_uses: u64,
    /// The first unknown ids, by reason.
    pub examples: BTreeMap<&'static str, Vec<Example>>,
    /// Statements that were given a RETURNING.
    pub returning_added: u64,
    /// Functions that return a different value each time.
    pub volatile: Volatiles,
}

/// Binds statements to the draws of the plan.
pub struct Binder {
    pub(super) plan: Arc<Plan>,
    catalog: Catalog,
    reader: Reader,
    sessions: Vec<SessionNames>,
    names: Vec<String>,
    pub(super) parts: Parts,
    pub(super) counts: IdCounts,
    pub(super) mentions: Vec<Mention>,
    /// Receives the counts at the end.
    shared: Arc<Mutex<IdCounts>>,
}

impl Binder {
    /// A binder for sessions of these names.
    pub fn new(
        plan: Arc<Plan>,
        catalog: Catalog,
        names: Vec<String>,
        shared: Arc<Mutex<IdCounts>>,
    ) -> Binder {
        let classes = vec![Levels::default(); plan.classes.all.len()];
        Binder {
            reader: Reader::new(&catalog),
            sessions: vec![SessionNames::default(); names.len()],
            parts: Parts::default(),
            counts: IdCounts { classes, ..IdCounts::default() },
            mentions: Vec::new(),
            plan,
            catalog,
            names,
            shared,
        }
    }

    /// Binds the ids of the next statement of a played session; None if it has none.
    pub fn bind(&mut self, item: &mut Item, is_sent: bool) -> Option<Box<IdBindings>> {
        self.parts.take_apart(&item.sql);
        let names = &mut self.sessions[item.session.0 as usize];
        let reading = self.reader.read_in(names, &item.sql, &self.parts);
        let mut bindings = IdBindings::default();
        if is_sent {
            self.count_volatile(&reading);
            let mut values = Vec::new();
            reading
                .uses
                .iter()
                .for_each(|value_use| self.collect_values(item, value_use, &mut values));
            values.sort_by_key(Value::at);
            for of_place in values.chunk_by(|one, other| one.at() == other.at()) {
                self.bind_value(item, of_place, &mut bindings);
            }
            let texts = self.bind_texts(item, &reading, &mut bindings);
            self.count_elsewhere(item, &reading, texts);
        }
        self.bind_draws(item, &reading, &mut bindings);
        bindings.shows.extend_from_slice(self.plan.shown_at(item.number));
        if bindings.shows.iter().any(|shows| shows.row_digest.is_some()) {
            bindings.multi_row = self.plan.multi_row_at(item.number).cloned();
        }
        let is_any =
            !bindings.uses.is_empty() || !bindings.draws.is_empty() || !bindings.shows.is_empty();
        is_any.then(|| Box::new(bindings))
    }

    pub fn finish(self) {
        *lock(&self.shared) = self.counts;
    }

    fn count_volatile(&mut self, reading: &StatementEffects) {
        for volatile in &reading.volatile {
            match volatile {
                Volatile::Time => self.counts.volatile.time += 1,
                Volatile::Random => self.counts.volatile.random += 1,
                Volatile::LastDrawn => self.counts.volatile.last_drawn += 1,
            }
        }
    }

    /// Collects the values of a column in a statement.
    fn collect_values<'a>(
        &self,
        item: &'a Item,
        value_use: &ValueUse,
        values: &mut Vec<Value<'a>>,
    ) {
        let class = self.plan.classes.of_column(value_use.column);
        // NULL as a parameter is none.
        let written = value_text(value_use.position, &item.sql, &self.parts, &item.parameters);
        let Some(written) = written else { return };
        let (parameter, offset) = match value_use.position {
            ValuePosition::Parameter(parameter) => (Some(parameter), 0),
            ValuePosition::Literal(literal) => {
                (None, self.parts.literals().nth(literal as usize).map_or(0, |range| range.start))
            }
        };
        let value = |text: &'a [u8], range: Range<usize>, outcome| Value {
            value_use: *value_use,
            class,
            parameter,
            range,
            is_literal: parameter.is_none() && value_use.kind != UseKind::Array,
            text,
            outcome,
        };
        let whole = offset..offset + written.text.len();
        let Some(class) = class else {
            return values.push(value(written.text, whole, IdOutcome::NotAnId));
        };
        let unknown = |reason| IdOutcome::Unknown(reason, 0);
        match (value_use.kind, written.plain()) {
            (UseKind::Inside, plain) => {
                let text = plain.unwrap_or(written.text);
                if self.may_hold(class, text) {
                    values.push(value(text, whole, unknown(EXPRESSION)));
                }
            }
            (_, None) => {
                if !written.text.eq_ignore_ascii_case(b"null") {
                    values.push(value(written.text, whole, unknown(SPELLING)));
                }
            }
            // One outside of the ids that were drawn divides none of their rows.
            (UseKind::Bound, Some(plain)) => {
                if self.may_hold(class, plain) {
                    values.push(value(plain, whole, unknown(RANGE)));
                }
            }
            (UseKind::Array, Some(plain)) => {
                let Some(found) = elements(plain) else {
                    return values.push(value(plain, whole, unknown(SPELLING)));
                };
                // Where the array begins in its text or parameter.
                let begin = offset + plain.as_ptr().addr() - written.text.as_ptr().addr();
                for range in found {
                    let text = &plain[range.clone()];
                    if let Some(outcome) = self.outcome(item.number, class, text) {
                        values.push(value(text, begin + range.start..begin + range.end, outcome));
                    }
                }
            }
            (UseKind::Equal | UseKind::Written, Some(plain)) => {
                if let Some(outcome) = self.outcome(item.number, class, plain) {
                    values.push(value(plain, whole, outcome));
                }
            }
        }
    }

    /// The source of a value of a class in a statement; None for NULL.
    pub(super) fn outcome(&self, number: u64, class: u32, plain: &[u8]) -> Option<IdOutcome> {
        let kind = self.plan.class(class)?.kind;
        let Some(id) = Id::read(kind, plain) else {
            let is_null = plain.eq_ignore_ascii_case(b"null");
            return (!is_null).then_some(IdOutcome::Unknown(SPELLING, 0));
        };
        let not_drawn = IdSource::Unresolved(Reason::NotDrawn, 0);
        Some(match self.plan.found(class, id).unwrap_or(not_drawn) {
            IdSource::Slot(slot, level) => {
                // What was there before may come back from ON CONFLICT.
                let giver = self.plan.giver(slot);
                if giver.is_none_or(|(given_at, _)| given_at >= number) {
                    IdOutcome::Unknown(Reason::NotDrawn.name(), 0)
                } else {
                    IdOutcome::Slot(slot, level)
                }
            }
            IdSource::NotGenerated => IdOutcome::NotGenerated,
            IdSource::Unresolved(reason, candidates) => {
                IdOutcome::Unknown(reason.name(), candidates)
            }
        })
    }

    /// Whether a text may contain an id of a class, or of any class.
    fn may_hold(&self, class: u32, text: &[u8]) -> bool {
        let Some(kind) = self.plan.class(class).map(|class| class.kind) else { return false };
        ids_in(kind, text).into_iter().any(|id| self.plan.may_be_drawn(class, id))
    }

    /// Decides about one value of a statement, which may belong to several columns: it is rewritten
    /// if it is the same id for all of them. It is counted once per class.
    fn bind_value(&mut self, item: &Item, values: &[Value<'_>], bindings: &mut IdBindings) {
        let is_value =
            |value: &&Value<'_>| !matches!(value.value_use.kind, UseKind::Bound | UseKind::Inside);
        let (own, others): (Vec<&Value<'_>>, Vec<&Value<'_>>) = values.iter().partition(is_value);
        let slots = own.iter().filter_map(|value| match value.outcome {
            IdOutcome::Slot(slot, level) => Some((*value, slot, level)),
            _ => None,
        });
        let first = slots.clone().next();
        let is_one = first.is_some_and(|(_, slot, _)| {
            slots.clone().count() == own.len() && slots.clone().all(|(_, other, _)| other == slot)
        });
        match first {
            Some((value, slot, level)) if is_one => {
                let Value { class, parameter, ref range, is_literal, .. } = *value;
                let (Some(class), range) = (class, range.clone()) else { return };
                self.counts.classes[class as usize].add(level);
                let is_mention = false;
                bindings.uses.push(BoundUse {
                    slot,
                    class,
                    level,
                    parameter,
                    range,
                    is_literal,
                    is_mention,
                });
            }
            Some(_) => {
                for (value, class) in each_class(&own) {
                    self.unknown(item, value, class, SHARED, 0);
                }
            }
            None => self.count_unchanged(item, &own),
        }
        self.count_unchanged(item, &others);
    }

    /// Counts a value that is not rewritten.
    fn count_unchanged(&mut self, item: &Item, values: &[&Value<'_>]) {
        for (value, class) in each_class(values) {
            match value.outcome {
                IdOutcome::NotGenerated => self.counts.classes[class as usize].not_generated += 1,
                IdOutcome::Unknown(reason, candidates) => {
                    self.unknown(item, value, class, reason, candidates);
                }
                IdOutcome::Slot(..) | IdOutcome::NotAnId => {}
            }
        }
    }

    /// Counts values that may be ids at positions where ids are not followed.
    fn count_elsewhere(
        &mut self,
        item: &Item,
        reading: &StatementEffects,
        texts: Vec<ValuePosition>,
    ) {
        let reason = match item.class {
            _ if reading.has_unknown_table => Some(UNKNOWN_TABLE),
            _ if reading.is_by_names => Some(NOT_UNDERSTOOD),
            Class::Ddl | Class::Utility | Class::Transaction | Class::Maintenance => None,
            _ => reading.accesses_anything.then_some(NOT_UNDERSTOOD),
        };
        if reason.is_none() && reading.passed_values.is_empty() {
            return;
        }
        let is_of_class = |one: &&ValueUse| self.plan.classes.of_column(one.column).is_some();
        let mut seen: HashSet<ValuePosition> =
            reading.uses.iter().filter(is_of_class).map(|one| one.position).chain(texts).collect();
        let handed = reading.passed_values.iter().map(|&position| (position, FUNCTION));
        let literals = (0..self.parts.literals().len() as u32).map(ValuePosition::Literal);
        let all = literals.chain((0..item.parameters.len() as u32).map(ValuePosition::Parameter));
        let others = reason.into_iter().flat_map(|reason| all.clone().map(move |at| (at, reason)));
        let positions: Vec<(ValuePosition, &'static str)> =
            handed.chain(others).filter(|(position, _)| seen.insert(*position)).collect();
        for (position, reason) in positions {
            let found = value_text(position, &item.sql, &self.parts, &item.parameters);
            let text = found.map(|found| found.plain().unwrap_or(found.text)).unwrap_or_default();
            let is_comment = text.starts_with(b"--") || text.starts_with(b"/*");
            let mut classes = 0..self.plan.classes.all.len() as u32;
            let class = classes.find(|&class| !is_comment && self.may_hold(class, text));
            if let Some(class) = class {
                self.not_followed(reason);
                let column = self.plan.classes.all[class as usize].name.clone();
                self.note_example(item, reason, column, text, 0);
            }
        }
    }

    /// Counts a value that may be an id at such a position.
    pub(super) fn not_followed(&mut self, reason: &'static str) {
        *self.counts.not_followed.entry(reason).or_default() += 1;
        self.counts.doubtful_uses += 1;
    }

    /// Counts an id with an unknown draw.
    fn unknown(
        &mut self,
        item: &Item,
        value: &Value<'_>,
        class: u32,
        reason: &'static str,
        candidates: u32,
    ) {
        let levels = &mut self.counts.classes[class as usize];
        *levels.unresolved.entry(reason).or_default() += 1;
        if let Some(about) = self.plan.class(class).filter(|_| Reason::is_of_draws(reason)) {
            let id = Id::read(about.kind, value.text);
            levels.given_back_per_mille += self.plan.given_back_per_mille(class, id);
        }
        self.counts.doubtful_uses += u64::from(self.may_hold(class, value.text));
        let column = crate::ids::classes::full_name(&self.catalog, value.value_use.column);
        self.note_example(item, reason, column, value.text, candidates);
    }

    pub(super) fn note_example(
        &mut self,
        item: &Item,
        reason: &'static str,
        column: String,
        value: &[u8],
        candidates: u32,
    ) {
        let examples = self.counts.examples.entry(reason).or_default();
        if examples.len() < EXAMPLES_EACH {
            let shown = self.plan.shown.get(&item.fingerprint).map(String::as_str);
            examples.push(Example {
                reason: reason.to_owned(),
                column,
                value: shown_value(value),
                text: crate::accounting::queries::shown(shown.unwrap_or_default()),
                number: item.number,
                session: self.names[item.session.0 as usize].clone(),
                candidates: u64::from(candidates),
            });
        }
    }

    /// Binds the statement's draws that others use; adds a RETURNING if they need one.
    fn bind_draws(
        &mut self,
        item: &mut Item,
        reading: &StatementEffects,
        bindings: &mut IdBindings,
    ) {
        let drawn = self.plan.at(item.number);
        let mut added: Vec<ColumnId> = Vec::new();
        if reading.takes_returning && self.plan.returning.contains(&item.fingerprint) {
            let columns = reading.draws.iter().filter_map(|draw| draw.column);
            added.extend(columns.filter(|&column| self.plan.classes.of_column(column).is_some()));
        }
        for one in drawn {
            let index = || added.iter().position(|&column| Some(column) == one.column);
            let column = one.returned.or_else(|| index().map(|index| index as u32));
            let UsedDraw { first_slot, slots, class, .. } = *one;
            bindings.draws.push(BoundDraws { first_slot, slots, column, class });
        }
        if !added.is_empty() {
            let name = |&ColumnId { table, column }: &ColumnId| {
                self.catalog.tables[table].columns[column].name.as_str()
            };
            let names: Vec<&str> = added.iter().map(name).collect();
            item.sql = with_returning(&item.sql, &names);
            self.counts.returning_added += 1;
        }
    }
}

/// A value as reported: the beginning of a long one.
fn shown_value(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(VALUE_BYTES_MAX)]).into_owned()
}
