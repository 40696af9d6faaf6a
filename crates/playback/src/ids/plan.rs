//! The plan for ids: which statements draw ids that are used, and which draw each use is of. It is
//! made in one pass over the trace, before anything is sent.
//!
//! Memory: during the pass some 100 bytes for each drawing statement, 40 for each drawn value and
//! 250 for each used id; afterwards 50 for each id and 40 for each drawing statement.

use std::collections::{HashMap, HashSet};

use seatrial_sqltext::catalog::Catalog;
use seatrial_sqltext::lexer::form::Parts;
use seatrial_sqltext::reading::{
    ColumnId, Reader, SessionNames, StatementEffects, ValuePosition, ValueSource,
};
use seatrial_sqltext::statements::{Control, control};
use seatrial_trace::{Columns, TraceError, TraceReader, Traced};

use super::classes::{IdClass, IdClasses};
use super::infer::{IdSource, Inferred, SequencePosition};
use super::pattern::{PairPattern, TextPair};
use super::possible_ids::PossibleIds;
use super::rows::{MultiRowAnswer, Row, Rows};
use super::scan::{DrawCount, DrawStatement, Scan, ScannedStatement, TextPosition};
use super::spots::{IdOrigin, SpotVerdict};
use super::values::{Id, ValueText};

/// Maximum number of texts kept for reports.
const TEXTS_MAX: usize = 2_000;

/// A statement whose values are used by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedDraw {
    /// Its position in the trace.
    pub number: u64,
    /// Its session.
    pub session: u32,
    /// The first of its slots, and how many it has.
    pub first_slot: u32,
    /// How many values it drew.
    pub slots: u32,
    /// Its class; the maximum where any of a sequence's may be meant.
    pub class: u32,
    /// The column that they were for; None where they went to the client alone.
    pub column: Option<ColumnId>,
    /// Where among the columns of the result they come back.
    pub returned: Option<u32>,
}

/// A row that a statement shows, whose id is used by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnedRow {
    /// The statement's position in the trace.
    pub number: u64,
    /// The row's slot.
    pub slot: u32,
    /// Where among the columns of the result.
    pub returned: u32,
    /// Whether it was the first to show it.
    pub is_first: bool,
    /// Whether the row has its key.
    pub is_by_key: bool,
    /// Of several rows, by what this one is known.
    pub row_digest: Option<u64>,
}

/// All that is known of the ids of a trace.
#[derive(Debug, Default)]
pub struct Plan {
    /// Columns that hold the same ids.
    pub classes: IdClasses,
    /// Statements that draw what is used, in the order of the trace, and of their slots.
    pub drawn: Vec<UsedDraw>,
    /// All slots.
    pub slots: u32,
    /// By class: draws in the trace.
    pub draws: Vec<u64>,
    /// By sequence: draws in the trace; None if some statement drew an unknown number.
    pub sequence_draws: HashMap<u32, Option<u64>>,
    /// By class: of these, those that the client was given.
    pub draws_given_back: Vec<u64>,
    /// Whether the trace has both the beginning and the end of statements that draw.
    pub logs_both_ends: bool,
    given_back_per_mille: HashMap<u32, u64>,
    /// Texts that get a RETURNING: they draw what is used and return nothing.
    pub returning: HashSet<u64>,
    /// What the trace shows of sequences.
    pub positions: Vec<SequencePosition>,
    /// What pairs of texts do.
    pub patterns: Vec<(TextPair, PairPattern)>,
    /// Texts that draw or use, by their number.
    pub texts: Vec<TextPosition>,
    /// What texts look like without their values.
    pub shown: HashMap<u64, String>,
    /// Texts of which only the names were understood.
    pub not_understood: u64,
    /// Positions in texts where numbers are, and whether these are ids.
    pub spots: HashMap<u64, SpotVerdict>,
    /// Rows that statements show, those of slots from `drawn_slots` on.
    rows: Vec<Row>,
    /// What statements show of rows whose ids are used, in the order of the trace.
    shows: Vec<ReturnedRow>,
    multi_row: HashMap<u64, MultiRowAnswer>,
    /// Slots of draws.
    drawn_slots: u32,
    indexes: Vec<HashMap<Id, u32>>,
    found: Vec<IdSource>,
    possible_ids: Vec<PossibleIds>,
}

impl Plan {
    /// A plan for the sessions of a trace that are played.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read or is damaged.
    pub fn of(
        trace: &TraceReader,
        is_played: &[bool],
        catalog: &Catalog,
    ) -> Result<Plan, TraceError> {
        let mut builder = PlanBuilder::new(catalog, is_played.len());
        let mut statements = trace.statements(Columns::All);
        let mut number = 0;
        while let Some(traced) = statements.next_statement()? {
            if is_played[traced.statement.session.0 as usize] {
                builder.take(number, &traced);
            }
            number += 1;
        }
        Ok(builder.finish(catalog))
    }

