//! `start_files` and `FilesRunning`: a workload of files under way.

use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use seatrial_files::spec::FilesSpec;
use seatrial_files::trial::{FilesError, FilesPart, FilesTrial};

use crate::errors::{Failure, Outcome};
use crate::running::CellLive;
use crate::sample::{sample_dict, seconds};

/// A workload of files being measured in background threads.
#[pyclass(frozen, name = "FilesRunning")]
pub struct PyFilesRunning(FilesTrial);

/// Start one workload of files from its specification (docs/engine.md).
///
/// Raises NativeError when it is invalid, or no thread can be started.
#[pyfunction]
pub fn start_files(py: Python<'_>, spec_json: &str) -> Outcome<PyFilesRunning> {
    let spec = FilesSpec::parse(spec_json).map_err(FilesError::from)?;
    Ok(PyFilesRunning(py.detach(|| FilesTrial::start(spec))?))
}

#[pymethods]
impl PyFilesRunning {
    /// Wait at most so long; True when the sample has ended.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        py.detach(|| self.0.wait(Duration::from_secs_f64(timeout_s.clamp(0.0, 1e6))))
    }

    /// Return the last second.
    fn live(&self, py: Python<'_>) -> CellLive {
        CellLive::from(py.detach(|| self.0.live().read()))
    }

    /// Ask the threads to end; what was measured is kept.
    fn stop(&self) {
        self.0.stop();
    }

    /// Return the sample's parts (docs/engine.md), once.
    ///
    /// Raises RuntimeError while running or when taken before, NativeError when it failed.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.0.take_result() {
            Some(Ok((sample, part))) => {
                let parts = sample_dict(py, sample)?;
                parts.set_item("files", files_dict(py, &part)?)?;
                Ok(parts)
            }
            Some(Err(error)) => Err(Failure::from(error).into()),
            None => Err(PyRuntimeError::new_err("it is under way, or its result was taken")),
        }
    }
}

fn files_dict<'py>(py: Python<'py>, part: &FilesPart) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("made_files", part.made.files)?;
    dict.set_item("made_folders", part.made.folders)?;
    dict.set_item("made_bytes", part.made.bytes)?;
    dict.set_item("made_s", seconds(part.made_ns))?;
    dict.set_item("ended", part.ended.name())?;
    dict.set_item("cuts", part.cuts)?;
    dict.set_item("events", part.events)?;
    let loops = PyDict::new(py);
    for (name, count) in &part.loops {
        loops.set_item(name, count)?;
    }
    dict.set_item("loops", loops)?;
    let waits = PyDict::new(py);
    for waited in &part.waited {
        waits.set_item(&waited.name, (waited.count, waited.ns))?;
    }
    dict.set_item("waits", waits)?;
    Ok(dict)
}
