//! One pass over what was captured: what was drawn, which ids were used, and when.
//!
//! # The clock
//!
//! A log's timestamps are too coarse to show the order of draws from a sequence, but the order of
//! its records is not: a statement is reported as soon as something shows that it has ended, which
//! is its own record where that is written at the end, else its session's next one. So a statement
//! drew after the previous statement of its session was reported, and before it was reported
//! itself. Places in the trace are the clock:
//!
//! ```text
//! after  = place behind the session's last statement     the earliest time of the draw
//! before = place behind the statement itself             the latest one
//! ```
//!
//! On four real logs of eight saturated clients (`log_statement` and `log_min_duration_statement`,
//! simple and prepared), none of 32,000 draws lay outside.

use std::collections::{HashMap, HashSet};

use seatrial_sqltext::reading::{
    ColumnId, ReturnedKey, StatementEffects, UseKind, ValueDraw, ValuePosition, ValueSource,
    ValueUse,
};
use seatrial_trace::captured::Returned;

use super::classes::{Class, Classes};
use super::clock::Clock;
use super::last_drawn::LastDrawn;
use super::rows::Rows;
use super::spots::{At, Entry, Near, Spots, texts_of};
use super::values::{Id, Kind, Spelled, elements};

/// Rows of one statement that are followed.
const ROWS_MAX: u32 = 1 << 20;

/// Literals and parameters of a statement that draws which are looked at for numbers that its
/// client knew.
const PLACES_NAMED_MAX: usize = 64;

/// No place in a list.
pub const NONE: u32 = u32::MAX;

/// Sessions whose first use of an id is kept.
const USES_MAX: usize = 4;

/// Times in a log are cut to so much.
const MILLISECOND_US: i64 = 1_000;

/// The class of what was drawn for nothing: a statement that failed gave back nothing.
pub const NOBODY: u32 = u32::MAX - 1;

/// How many values a statement drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// As many as it has slots.
    Known,
    /// It failed: none, or some.
    Failed,
    /// Only the server knows.
    Unknown,
}

impl Count {
    /// How many values a statement with `slots` slots drew that failed with this code.
    ///
    /// Defaults are made before constraints are checked (`ExecInsert` in PostgreSQL's
    /// `nodeModifyTable.c`), and a statement that is not understood, or comes into a transaction
    /// that has failed, does nothing.
    fn of_failed(code: [u8; 5], slots: u32) -> (u32, Count) {
        match &code {
            [b'4', b'2', ..] | b"25P02" => (0, Count::Known),
            [b'2', b'3', ..] if slots == 1 => (1, Count::Known),
            _ => (slots, Count::Failed),
        }
    }
}

/// A statement that drew values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Its place in the trace.
    pub number: u64,
    /// The earliest time at which it drew.
    pub after: u64,
    /// When it was sent, as its record says.
    pub start_us: i64,
    /// When it was sent at the earliest: the same, unless that is when it failed.
    pub sent_us: i64,
    /// Its session.
    pub session: u32,
    /// The earliest time at which others can have seen the row that it was drawn for: when the
    /// transaction's end was sent.
    pub seen_after: u64,
    /// The number of its text in the list of texts.
    pub text: u32,
    /// The sequence; [`NONE`] for random values.
    pub sequence: u32,
    /// The class of the column; [`NONE`] where only the sequence is known, and it makes the ids of
    /// several.
    pub class: u32,
    /// The column, if it is known.
    pub column: Option<ColumnId>,
    /// Where among the columns of the result the values come back.
    pub returned: Option<u32>,
    /// Whether its client was given the values, so that a capture on the wire has them.
    pub is_given_back: bool,
    /// Its first slot.
    pub first_slot: u32,
    /// Its slots: one for each value.
    pub slots: u32,
    /// Whether it drew as many.
    pub count: Count,
    /// What it gave back may be another row's.
    pub may_conflict: bool,
    /// When it began, as closely as the log shows: times are to the millisecond, and of statements
    /// that ended within one the order of their records says more.
    pub begun_us: i64,
    /// When it had ended at the latest; None where that is not known.
    pub done_us: Option<i64>,
    /// When it ended, if in the log: its place then says when that was; else it says when its
    /// session's next statement came, and the last one's place says when it began itself.
    pub ends_us: Option<i64>,
}

