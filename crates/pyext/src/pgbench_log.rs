//! `read_pgbench_logs`: pgbench's per-transaction logs as the parts of a sample.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use seatrial_ingest::pgbench_log::spec::LogSpec;
use seatrial_ingest::pgbench_log::stalls::LogStall;
use seatrial_ingest::pgbench_log::totals::ExactTotals;
use seatrial_ingest::pgbench_log::{self, LogSample};

use crate::errors::Failure;
use crate::sample::{
    dict, operations_dict, outcome_dict, seconds, timeline_dict, unexplained_stall,
};

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
    let operations = operations_dict(py, names.iter().copied().zip(&sample.kinds))?;
    let stalls = sample.stalls.kept.iter().map(|stall| stall_dict(py, stall, &names));
    let errors = PyList::empty(py);
    for failure in &sample.failures {
        errors.append(dict!(py,
            "operation": names[failure.kind],
            "offset_bytes": 0,
            "length_bytes": 0,
            "errno": 0,
            "name": failure.reason.name(),
            "at_s": seconds(failure.at_ns),
        ))?;
    }
    let processes = sample.processes.iter().map(|exact| exact_dict(py, exact));
    Ok(dict!(py,
        "engine": "pgbench",
        "engine_reason": "read from pgbench's per-transaction log",
        "started_unix_s": seconds(sample.start_unix_ns),
        "duration_s": seconds(sample.duration_ns),
        "status": "complete",
        "outcome": outcome_dict(py, &sample.outcome)?,
        "operations": operations,
        "timeline": timeline_dict(py, sample.slice_ns, sample.slices, &names)?,
        "stalls": stalls.collect::<PyResult<Vec<_>>>()?,
        "stalls_dropped": sample.stalls.dropped,
        "oldest_in_flight_ns": 0,
        "errors_count": sample.outcome.failed,
        "errors": errors,
        "counters": PyDict::new(py),
        "verification": None::<u64>,
        "exact": exact_dict(py, &sample.total)?,
        "processes": processes.collect::<PyResult<Vec<_>>>()?,
        "truncated_lines": sample.truncated_lines,
        "disordered_lines": sample.disordered_lines,
    ))
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
    unexplained_stall(py, (stall.start_ns, stall.length_ns), operations, stall.depth())
}

fn exact_dict<'py>(py: Python<'py>, exact: &ExactTotals) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py,
        "transactions": exact.transactions,
        "failed": exact.failed,
        "skipped": exact.skipped,
        "clients": exact.clients,
        "latency_us_sum": exact.latency_us_sum,
        "latency_us_max": exact.latency_us_max,
        "lag_us_sum": exact.lag_us_sum,
        "lag_us_max": exact.lag_us_max,
        "retries": exact.retries,
        "first_start_unix_us": exact.first_start_unix_us,
        "last_end_unix_us": exact.last_end_unix_us,
    ))
}
