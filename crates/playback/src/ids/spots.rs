//! Places in texts that hold ids of a class, and the evidence for it.
//!
//! No column says what a number in a text is, so the behaviour of the sessions has to show it. A
//! spot is a place in the texts of a column, or of a literal or parameter where no column is known,
//! with the label of the number ([`super::mentions`]). It holds ids of a class if numbers that
//! occur there for the first time follow what their session does with ids of that class:
//!
//! | condition | against |
//! |---|---|
//! | at least 20 different numbers agree, at 20 different times | chance |
//! | at most a quarter as many do not | quantities that are equal to ids now and then |
//! | none is of a draw that comes later, or of none | prices, codes, other counters |
//! | its word is the class's name, or its steps vary \[1\] | a counter of the client |
//!
//! \[1\] And the session did not name it before it was drawn: a client's own counter, which goes
//! with the ids, is named first.
//!
//! A number agrees if its session has drawn that id or named it as one in the last statements, or
//! names it in the next. UUIDs need none of this: two that are equal are the same.

use std::collections::{HashMap, VecDeque};

use seatrial_sqltext::reading::{StatementEffects, UseKind, ValuePosition};
use twox_hash::XxHash64;

use super::classes::{Class, Classes};
use super::mentions::{Mention, find};
use super::scan::NONE;
use super::values::{Id, Kind, Spelled};

/// Numbers that have to agree.
const AGREEING_MIN: u32 = 20;

/// Numbers that agree to make up for one that does not.
const AGREEING_EACH: u32 = 4;

/// First occurrences of numbers in a spot before it is given up if none agrees.
const TRIED_MAX: usize = 256;

/// As many numbers that no draw gave refute a spot, if hardly any agrees.
const IMPOSSIBLE_MIN: u32 = 20;

/// Occurrences of the same single number after which it counts as a constant of the program.
const CONSTANT_MIN: u64 = 20;

/// Limit for the spots.
const SPOTS_MAX: usize = 1 << 16;

/// Numbers that are kept of all spots; each takes about 80 bytes.
const ENTRIES_MAX: usize = 1 << 21;

/// Ids of each class that a session drew or named last.
const NEAR_EACH: usize = 4;

/// Ids of all classes that it did.
const NEAR_MAX: usize = 64;

/// Rows of a draw that count as drawn last.
const BATCH_MAX: usize = 1_000;

/// Mentions that wait for their session to name the id.
const PENDING_MAX: usize = 8;

/// Numbers of a statement that draws, which its client knew before.
const NAMED_MAX: usize = 64;

/// A text of a statement in which ids may be mentioned.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Its place.
    pub place: ValuePosition,
    /// Tells it from other places; the same for all texts of a column.
    pub at: u64,
    /// Its bytes, with the quotes of a literal.
    pub bytes: &'a [u8],
}

/// Returns the texts of a statement that may mention ids: all but values that are ids of a column
/// or are passed to functions of the database, and whole numbers where no column holds texts.
pub fn texts_of<'a>(
    reading: &StatementEffects,
    classes: &Classes,
    fingerprint: u64,
    (literals, parameters): (usize, usize),
    spelled: impl Fn(ValuePosition) -> Option<Spelled<'a>>,
    mut take: impl FnMut(Text<'a>),
) {
    if reading.is_by_names || reading.has_unknown_table {
        return;
    }
    let mut is_seen = vec![false; literals + parameters];
    let index = |place: ValuePosition| match place {
        ValuePosition::Literal(literal) => literal as usize,
        ValuePosition::Parameter(parameter) => literals + parameter as usize,
    };
    let of_classes = reading.uses.iter().filter(|one| classes.of_column(one.column).is_some());
    for place in of_classes.map(|one| one.position).chain(reading.passed_values.iter().copied()) {
        if let Some(seen) = is_seen.get_mut(index(place)) {
            *seen = true;
        }
    }
    for one in &reading.texts {
        let Some(seen) = is_seen.get_mut(index(one.position)).filter(|seen| !**seen) else {
            continue;
        };
        *seen = true;
        let at = match one.kind {
            UseKind::Written | UseKind::Equal | UseKind::Array => {
                hash(0, [one.column.table as u64, one.column.column as u64])
            }
            UseKind::Bound | UseKind::Inside => at_place(fingerprint, one.position),
        };
        if let Some(bytes) = text_at(one.position, &spelled) {
            take(Text { place: one.position, at, bytes });
        }
    }
    let all = (0..literals as u32).map(ValuePosition::Literal);
    for place in all.chain((0..parameters as u32).map(ValuePosition::Parameter)) {
        if is_seen[index(place)] {
            continue;
        }
        let text = text_at(place, &spelled).filter(|bytes| !is_whole_number(bytes));
        if let Some(bytes) = text {
            take(Text { place, at: at_place(fingerprint, place), bytes });
        }
    }
}