impl Drawing {
    /// The latest time at which it drew.
    pub fn before(&self) -> u64 {
        self.number + 1
    }

    /// When its record was written.
    pub fn reported_us(&self) -> i64 {
        self.ends_us.unwrap_or(self.start_us)
    }
}

/// A use of an id by a session that had not used it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UseAt {
    /// The statement's place in the trace.
    pub number: u64,
    /// The id was known by then.
    pub deadline: u64,
    /// Its session.
    pub session: u32,
    /// The number of its text and place in the list of texts.
    pub text: u32,
    /// What its session had drawn of the class last; [`NONE`] for nothing.
    pub latest: u32,
}

/// An id that was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The id.
    pub id: Id,
    /// Its class.
    pub class: u32,
    /// The first use.
    pub first: UseAt,
    /// First uses by other sessions.
    pub others: Vec<UseAt>,
    /// The first statement that found its row, as a foreign key showed.
    pub present: Option<Present>,
}

/// A statement that found a row there: a session sees its own, and those that were committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Its session.
    pub session: u32,
    /// It had ended by then.
    pub ended: u64,
}

impl Used {
    /// The first uses of each session, as far as they are kept.
    pub fn uses(&self) -> impl Iterator<Item = &UseAt> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// A text that draws or uses ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextPosition {
    /// Hash of the fingerprint.
    pub fingerprint: u64,
    /// The place of a use; None for a text that draws.
    pub place: Option<ValuePosition>,
}

/// A statement of a session whose ids count.
#[derive(Clone, Copy, Debug)]
pub struct ScannedStatement<'a> {
    /// Its place in the trace; they come in order.
    pub number: u64,
    /// Its session.
    pub session: u32,
    /// Which transaction of its session; 0 outside of any block.
    pub transaction: u64,
    /// It is a BEGIN.
    pub begins: bool,
    /// When it was sent.
    pub start_us: i64,
    /// How long it took; None if not in the log.
    pub duration_us: Option<u64>,
    /// How many statements of the trace were reported since its beginning was, if known.
    pub reported_meanwhile: Option<u64>,
    /// The error that it ended with.
    pub error: Option<[u8; 5]>,
    /// Hash of its fingerprint.
    pub fingerprint: u64,
    /// What it does.
    pub reading: &'a StatementEffects,
    /// What it gave back, if that was captured.
    pub returned: Option<&'a Returned>,
    /// How many rows it had, as far as that is known of a text of one statement.
    pub rows: Option<u64>,
    /// How many literals and parameters it has.
    pub places: (usize, usize),
}

impl ScannedStatement<'_> {
    /// When it was sent, at the earliest. A record of an error alone says when it failed, which may
    /// be long after it drew.
    fn sent_us(&self) -> i64 {
        if self.error.is_some() && self.duration_us.is_none() { i64::MIN } else { self.start_us }
    }

    /// When it ended, where the log says so.
    fn ends_us(&self) -> Option<i64> {
        self.duration_us.map(|took_us| self.start_us.saturating_add_unsigned(took_us))
    }
}

/// Statements that ended at one time.
///
/// Times in a log are cut to milliseconds. Those that ended within one did so one after the other,
/// in the order of their records, so each is taken to have ended at its part of it.
#[derive(Debug, Default)]
struct Ending {
    at_us: i64,
    ended: u32,
    /// Drawings of these, and how many ended before.
    drawings: Vec<(u32, u32)>,
}

