//! One pass over a trace: draws, uses of ids, and their times.
//!
//! # The clock
//!
//! A log's timestamps are too coarse to show the order of draws from a sequence, but the order of
//! its records is not: a statement is reported as soon as something shows that it has ended, which
//! is its own record if that is written at the end, otherwise its session's next one. So a
//! statement drew after the previous statement of its session was reported, and before it was
//! reported itself. Positions in the trace are the clock:
//!
//! ```text
//! after  = position behind the session's last statement     the earliest time of the draw
//! before = position behind the statement itself             the latest one
//! ```
//!
//! On four real logs of eight saturated clients (`log_statement` and `log_min_duration_statement`,
//! simple and prepared), none of 32,000 draws lay outside.

use std::collections::{HashMap, HashSet};

use seatrial_sqltext::reading::{
    ColumnId, LastValue, ReturnedKey, StatementEffects, UseKind, ValueDraw, ValuePosition,
    ValueSource, ValueUse,
};
use seatrial_trace::captured::Returned;

use super::classes::{IdClass, IdClasses};
use super::clock::Clock;
use super::last_drawn::LastDrawn;
use super::rows::Rows;
use super::spots::{FirstMention, MentionPosition, RecentIds, Spots, texts_of};
use super::values::{Id, Kind, ValueText, elements};

/// Maximum number of rows of one statement that are followed.
const ROWS_MAX: u32 = 1 << 20;

/// Maximum literals and parameters of a drawing statement that are examined for numbers that its
/// client knew.
const VALUES_NAMED_MAX: usize = 64;

/// No index.
pub const NONE: u32 = u32::MAX;

/// Sessions whose first use of an id is kept.
const USES_MAX: usize = 4;

/// Precision of times in a log.
const MILLISECOND_US: i64 = 1_000;

/// The class of values without a use: a statement that failed returned nothing.
pub const UNUSED: u32 = u32::MAX - 1;

/// How many values a statement drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawCount {
    /// One for each of its slots.
    Known,
    /// It failed: none, or some.
    Failed,
    /// Unknown: only the server knows.
    Unknown,
}

impl DrawCount {
    /// How many values a statement with `slots` slots drew that failed with this code.
    ///
    /// Defaults are made before constraints are checked (`ExecInsert` in PostgreSQL's
    /// `nodeModifyTable.c`), and a statement that is not understood, or comes into a transaction
    /// that has failed, does nothing. Row security fails as permissions do, but after the draw;
    /// functions, and other statements of the text, fail with any code at any time.
    fn of_failed(code: [u8; 5], slots: u32, draws_before_checks: bool) -> (u32, DrawCount) {
        match &code {
            b"25P02" => (0, DrawCount::Known),
            b"42501" => (slots, DrawCount::Failed),
            [b'4', b'2', ..] if draws_before_checks => (0, DrawCount::Known),
            [b'2', b'3', ..] if draws_before_checks && slots == 1 => (1, DrawCount::Known),
            _ => (slots, DrawCount::Failed),
        }
    }
}

/// A statement that drew values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawStatement {
    /// Its position in the trace.
    pub number: u64,
    /// The earliest time at which it drew.
    pub after: u64,
    /// When it was sent according to its record.
    pub start_us: i64,
    /// The earliest time at which it was sent: the same, unless that is when it failed.
    pub sent_us: i64,
    pub session: u32,
    /// The earliest time at which others can have seen its row: when the transaction's end was
    /// sent.
    pub visible_after: u64,
    /// The number of its text in the list of texts.
    pub text: u32,
    /// The sequence; [`NONE`] for random values.
    pub sequence: u32,
    /// The class of the column; [`NONE`] if only the sequence is known and it generates the ids of
    /// several.
    pub class: u32,
    /// The column, if it is known.
    pub column: Option<ColumnId>,
    pub returned: Option<u32>,
    /// Whether its client received the values, so that a capture on the wire has them.
    pub is_given_back: bool,
    pub first_slot: u32,
    /// Number of its slots: one for each value.
    pub slots: u32,
    /// Whether that is certain.
    pub count: DrawCount,
    /// What it returned may be another statement's row (ON CONFLICT).
    pub may_conflict: bool,
    /// When it began, as precisely as the log shows: times are in milliseconds, and the order of
    /// records is more precise for statements that ended within one.
    pub begun_us: i64,
    /// Its latest end; None if unknown.
    pub done_us: Option<i64>,
    /// When it ended, if in the log. Then its position shows when that was; otherwise its position
    /// shows when its session's next statement arrived, and the previous position when it began.
    pub ends_us: Option<i64>,
}

