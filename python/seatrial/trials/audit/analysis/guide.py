"""Selects the next cells of an adaptive matrix, and decides when the others are known well enough.

The first cells are the corners that determine one parameter of the read form each. The next ones
are the most informative: the sequential design of V. V. Fedorov ("Theory of Optimal Experiments",
Academic Press 1972): take the cell with the most uncertain prediction, count it as measured, and
repeat. Pure functions: nothing is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from seatrial.findings.summary import summarise_cell
from seatrial.grouping import grouped
from seatrial.lazy import np
from seatrial.results.model import Run, Sample
from seatrial.study.cell import Cell
from seatrial.trials.audit.analysis.audit import audit_table, audit_tables
from seatrial.trials.audit.analysis.model import CellTable
from seatrial.trials.audit.analysis.predict import outlier_keys_of
from seatrial.trials.audit.analysis.tables import group_of, known_points, observations_of, tables_of
from seatrial.trials.audit.queueing.fit import choose
from seatrial.trials.audit.study import Guidance

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
OUTLIER_NEIGHBOUR_LOG: Final = math.log(1.5)


def first_cells(points: Sequence[Point], count: int = FIRST_COUNT) -> list[str]:
    """Return the keys of the cells to measure first.

    In this order: a page alone and at the highest concurrency (cost of a request), the largest
    block at the highest concurrency and alone (the link, and buffering before forwarding), an
    intermediate block alone, one at medium concurrency where requests and bytes both limit
    (admission limit), a block below a page alone; then those farthest from the selected ones.

    Args:
        points: All cells of one table.
        count: How many to select at most.
    """
    selected: list[Point] = []
    for corner in _corners(points) if points else []:
        if len(selected) < count and corner not in selected:
            selected.append(corner)
    while len(selected) < min(count, len(points)):
        selected.append(_farthest(points, selected))
    return [point[0] for point in selected]


def next_cells(table: CellTable, all_points: Sequence[Point], count: int) -> list[str]:
    """Return the keys of the cells to measure next, the most informative first.

    Args:
        table: The measurements of the table so far.
        all_points: All cells of the table.
        count: How many to select at most.
    """
    measured = {point.key for point in table.points if point.measured}
    left = [point for point in all_points if point[0] not in measured]
    if len(known_points(table)) < MODEL_POINTS_MIN:
        return _spread(all_points, measured, left, count)
    return _most_uncertain(choose(observations_of(table)).fit, table, left, count)


def _corners(points: Sequence[Point]) -> list[Point]:
    concurrencies = sorted({_concurrency(point) for point in points})
    alone, most = concurrencies[0], concurrencies[-1]
    middle = concurrencies[len(concurrencies) // 2]
    sizes = sorted({point[1] for point in points})
    page = _nearest(sizes, max(PAGE_BYTES, sizes[0]))
    below_page = [size_bytes for size_bytes in sizes if size_bytes < page]
    # Not the very smallest: tools measure it first, while the target still recovers from being
    # filled.
    sub_page = below_page[min(1, len(below_page) - 1)] if below_page else page
    corner = [
        (page, alone),
        (_nearest(sizes, max(REQUEST_BYTES, sizes[0])), most),
        (sizes[-1], most),
        (sizes[-1], alone),
        (_nearest(sizes, max(BETWEEN_BYTES, page)), alone),
        (_nearest(sizes, max(CROSSING_BYTES, page)), middle),
        (sub_page, alone),
        (sizes[0], most),
    ]
    return [_at(points, size_bytes, concurrency) for size_bytes, concurrency in corner]


def _concurrency(point: Point) -> int:
    return point[2] * point[3]


def _nearest(sizes_bytes: Sequence[int], size_bytes: int) -> int:
    return min(sizes_bytes, key=lambda each: abs(math.log(each / size_bytes)))


def _at(points: Sequence[Point], size_bytes: int, concurrency: int) -> Point:
    """Return the cell nearest to a position in the table; the grid may have holes."""
    corner = ("", size_bytes, concurrency, 1)
    return min(points, key=lambda point: _distance(point, corner))


def _distance(one: Point, other: Point) -> float:
    """Return the distance of two cells, in doublings of size and of concurrency."""
    return math.hypot(
        math.log2(one[1] / other[1]), math.log2(_concurrency(one) / _concurrency(other))
    )


def _farthest(points: Sequence[Point], selected: Sequence[Point]) -> Point:
    left = [point for point in points if point not in selected]
    return max(left, key=lambda p: min((_distance(p, c) for c in selected), default=0.0))


def _spread(
    all_points: Sequence[Point], measured: set[str], left: Sequence[Point], count: int
) -> list[str]:
    """Return cells for a table that has too few figures for a model."""
    selected = [point for point in all_points if point[0] in measured]
    keys: list[str] = []
    while len(keys) < min(count, len(left)):
        point = _farthest(all_points, selected)
        selected.append(point)
        keys.append(point[0])
    return keys


def _most_uncertain(fit: Fit, table: CellTable, left: Sequence[Point], count: int) -> list[str]:
    """Return the cells with the most uncertain predictions, each counted as measured."""
    if not left:
        return []
    jacobian = fit.sensitivity_log(
        np.array([float(point[1]) for point in left]),
        np.array([float(_concurrency(point)) for point in left]),
        np.array([float(point[2]) for point in left]),
    )
    outlier = np.array([_outlier_proximity(fit, table)(point) for point in left])
    covariance = fit.covariance_log.copy()
    noise = max(fit.scale_log, 0.01) ** 2
    keys: list[str] = []
    for _ in range(min(count, len(left))):
        variance = np.einsum("ci,ij,cj->c", jacobian, covariance, jacobian)
        uncertainty = np.sqrt(variance) + outlier
        uncertainty[[left[i][0] in keys for i in range(len(left))]] = -1.0
        best = int(np.argmax(uncertainty))
        keys.append(left[best][0])
        gain = covariance @ jacobian[best]
        covariance = covariance - np.outer(gain, gain) / (noise + variance[best])
        outlier[best] = 0.0
    return keys


def _outlier_proximity(fit: Fit, table: CellTable) -> Callable[[Point], float]:
    """Return a function for a cell's deviation by its neighbours, halved per doubled distance."""
    outlier = [
        ((point.key, point.block_size_bytes, point.threads, point.depth), abs(residual))
        for point, residual in zip(known_points(table), fit.residual_log, strict=True)
        if abs(residual) > OUTLIER_NEIGHBOUR_LOG
    ]

    def proximity(point: Point) -> float:
        return max((residual * 0.5 ** _distance(point, p) for p, residual in outlier), default=0.0)

    return proximity