fn text_at<'a>(
    place: ValuePosition,
    spelled: impl Fn(ValuePosition) -> Option<Spelled<'a>>,
) -> Option<&'a [u8]> {
    let found = spelled(place)?;
    let is_text = match found.text {
        [] => false,
        [b'-', b'-', ..] | [b'/', b'*', ..] if found.is_literal => false,
        // Bits and bytes.
        [b'x' | b'X' | b'b' | b'B', b'\'', ..] if found.is_literal => false,
        [b'\\', b'x', ..] | [b'\'', b'\\', b'x', ..] => false,
        text => text.iter().any(u8::is_ascii_digit),
    };
    is_text.then_some(found.text)
}

fn is_whole_number(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_digit() || b" '+-.eE".contains(byte))
}

fn at_place(fingerprint: u64, place: ValuePosition) -> u64 {
    let place = match place {
        ValuePosition::Literal(literal) => u64::from(literal) << 1,
        ValuePosition::Parameter(parameter) => u64::from(parameter) << 1 | 1,
    };
    hash(1, [fingerprint, place])
}

fn hash(seed: u64, parts: [u64; 2]) -> u64 {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_ne_bytes()).collect();
    XxHash64::oneshot(seed, &bytes)
}

/// The key that identifies a spot.
pub fn spot_key(text: &Text<'_>, mention: &Mention) -> u64 {
    hash(2, [text.at, mention.label])
}

/// What is known of a spot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spot {
    /// Its numbers are ids of a class.
    Trusted(u32),
    /// Its numbers are none.
    Refuted,
    /// It is not known; some numbers agreed with ids.
    Suspected,
    /// It is not known.
    #[default]
    Open,
}

/// The first occurrence of a number in a spot.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The statement's place in the trace.
    pub number: u64,
    /// It was known by then.
    pub deadline: u64,
    /// Its session.
    pub session: u32,
    /// The number of its text in the list of texts.
    pub text: u32,
    /// What its session had drawn last of the class that the spot agreed with first.
    pub latest: u32,
    agrees: bool,
}

/// How often numbers of a spot agreed with ids of a class.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    class: u32,
    agreeing: u32,
    /// The number of different times.
    moments: u32,
    last_moment: u64,
    /// Of these, numbers that their client had named before.
    named: u32,
    /// How often the step to the next one was another than before.
    irregular: u32,
    last: i64,
    last_step: i64,
}

/// The numbers of a spot.
#[derive(Clone, Debug, Default)]
struct Tried {
    word: Vec<u8>,
    entries: HashMap<Id, Entry>,
    mentions: u64,
    evidence: Vec<Evidence>,
    is_given_up: bool,
    is_cut: bool,
}

/// An id that a session drew or named.
#[derive(Clone, Copy, Debug)]
struct Known {
    class: u32,
    id: Id,
    moment: u64,
    was_named: bool,
}

/// What a session did with ids last.
#[derive(Clone, Debug, Default)]
pub struct Near {
    known: VecDeque<Known>,
    batch: Vec<Known>,
    pending: VecDeque<(u32, Id)>,
    named: VecDeque<Id>,
}

impl Near {
    /// Takes in a number in a statement that draws.
    pub fn name(&mut self, id: Id) {
        if self.named.len() == NAMED_MAX {
            self.named.pop_front();
        }
        self.named.push_back(id);
    }

    /// Takes in ids of a class that a statement was given back, in the order of its rows.
    pub fn drew(&mut self, class: u32, ids: impl Iterator<Item = Id>, moment: u64) {
        let known = |id| Known { class, id, moment, was_named: self.named.contains(&id) };
        let batch: Vec<Known> = ids.take(BATCH_MAX).map(known).collect();
        match batch.as_slice() {
            [one] => self.push(*one),
            _ => {
                self.batch.retain(|one| one.class != class);
                self.batch.extend(batch);
            }
        }
    }

    fn push(&mut self, one: Known) {
        let same =
            self.known.iter().position(|known| (known.class, known.id) == (one.class, one.id));
        if let Some(place) = same {
            // It is as near as it was, and as old.
            if let Some(known) = self.known.remove(place) {
                self.known.push_back(known);
            }
            return;
        }
        let of_class = |known: &&Known| known.class == one.class;
        if self.known.iter().filter(of_class).count() == NEAR_EACH {
            let oldest = self.known.iter().position(|known| known.class == one.class);
            self.known.remove(oldest.unwrap_or(0));
        }
        if self.known.len() == NEAR_MAX {
            self.known.pop_front();
        }
        self.known.push_back(one);
    }
}

