//! Waits apart from requests: events, semaphores, wake-ups, pauses. Every wait ends with
//! the sample.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seatrial_gauge::{Clock, lock};

/// Interval of the checks for the end of the sample.
pub const NAP: Duration = Duration::from_millis(20);

/// Events that no thread takes are dropped after this time, as in Filebench.
const KEPT_NS: u64 = 5_000_000_000;

/// The end of a sample: by time, by a thread, or by the user.
#[derive(Debug)]
pub struct SampleEnd {
    /// The clock of all times.
    pub clock: Clock,
    /// When it began.
    pub start_ns: u64,
    /// When it ends by time.
    pub end_ns: u64,
    /// Set when it ends for another reason.
    pub over: AtomicBool,
    /// Set by the user, who ends it early.
    pub stop: Arc<AtomicBool>,
}

impl SampleEnd {
    /// Whether nothing may be started any more.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
            || self.stop.load(Ordering::Relaxed)
            || self.clock.now_ns() >= self.end_ns
    }

    /// Ends the sample.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The longest wait until the next check for the end, and not beyond the end.
    pub fn nap(&self) -> Duration {
        NAP.min(Duration::from_nanos(self.end_ns.saturating_sub(self.clock.now_ns())))
    }

    /// Waits for a change of what a mutex guards; returns after [`SampleEnd::nap`] at the latest.
    pub fn wait<'m, T>(&self, changed: &Condvar, guard: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        let waited = changed.wait_timeout(guard, self.nap());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sleeps until a time, or the end.
    pub fn sleep_until(&self, due_ns: u64) {
        while !self.is_over() {
            let left_ns = due_ns.min(self.end_ns).saturating_sub(self.clock.now_ns());
            if left_ns == 0 {
                return;
            }
            std::thread::sleep(Duration::from_nanos(left_ns).min(NAP));
        }
    }
}

/// Events at a steady rate, each of which one thread takes.
#[derive(Debug)]
pub struct EventGenerator {
    per_s: f64,
    taken: AtomicU64,
    skipped: AtomicU64,
}

impl EventGenerator {
    /// Events so often; the first is due one interval after the start.
    pub fn new(per_s: f64) -> EventGenerator {
        EventGenerator { per_s, taken: AtomicU64::new(0), skipped: AtomicU64::new(0) }
    }

