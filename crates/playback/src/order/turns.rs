//! The turns of statements: one order of all of them, found in one scan over the trace.
//!
//! A trace is in the order in which statements began, or, where only their ends were logged, in
//! the order of these. Which of two had a row first shows differently in them, but in either what
//! a statement [may have had to wait for](super::locks) has its turn before it. So at its turn
//! every statement finds the locks free that it needs, whatever overlaps in a playback.
//!
//! | trace | who may want a row that a transaction still has |
//! |---|---|
//! | of starts | has its turn behind the transaction's end, unless its own session goes on before |
//! | of ends | has its turn where it ended, and an end that had begun by then has its before it |
//!
//! Of starts: a statement whose session went on before had not waited, and its turn is there at the
//! latest. Where several may have waited for the same row, the first to go on had it first; so a
//! statement that locks rows for a transaction, which is not visible before that ends, has its turn
//! a moment later, lest another one that began behind it comes before it. Durations need not be
//! known for that, and at most one statement of each session is kept.
//!
//! Of ends: who ended before the other one's end began had not waited. What took long and locks no
//! row is brought back to where it began: it saw what was there then. How far back that can be is
//! bounded by memory, and what comes too late for its place takes the next one.
//!
//! Turns keep the order of each session, and depend on nothing but the trace.

use std::collections::{BTreeMap, VecDeque};

use seatrial_trace::captured::SessionId;

use super::locks::Locks;
use super::object_access::{AccessMode, AccessSet, ObjectAccess};

/// A longer statement is placed where it began: logs have times in milliseconds.
const LONG_US: u64 = 2_000;

/// How long it may be open who of two that began at about the same time had a row first.
const OPEN_US: i64 = 1_000_000;

/// Of how many it may be open.
const OPEN_MAX: usize = 64;

/// What a logged time may be too early.
const BLUR_US: i64 = 1_000;

/// By how much an end may seem to have begun too late: a busy server runs others between the end of
/// a statement and its log line.
const LATE_US: i64 = 5_000;

/// Statements that are kept to be brought into order.
const KEPT_MAX: usize = 4_096;

/// Bytes of texts that are kept at most.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What a scan has to know of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Scanned<'a> {
    /// Its place in the trace.
    pub number: u64,
    /// Its session.
    pub session: SessionId,
    /// When it began, in microseconds since 1970.
    pub start_us: i64,
    /// How long it took, if that is known.
    pub duration_us: Option<u64>,
    /// Its transaction in that session; 0 for none.
    pub transaction: u64,
    /// Whether its transaction ends with it.
    pub ends: bool,
    /// Whether it got the locks that it wanted, as far as is known.
    pub got_locks: bool,
    /// What it touches.
    pub access_set: &'a AccessSet,
    /// Memory that it takes.
    pub bytes: usize,
}

/// A statement that has a turn.
pub trait Statement {
    /// What the scan has to know of it.
    fn scanned(&self) -> Scanned<'_>;
}

/// How the times of a trace go on from statement to statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    latest_start_us: Option<i64>,
    latest_end_us: i64,
    starts_back_us: u64,
    ends_back_us: u64,
    longest_us: u64,
}

impl Drift {
    /// Takes in the times of the next statement.
    pub fn see(&mut self, start_us: i64, duration_us: Option<u64>) {
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

    /// How much may have to be brought back, if the trace is in the order of ends.
    pub fn longest_us(&self) -> Option<u64> {
        let is_by_end = self.starts_back_us > LONG_US && self.starts_back_us > self.ends_back_us;
        is_by_end.then_some(self.longest_us)
    }
}

/// A statement that is kept until none can come that began before it.
#[derive(Debug)]
struct Kept<T> {
    bytes: usize,
    statement: T,
}

/// A time and a place in the trace.
type Moment = (i64, u64);

/// Those of a session that are kept: when, of which transaction, and which of them are ends that
/// began when.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Moment,
    transaction: u64,
    end_began_us: Option<i64>,
}

