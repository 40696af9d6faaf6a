//! The selected order across sessions.

use seatrial_trace::captured::SessionId;

use super::OrderPosition;
use super::commit::{self, CommitOrder};
use super::edges::{Cost, EdgeOrder, Granularity, OrderedStatement};
use super::graph::WaitReason;
use crate::feed::PendingStatement;
use crate::spec::Order;

/// An order across sessions.
#[derive(Debug)]
pub enum StatementOrder {
    /// Of commits.
    Commits(CommitOrder),
    /// Of statements that conflict.
    Edges(Box<EdgeOrder>),
}

impl StatementOrder {
    /// The order of `sessions` sessions; None if each session's own is enough.
    pub fn of(order: Order, sessions: usize) -> Option<StatementOrder> {
        let edges = |granularity| {
            Some(StatementOrder::Edges(Box::new(EdgeOrder::new(granularity, sessions))))
        };
        match order {
            Order::Session => None,
            Order::Commit => Some(StatementOrder::Commits(CommitOrder::new(sessions))),
            Order::Object => edges(Granularity::Object),
            Order::Key => edges(Granularity::Key),
            Order::Strict => edges(Granularity::All),
        }
    }

    /// Takes in the next statement that was read and returns its position.
    pub fn take_in(&mut self, pending: &PendingStatement) -> OrderPosition {
        let item = &pending.item;
        match self {
            StatementOrder::Commits(order) => order.take_in(&commit::Scanned {
                number: item.number,
                session: item.session,
                start_us: item.start_us,
                duration_us: item.duration_us,
                commits: pending.commits,
                is_last: pending.is_last,
            }),
            StatementOrder::Edges(order) => order.take_in(&OrderedStatement {
                session: item.session,
                transaction: item.transaction,
                ends: pending.ends,
                is_sent: pending.skipped.is_none(),
                access_set: &pending.access_set,
            }),
        }
    }

    /// A statement was answered, skipped or lost.
    pub fn done(&mut self, pending: &PendingStatement, position: OrderPosition) {
        match self {
            StatementOrder::Commits(order) if pending.commits => {
                order.done(pending.item.session, pending.item.number);
            }
            StatementOrder::Commits(_) => {}
            StatementOrder::Edges(order) => order.done(position),
        }
    }

    /// Whether a statement waits for nothing.
    pub fn may_send(&self, position: OrderPosition) -> bool {
        match self {
            StatementOrder::Commits(order) => order.may_send(position),
            StatementOrder::Edges(order) => order.may_send(position),
        }
    }

    /// Delays a session's next statement.
    pub fn delay(&mut self, position: OrderPosition, session: SessionId) {
        match self {
            StatementOrder::Commits(order) => order.delay(position, session),
            StatementOrder::Edges(order) => order.delay(position, session),
        }
    }

    /// Returns one of the delayed statements that may be sent by now. It may have been released
    /// before; its position tells.
    pub fn next_ready(&mut self) -> Option<(OrderPosition, SessionId)> {
        match self {
            StatementOrder::Commits(order) => order.next_ready(),
            StatementOrder::Edges(order) => order.next_ready(),
        }
    }

    /// Removes and returns the first of the delayed statements, whether it may be sent or not.
    pub fn pop_first(&mut self) -> Option<(OrderPosition, SessionId)> {
        match self {
            StatementOrder::Commits(order) => order.pop_first(),
            StatementOrder::Edges(order) => order.pop_first(),
        }
    }

    /// A delayed statement is released before its turn.
    pub fn release(&mut self, position: OrderPosition, session: SessionId) {
        if let StatementOrder::Edges(order) = self {
            order.release(position, session);
        }
    }

    /// What a delayed statement waited for last.
    pub fn wait_reason(&self, position: OrderPosition) -> WaitReason {
        match self {
            StatementOrder::Commits(_) => WaitReason::Order,
            StatementOrder::Edges(order) => order.wait_reason(position),
        }
    }

    /// What its edges cost so far.
    pub fn cost(&self) -> Cost {
        match self {
            StatementOrder::Commits(_) => Cost::default(),
            StatementOrder::Edges(order) => order.cost(),
        }
    }
}
