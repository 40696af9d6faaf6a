//! Where a trace shows that sequences stood when it begins.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seatrial_sqltext::catalog::Catalog;
use seatrial_trace::{TraceError, TraceReader};
use serde::Serialize;

use crate::sql_read::as_json;
use crate::sql_trace::python_error;
use seatrial_playback::ids::plan::Plan;

#[derive(Serialize)]
struct Shown {
    sequence: u32,
    next_value_target: Option<i64>,
    next_value_log: Option<i64>,
}

/// Return for each sequence whose ids a trace uses where it stands and stood, as JSON.
///
/// ``sequence`` is its place in the catalogue; ``next_value_target`` is the catalogue's, and
/// ``next_value_log`` what the trace's first draw gave, None where that is not known. Of the trace
/// only sessions of these databases count, of all where there are none.
///
/// Raises ValueError: for a catalogue that is none; with what was seen, cause and next step when it
/// is no trace.
#[pyfunction]
pub fn trace_sequences(
    py: Python<'_>,
    trace: PathBuf,
    catalog_json: &str,
    databases: Vec<String>,
) -> PyResult<String> {
    let catalog: Catalog = serde_json::from_str(catalog_json)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let plan = py.detach(|| plan(&trace, &catalog, &databases)).map_err(python_error)?;
    let shown: Vec<Shown> = plan
        .stood
        .iter()
        .map(|stood| Shown {
            sequence: stood.sequence,
            next_value_target: stood.next_value_target,
            next_value_log: stood.next_value_log,
        })
        .collect();
    as_json(&shown)
}

fn plan(trace: &Path, catalog: &Catalog, databases: &[String]) -> Result<Plan, TraceError> {
    let reader = TraceReader::open(trace)?;
    let is_played: Vec<bool> = reader
        .sessions()?
        .iter()
        .map(|session| {
            databases.is_empty() || databases.iter().any(|name| name.as_bytes() == session.database)
        })
        .collect();
    Plan::of(&reader, &is_played, catalog)
}
