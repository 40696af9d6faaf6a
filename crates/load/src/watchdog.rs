//! Watches the workers from outside, because a worker that hangs cannot report it.
//!
//! The watchdog wakes every 5 ms. It measures how late it woke itself, and as soon as requests have
//! been outstanding or due for 20 ms without a completion it looks closer: at the device's requests
//! in flight and at the wait channel of each thread. From these checks the cause of every stall is
//! decided when the sample has ended ([`seatrial_gauge::stall::Evidence`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seatrial_gauge::{Clock, Evidence, InFlight, InFlightView, Stall, keep_longest};

use crate::group_watch::GroupWatch;
use crate::procfs::{self, ThreadState};

const TICK_NS: u64 = 5_000_000;

/// Quiet time after which the watchdog makes close checks.
const SUSPICION_NS: u64 = 20_000_000;

/// Ticks between readings of the slowly changing: steal, kernel workers, control groups.
const SLOW_TICKS: u64 = 20;

/// Limit of readings kept of each kind.
const READINGS_MAX: usize = 200_000;

/// Keeps a reading, in order of time. Of too many, those of every second moment make room: of a
/// long stall enough are left, however early or late it came.
pub fn keep_reading<T>(kept: &mut Vec<T>, reading: T, at_ns: impl Fn(&T) -> u64) {
    if kept.len() == READINGS_MAX {
        let (mut moment_ns, mut is_kept) = (u64::MAX, false);
        kept.retain(|each| {
            is_kept ^= at_ns(each) != moment_ns;
            moment_ns = at_ns(each);
            is_kept
        });
    }
    kept.push(reading);
}

/// The result of one close check.
#[derive(Clone, Copy, Debug, Default)]
struct WatchdogCheck {
    at_ns: u64,
    device_busy: bool,
    block_wait: bool,
    kernel_wait: bool,
    ring_wait: bool,
}

impl WatchdogCheck {
    /// Whether the requests were with the kernel, rather than with a thread that did not run.
    fn is_waiting(&self) -> bool {
        self.device_busy || self.block_wait || self.kernel_wait || self.ring_wait
    }
}

/// A period in which the watchdog should have run and did not.
#[derive(Clone, Copy, Debug)]
struct MissedWakeup {
    due_ns: u64,
    woke_ns: u64,
    /// For how long of it the watchdog waited for a processor: nothing while it was stopped.
    run_delay_ns: u64,
}

/// Time that threads waited for a processor in a quiet period.
#[derive(Clone, Copy, Debug)]
struct OffCpuTime {
    from_ns: u64,
    to_ns: u64,
    run_delay_ns: u64,
}

/// A reading of the total steal time.
#[derive(Clone, Copy, Debug)]
struct StealReading {
    at_ns: u64,
    steal_ns: u64,
}

/// All observations of the watchdog during a sample.
#[derive(Debug, Default)]
pub struct WatchdogObservations {
    checks: Vec<WatchdogCheck>,
    missed_wakeups: Vec<MissedWakeup>,
    off_cpu: Vec<OffCpuTime>,
    steal: Vec<StealReading>,
    groups: GroupWatch,
    /// Most kernel threads that carried io_uring requests at once.
    pub kernel_workers_max: u64,
    /// Latest that the watchdog woke.
    pub lateness_ns_max: u64,
    /// Sum of its lateness.
    pub lateness_ns_total: u64,
}

/// The workers, threads and devices that the watchdog watches.
#[derive(Debug)]
pub struct WatchdogTargets {
    /// In-flight requests and thread of each worker.
    pub workers: Vec<(Arc<InFlight>, i32)>,
    /// Block device below the target, `major:minor`.
    pub device: Option<String>,
    /// Whether io_uring may have passed requests to kernel threads.
    pub uses_ring: bool,
    /// The sample's start.
    pub start_ns: u64,
    /// Ends the watch.
    pub ended: Arc<AtomicBool>,
    /// A quiet period is a stall when it lasts longer than this.
    pub stall_threshold_ns: u64,
    /// The status for the live view.
    pub status: Arc<WatchdogStatus>,
}

