//! The loop that sends statements when they are due and reads the answers, in its own thread that
//! can be monitored and ended.
//!
//! One epoll has all connections, so that an answer and the statement after it cost one wait, one
//! read and one write; established ones are edge-triggered, which saves a check of each after its
//! read. A timer (timerfd) wakes it when something is due: a timeout of epoll is in milliseconds,
//! unless a kernel is newer than some that are in use.
//!
//! | part | rule |
//! |---|---|
//! | `run` | the loop |
//! | `sessions` | sessions connect, end and are lost |
//! | `statements` | statements are read, sent and answered |
//! | `ids` | ids that are drawn, waited for and rewritten |
//! | `deadlock` | deadlocks between the order and locks |
//! | `shutdown` | what is open at the end, and the results |
//! | `player` | a session |
//! | `usage` | what the driver itself uses |

mod deadlock;
mod ids;
mod player;
mod run;
mod sessions;
mod shutdown;
mod statements;
pub(crate) mod usage;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use seatrial_gauge::clock::monotonic_ns;
use seatrial_gauge::user_error::{ErrorClass, UserError};
use seatrial_gauge::{Job, lock};
use seatrial_trace::TraceError;

use super::accounting::AccountingMismatch;
use super::played::ReplayResult;
use super::rewrite::Mode;
use super::rules::Rules;
use super::spec::{Order, PlaybackSpec};
use run::PlaybackLoop;

/// Why a trace could not be replayed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum PlaybackError {
    #[error("what is to be played is malformed: {0}")]
    Spec(String),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("{host} is not a server's address: {source}")]
    Address { host: String, source: io::Error },
    #[error("the system refuses {what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error(transparent)]
    AccountingMismatch(#[from] AccountingMismatch),
    #[error("{0}; this is a defect of Seatrial, please report it")]
    Defect(String),
}

impl PlaybackError {
    /// Returns it as shown to a user.
    pub fn explained(&self) -> UserError {
        let seen = format!("The trace cannot be played: {self}");
        match self {
            PlaybackError::Trace(_) => UserError::new(
                ErrorClass::Target,
                seen,
                "The trace is damaged, or was changed after it was written",
                "Try it with `seatrial sql show`",
            ),
            PlaybackError::Address { .. } => UserError::new(
                ErrorClass::Target,
                seen,
                "The server's name leads nowhere",
                "Try the server with `psql`",
            ),
            PlaybackError::System { .. } => UserError::new(
                ErrorClass::Target,
                seen,
                "A limit of this session (open files, threads, memory) is reached",
                "See `ulimit -n`, or play with fewer --connections",
            ),
            PlaybackError::Spec(_)
            | PlaybackError::AccountingMismatch(_)
            | PlaybackError::Defect(_) => UserError::defect(self.to_string()),
        }
    }
}

/// The progress of a playback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaybackProgress {
    /// Time since it began to send.
    pub elapsed_ns: u64,
    /// Statements that were answered, including by an error.
    pub answered: u64,
    /// Those answered by an error, or never.
    pub failed: u64,
    /// Statements that were skipped.
    pub skipped: u64,
    /// Statements in the trace; 0 until they are counted.
    pub captured_total: u64,
    /// How late the last statement was sent; 0 at maximum speed.
    pub lag_ns: u64,
    /// Sessions that are connected.
    pub open: u64,
}

/// Interval at which a playback that awaits its start checks for it.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// State shared by the loop and its owner.
#[derive(Debug, Default)]
pub struct SharedProgress {
    progress: Mutex<PlaybackProgress>,
    is_ready: AtomicBool,
    /// The agreed start, by `CLOCK_MONOTONIC`; 0 until there is one.
    start_at_ns: AtomicU64,
    is_stopped: AtomicBool,
}

impl SharedProgress {
    fn publish(&self, progress: PlaybackProgress) {
        *lock(&self.progress) = progress;
    }

