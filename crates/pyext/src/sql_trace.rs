//! Functions over a trace: its contents, statements, sequences and time series; fingerprints.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use seatrial_playback::ids::plan::Plan;
use seatrial_sqltext::catalog::Catalog;
use seatrial_sqltext::lexer;
use seatrial_trace::captured::{Returned, Statement};
use seatrial_trace::mix::TraceSummary;
use seatrial_trace::mix::commits::CommitSeries;
use seatrial_trace::mix::time_series::TimeSeries;
use seatrial_trace::schema::{protocol_name, skip_name};
use seatrial_trace::{Columns, TraceError, TraceReader};
use serde::Serialize;

use crate::errors::{Failure, Outcome, as_json};
use crate::sample::dict;

/// Return the summary of a trace as JSON, with the ``top`` queries by their total time.
///
/// Raises NativeError when it is not a trace.
#[pyfunction]
pub fn show_trace(py: Python<'_>, trace: PathBuf, top: usize) -> Outcome<String> {
    let shown = py.detach(|| TraceSummary::of(&trace, top))?;
    as_json(&shown)
}

/// Return statements of a trace in the order of its log, as dictionaries.
///
/// Raises NativeError when it is not a trace.
#[pyfunction]
pub fn trace_statements(
    py: Python<'_>,
    trace: PathBuf,
    first: usize,
    count: usize,
) -> PyResult<Bound<'_, PyList>> {
    let reader = TraceReader::open(&trace).map_err(Failure::from)?;
    let mut statements = reader.statements(Columns::All);
    let dicts = PyList::empty(py);
    let mut index = 0;
    while dicts.len() < count {
        let Some(traced) = statements.next_statement().map_err(Failure::from)? else { break };
        if index >= first {
            dicts.append(statement_dict(py, &traced.statement)?)?;
        }
        index += 1;
    }
    Ok(dicts)
}

/// A text that a client sent: str where it is UTF-8, else bytes.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into_pyobject(py).map(Bound::into_any).map_err(PyErr::from),
        Err(_) => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

fn statement_dict<'py>(py: Python<'py>, statement: &Statement<'_>) -> PyResult<Bound<'py, PyDict>> {
    let parameters = PyList::empty(py);
    for parameter in statement.parameters {
        match parameter {
            Some(value) => parameters.append(text(py, value)?)?,
            None => parameters.append(py.None())?,
        }
    }
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(dict!(py,
        "session": statement.session.0,
        "start_us": statement.start_us,
        "duration_us": statement.duration_us,
        "protocol": protocol_name(statement.protocol),
        "prepared": text(py, statement.prepared)?,
        "sql": text(py, statement.sql)?,
        "parameters": parameters,
        "transaction": statement.transaction,
        "rows": statement.rows,
        "tag": statement.tag.map(lossy),
        "returned": statement.returned.map(|all| returned(py, all)).transpose()?,
        "error": statement.error.map(|code| lossy(&code)),
        "skip": statement.skip.map(skip_name),
    ))
}

/// The rows that a statement returned: ``columns`` and ``rows``.
fn returned<'py>(py: Python<'py>, all: &Returned) -> PyResult<Bound<'py, PyDict>> {
    let rows = all.rows.iter().map(|row| {
        let values =
            row.iter().map(|value| value.as_deref().map(|value| text(py, value)).transpose());
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    });
    let columns = all.columns.iter().map(|name| text(py, name));
    Ok(dict!(py,
        "columns": columns.collect::<PyResult<Vec<_>>>()?,
        "rows": rows.collect::<PyResult<Vec<_>>>()?,
    ))
}

/// Return fingerprint, text without values, class and number of statements of a text of SQL.
#[pyfunction]
pub fn fingerprint_sql(sql: &str) -> (String, String, &'static str, u32) {
    let (found, _) = lexer::fingerprint(sql.as_bytes());
    (format!("{:016x}", found.hash), found.text, found.class.name(), found.statements)
}

/// Return the time series of a trace as JSON: calls and time by fingerprint and slice.
///
/// Raises NativeError when it is not a trace.
#[pyfunction]
pub fn trace_time_series(py: Python<'_>, trace: PathBuf) -> Outcome<String> {
    let read = || TimeSeries::of(&TraceReader::open(&trace)?);
    let time_series = py.detach(read)?;
    as_json(&time_series)
}

/// Return the commits that write and the statements at work, by slices of time, as JSON.
///
/// Raises NativeError when it is not a trace.
#[pyfunction]
pub fn trace_commits(py: Python<'_>, trace: PathBuf) -> Outcome<String> {
    let series = py.detach(|| CommitSeries::of(&TraceReader::open(&trace)?))?;
    as_json(&series)
}

/// Return the first statement of each of some fingerprints that can be sent again, as
/// ``trace_statements`` does, by fingerprint.
///
/// Raises NativeError when it is not a trace.
#[pyfunction]
pub fn trace_examples<'py>(
    py: Python<'py>,
    trace: PathBuf,
    fingerprints: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let examples = PyDict::new(py);
    let hash = |text: &String| Some((u64::from_str_radix(text, 16).ok()?, text.clone()));
    let mut wanted: HashMap<u64, String> = fingerprints.iter().filter_map(hash).collect();
    let reader = TraceReader::open(&trace).map_err(Failure::from)?;
    let mut statements = reader.statements(Columns::All);
    while !wanted.is_empty() {
        let Some(traced) = statements.next_statement().map_err(Failure::from)? else { break };
        if traced.statement.skip.is_some() || traced.statement.error.is_some() {
            continue;
        }
        if let Some(fingerprint) = wanted.remove(&traced.fingerprint) {
            examples.set_item(fingerprint, statement_dict(py, &traced.statement)?)?;
        }
    }
    Ok(examples)
}

#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct SequenceReport {
    sequence: u32,
    next_value_target: Option<i64>,
    next_value_log: Option<i64>,
}

/// Return present and captured position of each sequence whose ids a trace uses, as JSON.
///
/// ``sequence`` is its index in the catalogue; ``next_value_target`` is the catalogue's, and
/// ``next_value_log`` that of the trace's first draw, None if unknown. Of the trace
/// only sessions of these databases count, of all where there are none.
///
/// Raises NativeError when the catalogue is invalid, or it is not a trace.
#[pyfunction]
pub fn trace_sequences(
    py: Python<'_>,
    trace: PathBuf,
    catalog_json: &str,
    databases: Vec<String>,
) -> Outcome<String> {
    let catalog: Catalog = serde_json::from_str(catalog_json).map_err(Failure::defect)?;
    let plan = py.detach(|| plan(&trace, &catalog, &databases))?;
    let shown: Vec<SequenceReport> = plan
        .positions
        .iter()
        .map(|position| SequenceReport {
            sequence: position.sequence,
            next_value_target: position.next_value_target,
            next_value_log: position.next_value_log,
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
