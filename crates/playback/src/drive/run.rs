//! The loop.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use seatrial_gauge::Clock;
use seatrial_pgwire::link::Address;
use seatrial_trace::TraceReader;

use super::deadlock::LockQueries;
use super::ids::IdMapping;
use super::player::{AnsweredStatement, Player, Wait};
use super::sessions::Probe;
use super::usage::{self, Processor};
use super::{PlaybackError, PlaybackProgress, SharedProgress, rules};
use crate::accounting::{AccountingSettings, StatementAccounting};
use crate::connection::{ConnectionEvent, Login};
use crate::feed::{Feed, Rule, Stages};
use crate::order::scan::Scan;
use crate::order::statement_order::StatementOrder;
use crate::pace::{Schedule, Timers};
use crate::played::{OrderDelays, PlaybackEnd, ReplayResult, Sessions};
use crate::rules::Rules;
use crate::rules::session_objects::SessionObjects;
use crate::spec::PlaybackSpec;
use crate::survey::Survey;

const READ_BYTES: usize = 64 << 10;

const EVENTS_MAX: usize = 64;

/// Maximum number of distinguished fingerprints.
const TEXTS_MAX: usize = 2_000;

/// Interval of memory readings.
const MEMORY_EVERY_NS: u64 = 250_000_000;

/// Event sources other than sessions.
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// The connection that queries locks.
pub const LOCK_MONITOR: u64 = u64::MAX - 2;
/// The connection that probes whether the server is there.
pub const PROBE: u64 = u64::MAX - 3;
/// Those that cancel statements.
pub const CANCEL: u64 = u64::MAX - 4;

pub struct PlaybackLoop {
    pub(super) spec: PlaybackSpec,
    pub(super) progress: Arc<SharedProgress>,
    clock: Clock,
    zero_ns: u64,
    start_unix_ns: u64,
    /// How late after the agreed moment it began.
    pub(super) start_lateness_ns: u64,
    pub(super) epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    timer: OwnedFd,
    /// When the timer will wake the loop.
    armed_ns: Option<u64>,
    pub(super) address: Address,
    pub(super) survey: Survey,
    pub(super) schedule: Schedule,
    /// The order across sessions, if any.
    pub(super) order: Option<StatementOrder>,
    /// Ids drawn now, if they are mapped.
    pub(super) ids: Option<IdMapping>,
    pub(super) players: Vec<Player>,
    pub(super) timers: Timers,
    /// Sessions that may connect, in the order of the capture.
    pub(super) arrived: BinaryHeap<Reverse<(i64, u32)>>,
    pub(super) feed: Feed,
    /// For sessions with a failed statement: what was read of them assumed its success.
    pub(super) rules: Rules,
    pub(super) accounting: StatementAccounting,
    /// Answered statements to be counted.
    pub(super) ended: Vec<AnsweredStatement>,
    pub(super) buffer: Vec<u8>,
    pub(super) out: Vec<u8>,
    pub(super) connection_events: Vec<ConnectionEvent>,
    pub(super) connections_max: usize,
    /// Sessions by the number of their server process.
    pub(super) by_process: HashMap<i32, u32>,
    pub(super) counts: LoopCounters,
    pub(super) delays: OrderDelays,
    pub(super) sessions: Sessions,
    pub(super) lock_queries: LockQueries,
    pub(super) probe: Probe,
    /// Set to end it.
    pub(super) end: Option<PlaybackEnd>,
    pub(super) memory_bytes_max: u64,
    memory_seen_ns: u64,
    processor: Processor,
    run_delay_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCounters {
    /// Statements that were taken from the feed.
    pub taken: u64,
    /// Statements of the trace that were not answered, skipped or given up.
    pub left: u64,
    pub in_flight: usize,
    /// Those of them that may wait for a row lock.
    pub may_wait: usize,
    /// Sessions that are connected or connecting.
    pub open: usize,
    pub connecting: usize,
    /// Sessions whose next statement was not read yet.
    pub starved: usize,
    /// Sessions delayed by the order.
    pub delayed: usize,
    /// When a statement was last sent or answered.
    pub moved_ns: u64,
    /// How late the last statement was sent.
    pub lag_ns: u64,
}

impl PlaybackLoop {
    /// Counts the statements of the trace, and starts to read it.
    ///
    /// # Errors
    ///
    /// When the trace cannot be read, the address is invalid, or a system call fails.
    pub fn prepare(
        spec: PlaybackSpec,
        progress: Arc<SharedProgress>,
        wake: Arc<OwnedFd>,
    ) -> Result<PlaybackLoop, PlaybackError> {
        let survey = survey(&spec)?;
        let address = Address::of(&spec.server)
            .map_err(|source| PlaybackError::Address { host: spec.server.host.clone(), source })?;
        let until_us = spec.until_us.map(|until| survey.first_us.saturating_add_unsigned(until));
        let rules = rules(&spec)?;
        let rule = rule(rules, survey.sessions.len());
        let captured_open_max = survey.captured_open_max;
        let connections_max = spec.connections_max.unwrap_or(captured_open_max as usize).max(1);
        let sessions = survey.sessions.len();
        let scan = Scan::of(spec.order, spec.catalog.as_ref(), sessions, &survey.drift);
        let (ids, binder) = IdMapping::of(&spec, &survey)?.unzip();
        let stages = Stages { until_us, rule, scan, binder };
        let feed = Feed::start(&spec.trace, &survey, connections_max, stages, wake.clone())?;
        let (epoll, timer) = descriptors(&wake)
            .map_err(|source| PlaybackError::System { what: "an epoll and a timer", source })?;
        let clock = Clock::new(kernel_trusts_tsc());
        let accounting = StatementAccounting::new(settings(&spec, &survey));
        let players = players(&survey);
        Ok(PlaybackLoop {
            progress,
            clock,
            zero_ns: 0,
            start_unix_ns: 0,
            start_lateness_ns: 0,
            epoll,
            wake,
            timer,
            armed_ns: None,
            address,
            schedule: Schedule::new(spec.speed, spec.pace, survey.first_us),
            order: StatementOrder::of(spec.order, sessions),
            ids,
            players,
            timers: Timers::default(),
            arrived: BinaryHeap::new(),
            feed,
            rules,
            accounting,
            ended: Vec::new(),
            buffer: vec![0; READ_BYTES],
            out: Vec::with_capacity(READ_BYTES),
            connection_events: Vec::new(),
            connections_max,
            by_process: HashMap::new(),
            counts: LoopCounters { left: survey.statements, ..LoopCounters::default() },
            delays: OrderDelays { mode: spec.order, ..OrderDelays::default() },
            sessions: Sessions {
                captured: survey.sessions_played,
                captured_open_max,
                never_ended: survey.never_ended,
                ..Sessions::default()
            },
            lock_queries: LockQueries::new(spec.order, spec.lock_patience_ms * 1_000_000),
            probe: Probe::default(),
            end: None,
            memory_bytes_max: 0,
            memory_seen_ns: 0,
            processor: Processor::default(),
            run_delay_ns: 0,
            survey,
            spec,
        })
    }

