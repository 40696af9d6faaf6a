//! What each session drew last, as returned by `lastval()` and `currval('...')`.
//!
//! A rolled back transaction changes nothing of it; a statement that failed may have drawn or not,
//! and what is not understood may have drawn from anywhere, so then nothing is known.

use seatrial_sqltext::reading::{LastValue, ValueDraw, ValueSource};

/// The last draw of a session from each sequence.
#[derive(Clone, Debug, Default)]
pub struct LastDrawn {
    /// By sequence: the drawing's index in [`super::scan::Scan::drawings`], if it is known.
    of: Vec<(usize, Option<u32>)>,
    /// The sequence that it drew from last, if it is known.
    sequence: Option<usize>,
}

impl LastDrawn {
    /// The session drew, by the drawing at this index if its last value is known.
    pub fn drew(&mut self, draw: &ValueDraw, index: Option<u32>) {
        let ValueSource::Sequence(sequence) = draw.source else { return };
        self.sequence = Some(sequence);
        match self.of.iter_mut().find(|(known, _)| *known == sequence) {
            Some((_, last)) => *last = index,
            None => self.of.push((sequence, index)),
        }
    }

    /// The session may have drawn from any sequence.
    pub fn forget(&mut self) {
        *self = LastDrawn::default();
    }

    /// The drawing whose value is returned.
    pub fn drawing(&self, last: &LastValue) -> Option<u32> {
        let sequence = last.sequence.or(self.sequence)?;
        self.of.iter().find(|(known, _)| *known == sequence)?.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(sequence: usize) -> ValueDraw {
        ValueDraw {
            source: ValueSource::Sequence(sequence),
            column: None,
            count: Some(1),
            each_of: None,
            may_conflict: false,
            returned: None,
        }
    }

    #[test]
    fn last_draw_is_known_per_sequence_and_overall() {
        let (any, first) = (
            LastValue { sequence: None, returned: 0 },
            LastValue { sequence: Some(7), returned: 0 },
        );
        let mut last = LastDrawn::default();
        assert_eq!((last.drawing(&any), last.drawing(&first)), (None, None));
        last.drew(&from(7), Some(10));
        last.drew(&from(3), Some(11));
        assert_eq!((last.drawing(&any), last.drawing(&first)), (Some(11), Some(10)));
        last.drew(&from(7), None);
        assert_eq!((last.drawing(&any), last.drawing(&first)), (None, None));
        last.drew(&from(3), Some(12));
        last.drew(&ValueDraw { source: ValueSource::Random, ..from(0) }, Some(13));
        assert_eq!(last.drawing(&any), Some(12));
        last.forget();
        assert_eq!(last.drawing(&any), None);
    }
}
