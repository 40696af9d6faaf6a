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
use super::player::{Pass, Release, Wait};
use super::run::{Run, WATCHER};
use crate::locks::{ASKED_MAX, Blocked, Heard, Patience, Watcher};
use crate::order::edges::LockWait;
use crate::order::keeper::Keeper;
use crate::spec::Order;

/// The connection for queries of locks.
#[derive(Default)]
enum Door {
    /// It was not needed yet.
    #[default]
    Closed,
    /// It exists, or is being established.
    Open(Box<(Link, Watcher)>),
    /// It could not be established.
    Shut,
}

/// The state of the queries.
pub struct Asking {
    patience: Patience,
    door: Door,
    /// Time of the last query.
    requested_ns: u64,
    /// Time of the next check.
    next_look_ns: Option<u64>,
    /// The session up to whose next statement more of the trace is read.
    reads_for: Option<usize>,
    /// Time of the last query when all statements in progress waited for locks, and whose locks.
    jammed: Option<(u64, Vec<i32>)>,
}

impl Asking {
    /// With a given patience.
    pub fn new(order: Order, longest_ns: u64) -> Asking {
        let patience = match order {
            Order::Session | Order::Commit => Patience::new(longest_ns),
            Order::Object | Order::Key | Order::Strict => Patience::short(longest_ns),
        };
        Asking {
            patience,
            door: Door::Closed,
            requested_ns: 0,
            next_look_ns: None,
            reads_for: None,
            jammed: None,
        }
    }
}

impl Run {
    /// Time of the next check for progress.
    pub(super) fn next_look_ns(&self) -> Option<u64> {
        self.asking.next_look_ns
    }

