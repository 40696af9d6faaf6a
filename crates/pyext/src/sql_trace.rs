//! What a trace holds.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use seatrial_trace::captured::{Returned, Statement};
use seatrial_trace::schema::{protocol_name, skip_name};
use seatrial_trace::shown::Shown;
use seatrial_trace::{Columns, TraceError, TraceReader};

use crate::sql_read::{as_json, explained_error};

/// Return what a trace holds as JSON, with the ``top`` queries by their total time.
///
/// Raises ValueError with what was seen, cause and next step when it is no trace.
#[pyfunction]
pub fn show_trace(py: Python<'_>, trace: PathBuf, top: usize) -> PyResult<String> {
    let shown = py.detach(|| Shown::of(&trace, top)).map_err(python_error)?;
    as_json(&shown)
}

/// Return statements of a trace in the order of its log, as dictionaries.
///
/// Raises ValueError with what was seen, cause and next step when it is no trace.
#[pyfunction]
pub fn trace_statements(
    py: Python<'_>,
    trace: PathBuf,
    first: usize,
    count: usize,
) -> PyResult<Bound<'_, PyList>> {
    let reader = TraceReader::open(&trace).map_err(python_error)?;
    let mut statements = reader.statements(Columns::All);
    let told = PyList::empty(py);
    let mut place = 0;
    while told.len() < count {
        let Some(traced) = statements.next_statement().map_err(python_error)? else { break };
        if place >= first {
            told.append(statement_dict(py, &traced.statement)?)?;
        }
        place += 1;
    }
    Ok(told)
}

pub(crate) fn python_error(error: TraceError) -> PyErr {
    explained_error(error.explained())
}

/// A text that a client sent: str where it is UTF-8, else bytes.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into_pyobject(py).map(Bound::into_any).map_err(PyErr::from),
        Err(_) => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

pub(crate) fn statement_dict<'py>(
    py: Python<'py>,
    statement: &Statement<'_>,
) -> PyResult<Bound<'py, PyDict>> {
    let parameters = PyList::empty(py);
    for parameter in statement.parameters {
        match parameter {
            Some(value) => parameters.append(text(py, value)?)?,
            None => parameters.append(py.None())?,
        }
    }
    let told = PyDict::new(py);
    told.set_item("session", statement.session.0)?;
    told.set_item("start_us", statement.start_us)?;
    told.set_item("duration_us", statement.duration_us)?;
    told.set_item("protocol", protocol_name(statement.protocol))?;
    told.set_item("prepared", text(py, statement.prepared)?)?;
    told.set_item("sql", text(py, statement.sql)?)?;
    told.set_item("parameters", parameters)?;
    told.set_item("transaction", statement.transaction)?;
    told.set_item("rows", statement.rows)?;
    let tag = statement.tag.map(|tag| String::from_utf8_lossy(tag).into_owned());
    told.set_item("tag", tag)?;
    told.set_item("returned", statement.returned.map(|all| returned(py, all)).transpose()?)?;
    let error = statement.error.map(|code| String::from_utf8_lossy(&code).into_owned());
    told.set_item("error", error)?;
    told.set_item("skip", statement.skip.map(skip_name))?;
    Ok(told)
}

/// What a statement gave back: ``columns`` and ``rows``.
fn returned<'py>(py: Python<'py>, all: &Returned) -> PyResult<Bound<'py, PyDict>> {
    let rows = all.rows.iter().map(|row| {
        let values =
            row.iter().map(|value| value.as_deref().map(|value| text(py, value)).transpose());
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    });
    let columns = all.columns.iter().map(|name| text(py, name));
    let told = PyDict::new(py);
    told.set_item("columns", columns.collect::<PyResult<Vec<_>>>()?)?;
    told.set_item("rows", rows.collect::<PyResult<Vec<_>>>()?)?;
    Ok(told)
}
