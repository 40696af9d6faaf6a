//! A measured sample as the mapping of docs/engine.md.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use seatrial_gauge::recorder::KindTotals;
use seatrial_gauge::{Cause, Evidence, Operation, SliceRow, Stall};
use seatrial_load::sample::{Sample, Verification};
use seatrial_load::worker::ErrorSample;

/// A dictionary with these items.
macro_rules! dict {
    ($py:expr, $($key:literal: $value:expr),* $(,)?) => {{
        let dict = pyo3::types::PyDict::new($py);
        $(dict.set_item($key, $value)?;)*
        dict
    }};
}
pub(crate) use dict;

/// The sample's parts.
pub fn sample_dict(py: Python<'_>, sample: Sample) -> PyResult<Bound<'_, PyDict>> {
    let start_ns = sample.start_ns;
    let names: Vec<&str> = sample.names.iter().map(String::as_str).collect();
    let operations = operations_dict(py, names.iter().copied().zip(&sample.kinds))?;
    let stalls: PyResult<Vec<_>> =
        sample.stalls.iter().map(|(stall, seen)| stall_dict(py, stall, seen, start_ns)).collect();
    let errors: PyResult<Vec<_>> =
        sample.errors.iter().map(|error| error_dict(py, error, &names, start_ns)).collect();
    let counters = PyDict::new(py);
    for (name, value) in sample.counters {
        counters.set_item(name, value)?;
    }
    let verification =
        sample.verification.map(|found| verification_dict(py, &found)).transpose()?;
    Ok(dict!(py,
        "engine": sample.engine.name,
        "engine_reason": sample.engine.reason,
        "started_unix_s": sample.started_unix_s,
        "duration_s": seconds(sample.duration_ns),
        "status": if sample.interrupted { "interrupted" } else { "complete" },
        "outcome": outcome_dict(py, &sample.outcome)?,
        "operations": operations,
        "timeline": timeline_dict(py, sample.slice_ns, sample.slices, &names)?,
        "stalls": stalls?,
        "stalls_dropped": sample.stalls_dropped,
        "oldest_in_flight_ns": sample.oldest_in_flight_ns,
        "errors_count": sample.errors_count,
        "errors": errors?,
        "counters": counters,
        "verification": verification,
    ))
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
    Ok(dict!(py,
        "offered": outcome.offered,
        "completed": outcome.completed,
        "failed": outcome.failed,
        "late_skipped": outcome.late_skipped,
        "in_flight_at_end": outcome.in_flight_at_end,
    ))
}

/// The totals of kinds by name, without those that did nothing.
pub fn operations_dict<'py, 'k>(
    py: Python<'py>,
    kinds: impl Iterator<Item = (&'k str, &'k KindTotals)>,
) -> PyResult<Bound<'py, PyDict>> {
    let operations = PyDict::new(py);
    for (name, totals) in kinds.filter(|(_, totals)| totals.completed + totals.failed > 0) {
        let service =
            (totals.service.entries() > 0).then(|| PyBytes::new(py, &totals.service.encode()));
        let part = dict!(py,
            "completed": totals.completed,
            "failed": totals.failed,
            "transferred_bytes": totals.transferred_bytes,
            "response": PyBytes::new(py, &totals.response.encode()),
            "service": service,
        );
        operations.set_item(name, part)?;
    }
    Ok(operations)
}

/// A stall whose cause is unknown, as of a log or a server.
pub fn unexplained_stall<'py>(
    py: Python<'py>,
    (start_ns, length_ns): (u64, u64),
    operations: Bound<'py, PyDict>,
    depth: u32,
) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py,
        "start_s": seconds(start_ns),
        "length_s": seconds(length_ns),
        "cause": Cause::Unknown.name(),
        "operations": operations,
        "depth": depth,
        "evidence": PyDict::new(py),
    ))
}

/// A timeline whose rows have the names of their kinds.
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
    Ok(dict!(py,
        "slice_ns": slice_ns,
        "slices": slices,
    ))
}

fn stall_dict<'py>(
    py: Python<'py>,
    stall: &Stall,
    seen: &Evidence,
    start_ns: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let evidence = dict!(py,
        "looks": seen.checks,
        "looks_device_busy": seen.checks_device_busy,
        "looks_block_wait": seen.checks_block_wait,
        "looks_filesystem_wait": seen.checks_filesystem_wait,
        "looks_ring_wait": seen.checks_ring_wait,
        "watchdog_late_ns": seen.watchdog_late_ns,
        "run_delay_ns": seen.run_delay_ns,
        "steal_ns": seen.steal_ns,
        "cpu_quota_ns": seen.quota_ns,
    );
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
    Ok(dict!(py,
        "start_s": seconds(stall.start_ns.saturating_sub(start_ns)),
        "length_s": seconds(stall.length_ns()),
        "cause": seen.cause().name(),
        "operations": operations,
        "depth": stall.depth(),
        "evidence": evidence,
    ))
}

fn error_dict<'py>(
    py: Python<'py>,
    error: &ErrorSample,
    names: &[&str],
    start_ns: u64,
) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict!(py,
        "operation": names[error.kind],
        "offset_bytes": error.offset_bytes,
        "length_bytes": error.length_bytes,
        "errno": error.errno,
        "name": error.name(),
        "at_s": seconds(error.at_ns.saturating_sub(start_ns)),
    ))
}

fn verification_dict<'py>(py: Python<'py>, found: &Verification) -> PyResult<Bound<'py, PyDict>> {
    let corruptions = PyList::empty(py);
    for (offset_bytes, corruption) in &found.corruptions {
        corruptions.append(dict!(py,
            "kind": corruption.kind(),
            "offset_bytes": offset_bytes,
            "detail": corruption.to_string(),
        ))?;
    }
    Ok(dict!(py,
        "checked_blocks": found.checked_blocks,
        "corrupt_blocks": found.corrupt_blocks,
        "corruptions": corruptions,
    ))
}
