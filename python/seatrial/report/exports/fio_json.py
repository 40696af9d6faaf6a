"""A run in the layout of ``fio --output-format=json+``, for fio-plot and other readers.

One job per cell, all its rounds together: requests and run times are added up and histograms are
merged, so that IOPS are requests over run time as in fio, not the median of rounds. fio's ``clat``
counts from the submission (our service time), its ``lat`` from when the request was due (our
response time); in a closed loop both are the same. Spreads over time (``iops_min``, ``bw_dev`` ...)
are those of the timeline's slices. The layout is that of fio 3.33's stat.c.

fio has no copies or databases; such cells are left out and listed under ``seatrial``. A commit
(write and flush timed together) is a write whose latency includes the flush.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from seatrial._core import Histogram
from seatrial.findings.model import Summary
from seatrial.report.exports.fio_job import load_options, nothing_for_fio, pattern_of
from seatrial.results.model import Sample, merged_histogram
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import DATABASE_OPERATIONS, FILES
from seatrial.study.cell import Cell
from seatrial.units import KIB

DIRECTIONS: Final = {"read": ("read",), "write": ("write", "commit"), "trim": ()}
"""fio's name of each data direction and our operation kinds that belong to it."""

UNIFIED: Final = {"mixed": ("mixed",)}
"""The same of reads and writes that were counted together (``unified_rw_reporting``)."""

WITHOUT_WORDS: Final = ("copy", FILES, *DATABASE_OPERATIONS)
"""Operations without an equivalent in fio."""

PERCENTS: Final = (
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9,
    99.95, 99.99,
)  # fmt: skip
LATENCY_STEPS: Final = {
    "latency_ns": (1, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)),
    "latency_us": (10**3, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)),
    "latency_ms": (10**6, (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000)),
}
DEPTH_STEPS: Final = (1, 2, 4, 8, 16, 32)

Part = dict[str, Any]