    /// Checks for progress, and resolves a deadlock.
    pub(super) fn unstick(&mut self) -> Result<(), PlaybackError> {
        self.asking.next_look_ns = None;
        let now_ns = self.now_ns();
        if self.probe.gives_up_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.server_is_lost("the server does not answer");
        }
        self.read_for_one(now_ns);
        let is_short = self.counts.starved > 0 && self.feed.is_full();
        if (self.counts.held == 0 && !is_short) || self.end.is_some() {
            return Ok(());
        }
        if self.is_at_rest() {
            self.let_somebody_go(now_ns);
            return Ok(());
        }
        if self.counts.in_flight == 0 {
            return Ok(());
        }
        let Asking { patience, requested_ns, .. } = self.asking;
        let moved_ns = self.counts.moved_ns;
        let jammed = self.asking.jammed.take_if(|(at_ns, _)| *at_ns > moved_ns);
        let gives_up_ns = moved_ns + patience.gives_up_after_ns(jammed.is_some());
        if now_ns >= gives_up_ns {
            self.counts.moved_ns = now_ns;
            let holders = jammed.map(|(_, holders)| holders).unwrap_or_default();
            if !self.free_holders(&holders, Release::Patience) {
                self.let_somebody_go(now_ns);
            }
            return Ok(());
        }
        self.asking.jammed = jammed;
        // A statement in progress that waits for no lock will complete by itself.
        let all_may_wait = self.counts.may_wait == self.counts.in_flight;
        let asks_after_ns =
            if all_may_wait { patience.asks_after_ns() } else { patience.longest_ns() };
        let quiet_ns = moved_ns.max(requested_ns) + asks_after_ns;
        let oldest_ns = requested_ns + patience.longest_ns();
        let asks_ns = quiet_ns.min(oldest_ns);
        if now_ns >= asks_ns {
            self.asking.requested_ns = now_ns;
            self.ask(now_ns >= quiet_ns);
        }
        let later_ns = self.asking.requested_ns + asks_after_ns;
        let next_ns = if now_ns >= asks_ns { later_ns } else { asks_ns };
        let looks_ns = next_ns.min(gives_up_ns).max(now_ns + 1);
        let sooner_ns = self.asking.next_look_ns.unwrap_or(looks_ns);
        self.asking.next_look_ns = Some(looks_ns.min(sooner_ns));
        Ok(())
    }

    /// Whether no progress is possible: nothing is in progress, due, connecting or to be read.
    fn is_at_rest(&self) -> bool {
        let may_be_read = !self.feed.is_full() && !self.feed.is_over();
        self.counts.in_flight == 0
            && self.counts.entering == 0
            && self.timers.next_ns().is_none()
            && !self.probe.is_open()
            && !may_be_read
    }

    /// Whether sessions wait for a connection: they may be what others wait for, which no lock
    /// shows.
    fn shuts_out(&self) -> bool {
        !self.arrived.is_empty() && self.counts.open >= self.connections_max
    }

    /// Reads up to the next statement of the session for which more is read.
    fn read_for_one(&mut self, now_ns: u64) {
        let Some(session) = self.asking.reads_for else { return };
        if self.players[session].wait != Wait::Feed || self.feed.is_over() {
            self.asking.reads_for = None;
        } else if self.feed.is_full() {
            self.feed.hold_more();
            self.asking.next_look_ns = Some(now_ns);
        }
    }

    /// No lock explains it: the session that waits for the least continues, or more is read.
    fn let_somebody_go(&mut self, now_ns: u64) {
        // It may not be enough, and nothing else wakes the loop.
        self.asking.next_look_ns = Some(now_ns);
        if self.counts.starved > 0 && self.feed.is_full() {
            self.held.read_further += 1;
            self.feed.hold_more();
            return;
        }
        while let Some((place, session)) = self.order.as_mut().and_then(|one| one.pop_first()) {
            let session = session.0 as usize;
            let head = self.players[session].queue.front().map(|head| head.place);
            if head == Some(place) && matches!(self.players[session].wait, Wait::Order { .. }) {
                return self.release_early(session, Release::Patience, false);
            }
        }
        self.release_undrawn();
    }

    /// Releases a session from the order: until the end of its transaction if others wait for its
    /// locks, as they last so long.
    fn release_early(&mut self, session: usize, why: Release, has_locks: bool) {
        let player = &mut self.players[session];
        let Some(head) = player.queue.front() else { return };
        let item = &head.fed.item;
        let transaction = if has_locks { item.transaction } else { 0 };
        player.pass = Some(Pass { number: item.number, transaction, why });
        if let Some(order) = &mut self.order {
            order.release(head.place, SessionId(session as u32));
        }
        self.release(session);
    }

    /// Queries the locks that sessions with a statement in progress wait for: all of them without
    /// any progress, else only slow ones.
    fn ask(&mut self, is_quiet: bool) {
        let since_ns = self.now_ns().saturating_sub(self.asking.patience.longest_ns());
        let players = &self.players;
        let sent_ns = |session: u32| players[session as usize].open.map(|times| times.sent_ns);
        let open = self.by_process.iter();
        let mut open: Vec<(u64, i32)> = open
            .filter_map(|(&process, &session)| Some((sent_ns(session)?, process)))
            .filter(|&(sent_ns, _)| is_quiet || sent_ns <= since_ns)
            .collect();
        open.sort_unstable();
        open.truncate(ASKED_MAX);
        let processes: Vec<i32> = open.into_iter().map(|(_, process)| process).collect();
        if processes.is_empty() {
            return;
        }
        match &mut self.asking.door {
            Door::Closed => self.open_door(),
            Door::Open(door) if door.1.is_idle() => {
                self.out.clear();
                door.1.ask(&processes, &mut self.out);
                if door.0.send(&self.epoll, &self.out).is_err() {
                    self.asking.door = Door::Shut;
                }
            }
            Door::Open(_) | Door::Shut => {}
        }
    }

    fn open_door(&mut self) {
        let mut first = Vec::new();
        let watcher = Watcher::new(&self.login(), &mut first);
        self.asking.door = match Link::open(&self.address, &self.epoll, WATCHER, &first) {
            Ok(Some(link)) => Door::Open(Box::new((link, watcher))),
            // The next time.
            Ok(None) => Door::Closed,
            Err(_) => Door::Shut,
        };
    }

    /// Handles an event of the query connection.
    pub(super) fn serve_watcher(&mut self, flags: EventFlags) {
        let Door::Open(door) = &mut self.asking.door else { return };
        let (link, watcher) = &mut **door;
        let room =
            if flags.contains(EventFlags::OUT) { link.send_unsent(&self.epoll) } else { Ok(()) };
        let heard = match room.and_then(|()| link.read(&mut self.buffer)) {
            Ok(None) => return,
            Ok(Some(0)) | Err(_) => watcher.hung_up(),
            Ok(Some(read)) => {
                let mut out = Vec::new();
                let heard = watcher.take_in(&self.buffer[..read], &mut out);
                let _ = link.send(&self.epoll, &out);
                heard
            }
        };
        match heard {
            Heard::Nothing => {}
            // Whether it is still needed is decided at the next check.
            Heard::Ready => self.asking.requested_ns = 0,
            Heard::Waits(waits) => {
                // The queried sessions may have been answered since, and others sent.
                let is_jammed = waits.len() >= self.counts.in_flight.min(ASKED_MAX);
                let requested_ns = self.asking.requested_ns;
                self.asking.jammed = is_jammed.then(|| (requested_ns, holders(&waits)));
                self.help(&waits);
            }
            Heard::Unanswered(_) | Heard::Gone(_) => self.asking.door = Door::Shut,
        }
    }

    /// Resolves waits for locks.
    fn help(&mut self, waits: &[Blocked]) {
        let helped = self.release_draws(waits);
        let helped = helped
            | match &self.order {
                Some(Keeper::Edges(_)) if !self.shuts_out() => self.set_waiting_aside(waits),
                Some(_) | None => self.free_blockers(waits),
            };
        if helped {
            self.asking.patience.helped();
        } else {
            self.asking.patience.was_in_vain();
        }
    }

    /// Releases delayed sessions whose locks others wait for; returns whether any was.
    fn free_blockers(&mut self, waits: &[Blocked]) -> bool {
        let holders = holders(waits);
        let mut helped = self.free_holders(&holders, Release::Lock);
        for process in holders {
            let session = self.by_process.get(&process).copied();
            helped |= session.is_some_and(|session| self.reads_for(session as usize));
        }
        helped
    }

    /// Releases the delayed sessions of these processes; returns whether any was.
    fn free_holders(&mut self, processes: &[i32], why: Release) -> bool {
        let mut helped = false;
        for process in processes {
            let Some(&session) = self.by_process.get(process) else { continue };
            let session = session as usize;
            if matches!(self.players[session].wait, Wait::Order { .. }) {
                helped = true;
                self.release_early(session, why, true);
            }
        }
        helped
    }

    /// Reads more of the trace if a session waits for an unread statement.
    fn reads_for(&mut self, session: usize) -> bool {
        let lacks = self.players[session].wait == Wait::Feed && self.feed.is_full();
        if lacks {
            self.held.read_further += 1;
            self.asking.reads_for = Some(session);
        }
        lacks
    }

    /// Reports to the order which sessions wait for locks of delayed ones; returns whether any
    /// does.
    fn set_waiting_aside(&mut self, waits: &[Blocked]) -> bool {
        let mut found = Vec::new();
        let mut helped = false;
        for (process, blocker) in
            waits.iter().flat_map(|one| one.by.iter().map(|&blocker| (one.process, blocker)))
        {
            let sessions = (self.by_process.get(&process), self.by_process.get(&blocker));
            let (Some(&waiter), Some(&blocker)) = sessions else { continue };
            helped |= self.reads_for(blocker as usize);
            found.extend(self.lock_wait(waiter, blocker));
        }
        helped |= found.iter().any(|wait| wait.next.is_some());
        let Some(Keeper::Edges(order)) = &mut self.order else { return false };
        order.wait_for_locks(&found);
        helped
    }

    /// A wait for a lock, if it has lasted since the query.
    fn lock_wait(&self, waiter: u32, blocker: u32) -> Option<LockWait> {
        let requested_ns = self.asking.requested_ns;
        let waiting = &self.players[waiter as usize];
        waiting.open.filter(|open| open.sent_ns < requested_ns)?;
        let holder = &self.players[blocker as usize];
        let is_held = matches!(holder.wait, Wait::Order { .. } | Wait::Draw { .. });
        // A session that continued meanwhile may have other locks by now.
        let is_as_it_was = holder.ready_ns < requested_ns;
        let next = holder.queue.front().filter(|_| is_held && is_as_it_was);
        Some(LockWait {
            waiter: SessionId(waiter),
            place: waiting.queue.front()?.place,
            blocker: SessionId(blocker),
            next: next.map(|head| head.place),
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
