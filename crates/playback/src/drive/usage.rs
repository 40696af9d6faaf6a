//! What the driver itself uses: CPU time, run-queue delay and memory, from the kernel.

use std::fs;

use rustix::time::ClockId;

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// In the program.
    pub user_ns: u64,
    /// In the kernel, for the program.
    pub system_ns: u64,
}

impl Processor {
    /// What the calling thread has used.
    ///
    /// The sum is exact (`CLOCK_THREAD_CPUTIME_ID`); it is parted as the ticks of the thread's
    /// `stat` are (proc(5)), which is what `getrusage` does too.
    pub fn of_thread() -> Processor {
        let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
        let total_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let (user_ticks, system_ticks) = ticks(&stat).unwrap_or((1, 0));
        let share = user_ticks as f64 / (user_ticks + system_ticks).max(1) as f64;
        let user_ns = (total_ns as f64 * share) as u64;
        Processor { user_ns, system_ns: total_ns - user_ns.min(total_ns) }
    }

    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    pub fn since(self, before: Processor) -> Processor {
        Processor {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
        }
    }

    /// The sum of two threads.
    pub fn plus(self, other: Processor) -> Processor {
        Processor {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
        }
    }
}

/// Fields 14 and 15 of `stat`: ticks in the program and in the kernel.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    // The name in parentheses may hold blanks.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Time that the calling thread was runnable without a CPU (second field of schedstat,
/// Documentation/scheduler/sched-stats.rst).
pub fn run_delay_ns() -> u64 {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedstat.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Resident memory of the process (second field of statm, proc(5)).
pub fn memory_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_ascii_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 93 0 0 0 12 34 0 0 20 0 2 0 100 1 1";
        assert_eq!(ticks(stat), Some((12, 34)));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn thread_cpu_time_increases() {
        let before = Processor::of_thread();
        let sum = (0..20_000_000u64).fold(0, |sum: u64, next| sum.wrapping_mul(31) ^ next);
        let used = Processor::of_thread().total_ns() - before.total_ns();
        assert!(used > 0 && sum != 1);
        assert!(memory_bytes() > 1 << 16);
    }
}
