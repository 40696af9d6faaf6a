//! The position of a sequence when the log begins: what its first draw in the log gave, and whether
//! others drew from it that are not in the log.
//!
//! The target's catalogue says what the sequence would give next. If the target is what the
//! captured database was when the log begins, the log's first draw gave that, and each later one
//! as much more as there were draws before it. Both has to be shown by the log, for nothing else
//! would show that it is not so. By how much ids are **ahead** of the draws that were counted is
//! seen in three ways:
//!
//! - Most sessions use what they drew themselves, soon after. Such an id, and how many draws there
//!   were before its own at least and at most, bound by how much it is ahead; what some of them in
//!   a row say alike is how it was. A sequence only counts on: it is ahead by no less than it was
//!   before, and by no more than it is later.
//! - No id is used before it was drawn. Ids that are used as soon as they can be, and none sooner,
//!   show the same where sessions that do not draw use what others drew.
//!
//! - Where sessions use ids that others drew, or that they drew long ago, neither shows. But where
//!   every id is used once, the used ids are all that was drawn: none are used of those before the
//!   first one, all are of the first ones, and each one drawn outside of the log would be missing
//!   among them. As many ids are less than a draw's own as were drawn before it, so it is at most
//!   the id that has as many used ones before it.
//!
//! If ids are ahead by a number other than zero when the log begins, the target's position differs;
//! if they are ahead by more later, there were draws that are not in the log.

use super::values::Id;

/// Ids of sessions' own that are looked at together.
const TOGETHER: usize = 31;

/// Pairs that show where the log begins, if all of them agree.
const FIRST: usize = 8;

/// How many of them have to agree, of a hundred; all of the last ones.
const AGREE_PERCENT: usize = 90;

/// The percentage of them that may be no session's own.
const STRANGE_PERCENT: usize = 3;

/// How many of all of them have to be where the order of the draws puts them, of a hundred; of ids
/// of others hardly any is.
const IN_ORDER_PERCENT: usize = 50;

/// Fewer prove nothing.
const PAIRS_MIN: usize = 3;

/// Ids that were used as soon as they could be; fewer prove nothing.
const PROMPT_MIN: usize = 16;

/// Ids among which there has to be one of these: else others may have drawn in between.
const PROMPT_AMONG: usize = 64;

/// A statement that drew, and the first id that its session used after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The statement's place among those of its sequence.
    pub drawing: usize,
    /// By how much ids are ahead, at least and at most, if it is the session's own.
    pub ahead: (i64, i64),
    /// By how much, if all drew in the order in which they are counted.
    pub by_order: i64,
}

/// An id, as soon as it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The time by which it was known.
    pub deadline: u64,
    /// By how much ids are ahead at least, as it had been drawn by then.
    pub ahead_min: i64,
}

/// Ids that have to be used behind the sequence's position, all of them, and not one before it.
const EDGE: i64 = 24;

/// Ids of which fewer than these show nothing by being whole.
const WHOLE_MIN: usize = 64;

/// How the catalogue's next value fits the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The log shows the same.
    Same,
    /// The log shows that the sequence was this many places further, or less far.
    Elsewhere(i64),
    /// The log shows neither.
    NotShown,
}

/// By how much ids are ahead of the draws in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// How the catalogue fits.
    pub fit: Fit,
    /// At least, for each drawing.
    pub least: Vec<i64>,
    /// At most; None if unknown.
    pub most: Vec<Option<i64>>,
    /// It follows from which ids are used; so it is as at the beginning unless there are more draws
    /// outside of the log, and their number is an upper bound.
    pub is_by_use: bool,
}

