//! `SqlCapture`: a trace of what clients and a server say, by a proxy or from packets.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use seatrial_capture::Capture;
use seatrial_capture::spec::CaptureSpec;
use seatrial_trace::checkpoint::recover;

use crate::errors::{Outcome, as_json, taken};

/// A capture that runs in background threads.
#[pyclass(frozen, name = "SqlCapture")]
pub struct PySqlCapture(Capture);

/// Start to capture traffic of clients and a server into a trace (docs/sql.md).
///
/// Raises NativeError when it cannot listen there, packets cannot be seen, or the trace cannot be
/// written.
#[pyfunction]
pub fn start_sql_capture(py: Python<'_>, spec_json: &str) -> Outcome<PySqlCapture> {
    let spec = CaptureSpec::parse(spec_json)?;
    Ok(PySqlCapture(py.detach(|| Capture::start(spec))?))
}

/// Make a trace of one whose capture was cut off; return how many statements it has.
///
/// Raises NativeError where there is none.
#[pyfunction]
pub fn recover_trace(py: Python<'_>, trace: PathBuf) -> Outcome<u64> {
    Ok(py.detach(|| recover(&trace))?.counts().statements)
}

#[pymethods]
impl PySqlCapture {
    /// Where clients come in, in the order of the specification; of packets none.
    #[getter]
    fn places(&self) -> Vec<String> {
        self.0.addresses().to_vec()
    }

    /// Wait at most for the given time; True when it has ended.
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

    /// Return the result as JSON, once.
    ///
    /// Raises NativeError when it failed; RuntimeError while it is running, or when taken before.
    fn result(&self) -> PyResult<String> {
        let why = "it is at work, or its result was taken";
        Ok(as_json(&taken(self.0.take_result(), why)?)?)
    }
}
