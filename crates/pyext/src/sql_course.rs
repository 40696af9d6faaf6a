//! What a comparison of before and after asks of texts and traces.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use seatrial_sqltext::lexer;
use seatrial_trace::mix::course::Course;
use seatrial_trace::{Columns, TraceReader};

use crate::sql_read::as_json;
use crate::sql_trace::{python_error, statement_dict};

/// Return fingerprint, text without values, class and number of statements of a text of SQL.
#[pyfunction]
pub fn fingerprint_sql(sql: &str) -> (String, String, &'static str, u32) {
    let (found, _) = lexer::fingerprint(sql.as_bytes());
    (format!("{:016x}", found.hash), found.text, found.class.name(), found.statements)
}

/// Return how a trace went as JSON: calls and time of each fingerprint, by slices of time.
///
/// Raises ValueError with what was seen, cause and next step when it is no trace.
#[pyfunction]
pub fn trace_course(py: Python<'_>, trace: PathBuf) -> PyResult<String> {
    let read = || Course::of(&TraceReader::open(&trace)?);
    let course = py.detach(read).map_err(python_error)?;
    as_json(&course)
}

/// Return the first statement of each of some fingerprints that can be sent again, as
/// ``trace_statements`` does, by fingerprint.
///
/// Raises ValueError with what was seen, cause and next step when it is no trace.
#[pyfunction]
pub fn trace_examples<'py>(
    py: Python<'py>,
    trace: PathBuf,
    fingerprints: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    let hash = |text: &String| Some((u64::from_str_radix(text, 16).ok()?, text.clone()));
    let mut wanted: HashMap<u64, String> = fingerprints.iter().filter_map(hash).collect();
    let reader = TraceReader::open(&trace).map_err(python_error)?;
    let mut statements = reader.statements(Columns::All);
    while !wanted.is_empty() {
        let Some(traced) = statements.next_statement().map_err(python_error)? else { break };
        if traced.statement.skip.is_some() || traced.statement.error.is_some() {
            continue;
        }
        if let Some(fingerprint) = wanted.remove(&traced.fingerprint) {
            told.set_item(fingerprint, statement_dict(py, &traced.statement)?)?;
        }
    }
    Ok(told)
}
