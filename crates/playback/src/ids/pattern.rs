//! Patterns of use: whether sessions use what they drew last.
//!
//! If many sessions draw at once, an id may be of any of them, and only a few ids are proved. But
//! programs have patterns of use, and the proved ids show them: usually a session uses the id of
//! its own last INSERT. For each pair of texts (the one that drew last in a session, and the one
//! that then used an id) the proved ids of the session's own draw and of other sessions' draws are
//! counted. The pattern applies to the other ids only if [`PROVED_MIN`] are proved and nothing
//! contradicts it:
//!
//! - no id of the pair is proved to be of another draw, or cannot be of the session's last one;
//! - no two ids claim one draw;
//! - most ids are at the position given by the order of the draws ([`AGREE_PERCENT`]), and nearly
//!   all others are near it ([`APART_US`]).
//!
//! If ids pass from session to session, a contradiction appears soon: of ids that pass through a
//! queue to its first reader, every sixteenth cannot be of the session's own last draw, and of
//! others many more. So [`IDS_MIN`] ids without a contradiction suffice as well.
//!
//! An undetectable case is sessions that draw at the same moment, pass the ids to each other
//! through a nearly empty queue, and use them by the same text: that looks like draws in another
//! order than their records.

use std::collections::{BTreeMap, HashSet};

use super::cases::TimeEvidence;
use super::proof::Proof;
use super::scan::NONE;

/// Proved ids required for a pattern of a pair of texts.
pub const PROVED_MIN: u64 = 20;

/// Proved ids that suffice whatever the order: if one in fifty were another session's, one would be
/// among them with a probability of 95 %.
pub const PROVED_ENOUGH: u64 = 150;

/// Ids required if fewer are proved.
pub const IDS_MIN: u64 = 200;

/// Percentage of ids that have to be at the position given by the order of the draws. On real logs
/// of eight saturated clients it is 79 to 97.
pub const AGREE_PERCENT: u64 = 70;

/// Draws that began or ended this long apart were not in the other order.
pub const APART_US: u64 = 20_000;

/// Percentage of ids that may contradict that: a process may have been descheduled.
pub const INCONSISTENT_PERCENT: u64 = 1;

/// Neighbouring ids that times separate from these; required for evidence by times: if one in
/// twenty were another session's, ten would be late.
pub const APART_MIN: u64 = 200 * 8;

/// The same if [`PROVED_MIN`] are proved as well.
pub const APART_PROVED_MIN: u64 = 60 * 8;

/// Permille of separated ids that may seem to be another session's.
pub const LATE_PER_MILLE: u64 = 20;

/// A text that drew, and a text that used, by their numbers in the list of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextPair {
    pub class: u32,
    pub draw: u32,
    /// The text that used, with the position.
    pub used: u32,
}

/// The pattern of a pair of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairPattern {
    /// Ids that sessions used after they had drawn.
    pub ids: u64,
    /// Proved to be of the session's last draw.
    pub proved_own: u64,
    /// Proved to be of another draw.
    pub proved_other: u64,
    /// Ids whose draw is known if they are the session's own.
    pub placed: u64,
    /// Of these, those at the position given by the order of the draws.
    pub agreeing: u64,
    /// Ids at another position although the draws were long apart.
    pub inconsistent: u64,
    /// Separations of an id from a neighbour by times.
    pub apart: u64,
    /// Ids drawn at another time than their neighbours show.
    pub late: u64,
    /// Ids that the pattern decides.
    pub used: u64,
}

impl PairPattern {
    /// Whether the pattern applies to unproved ids.
    pub fn is_trusted(&self) -> bool {
        let is_enough = self.proved_own >= PROVED_MIN || self.placed >= IDS_MIN;
        let agrees = self.agreeing * 100 >= self.placed * AGREE_PERCENT
            && self.inconsistent * 100 <= self.ids * INCONSISTENT_PERCENT;
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
    /// The id's index in the proof.
    pub id: u32,
    pub session: u32,
    pub pair: TextPair,
    /// The first slot of the session's last draw.
    pub first_slot: u32,
    /// Number of its slots.
    pub slots: u32,
    /// Distance of its row from those of that draw, if all drew in the counted order; None if the
    /// number of draws is unknown.
    pub shift: Option<i64>,
    /// Whether it is at the position given by the order of the draws.
    pub is_expected: bool,
    /// How long that draw is from the one given by the order.
    pub apart_us: u64,
    /// The evidence of times, if any.
    pub time_evidence: Option<TimeEvidence>,
    /// Whether it is the id's first use by a session that had drawn; otherwise it shows nothing
    /// new.
    pub is_first: bool,
}

impl Case {
    fn own(&self) -> std::ops::Range<u32> {
        self.first_slot..self.first_slot + self.slots
    }
}

/// The patterns of pairs of texts, and what follows for ids.
#[derive(Debug, Default)]
pub struct PairPatterns {
    pub by_pair: BTreeMap<TextPair, PairPattern>,
    /// Slots with the ids that they are taken to have drawn.
    pub claims: Vec<(u32, u32)>,
    /// Ids of one of several rows, where it is unknown which.
    pub which_row: HashSet<u32>,
}

impl PairPatterns {
    /// Learns patterns from cases, in the order of the trace, in addition to the proof.
    pub fn of(cases: &[Case], proof: &Proof<'_>) -> PairPatterns {
        let mut distrusted = HashSet::new();
        loop {
            let patterns = PairPatterns::without(&distrusted, cases, proof);
            let is_bad = |pair: &&TextPair| !patterns.by_pair[*pair].is_trusted();
            let before = distrusted.len();
            distrusted.extend(patterns.by_pair.keys().filter(is_bad));
            // A claim of a pair that is not trusted does not conflict with others, so others may be
            // better than they seemed; but the evidence against a pair is not forgotten.
            if distrusted.len() == before {
                return patterns;
            }
        }
    }