impl Ending {
    /// No more ended at that time.
    fn settle(&mut self, drawings: &mut [Drawing]) {
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

/// What is known of a session as the pass goes on.
#[derive(Clone, Debug, Default)]
struct Session {
    /// The place behind its last statement; 0 before the first.
    after: u64,
    /// The block that it is in; 0 outside of any.
    block: u64,
    /// The earliest time of the block's last statement so far.
    block_after: u64,
    /// What was drawn in the block.
    block_drawings: Vec<u32>,
    /// What its last statement drew.
    last_drawings: std::ops::Range<u32>,
    /// The last statement was reported when the next one came: its record is of its beginning only.
    is_reported_by_next: bool,
    /// Its record does not say when it ended.
    is_untimed: bool,
    /// What it drew last of each class.
    latest: Vec<(u32, u32)>,
    /// What it drew last of each sequence.
    last_drawn: LastDrawn,
    /// Ids that it drew or named last.
    near: Near,
}

impl Session {
    /// The earliest time at which its next statement draws, and the latest one at which what that
    /// names was known.
    fn times_of(&self, seen: &ScannedStatement<'_>) -> (u64, u64) {
        let begun = seen.reported_meanwhile.and_then(|reported| seen.number.checked_sub(reported));
        let after = self.after.max(begun.unwrap_or(0));
        // The record of its beginning ends the one before; else others whose beginnings were
        // reported at the same time may have come first.
        let is_reported_now = self.is_reported_by_next && after == self.after;
        match begun {
            _ if is_reported_now => (after, after),
            Some(_) => (after, after + 1),
            None => (after, seen.number + 1),
        }
    }
}

/// What was captured, as far as ids go.
#[derive(Debug, Default)]
pub struct Scan {
    /// The classes of the target.
    pub classes: Classes,
    /// Statements that drew.
    pub drawings: Vec<Drawing>,
    /// Values that they drew.
    pub slots: u32,
    /// Ids that were used, in the order of their first uses.
    pub used: Vec<Used>,
    /// Their places in that list, by class.
    pub places: Vec<HashMap<Id, u32>>,
    /// Slots whose id was captured.
    pub exact: HashMap<(u32, Id), u32>,
    /// Ids that were captured as given by several slots.
    pub given_again: HashSet<(u32, Id)>,
    /// Sequences that went on elsewhere, so that they may have given values again; None for any.
    pub sets: HashSet<Option<usize>>,
    /// Sequences of which not all values were captured.
    pub not_captured: HashSet<u32>,
    /// Some statements that drew lack their beginning or their end in the log.
    pub lacks_ends: bool,
    /// The distinct texts.
    pub texts: Vec<TextPosition>,
    text_places: HashMap<TextPosition, u32>,
    sessions: Vec<Session>,
    /// Rows that statements showed as they picked them.
    pub rows: Rows,
    /// Blocks whose ends are not in the log.
    has_open_ends: bool,
    ending: Ending,
    /// Places in texts where ids may be.
    pub spots: Spots,
    /// When things happened.
    pub clock: Clock,
    /// Statements that may have drawn from anywhere, as they were not understood: the earliest time
    /// at which they drew, and when they were sent.
    pub obscure: Vec<(u64, i64)>,
}

impl Scan {
    /// Starts a pass over the statements of `sessions` sessions.
    pub fn of(classes: Classes, sessions: usize, rows: Rows) -> Scan {
        Scan {
            rows,
            places: vec![HashMap::new(); classes.all.len()],
            sessions: vec![Session::default(); sessions],
            classes,
            ..Scan::default()
        }
    }

    /// Takes in the next statement of the trace.
    pub fn take<'a>(
        &mut self,
        seen: &ScannedStatement<'_>,
        spelled: impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) {
        let session = &self.sessions[seen.session as usize];
        let last = (session.after, session.is_untimed);
        self.clock.take(seen.number, last, seen.start_us, seen.duration_us);
        let (after, deadline) = session.times_of(seen);
        self.take_block(seen, after);
        self.end_last(seen);
        if !self.classes.all.is_empty() {
            for reported in &seen.reading.uses {
                self.take_use(seen, reported, deadline, &spelled);
            }
            if seen.error.is_none() {
                self.take_parents(seen, &spelled);
            }
            if seen.reading.accesses_anything {
                self.obscure.push((after, seen.sent_us()));
                self.sessions[seen.session as usize].last_drawn.forget();
            }
            if !self.drawings.is_empty() {
                self.take_texts(seen, deadline, &spelled);
            }
            if !seen.reading.draws.is_empty() {
                self.take_named(seen, &spelled);
            }
            self.take_last_values(seen);
            self.take_shows(seen, &spelled);
            self.sets.extend(&seen.reading.sets);
            let drawings = self.drawings.len() as u32;
            for draw in &seen.reading.draws {
                self.take_draw(seen, draw, after, &spelled);
            }
            self.take_end(seen, drawings..self.drawings.len() as u32);
        }
        let session = &mut self.sessions[seen.session as usize];
        session.after = seen.number + 1;
        session.is_untimed = seen.duration_us.is_none();
        session.is_reported_by_next = session.is_untimed && seen.error.is_none();
    }

    fn take_use<'a>(
        &mut self,
        seen: &ScannedStatement<'_>,
        reported: &ValueUse,
        deadline: u64,
        spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) {
        let Some(class) = self.classes.of_column(reported.column) else { return };
        if matches!(reported.kind, UseKind::Bound | UseKind::Inside) {
            return;
        }
        let Some(plain) = spelled(reported.position).and_then(Spelled::plain) else { return };
        let text = self.text(seen.fingerprint, Some(reported.position));
        let latest = self.latest(seen.session, class);
        let at = UseAt { number: seen.number, deadline, session: seen.session, text, latest };
        let kind = self.classes.all[class as usize].kind;
        if reported.kind == UseKind::Array {
            for range in elements(plain).unwrap_or_default() {
                if let Some(id) = Id::read(kind, &plain[range]) {
                    self.use_of(class, id, at);
                }
            }
        } else if let Some(id) = Id::read(kind, plain) {
            self.use_of(class, id, at);
        }
    }

