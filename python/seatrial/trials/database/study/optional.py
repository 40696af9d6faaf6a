"""Optional workloads of a database, which are left out where they cannot be had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seatrial.study.cell import Cell
from seatrial.study.model import PlannedTarget, TargetInfo
from seatrial.study.schema import Study
from seatrial.study.units import format_size
from seatrial.trials.database.study import cost
from seatrial.trials.database.study.workloads import OnDatabase, spec_of


def databases_left_out(
    study: Study, target: PlannedTarget, info: TargetInfo, cells: Sequence[Cell], used_bytes: int
) -> Iterator[tuple[OnDatabase, str]]:
    """Yield optional workloads for which there is no PostgreSQL, or no room, with the reason.

    Args:
        study: The study.
        target: The target.
        info: What is known of it; what is not known stands in nobody's way.
        cells: Those of the target.
        used_bytes: What trial files take there.
    """
    for workload in study.workloads:
        if not isinstance(workload, OnDatabase) or not workload.optional:
            continue
        own = [cell for cell in cells if cell.workload == workload.label]
        if reason := _reason(target, info, used_bytes, own) if own else "":
            yield workload, reason


def _reason(target: PlannedTarget, info: TargetInfo, used_bytes: int, cells: Sequence[Cell]) -> str:
    """Return why the cells of a workload cannot be measured; empty where nothing is known."""
    if not target.holds_files:
        return ""
    if info.database_obstacle:
        return info.database_obstacle
    needed_bytes = used_bytes + cost.space_bytes(spec_of(cell.spec) for cell in cells)
    if info.free_bytes is None or needed_bytes <= info.free_bytes:
        return ""
    return (
        f"with the trial files it needs about {format_size(needed_bytes)}, and "
        f"{format_size(info.free_bytes)} are free there"
    )
