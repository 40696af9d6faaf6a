//! `SqlReading`: logs that are being read into a trace.

use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use seatrial_ingest::intake::spec::IntakeSpec;
use seatrial_ingest::intake::{Intake, IntakeError};
use seatrial_trace::explained::{Explained, Fault};

/// Logs that are being read in background threads.
#[pyclass(frozen, name = "SqlReading")]
pub struct PySqlReading(Intake);

/// Start to read logs into a trace (docs/sql.md).
///
/// Raises RuntimeError when the specification is none.
#[pyfunction]
pub fn start_sql_read(py: Python<'_>, spec_json: &str) -> PyResult<PySqlReading> {
    let spec = IntakeSpec::parse(spec_json).map_err(python_error)?;
    py.detach(|| Intake::start(spec)).map(PySqlReading).map_err(python_error)
}

#[pymethods]
impl PySqlReading {
    /// Wait at most so long; True when all was read, or it failed.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6))))
    }

    /// Statements so far.
    #[getter]
    fn statements(&self) -> u64 {
        self.0.statements()
    }

    /// Ask it to end; nothing is then written.
    fn stop(&self) {
        self.0.stop();
    }

    /// Return what came of it as JSON, once.
    ///
    /// Raises ValueError, or OSError for a full disk, with what was seen, cause and next step;
    /// RuntimeError while reading, when taken before, or for a defect.
    fn result(&self) -> PyResult<String> {
        match self.0.take_result() {
            Some(Ok(taken)) => as_json(&taken),
            Some(Err(error)) => Err(python_error(error)),
            None => Err(PyRuntimeError::new_err("it is being read, or its result was taken")),
        }
    }
}

fn python_error(error: IntakeError) -> PyErr {
    explained_error(error.explained())
}

/// What is told as JSON.
pub fn as_json(told: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(told).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// An exception whose arguments are what was seen, the cause and the next step.
pub fn explained_error(explained: Explained) -> PyErr {
    let Explained { fault, seen, cause, next } = explained;
    match fault {
        Fault::Usage => PyValueError::new_err((seen, cause, next)),
        // One argument: of several, OSError makes a number and a file's name.
        Fault::Space => PyOSError::new_err(((seen, cause, next),)),
        Fault::Defect => PyRuntimeError::new_err(seen),
    }
}