/// All spots of a trace, as they are looked at.
#[derive(Debug, Default)]
pub struct Spots {
    keys: HashMap<u64, u32>,
    all: Vec<Tried>,
    entries: usize,
    /// Texts, by the hash of their place, of which not all mentions were looked at.
    mentions: Vec<Mention>,
}

/// Where a mention was seen.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The statement's place in the trace.
    pub number: u64,
    /// The id was known by then.
    pub deadline: u64,
    /// Its session.
    pub session: u32,
    /// The number of its text in the list of texts.
    pub text: u32,
}

impl Spots {
    /// Takes in the numbers of a text; `latest` returns what its session drew last of a class.
    pub fn take(
        &mut self,
        text: &Text<'_>,
        at: At,
        near: &mut Near,
        latest: impl Fn(u32) -> u32,
        mut uuid: impl FnMut(Id),
    ) {
        let mut mentions = std::mem::take(&mut self.mentions);
        find(text.bytes, &mut mentions);
        for mention in &mentions {
            match mention.kind {
                Kind::Number => self.take_number(text, mention, at, near, &latest),
                Kind::Uuid | Kind::Text => uuid(mention.id),
            }
        }
        self.mentions = mentions;
    }

    fn take_number(
        &mut self,
        text: &Text<'_>,
        mention: &Mention,
        at: At,
        near: &mut Near,
        latest: impl Fn(u32) -> u32,
    ) {
        let key = spot_key(text, mention);
        let next = self.all.len() as u32;
        if next as usize >= SPOTS_MAX && !self.keys.contains_key(&key) {
            return;
        }
        let place = *self.keys.entry(key).or_insert(next);
        if place == next {
            let word = normal(&text.bytes[mention.word.clone()]);
            self.all.push(Tried { word, ..Tried::default() });
        }
        let spot = &mut self.all[place as usize];
        spot.mentions += 1;
        if spot.is_given_up || spot.entries.contains_key(&mention.id) {
            return;
        }
        if self.entries >= ENTRIES_MAX {
            spot.is_cut = true;
            return;
        }
        let mut agrees = false;
        let known = near.known.iter().chain(&near.batch).filter(|known| known.id == mention.id);
        for known in known {
            agrees |= spot.agree(*known);
        }
        let lead = spot.evidence.first().map_or(NONE, |first| latest(first.class));
        let At { number, deadline, session, text, .. } = at;
        let entry = Entry { number, deadline, session, text, latest: lead, agrees };
        spot.entries.insert(mention.id, entry);
        self.entries += 1;
        if spot.entries.len() >= TRIED_MAX && spot.evidence.is_empty() {
            // The numbers show nothing; the remaining counts are enough to say so.
            spot.is_given_up = true;
        }
        if !agrees {
            if near.pending.len() == PENDING_MAX {
                near.pending.pop_front();
            }
            near.pending.push_back((place, mention.id));
        }
    }

    /// Takes in that a session named an id of a class.
    pub fn used(&mut self, class: u32, id: Id, moment: u64, near: &mut Near) {
        let was_named = near.named.contains(&id);
        let known = Known { class, id, moment, was_named };
        let pending = std::mem::take(&mut near.pending);
        for (place, waiting) in pending {
            if waiting == id {
                let spot = &mut self.all[place as usize];
                let agrees = spot.agree(known);
                if let Some(entry) = spot.entries.get_mut(&id) {
                    entry.agrees |= agrees;
                }
            } else {
                near.pending.push_back((place, waiting));
            }
        }
        near.push(known);
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Decides each spot, by its key. `gave` returns whether a draw gave an id of a class that is
    /// named first at a place in the trace.
    pub fn decide(
        &self,
        classes: &Classes,
        gave: impl Fn(u32, Id, u64) -> Gave,
    ) -> HashMap<u64, Spot> {
        let decided: Vec<Spot> = self.all.iter().map(|spot| spot.decide(classes, &gave)).collect();
        self.keys.iter().map(|(&key, &place)| (key, decided[place as usize])).collect()
    }

    /// Numbers of the spots that hold ids, with their classes.
    pub fn trusted<'s>(
        &'s self,
        decided: &'s HashMap<u64, Spot>,
    ) -> impl Iterator<Item = (u32, Id, Entry)> + 's {
        let all = self.keys.iter().filter_map(|(key, &place)| match decided.get(key) {
            Some(&Spot::Trusted(class)) => Some((class, &self.all[place as usize])),
            _ => None,
        });
        all.flat_map(|(class, spot)| spot.entries.iter().map(move |(&id, &at)| (class, id, at)))
    }
}

/// Whether a draw gave an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gave {
    /// It was there before the trace began.
    Before,
    /// It was drawn, or may have been.
    Maybe,
    /// It was not, or not by then.
    Never,
}

