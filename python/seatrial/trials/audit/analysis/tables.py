"""Extracts the tables of block sizes and concurrency from the cells of a run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial.errors import SeatrialError
from seatrial.grouping import grouped
from seatrial.lazy import np
from seatrial.results.model import BlankCell, Origin, Run, Sample, origin_of
from seatrial.stats.cell_estimates import counted, phases_of
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.load import study_from_mapping
from seatrial.study.plan import make_plan
from seatrial.trials.audit.analysis.model import CellTable, TablePoint
from seatrial.trials.audit.queueing.forms import Observations
from seatrial.trials.audit.study import adaptive_cells

if TYPE_CHECKING:
    from seatrial.stats.model import CellSummary


def left_out_cells(run: Run, cells: Sequence[CellSummary]) -> list[Cell]:
    """Return the unmeasured cells of a run's adaptive matrices, in the plan's order.

    Args:
        run: The run; its study shows which matrices are adaptive.
        cells: The measured cells.
    """
    if not any(workload.get("adaptive") for workload in run.study.get("workload", [])):
        return []
    try:
        plan = make_plan(study_from_mapping(run.study, run.study_name))
    except SeatrialError:
        return []  # written by another version: its plan is unknown
    measured = {summary.cell.key for summary in cells}
    block_bytes = _logical_block_bytes(run)
    return [
        cell
        for cell in adaptive_cells(plan)
        if cell.key not in measured and cell.block_size_bytes % block_bytes == 0
    ]


def _logical_block_bytes(run: Run) -> int:
    """Return the block size that direct requests had to be multiples of; others were left out."""
    target = run.fingerprint_before.target
    return (target.logical_block_bytes if target else None) or 1


AUDITED_POINTS_MIN = 7
LEVELS_MIN = 3
OPERATIONS = ("read", "write")
KINDS = ("matrix", "io")
UNMEASURED_POSITION = 1_000_000  # no plan has so many cells

Group = tuple[str, str, str, tuple[tuple[str, object], ...]]


def tables_of(run: Run, cells: Sequence[CellSummary]) -> list[CellTable]:
    """Return the tables of a run: random reads or writes in a closed loop, in the run's order.

    Cells that differ in anything but block size and concurrency are in separate tables. Cells that
    an imported table names without a figure are points without one, and so are cells in which
    nothing completed. Cells that an adaptive plan left out are points that were not measured.

    Args:
        run: The run, with the origin of an imported one, and the plan.
        cells: Its cells, in any order.
    """
    origin = origin_of(run)
    chosen = [cell for cell in cells if _belongs(cell, imported=origin is not None)]
    positions = _measurement_order(cells)
    groups = grouped(chosen, lambda summary: group_of(summary.cell))
    tables = []
    left_out = left_out_cells(run, cells)
    for group, members in groups.items():
        target, workload, operation, _ = group
        points = [
            _point(summary, positions[summary.cell.key], is_timed=_is_timed(origin))
            for summary in members
        ]
        blanks = origin.blank_cells if origin else []
        listed = [b for b in blanks if (b.workload, b.operation) == (workload, operation)]
        points += _blank_points(listed, members, first_position=len(positions))
        points += [_planned_point(cell) for cell in left_out if group_of(cell) == group]
        tables.append(
            CellTable(
                target=target,
                workload=workload,
                operation=operation,
                factors=members[0].cell.factors,
                imported=origin is not None,
                points=sorted(points, key=_order),
            )
        )
    return tables


def is_large_enough(table: CellTable) -> bool:
    """Return whether a table has enough figures to be audited.

    They differ in block size, or, with a single one, have at least three levels of concurrency:
    fewer show no curve.
    """
    known = known_points(table)
    sizes = {point.block_size_bytes for point in known}
    levels = {point.concurrency for point in known}
    return len(known) >= AUDITED_POINTS_MIN and (len(sizes) > 1 or len(levels) >= LEVELS_MIN)


def known_points(table: CellTable) -> list[TablePoint]:
    """Return the points that have a figure above 0, in the table's order."""
    return [point for point in table.points if point.iops is not None and point.iops.value > 0]


def identity_of(table: CellTable, point: TablePoint) -> dict[str, FactorValue]:
    """Return the factors of a table's cell, measured or not, as in ``Cell.identity``."""
    fixed: dict[str, FactorValue] = {
        "target": table.target,
        "workload": table.workload,
        "operation": table.operation,
        "block_size_bytes": point.block_size_bytes,
        "threads": point.threads,
        "depth": point.depth,
    }
    return fixed | table.factors


