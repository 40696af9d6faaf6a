//! Whatever a playback does within the order: those that conflict keep their turns, all of it
//! ends, and what is done is forgotten.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::order::OrderPosition;

/// When each statement was sent and answered, as a playback drawn at random did it.
struct Times {
    sent: Vec<usize>,
    answered: Vec<usize>,
}

/// Sends whatever may go, and answers what is on its way, as the dice say.
fn play(
    statement: &[TestStatement],
    order: &mut EdgeOrder,
    positions: &[OrderPosition],
    dice: &[u8],
) -> Times {
    let mut queues = vec![VecDeque::new(); SESSIONS as usize];
    for (number, one) in statement.iter().enumerate() {
        queues[one.session as usize].push_back(number);
    }
    let mut on_its_way: Vec<usize> = Vec::new();
    let mut times = Times { sent: vec![0; statement.len()], answered: vec![0; statement.len()] };
    let mut now = 0;
    let mut dice = dice.iter().cycle();
    let mut left = statement.len();
    while left > 0 {
        now += 1;
        let busy: Vec<u32> = on_its_way.iter().map(|&number| statement[number].session).collect();
        let may_send: Vec<usize> = (0..SESSIONS)
            .filter(|session| !busy.contains(session))
            .filter_map(|session| queues[session as usize].front().copied())
            .filter(|&number| order.may_send(positions[number]))
            .collect();
        let die = usize::from(*dice.next().unwrap());
        let answers = may_send.is_empty() || (die % 2 == 0 && !on_its_way.is_empty());
        if answers {
            assert!(!on_its_way.is_empty(), "nothing moves, and {left} are left");
            let number = on_its_way.swap_remove(die / 2 % on_its_way.len());
            times.answered[number] = now;
            order.done(positions[number]);
            left -= 1;
        } else {
            let number = may_send[die / 2 % may_send.len()];
            queues[statement[number].session as usize].pop_front();
            times.sent[number] = now;
            on_its_way.push(number);
        }
    }
    times
}

/// What others see of each statement: what it does itself, and what its transaction wrote where it
/// is that transaction's end.
fn seen(statement: &[TestStatement]) -> Vec<AccessSet> {
    let written = |number: usize| {
        let end = &statement[number];
        let before = statement[..number].iter().rev().filter(|one| one.session == end.session);
        let own = before.take_while(|one| one.transaction == end.transaction && !one.ends);
        let mut all = AccessSet::default();
        for one in own {
            let changes =
                one.access_set.known.iter().filter(|object_access| object_access.mode.changes());
            all.known
                .extend(changes.filter(|object_access| object_access.object.is_transactional()));
            all.known.extend(&one.access_set.at_end);
            all.anything = all.anything.max(one.access_set.anything.filter(|mode| mode.changes()));
        }
        all
    };
    let sees = |number: usize| {
        if statement[number].ends { written(number) } else { statement[number].access_set.clone() }
    };
    (0..statement.len()).map(sees).collect()
}

fn coarse(access_set: &AccessSet) -> AccessSet {
    let known = access_set.known.iter().map(ObjectAccess::of_whole_object).collect();
    AccessSet { known, anything: access_set.anything, ..AccessSet::default() }
}

