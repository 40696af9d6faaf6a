//! `SqlCapture`: a trace of what clients and a server say, by a proxy or from packets.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use seatrial_capture::spec::CaptureSpec;
use seatrial_capture::{Capture, CaptureError};
use seatrial_trace::checkpoint::recover;

use crate::sql_read::{as_json, explained_error};

/// A capture at work in background threads.
#[pyclass(frozen, name = "SqlCapture")]
pub struct PySqlCapture(Capture);

/// Start to make a trace of what clients and a server say, by proxy or packets (docs/sql.md).
///
/// Raises ValueError, or OSError for a full disk, with what was seen, cause and next step;
/// RuntimeError when the specification is none.
#[pyfunction]
pub fn start_sql_capture(py: Python<'_>, spec_json: &str) -> PyResult<PySqlCapture> {
    let spec = CaptureSpec::parse(spec_json).map_err(python_error)?;
    py.detach(|| Capture::start(spec)).map(PySqlCapture).map_err(python_error)
}

/// Make a trace of one whose capture was cut off; return how many statements it has.
///
/// Raises ValueError with what was seen, cause and next step where there is none.
#[pyfunction]
pub fn recover_trace(py: Python<'_>, trace: PathBuf) -> PyResult<u64> {
    let recovered = py.detach(|| recover(&trace));
    let trace = recovered.map_err(|error| explained_error(error.explained()))?;
    Ok(trace.counts().statements)
}

#[pymethods]
impl PySqlCapture {
    /// Where clients come in, in the order of the specification; of packets none.
    #[getter]
    fn places(&self) -> Vec<String> {
        self.0.places().to_vec()
    }

    /// Wait at most so long; True when it has ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6))))
    }

    /// Return statements so far, those that were left out, and connections that are open.
    fn progress(&self) -> (u64, u64, u64) {
        self.0.progress()
    }

    /// Connections so far that are encrypted, and cannot be read.
    #[getter]
    fn encrypted(&self) -> u64 {
        self.0.encrypted()
    }

    /// Whether the trace cannot be written any more, while passing goes on.
    #[getter]
    fn has_failed(&self) -> bool {
        self.0.has_failed()
    }

    /// Ask it to end: a proxy's connections are closed, and the trace is completed.
    fn stop(&self) {
        self.0.stop();
    }

    /// Return what came of it as JSON, once.
    ///
    /// Raises ValueError, or OSError for a full disk, with what was seen, cause and next step;
    /// RuntimeError while it is at work, when taken before, or for a defect.
    fn result(&self) -> PyResult<String> {
        match self.0.take_result() {
            Some(Ok(captured)) => as_json(&captured),
            Some(Err(error)) => Err(python_error(error)),
            None => Err(PyRuntimeError::new_err("it is at work, or its result was taken")),
        }
    }
}

fn python_error(error: CaptureError) -> PyErr {
    explained_error(error.explained())
}