impl DrawStatement {
    /// The latest time at which it drew.
    pub fn before(&self) -> u64 {
        self.number + 1
    }

    /// When its record was written.
    pub fn reported_us(&self) -> i64 {
        self.ends_us.unwrap_or(self.start_us)
    }
}

/// The first use of an id by a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionUse {
    /// The statement's position in the trace.
    pub number: u64,
    /// The id was known by then.
    pub deadline: u64,
    pub session: u32,
    /// The number of its text and position in the list of texts.
    pub text: u32,
    /// The last drawing of its session for the class; [`NONE`] for none.
    pub latest: u32,
}

/// An id that was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedId {
    pub id: Id,
    pub class: u32,
    pub first: SessionUse,
    /// First uses by other sessions.
    pub others: Vec<SessionUse>,
    /// The first statement that found its row, as shown by a foreign key.
    pub present: Option<FoundRow>,
}

/// A statement that found an existing row: a session sees its own rows, and committed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundRow {
    pub session: u32,
    /// When it had ended at the latest.
    pub ended: u64,
}

impl UsedId {
    /// The first use of each session, as far as kept.
    pub fn uses(&self) -> impl Iterator<Item = &SessionUse> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// A text that draws or uses ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextPosition {
    pub fingerprint: u64,
    /// The position of a use; None for a text that draws.
    pub position: Option<ValuePosition>,
}

/// A statement of a session whose ids count.
#[derive(Clone, Copy, Debug)]
pub struct ScannedStatement<'a> {
    /// Its position in the trace; they come in order.
    pub number: u64,
    pub session: u32,
    /// Number of its transaction in its session; 0 outside of any block.
    pub transaction: u64,
    /// Whether it is a BEGIN.
    pub begins: bool,
    /// When it was sent.
    pub start_us: i64,
    /// How long it took; None if not in the log.
    pub duration_us: Option<u64>,
    /// How many statements were reported since its beginning was, if known.
    pub reported_meanwhile: Option<u64>,
    /// The error that it ended with.
    pub error: Option<[u8; 5]>,
    pub fingerprint: u64,
    /// Analysis of its text.
    pub reading: &'a StatementEffects,
    /// What it returned, if captured.
    pub returned: Option<&'a Returned>,
    /// Its number of rows, if known and its text is one statement.
    pub rows: Option<u64>,
    /// Numbers of its literals and parameters.
    pub value_counts: (usize, usize),
}

impl ScannedStatement<'_> {
    /// The earliest time at which it was sent. A record of an error alone says when it failed,
    /// which may be long after it drew.
    fn sent_us(&self) -> i64 {
        if self.error.is_some() && self.duration_us.is_none() { i64::MIN } else { self.start_us }
    }

    /// When it ended; None if not in the log.
    fn ends_us(&self) -> Option<i64> {
        self.duration_us.map(|took_us| self.start_us.saturating_add_unsigned(took_us))
    }
}

/// Statements that ended at one time.
///
/// Times in a log are cut to milliseconds. Those that ended within one did so one after the other,
/// in the order of their records, so each is taken to have ended at its part of it.
#[derive(Debug, Default)]
struct SimultaneousEnds {
    at_us: i64,
    ended: u32,
    /// Drawings with these ends, and how many ended before.
    drawings: Vec<(u32, u32)>,
}