proptest! {
    #[test]
    fn conflicting_statements_keep_their_turns(
        statement in capture(),
        dice in proptest::collection::vec(any::<u8>(), 1..60),
    ) {
        for granularity in [Granularity::Key, Granularity::Object, Granularity::All] {
            let (mut order, positions) = order_of(granularity, &statement, SESSIONS as usize);
            let times = play(&statement, &mut order, &positions, &dice);
            let seen = seen(&statement);
            for later in 0..statement.len() {
                for earlier in 0..later {
                    if statement[earlier].session == statement[later].session {
                        continue;
                    }
                    let conflict = match granularity {
                        Granularity::Key => seen[earlier].conflict(&seen[later]),
                        Granularity::Object => {
                            coarse(&seen[earlier]).conflict(&coarse(&seen[later]))
                        }
                        Granularity::All => true,
                    };
                    let overtakes = times.sent[later] < times.answered[earlier];
                    prop_assert!(
                        !(conflict && overtakes),
                        "{:?}: {} was sent before {} was answered", granularity, later, earlier
                    );
                }
            }
            prop_assert_eq!(order.alive(), 0);
        }
    }

    /// A deferred check is made when the transaction ends, so it waits for the parent's row.
    #[test]
    fn deferred_check_waits_at_the_transaction_end(waits_before in any::<bool>()) {
        let check = row(0, AccessMode::Presence, 5);
        let of = |number, session, access_set, ends| TestStatement {
            number,
            session,
            start_us: 0,
            duration_us: None,
            transaction: 1,
            ends,
            access_set,
        };
        let at_end = if waits_before { vec![check] } else { Vec::new() };
        let child = AccessSet { known: vec![check], at_end, anything: None };
        let parent = AccessSet { known: vec![row(0, AccessMode::Add, 5)], ..AccessSet::default() };
        let statement = [
            of(0, 0, child, false),
            of(1, 1, parent, false),
            of(2, 1, AccessSet::default(), true),
            of(3, 0, AccessSet::default(), true),
        ];
        let (mut order, positions) = order_of(Granularity::Key, &statement, 2);
        order.done(positions[0]);
        prop_assert_eq!(order.may_send(positions[3]), !waits_before);
        order.done(positions[1]);
        order.done(positions[2]);
        prop_assert!(order.may_send(positions[3]));
    }

    /// Those that access other rows do not wait for each other.
    #[test]
    fn rows_with_different_keys_do_not_conflict(sessions in 2u32..SESSIONS) {
        let statement: Vec<TestStatement> = (0..sessions)
            .map(|session| TestStatement {
                number: u64::from(session),
                session,
                start_us: 0,
                duration_us: None,
                transaction: 1,
                ends: false,
                access_set: AccessSet {
                    known: vec![row(0, AccessMode::Write, u64::from(session)), ObjectAccess::whole(
                        Object::table(1), AccessMode::Add,
                    )],
                    ..AccessSet::default()
                },
            })
            .collect();
        let (order, positions) = order_of(Granularity::Key, &statement, SESSIONS as usize);
        prop_assert!(positions.iter().all(|&position| order.may_send(position)));
        let (order, positions) = order_of(Granularity::Object, &statement, SESSIONS as usize);
        prop_assert_eq!(positions.iter().filter(|&&position| order.may_send(position)).count(), 1);
    }
}

/// A playback of any length holds what is on its way, and edges in proportion to that.
#[test]
fn memory_follows_pending_statements() {
    for granularity in [Granularity::Key, Granularity::Object, Granularity::All] {
        let mut order = EdgeOrder::new(granularity, 8);
        let mut delayed: VecDeque<OrderPosition> = VecDeque::new();
        for number in 0..40_000u64 {
            let access_set = AccessSet {
                known: vec![
                    row(0, AccessMode::Write, number),
                    row(1, AccessMode::Read, number % 7),
                    ObjectAccess::whole(Object::table(2), AccessMode::Add),
                ],
                ..AccessSet::default()
            };
            let statement = TestStatement {
                number,
                session: (number % 8) as u32,
                start_us: 0,
                duration_us: None,
                transaction: 0,
                ends: false,
                access_set,
            };
            delayed.push_back(order.take_in(&statement.ordered()));
            if delayed.len() > 500 {
                order.done(delayed.pop_front().unwrap());
            }
            assert!(order.alive() <= 501, "{granularity:?}: {} are alive", order.alive());
        }
        assert!(order.memory_bytes() < 1 << 20, "{granularity:?}: {}", order.memory_bytes());
    }
}

/// Many scans of a table of which many rows are written at once: they meet, and do not each wait
/// for each.
#[test]
fn many_waits_are_joined_by_a_barrier() {
    let mut order = EdgeOrder::new(Granularity::Key, 1_000);
    for number in 0..1_000u64 {
        let object_access = if number % 2 == 0 {
            row(0, AccessMode::Write, number)
        } else {
            ObjectAccess::whole(Object::table(0), AccessMode::Read)
        };
        let access_set = AccessSet { known: vec![object_access], ..AccessSet::default() };
        let statement = TestStatement {
            number,
            session: number as u32,
            start_us: 0,
            duration_us: None,
            transaction: 0,
            ends: false,
            access_set,
        };
        order.take_in(&statement.ordered());
    }
    assert!(order.cost().edges < 10_000, "{} edges", order.cost().edges);
}