    /// A plan for statements of one session.
    #[cfg(test)]
    pub fn of_statements(catalog: &Catalog, statements: &[Traced<'_>]) -> Plan {
        let mut builder = PlanBuilder::new(catalog, 1);
        for (number, traced) in (0..).zip(statements) {
            builder.take(number, traced);
        }
        builder.finish(catalog)
    }

    /// What is known of an id of a class; None for one that is not in the trace.
    pub fn found(&self, class: u32, id: Id) -> Option<IdSource> {
        let index = self.indexes.get(class as usize)?.get(&id)?;
        self.found.get(*index as usize).copied()
    }

    /// Whether an id of a class may have been drawn in the trace, as far as known.
    pub fn may_be_drawn(&self, class: u32, id: Id) -> bool {
        match self.found(class, id) {
            Some(found) => found != IdSource::NotGenerated,
            None => self
                .possible_ids
                .get(class as usize)
                .is_some_and(|possible_ids| possible_ids.contains(id)),
        }
    }

    /// Whether a draw gave an id of a class, as far as known.
    pub fn origin_of(&self, class: u32, id: Id) -> IdOrigin {
        match self.found(class, id) {
            Some(IdSource::Slot(..)) => IdOrigin::MaybeDrawn,
            Some(IdSource::NotGenerated) => IdOrigin::BeforeTrace,
            _ => self
                .possible_ids
                .get(class as usize)
                .map_or(IdOrigin::NotDrawn, |possible_ids| possible_ids.origin_of(id)),
        }
    }

    /// Whose statement gives a slot its value, and its position in the trace: that which draws it,
    /// or that was first to show its row.
    pub fn giver(&self, slot: u32) -> Option<(u64, u32)> {
        match slot.checked_sub(self.drawn_slots) {
            Some(row) => self.rows.get(row as usize).map(|row| (row.first(), row.session)),
            None => self.of_slot(slot).map(|drawn| (drawn.number, drawn.session)),
        }
    }

    /// What a statement shows of rows.
    pub fn shown_at(&self, number: u64) -> &[ReturnedRow] {
        let begin = self.shows.partition_point(|shows| shows.number < number);
        let length = self.shows[begin..].partition_point(|shows| shows.number == number);
        &self.shows[begin..begin + length]
    }

    /// How likely the client was given an id of which it is not known who drew it, of a thousand:
    /// as many as of the draws that can have given it, else of all draws of its class.
    pub fn given_back_per_mille(&self, class: u32, id: Option<Id>) -> u64 {
        let at = id.and_then(|id| self.indexes.get(class as usize)?.get(&id));
        let known = at.and_then(|at| self.given_back_per_mille.get(at)).copied();
        let of_class = |all: &[u64]| all.get(class as usize).copied().unwrap_or(0);
        known.unwrap_or_else(|| {
            of_class(&self.draws_given_back) * 1_000 / of_class(&self.draws).max(1)
        })
    }

    /// By what the rows of a statement's answer are known, where it shows several.
    pub fn multi_row_at(&self, number: u64) -> Option<&MultiRowAnswer> {
        self.multi_row.get(&number)
    }

    /// Ids that were used, by class, and what is known of each.
    pub fn all_found(&self) -> impl Iterator<Item = (u32, Id, IdSource)> {
        let classes = (0..).zip(&self.indexes);
        let all =
            classes.flat_map(|(class, ids)| ids.iter().map(move |(&id, &at)| (class, id, at)));
        all.map(|(class, id, at)| (class, id, self.found[at as usize]))
    }

    /// The statement that a slot is of.
    pub fn of_slot(&self, slot: u32) -> Option<&UsedDraw> {
        let index = self.drawn.partition_point(|drawn| drawn.first_slot <= slot);
        let drawn = self.drawn.get(index.checked_sub(1)?)?;
        (slot - drawn.first_slot < drawn.slots).then_some(drawn)
    }

    /// What a statement draws.
    pub fn at(&self, number: u64) -> &[UsedDraw] {
        let begin = self.drawn.partition_point(|drawn| drawn.number < number);
        let length = self.drawn[begin..].partition_point(|drawn| drawn.number == number);
        &self.drawn[begin..begin + length]
    }

    /// A class by its number.
    pub fn class(&self, class: u32) -> Option<&IdClass> {
        self.classes.all.get(class as usize)
    }
}

/// The value at a position of a statement, as written.
pub fn value_text<'a>(
    position: ValuePosition,
    sql: &'a [u8],
    parts: &Parts,
    parameters: &'a [Option<Vec<u8>>],
) -> Option<ValueText<'a>> {
    match position {
        ValuePosition::Literal(literal) => {
            let text = sql.get(parts.literals().nth(literal as usize)?)?;
            Some(ValueText { text, is_literal: true })
        }
        ValuePosition::Parameter(parameter) => {
            let text = parameters.get(parameter as usize)?.as_deref()?;
            Some(ValueText { text, is_literal: false })
        }
    }
}

