"""Which cells of a table to measure first, and which next.

The first cells are the corners that determine one parameter of the read form each. The next ones
are where a new figure would teach most: the sequential design of V. V. Fedorov ("Theory of
Optimal Experiments", Academic Press 1972): take the cell whose prediction is most in doubt, count
it as measured, and go on. Pure functions: nothing is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from seatrial.trials.audit.analysis.model import CellTable
from seatrial.trials.audit.analysis.tables import known_points, observed_of

if TYPE_CHECKING:
    from seatrial.trials.audit.queueing.fit import Fit

Point = tuple[str, int, int, int]
"""Key, block size in bytes, threads, depth."""

REQUEST_BYTES: Final = 4 << 10
PAGE_BYTES: Final = 8 << 10
BETWEEN_BYTES: Final = 64 << 10
CROSSING_BYTES: Final = 32 << 10
FIRST_COUNT: Final = 7
MODEL_POINTS_MIN: Final = 5
ODD_NEIGHBOUR_LOG: Final = math.log(1.5)


def first_cells(points: Sequence[Point], count: int = FIRST_COUNT) -> list[str]:
    """Return the keys of the cells to measure first.

    In this order: a page alone and at the most concurrency (what a request costs), the largest
    block at the most concurrency and alone (the link, and what is stored before it is forwarded),
    a block between alone, one at middling concurrency where requests and bytes both limit (how
    many are admitted), a block below a page alone; then those farthest from what is chosen.

    Args:
        points: All cells of one table.
        count: How many to choose; all of them where there are fewer.
    """
    chosen: list[Point] = []
    for wanted in _corners(points) if points else []:
        if len(chosen) < count and wanted not in chosen:
            chosen.append(wanted)
    while len(chosen) < min(count, len(points)):
        chosen.append(_farthest(points, chosen))
    return [point[0] for point in chosen]


def next_cells(table: CellTable, all_points: Sequence[Point], count: int) -> list[str]:
    """Return the keys of the cells to measure next, the most telling first.

    Args:
        table: What was measured of the table so far.
        all_points: All cells of the table.
        count: How many to choose at most.
    """
    measured = {point.key for point in table.points if point.measured}
    left = [point for point in all_points if point[0] not in measured]
    if len(known_points(table)) < MODEL_POINTS_MIN:
        return _spread(all_points, measured, left, count)
    from seatrial.trials.audit.queueing.choose import choose  # noqa: PLC0415

    return _most_doubtful(choose(observed_of(table)).fit, table, left, count)


def _corners(points: Sequence[Point]) -> list[Point]:
    concurrencies = sorted({_concurrency(point) for point in points})
    alone, most = concurrencies[0], concurrencies[-1]
    middle = concurrencies[len(concurrencies) // 2]
    sizes = sorted({point[1] for point in points})
    page = _nearest(sizes, max(PAGE_BYTES, sizes[0]))
    below_page = [size_bytes for size_bytes in sizes if size_bytes < page]
    # Not the very smallest: it is what tools measure first, while the target still recovers
    # from having been filled.
    sub_page = below_page[min(1, len(below_page) - 1)] if below_page else page
    wanted = [
        (page, alone),
        (_nearest(sizes, max(REQUEST_BYTES, sizes[0])), most),
        (sizes[-1], most),
        (sizes[-1], alone),
        (_nearest(sizes, max(BETWEEN_BYTES, page)), alone),
        (_nearest(sizes, max(CROSSING_BYTES, page)), middle),
        (sub_page, alone),
        (sizes[0], most),
    ]
    return [_at(points, size_bytes, concurrency) for size_bytes, concurrency in wanted]


def _concurrency(point: Point) -> int:
    return point[2] * point[3]


def _nearest(sizes_bytes: Sequence[int], size_bytes: int) -> int:
    return min(sizes_bytes, key=lambda each: abs(math.log(each / size_bytes)))


def _at(points: Sequence[Point], size_bytes: int, concurrency: int) -> Point:
    """Return the cell nearest to a place in the table; the grid may have holes."""
    wanted = ("", size_bytes, concurrency, 1)
    return min(points, key=lambda point: _distance(point, wanted))


def _distance(one: Point, other: Point) -> float:
    """Return how far apart two cells are, in doublings of size and of concurrency."""
    return math.hypot(
        math.log2(one[1] / other[1]), math.log2(_concurrency(one) / _concurrency(other))
    )


def _farthest(points: Sequence[Point], chosen: Sequence[Point]) -> Point:
    left = [point for point in points if point not in chosen]
    return max(left, key=lambda p: min((_distance(p, c) for c in chosen), default=0.0))


def _spread(
    all_points: Sequence[Point], measured: set[str], left: Sequence[Point], count: int
) -> list[str]:
    """Return cells for a table that has too few figures for a model."""
    chosen = [point for point in all_points if point[0] in measured]
    keys: list[str] = []
    while len(keys) < min(count, len(left)):
        point = _farthest(all_points, chosen)
        chosen.append(point)
        keys.append(point[0])
    return keys


def _most_doubtful(fit: Fit, table: CellTable, left: Sequence[Point], count: int) -> list[str]:
    """Return the cells with the greatest doubt, each counted as measured before the next."""
    import numpy as np  # noqa: PLC0415

    if not left:
        return []
    jacobian = fit.sensitivity_log(
        np.array([float(point[1]) for point in left]),
        np.array([float(_concurrency(point)) for point in left]),
        np.array([float(point[2]) for point in left]),
    )
    odd = np.array([_oddness(fit, table)(point) for point in left])
    covariance = fit.covariance_log.copy()
    noise = max(fit.scale_log, 0.01) ** 2
    keys: list[str] = []
    for _ in range(min(count, len(left))):
        variance = np.einsum("ci,ij,cj->c", jacobian, covariance, jacobian)
        doubt = np.sqrt(variance) + odd
        doubt[[left[i][0] in keys for i in range(len(left))]] = -1.0
        best = int(np.argmax(doubt))
        keys.append(left[best][0])
        gain = covariance @ jacobian[best]
        covariance = covariance - np.outer(gain, gain) / (noise + variance[best])
        odd[best] = 0.0
    return keys


def _oddness(fit: Fit, table: CellTable) -> Callable[[Point], float]:
    """Return how odd a cell's measured neighbours are, halved with each doubling of distance."""
    odd = [
        ((point.key, point.block_size_bytes, point.threads, point.depth), abs(residual))
        for point, residual in zip(known_points(table), fit.residual_log, strict=True)
        if abs(residual) > ODD_NEIGHBOUR_LOG
    ]

    def oddness(point: Point) -> float:
        return max((residual * 0.5 ** _distance(point, p) for p, residual in odd), default=0.0)

    return oddness
