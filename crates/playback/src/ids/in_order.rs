//! Sessions that draw several times before they use what they drew.
//!
//! A session's later draws are greater. So if the ids that it uses by some text are its own, they
//! are of its draws in the same order: each id is of a possible draw after the one of the previous
//! id. If only one draw remains for an id, that is its draw. Whether a text's ids are sessions' own
//! is learned as in [`super::pattern`], from proved ids, and from the existence of a draw for each.

use std::collections::{BTreeMap, HashSet};

use super::pattern::{PairPattern, TextPair};
use super::proof::Proof;
use super::scan::NONE;

/// An id whose first user had drawn before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnUse {
    /// The session, and the class.
    pub owner: (u32, u32),
    /// The id's index in the proof, which is in the order of ranks.
    pub id: u32,
    pub pair: TextPair,
}

/// Slots of each session and class, in order.
pub type OwnSlots = BTreeMap<(u32, u32), Vec<u32>>;

/// The patterns of pairs of texts, and the slots that follow for ids.
#[derive(Debug, Default)]
pub struct OrderedUses {
    pub by_pair: BTreeMap<TextPair, PairPattern>,
    /// Slots with the ids that they are taken to have drawn.
    pub claims: Vec<(u32, u32)>,
}

impl OrderedUses {
    /// What follows for ids in the order of their ranks, of pairs that are not known to do
    /// otherwise; `expected` are the ranks of slots if all drew in the order in which they are
    /// counted.
    pub fn of(
        ids: &[OwnUse],
        slots: &OwnSlots,
        expected: &[Option<i64>],
        proof: &Proof<'_>,
    ) -> OrderedUses {
        let mut distrusted: HashSet<TextPair> = HashSet::new();
        loop {
            let found = OrderedUses::without(&distrusted, ids, slots, expected, proof);
            let before = distrusted.len();
            let is_bad = |(_, pattern): &(&TextPair, &PairPattern)| !pattern.is_trusted();
            distrusted.extend(found.by_pair.iter().filter(is_bad).map(|(pair, _)| *pair));
            if distrusted.len() == before {
                return found;
            }
        }
    }

    fn without(
        distrusted: &HashSet<TextPair>,
        ids: &[OwnUse],
        slots: &OwnSlots,
        expected: &[Option<i64>],
        proof: &Proof<'_>,
    ) -> OrderedUses {
        let mut of_sessions: BTreeMap<(u32, u32), Vec<&OwnUse>> = BTreeMap::new();
        for own in ids.iter().filter(|own| !distrusted.contains(&own.pair)) {
            of_sessions.entry(own.owner).or_default().push(own);
        }
        let mut found = OrderedUses::default();
        for (owner, ids) in &of_sessions {
            let slots = slots.get(owner).map_or(&[][..], Vec::as_slice);
            found.take(ids, slots, expected, proof);
        }
        found
    }

    fn take(
        &mut self,
        ids: &[&OwnUse],
        slots: &[u32],
        expected: &[Option<i64>],
        proof: &Proof<'_>,
    ) {
        let first = matched(ids.iter().copied(), slots.iter().copied(), proof);
        let mut last = matched(ids.iter().rev().copied(), slots.iter().rev().copied(), proof);
        last.reverse();
        for (own, (first, last)) in ids.iter().zip(first.into_iter().zip(last)) {
            let pattern = self.by_pair.entry(own.pair).or_default();
            pattern.ids += 1;
            let given = proof.given[own.id as usize];
            if given != NONE {
                let is_own = slots.contains(&given);
                pattern.proved_own += u64::from(is_own);
                pattern.proved_other += u64::from(!is_own);
            } else if first.is_none() || last.is_none() {
                pattern.proved_other += 1;
            }
            let Some(slot) = first.filter(|_| first == last) else { continue };
            pattern.placed += 1;
            // One draw that came late puts those before it that overtook it off by one.
            let off = expected[slot as usize].map(|rank| (rank - proof.rank(own.id)).abs());
            let is_expected = off.is_some_and(|off| off <= 1);
            pattern.agreeing += u64::from(is_expected);
            if given == NONE && proof.may_give(slot, own.id) {
                pattern.used += 1;
                self.claims.push((slot, own.id));
            }
        }
    }
}

/// Assigns to each id the nearest slot that can have drawn it, in order.
fn matched<'a>(
    ids: impl Iterator<Item = &'a OwnUse>,
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