GUIDED_FIRST_COUNT: Final = 8
STEP_COUNT: Final = 2
"""Few at a time: each new figure changes where the model is most uncertain."""


def guide(
    run: Run, cells: Sequence[Cell], samples: Sequence[Sample], requested_share: float
) -> Guidance:
    """Return the cells to measure next.

    For each table first a few; then the cells next to a gap, until its edge is known; then, while
    the interval of some unmeasured cell is wider than requested, or no model fits, the most
    informative cells.

    Args:
        run: The run; its study shows which matrices are adaptive.
        cells: All their cells.
        samples: All samples so far, of any cells.
        requested_share: Requested half width of a prediction's interval relative to its figure.
    """
    tables = _tables(run, samples)
    keys: list[str] = []
    precise: list[float] = []
    for group in grouped(cells, group_of).values():
        table = tables.get(group_of(group[0]))
        guidance = _table_guidance(group, table, requested_share)
        keys += guidance.keys
        precise += guidance.precise
    return Guidance(keys, len(precise), max(precise, default=None))


class _TableGuidance(NamedTuple):
    keys: list[str]
    precise: list[float]


def _table_guidance(
    cells: Sequence[Cell], table: CellTable | None, requested_share: float
) -> _TableGuidance:
    """Return the cells to measure next of one table, and the precision of the others."""
    points: list[Point] = [(c.key, c.block_size_bytes, c.threads, c.depth) for c in cells]
    measured = {p.key for p in table.points if p.measured} if table else set()
    first = [key for key in first_cells(points, GUIDED_FIRST_COUNT) if key not in measured]
    if table is None or first:
        return _TableGuidance(first, [])
    left = [cell.key for cell in cells if cell.key not in measured]
    if not left:
        return _TableGuidance([], [])
    # Of tests that complete nothing, no model can be made.
    audit = audit_table(table) if len(known_points(table)) >= MODEL_POINTS_MIN else None
    if audit is None or not audit.holds:
        # It may take many cells until a model fits, if any.
        return _TableGuidance(next_cells(table, points, max(STEP_COUNT, len(left) // 4)), [])
    next_to_gaps = _nearby(points, outlier_keys_of(audit)) & set(left)
    widths = {
        key: audit.predictions[key].half_width_share for key in left if key not in next_to_gaps
    }
    precise = [width for width in widths.values() if width <= requested_share]
    if next_to_gaps:
        return _TableGuidance([key for key in left if key in next_to_gaps], precise)
    unknown_count = len(left) - len(precise)
    keys = next_cells(table, points, min(STEP_COUNT, unknown_count)) if unknown_count else []
    return _TableGuidance(keys, precise)


def _nearby(points: Sequence[Point], outlier: Set[str]) -> set[str]:
    """Return the cells next to a gap, in size or in concurrency: no model predicts its edge."""
    sizes = sorted({size_bytes for _, size_bytes, _, _ in points})
    counts = sorted({threads * depth for _, _, threads, depth in points})
    positions = {
        key: (sizes.index(size_bytes), counts.index(threads * depth))
        for key, size_bytes, threads, depth in points
    }
    gaps = [positions[key] for key in outlier if key in positions]
    return {
        key
        for key, (row, column) in positions.items()
        if any(abs(row - r) + abs(column - c) == 1 for r, c in gaps)
    }


def _tables(run: Run, samples: Sequence[Sample]) -> dict[object, CellTable]:
    """Return the tables of the samples so far, by group."""
    by_cell = grouped(samples, lambda sample: sample.cell.key)
    summaries = [summarise_cell(group) for group in by_cell.values()]
    by_key = {key: group[0].cell for key, group in by_cell.items()}
    return {
        group_of(next(by_key[point.key] for point in table.points if point.key in by_key)): table
        for table in tables_of(run, summaries)
    }


def outlier_keys(run: Run, samples: Sequence[Sample]) -> list[str]:
    """Return the keys of the cells that are gaps measured once.

    Empty for an imported run, which cannot be measured again.

    Args:
        run: The run.
        samples: All samples so far, in any order.
    """
    by_cell = grouped(samples, lambda sample: sample.cell.key)
    audits = audit_tables(run, [summarise_cell(group) for group in by_cell.values()])
    return [
        key
        for audit in audits
        if not audit.table.imported
        for gap in audit.gaps
        if gap.status == "seen_once" and gap.kind != "bound_broken"
        for key in gap.keys
        if len(by_cell[key]) == 1
    ]
