//! The position of a sequence, from ids that sessions use some time after they drew them.
//!
//! A session that keeps several ids and uses any of them does not show which of its draws generated
//! an id; but it was one of that session's, and if draws are rare, few numbers can be a session's
//! own. So if the catalogue has the position of the sequence, each id can be of a draw of its
//! session; if the position was a few values further, many cannot. The position is confirmed only
//! if nearly all ids fit it, and no other.

use super::anchor::{Anchor, CatalogFit};

/// Maximum lead, in either direction, that is examined.
pub const LEAD_MAX: i64 = 60;

/// Ids that are examined together, in the order of their ranks.
const WINDOW: usize = 31;

/// Minimum number of ids for a conclusion.
const IDS_MIN: usize = 64;

/// Percentage of the ids examined together that has to fit.
const FIT_PERCENT: usize = 90;

/// Percentage of all ids that has to fit.
const ALL_FIT_PERCENT: usize = 97;

/// The percentage that fits another lead and leaves open which of the two it is.
const ELSEWHERE_PERCENT: usize = 80;

/// Maximum number of adjacent leads that remain possible.
const OPEN_MAX: i64 = 6;

/// An id whose first user had drawn before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateUse {
    /// Minimum and maximum lead of ids, and the drawing, for each drawing of the session that may
    /// have generated it.
    pub candidates: Vec<(i64, i64, usize)>,
}

impl LateUse {
    fn fits(&self, lead: i64) -> bool {
        self.candidates.iter().any(|&(least, most, _)| (least..=most).contains(&lead))
    }
}

/// The lead of ids where some of them were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeadWindow {
    least: i64,
    most: i64,
    /// The first and the last drawing that may have generated one of them.
    drawings: (usize, usize),
}

/// The conclusion from such ids for `drawings` drawings; they are in the order of their ranks.
pub fn from_late_uses(uses: &[LateUse], drawings: usize) -> Option<Anchor> {
    if uses.len() < IDS_MIN || fitting(uses, 0) * 100 < uses.len() * ALL_FIT_PERCENT {
        return None;
    }
    let looked_at = uses.windows(WINDOW);
    let windows: Vec<LeadWindow> = looked_at.clone().filter_map(lead_window).collect();
    let is_exact = |one: &LeadWindow| (one.least, one.most) == (0, 0);
    let are_enough = windows.len() * 100 >= looked_at.len() * FIT_PERCENT;
    if !are_enough || !looked_at.clone().all(|ids| is_fit(ids, 0)) || !windows.iter().any(is_exact)
    {
        return None;
    }
    // A sequence only counts on, so each drawing is ahead by no less than those before it...
    let (mut least, mut most) = (vec![i64::MIN; drawings], vec![None; drawings]);
    for one in &windows {
        let own = &mut least[one.drawings.1];
        *own = one.least.max(*own);
    }
    let mut sum = windows.first().map_or(0, |one| one.least);
    for own in &mut least {
        sum = sum.max(*own);
        *own = sum;
    }
    // ...and by no more than those behind it.
    for one in &windows {
        let own: &mut Option<i64> = &mut most[one.drawings.0];
        *own = Some(own.map_or(one.most, |known| known.min(one.most)));
    }
    let mut sum = None;
    for own in most.iter_mut().rev() {
        sum = match (sum, *own) {
            (Some(sum), Some(own)) => Some(std::cmp::min::<i64>(sum, own)),
            (sum, own) => sum.or(own),
        };
        *own = sum;
    }
    Some(Anchor { fit: CatalogFit::Same, least, most, is_from_uses: false })
}

fn fitting(ids: &[LateUse], lead: i64) -> usize {
    ids.iter().filter(|one| one.fits(lead)).count()
}

fn is_fit(ids: &[LateUse], lead: i64) -> bool {
    fitting(ids, lead) * 100 >= ids.len() * FIT_PERCENT
}

/// The lead shown by some ids together; None unless it is unambiguous.
fn lead_window(ids: &[LateUse]) -> Option<LeadWindow> {
    let most = (0..=OPEN_MAX).take_while(|&lead| is_fit(ids, lead)).last()?;
    let least = -(0..=OPEN_MAX).take_while(|&lead| is_fit(ids, -lead)).last()?;
    let is_elsewhere = |lead: i64| {
        let is_near = (least - 1..=most + 1).contains(&lead);
        !is_near && fitting(ids, lead) * 100 >= ids.len() * ELSEWHERE_PERCENT
    };
    if most - least > OPEN_MAX || (-LEAD_MAX..=LEAD_MAX).any(is_elsewhere) {
        return None;
    }
    let all = ids.iter().flat_map(|one| &one.candidates);
    let own = all.filter(|(from, to, _)| *from <= most && *to >= least).map(|one| one.2);
    let drawings = (own.clone().min()?, own.max()?);
    Some(LeadWindow { least, most, drawings })
}

#[cfg(test)]
mod tests {
    use twox_hash::XxHash64;

    use super::*;

    const DRAWINGS: i64 = 400;

    /// Which of eight sessions a drawing is of.
    fn session(drawing: i64) -> i64 {
        (XxHash64::oneshot(0, &drawing.to_le_bytes()) % 8) as i64
    }

    /// Eight sessions draw, each drawing within two positions, of which one is right. Each id is of
    /// one of its session's own drawings, but for some; behind the middle they are this many
    /// further.
    fn anchor(further: i64, of_others: i64) -> Option<Anchor> {
        let uses: Vec<LateUse> = (0..DRAWINGS)
            .map(|drawn| {
                let is_other = of_others > 0 && drawn % of_others == 0;
                let own = session(drawn) + i64::from(is_other);
                let lead = if drawn > DRAWINGS / 2 { further } else { 0 };
                let candidates = (0..DRAWINGS).filter(|&one| session(one) == own % 8);
                let candidates = candidates.map(|one| {
                    let most = drawn + lead - one + one % 2;
                    (most - 1, most, one)
                });
                let near =
                    |&(least, most, _): &(i64, i64, i64)| least <= LEAD_MAX && most >= -LEAD_MAX;
                let candidates = candidates.filter(near);
                LateUse {
                    candidates: candidates
                        .map(|(from, to, one)| (from, to, one as usize))
                        .collect(),
                }
            })
            .collect();
        from_late_uses(&uses, DRAWINGS as usize)
    }

    #[test]
    fn own_ids_show_the_sequence_position() {
        let found = anchor(0, 0).unwrap();
        assert_eq!((found.fit, found.is_from_uses), (CatalogFit::Same, false));
        let is_right = |drawing: usize| {
            let (least, most) = (found.least[drawing], found.most[drawing]);
            (-1..=0).contains(&least) && most.is_none_or(|most| (0..=1).contains(&most))
        };
        assert!((0..400).all(is_right));
        assert_eq!((found.least[390], found.most[10]), (0, Some(0)));
    }

    #[test]
    fn foreign_ids_and_unlogged_draws_prove_nothing() {
        assert_eq!(anchor(0, 10), None);
        assert_eq!(anchor(3, 0), None);
    }
}
