//! The position of a sequence when the log begins: the value of its first draw in the log, and
//! whether there were draws outside of the log.
//!
//! The target's catalogue has the sequence's next value. If the target is a copy of the captured
//! database as of the beginning of the log, the log's first draw generated that value, and each
//! later draw the value that follows from the number of draws before it. The log has to confirm
//! both. The **lead** is by how much ids are ahead of the draws that were counted. There is
//! evidence of three kinds for it:
//!
//! - Most sessions use what they drew themselves, soon after. Such an id, with the minimum and
//!   maximum number of draws before its own, bounds the lead; if several consecutive ids agree,
//!   that is the lead. It never decreases, because a sequence only counts up.
//! - No id is used before it was drawn. Ids that are used as soon as possible, and none sooner,
//!   show the same if sessions that do not draw use what others drew.
//! - If every id is used once, the used ids are all that was drawn: none from before the first one,
//!   all of the first ones, and a draw outside of the log would leave a gap. The number of used ids
//!   below a draw's own id is then the number of draws before it.
//!
//! A lead other than zero at the beginning means that the target has another position; a lead
//! that grows means draws outside of the log.

use super::values::Id;

/// Own ids of sessions that are examined together.
const WINDOW: usize = 31;

/// Pairs that show where the log begins, if all of them agree.
const FIRST_PAIRS: usize = 8;

/// Percentage of them that has to agree; all of the last ones.
const AGREE_PERCENT: usize = 90;

/// Percentage of them that may be no session's own ids.
const INCONSISTENT_PERCENT: usize = 3;

/// Percentage of all pairs that have to be at the position given by the order of the draws; of
/// other sessions' ids hardly any is.
const IN_ORDER_PERCENT: usize = 50;

/// Minimum number of pairs.
const PAIRS_MIN: usize = 3;

/// Minimum number of ids that were used as soon as they could be.
const PROMPT_MIN: usize = 16;

/// Ids among which one such id is required: otherwise others may have drawn in between.
const PROMPT_AMONG: usize = 64;

/// A statement that drew, and the first id that its session used after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawUsePair {
    /// The statement's index among those of its sequence.
    pub drawing: usize,
    /// Minimum and maximum lead of ids, if the id is the session's own.
    pub lead: (i64, i64),
    /// The lead, if all drew in the counted order.
    pub by_order: i64,
}

/// An id at its first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstUse {
    /// The time by which it was known.
    pub deadline: u64,
    /// Minimum lead of ids, as the id had been drawn by then.
    pub lead_min: i64,
}

/// Ids after the sequence's position that have to be used, all of them, with none before it.
const EDGE: i64 = 24;

/// Minimum number of ids for a conclusion from their completeness.
const COMPLETE_MIN: usize = 64;

/// How the catalogue's next value agrees with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogFit {
    /// The log shows the same.
    Same,
    /// The log shows that the sequence was further by this many values (negative: less far).
    Shifted(i64),
    /// The log shows neither.
    Unknown,
}

/// The lead of ids: by how many values they are ahead of the draws in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub fit: CatalogFit,
    /// Minimum lead for each drawing.
    pub least: Vec<i64>,
    /// Maximum lead for each drawing; None if unknown.
    pub most: Vec<Option<i64>>,
    /// Whether it follows from which ids are used; then it holds at the beginning, is an upper
    /// bound later, and assumes no draws outside of the log.
    pub is_from_uses: bool,
}

impl Anchor {
    /// Takes in by how much ids were ahead at most when something was drawn that was drawn at that
    /// time at the earliest: before it they were ahead by no more. `befores` are the latest times
    /// of all drawings. Whether that says anything new.
    pub fn limit(&mut self, mut shown: Vec<(u64, i64)>, befores: &[u64]) -> bool {
        shown.sort_unstable();
        for index in (1..shown.len()).rev() {
            shown[index - 1].1 = shown[index - 1].1.min(shown[index].1);
        }
        let mut is_new = false;
        for (drawing, &before) in befores.iter().enumerate() {
            let behind = shown.partition_point(|&(after, _)| after < before);
            let Some(&(_, limit)) = shown.get(behind) else { continue };
            let limit = limit.max(self.least[drawing]);
            if self.most[drawing].is_none_or(|most| limit < most) {
                self.most[drawing] = Some(limit);
                is_new = true;
            }
        }
        is_new
    }

