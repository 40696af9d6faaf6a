//! The turns of statements: one order of all of them, found in one scan over the trace.
//!
//! A trace is in the order in which statements began, or, if only their ends were logged, in that
//! order. The two show differently which of two statements locked a row first, but in both a
//! statement has its turn after those that it [may have had to wait for](super::locks). So at its
//! turn every statement finds its locks free, whatever overlaps in a playback.
//!
//! | trace | a statement that may want a row locked by an open transaction |
//! |---|---|
//! | of starts | has its turn after that transaction, unless its own session continues before |
//! | of ends | has its turn where it ended, after those ends that had begun by then |
//!
//! In the order of starts, a statement whose session continued had not waited, so its turn is there
//! at the latest. If several may have waited for the same row, the first to continue locked it
//! first. A statement that locks rows of a transaction, which becomes visible when that ends, has
//! its turn a moment later, in case another one that began after it comes before it. This needs no
//! durations, and buffers at most one statement of each session.
//!
//! In the order of ends, a statement that ended before the other one's end began had not waited. A
//! long statement that locks no row is moved back to its start, because it saw the data of that
//! time. Memory limits how far it can be moved; a statement that comes too late gets the next turn.
//!
//! Turns keep the order of each session, and depend on the trace only.

use std::collections::{BTreeMap, VecDeque};

use seatrial_trace::captured::SessionId;

use super::locks::Locks;
use super::object_access::{AccessMode, AccessSet, ObjectAccess};

/// A longer statement is ordered by its start: logs have times in milliseconds.
const LONG_US: u64 = 2_000;

/// How long it may remain open which of two statements, that began at about the same time, locked a
/// row first.
const OPEN_US: i64 = 1_000_000;

/// For how many statements it may remain open.
const OPEN_MAX: usize = 64;

/// By how much a logged time may be too early.
const ROUNDING_US: i64 = 1_000;

/// By how much an end may seem to have begun too late: a busy server runs other processes between
/// the end of a statement and its log line.
const LATE_US: i64 = 5_000;

/// Maximum buffered statements.
const BUFFERED_MAX: usize = 4_096;

/// Maximum bytes of buffered texts.
const BUFFERED_BYTES_MAX: usize = 1 << 20;

/// A statement, for the scan.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// Its position in the trace.
    pub number: u64,
    pub session: SessionId,
    /// When it began, in microseconds since 1970.
    pub start_us: i64,
    /// How long it took, if that is known.
    pub duration_us: Option<u64>,
    /// Its transaction in that session; 0 for none.
    pub transaction: u64,
    /// Whether its transaction ends with it.
    pub ends: bool,
    /// Whether it got its locks, as far as known.
    pub got_locks: bool,
    pub access_set: &'a AccessSet,
    pub bytes: usize,
}

/// A statement with a turn.
pub trait Statement {
    /// The scan's data of it.
    fn scanned(&self) -> Scanned<'_>;
}

/// The order of a trace's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    latest_start_us: Option<i64>,
    latest_end_us: i64,
    starts_back_us: u64,
    ends_back_us: u64,
    longest_us: u64,
}

impl Drift {
    /// Adds the times of the next statement.
    pub fn add(&mut self, start_us: i64, duration_us: Option<u64>) {
        let end_us = start_us.saturating_add_unsigned(duration_us.unwrap_or(0));
        let latest_start_us = self.latest_start_us.unwrap_or(start_us);
        let latest_end_us = self.latest_start_us.map_or(end_us, |_| self.latest_end_us);
        let back = |latest_us: i64, now_us: i64| latest_us.saturating_sub(now_us).max(0) as u64;
        self.starts_back_us = self.starts_back_us.max(back(latest_start_us, start_us));
        self.ends_back_us = self.ends_back_us.max(back(latest_end_us, end_us));
        self.longest_us = self.longest_us.max(duration_us.unwrap_or(0));
        self.latest_start_us = Some(latest_start_us.max(start_us));
        self.latest_end_us = latest_end_us.max(end_us);
    }

    /// The longest delay that has to be reordered, if the trace is in the order of ends.
    pub fn longest_us(&self) -> Option<u64> {
        let is_by_end = self.starts_back_us > LONG_US && self.starts_back_us > self.ends_back_us;
        is_by_end.then_some(self.longest_us)
    }
}

/// A statement that is buffered until no earlier one can follow.
#[derive(Debug)]
struct BufferedStatement<T> {
    bytes: usize,
    statement: T,
}

/// A time and a position in the trace.
type TracePosition = (i64, u64);

/// Buffered statements of a session: position and transaction, and the starts of those that end a
/// transaction.
#[derive(Clone, Copy, Debug)]
struct UpcomingStatement {
    at: TracePosition,
    transaction: u64,
    end_began_us: Option<i64>,
}

/// A statement that waits for its turn.
#[derive(Debug)]
struct Deferred<T> {
    statement: T,
    /// It need not have waited for anybody: it is open whether another one locked its rows first.
    is_open: bool,
}

