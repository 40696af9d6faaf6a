"""What a slow start tells: how fast the write cache drained behind it.

Before the cells, a file of known size was written in known time. Reads that follow wait until the
write cache has drained. If a cell of ``T`` seconds did a share ``r`` of what it should, requests
waited ``T * (1 - r)`` of it. All that was written drained from the beginning of the fill to the
end of that wait: ``drained = size / (time of the fill + sum of the waits)``. Where ``T`` is not
known, it is the whole number of seconds for which the drain comes nearest to the pace of the
largest writes of the same target.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.trials.audit.analysis.gaps import ratio_to
from seatrial.trials.audit.analysis.model import CellTable, Gap
from seatrial.trials.audit.analysis.tables import known_points

if TYPE_CHECKING:
    from seatrial.stats.model import CellSummary

MIB: Final = 1 << 20
CELL_TIME_S_MAX: Final = 600.0
CELL_TIME_SHARE_MAX: Final = 0.1


@dataclass(frozen=True)
class Fill:
    """What was written before the first cell.

    Attributes:
        size_bytes: How much.
        duration_s: In which time.
    """

    size_bytes: float
    duration_s: float


@dataclass(frozen=True)
class Drain:
    """What a start transient implies.

    Attributes:
        mib_per_s: The rate at which the cache drained.
        waited_s: How long requests waited after the fill.
        cell_s: How long a cell lasted.
        is_cell_time_inferred: Whether that was inferred from the largest writes.
    """

    mib_per_s: float
    waited_s: float
    cell_s: float
    is_cell_time_inferred: bool


def fill_of(cells: Sequence[CellSummary], target: str) -> Fill | None:
    """Return what filled a target before its tables were measured; None where nothing tells."""
    samples = [
        sample
        for summary in cells
        if summary.cell.kind == "fill" and summary.cell.target == target
        for sample in summary.samples
    ]
    size_bytes = sum(
        part.transferred_bytes for sample in samples for part in sample.operations.values()
    )
    duration_s = sum(sample.duration_s for sample in samples)
    return Fill(size_bytes, duration_s) if size_bytes and duration_s > 0 else None


def implied_drain(
    table: CellTable,
    gap: Gap,
    predicted_per_s: Mapping[str, float],
    fill: Fill,
    *,
    writes: CellTable | None = None,
    cell_s: float | None = None,
) -> Drain | None:
    """Return the drain rate that a start transient implies; None where it cannot be told.

    Args:
        table: The table that begins slowly.
        gap: Its start transient.
        predicted_per_s: What each cell should have done, by key.
        fill: What was written before.
        writes: Writes of the same target, to infer the time of a cell from.
        cell_s: The time of a cell, if the user knows it; else that of the samples.
    """
    points = [point for point in table.points if point.key in gap.keys]
    lost = sum(1 - min(1.0, ratio_to(p, predicted_per_s[p.key])) for p in points)
    known = [point.duration_s for point in points if point.duration_s]
    cell_s = cell_s or (statistics.fmean(known) if known else None)
    inferred = cell_s is None
    if cell_s is None and writes is not None:
        cell_s = _cell_time_s(writes, lost, fill)
    if cell_s is None or lost <= 0:
        return None
    waited_s = cell_s * lost
    return Drain(
        mib_per_s=fill.size_bytes / (fill.duration_s + waited_s) / MIB,
        waited_s=waited_s,
        cell_s=cell_s,
        is_cell_time_inferred=inferred,
    )


def _cell_time_s(writes: CellTable, lost: float, fill: Fill) -> float | None:
    """Return the whole seconds of a cell for which the drain has the pace of the largest writes.

    None where no whole number comes near: then the explanation does not fit.
    """
    points = known_points(writes)
    if not points or lost <= 0:
        return None
    largest = max(point.block_size_bytes for point in points)
    paces = [
        point.iops.value * largest
        for point in points
        if point.iops and point.block_size_bytes == largest
    ]
    drained_s = fill.size_bytes / statistics.median(paces)
    exact_s = (drained_s - fill.duration_s) / lost
    cell_s = float(round(exact_s))
    fits = 1 <= cell_s <= CELL_TIME_S_MAX and abs(exact_s / cell_s - 1) <= CELL_TIME_SHARE_MAX
    return cell_s if fits else None
