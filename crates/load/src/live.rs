//! What a cell does just now, for a progress line.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use seatrial_gauge::{Clock, Timeline, lock};

use crate::watchdog::WatchdogStatus;

const WINDOW_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct LiveSources {
    clock: Clock,
    start_ns: u64,
    timeline: Arc<Mutex<Timeline>>,
    unrated: Option<usize>,
    status: Arc<WatchdogStatus>,
}

/// The cell's last second, readable at any time.
#[derive(Debug, Default)]
pub struct Live(Mutex<Option<LiveSources>>);

/// One reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveReading {
    /// Since the sample's start.
    pub elapsed_s: f64,
    /// Completed requests per second, over the last second.
    pub completed_per_s: f64,
    /// Bytes per second, over the last second.
    pub transferred_bytes_per_s: f64,
    /// 99th percentile of the response times of the last second.
    pub p99_ns: u64,
    /// Stalls so far.
    pub stalls: u64,
    /// Age of the oldest outstanding request.
    pub oldest_in_flight_ns: u64,
}

impl Live {
    /// The sample has begun; its rate leaves out requests of the kind `unrated`.
    pub fn begin(
        &self,
        clock: Clock,
        start_ns: u64,
        timeline: Arc<Mutex<Timeline>>,
        unrated: Option<usize>,
        status: Arc<WatchdogStatus>,
    ) {
        *lock(&self.0) = Some(LiveSources { clock, start_ns, timeline, unrated, status });
    }

    /// The sample has ended.
    pub fn end(&self) {
        *lock(&self.0) = None;
    }

    /// The last second in whole slices; all zero before the start and after the end.
    pub fn read(&self) -> LiveReading {
        let sources = lock(&self.0);
        let Some(sources) = sources.as_ref() else { return LiveReading::default() };
        let elapsed_ns = sources.clock.now_ns().saturating_sub(sources.start_ns);
        let window = lock(&sources.timeline).last(WINDOW_NS, elapsed_ns, sources.unrated);
        let window_s = window.length_ns.max(1) as f64 / 1e9;
        LiveReading {
            elapsed_s: elapsed_ns as f64 / 1e9,
            completed_per_s: window.completed as f64 / window_s,
            transferred_bytes_per_s: window.transferred_bytes as f64 / window_s,
            p99_ns: window.response.percentile_ns(99.0),
            stalls: sources.status.stalls.load(Ordering::Relaxed),
            oldest_in_flight_ns: sources.status.oldest_in_flight_ns.load(Ordering::Relaxed),
        }
    }
}
