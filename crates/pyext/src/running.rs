//! `start` and `Running`: a cell under way.

use std::time::Duration;

use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use seatrial_load::spec::CellSpec;
use seatrial_load::trial::{Trial, TrialError};

use crate::sample::sample_dict;

/// A cell being measured in background threads.
#[pyclass(frozen, name = "Running")]
pub struct PyRunning(Trial);

/// Start one cell from its specification (docs/engine.md).
///
/// Raises ValueError with a sentence when it is not one, OSError when the target cannot be opened.
#[pyfunction]
pub fn start(py: Python<'_>, spec_json: &str) -> PyResult<PyRunning> {
    let spec = CellSpec::parse(spec_json).map_err(|error| python_error(error.into()))?;
    py.detach(|| Trial::start(spec)).map(PyRunning).map_err(python_error)
}

#[pymethods]
impl PyRunning {
    /// Wait at most so long; True when the cell has ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6))))
    }

    /// Return the last second: elapsed_s, iops, bytes_per_s, p99_ns, oldest_in_flight_ns.
    fn live<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reading = py.detach(|| self.0.live().read());
        let live = PyDict::new(py);
        live.set_item("elapsed_s", reading.elapsed_s)?;
        live.set_item("iops", reading.completed_per_s)?;
        live.set_item("bytes_per_s", reading.transferred_bytes_per_s)?;
        live.set_item("p99_ns", reading.p99_ns)?;
        live.set_item("stalls", reading.stalls)?;
        live.set_item("oldest_in_flight_ns", reading.oldest_in_flight_ns)?;
        Ok(live)
    }

    /// Ask the workers to end; what was measured is kept.
    fn stop(&self) {
        self.0.stop();
    }

    /// Return the sample's parts (docs/engine.md), once.
    ///
    /// Raises RuntimeError while running or when taken before, OSError when the engine failed.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.0.take_result() {
            Some(Ok(sample)) => sample_dict(py, sample),
            Some(Err(error)) => Err(python_error(error)),
            None => Err(PyRuntimeError::new_err("the cell is under way, or its result was taken")),
        }
    }
}

fn python_error(error: TrialError) -> PyErr {
    let sentence = error.to_string();
    match &error {
        TrialError::Spec(_) | TrialError::Model(_) | TrialError::Shelf(_) => {
            PyValueError::new_err(sentence)
        }
        TrialError::Open(open) => os_error(open.source.raw_os_error(), sentence),
        TrialError::Engine { source, .. } => os_error(source.raw_os_error(), sentence),
        TrialError::Memory { .. } => PyMemoryError::new_err(sentence),
        TrialError::Accounting(_) => PyRuntimeError::new_err(sentence),
    }
}

/// An OSError with the system's number, 0 where there is none.
pub fn os_error(errno: Option<i32>, sentence: String) -> PyErr {
    PyOSError::new_err((errno.unwrap_or(0), sentence))
}
