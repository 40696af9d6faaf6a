//! Turns keep each session's order, lose nothing, and put who waited behind whom they waited for.

use proptest::prelude::*;

use super::*;
use crate::order::turns::{Drift, TurnScheduler};

fn ordered(statement: Vec<TestStatement>, longest_us: Option<u64>) -> Vec<TestStatement> {
    let mut turns = TurnScheduler::new(SESSIONS as usize, longest_us);
    let mut scheduled = Vec::new();
    for one in statement {
        turns.take_in(one);
        while let Some(one) = turns.next_turn() {
            scheduled.push(one);
        }
    }
    turns.end();
    scheduled.extend(std::iter::from_fn(|| turns.next_turn()));
    scheduled
}

fn writes(number: u64, session: u32, transaction: u64, value: u64) -> TestStatement {
    TestStatement {
        number,
        session,
        start_us: number as i64,
        duration_us: None,
        transaction,
        ends: false,
        access_set: AccessSet {
            known: vec![row(0, AccessMode::Write, value)],
            ..AccessSet::default()
        },
    }
}

fn end(number: u64, session: u32, transaction: u64) -> TestStatement {
    let access_set = AccessSet::default();
    TestStatement { ends: true, access_set, ..writes(number, session, transaction, 0) }
}

fn numbers(statements: &[TestStatement]) -> Vec<u64> {
    statements.iter().map(|one| one.number).collect()
}

#[test]
fn waiter_is_ordered_behind_the_holding_transaction() {
    let statement = vec![
        writes(0, 0, 1, 7),
        writes(1, 1, 1, 7),
        writes(2, 2, 0, 7),
        writes(3, 3, 0, 8),
        end(4, 0, 1),
        end(5, 1, 1),
    ];
    // The second goes on before the third, so it had the row when the first had ended.
    assert_eq!(numbers(&ordered(statement, None)), [3, 0, 4, 1, 5, 2]);
}

#[test]
fn first_session_to_continue_had_the_row_first() {
    let statement = vec![
        writes(0, 0, 1, 7),
        writes(1, 1, 1, 7),
        writes(2, 2, 1, 7),
        end(3, 0, 1),
        end(4, 2, 1),
        end(5, 1, 1),
    ];
    assert_eq!(numbers(&ordered(statement, None)), [0, 3, 2, 4, 1, 5]);
}

#[test]
fn continuing_session_had_not_waited() {
    let statement = vec![
        writes(0, 0, 1, 7),
        writes(1, 1, 0, 7),
        writes(2, 2, 0, 8),
        writes(3, 1, 0, 9),
        end(4, 0, 1),
    ];
    // So it had the row before the first, which may have waited for it.
    assert_eq!(numbers(&ordered(statement, None)), [2, 1, 3, 0, 4]);
}

#[test]
fn long_holder_had_the_row_first() {
    let late = |statement: TestStatement| TestStatement {
        start_us: statement.start_us + 2_000_000,
        ..statement
    };
    let statement = vec![
        writes(0, 0, 1, 7),
        late(writes(1, 2, 0, 9)),
        late(writes(2, 1, 0, 7)),
        late(writes(3, 1, 0, 9)),
        late(end(4, 0, 1)),
    ];
    assert_eq!(numbers(&ordered(statement, None)), [0, 1, 2, 3, 4]);
}

#[test]
fn mutual_waits_are_resolved() {
    let statement = vec![
        writes(0, 0, 1, 1),
        writes(1, 1, 1, 2),
        writes(2, 0, 1, 2),
        writes(3, 1, 1, 1),
        end(4, 1, 1),
        end(5, 0, 1),
    ];
    assert_eq!(numbers(&ordered(statement, None)), [0, 1, 3, 4, 2, 5]);
}

#[test]
fn long_statements_are_ordered_by_their_start() {
    let times = [(0, 0, 100), (1, 90_000, 15_000), (2, 104_000, 100), (3, 20_000, 100_000)];
    let statement = times.map(|(session, start_us, length_us)| TestStatement {
        start_us,
        duration_us: Some(length_us),
        access_set: AccessSet { known: vec![row(0, AccessMode::Read, 7)], ..AccessSet::default() },
        ..writes(u64::from(session), session, 0, 0)
    });
    let mut drift = Drift::default();
    statement.iter().for_each(|one| drift.add(one.start_us, one.duration_us));
    assert_eq!(drift.longest_us(), Some(100_000));
    assert_eq!(numbers(&ordered(statement.to_vec(), drift.longest_us())), [0, 3, 1, 2]);
}