    /// Waits for the agreed start; returns how late that ended.
    fn await_start(&self) -> u64 {
        self.is_ready.store(true, Ordering::Release);
        loop {
            let (start_at_ns, now_ns) = (self.start_at_ns.load(Ordering::Acquire), monotonic_ns());
            let is_over = start_at_ns > 0 && now_ns >= start_at_ns;
            if is_over || self.is_stopped() {
                return now_ns.saturating_sub(start_at_ns) * u64::from(is_over);
            }
            let left = Duration::from_nanos(start_at_ns.saturating_sub(now_ns));
            thread::sleep(if start_at_ns > 0 { left.min(POLL_INTERVAL) } else { POLL_INTERVAL });
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// A trace that is being replayed.
#[derive(Debug)]
pub struct Playback {
    progress: Arc<SharedProgress>,
    wake: Arc<OwnedFd>,
    job: Job<Result<ReplayResult, PlaybackError>>,
}

impl Playback {
    /// Starts a playback in its own thread.
    ///
    /// # Errors
    ///
    /// When the request is invalid, or no thread can be started.
    pub fn start(spec: PlaybackSpec) -> Result<Playback, PlaybackError> {
        check(&spec)?;
        let system = |what| move |source| PlaybackError::System { what, source };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(io::Error::from).map_err(system("an eventfd"))?);
        let progress = Arc::new(SharedProgress::default());
        let (own_progress, own_wake) = (progress.clone(), wake.clone());
        let (job, task) = Job::new();
        let panicked = || Err(PlaybackError::Defect("the playback panicked".into()));
        let work = move || task.run(|| play(spec, own_progress, own_wake), panicked);
        let started = thread::Builder::new().name("playback".into()).spawn(work);
        started.map_err(system("a thread"))?;
        Ok(Playback { progress, wake, job })
    }

    /// Waits up to a timeout; true when it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.job.wait(timeout)
    }

    /// Its progress.
    pub fn live(&self) -> PlaybackProgress {
        *lock(&self.progress.progress)
    }

    /// Whether one that awaits its start has counted the trace.
    pub fn is_ready(&self) -> bool {
        self.progress.is_ready.load(Ordering::Acquire)
    }

    /// Agrees on the start: a moment of `CLOCK_MONOTONIC`.
    pub fn start_at(&self, start_at_ns: u64) {
        self.progress.start_at_ns.store(start_at_ns.max(1), Ordering::Release);
    }

    /// Requests the end: nothing more is sent, and what ran is kept.
    pub fn stop(&self) {
        self.progress.is_stopped.store(true, Ordering::Relaxed);
        // An eventfd accepts a 1 unless its value is 2^64 - 2.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes the result; `None` while it is running, and after it was taken.
    pub fn take_result(&self) -> Option<Result<ReplayResult, PlaybackError>> {
        self.job.take_result()
    }
}

/// The result cannot be taken any more.
impl Drop for Playback {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads the request from JSON.
///
/// # Errors
///
/// When it is invalid.
pub fn parse(spec_json: &str) -> Result<PlaybackSpec, PlaybackError> {
    let spec = serde_json::from_str(spec_json);
    let spec = spec.map_err(|error| PlaybackError::Spec(error.to_string()))?;
    check(&spec)?;
    Ok(spec)
}

fn check(spec: &PlaybackSpec) -> Result<(), PlaybackError> {
    let refused = |why: &str| Err(PlaybackError::Spec(why.to_owned()));
    if spec.speed.is_some_and(|speed| !(speed.is_finite() && speed > 0.0)) {
        return refused("speed must be greater than 0");
    }
    if spec.slice_ms == 0 || spec.connections_max == Some(0) || spec.lock_patience_ms == 0 {
        return refused("slice_ms, connections_max and lock_patience_ms must be greater than 0");
    }
    if spec.catalog.is_none() && matches!(spec.order, Order::Object | Order::Key) {
        return refused("the orders object and key need the target's catalogue");
    }
    if spec.catalog.is_none() && spec.ids == Mode::Infer {
        return refused("ids are inferred with the target's catalogue only");
    }
    if let Some(part) = spec.part {
        if part.number >= part.of {
            return refused("the number of a part must be less than that of parts");
        }
        if spec.order != Order::Session || spec.ids != Mode::Off {
            return refused("a part keeps the order within sessions alone, and maps no ids");
        }
    }
    rules(spec).map(|_| ())
}

/// The rules for statements that are not sent.
fn rules(spec: &PlaybackSpec) -> Result<Rules, PlaybackError> {
    Rules::new(spec.read_only, &spec.allow).map_err(|error| PlaybackError::Spec(error.to_string()))
}

fn play(
    spec: PlaybackSpec,
    progress: Arc<SharedProgress>,
    wake: Arc<OwnedFd>,
) -> Result<ReplayResult, PlaybackError> {
    PlaybackLoop::prepare(spec, progress, wake)?.play()
}
