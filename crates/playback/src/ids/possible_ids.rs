//! Which ids may have been drawn at all: the last resort for a value with no other evidence.

use std::collections::HashSet;

use seatrial_sqltext::catalog::Catalog;
use seatrial_sqltext::reading::ValueSource;

use super::anchor::rank;
use super::scan::{DrawCount, Scan};
use super::spots::IdOrigin;
use super::values::{Id, Kind};

/// Ids of a class that may have been drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PossibleIds {
    Empty,
    Any,
    /// The values of a sequence from a value on, and their number, if known.
    From {
        first: i64,
        /// From one to the next.
        increment: i64,
        /// How many at most.
        count: Option<i64>,
    },
    /// Those that were captured.
    Captured(HashSet<Id>),
}

impl PossibleIds {
    /// Of each class of a pass over a trace; `first` returns the earliest position of a sequence.
    pub fn of(
        scan: &Scan,
        catalog: &Catalog,
        first: impl Fn(usize) -> Option<i64>,
    ) -> Vec<PossibleIds> {
        let classes = (0..).zip(&scan.classes.all);
        let of_class = classes.map(|(number, class)| match (class.source, class.kind) {
            (ValueSource::Sequence(sequence), _) => of_sequence(scan, catalog, sequence, &first),
            (_, Kind::Text) => {
                let own = scan.exact.keys().filter(|(class, _)| *class == number);
                PossibleIds::Captured(own.map(|&(_, id)| id).collect())
            }
            _ => {
                let draws = |one: &super::scan::DrawStatement| one.class == number;
                if scan.drawings.iter().any(draws) { PossibleIds::Any } else { PossibleIds::Empty }
            }
        });
        of_class.collect()
    }

    /// Whether an id may have been drawn.
    pub fn contains(&self, id: Id) -> bool {
        match self {
            PossibleIds::Empty => false,
            PossibleIds::Any => true,
            PossibleIds::From { first, increment, count } => rank(id, *first, *increment)
                .is_some_and(|rank| rank >= 0 && count.is_none_or(|count| rank < count)),
            PossibleIds::Captured(ids) => ids.contains(&id),
        }
    }

    /// Whether a sequence gave an id before the trace began.
    fn is_before(&self, id: Id) -> bool {
        match self {
            PossibleIds::From { first, increment, .. } => id.is_before(*first, *increment),
            _ => false,
        }
    }

    /// Whether a draw gave an id of which nothing else is known.
    pub fn origin_of(&self, id: Id) -> IdOrigin {
        if self.contains(id) {
            IdOrigin::MaybeDrawn
        } else if self.is_before(id) {
            IdOrigin::BeforeTrace
        } else {
            IdOrigin::NotDrawn
        }
    }
}

fn of_sequence(
    scan: &Scan,
    catalog: &Catalog,
    sequence: usize,
    first: impl Fn(usize) -> Option<i64>,
) -> PossibleIds {
    let own = scan.drawings.iter().filter(|one| one.sequence as usize == sequence);
    let is_counted = scan.obscure.is_empty()
        && own.clone().all(|one| matches!(one.count, DrawCount::Known | DrawCount::Failed));
    let count: i64 = own.map(|one| i64::from(one.slots)).sum();
    if is_counted && count == 0 {
        return PossibleIds::Empty;
    }
    let begins_again = scan.is_set(sequence as u32) || catalog.cycles(sequence);
    let definition = catalog.sequences.get(sequence);
    match (definition, first(sequence)) {
        (Some(definition), Some(first)) if !begins_again => {
            // Sessions that take several at once leave some out.
            let is_counted = is_counted && definition.cache <= 1;
            let count = is_counted.then_some(count);
            PossibleIds::From { first, increment: definition.increment, count }
        }
        _ => PossibleIds::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_ids_are_values_of_the_sequence() {
        let contains =
            |possible_ids: &PossibleIds, number| possible_ids.contains(Id::of_number(number));
        let counted = PossibleIds::From { first: 100, increment: 10, count: Some(3) };
        let contained = [90, 100, 105, 120, 130].map(|number| contains(&counted, number));
        assert_eq!(contained, [false, true, false, true, false]);
        let open = PossibleIds::From { first: 100, increment: 1, count: None };
        assert!(contains(&open, 100_000) && !contains(&open, 99));
        assert!(contains(&PossibleIds::Any, -5) && !contains(&PossibleIds::Empty, 5));
    }
}
