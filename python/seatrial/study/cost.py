"""Estimates the cost of a plan: rounds, time, bytes written, space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.errors import StudyError
from seatrial.study.cell import Cell
from seatrial.study.hosts import hosts_of
from seatrial.study.layouts import cost as layout_cost
from seatrial.study.layouts.layout import parse_drives
from seatrial.study.model import Plan, PlanEstimate
from seatrial.study.plan import is_done_once
from seatrial.study.units import format_size
from seatrial.topic import topic_of, topics

OVERHEAD_S: Final = 0.05  # opening, starting threads, draining, and committing the sample


def estimate(plan: Plan) -> PlanEstimate:
    """Return the estimated cost of a plan.

    Time is the sum of the cells' durations and a small overhead for each; writing a whole file is
    assumed to run at 250 MB/s. The bytes written are upper bounds: the engine never exceeds a
    cell's limit. The writes of databases and of building layouts in each round are assumptions
    (layouts/cost.py).
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
            topic.space_bytes(there.cells_on(target.label))
            for target in there.targets
            for topic in topics()
            if target.holds_files
        ),
        builds=sum(layout_cost.builds(plan, group) for group in layout_cost.groups(plan)),
        building_s=building_s(plan),
        building_write_bytes=building_write_bytes(plan),
        loop_bytes=_loop_bytes(plan),
    )


def require_write_budget(plan: Plan) -> None:
    """Check that the first round, which is always completed, stays within the write budget.

    Raises:
        StudyError: when filling the files and one round may write more than the budget.
    """
    budget_bytes = plan.study.budget.write_bytes
    if budget_bytes is None:
        return
    needed_bytes = prefill_bytes(plan) + _rounds_bytes(plan, 1)
    if needed_bytes > budget_bytes:
        raise StudyError(
            seen=f"Filling the files and the first round of study {plan.study.name!r} may write "
            f"{format_size(needed_bytes)}, more than the write budget of "
            f"{format_size(budget_bytes)}",
            cause="The write budget (budget.write_bytes in the study, or --write-budget) is too "
            "small for this size",
            next_step=f"Raise it to --write-budget {needed_bytes}, or write less with a smaller "
            "--size or limit_bytes",
        )


def prefill_bytes(plan: Plan) -> int:
    """Return what is written before the first round: files, and the data of databases.

    Files are filled so that no read hits a hole. Data written after each build of a layout is not
    included (``layout_cost.build_write_bytes``).
    """
    there = plan.of_group("", {})
    files_bytes = sum(file.size_bytes for file in there.files if file.prefill)
    hosts = plan.study.hosts
    if hosts and hosts.files == "own":
        files_bytes *= max(hosts.counts)
    return files_bytes + preparation_write_bytes(there.cells)


def cell_time_s(cell: Cell) -> float:
    """Return the seconds that one sample of a cell is expected to take."""
    if cell.parsed.target.kind == "simulated":
        return OVERHEAD_S  # its clock is virtual
    return topic_of(cell).sample_s(cell)


def cell_write_bytes(cell: Cell) -> int:
    """Return the most bytes that one sample of a cell writes; assumed for databases.

    Each host that loads storage may write up to the cell's limit.
    """
    topic = topic_of(cell)
    hosts = max(1, hosts_of(cell)) if topic.loads_storage else 1
    return topic.sample_write_bytes(cell) * hosts


def preparation_s(cells: Sequence[Cell]) -> float:
    """Return the time of the preparation before the first round of these cells (s)."""
    return sum(topic.preparation_s(cells) for topic in topics())


def preparation_write_bytes(cells: Sequence[Cell]) -> int:
    """Return the bytes written by the preparation before the first round of these cells."""
    return sum(topic.preparation_write_bytes(cells) for topic in topics())


def target_write_bytes(plan: Plan, label: str, rounds: int) -> int:
    """Return the upper bound of bytes written to a target in this number of rounds.

    For a leg that is a separate target, this includes all legs built with it.
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
    """Return the time of one round for its layouts, without their cells (s)."""
    return sum(layout_cost.round_s(plan, group) for group in layout_cost.groups(plan))


def building_write_bytes(plan: Plan) -> int:
    """Return the bytes that one round writes to its layouts, without their cells."""
    return sum(layout_cost.round_write_bytes(plan, group) for group in layout_cost.groups(plan))


def _loop_bytes(plan: Plan) -> int:
    loop = plan.study.drives.loop
    if not (loop and plan.study.layouts):
        return 0
    count, size_bytes = parse_drives(loop)
    return count * size_bytes


def _prepare_s(plan: Plan) -> float:
    there = plan.of_group("", {})
    filled_bytes = sum(file.size_bytes for file in there.files if file.prefill)
    return filled_bytes / layout_cost.ASSUMED_BYTES_PER_S + preparation_s(there.cells)


def _rounds_s(plan: Plan, rounds: int) -> float:
    in_rounds = [cell for cell in plan.cells if topic_of(cell).in_rounds]
    in_rounds_s = sum(cell_time_s(cell) * _times(plan, cell, rounds) for cell in in_rounds)
    in_rounds_s += rounds * building_s(plan)
    return in_rounds_s + sum(after_rounds_s(plan, cell) for cell in plan.cells)


def after_rounds_s(plan: Plan, cell: Cell) -> float:
    """Return the maximum time of a cell that is measured after the rounds (s); 0 for others."""
    topic = topic_of(cell)
    if topic.in_rounds:
        return 0.0
    if cell.parsed.target.kind == "simulated":
        return OVERHEAD_S * topic.after_rounds_samples_max
    return topic.after_rounds_s(plan, cell)


def _rounds_bytes(plan: Plan, rounds: int) -> int:
    of_cells = (cell_write_bytes(cell) * _times(plan, cell, rounds) for cell in plan.cells)
    return sum(of_cells) + rounds * building_write_bytes(plan)


def _times(plan: Plan, cell: Cell, rounds: int) -> int:
    """Return how often rounds measure a cell; the maximum for adaptive cells."""
    if not topic_of(cell).in_rounds:
        return topic_of(cell).after_rounds_samples_max
    return 1 if is_done_once(plan, cell) else rounds