impl Anchor {
    /// Takes in by how much ids were ahead at most when something was drawn that was drawn at that
    /// time at the earliest: before it they were ahead by no more. `befores` are the latest times
    /// of all drawings. Whether that says anything new.
    pub fn limit(&mut self, mut shown: Vec<(u64, i64)>, befores: &[u64]) -> bool {
        shown.sort_unstable();
        for place in (1..shown.len()).rev() {
            shown[place - 1].1 = shown[place - 1].1.min(shown[place].1);
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

    /// By how much ids are ahead where a drawing drew; None if unknown.
    pub fn ahead(&self, drawing: usize) -> Option<i64> {
        let least = self.least[drawing];
        let is_known = self.is_by_use || self.most[drawing] == Some(least);
        is_known.then_some(least)
    }
}

/// Values that may have been drawn in addition to those that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// By statements that failed, at most.
    pub failed: i64,
    /// Statements that drew an unknown number of values.
    pub unknown: i64,
}

impl Uncounted {
    /// The values drawn since; None if unknown.
    fn since(self, earlier: Uncounted) -> Option<i64> {
        (self.unknown == earlier.unknown).then_some(self.failed - earlier.failed)
    }
}

/// What an anchor is found from.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// What sessions used of their own, in the order of the drawings.
    pub pairs: &'a [Pair],
    /// All ids that may be the sequence's, in the order of their first uses.
    pub uses: &'a [Use],
    /// Of these, first used by sessions that had drawn.
    pub drew_before: usize,
    /// By drawing: uncounted values that may have been drawn before it.
    pub uncounted: &'a [Uncounted],
    /// By drawing: the latest time at which it drew.
    pub befores: &'a [u64],
    /// Whether the catalogue has the position of the sequence.
    pub is_reported: bool,
    /// Ranks of all ids that may be the sequence's, in order, and those before it began.
    pub ranks: &'a [i64],
    /// By drawing: values that may have been drawn before its last one, at most, of those that are
    /// counted.
    pub before_last: &'a [i64],
}

impl Anchor {
    /// What the log shows.
    pub fn of(evidence: &Evidence<'_>) -> Anchor {
        let found = by_own(evidence).or_else(|| match (by_prompt(evidence), by_whole(evidence)) {
            (Some(prompt), Some(whole)) => Some(whole.within(&prompt)),
            (prompt, whole) => prompt.or(whole),
        });
        found.unwrap_or_else(|| {
            let drawings = evidence.uncounted.len();
            Anchor {
                fit: Fit::NotShown,
                least: vec![0; drawings],
                most: vec![None; drawings],
                is_by_use: false,
            }
        })
    }

