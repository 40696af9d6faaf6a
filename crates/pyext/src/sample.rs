//! A measured sample as the mapping of docs/engine.md.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use seatrial_gauge::recorder::KindTotals;
use seatrial_gauge::{Cause, Evidence, Operation, SliceRow, Stall};
use seatrial_load::sample::{Sample, Verification};
use seatrial_load::worker::ErrorSample;

/// The sample's parts.
pub fn sample_dict(py: Python<'_>, sample: Sample) -> PyResult<Bound<'_, PyDict>> {
    let start_ns = sample.start_ns;
    let names: Vec<&str> = sample.names.iter().map(String::as_str).collect();
    let parts = PyDict::new(py);
    parts.set_item("engine", sample.engine.name)?;
    parts.set_item("engine_reason", sample.engine.reason)?;
    parts.set_item("started_unix_s", sample.started_unix_s)?;
    parts.set_item("duration_s", seconds(sample.duration_ns))?;
    parts.set_item("status", if sample.interrupted { "interrupted" } else { "complete" })?;
    parts.set_item("outcome", outcome_dict(py, &sample.outcome)?)?;
    parts.set_item("operations", operations_dict(py, &names, &sample.kinds)?)?;
    parts.set_item("timeline", timeline_dict(py, sample.slice_ns, sample.slices, &names)?)?;
    let stalls: PyResult<Vec<_>> =
        sample.stalls.iter().map(|(stall, seen)| stall_dict(py, stall, seen, start_ns)).collect();
    parts.set_item("stalls", stalls?)?;
    parts.set_item("stalls_dropped", sample.stalls_dropped)?;
    parts.set_item("oldest_in_flight_ns", sample.oldest_in_flight_ns)?;
    parts.set_item("errors_count", sample.errors_count)?;
    let errors: PyResult<Vec<_>> =
        sample.errors.iter().map(|error| error_dict(py, error, &names, start_ns)).collect();
    parts.set_item("errors", errors?)?;
    let counters = PyDict::new(py);
    for (name, value) in sample.counters {
        counters.set_item(name, value)?;
    }
    parts.set_item("counters", counters)?;
    let verification =
        sample.verification.map(|found| verification_dict(py, &found)).transpose()?;
    parts.set_item("verification", verification)?;
    Ok(parts)
}

/// ns as seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// The accounting equation's terms.
pub fn outcome_dict<'py>(
    py: Python<'py>,
    outcome: &seatrial_gauge::Outcome,
) -> PyResult<Bound<'py, PyDict>> {
    let terms = PyDict::new(py);
    terms.set_item("offered", outcome.offered)?;
    terms.set_item("completed", outcome.completed)?;
    terms.set_item("failed", outcome.failed)?;
    terms.set_item("late_skipped", outcome.late_skipped)?;
    terms.set_item("in_flight_at_end", outcome.in_flight_at_end)?;
    Ok(terms)
}

fn operations_dict<'py>(
    py: Python<'py>,
    names: &[&str],
    kinds: &[KindTotals],
) -> PyResult<Bound<'py, PyDict>> {
    let operations = PyDict::new(py);
    for (name, totals) in names.iter().zip(kinds) {
        if totals.completed + totals.failed == 0 {
            continue;
        }
        let part = PyDict::new(py);
        part.set_item("completed", totals.completed)?;
        part.set_item("failed", totals.failed)?;
        part.set_item("transferred_bytes", totals.transferred_bytes)?;
        part.set_item("response", PyBytes::new(py, &totals.response.encode()))?;
        let service =
            (totals.service.entries() > 0).then(|| PyBytes::new(py, &totals.service.encode()));
        part.set_item("service", service)?;
        operations.set_item(name, part)?;
    }
    Ok(operations)
}

/// A timeline whose rows bear the names of their kinds.
pub fn timeline_dict<'py>(
    py: Python<'py>,
    slice_ns: u64,
    rows: Vec<SliceRow>,
    names: &[&str],
) -> PyResult<Bound<'py, PyDict>> {
    let slices = PyList::empty(py);
    for row in rows {
        let response = PyBytes::new(py, &row.response);
        let name = names[row.kind];
        slices.append((row.index, name, row.completed, row.transferred_bytes, response))?;
    }
    let timeline = PyDict::new(py);
    timeline.set_item("slice_ns", slice_ns)?;
    timeline.set_item("slices", slices)?;
    Ok(timeline)
}

fn stall_dict<'py>(
    py: Python<'py>,
    stall: &Stall,
    seen: &Evidence,
    start_ns: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let evidence = PyDict::new(py);
    evidence.set_item("looks", seen.checks)?;
    evidence.set_item("looks_device_busy", seen.checks_device_busy)?;
    evidence.set_item("looks_block_wait", seen.checks_block_wait)?;
    evidence.set_item("looks_filesystem_wait", seen.checks_filesystem_wait)?;
    evidence.set_item("looks_ring_wait", seen.checks_ring_wait)?;
    evidence.set_item("watchdog_late_ns", seen.watchdog_late_ns)?;
    evidence.set_item("run_delay_ns", seen.run_delay_ns)?;
    evidence.set_item("steal_ns", seen.steal_ns)?;
    evidence.set_item("cpu_quota_ns", seen.quota_ns)?;
    let limit = match seen.cause() {
        Cause::Throttle => seen.throttle.as_ref(),
        Cause::Quota => seen.quota.as_ref(),
        _ => None,
    };
    if let Some(limit) = limit {
        evidence.set_item("cgroup", &limit.group)?;
        evidence.set_item("cgroup_setting", &limit.setting)?;
    }
    let operations = PyDict::new(py);
    for operation in Operation::ALL {
        let requests = stall.operations[operation.index()];
        if requests > 0 {
            operations.set_item(operation.name(), requests)?;
        }
    }
    let part = PyDict::new(py);
    part.set_item("start_s", seconds(stall.start_ns.saturating_sub(start_ns)))?;
    part.set_item("length_s", seconds(stall.length_ns()))?;
    part.set_item("cause", seen.cause().name())?;
    part.set_item("operations", operations)?;
    part.set_item("depth", stall.depth())?;
    part.set_item("evidence", evidence)?;
    Ok(part)
}

fn error_dict<'py>(
    py: Python<'py>,
    error: &ErrorSample,
    names: &[&str],
    start_ns: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let part = PyDict::new(py);
    part.set_item("operation", names[error.kind])?;
    part.set_item("offset_bytes", error.offset_bytes)?;
    part.set_item("length_bytes", error.length_bytes)?;
    part.set_item("errno", error.errno)?;
    part.set_item("name", error.name())?;
    part.set_item("at_s", seconds(error.at_ns.saturating_sub(start_ns)))?;
    Ok(part)
}

fn verification_dict<'py>(py: Python<'py>, found: &Verification) -> PyResult<Bound<'py, PyDict>> {
    let corruptions = PyList::empty(py);
    for (offset_bytes, corruption) in &found.corruptions {
        let part = PyDict::new(py);
        part.set_item("kind", corruption.kind())?;
        part.set_item("offset_bytes", offset_bytes)?;
        part.set_item("detail", corruption.to_string())?;
        corruptions.append(part)?;
    }
    let part = PyDict::new(py);
    part.set_item("checked_blocks", found.checked_blocks)?;
    part.set_item("corrupt_blocks", found.corrupt_blocks)?;
    part.set_item("corruptions", corruptions)?;
    Ok(part)
}