    /// Replays it.
    ///
    /// # Errors
    ///
    /// When the trace is damaged, a system call fails, or the statements do not add up.
    pub fn play(mut self) -> Result<ReplayResult, PlaybackError> {
        if self.spec.awaits_start {
            self.start_lateness_ns = self.progress.await_start();
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.start_unix_ns = since_1970.as_nanos() as u64;
        self.zero_ns = self.clock.now_ns();
        self.processor = Processor::of_thread();
        self.run_delay_ns = usage::run_delay_ns();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let end = loop {
            let now_ns = self.now_ns();
            let has_more = self.take_batch(now_ns)?;
            self.wake_due();
            self.admit();
            self.release_delayed();
            self.resolve_deadlocks()?;
            self.publish(now_ns);
            if self.progress.is_stopped() {
                break PlaybackEnd::Interrupted;
            }
            if let Some(end) = self.end.take() {
                break end;
            }
            if self.is_complete() {
                break PlaybackEnd::Complete;
            }
            self.wait(&mut events, has_more.then_some(0))?;
        };
        self.drain(&mut events)?;
        self.finish(end)
    }

    /// Now, from the start of the playback.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.zero_ns)
    }

    pub(super) fn start_unix_ns(&self) -> u64 {
        self.start_unix_ns
    }

    /// What the loop's thread has used since the start: CPU time, and time runnable without a CPU.
    pub(super) fn used(&self) -> (Processor, u64) {
        let run_delay_ns = usage::run_delay_ns().saturating_sub(self.run_delay_ns);
        (Processor::of_thread().since(self.processor), run_delay_ns)
    }

    /// The parameters of a session's connection.
    pub(super) fn login(&self) -> Login<'_> {
        let server = &self.spec.server;
        Login {
            user: &server.user,
            database: &server.database,
            password: server.password.as_deref(),
            application: "seatrial",
            read_only: self.spec.read_only,
            options: None,
        }
    }

    /// Whether nothing is left, even if the trace has fewer statements than were counted.
    fn is_complete(&self) -> bool {
        let counts = &self.counts;
        let is_quiet = counts.in_flight == 0 && !self.probe.is_open();
        let lacks = || self.feed.is_over() && self.players.iter().all(|one| one.queue.is_empty());
        is_quiet && (counts.left == 0 || (self.feed.is_over() && counts.connecting == 0 && lacks()))
    }