    /// What follows where another one holds as well, of the same beginning: by no less than either
    /// says, and by no more.
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

/// What ids show that sessions drew themselves; None where these do not agree.
fn by_own(evidence: &Evidence<'_>) -> Option<Anchor> {
    let Evidence { pairs, uncounted, is_reported, .. } = evidence;
    let together = TOGETHER.min(pairs.len());
    let stretches: Vec<Option<Ahead>> =
        pairs.windows(together.max(1)).map(|pairs| Ahead::of(pairs, AGREE_PERCENT)).collect();
    let agree = stretches.iter().flatten().count();
    if agree == 0 || agree * 2 < stretches.len() || falls(&stretches) {
        return None;
    }
    let few = Ahead::of(&pairs[..FIRST.min(pairs.len())], 100)?;
    let first = stretches.first().copied().flatten().map_or(Some(few), |all| all.within(few))?;
    // Where the first ones leave it open, later ones that say it exactly will do: a sequence that
    // had been less ahead would not have reached that by itself.
    let is_exact = |ahead: &Ahead| (ahead.least, ahead.most) == (0, 0);
    let fit = match first {
        Ahead { least, .. } if !is_reported || least > 0 => Fit::Elsewhere(least),
        Ahead { most, .. } if most < 0 => Fit::Elsewhere(most),
        Ahead { .. } if stretches.iter().flatten().any(is_exact) => Fit::Same,
        Ahead { .. } => Fit::NotShown,
    };
    let drawings = uncounted.len();
    let mut anchor = Anchor {
        fit,
        least: vec![first.least; drawings],
        most: vec![None; drawings],
        is_by_use: false,
    };
    // Each drawing is ahead by no less than the stretch of ids before it...
    for (place, ahead) in (0..).zip(&stretches) {
        let last: &Pair = &pairs[place + together - 1];
        if let (Some(ahead), Some(least)) = (ahead, anchor.least.get_mut(last.drawing)) {
            *least = ahead.least.max(*least);
        }
    }
    for drawing in 1..drawings {
        anchor.least[drawing] = anchor.least[drawing].max(anchor.least[drawing - 1]);
    }
    // ...and by no more than that behind it.
    let mut most = most_at_the_end(evidence, together);
    let mut place = stretches.len();
    for drawing in (0..drawings).rev() {
        while place > 0 && pairs[place - 1].drawing >= drawing {
            place -= 1;
            if let Some(ahead) = stretches[place] {
                most = Some(most.map_or(ahead.most, |most| ahead.most.min(most)));
            }
        }
        anchor.most[drawing] = most.filter(|_| place < stretches.len()).or_else(|| {
            // Behind the first of the last stretch only that shows what was drawn.
            let last = pairs.last().map_or(0, |pair| pair.drawing);
            let since = uncounted[drawing.max(last)].since(uncounted[last])?;
            most.map(|most| most + since)
        });
    }
    let is_strange = |pair: &&Pair| {
        let (least, most) = (anchor.least[pair.drawing], anchor.most[pair.drawing]);
        pair.ahead.1 < least || most.is_some_and(|most| pair.ahead.0 > most)
    };
    let strange = pairs.iter().filter(is_strange).count();
    let is_in_order = |pair: &&Pair| {
        let (least, most) = (anchor.least[pair.drawing], anchor.most[pair.drawing]);
        least <= pair.by_order && most.is_none_or(|most| pair.by_order <= most)
    };
    let in_order = pairs.iter().filter(is_in_order).count();
    let is_own = strange * 100 <= pairs.len() * STRANGE_PERCENT
        && in_order * 100 >= pairs.len() * IN_ORDER_PERCENT;
    is_own.then_some(anchor)
}

/// By how much ids are ahead at most where the log ends: all of the last ones have to agree.
fn most_at_the_end(evidence: &Evidence<'_>, together: usize) -> Option<i64> {
    let last = &evidence.pairs[evidence.pairs.len() - together..];
    Ahead::of(last, 100).map(|ahead| ahead.most)
}

/// Whether ids are less ahead later than before: then they are of no sequence that only counts on.
fn falls(stretches: &[Option<Ahead>]) -> bool {
    let mut least = i64::MIN;
    stretches.iter().flatten().any(|ahead| {
        least = least.max(ahead.least);
        ahead.most < least
    })
}

/// The conclusion from ids that were used as soon as they could be, and none sooner: as long as
/// there are enough of them all the time, there were no draws outside of the log.
fn by_prompt(evidence: &Evidence<'_>) -> Option<Anchor> {
    let Evidence { uses, drew_before, uncounted, befores, is_reported, .. } = evidence;
    // Where those who use ids draw as well, and do not use their own, their habits are not known.
    if drew_before * 10 > uses.len() {
        return None;
    }
    let (mut deadlines, mut last) = (Vec::new(), 0);
    for (place, one) in uses.iter().enumerate() {
        if one.ahead_min > 0 || place - last > PROMPT_AMONG {
            break;
        }
        if one.ahead_min == 0 {
            deadlines.push(one.deadline);
            last = place;
        }
    }
    let until = *deadlines.get(deadlines.len().checked_sub(PROMPT_MIN)?)?;
    let is_counted = |drawing: usize| uncounted[drawing] == Uncounted::default();
    let shown = |drawing: usize| *is_reported && is_counted(drawing) && befores[drawing] <= until;
    let drawings = uncounted.len();
    let most = (0..drawings).map(|drawing| shown(drawing).then_some(0)).collect();
    Some(Anchor { fit: Fit::Same, least: vec![0; drawings], most, is_by_use: false })
}

/// What it shows that ids are used from the first one on.
fn by_whole(evidence: &Evidence<'_>) -> Option<Anchor> {
    let Evidence { uses, uncounted, ranks, before_last, is_reported, .. } = evidence;
    let is_sooner = uses.iter().any(|one| one.ahead_min > 0);
    let new = ranks.partition_point(|&rank| rank < 0);
    let edge = &ranks[ranks.partition_point(|&rank| rank < -EDGE)..];
    let is_edge = edge.iter().copied().take(EDGE as usize).eq(0..EDGE);
    let used = &ranks[new..];
    if !is_reported || is_sooner || !is_edge || used.len() < WHOLE_MIN {
        return None;
    }
    let most = |(&before, uncounted): (&i64, &Uncounted)| {
        // Ids of an unknown number of draws may be used as well.
        let before = usize::try_from(before).ok().filter(|_| uncounted.unknown == 0)?;
        Some(used.get(before)? - before as i64)
    };
    Some(Anchor {
        fit: Fit::Same,
        least: vec![0; uncounted.len()],
        most: before_last.iter().zip(*uncounted).map(most).collect(),
        is_by_use: true,
    })
}

/// By how much ids are ahead, as some pairs say alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ahead {
    least: i64,
    most: i64,
}

