//! `read_pgbench_logs`: pgbench's per-transaction logs as the parts of a sample.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use seatrial_gauge::Cause;
use seatrial_ingest::pgbench_log::spec::LogSpec;
use seatrial_ingest::pgbench_log::stalls::LogStall;
use seatrial_ingest::pgbench_log::totals::{ExactTotals, KindTotals};
use seatrial_ingest::pgbench_log::{self, LogSample};

use crate::errors::Failure;
use crate::sample::{outcome_dict, seconds, timeline_dict};

/// Read pgbench's per-transaction logs (docs/engine.md, "pgbench's logs").
///
/// Raises NativeError with file, line number and text when a line makes no sense, or when a file
/// cannot be read.
#[pyfunction]
pub fn read_pgbench_logs<'py>(py: Python<'py>, spec_json: &str) -> PyResult<Bound<'py, PyDict>> {
    let spec = LogSpec::parse(spec_json).map_err(Failure::from)?;
    let sample = py.detach(|| pgbench_log::read(&spec)).map_err(Failure::from)?;
    sample_dict(py, sample)
}

fn sample_dict(py: Python<'_>, sample: LogSample) -> PyResult<Bound<'_, PyDict>> {
    let names: Vec<&str> = sample.kind_names.iter().map(String::as_str).collect();
    let parts = PyDict::new(py);
    parts.set_item("engine", "pgbench")?;
    parts.set_item("engine_reason", "read from pgbench's per-transaction log")?;
    parts.set_item("started_unix_s", seconds(sample.start_unix_ns))?;
    parts.set_item("duration_s", seconds(sample.duration_ns))?;
    parts.set_item("status", "complete")?;
    parts.set_item("outcome", outcome_dict(py, &sample.outcome)?)?;
    parts.set_item("operations", operations_dict(py, &sample.kinds, &names)?)?;
    parts.set_item("timeline", timeline_dict(py, sample.slice_ns, sample.slices, &names)?)?;
    let stalls = sample.stalls.kept.iter().map(|stall| stall_dict(py, stall, &names));
    parts.set_item("stalls", stalls.collect::<PyResult<Vec<_>>>()?)?;
    parts.set_item("stalls_dropped", sample.stalls.dropped)?;
    parts.set_item("oldest_in_flight_ns", 0)?;
    parts.set_item("errors_count", sample.outcome.failed)?;
    let errors = PyList::empty(py);
    for failure in &sample.failures {
        let part = PyDict::new(py);
        part.set_item("operation", names[failure.kind])?;
        part.set_item("offset_bytes", 0)?;
        part.set_item("length_bytes", 0)?;
        part.set_item("errno", 0)?;
        part.set_item("name", failure.reason.name())?;
        part.set_item("at_s", seconds(failure.at_ns))?;
        errors.append(part)?;
    }
    parts.set_item("errors", errors)?;
    parts.set_item("counters", PyDict::new(py))?;
    parts.set_item("verification", None::<u64>)?;
    parts.set_item("exact", exact_dict(py, &sample.total)?)?;
    let processes = sample.processes.iter().map(|exact| exact_dict(py, exact));
    parts.set_item("processes", processes.collect::<PyResult<Vec<_>>>()?)?;
    parts.set_item("truncated_lines", sample.truncated_lines)?;
    parts.set_item("disordered_lines", sample.disordered_lines)?;
    Ok(parts)
}

fn operations_dict<'py>(
    py: Python<'py>,
    kinds: &[KindTotals],
    names: &[&str],
) -> PyResult<Bound<'py, PyDict>> {
    let operations = PyDict::new(py);
    for (name, totals) in names.iter().zip(kinds) {
        if totals.completed + totals.failed == 0 {
            continue;
        }
        let part = PyDict::new(py);
        part.set_item("completed", totals.completed)?;
        part.set_item("failed", totals.failed)?;
        part.set_item("transferred_bytes", 0)?;
        part.set_item("response", PyBytes::new(py, &totals.response.encode()))?;
        let service =
            (totals.service.entries() > 0).then(|| PyBytes::new(py, &totals.service.encode()));
        part.set_item("service", service)?;
        operations.set_item(name, part)?;
    }
    Ok(operations)
}

fn stall_dict<'py>(
    py: Python<'py>,
    stall: &LogStall,
    names: &[&str],
) -> PyResult<Bound<'py, PyDict>> {
    let operations = PyDict::new(py);
    for (name, &transactions) in names.iter().zip(&stall.operations) {
        if transactions > 0 {
            operations.set_item(name, transactions)?;
        }
    }
    let part = PyDict::new(py);
    part.set_item("start_s", seconds(stall.start_ns))?;
    part.set_item("length_s", seconds(stall.length_ns))?;
    part.set_item("cause", Cause::Unknown.name())?;
    part.set_item("operations", operations)?;
    part.set_item("depth", stall.depth())?;
    part.set_item("evidence", PyDict::new(py))?;
    Ok(part)
}

fn exact_dict<'py>(py: Python<'py>, exact: &ExactTotals) -> PyResult<Bound<'py, PyDict>> {
    let part = PyDict::new(py);
    part.set_item("transactions", exact.transactions)?;
    part.set_item("failed", exact.failed)?;
    part.set_item("skipped", exact.skipped)?;
    part.set_item("clients", exact.clients)?;
    part.set_item("latency_us_sum", exact.latency_us_sum)?;
    part.set_item("latency_us_max", exact.latency_us_max)?;
    part.set_item("lag_us_sum", exact.lag_us_sum)?;
    part.set_item("lag_us_max", exact.lag_us_max)?;
    part.set_item("retries", exact.retries)?;
    part.set_item("first_start_unix_us", exact.first_start_unix_us)?;
    part.set_item("last_end_unix_us", exact.last_end_unix_us)?;
    Ok(part)
}
