//! Background work in a separate thread, whose result another thread waits for.
//!
//! The starter of the thread gives it the [`Task`] and keeps the [`Job`]. A task that panics has a
//! result as well, so waiting always ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::lock;

#[derive(Debug)]
struct JobState<T> {
    result: Mutex<Option<T>>,
    signal: Condvar,
}

/// The side that waits.
#[derive(Debug)]
pub struct Job<T>(Arc<JobState<T>>);

/// The working side, in its own thread.
#[derive(Debug)]
pub struct Task<T>(Arc<JobState<T>>);

impl<T> Job<T> {
    /// Both sides of work that has yet to begin.
    pub fn new() -> (Job<T>, Task<T>) {
        let state = Arc::new(JobState { result: Mutex::new(None), signal: Condvar::new() });
        (Job(state.clone()), Task(state))
    }

    /// Waits at most for the given time; true when there is a result to take.
    pub fn wait(&self, timeout: Duration) -> bool {
        let result = lock(&self.0.result);
        let waited = self.0.signal.wait_timeout_while(result, timeout, |result| result.is_none());
        waited.is_ok_and(|(result, _)| result.is_some())
    }

    /// Takes the result; `None` while the work is under way, and once it was taken.
    pub fn take_result(&self) -> Option<T> {
        lock(&self.0.result).take()
    }
}

impl<T> Task<T> {
    /// Does the work in this thread; `panicked` is the result of one that panics.
    pub fn run(self, work: impl FnOnce() -> T, panicked: impl FnOnce() -> T) {
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| panicked());
        *lock(&self.0.result) = Some(result);
        self.0.signal.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_result_is_waited_for_and_taken_once() {
        let (job, task) = Job::new();
        assert!(!job.wait(Duration::ZERO));
        let worker = thread::spawn(move || task.run(|| 7, || 0));
        assert!(job.wait(LONG));
        assert_eq!((job.take_result(), job.take_result()), (Some(7), None));
        worker.join().unwrap();
    }

    #[test]
    fn work_that_panics_has_a_result_too() {
        let (job, task) = Job::new();
        let worker = thread::spawn(move || task.run(|| panic!("planted"), || "panicked"));
        assert!(job.wait(LONG));
        assert_eq!(job.take_result(), Some("panicked"));
        worker.join().unwrap();
    }
}
