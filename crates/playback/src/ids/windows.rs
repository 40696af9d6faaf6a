//! Bounds on the number of values of a sequence drawn before a statement drew.
//!
//! A sequence counts up with each draw, so the minimum is what had certainly been drawn before, and
//! the maximum what may have been.

use super::scan::{DrawCount, DrawStatement};

/// Bounds on when each of some statements drew. Positions are indexes in the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Minimum number of values drawn before its first one.
    pub least: Vec<i64>,
    /// Maximum number of values drawn before its first one.
    pub most: Vec<i64>,
    /// Number of values before it in the order of the records of beginnings.
    pub by_start: Vec<i64>,
    /// Number of values before it in the order of the records of ends.
    pub by_end: Vec<i64>,
    /// Number of values before it in the order of the times of sending.
    pub by_time: Vec<i64>,
    /// Earliest times of all draws, in order, with the number of values before each.
    afters: Vec<u64>,
    begun: Vec<i64>,
}

impl Windows {
    /// The windows of a sequence's drawings, in the order of the trace. Drawings with an unknown
    /// number of values count as none.
    pub fn of(drawings: &[&DrawStatement]) -> Windows {
        let weight = |drawing: &DrawStatement| match drawing.count {
            DrawCount::Known => i64::from(drawing.slots),
            DrawCount::Failed | DrawCount::Unknown => 0,
        };
        let mut by_after: Vec<usize> = (0..drawings.len()).collect();
        by_after.sort_by_key(|&index| (drawings[index].after, drawings[index].number));
        let afters: Vec<u64> = by_after.iter().map(|&index| drawings[index].after).collect();
        let befores: Vec<u64> = drawings.iter().map(|drawing| drawing.before()).collect();
        let begun = sums(by_after.iter().map(|&index| weight(drawings[index])));
        let ended = sums(drawings.iter().map(|drawing| weight(drawing)));
        let mut windows = Windows { by_start: vec![0; drawings.len()], ..Windows::default() };
        windows.by_time = windows.by_start.clone();
        let mut by_time: Vec<usize> = (0..drawings.len()).collect();
        by_time.sort_by_key(|&index| (drawings[index].begun_us, drawings[index].number));
        let sent = sums(by_time.iter().map(|&index| weight(drawings[index])));
        for (turn, &index) in by_time.iter().enumerate() {
            windows.by_time[index] = sent[turn];
        }
        for (turn, &index) in by_after.iter().enumerate() {
            windows.by_start[index] = begun[turn];
        }
        for (index, drawing) in drawings.iter().enumerate() {
            let least = ended[befores.partition_point(|&before| before <= drawing.after)];
            let until = afters.partition_point(|&after| after < drawing.before());
            let most = begun[until] - weight(drawing);
            windows.least.push(least);
            windows.most.push(most);
            windows.by_end.push(ended[index]);
        }
        Windows { afters, begun, ..windows }
    }

    /// Maximum number of values drawn by a time.
    pub fn drawn_by(&self, deadline: u64) -> i64 {
        let until = self.afters.partition_point(|&after| after < deadline);
        self.begun.get(until).copied().unwrap_or(0)
    }
}

/// Prefix sums, including the total.
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

    fn drawing(after: u64, number: u64, slots: u32, count: DrawCount) -> DrawStatement {
        DrawStatement {
            number,
            after,
            start_us: 0,
            sent_us: 0,
            begun_us: 0,
            done_us: None,
            session: 0,
            visible_after: 0,
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
    fn window_width_is_the_number_of_concurrent_draws() {
        let known = |after, number| drawing(after, number, 1, DrawCount::Known);
        // The second and third overlap; the fourth is of three rows, and alone.
        let all = [
            known(0, 1),
            known(2, 4),
            known(3, 6),
            drawing(7, 8, 3, DrawCount::Known),
            drawing(9, 9, 5, DrawCount::Failed),
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
