"""The first figures of workloads of files: rate of each, and its slowest flowop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.tile import Tile
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_estimate

FILEBENCH: Final = "filebench"
SAID_MAX: Final = 3
TILES_MAX: Final = 4
_PERCENTILE: Final = "p99"


def headline_words(cells: Sequence[CellSummary]) -> tuple[str, tuple[CellSummary, ...]]:
    """Return the rates of the first cells in words, and these cells.

    Args:
        cells: Of one target; those of other topics are left out.
    """
    own = [each for each in cells if each.cell.kind == FILEBENCH][:SAID_MAX]
    words = "; ".join(f"{named(each)} {format_estimate(each.iops)}" for each in own)
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
    """Return a cell's personality with its variables: ``varmail, nfiles 100``."""
    factors = dict(summary.cell.factors)
    personality = str(factors.pop("personality", summary.cell.workload))
    return ", ".join([personality, *(f"{name} {value}" for name, value in factors.items())])


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
