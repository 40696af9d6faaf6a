//! The scan over the trace: what statements access, and their turns.

use seatrial_sqltext::catalog::Catalog;

use super::access_analyser::AccessAnalyser;
use super::turns::{Drift, Scanned, Statement, TurnScheduler};
use crate::feed::PendingStatement;
use crate::spec::Order;

/// A scan for orders that have turns.
#[derive(Debug)]
pub struct Scan {
    access_analyser: Option<AccessAnalyser>,
    turns: TurnScheduler<Box<PendingStatement>>,
}

impl Scan {
    /// A scan over `sessions` sessions; None if the order has no turns. Without a catalogue
    /// accesses are unknown.
    pub fn of(
        order: Order,
        catalog: Option<&Catalog>,
        sessions: usize,
        drift: &Drift,
    ) -> Option<Scan> {
        let access_analyser = catalog.map(|catalog| AccessAnalyser::new(catalog, sessions));
        let scan =
            || Scan { access_analyser, turns: TurnScheduler::new(sessions, drift.longest_us()) };
        matches!(order, Order::Object | Order::Key | Order::Strict).then(scan)
    }

    /// Takes in the next statement of the trace.
    pub fn take_in(&mut self, mut pending: Box<PendingStatement>) {
        if let Some(access_analyser) =
            self.access_analyser.as_mut().filter(|_| pending.skipped.is_none())
        {
            access_analyser.object_access(&pending.item, &mut pending.access_set);
        }
        self.turns.take_in(pending);
    }

    /// The trace has ended.
    pub fn end(&mut self) {
        self.turns.end();
    }

    /// The next statement in its turn.
    pub fn next_turn(&mut self) -> Option<Box<PendingStatement>> {
        self.turns.next_turn()
    }
}

impl Statement for Box<PendingStatement> {
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
            bytes: self.memory_bytes(),
        }
    }
}
