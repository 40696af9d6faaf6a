"""Runs, cells and samples made of the few values that a test is about."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from seatrial._core import Histogram
from seatrial.findings.summary import summarise_cell
from seatrial.fingerprint import Fingerprint, FingerprintAfter
from seatrial.published import FLATTENED, HIDDEN
from seatrial.results.model import (
    ErrorSample,
    OperationResult,
    Outcome,
    Run,
    Sample,
    Stall,
    Timeline,
)
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.study.cell import Cell
from seatrial.units import GIB

MS_NS = 1_000_000


class Stated(Figures, frozen=True, kw_only=True):
    """Figures of a finding whose words are given."""

    evidence: Annotated[dict[str, Any], FLATTENED]
    given: Annotated[tuple[str, str, str], HIDDEN]

    def text(self):
        return FindingText(*self.given)


def finding_of(*, kind, severity, cells, evidence, sentence, **words):
    of_kind = msgspec.defstruct("Stated", [], bases=(Stated,), tag=kind, frozen=True)
    given = (sentence, words.get("cause", ""), words.get("next", ""))
    figures = of_kind(evidence=evidence, given=given)
    return Finding(severity=severity, cells=cells, figures=figures)


def spec_of(
    operation="read", *, address="random", direct=True, dsync=False, size_bytes=GIB, **changes
):
    return {
        "target": {"kind": "file", "direct": direct, "dsync": dsync, "size_bytes": size_bytes},
        "range": {"start_bytes": 0, "length_bytes": size_bytes},
        "accesses": [{"operation": operation, "address": {"kind": address}}],
        "arrival": {"kind": "closed"},
        "sync_every": 0,
    } | changes


def cell_of(
    *,
    workload="matrix",
    operation="read",
    block_size_bytes=8192,
    threads=1,
    depth=1,
    kind=None,
    factors=None,
    target="trial",
    **spec,
):
    factors = factors or {}
    prefix = [] if target == "trial" else [target]  # as a plan of several targets has it
    parts = [*prefix, workload, operation, f"{block_size_bytes}B", f"{threads}t", f"{depth}d"]
    parts += [f"{name}={value}" for name, value in factors.items()]
    return Cell(
        key="/".join(parts),
        target=target,
        workload=workload,
        kind=kind or workload,
        operation=operation,
        block_size_bytes=block_size_bytes,
        threads=threads,
        depth=depth,
        factors=factors,
        spec=spec_of(operation, **spec),
    )


def sample_of(
    cell=None,
    *,
    completed=1000,
    failed=0,
    late_skipped=0,
    in_flight=0,
    duration_s=1.0,
    latency_ns=MS_NS,
    response_ns=None,
    service_ns=None,
    transferred_bytes=None,
    errors=(),
    errors_count=None,
    stalls=(),
    round=0,  # noqa: A002
    **rest,
):
    """A sample whose requests all took ``latency_ns``, or the given response times."""
    cell = cell or cell_of()
    moved = cell.block_size_bytes * completed if transferred_bytes is None else transferred_bytes
    times = response_ns if response_ns is not None else [latency_ns] * completed
    operation = OperationResult(
        completed=completed,
        failed=failed,
        transferred_bytes=moved,
        response=Histogram.of(times).encode(),
        service=None if service_ns is None else Histogram.of(service_ns).encode(),
    )
    return Sample(
        cell=cell,
        round=round,
        position=rest.pop("position", 0),
        started_at=rest.pop("started_at", 1000.0 + round),
        duration_s=duration_s,
        engine=rest.pop("engine", "psync"),
        outcome=Outcome(
            offered=completed + failed + late_skipped + in_flight,
            completed=completed,
            failed=failed,
            late_skipped=late_skipped,
            in_flight_at_end=in_flight,
        ),
        operations={cell.operation: operation},
        timeline=Timeline(slice_ns=100 * MS_NS, slices=[]),
        stalls=list(stalls),
        errors=list(errors),
        errors_count=failed if errors_count is None else errors_count,
        **rest,
    )


def summary_of(*samples):
    return summarise_cell(samples)


def rounds_of(cell, rates, **rest):
    """A cell's summary with one round for each rate (requests in one second)."""
    return summarise_cell(
        [sample_of(cell, completed=rate, round=number, **rest) for number, rate in enumerate(rates)]
    )


def stall_of(length_s, cause="device", *, start_s=0.1, depth=1, evidence=None):
    return Stall(
        start_s=start_s,
        length_s=length_s,
        cause=cause,
        operations={"read": depth},
        depth=depth,
        evidence=evidence or {},
    )


def error_of(name="EIO", *, errno=5, offset_bytes=4096):
    return ErrorSample(
        operation="read",
        offset_bytes=offset_bytes,
        length_bytes=4096,
        errno=errno,
        name=name,
        at_s=0.5,
    )


def run_of(*, before=None, after=None, study=None, status="complete"):
    return Run(
        id="20261121-074500-3fa2",
        command="seatrial run .",
        study_name="quick",
        study=study or {"name": "quick"},
        plan_hash="h",
        seed=1,
        status=status,
        started_at=1000.0,
        ended_at=1100.0,
        fingerprint_before=msgspec.convert(before or {}, Fingerprint),
        fingerprint_after=msgspec.convert(after or {}, FingerprintAfter),
        seatrial_version="0.1.0",
    )
