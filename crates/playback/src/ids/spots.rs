//! Positions in texts that contain ids of a class, and the evidence for it.
//!
//! No column tells what a number in a text is, so the behaviour of the sessions has to show it. A
//! spot is a position in the texts of a column, or of a literal or parameter without a known
//! column, with the label of the number ([`super::mentions`]). It contains ids of a class if
//! numbers that occur there for the first time follow their session's uses of ids of that class:
//!
//! | condition | against |
//! |---|---|
//! | at least 20 different numbers agree, at 20 different times | chance |
//! | at most a quarter as many do not | quantities that are equal to ids now and then |
//! | none is of a draw that comes later, or of none | prices, codes, other counters |
//! | its word is the class's name, or its steps vary \[1\] | a counter of the client |
//!
//! \[1\] And the session did not use it before it was drawn, as with a client's own counter that
//! runs in parallel with the ids.
//!
//! A number agrees if its session has drawn or used that id in its last statements, or uses it in
//! the next. UUIDs need no such evidence: equal UUIDs are the same.

use std::collections::{HashMap, VecDeque};

use seatrial_sqltext::reading::{StatementEffects, UseKind, ValuePosition};
use twox_hash::XxHash64;

use super::classes::{IdClass, IdClasses};
use super::mentions::{Mention, find};
use super::scan::NONE;
use super::values::{Id, Kind, ValueText};

/// Minimum of agreeing numbers.
const AGREEING_MIN: u32 = 20;

/// Agreeing numbers that outweigh one that disagrees.
const AGREEING_EACH: u32 = 4;

/// First occurrences of numbers in a spot before it is given up if none agrees.
const MENTIONS_TRIED_MAX: usize = 256;

/// Number of values that no draw generated that refutes a spot, if hardly any agrees.
const IMPOSSIBLE_MIN: u32 = 20;

/// Occurrences of a single number after which it counts as a constant of the program.
const CONSTANT_MIN: u64 = 20;

/// Limit for the spots.
const SPOTS_MAX: usize = 1 << 16;

/// Maximum numbers kept of all spots; each takes about 80 bytes.
const ENTRIES_MAX: usize = 1 << 21;

/// Maximum recent ids of each class of a session.
const RECENT_EACH: usize = 4;

/// Maximum recent ids of all classes of a session.
const RECENT_MAX: usize = 64;

/// Rows of a draw that count as drawn last.
const BATCH_MAX: usize = 1_000;

/// Mentions that wait for their session to use the id.
const PENDING_MAX: usize = 8;

/// Numbers of a drawing statement which its client knew before.
const NAMED_MAX: usize = 64;

/// A text of a statement in which ids may be mentioned.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    pub position: ValuePosition,
    /// Identifies the position; equal for all texts of a column.
    pub at: u64,
    /// Its bytes, with the quotes of a literal.
    pub bytes: &'a [u8],
}

/// Returns the texts of a statement that may mention ids: all except values that are ids of a
/// column or arguments of functions of the database, and whole numbers where no column has texts.
pub fn texts_of<'a>(
    reading: &StatementEffects,
    classes: &IdClasses,
    fingerprint: u64,
    (literals, parameters): (usize, usize),
    value_text: impl Fn(ValuePosition) -> Option<ValueText<'a>>,
    mut take: impl FnMut(Text<'a>),
) {
    if reading.is_by_names || reading.has_unknown_table {
        return;
    }
    let mut is_seen = vec![false; literals + parameters];
    let index = |position: ValuePosition| match position {
        ValuePosition::Literal(literal) => literal as usize,
        ValuePosition::Parameter(parameter) => literals + parameter as usize,
    };
    let of_classes = reading.uses.iter().filter(|one| classes.of_column(one.column).is_some());
    for position in of_classes.map(|one| one.position).chain(reading.passed_values.iter().copied())
    {
        if let Some(seen) = is_seen.get_mut(index(position)) {
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
            UseKind::Bound | UseKind::Inside => position_key(fingerprint, one.position),
        };
        if let Some(bytes) = text_at(one.position, &value_text) {
            take(Text { position: one.position, at, bytes });
        }
    }
    let all = (0..literals as u32).map(ValuePosition::Literal);
    for position in all.chain((0..parameters as u32).map(ValuePosition::Parameter)) {
        if is_seen[index(position)] {
            continue;
        }
        let text = text_at(position, &value_text).filter(|bytes| !is_whole_number(bytes));
        if let Some(bytes) = text {
            take(Text { position, at: position_key(fingerprint, position), bytes });
        }
    }
}

