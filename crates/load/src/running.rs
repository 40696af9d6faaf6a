//! A sample under way: the thread that coordinates it, its last second, its end and its result.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use seatrial_gauge::Job;

use crate::coordinator::defer_signals;
use crate::live::Live;

/// A sample under way in background threads; `R` is what it returns.
#[derive(Debug)]
pub struct Running<R> {
    stop: Arc<AtomicBool>,
    live: Arc<Live>,
    job: Job<R>,
}

impl<R: Send + 'static> Running<R> {
    /// Does the work in a thread of its own; `panicked` is the result of one that panics.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub fn of(
        work: impl FnOnce(&Arc<AtomicBool>, &Arc<Live>) -> R + Send + 'static,
        panicked: impl FnOnce(io::Error) -> R + Send + 'static,
    ) -> io::Result<Running<R>> {
        let (stop, live) = (Arc::new(AtomicBool::new(false)), Arc::new(Live::default()));
        let (its_stop, its_live) = (stop.clone(), live.clone());
        let (job, task) = Job::new();
        let coordinate = move || {
            defer_signals();
            let words = "it panicked; this is a defect of Seatrial, please report it";
            task.run(|| work(&its_stop, &its_live), || panicked(io::Error::other(words)));
        };
        thread::Builder::new().name("coordinator".into()).spawn(coordinate)?;
        Ok(Running { stop, live, job })
    }
}

impl<R> Running<R> {
    /// Waits at most for the given time; true when the sample has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.job.wait(timeout)
    }

    /// Requests the workers to end; completed measurements are kept.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The last second.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Takes the result; `None` while the sample is under way or once it was taken.
    pub fn take_result(&self) -> Option<R> {
        self.job.take_result()
    }
}

/// The result can no longer be taken.
impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        self.stop();
    }
}
