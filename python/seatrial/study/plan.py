"""From a study to a plan: its cells, the files that they need, and the order of each round."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.errors import AlignmentError, SpaceError, StudyError
from seatrial.study.cell import Cell, FactorValue
from seatrial.study.hosts import on_hosts
from seatrial.study.layouts.cost import require_room_for_databases
from seatrial.study.layouts.layout import DriveInfo
from seatrial.study.layouts.targets import drives_of, layout_targets, notes_on_layouts
from seatrial.study.layouts.text import notes_on_failures
from seatrial.study.model import Plan, PlannedTarget, TargetInfo, TrialFile
from seatrial.study.problems import DOCS, suggestion
from seatrial.study.sampled import SampledWorkload
from seatrial.study.schema import DEFAULT_SIZE_BYTES, Study, Target
from seatrial.study.selection import runs_on
from seatrial.study.thresholds import selectable
from seatrial.study.units import format_size
from seatrial.topic import topic_of, topics


class ExcludedCells(msgspec.Struct, frozen=True, kw_only=True):
    """Tests that cannot be measured.

    Attributes:
        keys: Keys of the cells.
        notes: The reasons, as sentences.
    """

    keys: frozenset[str]
    notes: list[str]


def left_out(
    study: Study,
    targets: Sequence[PlannedTarget],
    infos: Mapping[str, TargetInfo],
    cells: Sequence[Cell],
    files: Sequence[TrialFile],
) -> ExcludedCells:
    """Return the cells of optional workloads that lack PostgreSQL or space.

    Args:
        study: The study.
        targets: Its targets as planned.
        infos: Known facts of the targets, by label; unknown facts are not an obstacle.
        cells: All cells.
        files: Files that the other cells need on the targets.
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
                notes.append(f"{workload.label} is skipped on {target.label}: {reason}")
    return ExcludedCells(keys=frozenset(keys), notes=notes)


def cells_of(
    workload: SampledWorkload, target: PlannedTarget, study: Study, *, prefix: str = ""
) -> Iterator[Cell]:
    """Yield the cells of a workload on a target.

    Args:
        workload: The workload.
        target: The target.
        study: The study, for its access specifications.
        prefix: Prefix of every key; the target's label if there are several targets.
    """
    yield from topic_of(workload).cells(workload, target, study, prefix=prefix)


def usual_factors(cell: Cell) -> dict[str, FactorValue]:
    """Return the factors that a cell omits if they have these values."""
    return topic_of(cell).usual_factors(cell)


CELLS_MAX: Final = 10_000
DEVICE_GRANULE_BYTES: Final = 1 << 20


