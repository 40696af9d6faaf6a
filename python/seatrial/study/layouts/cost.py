"""Estimates the cost of building arrays in each round: time and bytes written (assumptions).

A round builds each variant once, and again before each further cell if the previous cell broke the
array (plan.order puts those cells last).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.errors import SpaceError
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import FILESYSTEMS, LayoutSpec, failures_of
from seatrial.study.model import Plan, PlannedTarget, TrialFile
from seatrial.study.units import format_size
from seatrial.topic import topics

ASSUMED_BYTES_PER_S: Final = 250_000_000
"""Where a file is written whole, or read."""
ASSUMED_SYNC_BYTES_PER_S: Final = 200_000 << 10
"""Per drive: md's upper limit (dev.raid.speed_limit_max, md(4)), unless a study sets another."""
BUILD_S: Final = 3.0
"""Building an array, making a file system, mounting it, and removing all of it again."""
RESTING_S: Final = 0.4
"""After each sample, until the drives are idle (``IDLE_S`` in measure/members.py) and their
counters are stored: median 0.36 s, mean 0.43 s over 1,431 samples in the lab."""

ASSUMED_BUILDS: Final = "assuming that arrays synchronise at 205 MB/s"


def groups(plan: Plan) -> list[str]:
    """Return the groups of targets that are built, in the order of the study."""
    return [group for group in plan.groups() if group]


def builds(plan: Plan, group: str) -> int:
    """Return how often a round builds a group: each cell with faults needs an intact array."""
    cells = _cells(plan, group)
    breaking = sum(bool(cell.parsed.fail) for cell in cells)
    return max(1, breaking) if cells else 0


def build_s(plan: Plan, group: str) -> float:
    """Return the time of one build (s), including synchronisation, filling and loading."""
    cells = _cells(plan, group)
    target = _targets(plan, group)[0]
    filled_s = _filled_bytes(plan, group) / ASSUMED_BYTES_PER_S
    return (
        BUILD_S + sync_s(target) + filled_s + sum(topic.preparation_s(cells) for topic in topics())
    )


def build_write_bytes(plan: Plan, group: str) -> int:
    """Return the bytes written by one build: parity or copies, files, and the data of databases."""
    target = _targets(plan, group)[0]
    own_bytes = sync_write_bytes(target) + _filled_bytes(plan, group)
    return own_bytes + sum(topic.preparation_write_bytes(_cells(plan, group)) for topic in topics())


def round_s(plan: Plan, group: str) -> float:
    """Return the time of one round for a group without its cells (s): build, rebuild, check."""
    times = builds(plan, group)
    cells = _cells(plan, group)
    waited_s = len(cells) * RESTING_S
    waited_s += sum(after_faults_s(plan.target(cell.target), cell) for cell in cells)
    refilled_s = _refilled_bytes(plan, group) / ASSUMED_BYTES_PER_S
    return times * build_s(plan, group) + (times - 1) * refilled_s + waited_s


def round_write_bytes(plan: Plan, group: str) -> int:
    """Return the bytes that one round writes to a group without its cells: build, fill, rebuild."""
    times = builds(plan, group)
    rebuilt_bytes = sum(rebuilt_write_bytes(plan.target(c.target), c) for c in _cells(plan, group))
    refilled_bytes = (times - 1) * _refilled_bytes(plan, group)
    return times * build_write_bytes(plan, group) + refilled_bytes + rebuilt_bytes


def member_bytes(target: PlannedTarget) -> int | None:
    """Return how much of each drive a layout uses; None if their sizes are not yet known."""
    layout = _layout(target)
    each_bytes = target.drive_bytes // layout.members if target.drive_bytes else None
    known = [size for size in (each_bytes, layout.member_bytes) if size is not None]
    return min(known, default=None)


