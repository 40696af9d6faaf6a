//! Which ids may have been drawn at all: what a value may be of which nothing else is known.

use std::collections::HashSet;

use seatrial_sqltext::catalog::Catalog;
use seatrial_sqltext::reading::ValueSource;

use super::anchor::rank;
use super::scan::{Count, Scan};
use super::spots::Gave;
use super::values::{Id, Kind};

/// Ids of a class that may have been drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// None of them.
    Nothing,
    /// Any.
    Any,
    /// The values of a sequence from a value on, and their number, if known.
    From {
        /// The first.
        first: i64,
        /// From one to the next.
        increment: i64,
        /// How many at most.
        count: Option<i64>,
    },
    /// Those that were captured.
    Captured(HashSet<Id>),
}

impl Reach {
    /// Of each class of a pass over a trace; `first` returns the earliest position of a sequence.
    pub fn of(scan: &Scan, catalog: &Catalog, first: impl Fn(usize) -> Option<i64>) -> Vec<Reach> {
        let classes = (0..).zip(&scan.classes.all);
        let of_class = classes.map(|(number, class)| match (class.source, class.kind) {
            (ValueSource::Sequence(sequence), _) => of_sequence(scan, catalog, sequence, &first),
            (_, Kind::Text) => {
                let own = scan.exact.keys().filter(|(class, _)| *class == number);
                Reach::Captured(own.map(|&(_, id)| id).collect())
            }
            _ => {
                let draws = |one: &super::scan::Drawing| one.class == number;
                if scan.drawings.iter().any(draws) { Reach::Any } else { Reach::Nothing }
            }
        });
        of_class.collect()
    }

    /// Whether an id may have been drawn.
    pub fn holds(&self, id: Id) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::Any => true,
            Reach::From { first, increment, count } => rank(id, *first, *increment)
                .is_some_and(|rank| rank >= 0 && count.is_none_or(|count| rank < count)),
            Reach::Captured(ids) => ids.contains(&id),
        }
    }
}

impl Reach {
    /// Whether an id is of those that a sequence gave before the trace began.
    pub fn is_before(&self, id: Id) -> bool {
        match self {
            Reach::From { first, increment, .. } => match *increment < 0 {
                true => id.number() > *first,
                false => id.number() < *first,
            },
            _ => false,
        }
    }

    /// Whether a draw gave an id of which nothing else is known.
    pub fn gave(&self, id: Id) -> Gave {
        if self.holds(id) {
            Gave::Maybe
        } else if self.is_before(id) {
            Gave::Before
        } else {
            Gave::Never
        }
    }
}

fn of_sequence(
    scan: &Scan,
    catalog: &Catalog,
    sequence: usize,
    first: impl Fn(usize) -> Option<i64>,
) -> Reach {
    let own = scan.drawings.iter().filter(|one| one.sequence as usize == sequence);
    let is_counted = scan.obscure.is_empty()
        && own.clone().all(|one| matches!(one.count, Count::Known | Count::Failed));
    let count: i64 = own.map(|one| i64::from(one.slots)).sum();
    if is_counted && count == 0 {
        return Reach::Nothing;
    }
    let begins_again = scan.is_set(sequence as u32) || catalog.cycles(sequence);
    let reported = catalog.sequences.get(sequence);
    match (reported, first(sequence)) {
        (Some(reported), Some(first)) if !begins_again => {
            // Sessions that take several at once leave some out.
            let is_counted = is_counted && reported.cache <= 1;
            let count = is_counted.then_some(count);
            Reach::From { first, increment: reported.increment, count }
        }
        _ => Reach::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_a_sequence_gave() {
        let holds = |reach: &Reach, number| reach.holds(Id::of_number(number));
        let counted = Reach::From { first: 100, increment: 10, count: Some(3) };
        let reported = [90, 100, 105, 120, 130].map(|number| holds(&counted, number));
        assert_eq!(reported, [false, true, false, true, false]);
        let open = Reach::From { first: 100, increment: 1, count: None };
        assert!(holds(&open, 100_000) && !holds(&open, 99));
        assert!(holds(&Reach::Any, -5) && !holds(&Reach::Nothing, 5));
    }
}