impl SimultaneousEnds {
    /// No more statements ended at that time.
    fn settle(&mut self, drawings: &mut [DrawStatement]) {
        let within_us = if self.at_us % MILLISECOND_US == 0 { MILLISECOND_US } else { 0 };
        for (drawing, turn) in self.drawings.drain(..) {
            let drawing = &mut drawings[drawing as usize];
            let behind_us = within_us * (2 * i64::from(turn) + 1) / (2 * i64::from(self.ended));
            drawing.begun_us = drawing.start_us.saturating_add(behind_us);
            drawing.done_us = Some(self.at_us.saturating_add(behind_us));
        }
        self.ended = 0;
    }
}

/// State of a session during the pass.
#[derive(Clone, Debug, Default)]
struct Session {
    /// The position behind its last statement; 0 before the first.
    after: u64,
    /// Its open block; 0 for none.
    block: u64,
    /// The earliest time of the block's last statement so far.
    block_after: u64,
    /// Drawings of the block.
    block_drawings: Vec<u32>,
    /// Drawings of its last statement.
    last_drawings: std::ops::Range<u32>,
    /// The last statement was reported when the next one arrived: its record is of its beginning
    /// only.
    is_reported_by_next: bool,
    /// Its record does not say when it ended.
    is_untimed: bool,
    /// The last drawing of each class.
    latest: Vec<(u32, u32)>,
    /// The last drawing of each sequence.
    last_drawn: LastDrawn,
    /// Ids that it drew or mentioned last.
    recent: RecentIds,
}

impl Session {
    /// The earliest time at which its next statement draws, and the latest one at which the ids
    /// that it mentions were known.
    fn times_of(&self, scanned: &ScannedStatement<'_>) -> (u64, u64) {
        let begun = scanned.reported_meanwhile.and_then(|count| scanned.number.checked_sub(count));
        let after = self.after.max(begun.unwrap_or(0));
        // The record of its beginning ends the one before; else others whose beginnings were
        // reported at the same time may have come first.
        let is_reported_now = self.is_reported_by_next && after == self.after;
        match begun {
            _ if is_reported_now => (after, after),
            Some(_) => (after, after + 1),
            None => (after, scanned.number + 1),
        }
    }
}

/// The result of a pass over a trace.
#[derive(Debug, Default)]
pub struct Scan {
    /// The classes of the target.
    pub classes: IdClasses,
    pub drawings: Vec<DrawStatement>,
    /// Values that they drew.
    pub slots: u32,
    /// Ids that were used, in the order of their first uses.
    pub used: Vec<UsedId>,
    /// Their indexes in that list, by class.
    pub indexes: Vec<HashMap<Id, u32>>,
    /// Slots with captured ids.
    pub exact: HashMap<(u32, Id), u32>,
    /// Captured ids of several slots.
    pub given_again: HashSet<(u32, Id)>,
    /// Sequences whose value was set, so that they may have generated values twice; None for any.
    pub sets: HashSet<Option<usize>>,
    /// Sequences of which not all values were captured.
    pub not_captured: HashSet<u32>,
    /// Some drawing statements lack their beginning or their end in the log.
    pub lacks_ends: bool,
    pub texts: Vec<TextPosition>,
    text_indexes: HashMap<TextPosition, u32>,
    sessions: Vec<Session>,
    /// Rows that statements returned by a key.
    pub rows: Rows,
    /// Blocks whose ends are not in the log.
    has_open_ends: bool,
    ending: SimultaneousEnds,
    /// Positions in texts where ids may be.
    pub spots: Spots,
    pub clock: Clock,
    /// Statements that were not understood and may have drawn from any sequence: the earliest time
    /// at which they drew, and when they were sent.
    pub obscure: Vec<(u64, i64)>,
}

impl Scan {
    /// Starts a pass over the statements of `sessions` sessions.
    pub fn of(classes: IdClasses, sessions: usize, rows: Rows) -> Scan {
        Scan {
            rows,
            indexes: vec![HashMap::new(); classes.all.len()],
            sessions: vec![Session::default(); sessions],
            classes,
            ..Scan::default()
        }
    }

