"""Runs, cells and samples out of what foreign results tell.

Most results tell a rate and no counts. A sample is counts over time, so the rate is kept as the
requests of one second (or of as much more as makes them whole), and the counter
``assumed_duration_s`` says that this length of time is a stand-in and was never measured. The rate
comes out exactly, and rests on one round: every reader of it says "measured once".
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial._core import Histogram
from seatrial.importers.document import Document
from seatrial.importers.model import Imported
from seatrial.results.model import OperationResult, Outcome, Run, Sample, Timeline
from seatrial.results.origin import ASSUMED_DURATION, REPORTED_MARK, Origin
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.units import format_factor

SLICE_NS: Final = 100_000_000
NO_TIMELINE: Final = Timeline(slice_ns=SLICE_NS, slices=[])
NO_LATENCIES: Final = Histogram.of([]).encode()
IMPLIED: Final[Mapping[str, FactorValue]] = {"pattern": "random"}
"""Factors that a key does not say, as in the keys of a study's cells."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement as a source tells it, before its key and its round are known.

    Attributes:
        target: What was under trial.
        workload: What the cell belongs to: ``matrix``, ``io``, ``fill`` or a name of ours.
        kind: As in ``Cell``.
        operation: As in ``Cell``.
        block_size_bytes: As in ``Cell``.
        threads: As in ``Cell``.
        depth: As in ``Cell``.
        factors: As in ``Cell``.
        spec: As in ``Cell``, as far as the source tells it.
        key: The whole key where the source tells it; else it is made of the factors.
        started_at: Unix time in seconds; None where the source does not tell it.
        duration_s: Measured length, or the one that stands in for it.
        operations: Results by operation kind.
        errors_count: Requests that failed.
        late_skipped: Requests that were due and never started.
        parts: Further attributes of the ``Sample``, such as its timeline.
        counters: As in ``Sample``.
    """

    target: str
    workload: str
    kind: str
    operation: str
    block_size_bytes: int
    threads: int
    depth: int = 1
    factors: dict[str, FactorValue] = {}
    spec: dict[str, Any] = {}
    key: str = ""
    started_at: float | None = None
    duration_s: float
    operations: dict[str, OperationResult]
    errors_count: int = 0
    late_skipped: int = 0
    counters: dict[str, float] = {}
    parts: dict[str, Any] = {}


def whole_requests(rate_per_s: float) -> tuple[int, float]:
    """Return whole requests and the seconds in which they give a rate exactly."""
    completed = math.ceil(rate_per_s)
    return completed, completed / rate_per_s if completed else 1.0


def assumed(duration_s: float) -> dict[str, float]:
    """Return the counter that says that a sample's duration stands in for an unknown one."""
    return {ASSUMED_DURATION: duration_s}


def bytes_of(amount: str, unit_bytes: int) -> int:
    """Return the least whole bytes that are, cut off, what was printed."""
    return math.ceil(Fraction(amount) * unit_bytes)


def reported_operation(
    completed: int, transferred_bytes: int, reported_ns: Mapping[str, float] | None = None
) -> OperationResult:
    """Return what became of one kind of request where the source has no histogram."""
    return OperationResult(
        completed=completed,
        failed=0,
        transferred_bytes=transferred_bytes,
        response=NO_LATENCIES,
        reported_ns=dict(reported_ns or {}),
    )


def imported(
    document: Document, origin: Origin, drafts: Sequence[Draft], *, started_at: float | None = None
) -> Imported:
    """Return the run of a foreign result.

    Equal cells become rounds, in the order of the source. The id is made of the time and of the
    file's content, so that one file is always the same run.

    Args:
        document: The file.
        origin: Where it comes from.
        drafts: Its measurements, in its order.
        started_at: Unix time in seconds of the first of them; the file's last change if not told.
    """
    begun_at = document.changed_at if started_at is None else started_at
    if started_at is None:
        note = "The source does not say when it was measured; the file's last change stands in."
        origin = msgspec.structs.replace(origin, notes=[*origin.notes, note], is_dated=False)
    if any(_is_reported(result) for draft in drafts for result in draft.operations.values()):
        note = (
            f"{REPORTED_MARK} Response times are as reported by {origin.tool}: the requests behind "
            "them are not known here, so they enter no statistic."
        )
        origin = msgspec.structs.replace(origin, notes=[*origin.notes, note])
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(begun_at))
    samples = list(_samples(drafts, begun_at))
    ended_at = max((sample.started_at + sample.duration_s for sample in samples), default=begun_at)
    run = Run(
        id=f"{stamp}-{document.digest[:4]}",
        command=f"seatrial import {document.name}",
        study_name=document.path.stem,
        study={"name": document.path.stem, "imported": msgspec.to_builtins(origin)},
        plan_hash=document.digest[:16],
        seed=0,
        status="complete",
        started_at=begun_at,
        ended_at=begun_at if started_at is None else ended_at,
        seatrial_version=_core.__version__,
    )
    return Imported(run=run, samples=samples)


def _is_reported(result: OperationResult) -> bool:
    return bool(result.reported_ns) and result.response == NO_LATENCIES


def _samples(drafts: Sequence[Draft], begun_at: float) -> Iterable[Sample]:
    prefixed = len({draft.target for draft in drafts}) > 1
    rounds: Counter[str] = Counter()
    for position, draft in enumerate(drafts):
        cell = _cell(draft, prefixed=prefixed)
        completed = sum(result.completed for result in draft.operations.values())
        yield Sample(
            cell=cell,
            round=rounds[cell.key],
            position=position,
            started_at=begun_at if draft.started_at is None else draft.started_at,
            duration_s=draft.duration_s,
            engine="imported",
            engine_reason="measured by another tool",
            outcome=Outcome(
                offered=completed + draft.errors_count + draft.late_skipped,
                completed=completed,
                failed=draft.errors_count,
                late_skipped=draft.late_skipped,
                in_flight_at_end=0,
            ),
            operations=draft.operations,
            errors_count=draft.errors_count,
            counters=draft.counters,
            **{"timeline": NO_TIMELINE} | draft.parts,
        )
        rounds[cell.key] += 1


def _cell(draft: Draft, *, prefixed: bool) -> Cell:
    return Cell(
        key=draft.key or (f"{draft.target}/" if prefixed else "") + key_of(draft),
        target=draft.target,
        workload=draft.workload,
        kind=draft.kind,
        operation=draft.operation,
        block_size_bytes=draft.block_size_bytes,
        threads=draft.threads,
        depth=draft.depth,
        factors=draft.factors,
        spec=draft.spec,
    )


def factor_value(written: str) -> FactorValue:
    """Return a factor as its study had it, from text: true, 2, 0.67 or a word."""
    if written.lower() in ("true", "false"):
        return written.lower() == "true"
    for kind in (int, float):
        try:
            value = kind(written)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return written


def key_of(draft: Draft) -> str:
    """Return the key that a study would give the cell, so that both can be compared."""
    size = f"{draft.block_size_bytes}B" if draft.block_size_bytes else "various"
    parts = [draft.workload, draft.operation, size, f"{draft.threads}t", f"{draft.depth}d"]
    said = {name: value for name, value in draft.factors.items() if IMPLIED.get(name) != value}
    return "/".join([*parts, *(f"{name}={format_factor(value)}" for name, value in said.items())])