fn by_code(statement: TestStatement, mode: AccessMode) -> TestStatement {
    let object_access = ObjectAccess { columns: 2, ..row(0, mode, 7) };
    TestStatement {
        access_set: AccessSet { known: vec![object_access], ..AccessSet::default() },
        ..statement
    }
}

#[test]
fn rows_of_another_key_may_be_the_same_rows() {
    let statement = vec![
        writes(0, 0, 1, 7),
        by_code(writes(1, 1, 0, 0), AccessMode::Values),
        by_code(writes(2, 2, 0, 0), AccessMode::Presence),
        by_code(writes(3, 3, 0, 0), AccessMode::Read),
        by_code(writes(4, 4, 0, 0), AccessMode::Read),
        by_code(writes(5, 2, 0, 0), AccessMode::Read),
        end(6, 0, 1),
    ];
    assert_eq!(numbers(&ordered(statement, None)), [3, 4, 2, 5, 0, 6, 1]);
}

/// The turns of statements that ended so, at 100 ms and later, in the order of their ends.
fn turned_by_end(statement: &[(TestStatement, i64, u64)]) -> Vec<u64> {
    let statement = statement.iter().map(|(one, end_us, length_us)| TestStatement {
        start_us: 100_000 + end_us - *length_us as i64,
        duration_us: Some(*length_us),
        ..one.clone()
    });
    numbers(&ordered(statement.collect(), Some(100_000)))
}

#[test]
fn transaction_end_that_had_begun_precedes_possible_waiters() {
    let ended = [
        (writes(0, 0, 1, 7), 0, 100),
        (by_code(writes(1, 1, 0, 0), AccessMode::Values), 30_000, 29_000),
        (writes(2, 2, 0, 7), 30_100, 100),
        (writes(3, 2, 0, 8), 30_200, 100),
        (end(4, 0, 1), 30_300, 400),
    ];
    // The second waited; what the busy server wrote last had begun before it ended.
    assert_eq!(turned_by_end(&ended), [0, 4, 1, 2, 3]);
}

#[test]
fn statement_that_ended_before_a_transaction_end_began_had_not_waited() {
    let ended = [
        (writes(0, 0, 1, 7), 0, 100),
        (by_code(writes(1, 1, 0, 0), AccessMode::Values), 10_000, 9_000),
        (end(2, 0, 1), 30_300, 400),
    ];
    assert_eq!(turned_by_end(&ended), [0, 1, 2]);
}

#[test]
fn statements_before_a_transaction_end_precede_its_waiters() {
    let ended = [
        (writes(0, 0, 1, 7), 0, 100),
        (writes(1, 1, 1, 8), 50, 100),
        (writes(2, 2, 0, 8), 40_000, 39_000),
        (writes(3, 1, 1, 7), 40_100, 39_000),
        (end(4, 1, 1), 40_200, 900),
        (end(5, 0, 1), 40_300, 2_000),
    ];
    assert_eq!(turned_by_end(&ended), [0, 1, 5, 3, 4, 2]);
}

#[test]
fn a_trace_in_the_order_of_starts_stays_as_it_is() {
    let mut drift = Drift::default();
    for (start_us, length_us) in [(0, 50_000), (900, 10), (400, 10), (2_000, 5)] {
        drift.add(start_us, Some(length_us));
    }
    assert_eq!(drift.longest_us(), None);
}

proptest! {
    #[test]
    fn turns_keep_the_order_of_each_session(
        statement in capture(),
        durations_us in proptest::collection::vec(proptest::option::of(0u64..9_000), 80),
        is_by_end in any::<bool>(),
    ) {
        let count = statement.len();
        let timed = statement.into_iter().zip(durations_us).map(|(one, duration_us)| {
            let start_us = one.start_us * 500;
            TestStatement { start_us, duration_us, ..one }
        });
        let scheduled = ordered(timed.collect(), is_by_end.then_some(9_000));
        prop_assert_eq!(scheduled.len(), count);
        for session in 0..SESSIONS {
            let own = scheduled.iter().filter(|one| one.session == session).map(|one| one.number);
            prop_assert!(own.is_sorted());
        }
    }
}
