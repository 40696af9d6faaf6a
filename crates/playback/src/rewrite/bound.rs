//! What of a statement is to be written anew, and what it draws for others: found as it is read, in
//! the reader's thread.

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
use crate::ids::plan::{Drawn, Plan, Shows, spelled};
use crate::ids::rows::Several;
use crate::ids::values::{Id, elements, ids_in, with_returning};
use crate::item::Item;

/// Examples of each reason.
const EXAMPLES_EACH: usize = 4;

/// Values that bound a column, and cannot be traced to a draw.
const RANGE: &str = "bound";

/// Values that are spelled in a way that is not read: escapes, dollars, casts of other types.
const SPELLING: &str = "spelling";

/// Values in expressions that are compared with a column or written to it.
const EXPRESSION: &str = "expression";

/// Values that are those of several columns, and not the same id in all of them.
const SHARED: &str = "shared";

/// Values that functions are given, or prepared statements of which nothing is known.
const FUNCTION: &str = "function";

/// Values in statements with tables of which nothing is known: temporary ones.
const UNKNOWN_TABLE: &str = "unknown_table";

/// Values in statements that are not understood.
const NOT_UNDERSTOOD: &str = "not_understood";

/// Of a value that is shown.
const VALUE_BYTES_MAX: usize = 200;

/// What ids have to do with a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// What it draws that others use.
    pub draws: Vec<Draws>,
    /// What it shows of rows whose ids others use.
    pub shows: Vec<Shows>,
    /// By what the rows of its answer are known, where it shows several.
    pub several: Option<Several>,
    /// What it uses that others draw, in the order of the places in the text.
    pub uses: Vec<UseNow>,
    /// It was given a RETURNING.
    pub has_returning: bool,
}

impl Bound {
    /// Memory that it takes.
    pub fn held_bytes(&self) -> usize {
        size_of::<Bound>()
            + self.draws.capacity() * size_of::<Draws>()
            + self.shows.capacity() * size_of::<Shows>()
            + self.several.as_ref().map_or(0, |several| several.rows.len() * size_of::<u64>())
            + self.uses.capacity() * size_of::<UseNow>()
    }
}

/// Values that a statement draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// The first of its slots.
    pub first_slot: u32,
    /// How many they are.
    pub slots: u32,
    /// Where among the columns of its rows they come; None where they do not.
    pub column: Option<u32>,
    /// Their class.
    pub class: u32,
}

/// A value that a statement uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseNow {
    /// Its slot.
    pub slot: u32,
    /// Its class.
    pub class: u32,
    /// How its slot is known.
    pub level: Level,
    /// The parameter that it is in; None for the text.
    pub parameter: Option<u32>,
    /// Where it is in the text or the parameter.
    pub range: Range<usize>,
    /// Whether it is a whole literal, whose quotes are to be kept.
    pub is_literal: bool,
    /// Whether it is within a text, whose spelling is to be kept.
    pub is_mention: bool,
}

/// A value of a column, as written in a statement.
#[derive(Clone, Debug)]
struct Value<'a> {
    reported: ValueUse,
    class: Option<u32>,
    parameter: Option<u32>,
    range: Range<usize>,
    is_literal: bool,
    text: &'a [u8],
    outcome: Outcome,
}

/// What is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    /// A slot gave it.
    Slot(u32, Level),
    /// It was there before.
    NotGenerated,
    /// Its draw is unknown for this reason, and this many draws can have given it.
    Unknown(&'static str, u32),
    /// The values of its column are not generated.
    Kept,
}

impl Value<'_> {
    fn at(&self) -> (Option<u32>, usize, usize) {
        (self.parameter, self.range.start, self.range.end)
    }
}

/// The first one of each class.
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

/// What is counted of ids as statements are read.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// By class.
    pub classes: Vec<Levels>,
    /// Values that may be ids and go where ids are not followed, by where that is.
    pub not_followed: BTreeMap<&'static str, u64>,
    /// Values that a draw of the capture gave or may have given, and that were left alone.
    pub doubtful_uses: u64,
    /// The first of those that are not known, by reason.
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
    pub(super) counted: Counted,
    pub(super) mentions: Vec<Mention>,
    /// Where the counts go in the end.
    shared: Arc<Mutex<Counted>>,
}

impl Binder {
    /// A binder for sessions of these names.
    pub fn new(
        plan: Arc<Plan>,
        catalog: Catalog,
        names: Vec<String>,
        shared: Arc<Mutex<Counted>>,
    ) -> Binder {
        let classes = vec![Levels::default(); plan.classes.all.len()];
        Binder {
            reader: Reader::new(&catalog),
            sessions: vec![SessionNames::default(); names.len()],
            parts: Parts::default(),
            counted: Counted { classes, ..Counted::default() },
            mentions: Vec::new(),
            plan,
            catalog,
            names,
            shared,
        }
    }

