//! The order that a playback keeps, whichever it is.

use seatrial_trace::captured::SessionId;

use super::OrderPosition;
use super::commit::{self, CommitOrder};
use super::edges::{Cost, EdgeOrder, Grain, Turned};
use super::graph::Because;
use crate::feed::Fed;
use crate::spec::Order;

/// An order across sessions.
#[derive(Debug)]
pub enum Keeper {
    /// Of commits.
    Commits(CommitOrder),
    /// Of statements that conflict.
    Edges(Box<EdgeOrder>),
}

impl Keeper {
    /// What keeps an order of `sessions` sessions; None where each session's own is enough.
    pub fn of(order: Order, sessions: usize) -> Option<Keeper> {
        let edges = |grain| Some(Keeper::Edges(Box::new(EdgeOrder::new(grain, sessions))));
        match order {
            Order::Session => None,
            Order::Commit => Some(Keeper::Commits(CommitOrder::new(sessions))),
            Order::Object => edges(Grain::Object),
            Order::Key => edges(Grain::Key),
            Order::Strict => edges(Grain::All),
        }
    }

    /// Takes in the next statement that was read and returns its place.
    pub fn take_in(&mut self, fed: &Fed) -> OrderPosition {
        let item = &fed.item;
        match self {
            Keeper::Commits(order) => order.take_in(&commit::Scanned {
                number: item.number,
                session: item.session,
                start_us: item.start_us,
                duration_us: item.duration_us,
                commits: fed.commits,
                is_last: fed.is_last,
            }),
            Keeper::Edges(order) => order.take_in(&Turned {
                session: item.session,
                transaction: item.transaction,
                ends: fed.ends,
                is_sent: fed.skipped.is_none(),
                access_set: &fed.access_set,
            }),
        }
    }

    /// A statement was answered, skipped or lost.
    pub fn done(&mut self, fed: &Fed, place: OrderPosition) {
        match self {
            Keeper::Commits(order) if fed.commits => {
                order.done(fed.item.session, fed.item.number);
            }
            Keeper::Commits(_) => {}
            Keeper::Edges(order) => order.done(place),
        }
    }

    /// Whether nothing that a statement waits for is left to be done.
    pub fn may_go(&self, place: OrderPosition) -> bool {
        match self {
            Keeper::Commits(order) => order.may_go(place),
            Keeper::Edges(order) => order.may_go(place),
        }
    }

    /// Holds a session's next statement back.
    pub fn hold(&mut self, place: OrderPosition, session: SessionId) {
        match self {
            Keeper::Commits(order) => order.hold(place, session),
            Keeper::Edges(order) => order.hold(place, session),
        }
    }

    /// Returns one of the held statements that may go by now; it is no longer held. It may have
    /// been released before, and must be recognized by its place.
    pub fn next_free(&mut self) -> Option<(OrderPosition, SessionId)> {
        match self {
            Keeper::Commits(order) => order.next_free(),
            Keeper::Edges(order) => order.next_free(),
        }
    }

    /// The one that waits for the least, whether it may go or not; it is no longer held.
    pub fn pop_first(&mut self) -> Option<(OrderPosition, SessionId)> {
        match self {
            Keeper::Commits(order) => order.pop_first(),
            Keeper::Edges(order) => order.pop_first(),
        }
    }

    /// One that is held is released before its turn.
    pub fn release(&mut self, place: OrderPosition, session: SessionId) {
        if let Keeper::Edges(order) = self {
            order.release(place, session);
        }
    }

    /// For what a statement that was held waited last.
    pub fn because(&self, place: OrderPosition) -> Because {
        match self {
            Keeper::Commits(_) => Because::Order,
            Keeper::Edges(order) => order.because(place),
        }
    }

    /// What its edges cost so far.
    pub fn cost(&self) -> Cost {
        match self {
            Keeper::Commits(_) => Cost::default(),
            Keeper::Edges(order) => order.cost(),
        }
    }
}