def make_plan(
    study: Study,
    targets_info: Mapping[str, TargetInfo] | None = None,
    drives: Sequence[DriveInfo] = (),
) -> Plan:
    """Return the plan for a run of the study; nothing is changed.

    Args:
        study: The study.
        targets_info: Known facts of the targets, by label; a missing target is assumed to be a
            directory with blocks of 512 bytes and O_DIRECT.
        drives: Drives of its layouts; by default those of the study, with unknown size if they are
            devices.

    Raises:
        StudyError: when a block does not fit its file, a limit is below one block, there are too
            many cells or none, or a threshold matches no cell.
        AlignmentError: when a size is not a multiple of the target's logical block.
        DirectError: when the study uses direct I/O where it is not supported.
        SpaceError: when the study uses more of a device or file than exists, or a layout is too
            small for its databases.
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

    Cells of all targets are interleaved at random, so that drift does not appear as an effect.
    Layouts that share their drives cannot exist at the same time, so a round measures them one
    after another, in random order. Within a group, fills come first and cells that inject faults
    come late. Cells of databases come last, in random order: caches and write-back left by a server
    and by copying its data must not affect the short samples of the engine. The order is that of
    all cells, drawn from the study's seed and the round, without those that are not pending: a
    resumed round keeps its order.

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
            bool(cell.parsed.fail),
            topic_of(cell).comes_last,
        )
    )
    pending = set(pending_keys)
    return [cell for cell in shuffled if cell.key in pending and is_due(plan, cell, round_number)]


def is_due(plan: Plan, cell: Cell, round_number: int) -> bool:
    """Return whether a round, from 0, may measure a cell: some fills run only once.

    Load lines are not part of the rounds: each is measured separately after them.
    """
    if not topic_of(cell).in_rounds:
        return False
    return round_number == 0 or not is_done_once(plan, cell)


def is_done_once(plan: Plan, cell: Cell) -> bool:
    """Return whether only the first round measures a cell; false for layouts, built each round."""
    return not plan.target(cell.target).layout and any(
        workload.is_once and workload.label == cell.workload for workload in plan.study.workloads
    )


def writes(cell: Cell) -> bool:
    """Return whether a cell writes anything."""
    return cell.operation != "read"


def _planned(target: Target, info: TargetInfo) -> PlannedTarget:
    """Return a target of the plan: the study's keys, completed with known facts."""
    kind = target.kind if target.kind != "auto" else info.kind or "directory"
    known_bytes = _usable_bytes(kind, info)
    if known_bytes == 0:
        raise _too_small(target, kind, info)
    size_bytes = int(target.size_bytes or known_bytes or DEFAULT_SIZE_BYTES)
    if kind in ("device", "file") and known_bytes is not None and size_bytes > known_bytes:
        raise SpaceError(
            seen=f"The study uses {format_size(size_bytes)} of target {target.label!r}, which "
            f"has only {format_size(known_bytes)}",
            cause=f"'size' of the target, or the option --size, is larger than the {kind}",
            next_step=f"Use at most --size {known_bytes}, or omit it to use the whole {kind}",
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
    """Return the usable size of a device or file; None if unknown.

    For a device whole MiB, so that a fill writes all of it; for a file whole logical blocks.
    """
    if kind not in ("device", "file") or info.size_bytes is None:
        return None
    granule_bytes = _granule_bytes(kind, info)
    return info.size_bytes // granule_bytes * granule_bytes


def _granule_bytes(kind: str, info: TargetInfo) -> int:
    return DEVICE_GRANULE_BYTES if kind == "device" else info.logical_block_bytes


def _too_small(target: Target, kind: str, info: TargetInfo) -> SpaceError:
    """Return the error for a device or file that is too small."""
    least = format_size(_granule_bytes(kind, info))
    size = f"only {format_size(info.size_bytes)} long" if info.size_bytes else "empty"
    return SpaceError(
        seen=f"Target {target.label!r}, the {kind} {target.path}, is {size}; a trial needs a "
        f"multiple of {least}",
        cause=f"The {kind} is empty or truncated, or is not the intended one",
        next_step=f"Use a {kind} of at least {least}, or a directory, in which a trial file is "
        "created",
    )


def _obstacle(workload: SampledWorkload, target: PlannedTarget) -> str:
    """Return why a workload cannot run on a target of this kind; empty if it can."""
    if obstacle := topic_of(workload).obstacle(workload, target):
        return obstacle
    if workload.failures and not target.layout:
        return "faults can be injected only into layouts built for the trial"
    return ""


def _cells_on(target: PlannedTarget, study: Study, prefix: str, notes: list[str]) -> Iterator[Cell]:
    """Yield the cells of a target; skipped ones are reported in the notes."""
    for workload in study.workloads:
        if not runs_on(workload, target):
            continue
        obstacle = _obstacle(workload, target)
        if obstacle:
            notes.append(f"{workload.label} is skipped on {target.label}: {obstacle}")
            continue
        left_out: list[Cell] = []
        topic = topic_of(workload)
        for cell in on_hosts(cells_of(workload, target, study, prefix=prefix), study.hosts):
            if topic.is_possible(cell, workload, target):
                yield cell
            else:
                left_out.append(cell)
        if left_out:
            notes.append(
                f"{len(left_out)} tests of {workload.label} are skipped on {target.label}: "
                f"direct I/O requires multiples of {target.logical_block_bytes} bytes"
            )


def misaligned(
    target: PlannedTarget, what: str, misaligned_bytes: int, block_bytes: int | None = None
) -> AlignmentError:
    """Return the error for a size or offset that is not a multiple of the logical block."""
    block_bytes = block_bytes or target.logical_block_bytes
    return AlignmentError(
        seen=f"{what} is {misaligned_bytes} bytes, not a multiple of {block_bytes} bytes",
        cause=f"Target {target.label!r} has logical blocks of {target.logical_block_bytes} bytes",
        next_step=f"Use multiples of {block_bytes} bytes, skip_unaligned = true to skip such "
        "tests, or direct = false to use the page cache",
    )


def _too_many(study: Study) -> StudyError:
    """Return the error for a study with too many cells."""
    return StudyError(
        seen=f"Study {study.name!r} has more than {CELLS_MAX} tests",
        cause="Each list multiplies the number of tests by its length",
        next_step="Shorten the lists, or split the study",
    )


def _check_cells(study: Study, cells: list[Cell], notes: list[str]) -> None:
    """Raise StudyError when there is nothing to measure, or a threshold matches no cell."""
    if not cells:
        raise StudyError(
            seen=f"Study {study.name!r} has no tests for these targets",
            cause="; ".join(notes) or "All its workloads are restricted to other targets",
            next_step="Choose another target; --plan shows its tests",
        )
    _check_keys(study, cells)
    for threshold in study.thresholds:
        selected = [cell for cell in cells if cell.workload == threshold.workload]
        if any(threshold.selects(cell) for cell in selected):
            continue
        known = {name for cell in selected for name in selectable(cell)}
        unknown = [name for name in threshold.where if name not in known]
        hint = suggestion(unknown[0], sorted(known)) if unknown else ""
        raise StudyError(
            seen=f"The threshold {threshold.name!r} of study {study.name!r} matches no test",
            cause=hint or "No test of that workload has all the factors in the brackets",
            next_step=f"{DOCS} explains the brackets; --plan lists the tests",
        )


def _check_keys(study: Study, cells: list[Cell]) -> None:
    """Raise StudyError when two cells have the same key."""
    seen: set[str] = set()
    for cell in cells:
        if cell.key in seen:
            raise StudyError(
                seen=f"Study {study.name!r} has two tests with the key {cell.key}",
                cause="Two values of a list are printed alike",
                next_step="List each value once, with at most six digits",
            )
        seen.add(cell.key)


def _hash(
    study: Study, targets: list[PlannedTarget], cells: list[Cell], files: list[TrialFile]
) -> str:
    """Return a hash (16 hexadecimal digits) of everything that a resume must find unchanged."""
    layouts = [target.layout for target in targets if target.layout]
    parts = [study.seed, cells, files, *([layouts] if layouts else [])]
    described = msgspec.json.encode(parts, order="sorted", enc_hook=int)
    return hashlib.sha256(described).hexdigest()[:16]