/// A statement that waits for its turn.
#[derive(Debug)]
struct Deferred<T> {
    statement: T,
    /// It need not have waited for anybody: it is open whether another one had its rows first.
    is_open: bool,
}

#[derive(Debug)]
struct Session<T> {
    /// When its last statement took place.
    last_us: i64,
    coming: VecDeque<Coming>,
    /// Its statement that waits for its turn.
    deferred: Option<Deferred<T>>,
}

/// A scan that gives statements their turns.
#[derive(Debug)]
pub struct Turns<T> {
    /// What may have to be brought back; None where the trace is in the order of starts.
    longest_us: Option<u64>,
    latest_us: i64,
    kept: BTreeMap<Moment, Kept<T>>,
    kept_bytes: usize,
    sessions: Vec<Session<T>>,
    locks: Locks,
    /// Sessions whose statements wait for their turns, those first that came first.
    waiting: Vec<u32>,
    /// Statements with a turn that are to be returned.
    reported: VecDeque<T>,
}

impl<T: Statement> Turns<T> {
    /// A scan over the statements of `sessions` sessions.
    pub fn new(sessions: usize, longest_us: Option<u64>) -> Turns<T> {
        let session = || Session { last_us: i64::MIN, coming: VecDeque::new(), deferred: None };
        Turns {
            longest_us,
            latest_us: i64::MIN,
            kept: BTreeMap::new(),
            kept_bytes: 0,
            sessions: (0..sessions).map(|_| session()).collect(),
            locks: Locks::new(sessions),
            waiting: Vec::new(),
            reported: VecDeque::new(),
        }
    }

    /// Takes in the next statement of the trace.
    pub fn take_in(&mut self, statement: T) {
        let Some(longest_us) = self.longest_us else { return self.turn(statement) };
        self.keep(statement);
        let settled_us = self.latest_us.saturating_sub_unsigned(longest_us);
        while let Some((at, _)) = self.kept.first_key_value() {
            let is_too_much = self.kept.len() > KEPT_MAX || self.kept_bytes > KEPT_BYTES_MAX;
            if at.0.saturating_add(LATE_US) > settled_us && !is_too_much {
                return;
            }
            self.turn_first();
        }
    }

    /// Keeps a statement that ended until its turn.
    fn keep(&mut self, statement: T) {
        let scanned = statement.scanned();
        let session = &mut self.sessions[scanned.session.0 as usize];
        let length_us = scanned.duration_us.unwrap_or(0);
        let end_us = scanned.start_us.saturating_add_unsigned(length_us);
        self.latest_us = self.latest_us.max(end_us);
        let is_brought_back = length_us > LONG_US && !scanned.ends && !scanned.access_set.lock();
        let own_us = if is_brought_back { scanned.start_us + BLUR_US } else { self.latest_us };
        session.last_us = session.last_us.max(own_us);
        let at = (session.last_us, scanned.number);
        let end_began_us = scanned.ends.then_some(scanned.start_us);
        session.coming.push_back(Coming { at, transaction: scanned.transaction, end_began_us });
        let bytes = scanned.bytes;
        self.kept_bytes += bytes;
        self.kept.insert(at, Kept { bytes, statement });
    }

    fn turn_first(&mut self) {
        let Some((&at, kept)) = self.kept.first_key_value() else { return };
        let session = kept.statement.scanned().session.0;
        self.turn_until(session, at, &mut Vec::new());
    }

    /// Gives the statements of a session that are kept their turns, up to one of them. Ends that
    /// any of them may have waited for come before it, but for those of sessions on whose
    /// statements it is being waited here.
    fn turn_until(&mut self, session: u32, last: Moment, busy: &mut Vec<u32>) {
        busy.push(session);
        while let Some(coming) = self.sessions[session as usize].coming.pop_front() {
            if let Some(kept) = self.kept.remove(&coming.at) {
                self.kept_bytes -= kept.bytes;
                self.turn_ends_before(&kept.statement, busy);
                self.take(kept.statement);
            }
            if coming.at == last {
                break;
            }
        }
        busy.pop();
    }

