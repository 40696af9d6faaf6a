//! `Watch`: block requests of the machine, counted in the kernel.

use std::sync::Mutex;

use pyo3::prelude::*;
use seatrial_gauge::lock;
use seatrial_watch::layout::{
    FLAG_SYNC, GroupKey, OPERATIONS, Record, UNKNOWN_NS, length_bytes_min,
};
use seatrial_watch::watch::Group;
use seatrial_watch::{Watch, WatchSpec};

use crate::errors::Outcome;
use crate::histogram::PyHistogram;

const MINOR_BITS: u32 = 20;

/// Requests alike in device, operation, size class and process.
#[pyclass(frozen, get_all, name = "WatchedGroup")]
pub struct PyWatchedGroup {
    /// Major number of the device.
    major: u32,
    /// Minor number of the device.
    minor: u32,
    /// ``read``, ``write``, ``flush``, ``discard`` or ``other``.
    operation: String,
    /// Whether a process waits for them.
    is_sync: bool,
    /// Their length in bytes is at least this, and less than twice as much; 0 without data.
    length_bytes_min: u64,
    /// Process that sent them.
    pid: u32,
    /// Its name.
    command: String,
    /// Completed requests.
    requests: u64,
    /// Requests that failed, which are among them.
    failed: u64,
    /// Their bytes.
    transferred_bytes: u64,
    /// Sum of their times at the device.
    device_ns: u64,
    /// Requests whose time in the queue is known.
    queued: u64,
    /// Sum of their times in the queue.
    queue_ns: u64,
    /// Times at the device.
    device: Py<PyHistogram>,
    /// Times in the queue.
    queue: Py<PyHistogram>,
}

/// Losses since the start.
#[pyclass(frozen, get_all, name = "WatchLost")]
pub struct PyWatchLost {
    /// Completions of requests whose issue was not seen.
    unmatched: u64,
    /// Requests for which the kernel's tables had no room.
    uncounted: u64,
    /// Requests that are counted, but were not recorded one by one.
    unrecorded: u64,
    /// Events during which another program of the kind ran on the same processor.
    missed: u64,
}

/// A completed request.
#[pyclass(frozen, name = "WatchedRequest")]
pub struct PyWatchedRequest(pub(crate) Record);

#[pymethods]
impl PyWatchedRequest {
    /// Major number of the device.
    #[getter]
    fn major(&self) -> u32 {
        self.0.key.device >> MINOR_BITS
    }

    /// Minor number of the device.
    #[getter]
    fn minor(&self) -> u32 {
        minor_of(&self.0.key)
    }

    /// ``read``, ``write``, ``flush``, ``discard`` or ``other``.
    #[getter]
    fn operation(&self) -> &'static str {
        operation_of(&self.0.key)
    }

    /// Whether a process waited for it.
    #[getter]
    fn is_sync(&self) -> bool {
        self.0.key.flags & FLAG_SYNC != 0
    }

    /// Whether it failed.
    #[getter]
    fn failed(&self) -> bool {
        self.0.has_failed()
    }

    /// Its first byte on the device.
    #[getter]
    fn offset_bytes(&self) -> u64 {
        self.0.sector.wrapping_mul(512)
    }

    /// Its length.
    #[getter]
    fn length_bytes(&self) -> u32 {
        self.0.bytes
    }

    /// When it completed, by CLOCK_MONOTONIC.
    #[getter]
    fn completed_ns(&self) -> u64 {
        self.0.completed_ns
    }

    /// How long it was at the device.
    #[getter]
    fn device_ns(&self) -> u64 {
        self.0.device_ns
    }

    /// How long it was in the queue; None if unknown.
    #[getter]
    fn queue_ns(&self) -> Option<u64> {
        (self.0.queue_ns != UNKNOWN_NS).then_some(self.0.queue_ns)
    }

    /// Process that sent it.
    #[getter]
    fn pid(&self) -> u32 {
        self.0.key.pid
    }

    /// Its name.
    #[getter]
    fn command(&self) -> String {
        self.0.command()
    }
}

/// Block requests of the machine, from the start until this is stopped.
#[pyclass(frozen, name = "Watch")]
pub struct PyWatch(Mutex<Option<Watch>>);

#[pymethods]
impl PyWatch {
    /// Start watching devices given as (major, minor); all where the list is empty.
    ///
    /// ``by_fields`` does without the kernel's types, as on a kernel that publishes none.
    ///
    /// Raises NativeSystemError when the kernel has no such tracepoints or no BPF, or when the
    /// process lacks the rights.
    #[new]
    #[pyo3(signature = (devices, *, records=false, by_fields=false))]
    fn new(devices: Vec<(u32, u32)>, records: bool, by_fields: bool) -> Outcome<PyWatch> {
        let devices = devices.into_iter().map(|(major, minor)| major << MINOR_BITS | minor);
        let devices = devices.collect();
        let watch = Watch::start(&WatchSpec { devices, records, by_fields })?;
        Ok(PyWatch(Mutex::new(Some(watch))))
    }

    /// Whether the time in the queue is known (Linux 6.5 and later).
    #[getter]
    fn knows_queue(&self) -> bool {
        self.with(|watch| watch.knows_queue()).unwrap_or_default()
    }

    /// Return the counters since the last call, one group each; empty once stopped.
    fn take_groups(&self, py: Python<'_>) -> PyResult<Vec<PyWatchedGroup>> {
        let groups = py.detach(|| self.with(Watch::take_groups)).unwrap_or_default();
        groups.iter().map(|group| watched_group(py, group)).collect()
    }

    /// Return the losses since the start.
    fn lost(&self) -> PyWatchLost {
        let lost = self.with(|watch| watch.lost()).unwrap_or_default();
        PyWatchLost {
            unmatched: lost.unmatched,
            uncounted: lost.uncounted,
            unrecorded: lost.unrecorded,
            missed: lost.missed,
        }
    }

    /// Return the requests that completed since the last call, in that order.
    fn take_requests(&self) -> Vec<PyWatchedRequest> {
        let mut taken = Vec::new();
        self.with(|watch| watch.take(|record| taken.push(PyWatchedRequest(*record))));
        taken
    }

    /// Stop watching.
    fn stop(&self) {
        lock(&self.0).take();
    }
}

impl PyWatch {
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Watch) -> T) -> Option<T> {
        lock(&self.0).as_mut().map(act)
    }
}

fn watched_group(py: Python<'_>, group: &Group) -> PyResult<PyWatchedGroup> {
    let (key, counts) = (&group.key, &group.counts);
    Ok(PyWatchedGroup {
        major: key.device >> MINOR_BITS,
        minor: minor_of(key),
        operation: operation_of(key).to_owned(),
        is_sync: key.flags & FLAG_SYNC != 0,
        length_bytes_min: length_bytes_min(key.octave),
        pid: key.pid,
        command: key.command(),
        requests: counts.requests,
        failed: counts.failed,
        transferred_bytes: counts.bytes,
        device_ns: counts.device_ns,
        queued: counts.queued,
        queue_ns: counts.queue_ns,
        device: Py::new(py, PyHistogram::from(group.device()))?,
        queue: Py::new(py, PyHistogram::from(group.queue()))?,
    })
}

fn minor_of(key: &GroupKey) -> u32 {
    key.device & ((1 << MINOR_BITS) - 1)
}

fn operation_of(key: &GroupKey) -> &'static str {
    OPERATIONS.get(usize::from(key.operation)).copied().unwrap_or("other")
}
