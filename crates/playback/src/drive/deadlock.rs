//! Handles deadlocks between the order and the server's locks.
//!
//! A session is delayed by the order, or by the end of what was read. While others have statements
//! in progress, these may be waiting for its locks: the server is [queried](crate::locks), and
//! sessions that hold such locks continue with their transaction. When nothing at all is in
//! progress, or there has been no progress for very long, the session that waits for the least
//! continues without proof; so every playback ends. If all statements in progress wait for locks,
//! and the attempts did not help, that happens soon: first for sessions whose locks others wait
//! for.

use rustix::event::epoll::EventFlags;
use seatrial_pgwire::link::Link;
use seatrial_trace::captured::SessionId;

use super::PlaybackError;
use super::player::{OrderExemption, Release, Wait};
use super::run::{LOCK_MONITOR, PlaybackLoop};
use crate::locks::{Blocked, LockMonitor, LockQueryEvent, LockQueryTiming, QUERIED_MAX};
use crate::order::edges::LockWait;
use crate::order::statement_order::StatementOrder;
use crate::spec::Order;

/// The connection for queries of locks.
#[derive(Default)]
enum MonitorConnection {
    /// It was not needed yet.
    #[default]
    Unopened,
    /// It exists, or is being established.
    Open(Box<(Link, LockMonitor)>),
    /// It could not be established.
    Failed,
}

/// The state of the queries.
pub struct LockQueries {
    timing: LockQueryTiming,
    connection: MonitorConnection,
    /// Time of the last query.
    queried_ns: u64,
    /// Time of the next check.
    next_check_ns: Option<u64>,
    /// The session up to whose next statement more of the trace is read.
    read_for_session: Option<usize>,
    /// Time of the last query when all statements in progress waited for locks, and whose locks.
    all_blocked: Option<(u64, Vec<i32>)>,
}

impl LockQueries {
    /// With a given patience.
    pub fn new(order: Order, longest_ns: u64) -> LockQueries {
        let timing = match order {
            Order::Session | Order::Commit => LockQueryTiming::new(longest_ns),
            Order::Object | Order::Key | Order::Strict => LockQueryTiming::short(longest_ns),
        };
        LockQueries {
            timing,
            connection: MonitorConnection::Unopened,
            queried_ns: 0,
            next_check_ns: None,
            read_for_session: None,
            all_blocked: None,
        }
    }
}

impl PlaybackLoop {
    /// Time of the next check for progress.
    pub(super) fn next_check_ns(&self) -> Option<u64> {
        self.lock_queries.next_check_ns
    }

