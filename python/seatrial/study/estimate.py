"""What a plan will take: rounds, time, bytes written, space."""

from __future__ import annotations

from typing import Final

import msgspec

from seatrial.errors import StudyError
from seatrial.study.cell import Cell
from seatrial.study.layouts import cost as layout_cost
from seatrial.study.layouts.drives import parse_drives
from seatrial.study.model import Plan, PlanEstimate
from seatrial.study.plan import is_done_once, writes
from seatrial.study.units import format_size
from seatrial.trials.database.study import cost as database_cost
from seatrial.trials.database.study.workloads import DatabaseSpec, is_of_database, spec_of
from seatrial.trials.io.study.workloads import Loadline
from seatrial.trials.loadline.study import LOADLINE, SAMPLES_MAX

OVERHEAD_S: Final = 0.05  # opening, starting threads, draining, and committing the sample
FILL_BYTES_PER_S: Final = database_cost.ASSUMED_BYTES_PER_S  # where a file is written whole


def estimate(plan: Plan) -> PlanEstimate:
    """Return what a plan will take.

    Time is what the cells ask for and a small overhead of each; a file that is written whole is
    assumed to take 250 MB/s. The bytes written are upper bounds: the engine offers no byte beyond
    a cell's limit. What a database writes is assumed (database_cost.py), and so is what building
    layouts takes in each round (layout_cost.py).
    """
    rounds, budget = plan.study.rounds, plan.study.budget
    there = plan.of_group("", {})
    prepare_bytes = prefill_bytes(plan)
    prepare_s = _prepare_s(plan)
    time_s_bound = float("inf") if budget.time_s is None else budget.time_s
    return PlanEstimate(
        cells=len(plan.cells),
        rounds_min=rounds.min,
        rounds_max=rounds.max,
        time_s_min=min(prepare_s + _rounds_s(plan, rounds.min), time_s_bound),
        time_s_max=min(prepare_s + _rounds_s(plan, rounds.max), time_s_bound),
        write_bytes_min=prepare_bytes + _rounds_bytes(plan, rounds.min),
        write_bytes_max=prepare_bytes + _rounds_bytes(plan, rounds.max),
        file_bytes=sum(
            file.size_bytes for file in there.files if there.target(file.target).holds_files
        ),
        database_bytes=sum(
            database_cost.space_bytes(_specs_on(plan, target.label))
            for target in there.targets
            if target.holds_files
        ),
        builds=sum(layout_cost.builds(plan, group) for group in layout_cost.groups(plan)),
        building_s=building_s(plan),
        building_write_bytes=building_write_bytes(plan),
        loop_bytes=_loop_bytes(plan),
    )


def require_write_budget(plan: Plan) -> None:
    """Check that the first round, which is always finished, keeps to the bytes that it may write.

    Raises:
        StudyError: when filling the files and one round may write more than the budget.
    """
    budget_bytes = plan.study.budget.write_bytes
    if budget_bytes is None:
        return
    needed_bytes = prefill_bytes(plan) + _rounds_bytes(plan, 1)
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

    Files are written so that no read is of a hole. What layouts get whenever they are built is not
    among it (``layout_cost.build_write_bytes``).
    """
    there = plan.of_group("", {})
    files_bytes = sum(file.size_bytes for file in there.files if file.prefill)
    return files_bytes + database_cost.preparing_write_bytes(there.cells)


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
    """Return the most bytes that a target is written with in so many rounds.

    Of a leg that is a target of its own, those of all the legs that are built with it.
    """
    group = plan.target(label).group
    part = plan.of_group(group, {})
    if not group:
        part = msgspec.structs.replace(
            part,
            cells=[cell for cell in part.cells if cell.target == label],
            files=[file for file in part.files if file.target == label],
        )
    return prefill_bytes(part) + _rounds_bytes(part, rounds)


def building_s(plan: Plan) -> float:
    """Return what a round takes for its layouts beside their cells (s)."""
    return sum(layout_cost.round_s(plan, group) for group in layout_cost.groups(plan))


def building_write_bytes(plan: Plan) -> int:
    """Return what a round writes to its layouts beside their cells."""
    return sum(layout_cost.round_write_bytes(plan, group) for group in layout_cost.groups(plan))


def _loop_bytes(plan: Plan) -> int:
    loop = plan.study.drives.loop
    if not (loop and plan.study.layouts):
        return 0
    count, size_bytes = parse_drives(loop)
    return count * size_bytes


def _specs_on(plan: Plan, label: str) -> list[DatabaseSpec]:
    own = (cell for cell in plan.cells if cell.target == label)
    return [spec_of(cell.spec) for cell in database_cost.database_cells(own)]


def _prepare_s(plan: Plan) -> float:
    there = plan.of_group("", {})
    filled_bytes = sum(file.size_bytes for file in there.files if file.prefill)
    return filled_bytes / FILL_BYTES_PER_S + database_cost.preparing_s(there.cells)


def _rounds_s(plan: Plan, rounds: int) -> float:
    in_rounds = [cell for cell in plan.cells if cell.kind != LOADLINE]
    in_rounds_s = sum(cell_time_s(cell) * _times(plan, cell, rounds) for cell in in_rounds)
    in_rounds_s += rounds * building_s(plan)
    return in_rounds_s + sum(load_line_s(plan, cell) for cell in plan.cells)


def load_line_s(plan: Plan, cell: Cell) -> float:
    """Return what a load line may take, which its first cell stands for; 0 for other cells."""
    if cell.spec["target"]["kind"] == "simulated":
        return OVERHEAD_S * SAMPLES_MAX if cell.kind == LOADLINE else 0.0
    budgets_s = (
        workload.budget_s
        for workload in plan.study.workloads
        if isinstance(workload, Loadline) and workload.label == cell.workload
    )
    return sum(budgets_s)


def _rounds_bytes(plan: Plan, rounds: int) -> int:
    of_cells = (cell_write_bytes(cell) * _times(plan, cell, rounds) for cell in plan.cells)
    return sum(of_cells) + rounds * building_write_bytes(plan)


def _times(plan: Plan, cell: Cell, rounds: int) -> int:
    """Return how often so many rounds measure a cell; of a load line, its most samples."""
    if cell.kind == LOADLINE:
        return SAMPLES_MAX
    return 1 if is_done_once(plan, cell) else rounds
