//! How many values of a sequence had been drawn before a statement drew, at least and at most.
//!
//! A sequence counts on with each draw. So the number of draws before one is known as closely as
//! their times are: what had certainly been drawn before it, and what may have been.

use super::scan::{Count, Drawing};

/// What is known of when each of some statements drew. Places are those in the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Values that were certainly drawn before its first one.
    pub least: Vec<i64>,
    /// Values that may have been drawn before its first one.
    pub most: Vec<i64>,
    /// Values before it if all drew in the order of the records of their beginnings.
    pub by_start: Vec<i64>,
    /// Values before it if all drew in the order of the records of their ends.
    pub by_end: Vec<i64>,
    /// Values before it if all drew in the order of the times at which they were sent.
    pub by_time: Vec<i64>,
    /// Earliest times of all draws, in order, and values of those before each.
    afters: Vec<u64>,
    begun: Vec<i64>,
}

impl Windows {
    /// The windows of a sequence's drawings, which are in the order of the trace. Those that drew
    /// an unknown number count as none.
    pub fn of(drawings: &[&Drawing]) -> Windows {
        let weight = |drawing: &Drawing| match drawing.count {
            Count::Known => i64::from(drawing.slots),
            Count::Failed | Count::Unknown => 0,
        };
        let mut by_after: Vec<usize> = (0..drawings.len()).collect();
        by_after.sort_by_key(|&place| (drawings[place].after, drawings[place].number));
        let afters: Vec<u64> = by_after.iter().map(|&place| drawings[place].after).collect();
        let befores: Vec<u64> = drawings.iter().map(|drawing| drawing.before()).collect();
        let begun = sums(by_after.iter().map(|&place| weight(drawings[place])));
        let ended = sums(drawings.iter().map(|drawing| weight(drawing)));
        let mut windows = Windows { by_start: vec![0; drawings.len()], ..Windows::default() };
        windows.by_time = windows.by_start.clone();
        let mut by_time: Vec<usize> = (0..drawings.len()).collect();
        by_time.sort_by_key(|&place| (drawings[place].begun_us, drawings[place].number));
        let sent = sums(by_time.iter().map(|&place| weight(drawings[place])));
        for (turn, &place) in by_time.iter().enumerate() {
            windows.by_time[place] = sent[turn];
        }
        for (turn, &place) in by_after.iter().enumerate() {
            windows.by_start[place] = begun[turn];
        }
        for (place, drawing) in drawings.iter().enumerate() {
            let least = ended[befores.partition_point(|&before| before <= drawing.after)];
            let until = afters.partition_point(|&after| after < drawing.before());
            let most = begun[until] - weight(drawing);
            windows.least.push(least);
            windows.most.push(most);
            windows.by_end.push(ended[place]);
        }
        Windows { afters, begun, ..windows }
    }

    /// Values that may have been drawn by a time, at most.
    pub fn drawn_by(&self, deadline: u64) -> i64 {
        let until = self.afters.partition_point(|&after| after < deadline);
        self.begun.get(until).copied().unwrap_or(0)
    }
}

/// Sums of what comes before each place, and of all.
fn sums(weights: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut sums = vec![0];
    let mut sum = 0;
    for weight in weights {
        sum += weight;
        sums.push(sum);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::scan::NONE;
    use super::*;

    fn drawing(after: u64, number: u64, slots: u32, count: Count) -> Drawing {
        Drawing {
            number,
            after,
            start_us: 0,
            sent_us: 0,
            begun_us: 0,
            done_us: None,
            session: 0,
            seen_after: 0,
            text: 0,
            sequence: 0,
            class: 0,
            column: None,
            returned: None,
            is_given_back: false,
            first_slot: NONE,
            slots,
            count,
            may_conflict: false,
            ends_us: None,
        }
    }

    #[test]
    fn a_window_is_as_wide_as_what_drew_at_the_same_time() {
        let known = |after, number| drawing(after, number, 1, Count::Known);
        // The second and third overlap; the fourth is of three rows, and alone.
        let all = [
            known(0, 1),
            known(2, 4),
            known(3, 6),
            drawing(7, 8, 3, Count::Known),
            drawing(9, 9, 5, Count::Failed),
            known(10, 11),
        ];
        let windows = Windows::of(&all.iter().collect::<Vec<_>>());
        assert_eq!(windows.least, [0, 1, 1, 3, 6, 6]);
        assert_eq!(windows.most, [0, 2, 2, 3, 6, 6]);
        assert_eq!(windows.by_start, [0, 1, 2, 3, 6, 6]);
        assert_eq!(windows.by_end, [0, 1, 2, 3, 6, 6]);
        assert_eq!((windows.drawn_by(0), windows.drawn_by(4), windows.drawn_by(99)), (0, 3, 7));
    }
}
