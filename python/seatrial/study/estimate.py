"""What a plan will take: rounds, time, bytes written, space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.errors import StudyError
from seatrial.study import database_cost
from seatrial.study.cell import Cell
from seatrial.study.database import DatabaseSpec, is_of_database, spec_of
from seatrial.study.loadline import LOADLINE, SAMPLES_MAX
from seatrial.study.model import Plan, PlanEstimate
from seatrial.study.plan import is_done_once, writes
from seatrial.study.units import format_size
from seatrial.study.workloads import Loadline

OVERHEAD_S: Final = 0.05  # opening, starting threads, draining, and committing the sample
FILL_BYTES_PER_S: Final = database_cost.ASSUMED_BYTES_PER_S  # where a file is written whole


def estimate(plan: Plan) -> PlanEstimate:
    """Return what a plan will take.

    Time is what the cells ask for and a small overhead of each; a file that is written whole is
    assumed to take 250 MB/s. The bytes written are upper bounds: the engine offers no byte beyond
    a cell's limit. What a database writes is assumed (database_cost.py).
    """
    rounds, budget = plan.study.rounds, plan.study.budget
    prepare_bytes = prefill_bytes(plan)
    prepare_s = _prepare_s(plan)
    time_s_bound = float("inf") if budget.time_s is None else budget.time_s
    return PlanEstimate(
        cells=len(plan.cells),
        rounds_min=rounds.min,
        rounds_max=rounds.max,
        time_s_min=min(prepare_s + _rounds_s(plan, rounds.min), time_s_bound),
        time_s_max=min(prepare_s + _rounds_s(plan, rounds.max), time_s_bound),
        write_bytes_min=prepare_bytes + _rounds_bytes(plan, plan.cells, rounds.min),
        write_bytes_max=prepare_bytes + _rounds_bytes(plan, plan.cells, rounds.max),
        file_bytes=sum(
            file.size_bytes for file in plan.files if plan.target(file.target).holds_files
        ),
        database_bytes=sum(
            database_cost.space_bytes(_specs_on(plan, target.label))
            for target in plan.targets
            if target.holds_files
        ),
    )


def require_write_budget(plan: Plan) -> None:
    """Check that the first round, which is always finished, keeps to the bytes that it may write.

    Raises:
        StudyError: when filling the files and one round may write more than the budget.
    """
    budget_bytes = plan.study.budget.write_bytes
    if budget_bytes is None:
        return
    needed_bytes = sum(target_write_bytes(plan, target.label, rounds=1) for target in plan.targets)
    if needed_bytes > budget_bytes:
        raise StudyError(
            seen=f"Filling the files and one round of study {plan.study.name!r} may write "
            f"{format_size(needed_bytes)}, but the run may write {format_size(budget_bytes)}",
            cause="budget.write_bytes of the study, or --write-budget, is too small for this size",
            next_step=f"Allow at least --write-budget {needed_bytes}, or write less with a "
            "smaller --size or limit_bytes",
        )


def prefill_bytes(plan: Plan) -> int:
    """Return what is written before the first round: files, and the data of databases.

    Files are written so that no read is of a hole.
    """
    files_bytes = sum(file.size_bytes for file in plan.files if file.prefill)
    return files_bytes + database_cost.preparing_write_bytes(plan.cells)


def cell_time_s(cell: Cell) -> float:
    """Return the seconds that one sample of a cell is expected to take."""
    if cell.spec["target"]["kind"] == "simulated":
        return OVERHEAD_S  # its clock is virtual
    if is_of_database(cell):
        return database_cost.sample_s(cell)
    duration_s = float(cell.spec["limit"]["duration_s"])
    if cell.kind == "fill":
        duration_s = min(duration_s, cell.spec["limit"]["bytes"] / FILL_BYTES_PER_S)
    return duration_s + OVERHEAD_S


def cell_write_bytes(cell: Cell) -> int:
    """Return the most bytes that one sample of a cell writes to storage; of a database, assumed."""
    if is_of_database(cell):
        return database_cost.sample_write_bytes(cell)
    if not writes(cell) or cell.spec["target"]["kind"] != "file":
        return 0
    return int(cell.spec["limit"]["bytes"])


def target_write_bytes(plan: Plan, label: str, rounds: int) -> int:
    """Return the most bytes that a target is written with in so many rounds."""
    prepare_bytes = sum(
        file.size_bytes for file in plan.files if file.prefill and file.target == label
    )
    own = [cell for cell in plan.cells if cell.target == label]
    prepare_bytes += database_cost.preparing_write_bytes(own)
    return prepare_bytes + _rounds_bytes(plan, own, rounds)


def _specs_on(plan: Plan, label: str) -> list[DatabaseSpec]:
    own = (cell for cell in plan.cells if cell.target == label)
    return [spec_of(cell.spec) for cell in database_cost.database_cells(own)]


def _prepare_s(plan: Plan) -> float:
    filled_bytes = sum(file.size_bytes for file in plan.files if file.prefill)
    return filled_bytes / FILL_BYTES_PER_S + database_cost.preparing_s(plan.cells)


def _rounds_s(plan: Plan, rounds: int) -> float:
    in_rounds = [cell for cell in plan.cells if cell.kind != LOADLINE]
    in_rounds_s = sum(cell_time_s(cell) * _times(plan, cell, rounds) for cell in in_rounds)
    return in_rounds_s + sum(_load_line_s(plan, cell) for cell in plan.cells)


def _load_line_s(plan: Plan, cell: Cell) -> float:
    """Return what a load line may take, which its first cell stands for; 0 for other cells."""
    if cell.spec["target"]["kind"] == "simulated":
        return OVERHEAD_S * SAMPLES_MAX if cell.kind == LOADLINE else 0.0
    budgets_s = (
        workload.budget_s
        for workload in plan.study.workloads
        if isinstance(workload, Loadline) and workload.label == cell.workload
    )
    return sum(budgets_s)


def _rounds_bytes(plan: Plan, cells: Sequence[Cell], rounds: int) -> int:
    return sum(cell_write_bytes(cell) * _times(plan, cell, rounds) for cell in cells)


def _times(plan: Plan, cell: Cell, rounds: int) -> int:
    """Return how often so many rounds measure a cell; of a load line, its most samples."""
    if cell.kind == LOADLINE:
        return SAMPLES_MAX
    return 1 if is_done_once(plan, cell) else rounds