    /// Waits until an event or due time, up to a timeout, and handles events.
    pub(super) fn wait(
        &mut self,
        events: &mut Vec<Event>,
        at_most_ns: Option<u64>,
    ) -> Result<(), PlaybackError> {
        let timeout = if at_most_ns == Some(0) || !self.arm(at_most_ns)? {
            Some(Timespec { tv_sec: 0, tv_nsec: 0 })
        } else {
            None
        };
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(refused("an epoll")(error.into())),
        }
        for event in &*events {
            if let Some(player) = self.players.get(event.data.u64() as usize) {
                player.fetch();
            }
        }
        for event in events.drain(..) {
            match event.data.u64() {
                WAKE => {
                    // It only counts how often it was woken.
                    let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
                }
                TIMER => self.armed_ns = None,
                LOCK_MONITOR => self.serve_lock_monitor(event.flags),
                PROBE => self.serve_probe(event.flags),
                // The server hangs up without a message.
                CANCEL => {}
                session => self.serve(session as usize, event.flags),
            }
        }
        Ok(())
    }

    /// Sets the timer to the next due time; false when that has passed.
    fn arm(&mut self, at_most_ns: Option<u64>) -> Result<bool, PlaybackError> {
        let now_ns = self.now_ns();
        let latest_ns = at_most_ns.map(|at_most_ns| now_ns + at_most_ns);
        let wanted =
            [self.timers.next_ns(), self.next_check_ns(), self.probe.gives_up_ns(), latest_ns];
        let Some(next_ns) = wanted.into_iter().flatten().min() else { return Ok(true) };
        if next_ns <= now_ns {
            return Ok(false);
        }
        if self.armed_ns.is_some_and(|armed_ns| armed_ns <= next_ns && armed_ns > now_ns) {
            return Ok(true);
        }
        let in_ns = next_ns - now_ns;
        let value = Timespec {
            tv_sec: (in_ns / 1_000_000_000) as i64,
            tv_nsec: (in_ns % 1_000_000_000) as _,
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)
            .map_err(|error| refused("a timer")(error.into()))?;
        self.armed_ns = Some(next_ns);
        Ok(true)
    }

    /// Continues with sessions whose due time has come.
    fn wake_due(&mut self) {
        let now_ns = self.now_ns();
        while let Some(session) = self.timers.pop(now_ns) {
            let player = &mut self.players[session as usize];
            if player.wait == Wait::Time {
                player.wait = Wait::Nothing;
            }
            self.on_time(session as usize);
        }
    }

    fn publish(&mut self, now_ns: u64) {
        let totals = self.accounting.totals();
        self.progress.publish(PlaybackProgress {
            elapsed_ns: now_ns,
            answered: totals.ok + totals.failed,
            failed: totals.failed,
            skipped: totals.skipped,
            captured_total: self.survey.statements,
            lag_ns: self.counts.lag_ns,
            open: self.counts.open as u64,
        });
        if now_ns >= self.memory_seen_ns {
            self.memory_seen_ns = now_ns + MEMORY_EVERY_NS;
            self.memory_bytes_max = self.memory_bytes_max.max(usage::memory_bytes());
        }
    }
}

/// The replayed part of the trace.
fn survey(spec: &PlaybackSpec) -> Result<Survey, PlaybackError> {
    Ok(Survey::of(&TraceReader::open(&spec.trace)?, &spec.databases, spec.until_us, spec.part)?)
}

fn settings(spec: &PlaybackSpec, survey: &Survey) -> AccountingSettings {
    AccountingSettings {
        slice_ns: spec.slice_ms * 1_000_000,
        stall_threshold_ns: spec.stall_threshold_ms * 1_000_000,
        start_us: survey.first_us,
        speed: spec.speed,
        texts_max: TEXTS_MAX,
    }
}

/// One for each session, before anything is sent.
fn players(survey: &Survey) -> Vec<Player> {
    let left = |statements| Player { left: statements, ..Player::default() };
    survey.sessions.iter().map(|session| left(session.statements)).collect()
}

/// The rules that decide whether a statement is sent.
fn rule(rules: Rules, sessions: usize) -> Rule {
    let mut objects = vec![SessionObjects::default(); sessions];
    Box::new(move |item| rules.rule(item, &mut objects[item.session.0 as usize]))
}

fn descriptors(wake: &OwnedFd) -> io::Result<(OwnedFd, OwnedFd)> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let timer =
        timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    epoll::add(&epoll, wake, EventData::new_u64(WAKE), EventFlags::IN)?;
    // Each setting of the timer makes an edge of its own, so it need not be read.
    let flags = EventFlags::IN | EventFlags::ET;
    epoll::add(&epoll, &timer, EventData::new_u64(TIMER), flags)?;
    Ok((epoll, timer))
}

pub(super) fn refused(what: &'static str) -> impl Fn(io::Error) -> PlaybackError {
    move |source| PlaybackError::System { what, source }
}

/// Whether the kernel's own clock source is the processor's counter.
fn kernel_trusts_tsc() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    fs::read_to_string(path).is_ok_and(|source| source.trim() == "tsc")
}