    /// The lead at a drawing; None if unknown.
    pub fn lead(&self, drawing: usize) -> Option<i64> {
        let least = self.least[drawing];
        let is_known = self.is_from_uses || self.most[drawing] == Some(least);
        is_known.then_some(least)
    }
}

/// Values that may have been drawn in addition to the counted ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncountedDraws {
    /// Maximum number drawn by statements that failed.
    pub failed: i64,
    /// Number of statements that drew an unknown number of values.
    pub unknown: i64,
}

impl UncountedDraws {
    /// Whether there may be as many.
    fn may_be(self, lead: i64) -> bool {
        self.unknown > 0 || lead <= self.failed
    }

    /// The values drawn since; None if unknown.
    fn since(self, earlier: UncountedDraws) -> Option<i64> {
        (self.unknown == earlier.unknown).then_some(self.failed - earlier.failed)
    }
}

/// The evidence for an anchor.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Ids that sessions used after they drew, in the order of the drawings.
    pub pairs: &'a [DrawUsePair],
    /// All ids that may be the sequence's, in the order of their first uses.
    pub uses: &'a [FirstUse],
    /// Of these, first used by sessions that had drawn.
    pub drew_before: usize,
    /// By drawing: uncounted values that may have been drawn before it.
    pub uncounted: &'a [UncountedDraws],
    /// By drawing: the latest time at which it drew.
    pub befores: &'a [u64],
    /// Whether the catalogue has the position of the sequence.
    pub is_reported: bool,
    /// Ranks of all ids that may be the sequence's, in order, including those before its beginning.
    pub ranks: &'a [i64],
    /// By drawing: maximum number of counted values that may have been drawn before its last one.
    pub before_last: &'a [i64],
}

impl Anchor {
    /// The anchor that follows from the evidence.
    pub fn of(evidence: &Evidence<'_>) -> Anchor {
        let found = from_own_uses(evidence).or_else(|| {
            match (from_prompt_uses(evidence), from_complete_uses(evidence)) {
                (Some(prompt), Some(whole)) => Some(whole.within(&prompt)),
                (prompt, whole) => prompt.or(whole),
            }
        });
        found.unwrap_or_else(|| {
            let drawings = evidence.uncounted.len();
            Anchor {
                fit: CatalogFit::Unknown,
                least: vec![0; drawings],
                most: vec![None; drawings],
                is_from_uses: false,
            }
        })
    }

    /// Combines it with another one of the same beginning: the larger minimum and the smaller
    /// maximum.
    pub fn within(mut self, other: &Anchor) -> Anchor {
        for drawing in 0..self.least.len() {
            let least = self.least[drawing].max(other.least[drawing]);
            let most = match (self.most[drawing], other.most[drawing]) {
                (Some(most), Some(other)) => Some(most.min(other)),
                (most, other) => most.or(other),
            };
            if most.is_none_or(|most| least <= most) {
                (self.least[drawing], self.most[drawing]) = (least, most);
            }
        }
        self
    }
}