impl Ahead {
    /// What both say; None where they do not agree.
    fn within(self, other: Ahead) -> Option<Ahead> {
        let (least, most) = (self.least.max(other.least), self.most.min(other.most));
        (least <= most).then_some(Ahead { least, most })
    }

    /// The value that this percentage agrees on; None where too few do.
    fn of(pairs: &[Pair], agree_percent: usize) -> Option<Ahead> {
        let mut ends: Vec<(i64, i64)> = Vec::with_capacity(pairs.len() * 2);
        for pair in pairs {
            ends.push((pair.ahead.0, 1));
            ends.push((pair.ahead.1 + 1, -1));
        }
        ends.sort_unstable();
        let (mut agree, mut best, mut found) = (0, 0, None);
        for (place, &(value, change)) in ends.iter().enumerate() {
            agree += change;
            let next = ends.get(place + 1).map_or(value, |next| next.0);
            if next == value {
                continue;
            }
            if agree > best {
                best = agree;
                found = Some(Ahead { least: value, most: next - 1 });
            } else if let Some(ahead) = found.as_mut().filter(|_| agree == best) {
                ahead.most = next - 1;
            }
        }
        let enough = (pairs.len() * agree_percent) as i64;
        found.filter(|_| pairs.len() >= PAIRS_MIN && best * 100 >= enough)
    }
}