/// The live status of a sample.
#[derive(Debug, Default)]
pub struct WatchdogStatus {
    /// Age of the oldest outstanding request.
    pub oldest_in_flight_ns: AtomicU64,
    /// Stalls so far, one that still lasts included.
    pub stalls: AtomicU64,
}

/// Watches until it is stopped; runs in its own thread.
pub fn run_watchdog(clock: Clock, targets: &WatchdogTargets) -> WatchdogObservations {
    let mut watchdog = Watchdog {
        clock,
        targets,
        observations: WatchdogObservations {
            groups: GroupWatch::begin(targets.device.as_deref(), clock.now_ns()),
            ..WatchdogObservations::default()
        },
        kernel_workers: Vec::new(),
        suspected: None,
        read_groups_at_ns: u64::MAX,
        run_delay_ns: 0,
    };
    let mut due_ns = targets.start_ns;
    for tick in 0u64.. {
        if targets.ended.load(Ordering::Acquire) {
            break;
        }
        watchdog.tick(tick, due_ns);
        due_ns = (due_ns + TICK_NS).max(clock.now_ns());
        std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(clock.now_ns())));
    }
    // The sample may have ended while the watchdog could not run.
    watchdog.note_lateness(due_ns, clock.now_ns());
    watchdog.end_suspicion();
    watchdog.read_steal();
    watchdog.observations.groups.read(clock.now_ns());
    watchdog.observations
}

/// A quiet period under close watch, with each thread's run delay at its beginning.
struct SuspectedStall {
    from_ns: u64,
    is_stall: bool,
    run_delays_ns: HashMap<i32, u64>,
}

struct Watchdog<'w> {
    clock: Clock,
    targets: &'w WatchdogTargets,
    observations: WatchdogObservations,
    kernel_workers: Vec<i32>,
    suspected: Option<SuspectedStall>,
    read_groups_at_ns: u64,
    /// The run delay of the watchdog's own thread when it was last read.
    run_delay_ns: u64,
}