    /// Takes a number of events in a row, and waits until the last of them is due; false when the
    /// sample ended first.
    pub fn take(&self, count: u64, sample_end: &SampleEnd) -> bool {
        if count == 0 {
            return true;
        }
        let number = self.claim(count, sample_end);
        let due_ns = sample_end.start_ns + (number as f64 * 1e9 / self.per_s) as u64;
        sample_end.sleep_until(due_ns);
        if sample_end.is_over() && sample_end.clock.now_ns() < due_ns {
            self.taken.fetch_sub(count, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// The number of the last claimed event. Events that are too old are dropped.
    fn claim(&self, count: u64, sample_end: &SampleEnd) -> u64 {
        let now_ns = sample_end.clock.now_ns().saturating_sub(sample_end.start_ns);
        let oldest_kept = (now_ns.saturating_sub(KEPT_NS) as f64 * self.per_s / 1e9) as u64;
        let used = self.taken.load(Ordering::Relaxed) + self.skipped.load(Ordering::Relaxed);
        if used < oldest_kept {
            self.skipped.fetch_add(oldest_kept - used, Ordering::Relaxed);
        }
        let before = self.taken.fetch_add(count, Ordering::Relaxed);
        before + self.skipped.load(Ordering::Relaxed) + count
    }

    /// How many were taken, and how many were due until a time.
    pub fn counts(&self, elapsed_ns: u64) -> (u64, u64) {
        let due = (elapsed_ns as f64 * self.per_s / 1e9) as u64;
        (self.taken.load(Ordering::Relaxed), due)
    }
}

/// A pair of counters, as those of System V that Filebench uses: posts to take, and room for more.
#[derive(Debug)]
pub struct Semaphore {
    state: Mutex<SemaphoreCounts>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct SemaphoreCounts {
    posted: u64,
    room: u64,
}

impl Semaphore {
    /// Without posts, and with room for `high_water` of them.
    pub fn new(high_water: u64) -> Semaphore {
        let state = Mutex::new(SemaphoreCounts { posted: 0, room: high_water });
        Semaphore { state, changed: Condvar::new() }
    }

    /// Posts, if `waits` once there is room. False when the sample ended first.
    pub fn post(&self, count: u64, waits: bool, sample_end: &SampleEnd) -> bool {
        let Some(mut posts) = self.once(sample_end, |posts| !waits || posts.room >= count) else {
            return false;
        };
        posts.posted += count;
        if waits {
            posts.room -= count;
        }
        self.changed.notify_all();
        true
    }

    /// Takes posts once there are as many, and makes room for as many. False when the sample ended
    /// first.
    pub fn take(&self, count: u64, sample_end: &SampleEnd) -> bool {
        lock(&self.state).room += count;
        self.changed.notify_all();
        let Some(mut posts) = self.once(sample_end, |posts| posts.posted >= count) else {
            return false;
        };
        posts.posted -= count;
        true
    }

    fn once(
        &self,
        sample_end: &SampleEnd,
        is_right: impl Fn(&SemaphoreCounts) -> bool,
    ) -> Option<MutexGuard<'_, SemaphoreCounts>> {
        let mut posts = lock(&self.state);
        while !is_right(&posts) {
            if sample_end.is_over() {
                return None;
            }
            posts = sample_end.wait(&self.changed, posts);
        }
        Some(posts)
    }
}

/// A thread blocks on it until another one wakes it. One early wake-up is
/// remembered, so that two threads that wake each other cannot miss each other.
#[derive(Debug, Default)]
pub struct WakeUp {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl WakeUp {
    /// Wakes the thread that waits here, or the next one that will.
    pub fn wake(&self) {
        *lock(&self.is_set) = true;
        self.changed.notify_all();
    }

    /// Waits to be woken; false when the sample ended first.
    pub fn wait(&self, sample_end: &SampleEnd) -> bool {
        let mut is_set = lock(&self.is_set);
        while !*is_set {
            if sample_end.is_over() {
                return false;
            }
            is_set = sample_end.wait(&self.changed, is_set);
        }
        *is_set = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_end(length_ns: u64) -> SampleEnd {
        let clock = Clock::new(false);
        let start_ns = clock.now_ns();
        SampleEnd {
            clock,
            start_ns,
            end_ns: start_ns + length_ns,
            over: AtomicBool::new(false),
            stop: Arc::default(),
        }
    }

    #[test]
    fn events_are_taken_when_due_and_never_before() {
        let sample_end = sample_end(60_000_000_000);
        let events = EventGenerator::new(1000.0);
        assert!(events.take(20, &sample_end));
        assert!(sample_end.clock.now_ns() - sample_end.start_ns >= 20_000_000);
        assert_eq!(events.counts(20_000_000), (20, 20));
    }

    #[test]
    fn an_event_that_the_sample_does_not_reach_is_not_taken() {
        let sample_end = sample_end(5_000_000);
        let events = EventGenerator::new(10.0);
        assert!(!events.take(1, &sample_end));
        assert_eq!(events.counts(5_000_000), (0, 0));
    }

    #[test]
    fn a_post_waits_for_room_and_a_taker_for_posts() {
        let sample_end = Arc::new(sample_end(60_000_000_000));
        let semaphore = Arc::new(Semaphore::new(2));
        assert!(semaphore.post(2, true, &sample_end));
        let (poster, its_term) = (semaphore.clone(), sample_end.clone());
        let posting = std::thread::spawn(move || poster.post(1, true, &its_term));
        assert!(semaphore.take(3, &sample_end));
        assert!(posting.join().unwrap());
        assert!(semaphore.post(1000, false, &sample_end), "a post without waiting needs no room");
    }

    #[test]
    fn every_wait_ends_with_the_sample() {
        let sample_end = sample_end(1_000_000);
        assert!(!WakeUp::default().wait(&sample_end));
        assert!(!Semaphore::new(0).take(1, &sample_end));
        assert!(!Semaphore::new(0).post(1, true, &sample_end));
        sample_end.sleep_until(u64::MAX);
    }

    #[test]
    fn a_wake_up_that_comes_early_is_kept() {
        let sample_end = sample_end(60_000_000_000);
        let wake_up = WakeUp::default();
        wake_up.wake();
        assert!(wake_up.wait(&sample_end));
    }
}
