"""Rates, waits and loops by flowop, from the samples of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.findings.tile import Tile
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted, estimate_of_rounds, phases_of
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_estimate
from seatrial.trials.filebench.study import FILEBENCH
from seatrial.units import NS_PER_S

RATE_UNIT: Final = "operations/s"


class FlowopRate(msgspec.Struct, frozen=True, kw_only=True):
    """One flowop of a cell.

    Attributes:
        name: As in the workload file.
        rate: Operations per second; together those of the cell.
        bandwidth: Bytes per second; None if it moves none.
        completed: Over all rounds.
        failed: Over all rounds.
    """

    name: str
    rate: Estimate
    bandwidth: Estimate | None
    completed: int
    failed: int


class FlowopWait(msgspec.Struct, frozen=True, kw_only=True):
    """One flowop that is not a request: a limit, semaphore, pause or CPU use.

    Attributes:
        name: As in the workload file.
        waits: Over all rounds.
        wait_ns_mean: Mean duration.
        thread_share: Share of the time of all threads.
    """

    name: str
    waits: int
    wait_ns_mean: float
    thread_share: float


def rates_of(summary: CellSummary) -> list[FlowopRate]:
    """Return the flowops of a cell that are requests, in the order of the workload file.

    The rate of each is its share of the cell's completed operations, so that they add up.
    """
    samples = counted(summary.samples)
    phases = phases_of(samples)
    names = dict.fromkeys(name for sample in samples for name in sample.operations)
    found = []
    for name in names:
        rates, moved = [], []
        for sample, phase in zip(samples, phases, strict=True):
            part = sample.operations.get(name)
            completed = part.completed if part else 0
            share = completed / max(sample.outcome.completed, 1)
            rates.append(phase.completed_per_s * share)
            moved_bytes = part.transferred_bytes if part else 0
            total = sum(each.transferred_bytes for each in sample.operations.values())
            moved.append(phase.transferred_bytes_per_s * moved_bytes / max(total, 1))
        parts = [sample.operations[name] for sample in samples if name in sample.operations]
        found.append(
            FlowopRate(
                name=name,
                rate=estimate_of_rounds(rates, RATE_UNIT),
                bandwidth=estimate_of_rounds(moved, "B/s") if any(moved) else None,
                completed=sum(part.completed for part in parts),
                failed=sum(part.failed for part in parts),
            )
        )
    return found


def waits_of(summary: CellSummary) -> list[FlowopWait]:
    """Return the flowops of a cell that are not requests, in the order of the workload file."""
    samples = counted(summary.samples)
    names = dict.fromkeys(
        name.removesuffix(":waits")
        for sample in samples
        for name in sample.counters
        if name.endswith(":waits")
    )
    thread_ns = sum(sample.duration_s * sample.cell.threads for sample in samples) * NS_PER_S
    found = []
    for name in names:
        waits = _sum(samples, f"{name}:waits")
        wait_ns = _sum(samples, f"{name}:wait_ns")
        found.append(
            FlowopWait(
                name=name,
                waits=int(waits),
                wait_ns_mean=wait_ns / max(waits, 1),
                thread_share=min(wait_ns / thread_ns, 1.0) if thread_ns else 0.0,
            )
        )
    return found


def events_of(summary: CellSummary) -> tuple[float, float] | None:
    """Return the consumed and the due events per second; None for a workload without a rate."""
    samples = [each for each in counted(summary.samples) if "events_due" in each.counters]
    duration_s = sum(sample.duration_s for sample in samples)
    if not duration_s:
        return None
    return (
        _sum(samples, "events_taken") / duration_s,
        _sum(samples, "events_due") / duration_s,
    )


def _sum(samples: Sequence[Sample], name: str) -> float:
    return sum(sample.counters.get(name, 0.0) for sample in samples)


HEADLINE_CELLS_MAX: Final = 3
TILES_MAX: Final = 4
_PERCENTILE: Final = "p99"


def headline_phrase(cells: Sequence[CellSummary]) -> tuple[str, tuple[CellSummary, ...]]:
    """Return the rates of the first cells as text, and these cells.

    Args:
        cells: Cells of one target; other topics are ignored.
    """
    own = [each for each in cells if each.cell.kind == FILEBENCH][:HEADLINE_CELLS_MAX]
    words = "; ".join(f"{named(each)}: {format_estimate(each.iops)}" for each in own)
    return words, tuple(own)


def headline_tiles(cells: Sequence[CellSummary]) -> list[Tile]:
    """Return a tile for each of the first cells: its rate, and its slowest flowop."""
    own = [each for each in cells if each.cell.kind == FILEBENCH and not each.blank]
    return [
        Tile(
            label=named(each),
            estimate=each.iops,
            detail=_slowest(each),
            test=each.cell.workload,
            cell=each.cell.key,
        )
        for each in own[:TILES_MAX]
    ]


def named(summary: CellSummary) -> str:
    """Return a cell's personality with its variables: ``varmail (nfiles 100)``."""
    factors = dict(summary.cell.factors)
    personality = str(factors.pop("personality", summary.cell.workload))
    values = ", ".join(f"{name} {value}" for name, value in factors.items())
    return f"{personality} ({values})" if values else personality


def _slowest(summary: CellSummary) -> str:
    times: dict[str, Estimate] = {
        name: found[_PERCENTILE]
        for name, found in summary.latency.items()
        if _PERCENTILE in found and any(name in s.operations for s in summary.samples)
    }
    if not times:
        return ""
    name = max(times, key=lambda each: times[each].value)
    return f"{name} {_PERCENTILE} {format_estimate(times[name])}"