impl Watchdog<'_> {
    fn tick(&mut self, tick: u64, due_ns: u64) {
        let now_ns = self.clock.now_ns();
        self.note_lateness(due_ns, now_ns);
        let worked_before_ns = procfs::thread_processor_ns();
        self.watch_workers(tick, now_ns, now_ns.saturating_sub(due_ns) >= TICK_NS);
        let worked_ns = procfs::thread_processor_ns().saturating_sub(worked_before_ns);
        self.note_lateness(now_ns + worked_ns, self.clock.now_ns());
    }

    fn watch_workers(&mut self, tick: u64, now_ns: u64, woke_late: bool) {
        if tick % SLOW_TICKS == 0 {
            self.read_steal();
            self.count_kernel_workers();
            self.waited_ns();
        }
        if tick % SLOW_TICKS == 0 || woke_late || now_ns >= self.read_groups_at_ns {
            self.observations.groups.read(now_ns);
            // Time stopped by a quota on another processor is counted only when that resumes.
            self.read_groups_at_ns = if woke_late { now_ns + TICK_NS } else { u64::MAX };
        }
        let views = self.targets.workers.iter().map(|(in_flight, _)| in_flight.view());
        let all = views.fold(InFlightView::default(), InFlightView::plus);
        let oldest_ns = all.oldest_start_ns.map_or(0, |start_ns| now_ns.saturating_sub(start_ns));
        self.targets.status.oldest_in_flight_ns.store(oldest_ns, Ordering::Relaxed);
        match all.quiet_from_ns() {
            Some(from_ns) if now_ns.saturating_sub(from_ns) >= SUSPICION_NS => {
                self.suspect(from_ns);
                self.count_stall(now_ns - from_ns);
                self.check(now_ns);
            }
            _ => self.end_suspicion(),
        }
    }

    fn note_lateness(&mut self, due_ns: u64, woke_ns: u64) {
        let late_ns = woke_ns.saturating_sub(due_ns);
        self.observations.lateness_ns_max = self.observations.lateness_ns_max.max(late_ns);
        self.observations.lateness_ns_total += late_ns;
        if late_ns >= TICK_NS {
            let run_delay_ns = self.waited_ns().min(late_ns);
            let kept = &mut self.observations.missed_wakeups;
            let missed = MissedWakeup { due_ns, woke_ns, run_delay_ns };
            keep_longest(kept, READINGS_MAX, missed, |each| each.woke_ns - each.due_ns);
        }
    }

    /// How long the watchdog itself waited for a processor since this was last called.
    fn waited_ns(&mut self) -> u64 {
        let before_ns = self.run_delay_ns;
        self.run_delay_ns = procfs::run_delay_ns(procfs::this_thread()).unwrap_or(before_ns);
        self.run_delay_ns.saturating_sub(before_ns)
    }

    fn read_steal(&mut self) {
        if let Some(steal_ns) = procfs::steal_ns() {
            let reading = StealReading { at_ns: self.clock.now_ns(), steal_ns };
            keep_reading(&mut self.observations.steal, reading, |each| each.at_ns);
        }
    }

    fn count_kernel_workers(&mut self) {
        if self.targets.uses_ring {
            self.kernel_workers = procfs::kernel_workers();
            let count = self.kernel_workers.len() as u64;
            self.observations.kernel_workers_max = self.observations.kernel_workers_max.max(count);
        }
    }

    fn suspect(&mut self, from_ns: u64) {
        if self.suspected.as_ref().is_some_and(|suspected| suspected.from_ns == from_ns) {
            return;
        }
        self.end_suspicion();
        self.count_kernel_workers();
        self.observations.groups.suspect(self.clock.now_ns());
        let run_delays_ns = self.run_delays();
        self.suspected = Some(SuspectedStall { from_ns, is_stall: false, run_delays_ns });
    }

    fn count_stall(&mut self, quiet_ns: u64) {
        let Some(suspected) = self.suspected.as_mut() else { return };
        if !suspected.is_stall && quiet_ns >= self.targets.stall_threshold_ns {
            suspected.is_stall = true;
            self.targets.status.stalls.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn end_suspicion(&mut self) {
        let Some(suspected) = self.suspected.take() else { return };
        let longest_ns = self.run_delays().into_iter().filter_map(|(thread, delay_ns)| {
            delay_ns.checked_sub(*suspected.run_delays_ns.get(&thread)?)
        });
        let run_delay_ns = longest_ns.max().unwrap_or(0);
        self.read_steal();
        let to_ns = self.clock.now_ns();
        self.observations.groups.read(to_ns);
        self.read_groups_at_ns = to_ns + TICK_NS;
        let off = OffCpuTime { from_ns: suspected.from_ns, to_ns, run_delay_ns };
        let kept = &mut self.observations.off_cpu;
        keep_longest(kept, READINGS_MAX, off, |each| each.to_ns.saturating_sub(each.from_ns));
    }

    /// By thread; for a worker's thread that has ended, the value that it published.
    fn run_delays(&self) -> HashMap<i32, u64> {
        let of_workers = self.targets.workers.iter().filter_map(|(in_flight, thread)| {
            let left_ns = in_flight.run_delay_ns();
            Some((*thread, left_ns.or_else(|| procfs::run_delay_ns(*thread))?))
        });
        let of_kernel = self.kernel_workers.iter();
        let of_kernel =
            of_kernel.filter_map(|&thread| Some((thread, procfs::run_delay_ns(thread)?)));
        of_workers.chain(of_kernel).collect()
    }

    fn check(&mut self, at_ns: u64) {
        self.read_steal();
        let mut check = WatchdogCheck { at_ns, ..WatchdogCheck::default() };
        let in_flight = self.targets.device.as_deref().and_then(procfs::device_in_flight);
        check.device_busy = in_flight.is_some_and(|requests| requests > 0);
        let busy = |(in_flight, thread): &(Arc<InFlight>, i32)| {
            (in_flight.view().depth() > 0).then_some(*thread)
        };
        let waiting = self.targets.workers.iter().filter_map(busy);
        for thread in waiting.chain(self.kernel_workers.iter().copied()) {
            match procfs::thread_state(thread) {
                Some(ThreadState::BlockWait) => check.block_wait = true,
                Some(ThreadState::KernelWait) => check.kernel_wait = true,
                Some(ThreadState::RingWait) => check.ring_wait = true,
                Some(ThreadState::Runnable) | None => {}
            }
        }
        keep_reading(&mut self.observations.checks, check, |each| each.at_ns);
    }
}

impl WatchdogObservations {
    /// The evidence of a stall.
    pub fn evidence(&self, stall: &Stall) -> Evidence {
        let first = self.checks.partition_point(|check| check.at_ns < stall.start_ns);
        let end = self.checks.partition_point(|check| check.at_ns <= stall.end_ns);
        let checks = &self.checks[first..end];
        let count = |seen: fn(&WatchdogCheck) -> bool| {
            checks.iter().filter(|check| seen(check)).count() as u64
        };
        let overlap_ns = |from_ns: u64, to_ns: u64| {
            to_ns.min(stall.end_ns).saturating_sub(from_ns.max(stall.start_ns))
        };
        let unseen = self.missed_wakeups.iter().filter(|late| !is_bridged(checks, late));
        let waited_ns =
            |late: &MissedWakeup| late.run_delay_ns.min(overlap_ns(late.due_ns, late.woke_ns));
        // What a worker waited is unknown if the watchdog could not look: then its own wait counts.
        let watchdog_waited_ns: u64 = unseen.clone().map(waited_ns).sum();
        let off_cpu = self.off_cpu.iter();
        let (quota_ns, quota) = self.groups.quota(stall);
        Evidence {
            length_ns: stall.length_ns(),
            checks: checks.len() as u64,
            checks_device_busy: count(|check| check.device_busy),
            checks_block_wait: count(|check| check.block_wait && !check.kernel_wait),
            checks_filesystem_wait: count(|check| check.kernel_wait),
            checks_ring_wait: count(|check| {
                check.ring_wait && !check.kernel_wait && !check.block_wait
            }),
            watchdog_late_ns: unseen.map(|late| overlap_ns(late.due_ns, late.woke_ns)).sum(),
            run_delay_ns: off_cpu
                .map(|off| off.run_delay_ns.min(overlap_ns(off.from_ns, off.to_ns)))
                .sum::<u64>()
                .max(watchdog_waited_ns),
            steal_ns: self.steal_during(stall),
            quota_ns,
            quota,
            throttle: self.groups.throttle(stall),
        }
    }

    /// How long a quota stopped threads over the sample, summed over processors.
    pub fn quota_ns_total(&self) -> u64 {
        self.groups.quota_ns_total()
    }

    /// Steal over the sample.
    pub fn steal_ns_total(&self) -> u64 {
        match (self.steal.first(), self.steal.last()) {
            (Some(first), Some(last)) => last.steal_ns.saturating_sub(first.steal_ns),
            _ => 0,
        }
    }

    /// Steal between the first and the last reading of a stall. Steal before it, while threads were
    /// running, did not prolong it; if the host did not even let the watchdog read, the watchdog's
    /// lateness shows that.
    fn steal_during(&self, stall: &Stall) -> u64 {
        let first = self.steal.partition_point(|reading| reading.at_ns < stall.start_ns);
        let end = self.steal.partition_point(|reading| reading.at_ns <= stall.end_ns + TICK_NS);
        match &self.steal[first..end] {
            [first, .., last] => {
                last.steal_ns.saturating_sub(first.steal_ns).min(stall.length_ns())
            }
            _ => 0,
        }
    }
}

/// Whether requests were with the kernel when the watchdog last looked before it was late and when
/// it first looked after. As none ended in between, they were there all the while: that the
/// watchdog could not run does then not show that a worker could not run.
fn is_bridged(checks: &[WatchdogCheck], late: &MissedWakeup) -> bool {
    let before = checks.partition_point(|check| check.at_ns <= late.due_ns).checked_sub(1);
    let after = checks.partition_point(|check| check.at_ns < late.woke_ns);
    let is_waiting = |index: usize| checks.get(index).is_some_and(WatchdogCheck::is_waiting);
    before.is_some_and(is_waiting) && is_waiting(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seatrial_gauge::{Cause, Operation};

    const MS: u64 = 1_000_000;

    fn missed(due_ms: u64, woke_ms: u64, waited_ms: u64) -> MissedWakeup {
        let run_delay_ns = waited_ms * MS;
        MissedWakeup { due_ns: due_ms * MS, woke_ns: woke_ms * MS, run_delay_ns }
    }

    /// A worker that starts a request and then sleeps looks like one that the kernel holds.
    #[test]
    fn a_blocked_worker_is_seen_while_it_is_blocked() {
        let clock = Clock::new(false);
        let start_ns = clock.now_ns();
        let in_flight = Arc::new(InFlight::new(1, start_ns));
        in_flight.begin(0, Operation::Read, start_ns);
        let ended = Arc::new(AtomicBool::new(false));
        let status = Arc::new(WatchdogStatus::default());
        let targets = WatchdogTargets {
            workers: vec![(in_flight, procfs::this_thread())],
            device: None,
            uses_ring: false,
            start_ns,
            ended: ended.clone(),
            stall_threshold_ns: 50 * MS,
            status: status.clone(),
        };
        let (oldest_ns, stalls, observations) = std::thread::scope(|scope| {
            let watchdog = scope.spawn(|| run_watchdog(clock, &targets));
            let reported = || {
                let oldest_ns = status.oldest_in_flight_ns.load(Ordering::Relaxed);
                (oldest_ns, status.stalls.load(Ordering::Relaxed))
            };
            // On a busy machine the watchdog gets a processor late; this worker is still blocked.
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(200));
                let (oldest_ns, stalls) = reported();
                if oldest_ns > 100 * MS && stalls > 0 {
                    break;
                }
            }
            let (oldest_ns, stalls) = reported();
            // Before any assertion: without this the watchdog, and the test, would never end.
            ended.store(true, Ordering::Release);
            (oldest_ns, stalls, watchdog.join().unwrap())
        });
        assert!(oldest_ns > 100 * MS);
        assert_eq!(stalls, 1, "reported while it lasts");
        let stall = Stall { start_ns, end_ns: clock.now_ns(), operations: [1, 0, 0, 0, 0, 0] };
        let evidence = observations.evidence(&stall);
        assert!(evidence.checks > 5, "{evidence:?}");
        assert_ne!(evidence.cause(), Cause::Device, "{evidence:?}");
    }

    #[test]
    fn a_late_watchdog_blames_the_generator() {
        let observations = WatchdogObservations {
            missed_wakeups: vec![missed(100, 3_000, 2_800)],
            ..WatchdogObservations::default()
        };
        let stall = Stall { start_ns: 98 * MS, end_ns: 3_001 * MS, operations: [1, 0, 0, 0, 0, 0] };
        let evidence = observations.evidence(&stall);
        assert_eq!(evidence.cause(), Cause::Generator);
        assert_eq!(evidence.run_delay_ns, 2_800 * MS, "it was not stopped");
    }

    /// A processor that is taken away to the end of a sample is taken from the watchdog, too.
    #[test]
    fn a_watchdog_that_wakes_after_the_sample_was_late() {
        let clock = Clock::new(false);
        let start_ns = clock.now_ns();
        std::thread::sleep(Duration::from_millis(60));
        let targets = WatchdogTargets {
            workers: Vec::new(),
            device: None,
            uses_ring: false,
            start_ns,
            ended: Arc::new(AtomicBool::new(true)),
            stall_threshold_ns: 50 * MS,
            status: Arc::default(),
        };
        let observations = run_watchdog(clock, &targets);
        let stall = Stall { start_ns, end_ns: clock.now_ns(), operations: [1, 0, 0, 0, 0, 0] };
        assert_eq!(observations.evidence(&stall).cause(), Cause::Generator);
    }

    #[test]
    fn evidence_of_long_stalls_is_left_of_too_many_readings() {
        let mut observations = WatchdogObservations::default();
        for number in 0..3 * READINGS_MAX as u64 {
            let check = WatchdogCheck { at_ns: number * TICK_NS, ..WatchdogCheck::default() };
            keep_reading(&mut observations.checks, check, |each| each.at_ns);
        }
        assert!(observations.checks.len() <= READINGS_MAX);
        let last_ns = 3 * READINGS_MAX as u64 * TICK_NS;
        for start_ns in [0, last_ns - 1_000 * MS] {
            let end_ns = start_ns + 1_000 * MS;
            let stall = Stall { start_ns, end_ns, operations: [1, 0, 0, 0, 0, 0] };
            assert!(observations.evidence(&stall).checks > 10, "from {start_ns} ns");
        }
        // Two readings of a moment, say of two groups, stay together.
        let mut moments: Vec<u64> = (0..READINGS_MAX as u64).map(|number| number / 2).collect();
        keep_reading(&mut moments, u64::MAX, |&moment| moment);
        assert_eq!((moments.len(), &moments[..4]), (READINGS_MAX / 2 + 1, &[0, 0, 2, 2][..]));
    }

    fn check(at_ms: u64, kernel_wait: bool) -> WatchdogCheck {
        WatchdogCheck { at_ns: at_ms * MS, kernel_wait, ..WatchdogCheck::default() }
    }

    /// On a crowded machine the watchdog is late again and again; its observations before and after
    /// each time show that the worker was blocked meanwhile.
    #[test]
    fn a_watchdog_that_was_late_between_two_looks_at_a_blocked_worker_blames_nobody_else() {
        let stall = Stall { start_ns: 0, end_ns: 1_000 * MS, operations: [0, 1, 0, 0, 0, 0] };
        let missed_wakeups = vec![missed(105, 900, 0)];
        let cause = |blocked: [bool; 2]| {
            let checks =
                vec![check(100, blocked[0]), check(900, blocked[1]), check(950, blocked[1])];
            WatchdogObservations {
                checks,
                missed_wakeups: missed_wakeups.clone(),
                ..WatchdogObservations::default()
            }
            .evidence(&stall)
        };
        assert_eq!(cause([true, true]).cause(), Cause::Filesystem);
        assert_eq!(cause([true, true]).watchdog_late_ns, 0);
        assert_eq!(cause([true, false]).cause(), Cause::Generator);
        assert_eq!(cause([false, true]).cause(), Cause::Generator);
    }

    /// A processor that was missing in one stall is not an excuse for the next.
    #[test]
    fn waiting_for_a_processor_counts_for_the_stall_in_which_it_was() {
        let off_cpu = vec![
            OffCpuTime { from_ns: 0, to_ns: 1_004 * MS, run_delay_ns: 900 * MS },
            OffCpuTime { from_ns: 1_000 * MS, to_ns: 1_100 * MS, run_delay_ns: MS },
        ];
        let observations = WatchdogObservations { off_cpu, ..WatchdogObservations::default() };
        let stall = |from_ms, to_ms| Stall {
            start_ns: from_ms * MS,
            end_ns: to_ms * MS,
            operations: [1, 0, 0, 0, 0, 0],
        };
        assert_eq!(observations.evidence(&stall(0, 1_000)).run_delay_ns, 900 * MS);
        assert_eq!(observations.evidence(&stall(1_000, 1_100)).run_delay_ns, 5 * MS);
    }

    /// A busy host steals from running threads all the time; a device that then stalls is no less
    /// at fault.
    #[test]
    fn only_what_was_stolen_during_a_stall_explains_it() {
        let reading =
            |at_ms: u64, steal_ms: u64| StealReading { at_ns: at_ms * MS, steal_ns: steal_ms * MS };
        let stall = Stall { start_ns: 180 * MS, end_ns: 240 * MS, operations: [1, 0, 0, 0, 0, 0] };
        let steal_ms = |steal: Vec<StealReading>| {
            WatchdogObservations { steal, ..WatchdogObservations::default() }
                .evidence(&stall)
                .steal_ns
                / MS
        };
        let before = [reading(100, 0), reading(200, 60), reading(240, 60), reading(300, 90)];
        assert_eq!(steal_ms(before.to_vec()), 0);
        let meanwhile = [reading(100, 0), reading(200, 10), reading(220, 30), reading(244, 50)];
        assert_eq!(steal_ms(meanwhile.to_vec()), 40);
        assert_eq!(steal_ms(vec![reading(100, 0), reading(300, 50)]), 0);
    }

    /// A worker that is kept from starting what is due has nothing outstanding to be looked at.
    #[test]
    fn a_worker_that_starts_nothing_is_suspected_too() {
        let clock = Clock::new(false);
        let start_ns = clock.now_ns();
        let in_flight = Arc::new(InFlight::new(1, start_ns));
        let ended = Arc::new(AtomicBool::new(false));
        let status = Arc::new(WatchdogStatus::default());
        let targets = WatchdogTargets {
            workers: vec![(in_flight.clone(), procfs::this_thread())],
            device: None,
            uses_ring: false,
            start_ns,
            ended: ended.clone(),
            stall_threshold_ns: 50 * MS,
            status: status.clone(),
        };
        let stalls = || status.stalls.load(Ordering::Relaxed);
        let (blocked, done) = std::thread::scope(|scope| {
            scope.spawn(|| run_watchdog(clock, &targets));
            // On a busy machine the watchdog gets a processor late.
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(150));
                if stalls() > 0 {
                    break;
                }
            }
            let blocked = stalls();
            in_flight.retire(clock.now_ns());
            std::thread::sleep(Duration::from_millis(150));
            let done = stalls();
            // Before any assertion: without this the watchdog would never end.
            ended.store(true, Ordering::Release);
            (blocked, done)
        });
        assert_eq!(blocked, 1);
        assert_eq!(done, 1, "a worker that is done is not");
    }

    /// A sample's last stall may end with the worker's thread, whose figures go with it.
    #[test]
    fn what_a_worker_waited_for_a_processor_is_known_after_it_has_ended() {
        let clock = Clock::new(false);
        let start_ns = clock.now_ns();
        let in_flight = Arc::new(InFlight::new(1, start_ns));
        let ended = Arc::new(AtomicBool::new(false));
        let (sender, thread) = std::sync::mpsc::channel();
        let worker = std::thread::spawn(move || sender.send(procfs::this_thread()).unwrap());
        let thread = thread.recv().unwrap();
        worker.join().unwrap();
        in_flight.leave_run_delay(0);
        let targets = WatchdogTargets {
            workers: vec![(in_flight.clone(), thread)],
            device: None,
            uses_ring: false,
            start_ns,
            ended: ended.clone(),
            stall_threshold_ns: 50 * MS,
            status: Arc::default(),
        };
        let observations = std::thread::scope(|scope| {
            let watchdog = scope.spawn(|| run_watchdog(clock, &targets));
            std::thread::sleep(Duration::from_millis(200));
            in_flight.leave_run_delay(150 * MS);
            ended.store(true, Ordering::Release);
            watchdog.join().unwrap()
        });
        let stall = Stall { start_ns, end_ns: clock.now_ns(), operations: [1, 0, 0, 0, 0, 0] };
        assert_eq!(observations.evidence(&stall).run_delay_ns, 150 * MS);
    }
}