/// A pass over a trace.
struct PlanBuilder {
    reader: Reader,
    sessions: Vec<SessionNames>,
    parts: Parts,
    scan: Scan,
    shown: HashMap<u64, String>,
    takes_returning: HashSet<u64>,
    not_understood: HashSet<u64>,
}

impl PlanBuilder {
    fn new(catalog: &Catalog, sessions: usize) -> PlanBuilder {
        let classes = IdClasses::of(catalog);
        let begin = |class: &IdClass| match class.source {
            ValueSource::Sequence(sequence) => {
                let definition = catalog.sequences.get(sequence)?;
                Some((definition.next_value?, definition.increment))
            }
            ValueSource::Random | ValueSource::Time => None,
        };
        let rows = Rows::with_begins(classes.all.iter().map(begin).collect());
        PlanBuilder {
            reader: Reader::new(catalog),
            sessions: vec![SessionNames::default(); sessions],
            parts: Parts::default(),
            scan: Scan::of(classes, sessions, rows),
            shown: HashMap::new(),
            takes_returning: HashSet::new(),
            not_understood: HashSet::new(),
        }
    }

    fn take(&mut self, number: u64, traced: &Traced<'_>) {
        let Traced { statement, fingerprint, text, .. } = traced;
        let session = statement.session.0;
        self.parts.take_apart(statement.sql);
        let names = &mut self.sessions[session as usize];
        let reading = self.reader.read_in(names, statement.sql, &self.parts);
        self.note_text(&reading, *fingerprint, text);
        let scanned = ScannedStatement {
            number,
            session,
            transaction: statement.transaction,
            begins: control(statement.sql) == Control::Begin,
            start_us: statement.start_us,
            duration_us: statement.duration_us,
            reported_meanwhile: statement.reported_meanwhile,
            error: statement.error,
            fingerprint: *fingerprint,
            reading: &reading,
            returned: statement.returned,
            rows: statement.rows.filter(|_| traced.statements == 1),
            value_counts: (self.parts.literals().len(), statement.parameters.len()),
        };
        let PlanBuilder { scan, parts, .. } = self;
        scan.take(&scanned, |position| {
            value_text(position, statement.sql, parts, statement.parameters)
        });
    }

    fn note_text(&mut self, reading: &StatementEffects, fingerprint: u64, text: &[u8]) {
        if reading.is_by_names {
            self.not_understood.insert(fingerprint);
        }
        let is_of_ids = !reading.draws.is_empty() || !reading.uses.is_empty();
        if is_of_ids && self.shown.len() < TEXTS_MAX {
            let shown = || String::from_utf8_lossy(text).into_owned();
            self.shown.entry(fingerprint).or_insert_with(shown);
        }
        if reading.takes_returning && !reading.draws.is_empty() {
            self.takes_returning.insert(fingerprint);
        }
    }