    /// Finds what ids have to do with a statement, the next one of the trace of a session that is
    /// played; None for nothing.
    pub fn bind(&mut self, item: &mut Item, is_sent: bool) -> Option<Box<Bound>> {
        self.parts.take_apart(&item.sql);
        let names = &mut self.sessions[item.session.0 as usize];
        let reading = self.reader.read_in(names, &item.sql, &self.parts);
        let mut bound = Bound::default();
        if is_sent {
            self.count_volatile(&reading);
            let mut values = Vec::new();
            reading.uses.iter().for_each(|reported| self.look_at(item, reported, &mut values));
            values.sort_by_key(Value::at);
            for of_place in values.chunk_by(|one, other| one.at() == other.at()) {
                self.bind_place(item, of_place, &mut bound);
            }
            let texts = self.bind_texts(item, &reading, &mut bound);
            self.count_elsewhere(item, &reading, texts);
        }
        self.bind_draws(item, &reading, &mut bound);
        bound.shows.extend_from_slice(self.plan.shown_at(item.number));
        if bound.shows.iter().any(|shows| shows.of_several.is_some()) {
            bound.several = self.plan.several_at(item.number).cloned();
        }
        let is_any = !bound.uses.is_empty() || !bound.draws.is_empty() || !bound.shows.is_empty();
        is_any.then(|| Box::new(bound))
    }

    /// No more comes.
    pub fn finish(self) {
        *lock(&self.shared) = self.counted;
    }

    fn count_volatile(&mut self, reading: &StatementEffects) {
        for volatile in &reading.volatile {
            match volatile {
                Volatile::Time => self.counted.volatile.time += 1,
                Volatile::Random => self.counted.volatile.random += 1,
                Volatile::LastDrawn => self.counted.volatile.last_drawn += 1,
            }
        }
    }

