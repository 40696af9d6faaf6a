//! Captures made up at random, and playbacks of them that do what they like within the order.

mod cost;
mod database;
mod played;
mod turns;

use proptest::prelude::*;
use seatrial_trace::captured::SessionId;

use super::edges::{EdgeOrder, Granularity, OrderedStatement};
use super::object_access::{AccessMode, AccessSet, Object, ObjectAccess};
use super::turns::{Scanned, Statement};

/// A statement of a capture.
#[derive(Clone, Debug)]
struct TestStatement {
    number: u64,
    session: u32,
    start_us: i64,
    duration_us: Option<u64>,
    transaction: u64,
    ends: bool,
    access_set: AccessSet,
}

impl Statement for TestStatement {
    fn scanned(&self) -> Scanned<'_> {
        Scanned {
            number: self.number,
            session: SessionId(self.session),
            start_us: self.start_us,
            duration_us: self.duration_us,
            transaction: self.transaction,
            ends: self.ends,
            got_locks: true,
            access_set: &self.access_set,
            bytes: 100,
        }
    }
}

impl TestStatement {
    fn ordered(&self) -> OrderedStatement<'_> {
        OrderedStatement {
            session: SessionId(self.session),
            transaction: self.transaction,
            ends: self.ends,
            is_sent: true,
            access_set: &self.access_set,
        }
    }
}

/// A row of a table by its primary key.
fn row(table: usize, mode: AccessMode, value: u64) -> ObjectAccess {
    ObjectAccess { object: Object::table(table), mode, columns: 1, is_unique: true, value }
}

fn order_of(
    granularity: Granularity,
    statement: &[TestStatement],
    sessions: usize,
) -> (EdgeOrder, Vec<super::OrderPosition>) {
    let mut order = EdgeOrder::new(granularity, sessions);
    let positions = statement.iter().map(|one| order.take_in(&one.ordered())).collect();
    (order, positions)
}

fn mode() -> impl Strategy<Value = AccessMode> {
    proptest::sample::select(AccessMode::ALL.to_vec())
}

/// One access: of few tables, few keys and few values, so that they meet; of whole tables and of
/// sequences now and then.
fn object_access() -> impl Strategy<Value = ObjectAccess> {
    (0usize..2, mode(), 0u16..3, 0u64..4, 0u8..8).prop_map(
        |(position, mode, columns, value, kind)| match kind {
            0 => ObjectAccess::whole(Object::sequence(position), AccessMode::Write),
            _ if columns == 0 => ObjectAccess::whole(Object::table(position), mode),
            _ => {
                let object = Object::table(position);
                ObjectAccess { object, mode, columns, is_unique: columns == 1, value }
            }
        },
    )
}

fn access_set() -> impl Strategy<Value = AccessSet> {
    let anything = prop_oneof![
        30 => Just(None),
        1 => Just(Some(AccessMode::Read)),
        1 => Just(Some(AccessMode::Write)),
    ];
    (proptest::collection::vec(object_access(), 0..4), anything, any::<bool>()).prop_map(
        |(known, anything, lasts)| {
            let read = known.iter().filter(|object_access| lasts && !object_access.mode.changes());
            AccessSet { at_end: read.copied().collect(), known, anything }
        },
    )
}

const SESSIONS: u32 = 5;

/// Statements in their turns: of several sessions, in and out of transactions.
fn capture() -> impl Strategy<Value = Vec<TestStatement>> {
    let one = (0..SESSIONS, 0u8..6, access_set());
    proptest::collection::vec(one, 1..80).prop_map(|steps| {
        let mut open = [0u64; SESSIONS as usize];
        let mut begun = 0;
        let statement = |(number, (session, kind, access_set)): (usize, (u32, u8, AccessSet))| {
            let transaction = &mut open[session as usize];
            if kind == 0 && *transaction == 0 {
                begun += 1;
                *transaction = begun;
            }
            let ends = kind == 1 && *transaction > 0;
            let own = if ends { std::mem::take(transaction) } else { *transaction };
            TestStatement {
                number: number as u64,
                session,
                start_us: number as i64,
                duration_us: None,
                transaction: own,
                ends,
                access_set: if ends { AccessSet::default() } else { access_set },
            }
        };
        steps.into_iter().enumerate().map(statement).collect()
    })
}
