"""From a study to a plan: its cells, the files that they need, and the order of each round."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.errors import AlignmentError, SpaceError, StudyError
from seatrial.study.cell import Cell
from seatrial.study.cells import cells_of
from seatrial.study.layouts.cost import require_room_for_databases
from seatrial.study.layouts.drives import DriveInfo
from seatrial.study.layouts.notes import notes_on_failures
from seatrial.study.layouts.targets import drives_of, layout_targets, notes_on_layouts
from seatrial.study.model import (
    Plan,
    PlannedTarget,
    TargetInfo,
    TrialFile,
)
from seatrial.study.optional import left_out
from seatrial.study.problems import DOCS, suggestion
from seatrial.study.sampled import Sampled
from seatrial.study.schema import DEFAULT_SIZE_BYTES, Study, Target
from seatrial.study.selection import runs_on
from seatrial.study.thresholds import selectable
from seatrial.study.units import format_size
from seatrial.topic import topic_of, topics

CELLS_MAX: Final = 10_000
DEVICE_GRANULE_BYTES: Final = 1 << 20
SECTOR_BYTES: Final = 512  # verifiable data are told apart by sectors


def make_plan(
    study: Study,
    targets_info: Mapping[str, TargetInfo] | None = None,
    drives: Sequence[DriveInfo] = (),
) -> Plan:
    """Return what a run of the study will do; nothing is touched.

    Args:
        study: The study.
        targets_info: What is known of the targets, by label; what is missing is taken to be a
            directory with blocks of 512 bytes and O_DIRECT.
        drives: What its layouts are built of; unless given those that the study says, of
            unknown size if they are devices.

    Raises:
        StudyError: when a block does not fit its file, a limit is below one block, there are too
            many cells or none, or a threshold selects no cell.
        AlignmentError: when a size is not a multiple of the target's logical block.
        DirectError: when the study goes past the page cache where that is not possible.
        SpaceError: when the study uses more of a device or file than there is, or a layout is
            too small for its databases.
    """
    infos = targets_info or {}
    there = list(drives) or drives_of(study)
    targets = [
        *(
            _planned(target, infos.get(target.label, TargetInfo()))
            for target in study.plain_targets
        ),
        *layout_targets(study, there),
    ]
    notes = list(notes_on_layouts(study, there))
    cells: list[Cell] = []
    for target in targets:
        prefix = f"{target.label}/" if len(targets) > 1 else ""
        for cell in _cells_on(target, study, prefix, notes):
            cells.append(cell)
            if len(cells) > CELLS_MAX:
                raise _too_many(study)
    files = [
        file for target in targets for topic in topics() for file in topic.files(target, cells)
    ]
    impossible = left_out(study, targets, infos, cells, files)
    cells = [cell for cell in cells if cell.key not in impossible.keys]
    notes += impossible.notes
    _check_cells(study, cells, notes)
    for topic in topics():
        topic.check_plan(targets, cells, files)
    require_room_for_databases(targets, cells, files)
    return Plan(
        study=study,
        targets=targets,
        cells=cells,
        files=files,
        notes=[
            *notes,
            *(note for topic in topics() for note in topic.notes(study, targets, cells)),
            *notes_on_failures(study, targets, cells),
        ],
        left_out=impossible.notes,
        drives=there,
        plan_hash=_hash(study, targets, cells, files),
    )


def order(plan: Plan, round_number: int, pending_keys: Collection[str]) -> list[Cell]:
    """Return the pending cells in the order in which a round measures them.

    Cells of all targets are interleaved at random, so that drift cannot pose as an effect; but
    layouts that share their drives cannot be there at once, so that a round takes them one after
    another, in an order of its own. Among what is there at once the fills come first, and what
    breaks an array comes late. Cells of a database come last, at random among themselves: what a
    server and the copying of its data leave behind in caches and write-back is not to fall into
    the short samples of the engine. The order is that of all cells, drawn from the study's seed and
    the round, less those that are not pending: a resumed round goes on in its old order.

    Args:
        plan: The plan.
        round_number: The round, from 0.
        pending_keys: Keys of the cells still to be measured; unknown keys are ignored.
    """
    draw = random.Random(f"seatrial order {plan.study.seed} {round_number}")
    shuffled = draw.sample(plan.cells, len(plan.cells))
    groups = plan.groups()
    turns = {group: turn for turn, group in enumerate(draw.sample(groups, len(groups)))}
    group_of = {target.label: target.group for target in plan.targets}
    shuffled.sort(
        key=lambda cell: (
            turns[group_of[cell.target]],
            not topic_of(cell).comes_first(cell),
            bool(cell.spec.get("fail")),
            topic_of(cell).comes_last,
        )
    )
    pending = set(pending_keys)
    return [cell for cell in shuffled if cell.key in pending and is_due(plan, cell, round_number)]


def is_due(plan: Plan, cell: Cell, round_number: int) -> bool:
    """Return whether a round, from 0, may measure a cell: some fills are done once only.

    Load lines are no part of the rounds: each goes its own way after them.
    """
    if not topic_of(cell).in_rounds:
        return False
    return round_number == 0 or not is_done_once(plan, cell)


def is_done_once(plan: Plan, cell: Cell) -> bool:
    """Return whether only the first round measures a cell: never so on what each round builds."""
    return not plan.target(cell.target).layout and any(
        workload.is_once and workload.label == cell.workload for workload in plan.study.workloads
    )


def writes(cell: Cell) -> bool:
    """Return whether a cell writes anything."""
    return cell.operation != "read"


def _planned(target: Target, info: TargetInfo) -> PlannedTarget:
    """Return a target as the plan takes it: what the study says, else what is known of it."""
    kind = target.kind if target.kind != "auto" else info.kind or "directory"
    known_bytes = _usable_bytes(kind, info)
    if known_bytes == 0:
        raise _too_small(target, kind, info)
    size_bytes = int(target.size_bytes or known_bytes or DEFAULT_SIZE_BYTES)
    if kind in ("device", "file") and known_bytes is not None and size_bytes > known_bytes:
        raise SpaceError(
            seen=f"The study uses {format_size(size_bytes)} of target {target.label!r}, which has "
            f"{format_size(known_bytes)}",
            cause=f"'size' of the target, or the option --size, is larger than the {kind}",
            next_step=f"Give at most --size {known_bytes}, or none to use all of it",
        )
    planned = PlannedTarget(
        label=target.label,
        kind=kind,
        path=target.path,
        size_bytes=size_bytes,
        drive_bytes=info.drive_bytes,
        logical_block_bytes=info.logical_block_bytes,
        direct=info.direct,
        model=target.model.as_mapping(),
        url=target.url,
        database=target.database,
        pg_bin=target.pg_bin,
    )
    if size_bytes % info.logical_block_bytes:
        raise misaligned(planned, f"The size of target {target.label!r}", size_bytes)
    return planned


def _usable_bytes(kind: str, info: TargetInfo) -> int | None:
    """Return how much of a device or file can be used; None where that is unknown.

    Of a device whole MiB, so that a fill writes all of it; of a file whole logical blocks.
    """
    if kind not in ("device", "file") or info.size_bytes is None:
        return None
    granule_bytes = _granule_bytes(kind, info)
    return info.size_bytes // granule_bytes * granule_bytes


def _granule_bytes(kind: str, info: TargetInfo) -> int:
    return DEVICE_GRANULE_BYTES if kind == "device" else info.logical_block_bytes


def _too_small(target: Target, kind: str, info: TargetInfo) -> SpaceError:
    """Return the error for a device or file of which nothing can be used."""
    least = format_size(_granule_bytes(kind, info))
    held = format_size(info.size_bytes) if info.size_bytes else "nothing"
    return SpaceError(
        seen=f"Target {target.label!r}, the {kind} {target.path}, holds {held}, and a trial takes "
        f"whole pieces of {least}",
        cause=f"The {kind} is empty or cut short, or another one was meant",
        next_step=f"Name one of at least {least}, or a directory, where a trial file is made",
    )


def _obstacle(workload: Sampled, target: PlannedTarget) -> str:
    """Return why a workload cannot run on a target of this kind; empty where it can."""
    if obstacle := topic_of(workload).obstacle(workload, target):
        return obstacle
    if workload.failures and not target.layout:
        return "only what is built for the trial can be broken, and it is there already"
    return ""


def _cells_on(target: PlannedTarget, study: Study, prefix: str, notes: list[str]) -> Iterator[Cell]:
    """Yield the cells of a target; what must be left out is told in the notes."""
    for workload in study.workloads:
        if not runs_on(workload, target):
            continue
        obstacle = _obstacle(workload, target)
        if obstacle:
            notes.append(f"{workload.label} is left out on {target.label}: {obstacle}")
            continue
        left_out: list[Cell] = []
        topic = topic_of(workload)
        for cell in cells_of(workload, target, study, prefix=prefix):
            if topic.is_possible(cell, workload, target):
                yield cell
            else:
                left_out.append(cell)
        if left_out:
            notes.append(
                f"{len(left_out)} cells of {workload.label} are left out on {target.label}: past "
                f"the page cache it takes multiples of {target.logical_block_bytes} bytes only"
            )


def misaligned(
    target: PlannedTarget, what: str, odd_bytes: int, block_bytes: int | None = None
) -> AlignmentError:
    """Return the error for a size or position that is not a multiple of the logical block."""
    block_bytes = block_bytes or target.logical_block_bytes
    return AlignmentError(
        seen=f"{what} is {odd_bytes} bytes, not a multiple of {block_bytes} bytes",
        cause=f"Target {target.label!r} has logical blocks of {target.logical_block_bytes} bytes",
        next_step=f"Use multiples of {block_bytes} bytes, skip_unaligned = true to leave such "
        "cells out, or direct = false to measure through the page cache",
    )


def _too_many(study: Study) -> StudyError:
    """Return the error for a study that no one would live to see the end of."""
    return StudyError(
        seen=f"Study {study.name!r} has more than {CELLS_MAX} cells",
        cause="Every value of every list multiplies the cells",
        next_step="Shorten the lists, or divide it into several studies",
    )


def _check_cells(study: Study, cells: list[Cell], notes: list[str]) -> None:
    """Raise StudyError when there is nothing to measure, or nothing that a threshold speaks of."""
    if not cells:
        raise StudyError(
            seen=f"Study {study.name!r} has no cells on these targets",
            cause="; ".join(notes) or "All of its workloads run on other targets",
            next_step="Look at it with --plan on another target",
        )
    _check_keys(study, cells)
    for threshold in study.thresholds:
        selected = [cell for cell in cells if cell.workload == threshold.workload]
        if any(threshold.selects(cell) for cell in selected):
            continue
        known = {name for cell in selected for name in selectable(cell)}
        odd = [name for name in threshold.where if name not in known]
        hint = suggestion(odd[0], sorted(known)) if odd else ""
        raise StudyError(
            seen=f"The threshold {threshold.name!r} of study {study.name!r} selects no cell",
            cause=hint or "No cell of that workload has all the factors named in the brackets",
            next_step=f"{DOCS} explains the brackets; look at the cells with --plan",
        )


def _check_keys(study: Study, cells: list[Cell]) -> None:
    """Raise StudyError when two cells would be told apart by nobody."""
    seen: set[str] = set()
    for cell in cells:
        if cell.key in seen:
            raise StudyError(
                seen=f"Study {study.name!r} has two cells {cell.key}",
                cause="Two values of a list are the same once they are written out",
                next_step="Give each value once, and numbers with at most six digits",
            )
        seen.add(cell.key)


def _hash(
    study: Study, targets: list[PlannedTarget], cells: list[Cell], files: list[TrialFile]
) -> str:
    """Return 16 hexadecimal digits that change with whatever a resume must find unchanged."""
    layouts = [target.layout for target in targets if target.layout]
    parts = [study.seed, cells, files, *([layouts] if layouts else [])]
    described = msgspec.json.encode(parts, order="sorted", enc_hook=int)
    return hashlib.sha256(described).hexdigest()[:16]
