//! Captures made up at random, and playbacks of them that do what they like within the order.

mod cost;
mod database;
mod played;
mod turns;

use proptest::prelude::*;
use seatrial_trace::captured::SessionId;

use super::edges::{EdgeOrder, Grain, Turned};
use super::touch::{Deed, Object, Touch, Touches};
use super::turns::{Scanned, Statement};

/// A statement of a capture.
#[derive(Clone, Debug)]
struct Made {
    number: u64,
    session: u32,
    start_us: i64,
    duration_us: Option<u64>,
    transaction: u64,
    ends: bool,
    touches: Touches,
}

impl Statement for Made {
    fn scanned(&self) -> Scanned<'_> {
        Scanned {
            number: self.number,
            session: SessionId(self.session),
            start_us: self.start_us,
            duration_us: self.duration_us,
            transaction: self.transaction,
            ends: self.ends,
            got_locks: true,
            touches: &self.touches,
            bytes: 100,
        }
    }
}

impl Made {
    fn turned(&self) -> Turned<'_> {
        Turned {
            session: SessionId(self.session),
            transaction: self.transaction,
            ends: self.ends,
            is_sent: true,
            touches: &self.touches,
        }
    }
}

/// A row of a table by its primary key.
fn row(table: usize, deed: Deed, value: u64) -> Touch {
    Touch { object: Object::table(table), deed, columns: 1, is_unique: true, value }
}

fn order_of(grain: Grain, made: &[Made], sessions: usize) -> (EdgeOrder, Vec<super::Place>) {
    let mut order = EdgeOrder::new(grain, sessions);
    let places = made.iter().map(|one| order.take_in(&one.turned())).collect();
    (order, places)
}

fn deed() -> impl Strategy<Value = Deed> {
    proptest::sample::select(Deed::ALL.to_vec())
}

/// One touch: of few tables, few keys and few values, so that they meet; of whole tables and of
/// sequences now and then.
fn touch() -> impl Strategy<Value = Touch> {
    (0usize..2, deed(), 0u16..3, 0u64..4, 0u8..8).prop_map(|(place, deed, columns, value, kind)| {
        match kind {
            0 => Touch::whole(Object::sequence(place), Deed::Write),
            _ if columns == 0 => Touch::whole(Object::table(place), deed),
            _ => {
                let object = Object::table(place);
                Touch { object, deed, columns, is_unique: columns == 1, value }
            }
        }
    })
}

fn touches() -> impl Strategy<Value = Touches> {
    let anything = prop_oneof![
        30 => Just(None),
        1 => Just(Some(Deed::Read)),
        1 => Just(Some(Deed::Write)),
    ];
    (proptest::collection::vec(touch(), 0..4), anything, any::<bool>()).prop_map(
        |(known, anything, lasts)| {
            let read = known.iter().filter(|touch| lasts && !touch.deed.changes());
            Touches { at_end: read.copied().collect(), known, anything }
        },
    )
}

const SESSIONS: u32 = 5;

/// Statements in their turns: of several sessions, in and out of transactions.
fn capture() -> impl Strategy<Value = Vec<Made>> {
    let one = (0..SESSIONS, 0u8..6, touches());
    proptest::collection::vec(one, 1..80).prop_map(|told| {
        let mut open = [0u64; SESSIONS as usize];
        let mut begun = 0;
        let statement = |(number, (session, kind, touches)): (usize, (u32, u8, Touches))| {
            let transaction = &mut open[session as usize];
            if kind == 0 && *transaction == 0 {
                begun += 1;
                *transaction = begun;
            }
            let ends = kind == 1 && *transaction > 0;
            let own = if ends { std::mem::take(transaction) } else { *transaction };
            Made {
                number: number as u64,
                session,
                start_us: number as i64,
                duration_us: None,
                transaction: own,
                ends,
                touches: if ends { Touches::default() } else { touches },
            }
        };
        told.into_iter().enumerate().map(statement).collect()
    })
}
