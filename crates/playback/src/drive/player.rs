//! A session that is played.

use std::collections::VecDeque;

use seatrial_gauge::cache;
use seatrial_pgwire::answer::Answer;
use seatrial_pgwire::link::Link;
use seatrial_sqltext::lexer::class::Class;

use crate::accounting::{DelayCause, Times};
use crate::connection::Connection;
use crate::feed::PendingStatement;
use crate::order::OrderPosition;
use crate::pace::PreviousStatement;
use crate::rules::session_objects::SessionObjects;

/// Statements for which a session keeps room.
const ROOM_KEPT: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of it was read yet.
    #[default]
    Unread,
    /// It waits for its arrival, or for a connection.
    Waiting,
    Connecting,
    Connected,
    Finished,
    /// It lost its connection, or never had one.
    Lost,
}

/// What a connected session without a statement in progress waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    #[default]
    Nothing,
    /// Its next statement is beyond what was read.
    Feed,
    /// It is not due yet.
    Time,
    /// The order delays it.
    Order {
        /// When it could have been sent without that.
        since_ns: u64,
    },
    /// It names an id that another session has not drawn yet.
    Draw {
        /// When it could have been sent otherwise.
        since_ns: u64,
        /// The id's slot.
        slot: u32,
    },
}

/// Why the order stops delaying a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Another session waits for its locks.
    Lock,
    /// Nothing progressed for too long.
    Timeout,
}

/// Statements that are exempt from the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderExemption {
    pub number: u64,
    /// And those of the same transaction; 0 for none.
    pub transaction: u64,
    pub why: Release,
}

/// A statement that waits to be sent.
#[derive(Debug)]
pub struct QueuedStatement {
    pub pending: Box<PendingStatement>,
    /// Its position in the order, if one is kept across sessions.
    pub position: OrderPosition,
}

/// A statement that was answered, and is to be counted.
#[derive(Debug)]
pub struct AnsweredStatement {
    pub pending: Box<PendingStatement>,
    /// When it was sent and answered.
    pub times: Times,
    pub answer: Answer,
}

/// A session's connection to the server.
pub struct Peer {
    pub link: Link,
    pub connection: Connection,
}

#[derive(Default)]
pub struct Player {
    pub stage: Stage,
    pub wait: Wait,
    /// Statements not yet sent or skipped, including unread ones.
    pub left: u64,
    /// Statements that were read; the first may be in progress.
    pub queue: VecDeque<QueuedStatement>,
    pub peer: Option<Box<Peer>>,
    /// When the statement in progress was sent; its end is yet to come.
    pub open: Option<Times>,
    /// The statement before it.
    pub previous: Option<PreviousStatement>,
    /// Since when it may send: it arrived, or its last statement was answered.
    pub ready_ns: u64,
    /// What it waited for until then.
    pub ready_by: DelayCause,
    /// When its next statement was read, if it had to wait for that.
    pub read_ns: u64,
    /// When the order released its next statement, if it was delayed.
    pub released_ns: u64,
    /// Statements that are exempt from the order.
    pub exemption: Option<OrderExemption>,
    /// The number of the statement that no longer waits for ids.
    pub waived_id_wait: Option<u64>,
    /// Whether one of its statements has failed: objects that it had created may not exist.
    pub has_failed: bool,
    /// The temporary objects that it has for certain.
    pub certain_objects: SessionObjects,
    /// Since when the server refuses connections for it.
    pub refused_ns: Option<u64>,
}

impl Player {
    /// Takes its first statement, and frees memory: otherwise each session would keep its maximum,
    /// and all together many times the limit.
    pub fn pop(&mut self) -> Option<QueuedStatement> {
        let queued = self.queue.pop_front();
        let (length, room) = (self.queue.len(), self.queue.capacity());
        if room > ROOM_KEPT && length * 4 < room {
            self.queue.shrink_to(length * 2);
        }
        queued
    }

    /// Prefetches what an answer is about to need: the statement in progress and the next one.
    pub fn fetch(&self) {
        for queued in self.queue.iter().take(2) {
            cache::fetch(&*queued.pending);
        }
    }

    /// Prefetches the texts of the next statement, once it is in the cache.
    pub fn fetch_texts(&self) {
        if let Some(next) = self.queue.get(1) {
            next.pending.fetch_texts();
        }
    }

    /// Whether it is connected and has nothing in progress.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Connected && self.open.is_none()
    }

    /// Whether its statement in progress may wait for a row lock. What only reads or ends a
    /// transaction never does.
    pub fn may_wait(&self) -> bool {
        let head = self.queue.front().filter(|_| self.open.is_some());
        head.is_some_and(|head| match head.pending.item.class {
            // Some lock what they read.
            Class::Select => head.pending.access_set.may_wait(),
            class => class != Class::Transaction,
        })
    }

    /// The position of the end of its transaction, if that was read.
    pub fn end_of_transaction(&self) -> Option<OrderPosition> {
        let is_alone = |one: &&QueuedStatement| one.pending.item.transaction == 0;
        if let Some(alone) = self.queue.front().filter(|_| self.open.is_some()).filter(is_alone) {
            return Some(alone.position);
        }
        self.queue.iter().find(|one| one.pending.ends).map(|one| one.position)
    }

    /// Why its next statement is exempt from the order; None if it is not.
    pub fn exemption_reason(&self, pending: &PendingStatement) -> Option<Release> {
        let exemption = self.exemption?;
        let is_of_it =
            exemption.transaction > 0 && exemption.transaction == pending.item.transaction;
        (is_of_it || exemption.number == pending.item.number).then_some(exemption.why)
    }

    /// When a statement that is sent now could have been sent, and what it waited for last.
    pub fn sendable_since(&self, due_ns: Option<u64>) -> (u64, DelayCause) {
        let mut sendable_since = (self.ready_ns, self.ready_by);
        match due_ns {
            Some(due_ns) if due_ns >= sendable_since.0 => {
                sendable_since = (due_ns, DelayCause::Nothing)
            }
            Some(_) => {}
            // Nothing is due: what counts is when it could be sent, and a statement is unread only
            // because other sessions are behind.
            None => sendable_since = (sendable_since.0.max(self.read_ns), DelayCause::Nothing),
        }
        if self.released_ns > sendable_since.0 {
            (self.released_ns, DelayCause::Order)
        } else {
            sendable_since
        }
    }
}
