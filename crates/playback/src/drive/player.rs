//! A session that is played.

use std::collections::VecDeque;

use seatrial_gauge::cache;
use seatrial_pgwire::answer::Answer;
use seatrial_pgwire::link::Link;
use seatrial_sqltext::lexer::class::Class;

use crate::accounting::{HeldBy, Times};
use crate::connection::Connection;
use crate::feed::Fed;
use crate::order::OrderPosition;
use crate::pace::Before;

/// Statements for which a session keeps room.
const ROOM_KEPT: usize = 16;

/// Where a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of it was read yet.
    #[default]
    Unseen,
    /// It waits for its arrival, or for a connection.
    Outside,
    /// It is on its way in.
    Entering,
    /// It is connected.
    Inside,
    /// It has sent all that it had to.
    Over,
    /// Its connection is gone, or was never to be had.
    Lost,
}

/// What a session that is connected and has nothing on its way waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Nothing.
    #[default]
    Nothing,
    /// Its next statement is beyond what was read.
    Feed,
    /// It is not due yet.
    Time,
    /// The order holds it back since then.
    Order {
        /// When it could else have been sent.
        since_ns: u64,
    },
    /// It names an id that another session has not drawn yet.
    Draw {
        /// When it could else have been sent.
        since_ns: u64,
        /// The id's slot.
        slot: u32,
    },
}

/// Why the order does not hold a session back any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Somebody waits for its locks.
    Lock,
    /// Nothing else moved.
    Patience,
}

/// What may pass in spite of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// This statement.
    pub number: u64,
    /// And those of the same transaction; 0 for none.
    pub transaction: u64,
    /// Why.
    pub why: Release,
}

/// A statement that waits to be sent.
#[derive(Debug)]
pub struct Queued {
    /// The statement.
    pub fed: Box<Fed>,
    /// Its place in the order, if one is kept across sessions.
    pub place: OrderPosition,
}

/// A statement that was answered, and is to be counted.
#[derive(Debug)]
pub struct Ended {
    /// The statement.
    pub fed: Box<Fed>,
    /// When it was sent and answered.
    pub times: Times,
    /// What the server said.
    pub answer: Answer,
}

/// A session's way to the server.
pub struct Peer {
    /// The socket.
    pub link: Link,
    /// The protocol.
    pub connection: Connection,
}

/// A session.
#[derive(Default)]
pub struct Player {
    /// Where it is.
    pub stage: Stage,
    /// What it waits for.
    pub wait: Wait,
    /// Statements that have yet to be sent or skipped, those that were not read yet too.
    pub left: u64,
    /// Those that were read; the first may be on its way.
    pub queue: VecDeque<Queued>,
    /// The connection.
    pub peer: Option<Box<Peer>>,
    /// When the statement on its way was sent; its end is yet to come.
    pub open: Option<Times>,
    /// The statement before it.
    pub before: Option<Before>,
    /// Since when it may send: it came in, or its last statement was answered.
    pub ready_ns: u64,
    /// What it waited for until then.
    pub ready_by: HeldBy,
    /// When its next statement was read, if it had to wait for that.
    pub fed_ns: u64,
    /// When the order let its next statement go, if that was delayed.
    pub released_ns: u64,
    /// What may pass in spite of the order.
    pub pass: Option<Pass>,
    /// The statement that does not wait for ids any more.
    pub undrawn: Option<u64>,
    /// Whether a statement of it has failed: what it made before may not be there.
    pub has_failed: bool,
    /// Since when the server takes no connection for it.
    pub refused_ns: Option<u64>,
}

impl Player {
    /// Takes the first of its statements, and gives room back: else each session would keep as
    /// much as it ever had, and all of them together many times what may be held.
    pub fn pop(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front();
        let (held, room) = (self.queue.len(), self.queue.capacity());
        if room > ROOM_KEPT && held * 4 < room {
            self.queue.shrink_to(held * 2);
        }
        queued
    }

    /// Starts to bring what an answer is about to need into the cache: the statement on its way and
    /// the next one.
    pub fn fetch(&self) {
        for queued in self.queue.iter().take(2) {
            cache::fetch(&*queued.fed);
        }
    }

    /// The same for the texts of the next statement, when it itself is there.
    pub fn fetch_texts(&self) {
        if let Some(next) = self.queue.get(1) {
            next.fed.fetch_texts();
        }
    }

    /// Whether it is connected and has nothing on its way.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Inside && self.open.is_none()
    }

    /// Whether its statement on its way may wait for a row's lock: what only reads or ends a
    /// transaction never does, so it will move by itself.
    pub fn may_wait(&self) -> bool {
        let head = self.queue.front().filter(|_| self.open.is_some());
        head.is_some_and(|head| match head.fed.item.class {
            // Some lock what they read.
            Class::Select => head.fed.access_set.may_wait(),
            class => class != Class::Transaction,
        })
    }

    /// The place of the end of its transaction, as far as that was read.
    pub fn end_of_transaction(&self) -> Option<OrderPosition> {
        let is_alone = |one: &&Queued| one.fed.item.transaction == 0;
        if let Some(alone) = self.queue.front().filter(|_| self.open.is_some()).filter(is_alone) {
            return Some(alone.place);
        }
        self.queue.iter().find(|one| one.fed.ends).map(|one| one.place)
    }

    /// Why its next statement may pass in spite of the order.
    pub fn passes(&self, fed: &Fed) -> Option<Release> {
        let pass = self.pass?;
        let is_of_it = pass.transaction > 0 && pass.transaction == fed.item.transaction;
        (is_of_it || pass.number == fed.item.number).then_some(pass.why)
    }

    /// When a statement that is sent now could have been sent, and what it waited for last.
    pub fn could(&self, due_ns: Option<u64>) -> (u64, HeldBy) {
        let mut could = (self.ready_ns, self.ready_by);
        match due_ns {
            Some(due_ns) if due_ns >= could.0 => could = (due_ns, HeldBy::Nothing),
            Some(_) => {}
            // Nothing is due: what counts is when it could be sent, and that it was not read yet
            // is due to the sessions that had not come so far.
            None => could = (could.0.max(self.fed_ns), HeldBy::Nothing),
        }
        if self.released_ns > could.0 { (self.released_ns, HeldBy::Order) } else { could }
    }
}