/// The anchor from sessions' own uses; None if they disagree.
fn from_own_uses(evidence: &Evidence<'_>) -> Option<Anchor> {
    let Evidence { pairs, uncounted, is_reported, .. } = evidence;
    let window = WINDOW.min(pairs.len());
    let ranges: Vec<Option<LeadRange>> =
        pairs.windows(window.max(1)).map(|pairs| LeadRange::of(pairs, AGREE_PERCENT)).collect();
    let agree = ranges.iter().flatten().count();
    if agree == 0 || agree * 2 < ranges.len() || decreases(&ranges) {
        return None;
    }
    let few = LeadRange::of(&pairs[..FIRST_PAIRS.min(pairs.len())], 100)?;
    let first = ranges.first().copied().flatten().map_or(Some(few), |all| all.within(few))?;
    // What was drawn before, but could not be counted, is no other beginning.
    let before = |behind: usize| uncounted[pairs[behind.min(pairs.len()) - 1].drawing];
    let is_explained = *is_reported
        && first.least > 0
        && before(FIRST_PAIRS).may_be(few.least)
        && before(window).may_be(first.least);
    let fit = if !is_reported || first.least > 0 && !is_explained {
        CatalogFit::Shifted(first.least)
    } else {
        fit_of(first, &ranges)
    };
    let drawings = uncounted.len();
    let mut anchor = Anchor {
        fit,
        least: vec![if is_explained { 0 } else { first.least }; drawings],
        most: vec![None; drawings],
        is_from_uses: false,
    };
    // Each drawing is ahead by no less than the stretch of ids before it...
    for (index, lead) in (0..).zip(&ranges) {
        let last: &DrawUsePair = &pairs[index + window - 1];
        if let (Some(lead), Some(least)) = (lead, anchor.least.get_mut(last.drawing)) {
            *least = lead.least.max(*least);
        }
    }
    for drawing in 1..drawings {
        anchor.least[drawing] = anchor.least[drawing].max(anchor.least[drawing - 1]);
    }
    // ...and by no more than that behind it.
    let mut most = most_at_the_end(evidence, window);
    let mut index = ranges.len();
    for drawing in (0..drawings).rev() {
        while index > 0 && pairs[index - 1].drawing >= drawing {
            index -= 1;
            if let Some(lead) = ranges[index] {
                most = Some(most.map_or(lead.most, |most| lead.most.min(most)));
            }
        }
        anchor.most[drawing] = most.filter(|_| index < ranges.len()).or_else(|| {
            // Behind the first of the last stretch only that shows what was drawn.
            let last = pairs.last().map_or(0, |pair| pair.drawing);
            let since = uncounted[drawing.max(last)].since(uncounted[last])?;
            most.map(|most| most + since)
        });
    }
    let is_inconsistent = |pair: &&DrawUsePair| {
        let (least, most) = (anchor.least[pair.drawing], anchor.most[pair.drawing]);
        pair.lead.1 < least || most.is_some_and(|most| pair.lead.0 > most)
    };
    let inconsistent = pairs.iter().filter(is_inconsistent).count();
    let is_in_order = |pair: &&DrawUsePair| {
        let (least, most) = (anchor.least[pair.drawing], anchor.most[pair.drawing]);
        least <= pair.by_order && most.is_none_or(|most| pair.by_order <= most)
    };
    let in_order = pairs.iter().filter(is_in_order).count();
    let is_own = inconsistent * 100 <= pairs.len() * INCONSISTENT_PERCENT
        && in_order * 100 >= pairs.len() * IN_ORDER_PERCENT;
    is_own.then_some(anchor)
}

/// How the beginning agrees with the catalogue, unless the sequence was further.
fn fit_of(first: LeadRange, ranges: &[Option<LeadRange>]) -> CatalogFit {
    // Where the first ones leave it open, later ones that say it exactly will do: a sequence that
    // had been less ahead would not have reached that by itself.
    let is_exact = |lead: &LeadRange| (lead.least, lead.most) == (0, 0);
    if first.most < 0 {
        CatalogFit::Shifted(first.most)
    } else if ranges.iter().flatten().any(is_exact) {
        CatalogFit::Same
    } else {
        CatalogFit::Unknown
    }
}

/// The maximum lead at the end of the log: all of the last pairs have to agree.
fn most_at_the_end(evidence: &Evidence<'_>, window: usize) -> Option<i64> {
    let last = &evidence.pairs[evidence.pairs.len() - window..];
    LeadRange::of(last, 100).map(|lead| lead.most)
}

/// Whether a later lead is less than an earlier one: then the ids are not of a sequence that only
/// counts up.
fn decreases(ranges: &[Option<LeadRange>]) -> bool {
    let mut least = i64::MIN;
    ranges.iter().flatten().any(|lead| {
        least = least.max(lead.least);
        lead.most < least
    })
}

/// The anchor from ids that were used as soon as they could be, and none sooner: as long as there
/// are enough of them, there were no draws outside of the log.
fn from_prompt_uses(evidence: &Evidence<'_>) -> Option<Anchor> {
    let Evidence { uses, drew_before, uncounted, befores, is_reported, .. } = evidence;
    // Where those who use ids draw as well, and do not use their own ids, their patterns are
    // unknown.
    if drew_before * 10 > uses.len() {
        return None;
    }
    let (mut deadlines, mut last) = (Vec::new(), 0);
    for (index, one) in uses.iter().enumerate() {
        if one.lead_min > 0 || index - last > PROMPT_AMONG {
            break;
        }
        if one.lead_min == 0 {
            deadlines.push(one.deadline);
            last = index;
        }
    }
    let until = *deadlines.get(deadlines.len().checked_sub(PROMPT_MIN)?)?;
    let is_counted = |drawing: usize| uncounted[drawing] == UncountedDraws::default();
    let shown = |drawing: usize| *is_reported && is_counted(drawing) && befores[drawing] <= until;
    let drawings = uncounted.len();
    let most = (0..drawings).map(|drawing| shown(drawing).then_some(0)).collect();
    Some(Anchor { fit: CatalogFit::Same, least: vec![0; drawings], most, is_from_uses: false })
}

