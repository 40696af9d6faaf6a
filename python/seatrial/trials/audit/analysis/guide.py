"""Which cells of an adaptive matrix to measure next, and when the others are known well enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Final, NamedTuple

from seatrial.findings.summary import summarise_cell
from seatrial.results.model import Run, Sample
from seatrial.study.cell import Cell
from seatrial.trials.audit.analysis.audit import audit_table
from seatrial.trials.audit.analysis.choose_cells import Point, first_cells, next_cells
from seatrial.trials.audit.analysis.model import CellTable, Prediction
from seatrial.trials.audit.analysis.predict import odd_keys_of
from seatrial.trials.audit.analysis.tables import group_of, tables_of

FIRST_COUNT: Final = 8
STEP_COUNT: Final = 2
"""Few at a time: each new figure changes where the model is most in doubt."""


class Guidance(NamedTuple):
    """What to measure next, and what is known of the rest.

    Attributes:
        keys: Cells to measure next; none when the rest is known to the asked precision.
        predicted_count: Cells that were not measured and are predicted to that precision.
        within_share: Half of the widest interval of these over its figure; None without any.
    """

    keys: list[str]
    predicted_count: int
    within_share: float | None


def guide(
    run: Run, cells: Sequence[Cell], samples: Sequence[Sample], asked_share: float
) -> Guidance:
    """Return the cells to measure next.

    Of each table a few first; then the cells next to a gap, until its edge is known; then, while
    the interval of some cell that was not measured is wider than asked, or no model holds, the
    cells that would teach most.

    Args:
        run: The run; its study tells which matrices are adaptive.
        cells: All cells of these.
        samples: What was measured so far, of any cells.
        asked_share: Half of a prediction's interval over its figure that is narrow enough.
    """
    tables = _tables(run, samples)
    keys: list[str] = []
    known: list[float] = []
    for group in _grouped(cells):
        table = tables.get(group_of(group[0]))
        reported = _of_table(group, table, asked_share)
        keys += reported.keys
        known += reported.known
    return Guidance(keys, len(known), max(known, default=None))


class _OfTable(NamedTuple):
    keys: list[str]
    known: list[float]


def _of_table(cells: Sequence[Cell], table: CellTable | None, asked_share: float) -> _OfTable:
    """Return what to measure next of one table, and how well each of the rest is known."""
    points: list[Point] = [(c.key, c.block_size_bytes, c.threads, c.depth) for c in cells]
    measured = {p.key for p in table.points if p.measured} if table else set()
    first = [key for key in first_cells(points, FIRST_COUNT) if key not in measured]
    if table is None or first:
        return _OfTable(first, [])
    left = [cell.key for cell in cells if cell.key not in measured]
    if not left:
        return _OfTable([], [])
    audit = audit_table(table)
    if not audit.holds:
        # It may take many cells to see that one does; or it never will.
        return _OfTable(next_cells(table, points, max(STEP_COUNT, len(left) // 4)), [])
    beside = _beside(points, odd_keys_of(audit)) & set(left)
    widths = {key: _half_width_share(audit.predictions[key]) for key in left if key not in beside}
    known = [width for width in widths.values() if width <= asked_share]
    if beside:
        return _OfTable([key for key in left if key in beside], known)
    unknown_count = len(left) - len(known)
    keys = next_cells(table, points, min(STEP_COUNT, unknown_count)) if unknown_count else []
    return _OfTable(keys, known)


def _beside(points: Sequence[Point], odd: Set[str]) -> set[str]:
    """Return the cells next to a gap, in size or in concurrency: where it ends, no model tells."""
    sizes = sorted({size_bytes for _, size_bytes, _, _ in points})
    counts = sorted({threads * depth for _, _, threads, depth in points})
    places = {
        key: (sizes.index(size_bytes), counts.index(threads * depth))
        for key, size_bytes, threads, depth in points
    }
    gaps = [places[key] for key in odd if key in places]
    return {
        key
        for key, (row, column) in places.items()
        if any(abs(row - r) + abs(column - c) == 1 for r, c in gaps)
    }


def _half_width_share(prediction: Prediction) -> float:
    return (prediction.high - prediction.low) / 2 / prediction.iops


def _tables(run: Run, samples: Sequence[Sample]) -> dict[object, CellTable]:
    """Return the tables of what was measured so far, by their group."""
    by_cell: dict[str, list[Sample]] = {}
    for sample in samples:
        by_cell.setdefault(sample.cell.key, []).append(sample)
    summaries = [summarise_cell(group) for group in by_cell.values()]
    by_key = {key: group[0].cell for key, group in by_cell.items()}
    return {
        group_of(next(by_key[point.key] for point in table.points if point.key in by_key)): table
        for table in tables_of(run, summaries)
    }


def _grouped(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Return cells by table."""
    groups: dict[object, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(group_of(cell), []).append(cell)
    return list(groups.values())
