"""Small summaries made by hand, with figures that can be worked out in the head."""

from __future__ import annotations

from seatrial._core import Histogram
from seatrial.findings.model import Summary, ThresholdResult
from seatrial.results.model import OperationResult, Outcome, Run, Sample, Slice, Stall, Timeline
from seatrial.stats.cell_estimates import bandwidth_estimate, latency_estimates, rate_estimate
from seatrial.stats.model import CellSummary, Estimate, Finding
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.thresholds import parse_threshold
from stats.builders import finding_of

SLICE_NS = 100_000_000


def make_run(**changes) -> Run:
    values = {
        "id": "20261121-074500-3fa2",
        "command": "seatrial run /mnt/ssd",
        "study_name": "quick",
        "study": {"name": "quick"},
        "plan_hash": "plan-a",
        "seed": 7,
        "status": "complete",
        "started_at": 1_795_247_100.0,
        "ended_at": 1_795_247_221.0,
        "seatrial_version": "0.1.0",
    }
    return Run(**values | changes)


def make_cell(
    operation: str = "read",
    block_size_bytes: int = 4096,
    threads: int = 1,
    *,
    kind: str = "matrix",
    depth: int = 1,
    target: str = "ssd",
    **factors: FactorValue,
) -> Cell:
    if kind == "matrix":
        factors = {"pattern": "random"} | factors
    said = "/".join(f"{name}={value}" for name, value in factors.items())
    return Cell(
        key=f"{target}/{kind}/{operation}/{block_size_bytes}B/{threads}t/{depth}d/{said}",
        target=target,
        workload=kind,
        kind=kind,
        operation=operation,
        block_size_bytes=block_size_bytes,
        threads=threads,
        depth=depth,
        factors=factors,
        spec={"target": {"direct": True}, "arrival": {"kind": "closed"}},
    )


def make_sample(
    cell: Cell,
    completed: dict[str, int],
    duration_s: float = 1.0,
    *,
    index: int = 0,
    latency_ns: int = 100_000,
) -> Sample:
    """One round: all requests of one latency, all of them in the timeline's first slice."""
    total = sum(completed.values())
    size_bytes = cell.block_size_bytes or 8192
    histograms = {kind: repeated(latency_ns, count) for kind, count in completed.items()}
    moved_bytes = {kind: count * size_bytes for kind, count in completed.items()}
    return Sample(
        id=index + 1,
        run_id="20261121-074500-3fa2",
        cell=cell,
        round=index,
        position=0,
        started_at=1_795_247_101.0 + index,
        duration_s=duration_s,
        engine="psync",
        engine_reason="depth 1",
        outcome=Outcome(
            offered=total, completed=total, failed=0, late_skipped=0, in_flight_at_end=0
        ),
        operations={
            kind: OperationResult(
                completed=count,
                failed=0,
                transferred_bytes=moved_bytes[kind],
                response=histograms[kind].encode(),
            )
            for kind, count in completed.items()
        },
        timeline=Timeline(
            slice_ns=SLICE_NS,
            slices=[
                Slice(
                    index=0,
                    operation=kind,
                    completed=count,
                    transferred_bytes=moved_bytes[kind],
                    response=histograms[kind].encode(),
                )
                for kind, count in completed.items()
            ],
        ),
        counters={"cpu_user_ns": 0.2e9 * duration_s, "cpu_system_ns": 0.3e9 * duration_s},
    )


def repeated(value_ns: int, count: int) -> Histogram:
    """A histogram of one value, doubled up to the count: quick for any count."""
    result, power = Histogram.of([]), Histogram.of([value_ns])
    while count:
        if count % 2:
            result = result.merged(power)
        power = power.merged(power)
        count //= 2
    return result


def summarised(samples: list[Sample], blank: str = "") -> CellSummary:
    """The summary of a cell's samples, as the analysis makes it."""
    return CellSummary(
        cell=samples[0].cell,
        iops=rate_estimate(samples),
        bandwidth=bandwidth_estimate(samples),
        latency=latency_estimates(samples),
        completed=sum(sample.outcome.completed for sample in samples),
        failed=sum(sample.outcome.failed for sample in samples),
        blank=blank,
        samples=samples,
    )


def summary_with(
    cell: Cell,
    iops: tuple[float, float, float],
    latency_ns: dict[str, tuple[float, float, float]] | None = None,
    blank: str = "",
) -> CellSummary:
    """A cell with figures given as (value, low, high), the latency in ns; three rounds."""
    size_bytes = cell.block_size_bytes or 8192
    operation = "read" if cell.operation == "mixed" else cell.operation
    figures = {name: estimate(of, "ns") for name, of in (latency_ns or {}).items()}
    return CellSummary(
        cell=cell,
        iops=estimate(iops, "commits/s" if cell.operation == "commit" else "IOPS"),
        bandwidth=estimate(
            (iops[0] * size_bytes, iops[1] * size_bytes, iops[2] * size_bytes), "B/s"
        ),
        latency={operation: figures} if figures else {},
        completed=0 if blank else 300,
        failed=0,
        blank=blank,
        samples=[make_sample(cell, {operation: 0 if blank else 100}, index=i) for i in range(3)],
    )


def estimate(figure: tuple[float, float, float], unit: str, rounds: int = 3) -> Estimate:
    value, low, high = figure
    return Estimate(value=value, low=low, high=high, rounds=rounds, unit=unit)


def make_summary(
    cells: list[CellSummary],
    findings: list[Finding] | None = None,
    thresholds: list[ThresholdResult] | None = None,
) -> Summary:
    return Summary(
        run=make_run(),
        cells=cells,
        findings=findings or [],
        verdict="Reads 8 KiB at 74k IOPS.",
        thresholds=thresholds or [],
    )


MISSED = Estimate(value=9e6, low=8e6, high=1e7, rounds=3, unit="ns")


def make_threshold(*, met: bool = False, worst: Estimate | None = MISSED) -> ThresholdResult:
    return ThresholdResult(
        threshold=parse_threshold("matrix.p99_ms", "< 5"),
        met=met,
        doubtful=False,
        worst=worst,
        cell=make_cell().key if worst else "",
        sentence="matrix.p99_ms < 5: " + ("met" if met else "not met") + ", 9 ms <b>.",
    )


def make_stall(cause: str = "device") -> Stall:
    return Stall(
        start_s=0.25,
        length_s=0.5,
        cause=cause,
        operations={"read": 3},
        depth=3,
        evidence={"device_in_flight_share": 0.98},
    )


def make_finding(**changes) -> Finding:
    values = {
        "kind": "stall",
        "severity": "critical",
        "cells": [make_cell().identity()],
        "sentence": "All reads stood still once, for 0.5 s.",
        "cause": "The device.",
        "evidence": {"stalls_count": 1, "longest_s": 0.5},
        "next": "seatrial io /mnt/ssd",
    }
    return finding_of(**values | changes)