fn text_at<'a>(
    position: ValuePosition,
    value_text: impl Fn(ValuePosition) -> Option<ValueText<'a>>,
) -> Option<&'a [u8]> {
    let found = value_text(position)?;
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

fn position_key(fingerprint: u64, position: ValuePosition) -> u64 {
    let position = match position {
        ValuePosition::Literal(literal) => u64::from(literal) << 1,
        ValuePosition::Parameter(parameter) => u64::from(parameter) << 1 | 1,
    };
    hash(1, [fingerprint, position])
}

fn hash(seed: u64, parts: [u64; 2]) -> u64 {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_ne_bytes()).collect();
    XxHash64::oneshot(seed, &bytes)
}

/// The key that identifies a spot.
pub fn spot_key(text: &Text<'_>, mention: &Mention) -> u64 {
    hash(2, [text.at, mention.label])
}

/// The verdict on a spot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpotVerdict {
    /// Its numbers are ids of a class.
    Trusted(u32),
    /// Its numbers are not ids.
    Refuted,
    /// Undecided; some numbers agreed with ids.
    Suspected,
    /// Undecided.
    #[default]
    Open,
}

/// The first occurrence of a number in a spot.
#[derive(Clone, Copy, Debug)]
pub struct FirstMention {
    /// The statement's position in the trace.
    pub number: u64,
    /// When the number was known at the latest.
    pub deadline: u64,
    pub session: u32,
    /// The number of its text in the list of texts.
    pub text: u32,
    /// The last drawing of its session for the class that the spot agreed with first.
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
    /// Of these, numbers that their client had used before.
    named: u32,
    /// How often the step to the next one changed.
    irregular: u32,
    last: i64,
    last_step: i64,
}

/// The numbers of a spot.
#[derive(Clone, Debug, Default)]
struct SpotStats {
    word: Vec<u8>,
    entries: HashMap<Id, FirstMention>,
    mentions: u64,
    evidence: Vec<Evidence>,
    is_given_up: bool,
    is_cut: bool,
}

/// An id that a session drew or used.
#[derive(Clone, Copy, Debug)]
struct RecentId {
    class: u32,
    id: Id,
    moment: u64,
    was_named: bool,
}

/// The ids that a session drew or used last.
#[derive(Clone, Debug, Default)]
pub struct RecentIds {
    known: VecDeque<RecentId>,
    batch: Vec<RecentId>,
    pending: VecDeque<(u32, Id)>,
    named: VecDeque<Id>,
}

impl RecentIds {
    /// Records a number in a drawing statement.
    pub fn name(&mut self, id: Id) {
        if self.named.len() == NAMED_MAX {
            self.named.pop_front();
        }
        self.named.push_back(id);
    }

    /// Records ids of a class that were returned to a session, in the order of rows.
    pub fn drew(&mut self, class: u32, ids: impl Iterator<Item = Id>, moment: u64) {
        let known = |id| RecentId { class, id, moment, was_named: self.named.contains(&id) };
        let batch: Vec<RecentId> = ids.take(BATCH_MAX).map(known).collect();
        match batch.as_slice() {
            [one] => self.push(*one),
            _ => {
                self.batch.retain(|one| one.class != class);
                self.batch.extend(batch);
            }
        }
    }

    fn push(&mut self, one: RecentId) {
        let same =
            self.known.iter().position(|known| (known.class, known.id) == (one.class, one.id));
        if let Some(index) = same {
            // It is as near as it was, and as old.
            if let Some(known) = self.known.remove(index) {
                self.known.push_back(known);
            }
            return;
        }
        let of_class = |known: &&RecentId| known.class == one.class;
        if self.known.iter().filter(of_class).count() == RECENT_EACH {
            let oldest = self.known.iter().position(|known| known.class == one.class);
            self.known.remove(oldest.unwrap_or(0));
        }
        if self.known.len() == RECENT_MAX {
            self.known.pop_front();
        }
        self.known.push_back(one);
    }
}

