//! Kernel statistics of our own threads and of the device below, from a few small files.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use seatrial_gauge::Clock;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// Running, or waiting for a processor.
    Runnable,
    /// Waiting for block I/O that has been handed to the block layer.
    BlockWait,
    /// Waiting in an io_uring ring for completions.
    RingWait,
    /// Blocked elsewhere in the kernel.
    KernelWait,
}

/// Kernel functions in which a thread waits for the block layer or the device below it
/// (`/proc/<pid>/wchan`, Documentation/filesystems/proc.rst), by the beginnings of their names.
const BLOCK_WAITS: [&str; 16] = [
    "__iomap_dio_rw",
    "iomap_dio",
    "__blkdev_direct_IO",
    "blkdev_direct_IO",
    "__blockdev_direct_IO",
    "submit_bio_wait",
    "bio_await",
    "blk_io_schedule",
    "io_schedule",
    "folio_wait",
    "wait_on_page",
    "wait_on_buffer",
    "__wait_on_buffer",
    "blk_mq_get_tag",
    "rq_qos_wait",
    "blkdev_issue_flush",
];

/// State of a thread of this process; `None` once it has ended.
pub fn thread_state(thread: i32) -> Option<ThreadState> {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
    if matches!(state, 'R' | 'T' | 't') {
        return Some(ThreadState::Runnable);
    }
    let wait = fs::read_to_string(format!("/proc/self/task/{thread}/wchan")).unwrap_or_default();
    Some(classify_wait(state, &wait))
}

fn classify_wait(state: char, function: &str) -> ThreadState {
    if function.contains("io_cqring_wait") || function.contains("io_uring") {
        ThreadState::RingWait
    } else if BLOCK_WAITS.iter().any(|known| function.starts_with(known)) {
        ThreadState::BlockWait
    } else if state == 'D' || !matches!(function, "" | "0") {
        ThreadState::KernelWait
    } else {
        // Where wchan may not be read, a thread in interruptible sleep with a request
        // outstanding can only wait for its ring: reads and writes of files sleep as 'D'.
        ThreadState::RingWait
    }
}

/// Time that a thread has spent waiting for a processor
/// (second field of schedstat, Documentation/scheduler/sched-stats.rst).
pub fn run_delay_ns(thread: i32) -> Option<u64> {
    let schedstat = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// Threads of this process that the kernel made to carry io_uring requests.
pub fn kernel_workers() -> Vec<i32> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let threads = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    threads.filter(|&thread| is_kernel_worker(thread)).collect()
}

fn is_kernel_worker(thread: i32) -> bool {
    fs::read_to_string(format!("/proc/self/task/{thread}/comm"))
        .is_ok_and(|name| name.starts_with("iou-wrk"))
}

/// Requests in flight at a block device, `major:minor` (Documentation/ABI/stable/sysfs-block).
pub fn device_in_flight(device: &str) -> Option<u64> {
    let inflight = fs::read_to_string(format!("/sys/dev/block/{device}/inflight")).ok()?;
    Some(inflight.split_whitespace().filter_map(|count| count.parse::<u64>().ok()).sum())
}

/// Time stolen by the host, per processor (`steal` of /proc/stat, in ticks of 10 ms).
pub fn steal_ns() -> Option<u64> {
    const TICK_NS: u64 = 10_000_000;
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    let processors = stat.lines().filter(|line| line.starts_with("cpu")).count() as u64 - 1;
    Some(ticks * TICK_NS / processors.max(1))
}

/// Whether the kernel's own clock source is the TSC.
pub fn kernel_trusts_tsc() -> bool {
    let path = Path::new("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    fs::read_to_string(path).is_ok_and(|source| source.trim() == "tsc")
}

/// The clock of this process: calibrated once, so that all its samples share one time line.
pub fn process_clock() -> Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    *CLOCK.get_or_init(|| Clock::new(kernel_trusts_tsc()))
}

/// Memory that can be had without swapping (`MemAvailable` of /proc/meminfo).
pub fn memory_available_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The calling thread's number.
pub fn this_thread() -> i32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Processor time of this process, kernel workers included: (user, system).
pub fn processor_ns() -> (u64, u64) {
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Processor time of the calling thread.
pub fn thread_processor_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and every thread has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_distinguished_by_the_kernels_function() {
        assert_eq!(classify_wait('D', "__iomap_dio_rw"), ThreadState::BlockWait);
        assert_eq!(classify_wait('D', "percpu_rwsem_wait"), ThreadState::KernelWait);
        assert_eq!(classify_wait('D', "jbd2_log_wait_commit"), ThreadState::KernelWait);
        assert_eq!(classify_wait('S', "io_cqring_wait"), ThreadState::RingWait);
        assert_eq!(classify_wait('S', "request_wait_answer"), ThreadState::KernelWait);
        assert_eq!(classify_wait('S', "0"), ThreadState::RingWait);
        assert_eq!(classify_wait('D', "0"), ThreadState::KernelWait);
    }

    #[test]
    fn our_own_thread_is_runnable() {
        assert_eq!(thread_state(this_thread()), Some(ThreadState::Runnable));
        assert_eq!(thread_state(1 << 30), None);
    }

    #[test]
    fn a_spin_costs_processor_time() {
        let before_ns = processor_ns().0;
        let begin = std::time::Instant::now();
        // A thread that others leave little of a processor spins for long.
        while processor_ns().0 == before_ns {
            assert!(begin.elapsed().as_secs() < 60, "no processor time");
            std::hint::spin_loop();
        }
    }
}
