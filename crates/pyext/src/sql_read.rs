//! `SqlReading`: logs that are being read into a trace.

use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use seatrial_ingest::intake::Intake;
use seatrial_ingest::intake::spec::IntakeSpec;

use crate::errors::{Failure, Outcome, as_json};

/// Logs that are being read in background threads.
#[pyclass(frozen, name = "SqlReading")]
pub struct PySqlReading(Intake);

/// Start to read logs into a trace (docs/sql.md).
///
/// Raises NativeError when the specification is invalid.
#[pyfunction]
pub fn start_sql_read(py: Python<'_>, spec_json: &str) -> Outcome<PySqlReading> {
    let spec = IntakeSpec::parse(spec_json)?;
    Ok(PySqlReading(py.detach(|| Intake::start(spec))?))
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

    /// Return the result as JSON, once.
    ///
    /// Raises NativeError when it failed; RuntimeError while reading, or when taken before.
    fn result(&self) -> PyResult<String> {
        match self.0.take_result() {
            Some(Ok(taken)) => Ok(as_json(&taken)?),
            Some(Err(error)) => Err(Failure::from(error).into()),
            None => Err(PyRuntimeError::new_err("it is being read, or its result was taken")),
        }
    }
}
