//! `SqlPlayback`: a trace that is being played.

use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use seatrial_gauge::Cause;
use seatrial_playback::drive::{self, Playback, PlaybackError};
use seatrial_playback::played::{End, Kind, Played, Quiet};

use crate::sample::{outcome_dict, seconds, timeline_dict};
use crate::sql_read::as_json;

/// A trace that is being played in a background thread.
#[pyclass(frozen, name = "SqlPlayback")]
pub struct PySqlPlayback(Playback);

/// Start to play a trace (docs/engine.md, "Playback").
///
/// Raises ValueError with a sentence when the specification is none, OSError when the system
/// refuses a thread.
#[pyfunction]
pub fn start_sql_playback(py: Python<'_>, spec_json: &str) -> PyResult<PySqlPlayback> {
    let spec = drive::parse(spec_json).map_err(python_error)?;
    py.detach(|| Playback::start(spec)).map(PySqlPlayback).map_err(python_error)
}

#[pymethods]
impl PySqlPlayback {
    /// Wait at most so long; True when it has ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6))))
    }

    /// Return elapsed_s, answered, failed, skipped, captured_total, lag_ns and open.
    fn live<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let live = self.0.live();
        let parts = PyDict::new(py);
        parts.set_item("elapsed_s", seconds(live.elapsed_ns))?;
        parts.set_item("answered", live.answered)?;
        parts.set_item("failed", live.failed)?;
        parts.set_item("skipped", live.skipped)?;
        parts.set_item("captured_total", live.captured_total)?;
        parts.set_item("lag_ns", live.lag_ns)?;
        parts.set_item("open", live.open)?;
        Ok(parts)
    }

    /// Ask it to end; nothing more is sent, and what ran is kept.
    fn stop(&self) {
        self.0.stop();
    }

    /// Return the sample's parts and the record, once.
    ///
    /// Raises ValueError when the trace or the server's address is none, OSError when the system
    /// refuses; RuntimeError while it plays, when taken before, or for a defect.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.0.take_result() {
            Some(Ok(played)) => played_dict(py, played),
            Some(Err(error)) => Err(python_error(error)),
            None => Err(PyRuntimeError::new_err("it plays, or its result was taken")),
        }
    }
}

fn python_error(error: PlaybackError) -> PyErr {
    let sentence = error.to_string();
    match error {
        PlaybackError::Spec(_) | PlaybackError::Trace(_) | PlaybackError::Address { .. } => {
            PyValueError::new_err(sentence)
        }
        PlaybackError::System { .. } => PyOSError::new_err(sentence),
        PlaybackError::NotAccounted(_) | PlaybackError::Defect(_) => {
            PyRuntimeError::new_err(sentence)
        }
    }
}

fn played_dict(py: Python<'_>, played: Played) -> PyResult<Bound<'_, PyDict>> {
    let names: Vec<&str> = played.kinds.iter().map(|kind| kind.class.name()).collect();
    let parts = PyDict::new(py);
    let (end, words) = match &played.end {
        End::Complete => ("complete", ""),
        End::Interrupted => ("interrupted", ""),
        End::ServerLost(words) => ("server_lost", words.as_str()),
    };
    parts.set_item("engine", "playback")?;
    parts.set_item("engine_reason", "statements of a trace, sent by Seatrial's own event loop")?;
    parts.set_item("started_unix_s", seconds(played.start_unix_ns))?;
    parts.set_item("duration_s", seconds(played.duration_ns))?;
    parts.set_item("status", if end == "complete" { "complete" } else { "interrupted" })?;
    parts.set_item("end", end)?;
    parts.set_item("words", words)?;
    parts.set_item("outcome", outcome_dict(py, &played.outcome)?)?;
    parts.set_item("operations", operations_dict(py, &played.kinds)?)?;
    parts.set_item("timeline", timeline_dict(py, played.slice_ns, played.slices, &names)?)?;
    let stalls = played.stalls.iter().map(|quiet| stall_dict(py, quiet));
    parts.set_item("stalls", stalls.collect::<PyResult<Vec<_>>>()?)?;
    parts.set_item("stalls_dropped", played.stalls_dropped)?;
    parts.set_item("oldest_in_flight_ns", 0)?;
    parts.set_item("errors_count", played.outcome.failed)?;
    // Which they were is in the record, by query and code.
    parts.set_item("errors", PyList::empty(py))?;
    parts.set_item("counters", PyDict::new(py))?;
    parts.set_item("verification", None::<u64>)?;
    parts.set_item("record", as_json(&played.record)?)?;
    Ok(parts)
}

fn operations_dict<'py>(py: Python<'py>, kinds: &[Kind]) -> PyResult<Bound<'py, PyDict>> {
    let operations = PyDict::new(py);
    for kind in kinds {
        let part = PyDict::new(py);
        part.set_item("completed", kind.completed)?;
        part.set_item("failed", kind.failed)?;
        part.set_item("transferred_bytes", 0)?;
        part.set_item("response", PyBytes::new(py, &kind.response.encode()))?;
        part.set_item("service", PyBytes::new(py, &kind.service.encode()))?;
        operations.set_item(kind.class.name(), part)?;
    }
    Ok(operations)
}

fn stall_dict<'py>(py: Python<'py>, quiet: &Quiet) -> PyResult<Bound<'py, PyDict>> {
    let part = PyDict::new(py);
    part.set_item("start_s", seconds(quiet.start_ns))?;
    part.set_item("length_s", seconds(quiet.length_ns))?;
    part.set_item("cause", Cause::Unknown.name())?;
    part.set_item("operations", PyDict::new(py))?;
    part.set_item("depth", quiet.depth)?;
    part.set_item("evidence", PyDict::new(py))?;
    Ok(part)
}
