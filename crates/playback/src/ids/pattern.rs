//! What sessions do with what they drew.
//!
//! Where many draw at once, an id may be of any of them, and only a few are proved. But programs
//! have habits: a session uses what its own last INSERT gave, and those that are proved show it.
//! For each pair of texts (the one that drew last in a session, and the one that then used an id)
//! it is counted how many of the proved ids are the session's own, and how many are another's. Only
//! where [`PROVED_MIN`] are, and nothing speaks against it, are the others taken to be so as well:
//!
//! - no id of the pair is proved to be of another draw, or cannot be of the session's last one;
//! - no two ids claim one draw;
//! - most ids are where the order of the draws puts them ([`AGREE_PERCENT`]), and of the others
//!   nearly all are near it ([`APART_US`]).
//!
//! Where ids go from session to session, this shows soon: of ids that go through a queue at once,
//! to the first reader, every sixteenth cannot be of the session's own last draw, and of others
//! many more. So as many as [`IDS_MIN`] of which none speaks against it will do as well.
//!
//! What cannot be seen is sessions that draw at the same moment and hand each other the ids at
//! once, through a queue that is nearly empty, and use them by the same text as their own: that
//! looks like draws in another order than their records.

use std::collections::{BTreeMap, HashSet};

use super::cases::InTime;
use super::proof::Proof;
use super::scan::NONE;

/// Proved ids of a pair of texts that it takes.
pub const PROVED_MIN: u64 = 20;

/// Proved ids of a pair of texts that are enough whatever the order: if one in fifty were
/// another's, one would be among them with 95 %.
pub const PROVED_ENOUGH: u64 = 150;

/// Ids of a pair of texts that it takes where fewer are proved.
pub const IDS_MIN: u64 = 200;

/// Ids of a pair of texts that have to be where the order of the draws puts them, of a hundred. On
/// real logs of eight saturated clients it is 79 to 97.
pub const AGREE_PERCENT: u64 = 70;

/// Draws that began or ended so long one after the other were not in the other order.
pub const APART_US: u64 = 20_000;

/// Ids of which that may be so nevertheless, of a hundred: the processor may have been elsewhere.
pub const STRANGE_PERCENT: u64 = 1;

/// Ids around others that their times separate from these; so many are needed for times to show
/// what a pair of texts does: if one in twenty were another's, ten would be late.
pub const APART_MIN: u64 = 200 * 8;

/// Like [`APART_MIN`], where [`PROVED_MIN`] are proved as well.
pub const APART_PROVED_MIN: u64 = 60 * 8;

/// Of ids that times separate from others, the share that may seem to be others', per thousand.
pub const LATE_PER_MILLE: u64 = 20;

/// A text that drew, and a text that used, by their numbers in the list of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The class of the id.
    pub class: u32,
    /// The text that drew.
    pub draw: u32,
    /// The text that used, with the place.
    pub used: u32,
}

/// What is known of a pair of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habit {
    /// Ids that sessions used after they had drawn.
    pub ids: u64,
    /// Proved to be of the session's last draw.
    pub proved_own: u64,
    /// Proved to be of another, or cannot be of that one.
    pub proved_other: u64,
    /// Ids of which it is known which draw they are of, if they are the session's own.
    pub placed: u64,
    /// Of these, those that are where the order of the draws puts them.
    pub agreeing: u64,
    /// Ids that are elsewhere, though the draws were long apart.
    pub strange: u64,
    /// Ids that times separate from those around them, each counted once for each of these.
    pub apart: u64,
    /// Ids that were drawn at another time, as those around them say.
    pub late: u64,
    /// Ids of which the rule is used.
    pub used: u64,
}

impl Habit {
    /// Whether the others are taken to be as the proved ones.
    pub fn is_trusted(&self) -> bool {
        let is_enough = self.proved_own >= PROVED_MIN || self.placed >= IDS_MIN;
        let agrees = self.agreeing * 100 >= self.placed * AGREE_PERCENT
            && self.strange * 100 <= self.ids * STRANGE_PERCENT;
        let is_shown = is_enough && agrees || self.is_in_time();
        (is_shown || self.proved_own >= PROVED_ENOUGH) && self.proved_other == 0
    }

    /// Whether times show that ids are sessions' own.
    fn is_in_time(&self) -> bool {
        let least = if self.proved_own >= PROVED_MIN { APART_PROVED_MIN } else { APART_MIN };
        self.apart >= least && self.late * 8 * 1_000 <= self.apart * LATE_PER_MILLE
    }
}

/// An id that a session used after it had drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The id: a place in the proof.
    pub id: u32,
    /// The session that used it.
    pub session: u32,
    /// The pair of texts.
    pub pair: Pair,
    /// The first slot of the session's last draw.
    pub first_slot: u32,
    /// How many it has.
    pub slots: u32,
    /// The distance of its row from those of that draw, if all drew in the order in which they are
    /// counted; None if it is unknown how many had drawn.
    pub shift: Option<i64>,
    /// Whether it is where the order of the draws puts it.
    pub is_expected: bool,
    /// How long that draw is from the one that the order says.
    pub apart_us: u64,
    /// What times say of it, if anything.
    pub in_time: Option<InTime>,
    /// Whether it is the id's first use by anybody who had drawn; else it shows nothing new.
    pub is_first: bool,
}

impl Case {
    fn own(&self) -> std::ops::Range<u32> {
        self.first_slot..self.first_slot + self.slots
    }
}