    /// Processes the next statement of the trace.
    pub fn take<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        value_text: impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) {
        let session = &self.sessions[scanned.session as usize];
        let last = (session.after, session.is_untimed);
        self.clock.take(scanned.number, last, scanned.start_us, scanned.duration_us);
        let (after, deadline) = session.times_of(scanned);
        self.take_block(scanned, after);
        self.end_last(scanned);
        if !self.classes.all.is_empty() {
            for value_use in &scanned.reading.uses {
                self.take_use(scanned, value_use, deadline, &value_text);
            }
            if scanned.error.is_none() {
                self.take_parents(scanned, &value_text);
            }
            // With a syntax error, or in a transaction that has failed, nothing runs.
            let runs = !matches!(&scanned.error.unwrap_or_default(), b"42601" | b"25P02");
            if runs && scanned.reading.accesses_anything {
                self.obscure.push((after, scanned.sent_us()));
                self.sessions[scanned.session as usize].last_drawn.forget();
            }
            if !self.drawings.is_empty() {
                self.take_texts(scanned, deadline, &value_text);
            }
            if !scanned.reading.draws.is_empty() {
                self.take_named(scanned, &value_text);
            }
            self.take_last_values(scanned);
            self.take_shows(scanned, &value_text);
            self.sets.extend(&scanned.reading.sets);
            let drawings = self.drawings.len() as u32;
            for draw in &scanned.reading.draws {
                self.take_draw(scanned, draw, after, &value_text);
            }
            self.take_end(scanned, drawings..self.drawings.len() as u32);
        }
        let session = &mut self.sessions[scanned.session as usize];
        session.after = scanned.number + 1;
        session.is_untimed = scanned.duration_us.is_none();
        session.is_reported_by_next = session.is_untimed && scanned.error.is_none();
    }

    fn take_use<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        value_use: &ValueUse,
        deadline: u64,
        value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) {
        let Some(class) = self.classes.of_column(value_use.column) else { return };
        if matches!(value_use.kind, UseKind::Bound | UseKind::Inside) {
            return;
        }
        let Some(plain) = value_text(value_use.position).and_then(ValueText::plain) else { return };
        let text = self.text(scanned.fingerprint, Some(value_use.position));
        let latest = self.latest(scanned.session, class);
        let at =
            SessionUse { number: scanned.number, deadline, session: scanned.session, text, latest };
        let kind = self.classes.all[class as usize].kind;
        if value_use.kind == UseKind::Array {
            for range in elements(plain).unwrap_or_default() {
                if let Some(id) = Id::read(kind, &plain[range]) {
                    self.use_of(class, id, at);
                }
            }
        } else if let Some(id) = Id::read(kind, plain) {
            self.use_of(class, id, at);
        }
    }

    /// Records the block of a statement. Others see what was drawn in it when its last statement
    /// ends, at the earliest.
    fn take_block(&mut self, scanned: &ScannedStatement<'_>, after: u64) {
        let session = &mut self.sessions[scanned.session as usize];
        if session.block != scanned.transaction {
            end_block(session, &mut self.drawings);
            session.block = scanned.transaction;
        } else if scanned.begins && session.block != 0 {
            // The end of the block before is not in the log, so nothing is known of ends.
            self.has_open_ends = true;
        }
        session.block_after = after;
    }

    pub fn finish(&mut self) {
        self.clock.finish();
        for drawing in &mut self.drawings {
            drawing.after = drawing.after.max(self.clock.reported_before(drawing.sent_us));
        }
        for (after, sent_us) in &mut self.obscure {
            *after = (*after).max(self.clock.reported_before(*sent_us));
        }
        self.end_blocks();
        self.ending.settle(&mut self.drawings);
    }

    /// Open blocks end after their last known statement.
    fn end_blocks(&mut self) {
        for session in &mut self.sessions {
            end_block(session, &mut self.drawings);
        }
        if self.has_open_ends {
            self.drawings.iter_mut().for_each(|drawing| drawing.visible_after = drawing.after);
        }
    }

    /// A session's last statement had ended when its next one was sent.
    fn end_last(&mut self, scanned: &ScannedStatement<'_>) {
        let last = std::mem::take(&mut self.sessions[scanned.session as usize].last_drawings);
        for drawing in &mut self.drawings[last.start as usize..last.end as usize] {
            drawing.done_us.get_or_insert(scanned.start_us);
        }
    }

    /// Records when a statement ended, if it says so.
    fn take_end(&mut self, scanned: &ScannedStatement<'_>, drew: std::ops::Range<u32>) {
        if let Some(ends_us) = scanned.ends_us() {
            if ends_us != self.ending.at_us {
                self.ending.settle(&mut self.drawings);
                self.ending.at_us = ends_us;
            }
            let turn = self.ending.ended;
            self.ending.ended += 1;
            self.ending.drawings.extend(drew.clone().map(|drawing| (drawing, turn)));
        }
        self.sessions[scanned.session as usize].last_drawings = drew;
    }

    /// Records rows that were found by checks of foreign keys.
    fn take_parents<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) {
        for &(column, position) in &scanned.reading.parents {
            let Some(class) = self.classes.of_column(column) else { continue };
            let IdClass { kind, column: own, .. } = self.classes.all[class as usize];
            let plain = value_text(position).and_then(ValueText::plain).filter(|_| column == own);
            let Some(id) = plain.and_then(|plain| Id::read(kind, plain)) else { continue };
            if let Some(&index) = self.indexes[class as usize].get(&id) {
                let present = FoundRow { session: scanned.session, ended: scanned.number + 1 };
                self.used[index as usize].present.get_or_insert(present);
            }
        }
    }

    fn use_of(&mut self, class: u32, id: Id, at: SessionUse) {
        self.note(class, id, at);
        if self.classes.all[class as usize].kind == Kind::Number {
            let recent = &mut self.sessions[at.session as usize].recent;
            self.spots.used(class, id, at.number, recent);
        }
    }

    /// Records numbers and UUIDs within texts.
    fn take_texts<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        deadline: u64,
        value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) {
        let mut texts = Vec::new();
        let ScannedStatement { number, session, fingerprint, .. } = *scanned;
        texts_of(
            scanned.reading,
            &self.classes,
            fingerprint,
            scanned.value_counts,
            value_text,
            |text| {
                texts.push(text);
            },
        );
        let mut uuids = Vec::new();
        for text in texts {
            let of_text = self.text(fingerprint, Some(text.position));
            let at = MentionPosition { number, deadline, session, text: of_text };
            let Scan { sessions, spots, .. } = self;
            let Session { recent, latest, .. } = &mut sessions[session as usize];
            let latest = |class| {
                latest.iter().find(|(known, _)| *known == class).map_or(NONE, |&(_, index)| index)
            };
            spots.take(&text, at, recent, latest, |uuid| uuids.push((uuid, of_text)));
        }
        for (uuid, text) in uuids {
            let all = (0..).zip(&self.classes.all);
            let classes = all.filter(|(_, class)| class.kind == Kind::Uuid);
            let classes: Vec<u32> = classes.map(|(class, _)| class).collect();
            for class in classes {
                if self.exact.contains_key(&(class, uuid)) {
                    let at = SessionUse { number, deadline, session, text, latest: NONE };
                    self.note(class, uuid, at);
                }
            }
        }
    }

    /// Records numbers in a statement that its client knew before it drew.
    fn take_named<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) {
        let (literals, parameters) = scanned.value_counts;
        let all = (0..literals as u32).map(ValuePosition::Literal);
        let all =
            all.chain((0..parameters as u32).map(ValuePosition::Parameter)).take(VALUES_NAMED_MAX);
        let recent = &mut self.sessions[scanned.session as usize].recent;
        for position in all {
            let plain = value_text(position).and_then(ValueText::plain);
            if let Some(id) = plain.and_then(|plain| Id::read(Kind::Number, plain)) {
                recent.name(id);
            }
        }
    }

    /// Records numbers that were found to be ids as uses; returns whether any was new.
    pub fn note_mentions(
        &mut self,
        trusted: impl Iterator<Item = (u32, Id, FirstMention)>,
    ) -> bool {
        let mut found: Vec<(u32, Id, FirstMention)> = trusted.collect();
        found.sort_by_key(|(_, _, entry)| entry.number);
        let before = self.used.len();
        for (class, id, entry) in found {
            if !self.indexes[class as usize].contains_key(&id) {
                let FirstMention { number, deadline, session, text, latest, .. } = entry;
                self.note(class, id, SessionUse { number, deadline, session, text, latest });
            }
        }
        self.used.len() > before
    }

    fn note(&mut self, class: u32, id: Id, at: SessionUse) {
        let next = self.used.len() as u32;
        let index = *self.indexes[class as usize].entry(id).or_insert(next);
        if index == next {
            let used = UsedId { id, class, first: at, others: Vec::new(), present: None };
            return self.used.push(used);
        }
        let used = &mut self.used[index as usize];
        let is_known = used.uses().any(|other| other.session == at.session);
        if !is_known && used.others.len() + 1 < USES_MAX {
            used.others.push(at);
        }
    }

    fn take_draw<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        draw: &ValueDraw,
        after: u64,
        value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) {
        let class = self.class_of(draw);
        let sequence = match draw.source {
            ValueSource::Sequence(sequence) => sequence as u32,
            ValueSource::Random => NONE,
            ValueSource::Time => return,
        };
        self.sessions[scanned.session as usize].last_drawn.drew(draw, None);
        let Some(class) = class else { return };
        let (slots, count) = slots_of_draw(scanned, draw, value_text);
        let has_ended = scanned.duration_us.is_some() || scanned.error.is_some();
        self.lacks_ends |= scanned.reported_meanwhile.is_none() || !has_ended;
        let class = if scanned.error.is_some() { UNUSED } else { class };
        let index = self.drawings.len() as u32;
        let drawing = DrawStatement {
            number: scanned.number,
            after,
            start_us: scanned.start_us,
            sent_us: scanned.sent_us(),
            session: scanned.session,
            visible_after: after,
            text: self.text(scanned.fingerprint, None),
            sequence,
            class,
            column: draw.column,
            returned: draw.returned,
            is_given_back: draw.returned.is_some(),
            first_slot: self.slots,
            slots,
            count,
            may_conflict: draw.may_conflict,
            begun_us: scanned.start_us,
            done_us: None,
            ends_us: scanned.ends_us(),
        };
        self.slots += slots;
        // A value that goes to the client alone may be of a row of any transaction.
        if scanned.transaction != 0 && draw.column.is_some() {
            self.sessions[scanned.session as usize].block_drawings.push(index);
        }
        if scanned.error.is_none() {
            let is_set = draw.column.is_none()
                && count == DrawCount::Unknown
                && scanned.reading.sets.contains(&Some(sequence as usize));
            if !self.note_returned(scanned, &drawing) && !is_set {
                self.not_captured.insert(sequence);
            }
            self.note_latest(scanned.session, &drawing, index);
            if count == DrawCount::Known && slots > 0 && !draw.may_conflict {
                self.sessions[scanned.session as usize].last_drawn.drew(draw, Some(index));
            }
        }
        self.drawings.push(drawing);
    }

    /// The class of a draw; [`NONE`] if it may be any of a sequence's, None if it has none.
    fn class_of(&self, draw: &ValueDraw) -> Option<u32> {
        match (draw.column, draw.source) {
            (Some(column), _) => self.classes.of_column(column),
            (None, ValueSource::Sequence(sequence)) => {
                let mut all = self.classes.of_sequence(sequence);
                let first = all.next();
                if all.next().is_some() { Some(NONE) } else { first }
            }
            (None, ValueSource::Random | ValueSource::Time) => None,
        }
    }

    /// Records returned ids row by row; returns whether all of them were captured.
    fn note_returned(&mut self, scanned: &ScannedStatement<'_>, drawing: &DrawStatement) -> bool {
        let (Some(answer), Some(column)) = (scanned.returned, drawing.returned) else {
            return false;
        };
        if rows_of(scanned, answer) != drawing.slots {
            // ON CONFLICT DO NOTHING leaves rows out: which of them is not known.
            return false;
        }
        let mut ids = Vec::new();
        for class in self.classes_of(drawing) {
            let kind = self.classes.all[class as usize].kind;
            for (slot, row) in (drawing.first_slot..).zip(&answer.rows) {
                let text = row.get(column as usize).and_then(Option::as_deref);
                if let Some(id) = text.and_then(|text| Id::read(kind, text)) {
                    self.note_exact(class, id, slot, drawing);
                    ids.push(id);
                }
            }
            if kind == Kind::Number {
                let recent = &mut self.sessions[scanned.session as usize].recent;
                recent.drew(class, ids.drain(..), scanned.number);
            }
            ids.clear();
        }
        answer.rows.len() == drawing.slots as usize
    }

    /// Records that a slot of a drawing generated an id. An id that ON CONFLICT returns again stays
    /// the first one's, unless the sequence was reset; for any other, the owner is unknown.
    fn note_exact(&mut self, class: u32, id: Id, slot: u32, drawing: &DrawStatement) {
        let is_again = *self.exact.entry((class, id)).or_insert(slot) != slot;
        if is_again && (!drawing.may_conflict || self.is_set(drawing.sequence)) {
            self.given_again.insert((class, id));
        }
    }

    /// Whether a sequence's value was set.
    pub fn is_set(&self, sequence: u32) -> bool {
        self.sets.contains(&None) || self.sets.contains(&Some(sequence as usize))
    }

    /// Records the results of `lastval` and `currval`.
    fn take_last_values(&mut self, scanned: &ScannedStatement<'_>) {
        // The statement's own draw is not recorded yet, and may come before or after.
        let is_own = |last: &LastValue| {
            scanned.reading.draws.iter().any(|draw| match draw.source {
                ValueSource::Sequence(sequence) => last.sequence.is_none_or(|of| of == sequence),
                ValueSource::Random | ValueSource::Time => false,
            })
        };
        let given = scanned.reading.last_values.iter().filter(|_| scanned.error.is_none());
        for last in given.filter(|last| !is_own(last)) {
            let index = self.sessions[scanned.session as usize].last_drawn.drawing(last);
            let Some(index) = index else { continue };
            self.drawings[index as usize].is_given_back = true;
            let row = match scanned.returned.map(|answer| answer.rows.as_slice()) {
                Some([row]) => row,
                _ => continue,
            };
            let drawing = self.drawings[index as usize].clone();
            let slot = drawing.first_slot + drawing.slots - 1;
            let text = row.get(last.returned as usize).and_then(Option::as_deref);
            for class in self.classes_of(&drawing) {
                let kind = self.classes.all[class as usize].kind;
                if let Some(id) = text.and_then(|text| Id::read(kind, text)) {
                    self.note_exact(class, id, slot, &drawing);
                    if kind == Kind::Number {
                        let recent = &mut self.sessions[scanned.session as usize].recent;
                        recent.drew(class, std::iter::once(id), scanned.number);
                    }
                }
            }
        }
    }

    /// Records rows that were returned by a key.
    fn take_shows<'a>(
        &mut self,
        scanned: &ScannedStatement<'_>,
        value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    ) {
        if scanned.error.is_some() {
            return;
        }
        let mut of_ids = Vec::new();
        let mut ids = Vec::new();
        for shown in &scanned.reading.shows {
            let Some(class) = self.classes.of_column(shown.column) else { continue };
            let kind = self.classes.all[class as usize].kind;
            of_ids.push((*shown, class, kind));
            let id = self.rows.take(scanned, shown, (class, kind), value_text);
            ids.extend(id.map(|id| (class, id)));
        }
        if !of_ids.is_empty() && scanned.returned.is_some_and(|answer| answer.rows.len() > 1) {
            let is_time = |shown: &&ReturnedKey| self.classes.is_of_time(shown.column);
            let times = scanned.reading.shows.iter().filter(is_time).map(|shown| shown.returned);
            ids.extend(self.rows.take_multi_row(scanned, &of_ids, &times.collect::<Vec<u32>>()));
        }
        for (class, id) in ids {
            if self.classes.all[class as usize].kind == Kind::Number {
                let recent = &mut self.sessions[scanned.session as usize].recent;
                recent.drew(class, std::iter::once(id), scanned.number);
            }
        }
    }

    /// The statement of a slot.
    pub fn of_slot(&self, slot: u32) -> Option<&DrawStatement> {
        if slot >= self.slots {
            return None;
        }
        let index = self.drawings.partition_point(|drawing| drawing.first_slot <= slot);
        self.drawings.get(index.checked_sub(1)?)
    }

    /// Classes that a drawing may be of.
    pub fn classes_of(&self, drawing: &DrawStatement) -> Vec<u32> {
        match drawing.class {
            NONE => {}
            UNUSED => return Vec::new(),
            class => return vec![class],
        }
        self.classes.of_sequence(drawing.sequence as usize).collect()
    }

    fn note_latest(&mut self, session: u32, drawing: &DrawStatement, index: u32) {
        for class in self.classes_of(drawing) {
            let latest = &mut self.sessions[session as usize].latest;
            match latest.iter_mut().find(|(known, _)| *known == class) {
                Some((_, known)) => *known = index,
                None => latest.push((class, index)),
            }
        }
    }

    fn latest(&self, session: u32, class: u32) -> u32 {
        let latest = &self.sessions[session as usize].latest;
        latest.iter().find(|(known, _)| *known == class).map_or(NONE, |&(_, index)| index)
    }

    fn text(&mut self, fingerprint: u64, position: Option<ValuePosition>) -> u32 {
        let text = TextPosition { fingerprint, position };
        let next = self.texts.len() as u32;
        let known = *self.text_indexes.entry(text).or_insert(next);
        if known == next {
            self.texts.push(text);
        }
        known
    }
}