#[derive(Debug)]
struct Session<T> {
    /// When its last statement was executed.
    last_us: i64,
    upcoming: VecDeque<UpcomingStatement>,
    /// Its statement that waits for its turn.
    deferred: Option<Deferred<T>>,
}

/// A scan that gives statements their turns.
#[derive(Debug)]
pub struct TurnScheduler<T> {
    /// The longest delay to reorder; None if the trace is in the order of starts.
    longest_us: Option<u64>,
    latest_us: i64,
    buffered: BTreeMap<TracePosition, BufferedStatement<T>>,
    buffered_bytes: usize,
    sessions: Vec<Session<T>>,
    locks: Locks,
    /// Sessions whose statements wait for their turns, in order of arrival.
    waiting: Vec<u32>,
    /// Statements with a turn that are to be returned.
    ready: VecDeque<T>,
}

impl<T: Statement> TurnScheduler<T> {
    /// A scan over the statements of `sessions` sessions.
    pub fn new(sessions: usize, longest_us: Option<u64>) -> TurnScheduler<T> {
        let session = || Session { last_us: i64::MIN, upcoming: VecDeque::new(), deferred: None };
        TurnScheduler {
            longest_us,
            latest_us: i64::MIN,
            buffered: BTreeMap::new(),
            buffered_bytes: 0,
            sessions: (0..sessions).map(|_| session()).collect(),
            locks: Locks::new(sessions),
            waiting: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// Takes in the next statement of the trace.
    pub fn take_in(&mut self, statement: T) {
        let Some(longest_us) = self.longest_us else { return self.turn(statement) };
        self.buffer(statement);
        let settled_us = self.latest_us.saturating_sub_unsigned(longest_us);
        while let Some((at, _)) = self.buffered.first_key_value() {
            let is_too_much =
                self.buffered.len() > BUFFERED_MAX || self.buffered_bytes > BUFFERED_BYTES_MAX;
            if at.0.saturating_add(LATE_US) > settled_us && !is_too_much {
                return;
            }
            self.turn_first();
        }
    }

    /// Buffers a statement that ended until its turn.
    fn buffer(&mut self, statement: T) {
        let scanned = statement.scanned();
        let session = &mut self.sessions[scanned.session.0 as usize];
        let length_us = scanned.duration_us.unwrap_or(0);
        let end_us = scanned.start_us.saturating_add_unsigned(length_us);
        self.latest_us = self.latest_us.max(end_us);
        let is_brought_back = length_us > LONG_US && !scanned.ends && !scanned.access_set.lock();
        let own_us = if is_brought_back { scanned.start_us + ROUNDING_US } else { self.latest_us };
        session.last_us = session.last_us.max(own_us);
        let at = (session.last_us, scanned.number);
        let end_began_us = scanned.ends.then_some(scanned.start_us);
        session.upcoming.push_back(UpcomingStatement {
            at,
            transaction: scanned.transaction,
            end_began_us,
        });
        let bytes = scanned.bytes;
        self.buffered_bytes += bytes;
        self.buffered.insert(at, BufferedStatement { bytes, statement });
    }

    fn turn_first(&mut self) {
        let Some((&at, buffered)) = self.buffered.first_key_value() else { return };
        let session = buffered.statement.scanned().session.0;
        self.turn_until(session, at, &mut Vec::new());
    }

    /// Gives the statements of a session that are kept their turns, up to one of them. Ends that
    /// any of them may have waited for come before it, but for those of sessions on whose
    /// statements it is being waited here.
    fn turn_until(&mut self, session: u32, last: TracePosition, busy: &mut Vec<u32>) {
        busy.push(session);
        while let Some(upcoming) = self.sessions[session as usize].upcoming.pop_front() {
            if let Some(buffered) = self.buffered.remove(&upcoming.at) {
                self.buffered_bytes -= buffered.bytes;
                self.turn_ends_before(&buffered.statement, busy);
                self.take(buffered.statement);
            }
            if upcoming.at == last {
                break;
            }
        }
        busy.pop();
    }

    /// Gives turns to the ends that a statement may have waited for.
    fn turn_ends_before(&mut self, statement: &T, busy: &mut Vec<u32>) {
        let scanned = statement.scanned();
        if !scanned.got_locks {
            return;
        }
        let length_us = scanned.duration_us.unwrap_or(0);
        let end_us = scanned.start_us.saturating_add_unsigned(length_us).saturating_add(LATE_US);
        for blocker in self.locks.blockers(scanned.session.0, scanned.access_set) {
            let transaction = self.locks.transaction(blocker);
            let upcoming = self.sessions[blocker as usize].upcoming.iter();
            let mut own = upcoming.take_while(|one| one.transaction == transaction);
            let end = own.find_map(|one| Some((one.at, one.end_began_us?)));
            if let Some((at, _)) = end.filter(|&(_, began_us)| began_us <= end_us) {
                if !busy.contains(&blocker) {
                    self.turn_until(blocker, at, busy);
                }
            }
        }
    }

    /// The trace has ended: all buffered statements get their turns.
    pub fn end(&mut self) {
        while !self.buffered.is_empty() {
            self.turn_first();
        }
        for session in 0..self.sessions.len() {
            self.settle_session(session as u32);
        }
    }

    /// The next statement with a turn.
    pub fn next_turn(&mut self) -> Option<T> {
        self.ready.pop_front()
    }

    /// Gives a statement its turn, unless it may have had to wait, or others before it.
    fn turn(&mut self, statement: T) {
        let scanned = statement.scanned();
        let (session, now_us) = (scanned.session.0, scanned.start_us);
        let locks_for_long = scanned.transaction > 0
            && !scanned.ends
            && scanned.got_locks
            && scanned.access_set.lock();
        self.settle_session(session);
        self.close(now_us);
        let has_to_wait = self.is_locked(&statement)
            || self.waiting.iter().any(|&one| self.competes(one, &statement));
        if has_to_wait || locks_for_long {
            let deferred = Deferred { statement, is_open: !has_to_wait };
            self.sessions[session as usize].deferred = Some(deferred);
            self.waiting.push(session);
        } else {
            self.report(statement);
        }
    }

    /// Gives turns to statements whose question, who locked a row first, has been open for too
    /// long.
    fn close(&mut self, now_us: i64) {
        let since_us = now_us.saturating_sub(OPEN_US);
        let mut too_many = self.waiting.len().saturating_sub(OPEN_MAX);
        let is_over = |session: &u32| {
            let deferred = self.sessions[*session as usize].deferred.as_ref();
            deferred.filter(|one| one.is_open).is_some_and(|one| {
                let is_one_too_many = too_many > 0;
                too_many = too_many.saturating_sub(1);
                is_one_too_many || one.statement.scanned().start_us < since_us
            })
        };
        let over: Vec<u32> = self.waiting.iter().copied().filter(is_over).collect();
        over.into_iter().for_each(|session| self.settle_session(session));
    }

    /// A session continues: its statement that was taken to wait has its turn now.
    fn settle_session(&mut self, session: u32) {
        if let Some(deferred) = self.sessions[session as usize].deferred.take() {
            self.waiting.retain(|&waiter| waiter != session);
            self.report(deferred.statement);
        }
    }

    /// Whether a statement may have had to wait for another session's open transaction.
    fn is_locked(&self, statement: &T) -> bool {
        let scanned = statement.scanned();
        scanned.got_locks && !self.locks.blockers(scanned.session.0, scanned.access_set).is_empty()
    }

    /// Whether a session's waiting statement may want the same lock as another one.
    fn competes(&self, waiter: u32, statement: &T) -> bool {
        let scanned = statement.scanned();
        let waiting = self.sessions[waiter as usize].deferred.as_ref();
        let competes = |other: &T| compete(other.scanned().access_set, scanned.access_set);
        scanned.got_locks && waiting.is_some_and(|other| competes(&other.statement))
    }

    /// A statement has its turn, followed by those that became free.
    fn report(&mut self, statement: T) {
        let mut next = Some(statement);
        while let Some(statement) = next {
            if self.take(statement) {
                next = self.next_settled();
            } else {
                return;
            }
        }
    }

    /// Applies a statement and its locks; returns whether others may get their locks because of it.
    fn take(&mut self, statement: T) -> bool {
        let scanned = statement.scanned();
        let number = scanned.session.0;
        let before = self.locks.transaction(number);
        let has_ended = before != scanned.transaction || scanned.ends;
        let transaction = if scanned.ends { 0 } else { scanned.transaction };
        if has_ended {
            self.locks.begin(number, transaction);
        }
        if transaction > 0 && scanned.got_locks {
            self.locks.lock(number, scanned.access_set);
        }
        let is_over = has_ended || transaction == 0;
        self.ready.push_back(statement);
        is_over
    }

    /// Of those who wait the first one that got what it waited for, as far as known: who waits
    /// for the same as others shows by going on, and so does who locks rows for a transaction, as
    /// another one may still come before it.
    fn next_settled(&mut self) -> Option<T> {
        let is_settled = |&session: &u32| {
            let deferred = self.sessions[session as usize].deferred.as_ref();
            let mut others = self.waiting.iter().filter(|&&other| other != session);
            deferred.is_some_and(|Deferred { statement, is_open }| {
                !is_open
                    && statement.scanned().transaction == 0
                    && !self.is_locked(statement)
                    && !others.any(|&other| self.competes(other, statement))
            })
        };
        let session = self.waiting.iter().copied().find(is_settled)?;
        self.waiting.retain(|&waiter| waiter != session);
        self.sessions[session as usize].deferred.take().map(|deferred| deferred.statement)
    }
}

/// Whether two may want the same lock.
fn compete(one: &AccessSet, other: &AccessSet) -> bool {
    let anything = |one: &AccessSet, other: &AccessSet| {
        one.anything == Some(AccessMode::Write) && other.lock()
    };
    let competes =
        |object_access: &ObjectAccess| other.known.iter().any(|two| object_access.waits_for(two));
    anything(one, other) || anything(other, one) || one.known.iter().any(competes)
}
