//! Stalls: times in which requests were outstanding and none completed.
//!
//! Each worker records its own quiet times, which costs one comparison per completion. A stall of
//! the sample is a time in which *all* workers were quiet and at least one of them had a request
//! outstanding, for longer than the threshold. A request that is due counts as outstanding, so a
//! worker that is stopped before it can start one is stalled as well. Edges are completions and
//! starts, not the moments at which somebody looked, so they are exact.
//!
//! The cause is decided from the observations of the watchdog ([`Evidence`]).

use std::cmp::Reverse;

use crate::operation::Operation;

/// Reported stalls of a sample, the longest; further ones are counted.
pub const STALLS_MAX: usize = 1_000;

/// A period in which one worker completed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietPeriod {
    /// Its last completion, or the sample's start.
    pub from_ns: u64,
    /// The time since which it had a request outstanding or due.
    pub busy_from_ns: Option<u64>,
    /// Its next completion, or the sample's end.
    pub to_ns: u64,
    /// Outstanding requests at the end.
    pub operations: [u32; Operation::ALL.len()],
}

/// All quiet periods of one worker, in order, and the one that was open when the sample ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerQuietPeriods {
    /// Periods at least as long as the threshold.
    pub quiet_periods: Vec<QuietPeriod>,
    /// From the last completion to the end; may be short.
    pub last: QuietPeriod,
}

/// A time in which requests were outstanding and none completed for longer than the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Last completion or first start.
    pub start_ns: u64,
    /// Next completion, or the sample's end.
    pub end_ns: u64,
    /// Outstanding requests when it ended, by operation index.
    pub operations: [u32; Operation::ALL.len()],
}

impl Stall {
    /// How long it lasted.
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// Requests outstanding when it ended.
    pub fn depth(&self) -> u32 {
        self.operations.iter().sum()
    }
}

/// Finds the stalls of a sample that ended at `end_ns`, in order of time.
pub fn find_stalls(workers: &[WorkerQuietPeriods], end_ns: u64, threshold_ns: u64) -> Vec<Stall> {
    let mut common: Option<Vec<QuietPeriod>> = None;
    for worker in workers {
        let periods: Vec<QuietPeriod> = worker.until(end_ns, threshold_ns);
        common = Some(match common {
            None => periods,
            Some(others) => intersect(&others, &periods, threshold_ns),
        });
    }
    let found = common.unwrap_or_default().into_iter().filter_map(|quiet| {
        let start_ns = quiet.busy_from_ns?;
        let long = quiet.to_ns.saturating_sub(start_ns) >= threshold_ns;
        long.then_some(Stall { start_ns, end_ns: quiet.to_ns, operations: quiet.operations })
    });
    found.collect()
}

/// Keeps the longest of many, in any order: adds one, where no place is left for the shortest.
/// Returns whether one was dropped.
pub fn keep_longest<T>(
    kept: &mut Vec<T>,
    places: usize,
    one: T,
    length_ns: impl Fn(&T) -> u64,
) -> bool {
    if kept.len() < places {
        kept.push(one);
        return false;
    }
    let shortest = kept.iter_mut().min_by_key(|each| length_ns(each));
    if let Some(shorter) = shortest.filter(|each| length_ns(each) < length_ns(&one)) {
        *shorter = one;
    }
    true
}

/// The longest stalls, [`STALLS_MAX`] at most, in order of time; and how many others there are.
pub fn longest_in_order<T>(
    mut found: Vec<T>,
    length_ns: impl Fn(&T) -> u64,
    start_ns: impl Fn(&T) -> u64,
) -> (Vec<T>, u64) {
    let dropped = found.len().saturating_sub(STALLS_MAX) as u64;
    found.sort_by_key(|stall| Reverse(length_ns(stall)));
    found.truncate(STALLS_MAX);
    found.sort_by_key(start_ns);
    (found, dropped)
}

