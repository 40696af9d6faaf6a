//! The position of a sequence, from ids that sessions use some time after they drew them.
//!
//! A session that keeps several ids and uses any of them does not show which of its draws gave an
//! id. But it is one of that session; and where draws are rare, few numbers can be a session's own.
//! So if the catalogue has the position of the sequence, each id is a number that some draw of its
//! session can have given; and if the position was a few places further, many are not. The position
//! is taken as shown only if nearly all ids fit it, and no other.

use super::anchor::{Anchor, Fit};

/// Places further, or less far, that are looked at.
pub const PLACES: i64 = 60;

/// Ids that are looked at together, in the order of their ranks.
const TOGETHER: usize = 31;

/// Fewer show nothing.
const IDS_MIN: usize = 64;

/// How many of those that are looked at together have to fit, of a hundred.
const FIT_PERCENT: usize = 90;

/// How many of all of them.
const ALL_FIT_PERCENT: usize = 97;

/// The percentage that fits another place and leaves open which of the two it is.
const ELSEWHERE_PERCENT: usize = 80;

/// Limit for the adjacent positions that remain possible.
const OPEN_MAX: i64 = 6;

/// An id that a session was the first to use, which had drawn before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// By how much ids are ahead of the draws, at least and at most, if it is of this drawing of
    /// the session's own.
    pub may_be: Vec<(i64, i64, usize)>,
}

impl Late {
    fn fits(&self, ahead: i64) -> bool {
        self.may_be.iter().any(|&(least, most, _)| (least..=most).contains(&ahead))
    }
}

/// By how much ids are ahead where some of them were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    least: i64,
    most: i64,
    /// The first and the last drawing that may have given one of them.
    drawings: (usize, usize),
}

/// The conclusion from such ids for `drawings` drawings; they are in the order of their ranks.
pub fn by_late(late: &[Late], drawings: usize) -> Option<Anchor> {
    if late.len() < IDS_MIN || fitting(late, 0) * 100 < late.len() * ALL_FIT_PERCENT {
        return None;
    }
    let looked_at = late.windows(TOGETHER);
    let stretches: Vec<Stretch> = looked_at.clone().filter_map(stretch).collect();
    let is_exact = |one: &Stretch| (one.least, one.most) == (0, 0);
    let are_enough = stretches.len() * 100 >= looked_at.len() * FIT_PERCENT;
    if !are_enough
        || !looked_at.clone().all(|ids| is_fit(ids, 0))
        || !stretches.iter().any(is_exact)
    {
        return None;
    }
    // A sequence only counts on, so each drawing is ahead by no less than those before it...
    let (mut least, mut most) = (vec![i64::MIN; drawings], vec![None; drawings]);
    for one in &stretches {
        let own = &mut least[one.drawings.1];
        *own = one.least.max(*own);
    }
    let mut sum = stretches.first().map_or(0, |one| one.least);
    for own in &mut least {
        sum = sum.max(*own);
        *own = sum;
    }
    // ...and by no more than those behind it.
    for one in &stretches {
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
    Some(Anchor { fit: Fit::Same, least, most, is_by_use: false })
}

fn fitting(ids: &[Late], ahead: i64) -> usize {
    ids.iter().filter(|one| one.fits(ahead)).count()
}

fn is_fit(ids: &[Late], ahead: i64) -> bool {
    fitting(ids, ahead) * 100 >= ids.len() * FIT_PERCENT
}

/// What some ids show together; None unless the sequence was where it should be, and cannot have
/// been elsewhere.
fn stretch(ids: &[Late]) -> Option<Stretch> {
    let most = (0..=OPEN_MAX).take_while(|&ahead| is_fit(ids, ahead)).last()?;
    let least = -(0..=OPEN_MAX).take_while(|&ahead| is_fit(ids, -ahead)).last()?;
    let is_elsewhere = |ahead: i64| {
        let is_near = (least - 1..=most + 1).contains(&ahead);
        !is_near && fitting(ids, ahead) * 100 >= ids.len() * ELSEWHERE_PERCENT
    };
    if most - least > OPEN_MAX || (-PLACES..=PLACES).any(is_elsewhere) {
        return None;
    }
    let all = ids.iter().flat_map(|one| &one.may_be);
    let own = all.filter(|(from, to, _)| *from <= most && *to >= least).map(|one| one.2);
    let drawings = (own.clone().min()?, own.max()?);
    Some(Stretch { least, most, drawings })
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

    /// Eight sessions draw, each drawing within two places, of which one is right. Each id is of
    /// one of its session's own drawings, but for some; behind the middle they are this many
    /// further.
    fn anchor(further: i64, of_others: i64) -> Option<Anchor> {
        let late: Vec<Late> = (0..DRAWINGS)
            .map(|drawn| {
                let is_other = of_others > 0 && drawn % of_others == 0;
                let own = session(drawn) + i64::from(is_other);
                let ahead = if drawn > DRAWINGS / 2 { further } else { 0 };
                let may_be = (0..DRAWINGS).filter(|&one| session(one) == own % 8);
                let may_be = may_be.map(|one| {
                    let most = drawn + ahead - one + one % 2;
                    (most - 1, most, one)
                });
                let near = |&(least, most, _): &(i64, i64, i64)| least <= PLACES && most >= -PLACES;
                let may_be = may_be.filter(near);
                Late { may_be: may_be.map(|(from, to, one)| (from, to, one as usize)).collect() }
            })
            .collect();
        by_late(&late, DRAWINGS as usize)
    }

    #[test]
    fn ids_of_sessions_own_show_where_the_sequence_stood() {
        let found = anchor(0, 0).unwrap();
        assert_eq!((found.fit, found.is_by_use), (Fit::Same, false));
        let is_right = |drawing: usize| {
            let (least, most) = (found.least[drawing], found.most[drawing]);
            (-1..=0).contains(&least) && most.is_none_or(|most| (0..=1).contains(&most))
        };
        assert!((0..400).all(is_right));
        assert_eq!((found.least[390], found.most[10]), (0, Some(0)));
    }

    #[test]
    fn ids_of_others_and_draws_of_which_the_log_does_not_tell_show_nothing() {
        assert_eq!(anchor(0, 10), None);
        assert_eq!(anchor(3, 0), None);
    }
}
