//! Shared by all coordinators of workers: waiting for them, watching them, closing their sample.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seatrial_gauge::clock::monotonic_ns;
use seatrial_gauge::{AccountingError, Clock, InFlight, InFlightView, SliceRow, Timeline, lock};

use crate::procfs;
use crate::sample::{WorkerSums, watchdog_counters};
use crate::watchdog::{WatchdogObservations, WatchdogStatus, WatchdogTargets, run_watchdog};
use crate::worker::Record;

/// How long requests that are in flight when the sample ends are waited for.
pub const GRACE_NS: u64 = 10_000_000_000;

/// The same, after a stop. The coordinator waits for as long once more, after either: then a worker
/// counts what it has missed.
pub const STOP_GRACE_NS: u64 = 1_000_000_000;

/// A worker that ended without an outcome.
pub fn ended_early() -> io::Error {
    io::Error::other("a worker thread ended early")
}

/// A started worker, as the coordinator sees it.
#[derive(Debug)]
pub struct WorkerHandle {
    /// Its outstanding requests.
    pub in_flight: Arc<InFlight>,
    /// Its record.
    pub record: Arc<Mutex<Record>>,
    /// Its thread's number.
    pub thread: i32,
}

/// Waits for every worker, but not for ever; the first failure of an engine, if any.
pub fn await_endings(
    clock: &Clock,
    endings: &Receiver<io::Result<()>>,
    workers: usize,
    grace_end_ns: u64,
    stop: &AtomicBool,
) -> Option<io::Error> {
    const POLL: Duration = Duration::from_millis(20);
    /// However late this thread itself is, say after Ctrl-Z: so long the workers have had to end.
    const LAST_CALL: Duration = Duration::from_millis(500);
    let mut failure = None;
    let latest_ns = grace_end_ns.saturating_add(STOP_GRACE_NS);
    let mut last_ns = latest_ns;
    let mut left = workers;
    while left > 0 {
        if stop.load(Ordering::Relaxed) && last_ns == latest_ns {
            last_ns = last_ns.min(clock.now_ns() + 2 * STOP_GRACE_NS);
        }
        let is_over = clock.now_ns() >= last_ns;
        match endings.recv_timeout(if is_over { LAST_CALL } else { POLL }) {
            Ok(outcome) => {
                left -= 1;
                if let Err(source) = outcome {
                    stop.store(true, Ordering::Relaxed);
                    failure = failure.or(Some(source));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) if is_over => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return failure.or_else(|| Some(ended_early()));
            }
        }
    }
    failure
}

/// The watchdog's thread.
#[derive(Debug)]
pub struct WatchdogThread {
    ended: Arc<AtomicBool>,
    /// Its status for the live view.
    pub status: Arc<WatchdogStatus>,
    thread: Option<JoinHandle<WatchdogObservations>>,
}

impl WatchdogThread {
    /// Without a watchdog thread the sample is still measured; its stalls have no cause then.
    pub fn begin(clock: Clock, targets: WatchdogTargets) -> WatchdogThread {
        let (ended, status) = (targets.ended.clone(), targets.status.clone());
        let body = move || {
            fine_timer();
            run_watchdog(clock, &targets)
        };
        let thread = thread::Builder::new().name("watchdog".into()).spawn(body).ok();
        WatchdogThread { ended, status, thread }
    }