    /// Takes in which block a statement is in. What was drawn in it is seen by others when its last
    /// statement ends, at the earliest.
    fn take_block(&mut self, seen: &ScannedStatement<'_>, after: u64) {
        let session = &mut self.sessions[seen.session as usize];
        if session.block != seen.transaction {
            end_block(session, &mut self.drawings);
            session.block = seen.transaction;
        } else if seen.begins && session.block != 0 {
            // The end of the block before is not in the log, so nothing is known of ends.
            self.has_open_ends = true;
        }
        session.block_after = after;
    }

    /// No more comes.
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

    /// Blocks that are open end after the last that is known of them.
    fn end_blocks(&mut self) {
        for session in &mut self.sessions {
            end_block(session, &mut self.drawings);
        }
        if self.has_open_ends {
            self.drawings.iter_mut().for_each(|drawing| drawing.seen_after = drawing.after);
        }
    }

    /// A session's last statement had ended when its next one was sent.
    fn end_last(&mut self, seen: &ScannedStatement<'_>) {
        let last = std::mem::take(&mut self.sessions[seen.session as usize].last_drawings);
        for drawing in &mut self.drawings[last.start as usize..last.end as usize] {
            drawing.done_us.get_or_insert(seen.start_us);
        }
    }

    /// Takes in when a statement ended that drew, or not, where it says so.
    fn take_end(&mut self, seen: &ScannedStatement<'_>, drew: std::ops::Range<u32>) {
        if let Some(ends_us) = seen.ends_us() {
            if ends_us != self.ending.at_us {
                self.ending.settle(&mut self.drawings);
                self.ending.at_us = ends_us;
            }
            let turn = self.ending.ended;
            self.ending.ended += 1;
            self.ending.drawings.extend(drew.clone().map(|drawing| (drawing, turn)));
        }
        self.sessions[seen.session as usize].last_drawings = drew;
    }

