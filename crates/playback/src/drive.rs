//! The loop that sends what is due and takes in what comes back, in a thread of its own that can be
//! watched and asked to end.
//!
//! One epoll has all connections, so that an answer and the statement after it cost one wait, one
//! read and one write; those that are in are watched by edges, which saves a look at each behind
//! its read. A timer (timerfd) wakes it when something is due: a
//! timeout of epoll counts in milliseconds, unless a kernel is newer than some that are in use.
//!
//! | part | rule |
//! |---|---|
//! | [`run`] | the loop |
//! | [`sessions`] | sessions come, go and are lost |
//! | [`statements`] | statements are read, sent and answered |
//! | [`ids`] | ids that are drawn, waited for and written |
//! | [`stuck`] | nothing moves: somebody is asked, and something is let go |
//! | [`ending`] | what is open at the end, and what came of all |
//! | [`player`] | a session |
//! | [`usage`] | what the driver itself uses |

pub mod ending;
pub mod ids;
pub mod player;
pub mod run;
pub mod sessions;
pub mod statements;
pub mod stuck;
pub mod usage;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use seatrial_gauge::Job;
use seatrial_trace::TraceError;

use super::played::Played;
use super::rewrite::Mode;
use super::rules::Rules;
use super::spec::{Order, PlaybackSpec};
use super::tally::NotAccounted;
use run::Run;

/// Why a trace could not be played.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    /// What was asked for makes no sense.
    #[error("what is to be played is malformed: {0}")]
    Spec(String),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The server's name leads nowhere.
    #[error("{host} is no server's address: {source}")]
    Address {
        /// Its host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses what a playback needs.
    #[error("the system refuses {what}: {source}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A defect of ours: the statements do not add up.
    #[error(transparent)]
    NotAccounted(#[from] NotAccounted),
    /// A defect of ours.
    #[error("{0}; this is a defect of Seatrial, please report it")]
    Defect(String),
}

/// How far a playback is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Since it began to send.
    pub elapsed_ns: u64,
    /// Statements that were answered, by an error too.
    pub answered: u64,
    /// Of these, by an error, or never.
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

/// What the loop tells while it runs.
#[derive(Debug, Default)]
pub struct Watch {
    elapsed_ns: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    captured_total: AtomicU64,
    lag_ns: AtomicU64,
    open: AtomicU64,
    is_stopped: AtomicBool,
}

impl Watch {
    fn tell(&self, live: &Live) {
        self.elapsed_ns.store(live.elapsed_ns, Ordering::Relaxed);
        self.answered.store(live.answered, Ordering::Relaxed);
        self.failed.store(live.failed, Ordering::Relaxed);
        self.skipped.store(live.skipped, Ordering::Relaxed);
        self.captured_total.store(live.captured_total, Ordering::Relaxed);
        self.lag_ns.store(live.lag_ns, Ordering::Relaxed);
        self.open.store(live.open, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// A trace that is being played.
#[derive(Debug)]
pub struct Playback {
    watch: Arc<Watch>,
    wake: Arc<OwnedFd>,
    job: Job<Result<Played, PlaybackError>>,
}

impl Playback {
    /// Starts to play in a thread of its own.
    ///
    /// # Errors
    ///
    /// When what is asked for makes no sense, or no thread can be started.
    pub fn start(spec: PlaybackSpec) -> Result<Playback, PlaybackError> {
        check(&spec)?;
        let system = |what| move |source| PlaybackError::System { what, source };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = Arc::new(wake.map_err(io::Error::from).map_err(system("an eventfd"))?);
        let watch = Arc::new(Watch::default());
        let (own_watch, own_wake) = (watch.clone(), wake.clone());
        let (job, task) = Job::new();
        let panicked = || Err(PlaybackError::Defect("the playback panicked".into()));
        let work = move || task.run(|| play(spec, own_watch, own_wake), panicked);
        let started = thread::Builder::new().name("playback".into()).spawn(work);
        started.map_err(system("a thread"))?;
        Ok(Playback { watch, wake, job })
    }

    /// Waits at most so long; true when it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.job.wait(timeout)
    }

    /// How far it is.
    pub fn live(&self) -> Live {
        let counter = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Live {
            elapsed_ns: counter(&self.watch.elapsed_ns),
            answered: counter(&self.watch.answered),
            failed: counter(&self.watch.failed),
            skipped: counter(&self.watch.skipped),
            captured_total: counter(&self.watch.captured_total),
            lag_ns: counter(&self.watch.lag_ns),
            open: counter(&self.watch.open),
        }
    }

    /// Asks it to end: nothing more is sent, and what ran is kept.
    pub fn stop(&self) {
        self.watch.is_stopped.store(true, Ordering::Relaxed);
        // An eventfd takes a 1 as long as nobody has written 2^64 - 2 before.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes the result; `None` while it runs, and once it was taken.
    pub fn take_result(&self) -> Option<Result<Played, PlaybackError>> {
        self.job.take_result()
    }
}

/// Nobody can take the result any more.
impl Drop for Playback {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads what is to be played from JSON.
///
/// # Errors
///
/// When it makes no sense.
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
    rules(spec).map(|_| ())
}

/// What is skipped of the trace.
fn rules(spec: &PlaybackSpec) -> Result<Rules, PlaybackError> {
    Rules::new(spec.read_only, &spec.allow).map_err(|error| PlaybackError::Spec(error.to_string()))
}

fn play(
    spec: PlaybackSpec,
    watch: Arc<Watch>,
    wake: Arc<OwnedFd>,
) -> Result<Played, PlaybackError> {
    Run::prepare(spec, watch, wake)?.play()
}
