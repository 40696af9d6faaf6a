//! The sessions of a trace in parts, for hosts that play it together.
//!
//! A session is never split. Sessions are assigned by decreasing work, each to the part with the
//! least work so far (Graham, Bounds on multiprocessing timing anomalies, 1969: at most a third
//! more than the optimum). The result depends on the trace only, so that all hosts compute the
//! same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The part of each session, by its work; None for one without any.
pub fn parts_of(works: &[u64], parts: usize) -> Vec<Option<usize>> {
    let mut in_order: Vec<usize> = (0..works.len()).filter(|&session| works[session] > 0).collect();
    in_order.sort_by_key(|&session| (Reverse(works[session]), session));
    let mut loads: BinaryHeap<Reverse<(u64, usize)>> =
        (0..parts.max(1)).map(|part| Reverse((0, part))).collect();
    let mut found = vec![None; works.len()];
    for session in in_order {
        let Some(Reverse((load, part))) = loads.pop() else { break };
        found[session] = Some(part);
        loads.push(Reverse((load.saturating_add(works[session]), part)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_session_is_in_one_part_and_none_is_overloaded(
            works in proptest::collection::vec(0..1_000u64, 0..60), parts in 1..12usize,
        ) {
            let found = parts_of(&works, parts);
            let mut loads = vec![0u64; parts];
            for (session, part) in found.iter().enumerate() {
                prop_assert_eq!(part.is_some(), works[session] > 0);
                if let Some(part) = part {
                    loads[*part] += works[session];
                }
            }
            let total: u64 = works.iter().sum();
            prop_assert_eq!(loads.iter().sum::<u64>(), total);
            // Whoever is loaded most had the least before its last session came.
            let most = loads.iter().max().copied().unwrap_or(0);
            let longest = works.iter().max().copied().unwrap_or(0);
            prop_assert!(most <= total / parts as u64 + longest);
            prop_assert_eq!(parts_of(&works, parts), found);
        }
    }

    #[test]
    fn longest_session_is_assigned_first_to_the_least_loaded_part() {
        let found = parts_of(&[3, 0, 7, 5, 4], 2);
        assert_eq!(found, [Some(0), None, Some(0), Some(1), Some(1)]);
    }
}
