//! The scan over the trace: what statements touch, and their turns.

use seatrial_sqltext::catalog::Catalog;

use super::access_analyser::AccessAnalyser;
use super::turns::{Drift, Scanned, Statement, Turns};
use crate::feed::Fed;
use crate::spec::Order;

/// A scan for the orders that have turns.
#[derive(Debug)]
pub struct Scan {
    access_analyser: Option<AccessAnalyser>,
    turns: Turns<Box<Fed>>,
}

impl Scan {
    /// A scan over `sessions` sessions; None where the order has no turns. Without a catalogue it
    /// is unknown what statements touch.
    pub fn of(
        order: Order,
        catalog: Option<&Catalog>,
        sessions: usize,
        drift: &Drift,
    ) -> Option<Scan> {
        let access_analyser = catalog.map(|catalog| AccessAnalyser::new(catalog, sessions));
        let scan = || Scan { access_analyser, turns: Turns::new(sessions, drift.longest_us()) };
        matches!(order, Order::Object | Order::Key | Order::Strict).then(scan)
    }

    /// Takes in the next statement of the trace.
    pub fn take_in(&mut self, mut fed: Box<Fed>) {
        if let Some(access_analyser) =
            self.access_analyser.as_mut().filter(|_| fed.skipped.is_none())
        {
            access_analyser.object_access(&fed.item, &mut fed.access_set);
        }
        self.turns.take_in(fed);
    }

    /// None follows.
    pub fn end(&mut self) {
        self.turns.end();
    }

    /// The next statement in its turn.
    pub fn next_turn(&mut self) -> Option<Box<Fed>> {
        self.turns.next_turn()
    }
}

impl Statement for Box<Fed> {
    fn scanned(&self) -> Scanned<'_> {
        let item = &self.item;
        // What waited for a lock and found its row changed may fail for that; other errors end the
        // waiting before.
        let got_locks = item.error.is_none_or(|code| code.starts_with(b"23"));
        Scanned {
            number: item.number,
            session: item.session,
            start_us: item.start_us,
            duration_us: item.duration_us,
            transaction: item.transaction,
            ends: self.ends || self.is_last,
            got_locks: got_locks && self.skipped.is_none(),
            access_set: &self.access_set,
            bytes: self.held_bytes(),
        }
    }
}