/// The anchor from ids that are used completely from the first one on.
fn from_complete_uses(evidence: &Evidence<'_>) -> Option<Anchor> {
    let Evidence { uses, uncounted, ranks, before_last, is_reported, .. } = evidence;
    let is_sooner = uses.iter().any(|one| one.lead_min > 0);
    let new = ranks.partition_point(|&rank| rank < 0);
    let edge = &ranks[ranks.partition_point(|&rank| rank < -EDGE)..];
    let is_edge = edge.iter().copied().take(EDGE as usize).eq(0..EDGE);
    let used = &ranks[new..];
    if !is_reported || is_sooner || !is_edge || used.len() < COMPLETE_MIN {
        return None;
    }
    let most = |(&before, uncounted): (&i64, &UncountedDraws)| {
        // Ids of an unknown number of draws may be used as well.
        let before = usize::try_from(before).ok().filter(|_| uncounted.unknown == 0)?;
        Some(used.get(before)? - before as i64)
    };
    Some(Anchor {
        fit: CatalogFit::Same,
        least: vec![0; uncounted.len()],
        most: before_last.iter().zip(*uncounted).map(most).collect(),
        is_from_uses: true,
    })
}

/// The lead of ids on which some pairs agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeadRange {
    least: i64,
    most: i64,
}

impl LeadRange {
    /// The intersection; None if it is empty.
    fn within(self, other: LeadRange) -> Option<LeadRange> {
        let (least, most) = (self.least.max(other.least), self.most.min(other.most));
        (least <= most).then_some(LeadRange { least, most })
    }

    /// The range on which this percentage agrees; None if too few do.
    fn of(pairs: &[DrawUsePair], agree_percent: usize) -> Option<LeadRange> {
        let mut ends: Vec<(i64, i64)> = Vec::with_capacity(pairs.len() * 2);
        for pair in pairs {
            ends.push((pair.lead.0, 1));
            ends.push((pair.lead.1 + 1, -1));
        }
        ends.sort_unstable();
        let (mut agree, mut best, mut found) = (0, 0, None);
        for (index, &(value, change)) in ends.iter().enumerate() {
            agree += change;
            let next = ends.get(index + 1).map_or(value, |next| next.0);
            if next == value {
                continue;
            }
            if agree > best {
                best = agree;
                found = Some(LeadRange { least: value, most: next - 1 });
            } else if let Some(lead) = found.as_mut().filter(|_| agree == best) {
                lead.most = next - 1;
            }
        }
        let enough = (pairs.len() * agree_percent) as i64;
        found.filter(|_| pairs.len() >= PAIRS_MIN && best * 100 >= enough)
    }
}

