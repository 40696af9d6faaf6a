//! What threads wait for that is no request: events, posts, wake-ups, pauses. Every wait ends with
//! the sample.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use seatrial_gauge::{Clock, lock};

/// Longest wait before the end of the sample is looked for again.
pub const NAP: Duration = Duration::from_millis(20);

/// Events that nobody takes are kept for so long; Filebench keeps five seconds of them as well.
const KEPT_NS: u64 = 5_000_000_000;

/// When a sample is over.
#[derive(Debug)]
pub struct Term {
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

impl Term {
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

    /// How long to wait at most before the end is looked for again: not beyond it.
    pub fn nap(&self) -> Duration {
        NAP.min(Duration::from_nanos(self.end_ns.saturating_sub(self.clock.now_ns())))
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
pub struct Events {
    per_s: f64,
    taken: AtomicU64,
    skipped: AtomicU64,
}

impl Events {
    /// Events so often; the first is due one interval after the start.
    pub fn new(per_s: f64) -> Events {
        Events { per_s, taken: AtomicU64::new(0), skipped: AtomicU64::new(0) }
    }

    /// Takes so many events in a row, and waits until the last of them is due; false when the
    /// sample ended first.
    pub fn take(&self, count: u64, term: &Term) -> bool {
        if count == 0 {
            return true;
        }
        let number = self.claim(count, term);
        let due_ns = term.start_ns + (number as f64 * 1e9 / self.per_s) as u64;
        term.sleep_until(due_ns);
        if term.is_over() && term.clock.now_ns() < due_ns {
            self.taken.fetch_sub(count, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// The number of the last event of those claimed. Events older than is kept are let go.
    fn claim(&self, count: u64, term: &Term) -> u64 {
        let now_ns = term.clock.now_ns().saturating_sub(term.start_ns);
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
    state: Mutex<Posts>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct Posts {
    posted: u64,
    room: u64,
}

impl Semaphore {
    /// Without posts, and with room for `high_water` of them.
    pub fn new(high_water: u64) -> Semaphore {
        let state = Mutex::new(Posts { posted: 0, room: high_water });
        Semaphore { state, changed: Condvar::new() }
    }

    /// Posts; where it is to wait, once there is room. False when the sample ended first.
    pub fn post(&self, count: u64, waits: bool, term: &Term) -> bool {
        let Some(mut posts) = self.once(term, |posts| !waits || posts.room >= count) else {
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
    pub fn take(&self, count: u64, term: &Term) -> bool {
        lock(&self.state).room += count;
        self.changed.notify_all();
        let Some(mut posts) = self.once(term, |posts| posts.posted >= count) else { return false };
        posts.posted -= count;
        true
    }

    fn once(
        &self,
        term: &Term,
        is_right: impl Fn(&Posts) -> bool,
    ) -> Option<MutexGuard<'_, Posts>> {
        let mut posts = lock(&self.state);
        while !is_right(&posts) {
            if term.is_over() {
                return None;
            }
            posts = match self.changed.wait_timeout(posts, term.nap()) {
                Ok((posts, _)) => posts,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        Some(posts)
    }
}

/// What a thread blocks on until another one wakes it. A wake-up that comes early is kept, one at
/// most, so that two threads that wake each other cannot miss each other.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// Wakes the thread that waits here, or the next one that will.
    pub fn ring(&self) {
        *lock(&self.rung) = true;
        self.changed.notify_all();
    }

    /// Waits to be woken; false when the sample ended first.
    pub fn wait(&self, term: &Term) -> bool {
        let mut rung = lock(&self.rung);
        while !*rung {
            if term.is_over() {
                return false;
            }
            rung = match self.changed.wait_timeout(rung, term.nap()) {
                Ok((rung, _)) => rung,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        *rung = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(length_ns: u64) -> Term {
        let clock = Clock::new(false);
        let start_ns = clock.now_ns();
        Term {
            clock,
            start_ns,
            end_ns: start_ns + length_ns,
            over: AtomicBool::new(false),
            stop: Arc::default(),
        }
    }

    #[test]
    fn events_are_taken_when_due_and_never_before() {
        let term = term(60_000_000_000);
        let events = Events::new(1000.0);
        assert!(events.take(20, &term));
        assert!(term.clock.now_ns() - term.start_ns >= 20_000_000);
        assert_eq!(events.counts(20_000_000), (20, 20));
    }

    #[test]
    fn an_event_that_the_sample_does_not_reach_is_not_taken() {
        let term = term(5_000_000);
        let events = Events::new(10.0);
        assert!(!events.take(1, &term));
        assert_eq!(events.counts(5_000_000), (0, 0));
    }

    #[test]
    fn a_post_waits_for_room_and_a_taker_for_posts() {
        let term = Arc::new(term(60_000_000_000));
        let semaphore = Arc::new(Semaphore::new(2));
        assert!(semaphore.post(2, true, &term));
        let (poster, its_term) = (semaphore.clone(), term.clone());
        let posting = std::thread::spawn(move || poster.post(1, true, &its_term));
        assert!(semaphore.take(3, &term));
        assert!(posting.join().unwrap());
        assert!(semaphore.post(1000, false, &term), "a post without waiting needs no room");
    }

    #[test]
    fn every_wait_ends_with_the_sample() {
        let term = term(1_000_000);
        assert!(!Bell::default().wait(&term));
        assert!(!Semaphore::new(0).take(1, &term));
        assert!(!Semaphore::new(0).post(1, true, &term));
        term.sleep_until(u64::MAX);
    }

    #[test]
    fn a_wake_up_that_comes_early_is_kept() {
        let term = term(60_000_000_000);
        let bell = Bell::default();
        bell.ring();
        assert!(bell.wait(&term));
    }
}