def render(summary: Summary) -> str:
    """Return the run as one fio document with a job for each cell that fio could run.

    Raises:
        UsageError: when it could run none of them.
    """
    known = [part for part in summary.cells if part.cell.operation not in WITHOUT_WORDS]
    if summary.cells and not known:
        raise nothing_for_fio(f"run {summary.run.id}")
    left_out = [part.cell.key for part in summary.cells if part.cell.operation in WITHOUT_WORDS]
    jobs = [_job(index, part) for index, part in enumerate(known)]
    # fio prints the time of its end; readers subtract the longest time since the start.
    printed_at = summary.run.started_at + max((job["elapsed"] for job in jobs), default=0)
    content = {
        "fio version": f"seatrial-{summary.run.seatrial_version}",
        "timestamp": int(printed_at),
        "timestamp_ms": int(printed_at * 1000),
        "seatrial": {"run": summary.run.id, "left_out": left_out},
        "jobs": jobs,
        "disk_util": [],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def _job(index: int, summary: CellSummary) -> Part:
    samples = summary.samples
    runtime_s = sum(sample.duration_s for sample in samples)
    errors = [error.errno for sample in samples for error in sample.errors]
    is_unified = any("mixed" in sample.operations for sample in samples)
    directions = UNIFIED if is_unified else DIRECTIONS
    return {
        "jobname": summary.cell.key,
        "groupid": index,
        "error": errors[0] if errors else 0,
        **_errors(samples, errors),
        "eta": 0,
        "elapsed": math.ceil(runtime_s),
        "job options": _options(summary.cell, runtime_s),
        **{name: _direction(samples, kinds) for name, kinds in directions.items()},
        "sync": _sync(samples),
        "job_runtime": round(runtime_s * 1000),
        **_processor_shares(samples, runtime_s),
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        **_depths(summary.cell),
        **_latency_percent(samples),
        "latency_depth": summary.cell.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    }


def _errors(samples: Sequence[Sample], errors: Sequence[int]) -> Part:
    """Return the failed requests of a job, which fio prints only if there are any."""
    failed = sum(sample.outcome.failed for sample in samples)
    return {"total_err": failed, "first_error": errors[0] if errors else 0} if failed else {}


def _options(cell: Cell, runtime_s: float) -> dict[str, str]:
    """Return the options with which fio would run the cell, as text."""
    return {
        "name": cell.key,
        "description": f"seatrial kind={cell.kind} target={cell.target}",
        "rw": _access(cell),
        "bs": _size(cell.block_size_bytes),
        "iodepth": str(cell.depth),
        "numjobs": str(cell.threads),
        "direct": str(int(cell.parsed.target.direct)),
        "runtime": str(math.ceil(runtime_s)),
        **load_options(cell),
    }


def _access(cell: Cell) -> str:
    """Return fio's word for the direction and the order of addresses."""
    plain = {"read": "read", "write": "write", "commit": "write"}.get(cell.operation, "rw")
    return plain if pattern_of(cell) in {"sequential", "strided"} else f"rand{plain}"


def _size(size_bytes: int) -> str:
    if size_bytes == 0:
        return "mixed"
    return f"{size_bytes // KIB}k" if size_bytes % KIB == 0 else str(size_bytes)


def _direction(samples: Sequence[Sample], kinds: Sequence[str]) -> Part:
    results = [
        result for sample in samples for kind, result in sample.operations.items() if kind in kinds
    ]
    # fio reports no run time for a direction that was not requested.
    runtime_s = sum(sample.duration_s for sample in samples) if results else 0.0
    io_bytes = sum(result.transferred_bytes for result in results)
    completed = sum(result.completed for result in results)
    bytes_per_s = io_bytes / runtime_s if runtime_s else 0.0
    return {
        "io_bytes": io_bytes,
        "io_kbytes": io_bytes // KIB,
        "bw_bytes": int(bytes_per_s),
        "bw": int(bytes_per_s / KIB),
        "iops": completed / runtime_s if runtime_s else 0.0,
        "runtime": round(runtime_s * 1000),
        # As fio counts them.
        "total_ios": completed + sum(result.failed for result in results),
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": _moments(Histogram.of([])),
        "clat_ns": _distribution(
            merged_histogram([result.service_histogram() for result in results])
        ),
        "lat_ns": _moments(merged_histogram([result.response_histogram() for result in results])),
        **_spread(samples, kinds),
    }


def _sync(samples: Sequence[Sample]) -> Part:
    results = [sample.operations["sync"] for sample in samples if "sync" in sample.operations]
    merged = merged_histogram([result.response_histogram() for result in results])
    return {"total_ios": merged.count, "lat_ns": _distribution(merged)}


def _moments(histogram: Histogram) -> Part:
    return {
        "min": histogram.min_ns,
        "max": histogram.max_ns,
        "mean": histogram.mean_ns,
        "stddev": _deviation_ns(histogram),
        "N": histogram.count,
    }


def _deviation_ns(histogram: Histogram) -> float:
    """Return the standard deviation of the entries, each at the middle of its bucket."""
    if histogram.count < 2:
        return 0.0
    lows, highs, counts = histogram.buckets()
    squares = (
        count * ((low + high) / 2 - histogram.mean_ns) ** 2
        for low, high, count in zip(lows, highs, counts, strict=True)
    )
    return math.sqrt(sum(squares) / (histogram.count - 1))


def _distribution(histogram: Histogram) -> Part:
    """Return moments, percentiles and bins; without entries only moments, as in fio."""
    if histogram.count == 0:
        return _moments(histogram)
    lows, highs, counts = histogram.buckets()
    percentiles = {f"{percent:.6f}": histogram.percentile_ns(percent) for percent in PERCENTS}
    bins = {
        str((low + high) // 2): count for low, high, count in zip(lows, highs, counts, strict=True)
    }
    return {**_moments(histogram), "percentile": percentiles, "bins": bins}


def _spread(samples: Sequence[Sample], kinds: Sequence[str]) -> Part:
    """Return how IOPS and bandwidth (KiB/s) vary over the slices of all rounds."""
    pairs = [pair for sample in samples for pair in _slices(sample, kinds)]
    completed_per_s = [completed for completed, _ in pairs] or [0.0]
    kib_per_s = [transferred / KIB for _, transferred in pairs] or [0.0]
    return {
        "bw_min": int(min(kib_per_s)),
        "bw_max": int(max(kib_per_s)),
        "bw_agg": 100.0 if pairs else 0.0,
        "bw_mean": statistics.fmean(kib_per_s),
        "bw_dev": statistics.pstdev(kib_per_s),
        "bw_samples": len(pairs),
        "iops_min": int(min(completed_per_s)),
        "iops_max": int(max(completed_per_s)),
        "iops_mean": statistics.fmean(completed_per_s),
        "iops_stddev": statistics.pstdev(completed_per_s),
        "iops_samples": len(pairs),
    }


def _slices(sample: Sample, kinds: Sequence[str]) -> list[tuple[float, float]]:
    """Return requests and bytes per second of each whole slice, 0 where nothing completed."""
    if not any(kind in sample.operations for kind in kinds):
        return []
    slice_s = sample.timeline.slice_ns / 1e9
    totals = [(0, 0)] * int(sample.duration_s / slice_s + 1e-9)
    for part in sample.timeline.slices:
        if part.operation in kinds and part.index < len(totals):
            completed, transferred = totals[part.index]
            totals[part.index] = (completed + part.completed, transferred + part.transferred_bytes)
    return [(completed / slice_s, transferred / slice_s) for completed, transferred in totals]


def _processor_shares(samples: Sequence[Sample], runtime_s: float) -> dict[str, float]:
    """Return user and system CPU in percent of the run time, over all threads."""
    counters = {"usr_cpu": "cpu_user_ns", "sys_cpu": "cpu_system_ns"}
    used_s = {
        name: sum(sample.counters.get(counter, 0.0) for sample in samples) / 1e9
        for name, counter in counters.items()
    }
    return {name: 100 * spent / runtime_s if runtime_s else 0.0 for name, spent in used_s.items()}


def _depths(cell: Cell) -> Part:
    """Return the shares of depths, in fio's steps of two: a closed loop keeps its depth.

    Under an arrival schedule the depth varies, and the sizes of submitted batches are not recorded:
    both are all zero.
    """
    closed = not cell.parsed.arrival.is_scheduled
    steps = [step for step in DEPTH_STEPS if step <= cell.depth < 2 * DEPTH_STEPS[-1]]
    kept = str(steps[-1]) if steps else ">=64"
    levels = dict.fromkeys([*map(str, DEPTH_STEPS), ">=64"], 0.0)
    batches = dict.fromkeys(["0", *map(str, DEPTH_STEPS[2:]), "64", ">=64"], 0.0)
    return {
        "iodepth_level": levels | ({kept: 100.0} if closed else {}),
        "iodepth_submit": batches,
        "iodepth_complete": batches,
    }


def _latency_percent(samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Return the percentage of requests of every kind within each of fio's steps."""
    results = [result for sample in samples for result in sample.operations.values()]
    merged = merged_histogram([result.response_histogram() for result in results])
    limits_ns = [unit_ns * step for unit_ns, steps in LATENCY_STEPS.values() for step in steps]
    inside = [0] * (len(limits_ns) + 1)
    for low_ns, high_ns, count in zip(*merged.buckets(), strict=True):
        inside[bisect_right(limits_ns, (low_ns + high_ns) / 2)] += count
    shares = iter([100 * count / max(1, merged.count) for count in inside])
    named = {
        name: {str(step): next(shares) for step in steps}
        for name, (_, steps) in LATENCY_STEPS.items()
    }
    named["latency_ms"][">=2000"] = next(shares)
    return named
