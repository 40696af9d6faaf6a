//! `SqlReading`: logs that are being read into a trace.

use std::sync::Mutex;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use seatrial_gauge::lock;
use seatrial_ingest::intake::spec::IntakeSpec;
use seatrial_ingest::intake::{Intake, IntakeError, plan_parts};
use seatrial_ingest::log::parts::{LogPart, LogPartReader};

use crate::errors::{Outcome, as_json, taken};

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

/// Return the parts of logs, each of at most the given size, as JSON documents for SqlPart.
///
/// Raises NativeError when the logs cannot be read, or not in parts.
#[pyfunction]
pub fn sql_log_parts(py: Python<'_>, spec_json: &str, part_bytes: u64) -> Outcome<Vec<String>> {
    let spec = IntakeSpec::parse(spec_json)?;
    let parts = py.detach(|| plan_parts(&spec, part_bytes))?;
    parts.iter().map(as_json).collect()
}

/// A part of a log that is being read; an iterator of its parsed chunks.
#[pyclass(frozen, name = "SqlPart")]
pub struct PySqlPart {
    reader: Mutex<LogPartReader>,
    piece_bytes: u64,
}

#[pymethods]
impl PySqlPart {
    /// Open the file of a part (a document of sql_log_parts), on any host that has it.
    ///
    /// Raises NativeError when it cannot be read there, or is another file.
    #[new]
    fn new(py: Python<'_>, part_json: &str, piece_bytes: u64) -> Outcome<PySqlPart> {
        let part: LogPart = serde_json::from_str(part_json)
            .map_err(|error| IntakeError::Spec(error.to_string()))?;
        let reader = py.detach(|| LogPartReader::open(part)).map_err(IntakeError::Log)?;
        Ok(PySqlPart { reader: Mutex::new(reader), piece_bytes })
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyBytes>>> {
        let piece = py.detach(|| lock(&self.reader).next(self.piece_bytes));
        Ok(piece.map_err(IntakeError::Log)?.map(|piece| PyBytes::new(py, &piece)))
    }
}

#[pymethods]
impl PySqlReading {
    /// Give it the next piece of a part, in their order; False once it takes no more.
    ///
    /// Raises NativeError when it is not a piece, or none is expected.
    fn give(&self, py: Python<'_>, piece: &[u8]) -> Outcome<bool> {
        Ok(py.detach(|| self.0.give(piece))?)
    }

    /// End the pieces: all were given; False once it takes no more.
    ///
    /// Raises NativeError when none is expected.
    fn give_end(&self, py: Python<'_>) -> Outcome<bool> {
        Ok(py.detach(|| self.0.give_end())?)
    }

    /// Wait at most for the given time; True when all was read, or it failed.
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
        let why = "it is being read, or its result was taken";
        Ok(as_json(&taken(self.0.take_result(), why)?)?)
    }
}