/// How many places an id is from another in a sequence; None for one that the sequence never gives.
pub fn rank(id: Id, from: i64, increment: i64) -> Option<i64> {
    let distance = id.number().checked_sub(from)?;
    (distance.checked_rem(increment)? == 0).then(|| distance / increment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each draw may have been one or two places before or behind.
    fn anchor(ranks: &[i64], failed: i64) -> Anchor {
        let pair = |(drawing, &rank): (usize, &i64)| {
            let ahead = rank - drawing as i64;
            let ahead = (ahead - (drawing as i64 % 3), ahead + (drawing as i64 + 1) % 3);
            Pair { drawing, ahead, by_order: rank - drawing as i64 }
        };
        let pairs: Vec<Pair> = ranks.iter().enumerate().map(pair).collect();
        Anchor::of(&Evidence {
            pairs: &pairs,
            uses: &[],
            drew_before: 0,
            uncounted: &vec![Uncounted { failed, unknown: 0 }; ranks.len()],
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
    fn a_sequence_stands_where_most_ids_say() {
        let ranks: Vec<i64> = (0..100).collect();
        let found = anchor(&ranks, 0);
        assert_eq!((found.fit, found.least[20], found.most[20]), (Fit::Same, 0, Some(0)));
        assert!(is_exact(&found, 0));
        // A few that are no session's own change nothing, but at the end.
        let mut strange = ranks.clone();
        (10..60).step_by(25).for_each(|place| strange[place] += 40);
        assert_eq!(anchor(&strange, 0), found);
        strange[98] += 5;
        assert_eq!((anchor(&strange, 0).most[20], anchor(&strange, 0).most[99]), (Some(0), None));
        // Few that may be ahead by one or none are not enough to say which.
        assert_eq!(anchor(&ranks[..2], 0).fit, Fit::NotShown);
    }

    #[test]
    fn a_sequence_that_stands_elsewhere_is_reported() {
        for further in [37, 1, -1, -37] {
            let ranks: Vec<i64> = (0..50).map(|rank| rank + further).collect();
            assert_eq!(anchor(&ranks, 0).fit, Fit::Elsewhere(further));
        }
    }

    #[test]
    fn draws_of_others_show_as_ids_that_run_ahead() {
        let ranks: Vec<i64> = (0..90).map(|rank| if rank < 45 { rank } else { rank + 5 }).collect();
        let found = anchor(&ranks, 0);
        assert_eq!((found.fit, found.least[5], found.most[5]), (Fit::Same, 0, Some(0)));
        assert_eq!((found.least[45], found.most[45]), (0, Some(5)));
        assert_eq!((found.least[85], found.most[85]), (5, Some(5)));
        let less: Vec<i64> = (0..90).map(|rank| if rank < 45 { rank } else { rank - 5 }).collect();
        assert_eq!(anchor(&less, 0).fit, Fit::NotShown);
    }

    #[test]
    fn ids_that_are_all_used_show_it_whoever_uses_them() {
        let uses: Vec<Use> = vec![Use { deadline: 1_000, ahead_min: -3 }; 100];
        let before_last: Vec<i64> = (0..100).map(|drawing| drawing + 7).collect();
        let befores = vec![0; 100];
        let anchor = |ranks: &[i64], unknown: i64| {
            Anchor::of(&Evidence {
                pairs: &[],
                uses: &uses,
                drew_before: 100,
                uncounted: &[Uncounted { failed: 0, unknown }; 100],
                befores: &befores,
                is_reported: true,
                ranks,
                before_last: &before_last,
            })
        };
        let all: Vec<i64> = (0..100).collect();
        let found = anchor(&all, 0);
        assert_eq!((found.fit, found.least[40], found.most[40]), (Fit::Same, 0, Some(0)));
        // The last ones may be of others, as they were not used yet.
        assert_eq!((found.most[92], found.most[93]), (Some(0), None));
        // One that is not used may have been drawn outside of the log.
        let one_less: Vec<i64> = all.iter().copied().filter(|&rank| rank != 50).collect();
        let found = anchor(&one_less, 0);
        assert_eq!((found.most[30], found.most[42], found.most[60]), (Some(0), Some(0), Some(1)));
        // The sequence was elsewhere, or that cannot be seen.
        for other in [&all[1..], &[&[-1], &all[..]].concat(), &[&all[..9], &all[10..]].concat()] {
            assert_eq!(anchor(other, 0).fit, Fit::NotShown);
        }
        assert_eq!(anchor(&all, 1).most[10], None);
    }

    #[test]
    fn what_is_proved_later_limits_what_was_before() {
        let befores: Vec<u64> = (0..5).map(|drawing| drawing * 2 + 1).collect();
        let most = vec![Some(0), Some(3), Some(4), None, None];
        let mut anchor = Anchor { fit: Fit::Same, least: vec![0; 5], most, is_by_use: true };
        assert!(anchor.limit(vec![(2, 3), (6, 1)], &befores));
        assert_eq!(anchor.most, [Some(0), Some(1), Some(1), None, None]);
        assert!(!anchor.limit(vec![(6, 1)], &befores));
    }

    #[test]
    fn ids_of_others_show_it_if_they_are_used_as_soon_as_they_can_be() {
        let uses = |sooner: Option<usize>| {
            let one = |place: usize| Use {
                deadline: place as u64 * 2 + 2,
                ahead_min: if Some(place) == sooner { 1 } else { -(place as i64 % 2) },
            };
            (0..80).map(one).collect::<Vec<Use>>()
        };
        let befores: Vec<u64> = (0..80).map(|place| place * 2 + 1).collect();
        let anchor = |uses: &[Use]| {
            Anchor::of(&Evidence {
                pairs: &[],
                uses,
                drew_before: 0,
                uncounted: &[Uncounted::default(); 80],
                befores: &befores,
                is_reported: true,
                ranks: &[],
                before_last: &[],
            })
        };
        let found = anchor(&uses(None));
        assert_eq!((found.fit, found.most[40], found.most[60]), (Fit::Same, Some(0), None));
        assert_eq!(anchor(&uses(Some(60))).most[40], None);
        assert_eq!(anchor(&uses(Some(20))).fit, Fit::NotShown);
    }

    #[test]
    fn users_that_fall_behind_hide_nothing_where_all_ids_are_used() {
        let one = |place: u64| Use {
            deadline: place * 2 + 2,
            ahead_min: if place < 20 { 0 } else { -5 },
        };
        let anchor = |ranks: &[i64]| {
            Anchor::of(&Evidence {
                pairs: &[],
                uses: &(0..80).map(one).collect::<Vec<Use>>(),
                drew_before: 0,
                uncounted: &[Uncounted::default(); 80],
                befores: &(0..80).map(|place| place * 2 + 1).collect::<Vec<u64>>(),
                is_reported: true,
                ranks,
                before_last: &(0..80).map(|place| place + 3).collect::<Vec<i64>>(),
            })
        };
        let promptly = anchor(&[]);
        assert_eq!((promptly.most[4], promptly.most[5]), (Some(0), None));
        // One is missing at 40: it may have been drawn outside of the log.
        let ranks: Vec<i64> = (0..81).filter(|&rank| rank != 40).collect();
        let both = anchor(&ranks);
        assert_eq!((both.fit, both.most[5], both.most[30]), (Fit::Same, Some(0), Some(0)));
        assert_eq!((both.most[60], both.most[79]), (Some(1), None));
    }
}