/// Distance of an id from another in values of the sequence; None if the sequence never generates
/// it.
pub fn rank(id: Id, from: i64, increment: i64) -> Option<i64> {
    let distance = id.number().checked_sub(from)?;
    (distance.checked_rem(increment)? == 0).then(|| distance / increment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each draw may have been one or two positions before or behind.
    fn anchor(ranks: &[i64], failed: i64) -> Anchor {
        let pair = |(drawing, &rank): (usize, &i64)| {
            let lead = rank - drawing as i64;
            let lead = (lead - (drawing as i64 % 3), lead + (drawing as i64 + 1) % 3);
            DrawUsePair { drawing, lead, by_order: rank - drawing as i64 }
        };
        let pairs: Vec<DrawUsePair> = ranks.iter().enumerate().map(pair).collect();
        Anchor::of(&Evidence {
            pairs: &pairs,
            uses: &[],
            drew_before: 0,
            uncounted: &vec![UncountedDraws { failed, unknown: 0 }; ranks.len()],
            befores: &vec![0; ranks.len()],
            is_reported: true,
            ranks: &[],
            before_last: &[],
        })
    }

    fn is_exact(anchor: &Anchor, from: usize) -> bool {
        let all = anchor.least.iter().zip(&anchor.most).skip(from);
        all.into_iter().all(|(least, most)| Some(*least) == *most)
    }

    #[test]
    fn sequence_position_follows_the_majority_of_ids() {
        let ranks: Vec<i64> = (0..100).collect();
        let found = anchor(&ranks, 0);
        assert_eq!((found.fit, found.least[20], found.most[20]), (CatalogFit::Same, 0, Some(0)));
        assert!(is_exact(&found, 0));
        // A few that are no session's own change nothing, but at the end.
        let mut inconsistent = ranks.clone();
        (10..60).step_by(25).for_each(|index| inconsistent[index] += 40);
        assert_eq!(anchor(&inconsistent, 0), found);
        inconsistent[98] += 5;
        assert_eq!(
            (anchor(&inconsistent, 0).most[20], anchor(&inconsistent, 0).most[99]),
            (Some(0), None)
        );
        // Few that may be ahead by one or none are not enough to say which.
        assert_eq!(anchor(&ranks[..2], 0).fit, CatalogFit::Unknown);
    }

    #[test]
    fn shifted_sequence_is_reported() {
        for further in [37, 1, -1, -37] {
            let ranks: Vec<i64> = (0..50).map(|rank| rank + further).collect();
            assert_eq!(anchor(&ranks, 0).fit, CatalogFit::Shifted(further));
        }
    }

    /// They may be what could not be counted before.
    #[test]
    fn uncounted_draws_are_no_other_beginning() {
        let ranks: Vec<i64> = (0..50).map(|rank| rank + 5).collect();
        let found = anchor(&ranks, 5);
        assert_eq!((found.fit, found.least[0], found.most[0]), (CatalogFit::Unknown, 0, Some(5)));
        assert_eq!((found.least[40], found.most[40]), (5, Some(5)));
        assert_eq!(anchor(&ranks, 4).fit, CatalogFit::Shifted(5));
    }

    /// Those after the first pairs do not explain what the first pairs show.
    #[test]
    fn later_uncounted_draws_do_not_explain_another_beginning() {
        let fit_of = |leads: &[i64], unknown_from: usize| {
            let pair =
                |(drawing, &lead)| DrawUsePair { drawing, lead: (lead, lead), by_order: lead };
            let unknown = |drawing| i64::from(drawing >= unknown_from);
            let uncounted = |drawing| UncountedDraws { failed: 0, unknown: unknown(drawing) };
            let anchor = Anchor::of(&Evidence {
                pairs: &leads.iter().enumerate().map(pair).collect::<Vec<_>>(),
                uses: &[],
                drew_before: 0,
                uncounted: &(0..leads.len()).map(uncounted).collect::<Vec<_>>(),
                befores: &vec![0; leads.len()],
                is_reported: true,
                ranks: &[],
                before_last: &[],
            });
            anchor.fit
        };
        assert_eq!(fit_of(&[5; 100], 20), CatalogFit::Shifted(5));
        assert_eq!(fit_of(&[5; 12], 11), CatalogFit::Shifted(5));
        assert_eq!(fit_of(&[5; 100], 0), CatalogFit::Unknown);
        assert_eq!(fit_of(&[5; 100], 7), CatalogFit::Unknown);
    }

    #[test]
    fn draws_outside_the_log_raise_the_offset() {
        let ranks: Vec<i64> = (0..90).map(|rank| if rank < 45 { rank } else { rank + 5 }).collect();
        let found = anchor(&ranks, 0);
        assert_eq!((found.fit, found.least[5], found.most[5]), (CatalogFit::Same, 0, Some(0)));
        assert_eq!((found.least[45], found.most[45]), (0, Some(5)));
        assert_eq!((found.least[85], found.most[85]), (5, Some(5)));
        let less: Vec<i64> = (0..90).map(|rank| if rank < 45 { rank } else { rank - 5 }).collect();
        assert_eq!(anchor(&less, 0).fit, CatalogFit::Unknown);
    }

    #[test]
    fn completely_used_ids_show_the_position() {
        let uses: Vec<FirstUse> = vec![FirstUse { deadline: 1_000, lead_min: -3 }; 100];
        let before_last: Vec<i64> = (0..100).map(|drawing| drawing + 7).collect();
        let befores = vec![0; 100];
        let anchor = |ranks: &[i64], unknown: i64| {
            Anchor::of(&Evidence {
                pairs: &[],
                uses: &uses,
                drew_before: 100,
                uncounted: &[UncountedDraws { failed: 0, unknown }; 100],
                befores: &befores,
                is_reported: true,
                ranks,
                before_last: &before_last,
            })
        };
        let all: Vec<i64> = (0..100).collect();
        let found = anchor(&all, 0);
        assert_eq!((found.fit, found.least[40], found.most[40]), (CatalogFit::Same, 0, Some(0)));
        // The last ones may be of others, as they were not used yet.
        assert_eq!((found.most[92], found.most[93]), (Some(0), None));
        // One that is not used may have been drawn outside of the log.
        let one_less: Vec<i64> = all.iter().copied().filter(|&rank| rank != 50).collect();
        let found = anchor(&one_less, 0);
        assert_eq!((found.most[30], found.most[42], found.most[60]), (Some(0), Some(0), Some(1)));
        // The sequence was elsewhere, or that cannot be seen.
        for other in [&all[1..], &[&[-1], &all[..]].concat(), &[&all[..9], &all[10..]].concat()] {
            assert_eq!(anchor(other, 0).fit, CatalogFit::Unknown);
        }
        assert_eq!(anchor(&all, 1).most[10], None);
    }

    #[test]
    fn later_proof_limits_earlier_offsets() {
        let befores: Vec<u64> = (0..5).map(|drawing| drawing * 2 + 1).collect();
        let most = vec![Some(0), Some(3), Some(4), None, None];
        let mut anchor =
            Anchor { fit: CatalogFit::Same, least: vec![0; 5], most, is_from_uses: true };
        assert!(anchor.limit(vec![(2, 3), (6, 1)], &befores));
        assert_eq!(anchor.most, [Some(0), Some(1), Some(1), None, None]);
        assert!(!anchor.limit(vec![(6, 1)], &befores));
    }

    #[test]
    fn promptly_used_foreign_ids_show_the_position() {
        let uses = |sooner: Option<usize>| {
            let one = |index: usize| FirstUse {
                deadline: index as u64 * 2 + 2,
                lead_min: if Some(index) == sooner { 1 } else { -(index as i64 % 2) },
            };
            (0..80).map(one).collect::<Vec<FirstUse>>()
        };
        let befores: Vec<u64> = (0..80).map(|index| index * 2 + 1).collect();
        let anchor = |uses: &[FirstUse]| {
            Anchor::of(&Evidence {
                pairs: &[],
                uses,
                drew_before: 0,
                uncounted: &[UncountedDraws::default(); 80],
                befores: &befores,
                is_reported: true,
                ranks: &[],
                before_last: &[],
            })
        };
        let found = anchor(&uses(None));
        assert_eq!((found.fit, found.most[40], found.most[60]), (CatalogFit::Same, Some(0), None));
        assert_eq!(anchor(&uses(Some(60))).most[40], None);
        assert_eq!(anchor(&uses(Some(20))).fit, CatalogFit::Unknown);
    }

    #[test]
    fn late_users_do_not_hide_completely_used_ids() {
        let one = |index: u64| FirstUse {
            deadline: index * 2 + 2,
            lead_min: if index < 20 { 0 } else { -5 },
        };
        let anchor = |ranks: &[i64]| {
            Anchor::of(&Evidence {
                pairs: &[],
                uses: &(0..80).map(one).collect::<Vec<FirstUse>>(),
                drew_before: 0,
                uncounted: &[UncountedDraws::default(); 80],
                befores: &(0..80).map(|index| index * 2 + 1).collect::<Vec<u64>>(),
                is_reported: true,
                ranks,
                before_last: &(0..80).map(|index| index + 3).collect::<Vec<i64>>(),
            })
        };
        let promptly = anchor(&[]);
        assert_eq!((promptly.most[4], promptly.most[5]), (Some(0), None));
        // One is missing at 40: it may have been drawn outside of the log.
        let ranks: Vec<i64> = (0..81).filter(|&rank| rank != 40).collect();
        let both = anchor(&ranks);
        assert_eq!((both.fit, both.most[5], both.most[30]), (CatalogFit::Same, Some(0), Some(0)));
        assert_eq!((both.most[60], both.most[79]), (Some(1), None));
    }
}