/// Others can have seen what was drawn in a block when its last statement was sent.
fn end_block(session: &mut Session, drawings: &mut [DrawStatement]) {
    for index in session.block_drawings.drain(..) {
        drawings[index as usize].visible_after = session.block_after;
    }
}

/// How many values a statement draws, and how far that is known.
fn slots_of_draw<'a>(
    scanned: &ScannedStatement<'_>,
    draw: &ValueDraw,
    value_text: &impl Fn(ValuePosition) -> Option<ValueText<'a>>,
) -> (u32, DrawCount) {
    let rows =
        scanned.returned.filter(|_| draw.returned.is_some()).map(|answer| rows_of(scanned, answer));
    let array = draw.each_of.and_then(value_text).and_then(ValueText::plain).and_then(elements);
    let known = draw.count.or(array.map(|all| all.len() as u32));
    match (known.or(rows.filter(|&rows| rows <= ROWS_MAX)), scanned.error) {
        (Some(slots), Some(code)) => {
            DrawCount::of_failed(code, slots, scanned.reading.draws_before_checks)
        }
        (Some(slots), None) => (slots, DrawCount::Known),
        (None, _) => (0, DrawCount::Unknown),
    }
}

/// Number of rows that a statement returned, of which the first were kept.
fn rows_of(scanned: &ScannedStatement<'_>, answer: &Returned) -> u32 {
    let kept = answer.rows.len();
    let all = scanned.rows.and_then(|rows| usize::try_from(rows).ok());
    u32::try_from(all.map_or(kept, |all| all.max(kept))).unwrap_or(u32::MAX)
}