/// What pairs of texts do, and what follows for ids.
#[derive(Debug, Default)]
pub struct Habits {
    /// By pair.
    pub by_pair: BTreeMap<Pair, Habit>,
    /// Slots and the ids that they are taken to have given.
    pub claims: Vec<(u32, u32)>,
    /// Ids of one of several rows, which is unknown.
    pub which_row: HashSet<u32>,
}

impl Habits {
    /// What is learnt from cases, in the order of the trace, in addition to what is proved.
    pub fn of(cases: &[Case], proof: &Proof<'_>) -> Habits {
        let mut distrusted = HashSet::new();
        loop {
            let habits = Habits::without(&distrusted, cases, proof);
            let is_bad = |pair: &&Pair| !habits.by_pair[*pair].is_trusted();
            let before = distrusted.len();
            distrusted.extend(habits.by_pair.keys().filter(is_bad));
            // A claim of a pair that is not trusted does not conflict with others, so others may be
            // better than they seemed; but the evidence against a pair is not forgotten.
            if distrusted.len() == before {
                return habits;
            }
        }
    }

    /// Returns the habits where some pairs are known not to be trusted.
    fn without(distrusted: &HashSet<Pair>, cases: &[Case], proof: &Proof<'_>) -> Habits {
        let mut habits = Habits::default();
        for case in cases.iter().filter(|case| case.is_first) {
            habits.count(case, proof);
        }
        let mut claims = Claims::default();
        let is_known =
            |pair: &Pair| habits.by_pair.contains_key(pair) && !distrusted.contains(pair);
        let open = |case: &&Case| proof.given[case.id as usize] == NONE && is_known(&case.pair);
        // What agrees with the order of the draws comes before what does not.
        for agrees in [true, false] {
            for case in cases.iter().filter(open).filter(|case| case.is_expected == agrees) {
                claims.take(case, proof);
            }
        }
        for pair in &claims.refuted {
            if let Some(habit) = habits.by_pair.get_mut(pair) {
                habit.proved_other += 1;
            }
        }
        claims.settle(&mut habits, proof);
        habits
    }

    fn count(&mut self, case: &Case, proof: &Proof<'_>) {
        let habit = self.by_pair.entry(case.pair).or_default();
        habit.ids += 1;
        habit.placed += 1;
        habit.agreeing += u64::from(case.is_expected);
        if let Some(InTime { agrees, apart }) = case.in_time {
            habit.apart += apart;
            habit.late += u64::from(!agrees);
        }
        habit.strange += u64::from(!case.is_expected && case.apart_us > APART_US);
        let given = proof.given[case.id as usize];
        let may_be_own = || case.own().any(|slot| proof.could_give(slot, case.id));
        if given != NONE {
            let is_own = case.own().contains(&given);
            habit.proved_own += u64::from(is_own);
            habit.proved_other += u64::from(!is_own);
        } else if !may_be_own() {
            habit.proved_other += 1;
        }
    }
}

/// Ids that claim to be of a session's last draw.
#[derive(Debug, Default)]
struct Claims {
    /// By first slot.
    by_draw: BTreeMap<u32, Draw>,
    claimed: HashSet<u32>,
    /// Pairs with ids that claim what is another's.
    refuted: Vec<Pair>,
}

impl Claims {
    fn take(&mut self, case: &Case, proof: &Proof<'_>) {
        if self.claimed.contains(&case.id) {
            return;
        }
        if !case.own().any(|slot| proof.may_give(slot, case.id)) {
            return;
        }
        let draw = self.by_draw.entry(case.first_slot).or_insert_with(|| Draw {
            slots: case.slots,
            free: case.own().filter(|&slot| !proof.is_settled(slot)).collect(),
            claims: Vec::new(),
        });
        if draw.claims.len() == draw.free.len() {
            self.refuted.push(case.pair);
            return;
        }
        draw.claims.push((case.id, case.pair));
        self.claimed.insert(case.id);
    }

    /// Says which row of its draw each id is, where that is known.
    fn settle(self, habits: &mut Habits, proof: &Proof<'_>) {
        for draw in self.by_draw.into_values() {
            for (id, pair, slot) in draw.rows(proof) {
                match slot {
                    Some(slot) => habits.claims.push((slot, id)),
                    None => drop(habits.which_row.insert(id)),
                }
                if let Some(habit) = habits.by_pair.get_mut(&pair) {
                    habit.used += u64::from(slot.is_some());
                }
            }
        }
    }
}

/// A statement that drew, and ids that claim to be of it.
#[derive(Debug)]
struct Draw {
    slots: u32,
    /// Slots whose ids are not proved.
    free: Vec<u32>,
    claims: Vec<(u32, Pair)>,
}

impl Draw {
    /// The slot of each id. Rows are drawn in their order, so it is known if all of them are used,
    /// or the first and the last and no other session drew in between.
    fn rows(mut self, proof: &Proof<'_>) -> Vec<(u32, Pair, Option<u32>)> {
        // Places in the proof are in the order of ranks.
        self.claims.sort_unstable();
        let is_whole = self.claims.len() == self.free.len();
        let rank = |claim: Option<&(u32, Pair)>| claim.map_or(0, |&(id, _)| proof.rank(id));
        let (first, last) = (rank(self.claims.first()), rank(self.claims.last()));
        let all_are_free = self.free.len() == self.slots as usize;
        let is_in_a_row = all_are_free && last - first + 1 == i64::from(self.slots);
        let slot = |turn: usize, id: u32| {
            let row = if is_whole { turn } else { (proof.rank(id) - first) as usize };
            self.free.get(row).copied().filter(|_| is_whole || is_in_a_row)
        };
        let claims = self.claims.iter().enumerate();
        claims.map(|(turn, &(id, pair))| (id, pair, slot(turn, id))).collect()
    }
}