def require_room_for_databases(
    targets: Sequence[PlannedTarget], cells: Sequence[Cell], files: Sequence[TrialFile]
) -> None:
    """Check before any build that the databases of a plan fit layouts of known size.

    The overhead of a file system is known only after it has been created (machine/file.py).

    Raises:
        SpaceError: when they would not fit even without overhead.
    """
    for target in targets:
        used_bytes = member_bytes(target) if target.layout else None
        own = [cell for cell in cells if cell.target == target.label]
        database_bytes = sum(topic.space_bytes(own) for topic in topics())
        if target.layout is None or used_bytes is None or not database_bytes:
            continue
        legs = target.layout.legs if target.leg else 1
        holds_bytes = int(used_bytes * target.layout.data_members / legs)
        file_bytes = sum(file.size_bytes for file in files if file.target == target.label)
        if file_bytes + database_bytes > holds_bytes:
            raise SpaceError(
                seen=f"Layout {target.label!r} has a capacity of at most "
                f"{format_size(holds_bytes)}, but its databases need about "
                f"{format_size(database_bytes)} in addition to {format_size(file_bytes)} of "
                "trial files",
                cause="Each database needs space for the loaded original, the working copy and "
                "the logs of both",
                next_step="Use larger drives, a smaller 'scale' in the workload, or a smaller "
                "'size' in the layout (--size)",
            )


def sync_s(target: PlannedTarget) -> float:
    """Return the assumed time of the initial synchronisation (s); 0 if there is none."""
    used_bytes = member_bytes(target) or 0
    return used_bytes / ASSUMED_SYNC_BYTES_PER_S if sync_members(target) else 0.0


def sync_write_bytes(target: PlannedTarget) -> int:
    """Return the bytes of the initial synchronisation: all parity, or all copies but one."""
    return int((member_bytes(target) or 0) * sync_members(target) * _layout(target).legs)


def after_faults_s(target: PlannedTarget, cell: Cell) -> float:
    """Return the time after a sample with faults (s): rebuild, and reading all data."""
    faults = failures_of(cell.parsed.fail)
    if not faults:
        return 0.0
    limit_bytes_per_s = cell.parsed.rebuild_limit_kib_per_s << 10
    per_s = min(limit_bytes_per_s or ASSUMED_SYNC_BYTES_PER_S, ASSUMED_SYNC_BYTES_PER_S)
    last_s = max(fault.after_s for fault in faults)
    rebuilt_by_s = last_s + (member_bytes(target) or 0) / per_s
    waited_s = max(0.0, rebuilt_by_s - cell.parsed.duration_s)
    read_bytes = target.size_bytes if cell.parsed.verify else 0
    return waited_s + read_bytes / ASSUMED_BYTES_PER_S


def rebuilt_write_bytes(target: PlannedTarget, cell: Cell) -> int:
    """Return the bytes written by rebuilds: one drive for each replaced drive."""
    faults = failures_of(cell.parsed.fail)
    left = sum(each.fault in ("fail", "falter") for each in faults)
    by_spares = left if _layout(target).spares else 0
    replaced = sum(each.fault == "replace" for each in faults)
    return (by_spares + replaced) * (member_bytes(target) or 0)


def _layout(target: PlannedTarget) -> LayoutSpec:
    if target.layout is None:
        raise ValueError(f"target {target.label} is not a layout")
    return target.layout


def sync_members(target: PlannedTarget) -> float:
    """Return the number of drives per leg that an initial synchronisation writes; 0 without one.

    File systems with built-in RAID know which blocks are in use, and synchronise nothing.
    """
    layout = _layout(target)
    if not layout.initial_sync or layout.backend in FILESYSTEMS:
        return 0.0
    if not layout.facts.losses_survived(layout.drives):
        return 0.0
    return layout.drives - layout.facts.data_members(layout.drives)


def _targets(plan: Plan, group: str) -> list[PlannedTarget]:
    return [target for target in plan.targets if target.group == group]


def _cells(plan: Plan, group: str) -> list[Cell]:
    labels = {target.label for target in _targets(plan, group)}
    return [cell for cell in plan.cells if cell.target in labels]


def _filled_bytes(plan: Plan, group: str) -> int:
    """Return the bytes written into files after each build of a group."""
    labels = {target.label for target in _targets(plan, group)}
    return sum(file.size_bytes for file in plan.files if file.prefill and file.target in labels)


def _refilled_bytes(plan: Plan, group: str) -> int:
    """Return the bytes written into files when a group is rebuilt within a round.

    Cells that fill come first in a round, so later builds have to fill their files themselves.
    """
    labels = {target.label for target in _targets(plan, group)}
    return sum(file.size_bytes for file in plan.files if not file.prefill and file.target in labels)