    /// Checks for progress, and resolves a deadlock.
    pub(super) fn resolve_deadlocks(&mut self) -> Result<(), PlaybackError> {
        self.lock_queries.next_check_ns = None;
        let now_ns = self.now_ns();
        if self.probe.gives_up_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.server_is_lost("the server does not answer");
        }
        self.read_up_to_statement(now_ns);
        let is_short = self.counts.starved > 0 && self.feed.is_full();
        if (self.counts.delayed == 0 && !is_short) || self.end.is_some() {
            return Ok(());
        }
        if self.is_stalled() {
            self.release_first(now_ns);
            return Ok(());
        }
        if self.counts.in_flight == 0 {
            return Ok(());
        }
        let LockQueries { timing, queried_ns, .. } = self.lock_queries;
        let moved_ns = self.counts.moved_ns;
        let all_blocked = self.lock_queries.all_blocked.take_if(|(at_ns, _)| *at_ns > moved_ns);
        let gives_up_ns = moved_ns + timing.release_after_ns(all_blocked.is_some());
        if now_ns >= gives_up_ns {
            self.counts.moved_ns = now_ns;
            let holders = all_blocked.map(|(_, holders)| holders).unwrap_or_default();
            if !self.release_holders(&holders, Release::Timeout) {
                self.release_first(now_ns);
            }
            return Ok(());
        }
        self.lock_queries.all_blocked = all_blocked;
        // A statement in progress that waits for no lock will complete by itself.
        let all_may_wait = self.counts.may_wait == self.counts.in_flight;
        let query_after_ns =
            if all_may_wait { timing.query_after_ns() } else { timing.longest_ns() };
        let quiet_ns = moved_ns.max(queried_ns) + query_after_ns;
        let oldest_ns = queried_ns + timing.longest_ns();
        let query_ns = quiet_ns.min(oldest_ns);
        if now_ns >= query_ns {
            self.lock_queries.queried_ns = now_ns;
            self.query_locks(now_ns >= quiet_ns);
        }
        let later_ns = self.lock_queries.queried_ns + query_after_ns;
        let next_ns = if now_ns >= query_ns { later_ns } else { query_ns };
        let check_ns = next_ns.min(gives_up_ns).max(now_ns + 1);
        let sooner_ns = self.lock_queries.next_check_ns.unwrap_or(check_ns);
        self.lock_queries.next_check_ns = Some(check_ns.min(sooner_ns));
        Ok(())
    }

    /// Whether no progress is possible: nothing is in progress, due, connecting or to be read.
    fn is_stalled(&self) -> bool {
        let may_be_read = !self.feed.is_full() && !self.feed.is_over();
        self.counts.in_flight == 0
            && self.counts.connecting == 0
            && self.timers.next_ns().is_none()
            && !self.probe.is_open()
            && !may_be_read
    }

    /// Whether sessions wait for a connection: they may be what others wait for, which no lock
    /// shows.
    fn is_at_connection_limit(&self) -> bool {
        !self.arrived.is_empty() && self.counts.open >= self.connections_max
    }

    /// Reads up to the next statement of the session for which more is read.
    fn read_up_to_statement(&mut self, now_ns: u64) {
        let Some(session) = self.lock_queries.read_for_session else { return };
        if self.players[session].wait != Wait::Feed || self.feed.is_over() {
            self.lock_queries.read_for_session = None;
        } else if self.feed.is_full() {
            self.feed.hold_more();
            self.lock_queries.next_check_ns = Some(now_ns);
        }
    }

    /// No lock explains it: the session that waits for the least continues, or more is read.
    fn release_first(&mut self, now_ns: u64) {
        // It may not be enough, and nothing else wakes the loop.
        self.lock_queries.next_check_ns = Some(now_ns);
        if self.counts.starved > 0 && self.feed.is_full() {
            self.delays.read_further += 1;
            self.feed.hold_more();
            return;
        }
        while let Some((position, session)) = self.order.as_mut().and_then(|one| one.pop_first()) {
            let session = session.0 as usize;
            let head = self.players[session].queue.front().map(|head| head.position);
            if head == Some(position) && matches!(self.players[session].wait, Wait::Order { .. }) {
                return self.release_early(session, Release::Timeout, false);
            }
        }
        self.release_first_id_wait();
    }

    /// Releases a session from the order: until the end of its transaction if others wait for its
    /// locks, as they last so long.
    fn release_early(&mut self, session: usize, why: Release, has_locks: bool) {
        let player = &mut self.players[session];
        let Some(head) = player.queue.front() else { return };
        let item = &head.pending.item;
        let transaction = if has_locks { item.transaction } else { 0 };
        player.exemption = Some(OrderExemption { number: item.number, transaction, why });
        if let Some(order) = &mut self.order {
            order.release(head.position, SessionId(session as u32));
        }
        self.release(session);
    }

    /// Queries the locks that sessions with a statement in progress wait for: all of them without
    /// any progress, else only slow ones.
    fn query_locks(&mut self, is_quiet: bool) {
        let since_ns = self.now_ns().saturating_sub(self.lock_queries.timing.longest_ns());
        let players = &self.players;
        let sent_ns = |session: u32| players[session as usize].open.map(|times| times.sent_ns);
        let open = self.by_process.iter();
        let mut open: Vec<(u64, i32)> = open
            .filter_map(|(&process, &session)| Some((sent_ns(session)?, process)))
            .filter(|&(sent_ns, _)| is_quiet || sent_ns <= since_ns)
            .collect();
        open.sort_unstable();
        open.truncate(QUERIED_MAX);
        let processes: Vec<i32> = open.into_iter().map(|(_, process)| process).collect();
        if processes.is_empty() {
            return;
        }
        match &mut self.lock_queries.connection {
            MonitorConnection::Unopened => self.connect_lock_monitor(),
            MonitorConnection::Open(connection) if connection.1.is_idle() => {
                self.out.clear();
                connection.1.query(&processes, &mut self.out);
                if connection.0.send(&self.epoll, &self.out).is_err() {
                    self.lock_queries.connection = MonitorConnection::Failed;
                }
            }
            MonitorConnection::Open(_) | MonitorConnection::Failed => {}
        }
    }

    fn connect_lock_monitor(&mut self) {
        let mut first = Vec::new();
        let monitor = LockMonitor::new(&self.login(), &mut first);
        self.lock_queries.connection =
            match Link::open(&self.address, &self.epoll, LOCK_MONITOR, &first) {
                Ok(Some(link)) => MonitorConnection::Open(Box::new((link, monitor))),
                // The next time.
                Ok(None) => MonitorConnection::Unopened,
                Err(_) => MonitorConnection::Failed,
            };
    }

    /// Handles an event of the query connection.
    pub(super) fn serve_lock_monitor(&mut self, flags: EventFlags) {
        let MonitorConnection::Open(connection) = &mut self.lock_queries.connection else { return };
        let (link, monitor) = &mut **connection;
        let room =
            if flags.contains(EventFlags::OUT) { link.send_unsent(&self.epoll) } else { Ok(()) };
        let event = match room.and_then(|()| link.read(&mut self.buffer)) {
            Ok(None) => return,
            Ok(Some(0)) | Err(_) => monitor.hung_up(),
            Ok(Some(read)) => {
                let mut out = Vec::new();
                let event = monitor.take_in(&self.buffer[..read], &mut out);
                let _ = link.send(&self.epoll, &out);
                event
            }
        };
        match event {
            LockQueryEvent::Nothing => {}
            // Whether it is still needed is decided at the next check.
            LockQueryEvent::Ready => self.lock_queries.queried_ns = 0,
            LockQueryEvent::Waits(waits) => {
                // The queried sessions may have been answered since, and others sent.
                let is_all_blocked = waits.len() >= self.counts.in_flight.min(QUERIED_MAX);
                let queried_ns = self.lock_queries.queried_ns;
                self.lock_queries.all_blocked =
                    is_all_blocked.then(|| (queried_ns, holders(&waits)));
                self.resolve_lock_waits(&waits);
            }
            LockQueryEvent::Unanswered(_) | LockQueryEvent::Gone(_) => {
                self.lock_queries.connection = MonitorConnection::Failed
            }
        }
    }

    /// Resolves waits for locks.
    fn resolve_lock_waits(&mut self, waits: &[Blocked]) {
        let released = self.release_id_waits(waits);
        let released = released
            | match &self.order {
                Some(StatementOrder::Edges(_)) if !self.is_at_connection_limit() => {
                    self.postpone_waiting(waits)
                }
                Some(_) | None => self.release_blockers(waits),
            };
        if released {
            self.lock_queries.timing.shorten();
        } else {
            self.lock_queries.timing.lengthen();
        }
    }

    /// Releases delayed sessions whose locks others wait for; returns whether any was.
    fn release_blockers(&mut self, waits: &[Blocked]) -> bool {
        let holders = holders(waits);
        let mut released = self.release_holders(&holders, Release::Lock);
        for process in holders {
            let session = self.by_process.get(&process).copied();
            released |= session.is_some_and(|session| self.read_ahead_for(session as usize));
        }
        released
    }

    /// Releases the delayed sessions of these processes; returns whether any was.
    fn release_holders(&mut self, processes: &[i32], why: Release) -> bool {
        let mut released = false;
        for process in processes {
            let Some(&session) = self.by_process.get(process) else { continue };
            let session = session as usize;
            if matches!(self.players[session].wait, Wait::Order { .. }) {
                released = true;
                self.release_early(session, why, true);
            }
        }
        released
    }

    /// Reads more of the trace if a session waits for an unread statement.
    fn read_ahead_for(&mut self, session: usize) -> bool {
        let lacks = self.players[session].wait == Wait::Feed && self.feed.is_full();
        if lacks {
            self.delays.read_further += 1;
            self.lock_queries.read_for_session = Some(session);
        }
        lacks
    }

    /// Reports to the order which sessions wait for locks of delayed ones; returns whether any
    /// does.
    fn postpone_waiting(&mut self, waits: &[Blocked]) -> bool {
        let mut found = Vec::new();
        let mut released = false;
        for (process, blocker) in
            waits.iter().flat_map(|one| one.by.iter().map(|&blocker| (one.process, blocker)))
        {
            let sessions = (self.by_process.get(&process), self.by_process.get(&blocker));
            let (Some(&waiter), Some(&blocker)) = sessions else { continue };
            released |= self.read_ahead_for(blocker as usize);
            found.extend(self.lock_wait(waiter, blocker));
        }
        released |= found.iter().any(|wait| wait.next.is_some());
        let Some(StatementOrder::Edges(order)) = &mut self.order else { return false };
        order.wait_for_locks(&found);
        released
    }

    /// A wait for a lock, if it has lasted since the query.
    fn lock_wait(&self, waiter: u32, blocker: u32) -> Option<LockWait> {
        let queried_ns = self.lock_queries.queried_ns;
        let waiting = &self.players[waiter as usize];
        waiting.open.filter(|open| open.sent_ns < queried_ns)?;
        let holder = &self.players[blocker as usize];
        let is_delayed = matches!(holder.wait, Wait::Order { .. } | Wait::Draw { .. });
        // A session that continued meanwhile may have other locks by now.
        let is_as_it_was = holder.ready_ns < queried_ns;
        let next = holder.queue.front().filter(|_| is_delayed && is_as_it_was);
        Some(LockWait {
            waiter: SessionId(waiter),
            position: waiting.queue.front()?.position,
            blocker: SessionId(blocker),
            next: next.map(|head| head.position),
            end: holder.end_of_transaction(),
        })
    }
}

/// Processes whose locks others wait for.
fn holders(waits: &[Blocked]) -> Vec<i32> {
    let mut processes: Vec<i32> = waits.iter().flat_map(|one| one.by.iter().copied()).collect();
    processes.sort_unstable();
    processes.dedup();
    processes
}