impl WorkerQuietPeriods {
    /// Quiet times up to the sample's end; a worker that ended earlier is quiet from then on.
    fn until(&self, end_ns: u64, threshold_ns: u64) -> Vec<QuietPeriod> {
        let last = QuietPeriod { to_ns: self.last.to_ns.max(end_ns), ..self.last };
        let long = |quiet: &QuietPeriod| quiet.to_ns - quiet.from_ns >= threshold_ns;
        self.quiet_periods.iter().copied().chain([last]).filter(long).collect()
    }
}

/// Times in which both are quiet, at least as long as the threshold.
fn intersect(left: &[QuietPeriod], right: &[QuietPeriod], threshold_ns: u64) -> Vec<QuietPeriod> {
    let (mut i, mut j) = (0, 0);
    let mut common = Vec::new();
    while let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
        let from_ns = a.from_ns.max(b.from_ns);
        let to_ns = a.to_ns.min(b.to_ns);
        if to_ns >= from_ns + threshold_ns {
            common.push(QuietPeriod {
                from_ns,
                busy_from_ns: earliest_busy(a, b, from_ns, to_ns),
                to_ns,
                operations: outstanding(a, b, to_ns),
            });
        }
        if a.to_ns < b.to_ns { i += 1 } else { j += 1 }
    }
    common
}

/// The outstanding requests of both at a time; not what an idle one of them started later.
fn outstanding(a: &QuietPeriod, b: &QuietPeriod, at_ns: u64) -> [u32; Operation::ALL.len()] {
    let stored = |quiet: &QuietPeriod, kind: usize| match quiet.busy_from_ns {
        Some(busy_from_ns) if busy_from_ns < at_ns => quiet.operations[kind],
        _ => 0,
    };
    std::array::from_fn(|kind| stored(a, kind) + stored(b, kind))
}

fn earliest_busy(a: &QuietPeriod, b: &QuietPeriod, from_ns: u64, to_ns: u64) -> Option<u64> {
    let starts = [a.busy_from_ns, b.busy_from_ns].into_iter().flatten();
    starts.map(|start_ns| start_ns.max(from_ns)).filter(|&start_ns| start_ns < to_ns).min()
}

/// The cause of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Requests were below the file system: in the block layer, a throttle, or the device.
    Device,
    /// A thread was blocked in the file system while the block layer was idle.
    Filesystem,
    /// A control group's limit on I/O held the requests, above the device.
    Throttle,
    /// A control group's quota of processor time stopped the generator's threads.
    Quota,
    /// The generator's threads were not running: they waited for a processor, or were stopped.
    Generator,
    /// The evidence does not decide.
    Unknown,
}

impl Cause {
    /// The word used in results.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Device => "device",
            Cause::Filesystem => "filesystem",
            Cause::Throttle => "cgroup_throttle",
            Cause::Quota => "cpu_quota",
            Cause::Generator => "generator",
            Cause::Unknown => "unknown",
        }
    }
}

/// A limit of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// The group's folder.
    pub group: String,
    /// The file within it and the line of the limit.
    pub setting: String,
}

/// The observations of the watchdog during a stall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The stall's length.
    pub length_ns: u64,
    /// Checks by the watchdog.
    pub checks: u64,
    /// Checks at which the device under the target had requests in flight.
    pub checks_device_busy: u64,
    /// Checks at which a thread waited for block I/O to complete.
    pub checks_block_wait: u64,
    /// Checks at which a thread was blocked elsewhere in the kernel: locks, journal, freeze.
    pub checks_filesystem_wait: u64,
    /// Checks at which requests were with the kernel asynchronously and no thread was blocked.
    pub checks_ring_wait: u64,
    /// Time by which the watchdog itself woke late.
    pub watchdog_late_ns: u64,
    /// Longest time that one thread waited for a processor (schedstat).
    pub run_delay_ns: u64,
    /// Time stolen from this machine by its host, over the processors (/proc/stat), per processor.
    pub steal_ns: u64,
    /// Time for which a quota stopped threads of our control group, summed over processors.
    pub quota_ns: u64,
    /// That quota.
    pub quota: Option<GroupLimit>,
    /// A limit on I/O that explains the wait.
    pub throttle: Option<GroupLimit>,
}