    /// Looks at each value of a column in a statement.
    fn look_at<'a>(&self, item: &'a Item, reported: &ValueUse, values: &mut Vec<Value<'a>>) {
        let class = self.plan.classes.of_column(reported.column);
        // NULL as a parameter is none.
        let place = spelled(reported.position, &item.sql, &self.parts, &item.parameters);
        let Some(place) = place else { return };
        let (parameter, offset) = match reported.position {
            ValuePosition::Parameter(parameter) => (Some(parameter), 0),
            ValuePosition::Literal(literal) => {
                (None, self.parts.literals().nth(literal as usize).map_or(0, |range| range.start))
            }
        };
        let value = |text: &'a [u8], range: Range<usize>, outcome| Value {
            reported: *reported,
            class,
            parameter,
            range,
            is_literal: parameter.is_none() && reported.kind != UseKind::Array,
            text,
            outcome,
        };
        let whole = offset..offset + place.text.len();
        let Some(class) = class else {
            return values.push(value(place.text, whole, Outcome::Kept));
        };
        let unknown = |reason| Outcome::Unknown(reason, 0);
        match (reported.kind, place.plain()) {
            (UseKind::Inside, plain) => {
                let text = plain.unwrap_or(place.text);
                if self.may_hold(class, text) {
                    values.push(value(text, whole, unknown(EXPRESSION)));
                }
            }
            (_, None) => {
                if !place.text.eq_ignore_ascii_case(b"null") {
                    values.push(value(place.text, whole, unknown(SPELLING)));
                }
            }
            (UseKind::Bound, Some(plain)) => values.push(value(plain, whole, unknown(RANGE))),
            (UseKind::Array, Some(plain)) => {
                let Some(found) = elements(plain) else {
                    return values.push(value(plain, whole, unknown(SPELLING)));
                };
                // Where the array begins in its text or parameter.
                let begin = offset + plain.as_ptr().addr() - place.text.as_ptr().addr();
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

    /// What is known of a value of a class in a statement; None for NULL.
    pub(super) fn outcome(&self, number: u64, class: u32, plain: &[u8]) -> Option<Outcome> {
        let kind = self.plan.class(class)?.kind;
        let Some(id) = Id::read(kind, plain) else {
            let is_null = plain.eq_ignore_ascii_case(b"null");
            return (!is_null).then_some(Outcome::Unknown(SPELLING, 0));
        };
        let not_drawn = IdSource::Unresolved(Reason::NotDrawn, 0);
        Some(match self.plan.found(class, id).unwrap_or(not_drawn) {
            IdSource::Slot(slot, level) => {
                // What was there before may come back from ON CONFLICT.
                let giver = self.plan.giver(slot);
                if giver.is_none_or(|(given_at, _)| given_at >= number) {
                    Outcome::Unknown(Reason::NotDrawn.name(), 0)
                } else {
                    Outcome::Slot(slot, level)
                }
            }
            IdSource::NotGenerated => Outcome::NotGenerated,
            IdSource::Unresolved(reason, candidates) => Outcome::Unknown(reason.name(), candidates),
        })
    }

    /// Whether there may be an id of a class in a text, or of any.
    fn may_hold(&self, class: u32, text: &[u8]) -> bool {
        let Some(kind) = self.plan.class(class).map(|class| class.kind) else { return false };
        ids_in(kind, text).into_iter().any(|id| self.plan.may_be_drawn(class, id))
    }

    /// Decides what becomes of one place in a statement, which may be the value of several columns:
    /// it is written anew if it is the same id for all of them. It counts once for each class.
    fn bind_place(&mut self, item: &Item, values: &[Value<'_>], bound: &mut Bound) {
        let is_value =
            |value: &&Value<'_>| !matches!(value.reported.kind, UseKind::Bound | UseKind::Inside);
        let (own, others): (Vec<&Value<'_>>, Vec<&Value<'_>>) = values.iter().partition(is_value);
        let slots = own.iter().filter_map(|value| match value.outcome {
            Outcome::Slot(slot, level) => Some((*value, slot, level)),
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
                self.counted.classes[class as usize].add(level);
                let is_mention = false;
                bound.uses.push(UseNow {
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
            None => self.leave_alone(item, &own),
        }
        self.leave_alone(item, &others);
    }

    /// Counts what is not written anew.
    fn leave_alone(&mut self, item: &Item, values: &[&Value<'_>]) {
        for (value, class) in each_class(values) {
            match value.outcome {
                Outcome::NotGenerated => self.counted.classes[class as usize].not_generated += 1,
                Outcome::Unknown(reason, candidates) => {
                    self.unknown(item, value, class, reason, candidates);
                }
                Outcome::Slot(..) | Outcome::Kept => {}
            }
        }
    }

    /// Counts values that may be ids and go where ids are not followed.
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
        let handed = reading.passed_values.iter().map(|&place| (place, FUNCTION));
        let literals = (0..self.parts.literals().len() as u32).map(ValuePosition::Literal);
        let all = literals.chain((0..item.parameters.len() as u32).map(ValuePosition::Parameter));
        let others = reason.into_iter().flat_map(|reason| all.clone().map(move |at| (at, reason)));
        let places: Vec<(ValuePosition, &'static str)> =
            handed.chain(others).filter(|(place, _)| seen.insert(*place)).collect();
        for (place, reason) in places {
            let found = spelled(place, &item.sql, &self.parts, &item.parameters);
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

    /// Counts a value that may be an id where these are not followed.
    pub(super) fn not_followed(&mut self, reason: &'static str) {
        *self.counted.not_followed.entry(reason).or_default() += 1;
        self.counted.doubtful_uses += 1;
    }

    /// Counts a value of which it is not known who drew it.
    fn unknown(
        &mut self,
        item: &Item,
        value: &Value<'_>,
        class: u32,
        reason: &'static str,
        candidates: u32,
    ) {
        let levels = &mut self.counted.classes[class as usize];
        *levels.unresolved.entry(reason).or_default() += 1;
        if let Some(about) = self.plan.class(class).filter(|_| Reason::is_of_draws(reason)) {
            let id = Id::read(about.kind, value.text);
            levels.given_back_per_mille += self.plan.given_back_per_mille(class, id);
        }
        self.counted.doubtful_uses += u64::from(self.may_hold(class, value.text));
        let column = crate::ids::classes::full_name(&self.catalog, value.reported.column);
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
        let examples = self.counted.examples.entry(reason).or_default();
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

    /// What the statement draws that others use; it gets a RETURNING where it needs one.
    fn bind_draws(&mut self, item: &mut Item, reading: &StatementEffects, bound: &mut Bound) {
        let drawn = self.plan.at(item.number);
        let mut added: Vec<ColumnId> = Vec::new();
        if reading.takes_returning && self.plan.returning.contains(&item.fingerprint) {
            let columns = reading.draws.iter().filter_map(|draw| draw.column);
            added.extend(columns.filter(|&column| self.plan.classes.of_column(column).is_some()));
        }
        for one in drawn {
            let place = || added.iter().position(|&column| Some(column) == one.column);
            let column = one.returned.or_else(|| place().map(|place| place as u32));
            let Drawn { first_slot, slots, class, .. } = *one;
            bound.draws.push(Draws { first_slot, slots, column, class });
        }
        if !added.is_empty() {
            let name = |&ColumnId { table, column }: &ColumnId| {
                self.catalog.tables[table].columns[column].name.as_str()
            };
            let names: Vec<&str> = added.iter().map(name).collect();
            item.sql = with_returning(&item.sql, &names);
            bound.has_returning = true;
            self.counted.returning_added += 1;
        }
    }
}

/// A value as it is shown: the beginning of a long one.
fn shown_value(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(VALUE_BYTES_MAX)]).into_owned()
}
