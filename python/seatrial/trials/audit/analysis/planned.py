"""The cells of an adaptive plan that were not measured: to be predicted, and no gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seatrial.errors import SeatrialError
from seatrial.results.model import Run
from seatrial.study.cell import Cell
from seatrial.study.load import study_from_mapping
from seatrial.study.plan import make_plan
from seatrial.trials.audit.study import adaptive_cells

if TYPE_CHECKING:
    from seatrial.stats.model import CellSummary


def left_out_cells(run: Run, cells: Sequence[CellSummary]) -> list[Cell]:
    """Return the cells of a run's adaptive matrices that it did not measure, in the plan's order.

    Args:
        run: The run; its study tells what is adaptive.
        cells: What it measured.
    """
    if not any(workload.get("adaptive") for workload in run.study.get("workload", [])):
        return []
    try:
        plan = make_plan(study_from_mapping(run.study, run.study_name))
    except SeatrialError:
        return []  # written by another version: what it planned is not known
    measured = {summary.cell.key for summary in cells}
    block_bytes = _logical_block_bytes(run)
    return [
        cell
        for cell in adaptive_cells(plan)
        if cell.key not in measured and cell.block_size_bytes % block_bytes == 0
    ]


def _logical_block_bytes(run: Run) -> int:
    """Return what requests past the page cache were multiples of; cells of others were left out."""
    target: dict[str, Any] = run.fingerprint_before.get("target") or {}
    return int(target.get("logical_block_bytes") or 1)
