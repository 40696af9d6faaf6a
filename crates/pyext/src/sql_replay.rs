//! `SqlPlayback`: a trace that is being played.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use seatrial_playback::drive::{self, Playback};
use seatrial_playback::played::{ClassTimes, MergeableCounts, PlaybackEnd, ReplayResult};

use crate::errors::{Outcome, as_json, taken};
use crate::sample::{dict, outcome_dict, seconds, timeline_dict, unexplained_stall};

/// A trace that is being played in a background thread.
#[pyclass(frozen, name = "SqlPlayback")]
pub struct PySqlPlayback(Playback);

/// How far a playback is.
#[pyclass(frozen, get_all)]
pub struct PlaybackLive {
    /// Since it began to send.
    elapsed_s: f64,
    /// Statements that were answered, by an error too.
    answered: u64,
    /// Of these, by an error, or never.
    failed: u64,
    /// Statements that were skipped.
    skipped: u64,
    /// Statements in the trace; 0 until they are counted.
    captured_total: u64,
    /// How late the last statement was sent; 0 at maximum speed.
    lag_ns: u64,
    /// Sessions that are connected.
    open: u64,
}

/// The result of a playback.
#[pyclass(frozen, get_all)]
pub struct PlaybackResult {
    /// A sample's parts, as ``Running.result`` returns them.
    parts: Py<PyDict>,
    /// The part that only a replay has, as JSON of the schema ``replay``.
    record_json: String,
    /// ``complete``, ``interrupted`` or ``server_lost``.
    end: &'static str,
    /// The server's words, where it was lost; else empty.
    words: String,
    /// Of a part of a trace: encoded histograms ``lag`` and ``driver_lag``, and in ``queries``
    /// those of ``service``, ``response`` and ``captured`` times by fingerprint; None for a whole.
    counts: Option<Py<PyDict>>,
}

/// Start to play a trace (docs/engine.md, "Playback").
///
/// Raises NativeError when the specification is invalid, or the system refuses a thread.
#[pyfunction]
pub fn start_sql_playback(py: Python<'_>, spec_json: &str) -> Outcome<PySqlPlayback> {
    let spec = drive::parse(spec_json)?;
    Ok(PySqlPlayback(py.detach(|| Playback::start(spec))?))
}

#[pymethods]
impl PySqlPlayback {
    /// Wait at most for the given time; True when it has ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6))))
    }

    /// Return how far it is.
    fn live(&self) -> PlaybackLive {
        let live = self.0.live();
        PlaybackLive {
            elapsed_s: seconds(live.elapsed_ns),
            answered: live.answered,
            failed: live.failed,
            skipped: live.skipped,
            captured_total: live.captured_total,
            lag_ns: live.lag_ns,
            open: live.open,
        }
    }

    /// Whether one that awaits its start has counted the trace.
    fn is_ready(&self) -> bool {
        self.0.is_ready()
    }

    /// Begin at a moment (ns) of the monotonic clock, where it awaits its start.
    fn start_at(&self, start_at_ns: u64) {
        self.0.start_at(start_at_ns);
    }

    /// Ask it to end; nothing more is sent, and completed measurements are kept.
    fn stop(&self) {
        self.0.stop();
    }

    /// Return the result, once.
    ///
    /// Raises NativeError when the trace or the server's address is invalid, the system refuses, or
    /// for a defect; RuntimeError while it plays, or when taken before.
    fn result(&self, py: Python<'_>) -> PyResult<PlaybackResult> {
        let why = "it plays, or its result was taken";
        PlaybackResult::of(py, taken(self.0.take_result(), why)?)
    }
}

impl PlaybackResult {
    fn of(py: Python<'_>, played: ReplayResult) -> PyResult<PlaybackResult> {
        let (end, words) = match &played.end {
            PlaybackEnd::Complete => ("complete", String::new()),
            PlaybackEnd::Interrupted => ("interrupted", String::new()),
            PlaybackEnd::ServerLost(words) => ("server_lost", words.clone()),
        };
        let status = if end == "complete" { "complete" } else { "interrupted" };
        let record_json = as_json(&played.record)?;
        let counts = played.counts.as_ref().map(|counts| counts_dict(py, counts)).transpose()?;
        let parts = parts_dict(py, played, status)?.unbind();
        Ok(PlaybackResult { parts, record_json, end, words, counts: counts.map(Bound::unbind) })
    }
}

fn counts_dict<'py>(py: Python<'py>, counts: &MergeableCounts) -> PyResult<Bound<'py, PyDict>> {
    let queries = PyDict::new(py);
    for (fingerprint, times) in &counts.queries {
        let times = dict!(py,
            "service": PyBytes::new(py, &times.service),
            "response": PyBytes::new(py, &times.response),
            "captured": PyBytes::new(py, &times.captured),
        );
        queries.set_item(fingerprint, times)?;
    }
    Ok(dict!(py,
        "queries": queries,
        "lag": PyBytes::new(py, &counts.lag.encode()),
        "driver_lag": PyBytes::new(py, &counts.driver_lag.encode()),
    ))
}

fn parts_dict<'py>(
    py: Python<'py>,
    played: ReplayResult,
    status: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let names: Vec<&str> = played.kinds.iter().map(|kind| kind.class.name()).collect();
    let stalls = played.stalls.iter().map(|quiet| {
        let times = (quiet.start_ns, quiet.length_ns);
        unexplained_stall(py, times, PyDict::new(py), quiet.depth)
    });
    let counters = PyDict::new(py);
    if played.start_lateness_ns > 0 {
        counters.set_item("start_lateness_ns", played.start_lateness_ns as f64)?;
    }
    Ok(dict!(py,
        "engine": "playback",
        "engine_reason": "statements of a trace, sent by Seatrial's own event loop",
        "started_unix_s": seconds(played.start_unix_ns),
        "duration_s": seconds(played.duration_ns),
        "status": status,
        "outcome": outcome_dict(py, &played.outcome)?,
        "operations": operations_dict(py, &played.kinds)?,
        "timeline": timeline_dict(py, played.slice_ns, played.slices, &names)?,
        "stalls": stalls.collect::<PyResult<Vec<_>>>()?,
        "stalls_dropped": played.stalls_dropped,
        "oldest_in_flight_ns": 0,
        "errors_count": played.outcome.failed,
        // The record has them by query and code.
        "errors": PyList::empty(py),
        "counters": counters,
        "verification": None::<u64>,
    ))
}

fn operations_dict<'py>(py: Python<'py>, kinds: &[ClassTimes]) -> PyResult<Bound<'py, PyDict>> {
    let operations = PyDict::new(py);
    for kind in kinds {
        let part = dict!(py,
            "completed": kind.completed,
            "failed": kind.failed,
            "transferred_bytes": 0,
            "response": PyBytes::new(py, &kind.response.encode()),
            "service": PyBytes::new(py, &kind.service.encode()),
        );
        operations.set_item(kind.class.name(), part)?;
    }
    Ok(operations)
}