    /// Gives those ends their turns for which a statement may have waited.
    fn turn_ends_before(&mut self, statement: &T, busy: &mut Vec<u32>) {
        let scanned = statement.scanned();
        if !scanned.got_locks {
            return;
        }
        let length_us = scanned.duration_us.unwrap_or(0);
        let end_us = scanned.start_us.saturating_add_unsigned(length_us).saturating_add(LATE_US);
        for blocker in self.locks.blockers(scanned.session.0, scanned.access_set) {
            let transaction = self.locks.transaction(blocker);
            let coming = self.sessions[blocker as usize].coming.iter();
            let mut own = coming.take_while(|one| one.transaction == transaction);
            let end = own.find_map(|one| Some((one.at, one.end_began_us?)));
            if let Some((at, _)) = end.filter(|&(_, began_us)| began_us <= end_us) {
                if !busy.contains(&blocker) {
                    self.turn_until(blocker, at, busy);
                }
            }
        }
    }

    /// None follows: all that were kept have their turns.
    pub fn end(&mut self) {
        while !self.kept.is_empty() {
            self.turn_first();
        }
        for session in 0..self.sessions.len() {
            self.go_on(session as u32);
        }
    }

    /// The next statement that was given a turn.
    pub fn next_turn(&mut self) -> Option<T> {
        self.reported.pop_front()
    }

    /// Gives a statement its turn, unless it may have had to wait, or others before it.
    fn turn(&mut self, statement: T) {
        let scanned = statement.scanned();
        let (session, now_us) = (scanned.session.0, scanned.start_us);
        let locks_for_long = scanned.transaction > 0
            && !scanned.ends
            && scanned.got_locks
            && scanned.access_set.lock();
        self.go_on(session);
        self.close(now_us);
        let has_to_wait = self.is_locked(&statement)
            || self.waiting.iter().any(|&one| self.vies(one, &statement));
        if has_to_wait || locks_for_long {
            let deferred = Deferred { statement, is_open: !has_to_wait };
            self.sessions[session as usize].deferred = Some(deferred);
            self.waiting.push(session);
        } else {
            self.report(statement);
        }
    }

    /// Those have their turns of whom it has been open for too long who had their rows first.
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
        over.into_iter().for_each(|session| self.go_on(session));
    }

    /// A session goes on: the statement of it that was taken to wait has its turn now.
    fn go_on(&mut self, session: u32) {
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

    /// Whether a session's statement that waits may wait for a lock that another one wants as well.
    fn vies(&self, waiter: u32, statement: &T) -> bool {
        let scanned = statement.scanned();
        let waiting = self.sessions[waiter as usize].deferred.as_ref();
        let vies = |other: &T| vie(other.scanned().access_set, scanned.access_set);
        scanned.got_locks && waiting.is_some_and(|other| vies(&other.statement))
    }

    /// A statement has its turn, and those behind it for whom the way is free by then.
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

    /// Takes a statement as done, and its locks; whether others may have theirs for it.
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
        self.reported.push_back(statement);
        is_over
    }

    /// Of those who wait the first one that got what it waited for, as far as is known: who waits
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
                    && !others.any(|&other| self.vies(other, statement))
            })
        };
        let session = self.waiting.iter().copied().find(is_settled)?;
        self.waiting.retain(|&waiter| waiter != session);
        self.sessions[session as usize].deferred.take().map(|deferred| deferred.statement)
    }
}

/// Whether two may want the same lock.
fn vie(one: &AccessSet, other: &AccessSet) -> bool {
    let anything = |one: &AccessSet, other: &AccessSet| {
        one.anything == Some(AccessMode::Write) && other.lock()
    };
    let vies =
        |object_access: &ObjectAccess| other.known.iter().any(|two| object_access.waits_for(two));
    anything(one, other) || anything(other, one) || one.known.iter().any(vies)
}