    /// The patterns if some pairs are known to be untrusted.
    fn without(distrusted: &HashSet<TextPair>, cases: &[Case], proof: &Proof<'_>) -> PairPatterns {
        let mut patterns = PairPatterns::default();
        for case in cases.iter().filter(|case| case.is_first) {
            patterns.count(case, proof);
        }
        let mut claims = DrawClaims::default();
        let is_known =
            |pair: &TextPair| patterns.by_pair.contains_key(pair) && !distrusted.contains(pair);
        let open = |case: &&Case| proof.given[case.id as usize] == NONE && is_known(&case.pair);
        // What agrees with the order of the draws comes before what does not.
        for agrees in [true, false] {
            for case in cases.iter().filter(open).filter(|case| case.is_expected == agrees) {
                claims.take(case, proof);
            }
        }
        for pair in &claims.refuted {
            if let Some(pattern) = patterns.by_pair.get_mut(pair) {
                pattern.proved_other += 1;
            }
        }
        claims.settle(&mut patterns, proof);
        patterns
    }

    fn count(&mut self, case: &Case, proof: &Proof<'_>) {
        let pattern = self.by_pair.entry(case.pair).or_default();
        pattern.ids += 1;
        pattern.placed += 1;
        pattern.agreeing += u64::from(case.is_expected);
        if let Some(TimeEvidence { agrees, apart }) = case.time_evidence {
            pattern.apart += apart;
            pattern.late += u64::from(!agrees);
        }
        pattern.inconsistent += u64::from(!case.is_expected && case.apart_us > APART_US);
        let given = proof.given[case.id as usize];
        let may_be_own = || case.own().any(|slot| proof.could_give(slot, case.id));
        if given != NONE {
            let is_own = case.own().contains(&given);
            pattern.proved_own += u64::from(is_own);
            pattern.proved_other += u64::from(!is_own);
        } else if !may_be_own() {
            pattern.proved_other += 1;
        }
    }
}

/// Ids that claim to be of a session's last draw.
#[derive(Debug, Default)]
struct DrawClaims {
    /// By first slot.
    by_draw: BTreeMap<u32, ClaimedDraw>,
    claimed: HashSet<u32>,
    /// Pairs with ids that claim another session's id.
    refuted: Vec<TextPair>,
}

impl DrawClaims {
    fn take(&mut self, case: &Case, proof: &Proof<'_>) {
        if self.claimed.contains(&case.id) {
            return;
        }
        if !case.own().any(|slot| proof.may_give(slot, case.id)) {
            return;
        }
        let draw = self.by_draw.entry(case.first_slot).or_insert_with(|| ClaimedDraw {
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

    /// Decides which row of its draw each id is, if known.
    fn settle(self, patterns: &mut PairPatterns, proof: &Proof<'_>) {
        for draw in self.by_draw.into_values() {
            for (id, pair, slot) in draw.rows(proof) {
                match slot {
                    Some(slot) => patterns.claims.push((slot, id)),
                    None => drop(patterns.which_row.insert(id)),
                }
                if let Some(pattern) = patterns.by_pair.get_mut(&pair) {
                    pattern.used += u64::from(slot.is_some());
                }
            }
        }
    }
}

/// A drawing statement, and the ids that claim to be of it.
#[derive(Debug)]
struct ClaimedDraw {
    slots: u32,
    /// Slots whose ids are not proved.
    free: Vec<u32>,
    claims: Vec<(u32, TextPair)>,
}

impl ClaimedDraw {
    /// The slot of each id. Rows are drawn in order, so it is known if all of them are used, or the
    /// first and the last and no other session drew in between.
    fn rows(mut self, proof: &Proof<'_>) -> Vec<(u32, TextPair, Option<u32>)> {
        // Indexes in the proof are in the order of ranks.
        self.claims.sort_unstable();
        let is_whole = self.claims.len() == self.free.len();
        let rank = |claim: Option<&(u32, TextPair)>| claim.map_or(0, |&(id, _)| proof.rank(id));
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
