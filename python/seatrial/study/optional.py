"""Workloads that a study would like to have, and which are left out where they cannot be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from seatrial.study.cell import Cell
from seatrial.study.model import PlannedTarget, TargetInfo, TrialFile
from seatrial.study.schema import Study
from seatrial.study.units import format_size
from seatrial.trials.database.study import cost as database_cost
from seatrial.trials.database.study.workloads import OnDatabase, spec_of


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What cannot be measured.

    Attributes:
        keys: Of the cells.
        notes: Why, as sentences.
    """

    keys: frozenset[str]
    notes: list[str]


def left_out(
    study: Study,
    targets: Sequence[PlannedTarget],
    infos: Mapping[str, TargetInfo],
    cells: Sequence[Cell],
    files: Sequence[TrialFile],
) -> LeftOut:
    """Return the cells of optional workloads for which there is no PostgreSQL, or no room.

    Args:
        study: The study.
        targets: Its targets as planned.
        infos: What is known of them, by label; what is not known stands in nobody's way.
        cells: All cells.
        files: What the other cells need on the targets.
    """
    keys: set[str] = set()
    notes: list[str] = []
    for target in targets:
        info = infos.get(target.label, TargetInfo())
        used_bytes = sum(file.size_bytes for file in files if file.target == target.label)
        for workload in study.workloads:
            if not isinstance(workload, OnDatabase) or not workload.optional:
                continue
            own = [
                cell
                for cell in cells
                if cell.target == target.label and cell.workload == workload.label
            ]
            reason = _reason(target, info, used_bytes, own) if own else ""
            if reason:
                keys.update(cell.key for cell in own)
                notes.append(f"{workload.label} is left out on {target.label}: {reason}")
    return LeftOut(keys=frozenset(keys), notes=notes)


def _reason(target: PlannedTarget, info: TargetInfo, used_bytes: int, cells: Sequence[Cell]) -> str:
    """Return why the cells of a workload cannot be measured; empty where nothing is known."""
    if not target.holds_files:
        return ""
    if info.database_obstacle:
        return info.database_obstacle
    needed_bytes = used_bytes + database_cost.space_bytes(spec_of(cell.spec) for cell in cells)
    if info.free_bytes is None or needed_bytes <= info.free_bytes:
        return ""
    return (
        f"with the trial files it needs about {format_size(needed_bytes)}, and "
        f"{format_size(info.free_bytes)} are free there"
    )