impl Tried {
    /// Takes in that a number agrees with an id.
    fn agree(&mut self, known: Known) -> bool {
        let place = self.evidence.iter().position(|one| one.class == known.class);
        let value = known.id.number();
        let place = place.unwrap_or_else(|| {
            self.evidence.push(Evidence {
                class: known.class,
                agreeing: 0,
                moments: 0,
                last_moment: u64::MAX,
                named: 0,
                irregular: 0,
                last: value,
                last_step: 0,
            });
            self.evidence.len() - 1
        });
        let one = &mut self.evidence[place];
        one.agreeing += 1;
        one.moments += u32::from(one.last_moment != known.moment);
        one.last_moment = known.moment;
        one.named += u32::from(known.was_named);
        let step = value.wrapping_sub(one.last);
        one.irregular += u32::from(step != one.last_step);
        (one.last, one.last_step) = (value, step);
        true
    }

    fn decide(&self, classes: &Classes, gave: impl Fn(u32, Id, u64) -> Gave) -> Spot {
        let mut holds = self.evidence.iter().filter(|one| self.holds(one, classes, &gave));
        let first = holds.next();
        let others: Vec<&Evidence> = holds.collect();
        let is_named = |one: &&Evidence| is_name_of(&self.word, &classes.all[one.class as usize]);
        match first {
            Some(one) if others.is_empty() => return Spot::Trusted(one.class),
            Some(first) => {
                // Two sequences that count together: only the name shows which of them it is.
                let mut named = std::iter::once(first).chain(others).filter(is_named);
                if let (Some(one), None) = (named.next(), named.next()) {
                    return Spot::Trusted(one.class);
                }
                return Spot::Suspected;
            }
            None => {}
        }
        let agreeing = self.evidence.iter().map(|one| one.agreeing).max().unwrap_or(0);
        let numbers = (0..).zip(&classes.all).filter(|(_, class)| class.kind == Kind::Number);
        let is_possible = |id: Id, number: u64| {
            numbers.clone().any(|(class, _)| gave(class, id, number) != Gave::Never)
        };
        let impossible = self.entries.iter().filter(|(id, at)| !is_possible(**id, at.number));
        let impossible = impossible.count() as u32;
        let is_impossible = impossible >= IMPOSSIBLE_MIN
            && impossible as usize * 10 >= self.entries.len()
            && agreeing * 20 <= impossible;
        let is_constant = agreeing == 0 && self.entries.len() == 1 && self.mentions >= CONSTANT_MIN;
        if is_impossible || is_constant {
            Spot::Refuted
        } else if agreeing > 0 {
            Spot::Suspected
        } else {
            Spot::Open
        }
    }

    /// Whether the numbers are ids of a class.
    fn holds(
        &self,
        evidence: &Evidence,
        classes: &Classes,
        gave: impl Fn(u32, Id, u64) -> Gave,
    ) -> bool {
        let Evidence { class, agreeing, moments, named, irregular, .. } = *evidence;
        if agreeing < AGREEING_MIN || moments < AGREEING_MIN || self.is_cut || self.is_given_up {
            return false;
        }
        let is_counter = irregular * AGREEING_EACH < agreeing || named * 2 > agreeing;
        if is_counter && !is_name_of(&self.word, &classes.all[class as usize]) {
            return false;
        }
        let mut others = 0;
        for (&id, entry) in &self.entries {
            match gave(class, id, entry.number) {
                Gave::Never => return false,
                Gave::Before => {}
                Gave::Maybe => others += u32::from(!entry.agrees),
            }
        }
        others * AGREEING_EACH <= agreeing
    }
}

/// A word without what is no letter or digit, in small letters.
fn normal(word: &[u8]) -> Vec<u8> {
    let letters = word.iter().filter(|byte| byte.is_ascii_alphanumeric() || **byte >= 0x80);
    letters.map(u8::to_ascii_lowercase).collect()
}

/// Whether a word names the ids of a class: `order`, `orders`, `order_id`, `ORD` of `orders.id`,
/// or a column that refers to it.
fn is_name_of(word: &[u8], class: &Class) -> bool {
    let parts = |name: &str| {
        let mut parts = name.rsplitn(3, '.').map(|part| normal(part.as_bytes()));
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    };
    if word.len() < 2 {
        return false;
    }
    let (column, table) = parts(&class.name);
    let one: &[u8] = table.strip_suffix(b"s").unwrap_or(&table);
    let is_of_table = word == table
        || word == one
        || word.strip_suffix(b"s") == Some(&table[..])
        || word == [one, &column].concat()
        || word == [&table[..], &column].concat()
        || (word.len() >= 3 && table.starts_with(word));
    let mut referring = class.referring.iter().map(|name| parts(name).0);
    is_of_table
        || (column != b"id" && word == column)
        || referring.any(|name| name == word && name != b"id")
}