    /// Ends the watchdog; returns its observations.
    pub fn end(self) -> WatchdogObservations {
        self.ended.store(true, Ordering::Release);
        self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Ends all records: the sums over workers, the sample's measured end, the age of the oldest
/// request that has not ended.
///
/// # Errors
///
/// When the requests of a worker do not add up.
pub fn close(
    clock: &Clock,
    handles: &[WorkerHandle],
    mut sums: WorkerSums,
    start_ns: u64,
) -> Result<(WorkerSums, u64, u64), AccountingError> {
    let now_ns = clock.now_ns();
    let views = handles.iter().map(|handle| handle.in_flight.view());
    let all = views.fold(InFlightView::default(), InFlightView::plus);
    let measured_end_ns = all.ended_ns().unwrap_or(now_ns).max(start_ns + 1);
    for handle in handles {
        sums.take_in(&mut lock(&handle.record), measured_end_ns)?;
    }
    let oldest_ns = all.oldest_start_ns.map_or(0, |start_ns| now_ns.saturating_sub(start_ns));
    Ok((sums, measured_end_ns, oldest_ns))
}

/// The length of a slice and all rows of a sample's timeline, taken out of it.
pub fn take_rows(timeline: &Mutex<Timeline>) -> (u64, Vec<SliceRow>) {
    let finished = std::mem::replace(&mut *lock(timeline), Timeline::new(1));
    finished.into_rows()
}

/// Processor time of a sample, and the watchdog's readings.
pub fn counters(
    processor_before_ns: (u64, u64),
    observations: &WatchdogObservations,
) -> Vec<(&'static str, f64)> {
    let (user_ns, system_ns) = procfs::processor_ns();
    let mut counters = vec![
        ("cpu_user_ns", user_ns.saturating_sub(processor_before_ns.0) as f64),
        ("cpu_system_ns", system_ns.saturating_sub(processor_before_ns.1) as f64),
    ];
    counters.extend(watchdog_counters(observations));
    counters
}

/// Leaves signals to the threads of Python, which have handlers for them: here they would only
/// break off system calls, and a request that was broken off would count as failed. Threads that
/// this one starts do the same.
pub fn defer_signals() {
    // SAFETY: the set is filled before it is used, and the call concerns only this thread.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// Lets the kernel wake this thread on time rather than within 50 us of it.
pub fn fine_timer() {
    // SAFETY: the option takes one number and concerns only this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000) };
}

/// Sleeps until a moment of `CLOCK_MONOTONIC`, or until `stop`; how late that ended.
pub fn await_start(start_at_ns: u64, stop: &AtomicBool) -> u64 {
    const LOOK_NS: u64 = 50_000_000;
    fine_timer();
    loop {
        let now_ns = monotonic_ns();
        if now_ns >= start_at_ns || stop.load(Ordering::Relaxed) {
            return now_ns.saturating_sub(start_at_ns);
        }
        sleep_until(start_at_ns.min(now_ns + LOOK_NS));
    }
}

fn sleep_until(moment_ns: u64) {
    let time = libc::timespec {
        tv_sec: (moment_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (moment_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the pointer is to a live timespec; an absolute sleep leaves no remainder.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &time,
            std::ptr::null_mut(),
        );
    }
}

/// Now, by our clock and by the wall clock. If the thread loses the processor between two readings
/// they are far apart, so the closest of a few pairs is taken.
pub fn same_moment(clock: &Clock) -> (u64, f64) {
    let pairs = (0..4).map(|_| {
        let before_ns = clock.now_ns();
        let wall_s = unix_s();
        let after_ns = clock.now_ns();
        (after_ns - before_ns, after_ns, wall_s)
    });
    let closest = pairs.min_by_key(|&(apart_ns, ..)| apart_ns);
    closest.map_or((clock.now_ns(), unix_s()), |(_, now_ns, wall_s)| (now_ns, wall_s))
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_counts_what_it_missed_after_the_grace_is_awaited() {
        let clock = Clock::new(false);
        let (ended, endings) = mpsc::channel();
        let counts = thread::spawn(move || {
            thread::sleep(Duration::from_millis(800));
            ended.send(Err(ended_early()))
        });
        let stop = AtomicBool::new(false);
        assert!(await_endings(&clock, &endings, 1, clock.now_ns(), &stop).is_some());
        counts.join().unwrap().unwrap();
    }

    #[test]
    fn a_start_is_never_early_and_its_lateness_is_that_of_the_clock() {
        let start_at_ns = monotonic_ns() + 120_000_000;
        let late_ns = await_start(start_at_ns, &AtomicBool::new(false));
        let now_ns = monotonic_ns();
        assert!(now_ns >= start_at_ns + late_ns);
    }

    #[test]
    fn a_start_that_has_passed_is_late_at_once() {
        let start_at_ns = monotonic_ns() - 7_000_000;
        assert!(await_start(start_at_ns, &AtomicBool::new(false)) >= 7_000_000);
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let start_at_ns = monotonic_ns() + 500_000_000_000;
        assert_eq!(await_start(start_at_ns, &AtomicBool::new(true)), 0);
    }
}