    fn finish(self, catalog: &Catalog) -> Plan {
        let PlanBuilder { mut scan, shown, takes_returning, not_understood, .. } = self;
        scan.rows.finish();
        let mut inferred = Inferred::of(&mut scan, catalog);
        let mut possible_ids = possible_ids_of(&scan, catalog, &inferred);
        let spots = std::mem::take(&mut scan.spots);
        let decided = spots.decide(&scan.classes, |class, id, number| {
            origin_of(&scan, &inferred, &possible_ids[class as usize], (class, id), number)
        });
        if scan.note_mentions(spots.trusted(&decided)) {
            inferred = Inferred::of(&mut scan, catalog);
            possible_ids = possible_ids_of(&scan, catalog, &inferred);
        }
        drop(spots);
        let mut is_used = vec![false; scan.slots as usize + scan.rows.all.len()];
        for found in &inferred.found {
            if let IdSource::Slot(slot, _) = found {
                is_used[*slot as usize] = true;
            }
        }
        let mut plan = Plan {
            possible_ids,
            spots: decided,
            slots: is_used.len() as u32,
            drawn_slots: scan.slots,
            shows: shows(&scan, &is_used),
            draws: vec![0; scan.classes.all.len()],
            draws_given_back: vec![0; scan.classes.all.len()],
            logs_both_ends: !scan.drawings.is_empty() && !scan.lacks_ends,
            given_back_per_mille: inferred.given_back_per_mille,
            positions: inferred.positions,
            patterns: inferred.patterns,
            shown,
            not_understood: not_understood.len() as u64,
            found: inferred.found,
            ..Plan::default()
        };
        for drawing in &scan.drawings {
            let all = plan.sequence_draws.entry(drawing.sequence).or_insert(Some(0));
            *all = match drawing.count {
                DrawCount::Known => all.map(|all| all + u64::from(drawing.slots)),
                DrawCount::Failed | DrawCount::Unknown => None,
            };
            for class in scan.classes_of(drawing) {
                let class = class as usize;
                plan.draws[class] += u64::from(drawing.slots);
                if drawing.is_given_back {
                    plan.draws_given_back[class] += u64::from(drawing.slots);
                }
            }
            let slots = drawing.first_slot as usize..(drawing.first_slot + drawing.slots) as usize;
            if drawing.count == DrawCount::Known && is_used[slots].iter().any(|&used| used) {
                plan.drawn.push(drawn(drawing));
                let fingerprint = scan.texts[drawing.text as usize].fingerprint;
                if drawing.returned.is_none() && takes_returning.contains(&fingerprint) {
                    plan.returning.insert(fingerprint);
                }
            }
        }
        plan.classes = scan.classes;
        plan.multi_row = scan.rows.multi_row;
        plan.rows = scan.rows.all;
        plan.texts = scan.texts;
        plan.indexes = scan.indexes;
        plan
    }
}

/// What statements show of rows whose slots are used.
fn shows(scan: &Scan, is_used: &[bool]) -> Vec<ReturnedRow> {
    let rows = (scan.slots..).zip(&scan.rows.all).filter(|(slot, _)| is_used[*slot as usize]);
    let mut found: Vec<ReturnedRow> = rows
        .flat_map(|(slot, row)| {
            (0..).zip(&row.by).map(move |(index, by)| ReturnedRow {
                number: by.number,
                slot,
                returned: by.returned,
                is_first: index == 0,
                is_by_key: by.is_by_key,
                row_digest: by.row_digest,
            })
        })
        .collect();
    found.sort_unstable_by_key(|shows| (shows.number, shows.slot));
    found
}

fn possible_ids_of(scan: &Scan, catalog: &Catalog, inferred: &Inferred) -> Vec<PossibleIds> {
    PossibleIds::of(scan, catalog, |sequence| {
        let position = inferred.positions.iter().find(|one| one.sequence as usize == sequence)?;
        let log = position.next_value_log.or(position.next_value_target)?;
        let target = position.next_value_target.unwrap_or(log);
        let is_down = catalog.sequences.get(sequence)?.increment < 0;
        Some(if is_down { log.max(target) } else { log.min(target) })
    })
}

/// Whether a draw gave an id of a class by a position in the trace.
fn origin_of(
    scan: &Scan,
    inferred: &Inferred,
    possible_ids: &PossibleIds,
    (class, id): (u32, Id),
    number: u64,
) -> IdOrigin {
    let index = scan.indexes[class as usize].get(&id);
    let found = index.and_then(|&index| inferred.found.get(index as usize));
    let slot = match found {
        Some(IdSource::NotGenerated) => return IdOrigin::BeforeTrace,
        Some(&IdSource::Slot(slot, _)) => Some(slot),
        Some(IdSource::Unresolved(..)) | None => scan.exact.get(&(class, id)).copied(),
    };
    if let Some(row) = slot.and_then(|slot| slot.checked_sub(scan.slots)) {
        let is_shown = scan.rows.all[row as usize].first() < number;
        return if is_shown { IdOrigin::MaybeDrawn } else { IdOrigin::NotDrawn };
    }
    let Some(drawing) = slot.and_then(|slot| scan.of_slot(slot)) else {
        return possible_ids.origin_of(id);
    };
    // A row that ON CONFLICT returns may have existed before.
    if drawing.may_conflict || drawing.number < number {
        IdOrigin::MaybeDrawn
    } else {
        IdOrigin::NotDrawn
    }
}

fn drawn(drawing: &DrawStatement) -> UsedDraw {
    UsedDraw {
        number: drawing.number,
        session: drawing.session,
        first_slot: drawing.first_slot,
        slots: drawing.slots,
        class: drawing.class,
        column: drawing.column,
        returned: drawing.returned,
    }
}