/// All spots of a trace during the pass.
#[derive(Debug, Default)]
pub struct Spots {
    keys: HashMap<u64, u32>,
    all: Vec<SpotStats>,
    entries: usize,
    /// Buffer for the mentions of a text.
    mentions: Vec<Mention>,
}

/// Where a mention occurred.
#[derive(Clone, Copy, Debug)]
pub struct MentionPosition {
    /// The statement's position in the trace.
    pub number: u64,
    /// When the id was known at the latest.
    pub deadline: u64,
    pub session: u32,
    /// The number of its text in the list of texts.
    pub text: u32,
}

impl Spots {
    /// Records the numbers of a text; `latest` returns the last drawing of its session for a class.
    pub fn take(
        &mut self,
        text: &Text<'_>,
        at: MentionPosition,
        recent: &mut RecentIds,
        latest: impl Fn(u32) -> u32,
        mut uuid: impl FnMut(Id),
    ) {
        let mut mentions = std::mem::take(&mut self.mentions);
        find(text.bytes, &mut mentions);
        for mention in &mentions {
            match mention.kind {
                Kind::Number => self.take_number(text, mention, at, recent, &latest),
                Kind::Uuid | Kind::Text => uuid(mention.id),
            }
        }
        self.mentions = mentions;
    }

    fn take_number(
        &mut self,
        text: &Text<'_>,
        mention: &Mention,
        at: MentionPosition,
        recent: &mut RecentIds,
        latest: impl Fn(u32) -> u32,
    ) {
        let key = spot_key(text, mention);
        let next = self.all.len() as u32;
        if next as usize >= SPOTS_MAX && !self.keys.contains_key(&key) {
            return;
        }
        let index = *self.keys.entry(key).or_insert(next);
        if index == next {
            let word = normal(&text.bytes[mention.word.clone()]);
            self.all.push(SpotStats { word, ..SpotStats::default() });
        }
        let spot = &mut self.all[index as usize];
        spot.mentions += 1;
        if spot.is_given_up || spot.entries.contains_key(&mention.id) {
            return;
        }
        if self.entries >= ENTRIES_MAX {
            spot.is_cut = true;
            return;
        }
        let mut agrees = false;
        let known = recent.known.iter().chain(&recent.batch).filter(|known| known.id == mention.id);
        for known in known {
            agrees |= spot.agree(*known);
        }
        let lead = spot.evidence.first().map_or(NONE, |first| latest(first.class));
        let MentionPosition { number, deadline, session, text, .. } = at;
        let entry = FirstMention { number, deadline, session, text, latest: lead, agrees };
        spot.entries.insert(mention.id, entry);
        self.entries += 1;
        if spot.entries.len() >= MENTIONS_TRIED_MAX && spot.evidence.is_empty() {
            // The numbers show nothing; the remaining counts are enough to say so.
            spot.is_given_up = true;
        }
        if !agrees {
            if recent.pending.len() == PENDING_MAX {
                recent.pending.pop_front();
            }
            recent.pending.push_back((index, mention.id));
        }
    }

    /// Records that a session used an id of a class.
    pub fn used(&mut self, class: u32, id: Id, moment: u64, recent: &mut RecentIds) {
        let was_named = recent.named.contains(&id);
        let known = RecentId { class, id, moment, was_named };
        let pending = std::mem::take(&mut recent.pending);
        for (index, waiting) in pending {
            if waiting == id {
                let spot = &mut self.all[index as usize];
                let agrees = spot.agree(known);
                if let Some(entry) = spot.entries.get_mut(&id) {
                    entry.agrees |= agrees;
                }
            } else {
                recent.pending.push_back((index, waiting));
            }
        }
        recent.push(known);
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Decides each spot, by its key. `origin_of` returns whether a draw generated an id of a class
    /// that is first used at a position in the trace.
    pub fn decide(
        &self,
        classes: &IdClasses,
        origin_of: impl Fn(u32, Id, u64) -> IdOrigin,
    ) -> HashMap<u64, SpotVerdict> {
        let decided: Vec<SpotVerdict> =
            self.all.iter().map(|spot| spot.decide(classes, &origin_of)).collect();
        self.keys.iter().map(|(&key, &index)| (key, decided[index as usize])).collect()
    }

    /// Numbers of the spots that contain ids, with their classes.
    pub fn trusted<'s>(
        &'s self,
        decided: &'s HashMap<u64, SpotVerdict>,
    ) -> impl Iterator<Item = (u32, Id, FirstMention)> + 's {
        let all = self.keys.iter().filter_map(|(key, &index)| match decided.get(key) {
            Some(&SpotVerdict::Trusted(class)) => Some((class, &self.all[index as usize])),
            _ => None,
        });
        all.flat_map(|(class, spot)| spot.entries.iter().map(move |(&id, &at)| (class, id, at)))
    }
}