def observations_of(table: CellTable) -> Observations:
    """Return the points that have a figure as arrays, in the table's order."""
    points = known_points(table)
    return Observations(
        size_bytes=np.array([float(point.block_size_bytes) for point in points]),
        concurrency=np.array([float(point.concurrency) for point in points]),
        threads=np.array([float(point.threads) for point in points]),
        rate_per_s=np.array([point.iops.value for point in points if point.iops]),
    )


def _belongs(summary: CellSummary, *, imported: bool) -> bool:
    """Return whether a cell is of a kind that tables consist of."""
    cell = summary.cell
    if cell.operation not in OPERATIONS or cell.block_size_bytes <= 0:
        return False
    if cell.factors.get("pattern", "random") != "random" or "arrival" in cell.factors:
        return False
    if imported:
        return cell.kind != "fill"
    is_engine_alone = all(sample.engine == "null" for sample in summary.samples)
    return cell.kind in KINDS and not is_engine_alone


def group_of(cell: Cell) -> Group:
    """Return the common factors of the cells of one table."""
    others = tuple(sorted(cell.factors.items(), key=lambda item: item[0]))
    return cell.target, cell.workload, cell.operation, others


def _measurement_order(cells: Sequence[CellSummary]) -> dict[str, int]:
    """Return the position of each cell's first measurement; fills have none."""
    measured = [summary for summary in cells if summary.cell.kind != "fill"]
    first = {
        summary.cell.key: min((sample.round, sample.position) for sample in summary.samples)
        for summary in measured
    }
    return {key: position for position, key in enumerate(sorted(first, key=lambda key: first[key]))}


def _is_timed(origin: Origin | None) -> bool:
    """Return whether the durations of samples are known, unlike those of printed tables."""
    return origin is None or origin.format not in ("bm-flash", "csv")


def _point(summary: CellSummary, position: int, *, is_timed: bool) -> TablePoint:
    samples = counted(summary.samples)
    return TablePoint(
        key=summary.cell.key,
        block_size_bytes=summary.cell.block_size_bytes,
        threads=summary.cell.threads,
        depth=summary.cell.depth,
        iops=summary.iops if summary.completed else None,
        rounds_per_s=_rounds_per_s(samples) if summary.completed else [],
        position=position,
        duration_s=statistics.fmean(s.duration_s for s in samples) if is_timed else None,
    )


def _rounds_per_s(samples: Sequence[Sample]) -> list[float]:
    """Return the rate of each round's running phase, as used for the cell's figure."""
    return [phase.completed_per_s for phase in phases_of(samples)]


def _planned_point(cell: Cell) -> TablePoint:
    """Return the point of a cell left to prediction; its position is after all others."""
    return TablePoint(
        key=cell.key,
        block_size_bytes=cell.block_size_bytes,
        threads=cell.threads,
        depth=cell.depth,
        iops=None,
        rounds_per_s=[],
        position=UNMEASURED_POSITION,
        duration_s=None,
        measured=False,
    )


def _blank_points(
    blanks: Sequence[BlankCell], members: Sequence[CellSummary], *, first_position: int
) -> list[TablePoint]:
    """Return points for cells that an imported table names without a figure."""
    have = {(s.cell.block_size_bytes, s.cell.threads, s.cell.depth) for s in members}
    missing = [b for b in blanks if (b.block_size_bytes, b.threads, b.depth) not in have]
    return [
        TablePoint(
            key=_key_like(members[0].cell, blank),
            block_size_bytes=blank.block_size_bytes,
            threads=blank.threads,
            depth=blank.depth,
            iops=None,
            rounds_per_s=[],
            position=first_position + number,
            duration_s=None,
        )
        for number, blank in enumerate(missing)
    ]


def _key_like(neighbour: Cell, blank: BlankCell) -> str:
    """Return the key of a blank cell, derived from that of another cell of its table."""
    old_part = f"{neighbour.block_size_bytes}B/{neighbour.threads}t/{neighbour.depth}d"
    new_part = f"{blank.block_size_bytes}B/{blank.threads}t/{blank.depth}d"
    if old_part in neighbour.key:
        return neighbour.key.replace(old_part, new_part, 1)
    return f"{blank.workload}/{blank.operation}/{new_part}"


def _order(point: TablePoint) -> tuple[int, int, int]:
    return point.block_size_bytes, point.concurrency, point.threads
