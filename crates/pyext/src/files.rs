//! `start_files`: a workload of files under way.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use seatrial_files::spec::FilesSpec;
use seatrial_files::trial::{self, FilesError, FilesPart};
use seatrial_load::sample::Sample;

use crate::errors::Outcome;
use crate::running::{PyRunning, SampleResult, into_error};
use crate::sample::{dict, sample_dict, seconds};

/// Start one workload of files from its specification (docs/engine.md).
///
/// Raises NativeError when it is invalid, or no thread can be started.
#[pyfunction]
pub fn start_files(py: Python<'_>, spec_json: &str) -> Outcome<PyRunning> {
    let spec = FilesSpec::parse(spec_json).map_err(FilesError::from)?;
    Ok(PyRunning(Box::new(py.detach(|| trial::start(spec))?)))
}

impl SampleResult for Result<(Sample, FilesPart), FilesError> {
    fn parts<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (sample, part) = self.map_err(into_error)?;
        let parts = sample_dict(py, sample)?;
        parts.set_item("files", files_dict(py, &part)?)?;
        Ok(parts)
    }
}

fn files_dict<'py>(py: Python<'py>, part: &FilesPart) -> PyResult<Bound<'py, PyDict>> {
    let (loops, waits) = (PyDict::new(py), PyDict::new(py));
    for (name, count) in &part.loops {
        loops.set_item(name, count)?;
    }
    for waited in &part.waited {
        waits.set_item(&waited.name, (waited.count, waited.ns))?;
    }
    Ok(dict!(py,
        "made_files": part.made.files,
        "made_folders": part.made.folders,
        "made_bytes": part.made.bytes,
        "made_s": seconds(part.made_ns),
        "ended": part.ended.name(),
        "cuts": part.cuts,
        "events": part.events,
        "loops": loops,
        "waits": waits,
    ))
}
