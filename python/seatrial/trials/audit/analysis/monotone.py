"""The fallback where no form holds: what any storage does, whatever its inside.

Larger blocks never give more requests per second, nor fewer bytes per second; more threads, or more
requests in flight for each, never give fewer requests per second. A cell that two neighbours say
should be faster is odd. By trial on tables with injected slowdowns this finds two thirds of those
of 1.3x, at 7 to 17 % of false alarms, where a model finds nearly all with none (docs/method.md): it
is the second choice, and says so.
"""

from __future__ import annotations

import math
import statistics
from typing import Final

from seatrial.trials.audit.analysis.model import CellTable, TablePoint
from seatrial.trials.audit.analysis.tables import known_points

ODD_SHARE_MAX: Final = 0.25
WITNESSES_MIN: Final = 2
MAD_TO_DEVIATION: Final = 1.4826


def expected_at_least(table: CellTable) -> dict[str, float]:
    """Return what each cell should reach at least, by key, in requests per second.

    The second highest of what its neighbours say: one alone may be odd itself. Cells with fewer
    than two witnesses have none.

    Args:
        table: Any table.
    """
    points = known_points(table)
    expected = {}
    for point in points:
        said = sorted(_witnesses(point, points), reverse=True)
        if len(said) >= WITNESSES_MIN:
            expected[point.key] = said[WITNESSES_MIN - 1]
    return expected


def is_judgeable(odd_count: int, table: CellTable) -> bool:
    """Tell whether few enough cells are odd that the others can be called sound."""
    points = known_points(table)
    return odd_count <= ODD_SHARE_MAX * len(points)


def scatter_log(table: CellTable) -> float:
    """Return how far cells fall short of their expectation, typically, in logarithms.

    0 where most cells keep it; so large for a table without order that nothing is called odd.
    """
    expected = expected_at_least(table)
    short = [
        max(0.0, math.log(expected[point.key] / point.iops.value))
        for point in known_points(table)
        if point.iops and point.key in expected
    ]
    return MAD_TO_DEVIATION * statistics.median(short) if short else 0.0


def _witnesses(point: TablePoint, points: list[TablePoint]) -> list[float]:
    """Return what the other cells say that a cell should reach at least."""
    said = []
    for other in points:
        if other.key == point.key or other.iops is None:
            continue
        if other.threads > point.threads or other.depth > point.depth:
            continue
        if other.block_size_bytes >= point.block_size_bytes:
            said.append(other.iops.value)
        else:
            said.append(other.iops.value * other.block_size_bytes / point.block_size_bytes)
    return said
