//! `start` and `Running`: a cell under way.

use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use seatrial_load::live::LiveReading;
use seatrial_load::running::Running;
use seatrial_load::sample::Sample;
use seatrial_load::spec::CellSpec;
use seatrial_load::trial::{self, TrialError};

use crate::errors::{Failure, Outcome};
use crate::sample::sample_dict;

/// The result of a sample: its parts, or an error.
pub trait SampleResult: Send + 'static {
    /// The parts as the mapping of docs/engine.md.
    fn parts<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>>;
}

/// A sample under way of any kind.
pub trait RunningSample: Send + Sync {
    /// Waits at most for the given time; returns whether it has ended.
    fn wait(&self, timeout: Duration) -> bool;

    /// The last second.
    fn live(&self) -> LiveReading;

    /// Ends it early; completed measurements are kept.
    fn stop(&self);

    /// The sample's parts, or why there are none; nothing while it runs, and the second time.
    fn parts<'py>(&self, py: Python<'py>) -> Option<PyResult<Bound<'py, PyDict>>>;
}

/// A sample being measured in background threads.
#[pyclass(frozen, name = "Running")]
pub struct PyRunning(pub Box<dyn RunningSample>);

impl<R: SampleResult> RunningSample for Running<R> {
    fn wait(&self, timeout: Duration) -> bool {
        self.wait(timeout)
    }

    fn live(&self) -> LiveReading {
        self.live().read()
    }

    fn stop(&self) {
        self.stop();
    }

    fn parts<'py>(&self, py: Python<'py>) -> Option<PyResult<Bound<'py, PyDict>>> {
        Some(self.take_result()?.parts(py))
    }
}

impl SampleResult for Result<Sample, TrialError> {
    fn parts<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        sample_dict(py, self.map_err(into_error)?)
    }
}

/// The exception of a failure.
pub fn into_error<E: Into<Failure>>(error: E) -> PyErr {
    PyErr::from(error.into())
}

/// The last second of a cell.
#[pyclass(frozen, get_all)]
pub struct CellLive {
    /// Since the cell began.
    elapsed_s: f64,
    /// Completed requests per second.
    iops: f64,
    /// Bytes moved per second.
    bytes_per_s: f64,
    /// 99th percentile of the response times.
    p99_ns: u64,
    /// Stalls so far.
    stalls: u64,
    /// Age of the oldest outstanding request.
    oldest_in_flight_ns: u64,
}

impl From<LiveReading> for CellLive {
    fn from(reading: LiveReading) -> CellLive {
        CellLive {
            elapsed_s: reading.elapsed_s,
            iops: reading.completed_per_s,
            bytes_per_s: reading.transferred_bytes_per_s,
            p99_ns: reading.p99_ns,
            stalls: reading.stalls,
            oldest_in_flight_ns: reading.oldest_in_flight_ns,
        }
    }
}

/// Start one cell from its specification (docs/engine.md).
///
/// Raises NativeError when it is invalid, or the target cannot be opened.
#[pyfunction]
pub fn start(py: Python<'_>, spec_json: &str) -> Outcome<PyRunning> {
    let spec = CellSpec::parse(spec_json).map_err(TrialError::from)?;
    Ok(PyRunning(Box::new(py.detach(|| trial::start(spec))?)))
}

#[pymethods]
impl PyRunning {
    /// Wait at most for the given time; True when the sample has ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6))))
    }

    /// Return the last second.
    fn live(&self, py: Python<'_>) -> CellLive {
        CellLive::from(py.detach(|| self.0.live()))
    }

    /// End it early; completed measurements are kept.
    fn stop(&self) {
        self.0.stop();
    }

    /// Return the sample's parts (docs/engine.md), once.
    ///
    /// Raises RuntimeError while running or when taken before, NativeError when it failed.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let under_way = || PyRuntimeError::new_err("it is under way, or its result was taken");
        self.0.parts(py).ok_or_else(under_way)?
    }
}