impl Evidence {
    /// Decides the cause. Evidence has to cover at least half of the stall: anything shorter
    /// did not make it last.
    pub fn cause(&self) -> Cause {
        let off_cpu_ns = self.watchdog_late_ns.max(self.run_delay_ns).max(self.steal_ns);
        if 2 * off_cpu_ns >= self.length_ns {
            let is_quota = self.quota.is_some() && 2 * self.quota_ns >= self.length_ns;
            return if is_quota { Cause::Quota } else { Cause::Generator };
        }
        let most = |checks: u64| self.checks > 0 && 2 * checks >= self.checks;
        let waiting = self.checks_block_wait + self.checks_filesystem_wait + self.checks_ring_wait;
        if self.throttle.is_some() && most(waiting) {
            Cause::Throttle
        } else if most(self.checks_device_busy) {
            Cause::Device
        } else if most(self.checks_filesystem_wait) {
            Cause::Filesystem
        } else if most(self.checks_block_wait + self.checks_ring_wait) {
            Cause::Device
        } else {
            Cause::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn quiet(from_ms: u64, busy_ms: Option<u64>, to_ms: u64) -> QuietPeriod {
        let reads = u32::from(busy_ms.is_some());
        QuietPeriod {
            from_ns: from_ms * MS,
            busy_from_ns: busy_ms.map(|ms| ms * MS),
            to_ns: to_ms * MS,
            operations: [reads, 0, 0, 0, 0, 0],
        }
    }

    fn worker(quiet_periods: &[QuietPeriod], last: QuietPeriod) -> WorkerQuietPeriods {
        WorkerQuietPeriods { quiet_periods: quiet_periods.to_vec(), last }
    }

    fn stalls_ms(workers: &[WorkerQuietPeriods], end_ms: u64) -> Vec<(u64, u64, u32)> {
        let found = find_stalls(workers, end_ms * MS, 50 * MS);
        found.iter().map(|s| (s.start_ns / MS, s.end_ns / MS, s.depth())).collect()
    }

    #[test]
    fn one_worker_that_waits_is_a_stall() {
        let only = worker(&[quiet(100, Some(100), 400)], quiet(990, None, 1000));
        assert_eq!(stalls_ms(&[only], 1000), [(100, 400, 1)]);
    }

    #[test]
    fn an_idle_worker_is_no_stall() {
        let idle = worker(&[quiet(100, None, 400)], quiet(400, None, 1000));
        assert_eq!(stalls_ms(&[idle], 1000), []);
    }

    #[test]
    fn a_stall_starts_when_the_first_request_is_outstanding() {
        let late = worker(&[quiet(100, Some(300), 400)], quiet(400, Some(970), 1000));
        assert_eq!(stalls_ms(&[late], 1000), [(300, 400, 1)]);
    }

    #[test]
    fn any_workers_completion_ends_it() {
        let waits = worker(&[quiet(100, Some(100), 400)], quiet(990, None, 1000));
        let completes = worker(
            &[quiet(100, Some(110), 180), quiet(200, Some(200), 300)],
            quiet(990, None, 1000),
        );
        let both = [waits, completes];
        assert_eq!(stalls_ms(&both, 1000), [(100, 180, 2), (200, 300, 2)]);
    }

    #[test]
    fn an_idle_neighbour_does_not_hide_it() {
        let waits = worker(&[quiet(100, Some(100), 400)], quiet(990, None, 1000));
        let idle = worker(&[], quiet(0, None, 1000));
        assert_eq!(stalls_ms(&[waits, idle], 1000), [(100, 400, 1)]);
    }

    /// Its own quiet time ends later, with a request that it started long after the stall.
    #[test]
    fn what_an_idle_neighbour_starts_later_is_not_counted() {
        let waits = worker(&[quiet(100, Some(100), 400)], quiet(990, None, 1000));
        let idle = worker(&[quiet(50, Some(880), 900)], quiet(990, None, 1000));
        assert_eq!(stalls_ms(&[waits.clone(), idle.clone()], 1000), [(100, 400, 1)]);
        assert_eq!(stalls_ms(&[idle, waits], 1000), [(100, 400, 1)]);
    }

    #[test]
    fn a_hang_at_the_end_lasts_to_the_end() {
        let hangs = worker(&[], quiet(600, Some(600), 600));
        let ended_early = worker(&[], quiet(300, None, 310));
        assert_eq!(stalls_ms(&[hangs, ended_early], 1000), [(600, 1000, 1)]);
    }

    fn evidence(change: impl FnOnce(&mut Evidence)) -> Cause {
        let mut evidence = Evidence { length_ns: 1000 * MS, checks: 200, ..Evidence::default() };
        change(&mut evidence);
        evidence.cause()
    }

    #[test]
    fn the_cause_follows_the_evidence() {
        assert_eq!(evidence(|e| e.checks_device_busy = 190), Cause::Device);
        assert_eq!(evidence(|e| e.checks_block_wait = 190), Cause::Device);
        assert_eq!(evidence(|e| e.checks_ring_wait = 190), Cause::Device);
        assert_eq!(evidence(|e| e.checks_filesystem_wait = 190), Cause::Filesystem);
        assert_eq!(evidence(|e| e.run_delay_ns = 900 * MS), Cause::Generator);
        assert_eq!(evidence(|e| e.watchdog_late_ns = 900 * MS), Cause::Generator);
        assert_eq!(evidence(|e| e.steal_ns = 600 * MS), Cause::Generator);
        assert_eq!(evidence(|_| ()), Cause::Unknown);
    }

    fn limit() -> Option<GroupLimit> {
        Some(GroupLimit { group: "/sys/fs/cgroup/x".into(), setting: "io.max 8:0 wbps=1".into() })
    }

    #[test]
    fn a_limit_that_explains_the_wait_is_the_cause_wherever_the_thread_waits() {
        let throttled = |change: fn(&mut Evidence)| {
            evidence(|e| {
                e.throttle = limit();
                change(e);
            })
        };
        assert_eq!(throttled(|e| e.checks_filesystem_wait = 200), Cause::Throttle);
        assert_eq!(throttled(|e| e.checks_block_wait = 200), Cause::Throttle);
        assert_eq!(throttled(|e| e.checks_ring_wait = 200), Cause::Throttle);
        assert_eq!(throttled(|e| e.run_delay_ns = 900 * MS), Cause::Generator);
        assert_eq!(throttled(|_| ()), Cause::Unknown, "nothing waited");
    }

    #[test]
    fn a_quota_is_the_cause_only_where_it_stopped_threads_for_as_long() {
        let stopped = |quota_ms: u64, quota: Option<GroupLimit>| {
            evidence(|e| {
                e.run_delay_ns = 900 * MS;
                e.quota_ns = quota_ms * MS;
                e.quota = quota;
            })
        };
        assert_eq!(stopped(800, limit()), Cause::Quota);
        assert_eq!(stopped(100, limit()), Cause::Generator);
        assert_eq!(stopped(800, None), Cause::Generator);
    }

    /// A journal that waits for its device blocks threads in the file system: the device's fault.
    #[test]
    fn a_busy_device_outweighs_a_thread_blocked_above_it() {
        let cause = evidence(|e| {
            e.checks_device_busy = 180;
            e.checks_filesystem_wait = 200;
        });
        assert_eq!(cause, Cause::Device);
    }
}