    /// Takes in rows that were found as foreign keys were checked.
    fn take_parents<'a>(
        &mut self,
        seen: &ScannedStatement<'_>,
        spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) {
        for &(column, place) in &seen.reading.parents {
            let Some(class) = self.classes.of_column(column) else { continue };
            let Class { kind, column: own, .. } = self.classes.all[class as usize];
            let plain = spelled(place).and_then(Spelled::plain).filter(|_| column == own);
            let Some(id) = plain.and_then(|plain| Id::read(kind, plain)) else { continue };
            if let Some(&place) = self.places[class as usize].get(&id) {
                let present = Present { session: seen.session, ended: seen.number + 1 };
                self.used[place as usize].present.get_or_insert(present);
            }
        }
    }

    fn use_of(&mut self, class: u32, id: Id, at: UseAt) {
        self.note(class, id, at);
        if self.classes.all[class as usize].kind == Kind::Number {
            let near = &mut self.sessions[at.session as usize].near;
            self.spots.used(class, id, at.number, near);
        }
    }

    /// Takes in numbers and UUIDs within texts.
    fn take_texts<'a>(
        &mut self,
        seen: &ScannedStatement<'_>,
        deadline: u64,
        spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) {
        let mut texts = Vec::new();
        let ScannedStatement { number, session, fingerprint, .. } = *seen;
        texts_of(seen.reading, &self.classes, fingerprint, seen.places, spelled, |text| {
            texts.push(text);
        });
        let mut uuids = Vec::new();
        for text in texts {
            let of_text = self.text(fingerprint, Some(text.place));
            let at = At { number, deadline, session, text: of_text };
            let Scan { sessions, spots, .. } = self;
            let Session { near, latest, .. } = &mut sessions[session as usize];
            let latest = |class| {
                latest.iter().find(|(known, _)| *known == class).map_or(NONE, |&(_, place)| place)
            };
            spots.take(&text, at, near, latest, |uuid| uuids.push((uuid, of_text)));
        }
        for (uuid, text) in uuids {
            let all = (0..).zip(&self.classes.all);
            let classes = all.filter(|(_, class)| class.kind == Kind::Uuid);
            let classes: Vec<u32> = classes.map(|(class, _)| class).collect();
            for class in classes {
                if self.exact.contains_key(&(class, uuid)) {
                    let at = UseAt { number, deadline, session, text, latest: NONE };
                    self.note(class, uuid, at);
                }
            }
        }
    }

    /// Takes in numbers in a statement that its client knew before it drew.
    fn take_named<'a>(
        &mut self,
        seen: &ScannedStatement<'_>,
        spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) {
        let (literals, parameters) = seen.places;
        let all = (0..literals as u32).map(ValuePosition::Literal);
        let all =
            all.chain((0..parameters as u32).map(ValuePosition::Parameter)).take(PLACES_NAMED_MAX);
        let near = &mut self.sessions[seen.session as usize].near;
        for place in all {
            let plain = spelled(place).and_then(Spelled::plain);
            if let Some(id) = plain.and_then(|plain| Id::read(Kind::Number, plain)) {
                near.name(id);
            }
        }
    }

    /// Takes in numbers that were found to be ids, as uses; whether there was any other than those
    /// that are known.
    pub fn note_mentions(&mut self, trusted: impl Iterator<Item = (u32, Id, Entry)>) -> bool {
        let mut found: Vec<(u32, Id, Entry)> = trusted.collect();
        found.sort_by_key(|(_, _, entry)| entry.number);
        let before = self.used.len();
        for (class, id, entry) in found {
            if !self.places[class as usize].contains_key(&id) {
                let Entry { number, deadline, session, text, latest, .. } = entry;
                self.note(class, id, UseAt { number, deadline, session, text, latest });
            }
        }
        self.used.len() > before
    }

    fn note(&mut self, class: u32, id: Id, at: UseAt) {
        let next = self.used.len() as u32;
        let place = *self.places[class as usize].entry(id).or_insert(next);
        if place == next {
            let used = Used { id, class, first: at, others: Vec::new(), present: None };
            return self.used.push(used);
        }
        let used = &mut self.used[place as usize];
        let is_known = used.uses().any(|other| other.session == at.session);
        if !is_known && used.others.len() + 1 < USES_MAX {
            used.others.push(at);
        }
    }

    fn take_draw<'a>(
        &mut self,
        seen: &ScannedStatement<'_>,
        draw: &ValueDraw,
        after: u64,
        spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) {
        let class = self.class_of(draw);
        let sequence = match draw.source {
            ValueSource::Sequence(sequence) => sequence as u32,
            ValueSource::Random => NONE,
            ValueSource::Time => return,
        };
        self.sessions[seen.session as usize].last_drawn.drew(draw, None);
        let Some(class) = class else { return };
        let rows = seen
            .returned
            .filter(|_| draw.returned.is_some())
            .map(|reported| rows_of(seen, reported));
        let array = draw.each_of.and_then(spelled).and_then(Spelled::plain).and_then(elements);
        let known = draw.count.or(array.map(|all| all.len() as u32));
        let (slots, count) = match (known.or(rows.filter(|&rows| rows <= ROWS_MAX)), seen.error) {
            (Some(slots), Some(code)) => Count::of_failed(code, slots),
            (Some(slots), None) => (slots, Count::Known),
            (None, _) => (0, Count::Unknown),
        };
        let has_ended = seen.duration_us.is_some() || seen.error.is_some();
        self.lacks_ends |= seen.reported_meanwhile.is_none() || !has_ended;
        let class = if seen.error.is_some() { NOBODY } else { class };
        let place = self.drawings.len() as u32;
        let drawing = Drawing {
            number: seen.number,
            after,
            start_us: seen.start_us,
            sent_us: seen.sent_us(),
            session: seen.session,
            seen_after: after,
            text: self.text(seen.fingerprint, None),
            sequence,
            class,
            column: draw.column,
            returned: draw.returned,
            is_given_back: draw.returned.is_some(),
            first_slot: self.slots,
            slots,
            count,
            may_conflict: draw.may_conflict,
            begun_us: seen.start_us,
            done_us: None,
            ends_us: seen.ends_us(),
        };
        self.slots += slots;
        // A value that goes to the client alone may be of a row of any transaction.
        if seen.transaction != 0 && draw.column.is_some() {
            self.sessions[seen.session as usize].block_drawings.push(place);
        }
        if seen.error.is_none() {
            let is_set = draw.column.is_none()
                && count == Count::Unknown
                && seen.reading.sets.contains(&Some(sequence as usize));
            if !self.note_returned(seen, &drawing) && !is_set {
                self.not_captured.insert(sequence);
            }
            self.note_latest(seen.session, &drawing, place);
            if count == Count::Known && slots > 0 && !draw.may_conflict {
                self.sessions[seen.session as usize].last_drawn.drew(draw, Some(place));
            }
        }
        self.drawings.push(drawing);
    }

    /// The class of what is drawn; [`NONE`] where it may be any of a sequence's, None where no
    /// class is of it.
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

    /// Takes in ids that were captured as they came back, row by row; whether all of them were.
    fn note_returned(&mut self, seen: &ScannedStatement<'_>, drawing: &Drawing) -> bool {
        let (Some(reported), Some(column)) = (seen.returned, drawing.returned) else {
            return false;
        };
        if rows_of(seen, reported) != drawing.slots {
            // ON CONFLICT DO NOTHING leaves rows out: which of them is not known.
            return false;
        }
        let mut ids = Vec::new();
        for class in self.classes_of(drawing) {
            let kind = self.classes.all[class as usize].kind;
            for (slot, row) in (drawing.first_slot..).zip(&reported.rows) {
                let text = row.get(column as usize).and_then(Option::as_deref);
                if let Some(id) = text.and_then(|text| Id::read(kind, text)) {
                    self.note_exact(class, id, slot, drawing);
                    ids.push(id);
                }
            }
            if kind == Kind::Number {
                let near = &mut self.sessions[seen.session as usize].near;
                near.drew(class, ids.drain(..), seen.number);
            }
            ids.clear();
        }
        reported.rows.len() == drawing.slots as usize
    }

    /// Records that a slot of a drawing gave an id. An id that ON CONFLICT returns again stays the
    /// first one's, unless the sequence began again; for any other, the owner is unknown.
    fn note_exact(&mut self, class: u32, id: Id, slot: u32, drawing: &Drawing) {
        let is_again = *self.exact.entry((class, id)).or_insert(slot) != slot;
        if is_again && (!drawing.may_conflict || self.is_set(drawing.sequence)) {
            self.given_again.insert((class, id));
        }
    }

    /// Whether a sequence went on elsewhere.
    pub fn is_set(&self, sequence: u32) -> bool {
        self.sets.contains(&None) || self.sets.contains(&Some(sequence as usize))
    }

    /// Takes in what `lastval` and `currval` returned.
    fn take_last_values(&mut self, seen: &ScannedStatement<'_>) {
        for last in seen.reading.last_values.iter().filter(|_| seen.error.is_none()) {
            let place = self.sessions[seen.session as usize].last_drawn.drawing(last);
            let Some(place) = place else { continue };
            self.drawings[place as usize].is_given_back = true;
            let row = match seen.returned.map(|reported| reported.rows.as_slice()) {
                Some([row]) => row,
                _ => continue,
            };
            let drawing = self.drawings[place as usize].clone();
            let slot = drawing.first_slot + drawing.slots - 1;
            let text = row.get(last.returned as usize).and_then(Option::as_deref);
            for class in self.classes_of(&drawing) {
                let kind = self.classes.all[class as usize].kind;
                if let Some(id) = text.and_then(|text| Id::read(kind, text)) {
                    self.note_exact(class, id, slot, &drawing);
                    if kind == Kind::Number {
                        let near = &mut self.sessions[seen.session as usize].near;
                        near.drew(class, std::iter::once(id), seen.number);
                    }
                }
            }
        }
    }

    /// Takes in rows that were captured as they were picked.
    fn take_shows<'a>(
        &mut self,
        seen: &ScannedStatement<'_>,
        spelled: &impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    ) {
        if seen.error.is_some() {
            return;
        }
        let mut of_ids = Vec::new();
        let mut ids = Vec::new();
        for shown in &seen.reading.shows {
            let Some(class) = self.classes.of_column(shown.column) else { continue };
            let kind = self.classes.all[class as usize].kind;
            of_ids.push((*shown, class, kind));
            let id = self.rows.take(seen, shown, (class, kind), spelled);
            ids.extend(id.map(|id| (class, id)));
        }
        if !of_ids.is_empty() && seen.returned.is_some_and(|reported| reported.rows.len() > 1) {
            let is_time = |shown: &&ReturnedKey| self.classes.is_of_time(shown.column);
            let times = seen.reading.shows.iter().filter(is_time).map(|shown| shown.returned);
            ids.extend(self.rows.take_several(seen, &of_ids, &times.collect::<Vec<u32>>()));
        }
        for (class, id) in ids {
            if self.classes.all[class as usize].kind == Kind::Number {
                let near = &mut self.sessions[seen.session as usize].near;
                near.drew(class, std::iter::once(id), seen.number);
            }
        }
    }

    /// The statement of a slot.
    pub fn of_slot(&self, slot: u32) -> Option<&Drawing> {
        if slot >= self.slots {
            return None;
        }
        let place = self.drawings.partition_point(|drawing| drawing.first_slot <= slot);
        self.drawings.get(place.checked_sub(1)?)
    }

    /// Classes that a drawing may be of.
    pub fn classes_of(&self, drawing: &Drawing) -> Vec<u32> {
        match drawing.class {
            NONE => {}
            NOBODY => return Vec::new(),
            class => return vec![class],
        }
        self.classes.of_sequence(drawing.sequence as usize).collect()
    }

    fn note_latest(&mut self, session: u32, drawing: &Drawing, place: u32) {
        for class in self.classes_of(drawing) {
            let latest = &mut self.sessions[session as usize].latest;
            match latest.iter_mut().find(|(known, _)| *known == class) {
                Some((_, known)) => *known = place,
                None => latest.push((class, place)),
            }
        }
    }

    fn latest(&self, session: u32, class: u32) -> u32 {
        let latest = &self.sessions[session as usize].latest;
        latest.iter().find(|(known, _)| *known == class).map_or(NONE, |&(_, place)| place)
    }

    fn text(&mut self, fingerprint: u64, place: Option<ValuePosition>) -> u32 {
        let text = TextPosition { fingerprint, place };
        let next = self.texts.len() as u32;
        let known = *self.text_places.entry(text).or_insert(next);
        if known == next {
            self.texts.push(text);
        }
        known
    }
}

/// Others can have seen what was drawn in a block when its last statement was sent.
fn end_block(session: &mut Session, drawings: &mut [Drawing]) {
    for place in session.block_drawings.drain(..) {
        drawings[place as usize].seen_after = session.block_after;
    }
}

/// How many rows a statement gave back, of which the first were kept.
fn rows_of(seen: &ScannedStatement<'_>, reported: &Returned) -> u32 {
    let kept = reported.rows.len();
    let all = seen.rows.and_then(|rows| usize::try_from(rows).ok());
    u32::try_from(all.map_or(kept, |all| all.max(kept))).unwrap_or(u32::MAX)
}
