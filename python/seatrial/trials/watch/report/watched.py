"""The figures of a recording on a first screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from seatrial.findings.tile import Tile
from seatrial.stats.wording import format_value

if TYPE_CHECKING:
    from seatrial.stats.model import CellSummary

_OPERATIONS: Final = ("read", "write", "flush")
_PERCENTILES: Final = ("p99", "p50")
"""The first known one is shown."""


def watched_tiles(cells: Iterable[CellSummary]) -> list[Tile]:
    """Return the latency of each operation, with the rate of the load as its detail."""
    tiles = []
    for summary in cells:
        operation = summary.cell.operation
        latency = summary.latency.get(operation, {})
        percentile = next((each for each in _PERCENTILES if each in latency), "")
        if operation in _OPERATIONS and percentile:
            tiles.append(
                Tile(
                    label=f"{operation} {percentile}",
                    estimate=latency[percentile],
                    detail=f"at {format_value(summary.iops)}",
                    test="watched",
                    cell=summary.cell.key,
                    better="lower",
                )
            )
    return tiles