/// Whether a draw generated an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOrigin {
    /// It existed before the trace began.
    BeforeTrace,
    /// It was drawn, or may have been.
    MaybeDrawn,
    /// It was not drawn, or later.
    NotDrawn,
}

impl SpotStats {
    /// Records that a number agrees with an id.
    fn agree(&mut self, known: RecentId) -> bool {
        let index = self.evidence.iter().position(|one| one.class == known.class);
        let value = known.id.number();
        let index = index.unwrap_or_else(|| {
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
        let one = &mut self.evidence[index];
        one.agreeing += 1;
        one.moments += u32::from(one.last_moment != known.moment);
        one.last_moment = known.moment;
        one.named += u32::from(known.was_named);
        let step = value.wrapping_sub(one.last);
        one.irregular += u32::from(step != one.last_step);
        (one.last, one.last_step) = (value, step);
        true
    }

    fn decide(
        &self,
        classes: &IdClasses,
        origin_of: impl Fn(u32, Id, u64) -> IdOrigin,
    ) -> SpotVerdict {
        let mut holds = self.evidence.iter().filter(|one| self.holds(one, classes, &origin_of));
        let first = holds.next();
        let others: Vec<&Evidence> = holds.collect();
        let is_named = |one: &&Evidence| is_name_of(&self.word, &classes.all[one.class as usize]);
        match first {
            Some(one) if others.is_empty() => return SpotVerdict::Trusted(one.class),
            Some(first) => {
                // Two sequences that count together: only the name shows which of them it is.
                let mut named = std::iter::once(first).chain(others).filter(is_named);
                if let (Some(one), None) = (named.next(), named.next()) {
                    return SpotVerdict::Trusted(one.class);
                }
                return SpotVerdict::Suspected;
            }
            None => {}
        }
        let agreeing = self.evidence.iter().map(|one| one.agreeing).max().unwrap_or(0);
        let numbers = (0..).zip(&classes.all).filter(|(_, class)| class.kind == Kind::Number);
        let is_possible = |id: Id, number: u64| {
            numbers.clone().any(|(class, _)| origin_of(class, id, number) != IdOrigin::NotDrawn)
        };
        let impossible = self.entries.iter().filter(|(id, at)| !is_possible(**id, at.number));
        let impossible = impossible.count() as u32;
        let is_impossible = impossible >= IMPOSSIBLE_MIN
            && impossible as usize * 10 >= self.entries.len()
            && agreeing * 20 <= impossible;
        let is_constant = agreeing == 0 && self.entries.len() == 1 && self.mentions >= CONSTANT_MIN;
        if is_impossible || is_constant {
            SpotVerdict::Refuted
        } else if agreeing > 0 {
            SpotVerdict::Suspected
        } else {
            SpotVerdict::Open
        }
    }

    /// Whether the numbers are ids of a class.
    fn holds(
        &self,
        evidence: &Evidence,
        classes: &IdClasses,
        origin_of: impl Fn(u32, Id, u64) -> IdOrigin,
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
            match origin_of(class, id, entry.number) {
                IdOrigin::NotDrawn => return false,
                IdOrigin::BeforeTrace => {}
                IdOrigin::MaybeDrawn => others += u32::from(!entry.agrees),
            }
        }
        others * AGREEING_EACH <= agreeing
    }
}

/// A word in lower case without other characters than letters and digits.
fn normal(word: &[u8]) -> Vec<u8> {
    let letters = word.iter().filter(|byte| byte.is_ascii_alphanumeric() || **byte >= 0x80);
    letters.map(u8::to_ascii_lowercase).collect()
}

/// Whether a word names the ids of a class: `order`, `orders`, `order_id`, `ORD` of `orders.id`,
/// or a column that refers to it.
fn is_name_of(word: &[u8], class: &IdClass) -> bool {
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
