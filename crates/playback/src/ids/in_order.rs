//! Sessions that draw several times before they use what they drew.
//!
//! What a session draws later is greater. So if the ids that it uses by some text are its own,
//! they are of its draws in the same order: each of one that can have given it, and behind that of
//! the id before. Where this leaves one draw only for an id, that is it. Whether a text's ids are
//! sessions' own is learned as in [`super::pattern`], from those that are proved, and from there
//! being a draw for each.

use std::collections::{BTreeMap, HashSet};

use super::pattern::{Habit, Pair};
use super::proof::Proof;
use super::scan::NONE;

/// An id that a session was the first to use, of those that had drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The session, and the class.
    pub whose: (u32, u32),
    /// The id: a place in the proof, which are in the order of ranks.
    pub id: u32,
    /// The pair of texts.
    pub pair: Pair,
}

/// Slots of each session and class, in order.
pub type OwnSlots = BTreeMap<(u32, u32), Vec<u32>>;

/// What is known of pairs of texts, and the slots that follow for ids.
#[derive(Debug, Default)]
pub struct InOrder {
    /// By pair.
    pub by_pair: BTreeMap<Pair, Habit>,
    /// Slots and the ids that they are taken to have given.
    pub claims: Vec<(u32, u32)>,
}

impl InOrder {
    /// What follows for ids in the order of their ranks, of pairs that are not known to do
    /// otherwise; `expected` are the ranks of slots if all drew in the order in which they are
    /// counted.
    pub fn of(
        ids: &[Own],
        slots: &OwnSlots,
        expected: &[Option<i64>],
        proof: &Proof<'_>,
    ) -> InOrder {
        let mut distrusted: HashSet<Pair> = HashSet::new();
        loop {
            let found = InOrder::without(&distrusted, ids, slots, expected, proof);
            let before = distrusted.len();
            let is_bad = |(_, habit): &(&Pair, &Habit)| !habit.is_trusted();
            distrusted.extend(found.by_pair.iter().filter(is_bad).map(|(pair, _)| *pair));
            if distrusted.len() == before {
                return found;
            }
        }
    }

    fn without(
        distrusted: &HashSet<Pair>,
        ids: &[Own],
        slots: &OwnSlots,
        expected: &[Option<i64>],
        proof: &Proof<'_>,
    ) -> InOrder {
        let mut of_sessions: BTreeMap<(u32, u32), Vec<&Own>> = BTreeMap::new();
        for own in ids.iter().filter(|own| !distrusted.contains(&own.pair)) {
            of_sessions.entry(own.whose).or_default().push(own);
        }
        let mut found = InOrder::default();
        for (whose, ids) in &of_sessions {
            let slots = slots.get(whose).map_or(&[][..], Vec::as_slice);
            found.take(ids, slots, expected, proof);
        }
        found
    }

    fn take(&mut self, ids: &[&Own], slots: &[u32], expected: &[Option<i64>], proof: &Proof<'_>) {
        let first = matched(ids.iter().copied(), slots.iter().copied(), proof);
        let mut last = matched(ids.iter().rev().copied(), slots.iter().rev().copied(), proof);
        last.reverse();
        for (own, (first, last)) in ids.iter().zip(first.into_iter().zip(last)) {
            let habit = self.by_pair.entry(own.pair).or_default();
            habit.ids += 1;
            let given = proof.given[own.id as usize];
            if given != NONE {
                let is_own = slots.contains(&given);
                habit.proved_own += u64::from(is_own);
                habit.proved_other += u64::from(!is_own);
            } else if first.is_none() || last.is_none() {
                habit.proved_other += 1;
            }
            let Some(slot) = first.filter(|_| first == last) else { continue };
            habit.placed += 1;
            // One draw that came late puts those before it that overtook it off by one.
            let off = expected[slot as usize].map(|rank| (rank - proof.rank(own.id)).abs());
            let is_expected = off.is_some_and(|off| off <= 1);
            habit.agreeing += u64::from(is_expected);
            if given == NONE && proof.may_give(slot, own.id) {
                habit.used += 1;
                self.claims.push((slot, own.id));
            }
        }
    }
}

/// The nearest slot for each id that can have given it, one behind the other.
fn matched<'a>(
    ids: impl Iterator<Item = &'a Own>,
    slots: impl Iterator<Item = u32> + Clone,
    proof: &Proof<'_>,
) -> Vec<Option<u32>> {
    let mut rest = slots;
    ids.map(|own| {
        let given = proof.given[own.id as usize];
        let mut ahead = rest.clone();
        let may_give = |slot: &u32| {
            if given == NONE { proof.could_give(*slot, own.id) } else { *slot == given }
        };
        let found = ahead.find(may_give);
        if found.is_some() {
            rest = ahead;
        }
        found
    })
    .collect()
}
