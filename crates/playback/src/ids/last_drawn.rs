//! What each session drew last: what `lastval()` and `currval('...')` tell it.
//!
//! A rolled back transaction changes nothing of it; a statement that failed may have drawn or not,
//! and what is not understood may have drawn from anywhere, so then nothing is known.

use seatrial_sqltext::reading::{Ask, Draw, Source};

/// What a session drew last of each sequence.
#[derive(Clone, Debug, Default)]
pub struct LastDrawn {
    /// By sequence: the drawing's place in [`super::scan::Scan::drawings`], if it is known.
    of: Vec<(usize, Option<u32>)>,
    /// The sequence that it drew from last, if it is known.
    sequence: Option<usize>,
}

impl LastDrawn {
    /// The session drew, by the drawing at this place if its last value is known.
    pub fn drew(&mut self, draw: &Draw, place: Option<u32>) {
        let Source::Sequence(sequence) = draw.source else { return };
        self.sequence = Some(sequence);
        match self.of.iter_mut().find(|(known, _)| *known == sequence) {
            Some((_, last)) => *last = place,
            None => self.of.push((sequence, place)),
        }
    }

    /// The session may have drawn from anywhere.
    pub fn forget(&mut self) {
        *self = LastDrawn::default();
    }

    /// The drawing of which the last value is told.
    pub fn asked(&self, ask: &Ask) -> Option<u32> {
        let sequence = ask.sequence.or(self.sequence)?;
        self.of.iter().find(|(known, _)| *known == sequence)?.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(sequence: usize) -> Draw {
        Draw {
            source: Source::Sequence(sequence),
            column: None,
            count: Some(1),
            each_of: None,
            may_conflict: false,
            returned: None,
        }
    }

    #[test]
    fn the_last_one_is_told_of_each_sequence_and_of_all() {
        let (any, first) =
            (Ask { sequence: None, returned: 0 }, Ask { sequence: Some(7), returned: 0 });
        let mut last = LastDrawn::default();
        assert_eq!((last.asked(&any), last.asked(&first)), (None, None));
        last.drew(&from(7), Some(10));
        last.drew(&from(3), Some(11));
        assert_eq!((last.asked(&any), last.asked(&first)), (Some(11), Some(10)));
        last.drew(&from(7), None);
        assert_eq!((last.asked(&any), last.asked(&first)), (None, None));
        last.drew(&from(3), Some(12));
        last.drew(&Draw { source: Source::Random, ..from(0) }, Some(13));
        assert_eq!(last.asked(&any), Some(12));
        last.forget();
        assert_eq!(last.asked(&any), None);
    }
}
