"""Workloads that a study would like to have, and which are left out where they cannot be had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from seatrial.study.cell import Cell
from seatrial.study.model import PlannedTarget, TargetInfo, TrialFile
from seatrial.study.schema import Study
from seatrial.topic import topics


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
        own = [cell for cell in cells if cell.target == target.label]
        for topic in topics():
            for workload, reason in topic.left_out(study, target, info, own, used_bytes):
                keys.update(cell.key for cell in own if cell.workload == workload.label)
                notes.append(f"{workload.label} is left out on {target.label}: {reason}")
    return LeftOut(keys=frozenset(keys), notes=notes)
