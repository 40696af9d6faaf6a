"""Builds and removes arrays; every change is in the undo journal before it is made.

A backend lists the commands that build an array; here they are run, then those that create and
mount its file systems and tune it. Removing it is undoing the entries, the last first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import SeatrialError, SpaceError, TargetError
from seatrial.machine.fingerprint.mounts import existing, mount_of
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.marker import write_marker
from seatrial.machine.sysblock import device_size_bytes
from seatrial.machine.undo_journal import UndoJournal, Undone
from seatrial.machine.undo_result import Outcome
from seatrial.published import Count
from seatrial.study.layouts.layout import DriveInfo, DriveRoles, LayoutSpec, assigned
from seatrial.study.layouts.targets import usable_bytes
from seatrial.trials.layouts.build import filesystems, registry, tuning
from seatrial.trials.layouts.build.backend import ArrayState, Built, Construction, Step
from seatrial.trials.layouts.build.caching import with_cache
from seatrial.trials.layouts.build.names import array_name, mount_folder, run_of
from seatrial.trials.layouts.build.nfs import nfs_folder, nfs_steps
from seatrial.trials.layouts.build.registry import backend as backend_of
from seatrial.trials.layouts.build.running import require_program, run_step
from seatrial.trials.layouts.build.wrapping import with_wrappers, wrapping_commands

SYNC_PATIENCE_S: Final = 48 * 3600.0
"""Longest wait for a first synchronisation; a drive of 20 TB takes about a day and a half."""
_NO_PROGRESS_S: Final = 180.0
_POLL_S: Final = 0.1
_REPORT_EVERY_S: Final = 1.0


def commands_of(spec: LayoutSpec, assigned: DriveRoles, name: str) -> list[str]:
    """Return the shell commands that a build would run; nothing is changed.

    Args:
        spec: The variant.
        assigned: The role of each drive; the drives need not exist.
        name: The name of the array.

    Raises:
        TargetError: when an existing drive does not support the requested scheduler.
    """
    schedulers = tuning.scheduler_steps(spec, assigned)
    wrapping, over = wrapping_commands(assigned.used, spec, run_of(name))
    assigned = with_wrappers(assigned, over)
    construction = _construction(spec, assigned, name)
    steps = [
        *schedulers,
        *construction.steps,
        *tuning.read_ahead_steps(spec, assigned, construction),
        *(
            step
            for device, folder in _filesystem_mounts(spec, construction, name)
            for step in _filesystem_steps(spec, assigned, name, device, folder)
        ),
        *(
            step
            for _, folder in _filesystem_mounts(spec, construction, name)
            for step in (nfs_steps(folder, nfs_folder(folder)) if spec.nfs else ())
        ),
    ]
    return [*wrapping, *(str(step) for step in steps)]


def build(spec: LayoutSpec, assigned: DriveRoles, name: str, journal: UndoJournal) -> Built:
    """Build an array with its file systems; its first synchronisation continues (``wait_synced``).

    A build that fails or is interrupted is undone.

    Args:
        spec: A variant that passed ``registry.require``.
        assigned: The role of each drive; all passed the guard.
        name: The name of the array: ``names.array_name`` of the journal's run.
        journal: Records every change before it is made.

    Raises:
        TargetError: when a program is missing, or a command fails.
        SpaceError: when the array is too small for its file system.
        UsageError: when the journal cannot be written.
        ValueError: when the name is not one of the journal's run.
    """
    if run_of(name) != journal.run_id:
        raise ValueError(f"{name!r} is not an array of the run {journal.run_id}")
    backend = backend_of(spec.backend)
    if not backend.is_filesystem and spec.filesystem != "none":
        require_program(filesystems.FILESYSTEMS[spec.filesystem].program)
    construction = _construction(spec, assigned, name)
    built = Built(spec=spec, name=name, assigned=assigned, construction=construction)
    started_s = time.monotonic()
    try:
        _run_build(built, journal)
    except BaseException as error:
        left = [each for each in destroy(built, journal) if each.outcome == Outcome.FAILED]
        for each in left:
            error.add_note(f"Not undone: {each.kind} {each.subject}: {each.detail}")
        raise
    built.built_s = time.monotonic() - started_s
    return built


def run_steps(built: Built, steps: Sequence[Step], journal: UndoJournal) -> list[int]:
    """Run further steps on an array, each recorded first; return the journal's entries.

    They are undone with the array, or before it by ``undo_steps``.

    Raises:
        TargetError: when a command fails.
        UsageError: when the journal cannot be written; then the step was not run.
    """
    entries = []
    for step in steps:
        if step.undo:
            entry = journal.record(step.undo, **step.details)
            entries.append(entry)
            if entry not in built.entries:
                built.entries.append(entry)
        built.commands.append(str(step))
        run_step(step)
    return entries


def undo_steps(built: Built, entries: Sequence[int], journal: UndoJournal) -> list[Undone]:
    """Undo steps of ``run_steps``, the last first; the array is not affected."""
    undone = [journal.undo(entry) for entry in reversed(entries)]
    built.entries = [entry for entry in built.entries if entry not in entries]
    return undone


def wait_synced(
    built: Built,
    journal: UndoJournal,
    *,
    patience_s: float = SYNC_PATIENCE_S,
    no_progress_s: float = _NO_PROGRESS_S,
    report: Callable[[float | None], None] | None = None,
) -> float:
    """Wait until an array's first synchronisation has ended; return how long it took (s).

    Speed limits of the system are removed meanwhile.

    Args:
        built: The array; its ``synced_s`` is set.
        journal: Records the limits that are removed meanwhile.
        patience_s: Maximum wait (s).
        no_progress_s: Maximum time without progress (s).
        report: Called about once a second with the progress (0 to 1; None if unknown).

    Raises:
        TargetError: when it does not end, or a drive fails meanwhile.
    """
    backend = backend_of(built.spec.backend)
    progress_s = time.monotonic()
    started_s = built.syncing_since_s or progress_s
    reported_s = 0.0
    before: list[ArrayState] = []
    entries = run_steps(built, backend.remove_sync_limits(built), journal)
    try:
        while True:
            now = _states(built)
            if not any(state.operation or state.missing for state in now):
                # A synchronisation that was never observed took no time.
                was_observed = before or built.syncing_since_s is not None
                built.synced_s = time.monotonic() - started_s if was_observed else 0.0
                break
            at_s = time.monotonic()
            progress_s = progress_s if now == before else at_s
            is_late = at_s - started_s > patience_s or at_s - progress_s > no_progress_s
            if is_late or any(state.has_failed for state in now):
                raise _not_synced(built, now, at_s - started_s)
            before = now
            if report and at_s - reported_s >= _REPORT_EVERY_S:
                reported_s = at_s
                report(min((s.share for s in now if s.share is not None), default=None))
            time.sleep(_POLL_S)
    finally:
        undo_steps(built, entries, journal)
    return built.synced_s


def destroy(built: Built, journal: UndoJournal) -> list[Undone]:
    """Remove an array with everything on it; what fails stays in the journal."""
    return [journal.undo(entry) for entry in reversed(built.entries)]


def built_bytes(built: Built) -> int:
    """Return the capacity of a layout (bytes): of its file systems, or its devices.

    For several exposed legs, the smallest.
    """
    if built.folders:
        sizes = [os.statvfs(folder) for folder in built.folders]
        size_bytes = min(each.f_blocks * each.f_frsize for each in sizes)
        spec = built.spec
        if spec.backend == "btrfs" and spec.level in ("raid5", "raid6"):
            # btrfs leaves out copies, but not parity.
            return int(size_bytes * spec.data_members / spec.drives)
        return size_bytes
    return min((device_size_bytes(device) for device in built.construction.devices), default=0)


def _construction(spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
    """Return how a variant is built: its array, and a cache device in front of it."""
    return with_cache(spec, assigned, name, backend_of(spec.backend).plan(spec, assigned, name))


def _run_build(built: Built, journal: UndoJournal) -> None:
    spec, assigned, construction = built.spec, built.assigned, built.construction
    run_steps(built, tuning.scheduler_steps(spec, assigned), journal)
    for folder in construction.folders:
        _make_mount_folder(built, folder, journal)
    run_steps(built, construction.steps, journal)
    built.folders = construction.folders
    # A small array may have finished already.
    if spec.initial_sync and any(state.operation or state.missing for state in _states(built)):
        built.syncing_since_s = time.monotonic()
    run_steps(built, tuning.read_ahead_steps(spec, assigned, construction), journal)
    for device, folder in _filesystem_mounts(spec, construction, built.name):
        problem = filesystems.too_small(spec.filesystem, device_size_bytes(device))
        if problem:
            raise _too_small(spec, problem)
        _make_mount_folder(built, folder, journal)
        steps = _filesystem_steps(spec, assigned, built.name, device, folder)
        run_steps(built, steps, journal)
        built.folders = (*built.folders, folder)
    for folder in built.folders if spec.nfs else ():
        point = nfs_folder(folder)
        _make_mount_folder(built, point, journal)
        run_steps(built, nfs_steps(folder, point), journal)
        built.folders = (point,)


def _states(built: Built) -> list[ArrayState]:
    """Return the state of each leg.

    Raises:
        TargetError: when it is unknown.
    """
    backend = backend_of(built.spec.backend)
    return [backend.state(built, leg) for leg in range(1, built.spec.legs + 1)]


def _filesystem_mounts(
    spec: LayoutSpec, construction: Construction, name: str
) -> list[tuple[str, str]]:
    """Return each device that gets a file system, and its mount point."""
    if construction.folders or spec.filesystem == "none":
        return []
    folders = [mount_folder(name, label) for label in spec.target_labels]
    return list(zip(construction.devices, folders, strict=True))


def _filesystem_steps(
    spec: LayoutSpec, assigned: DriveRoles, name: str, device: str, folder: str
) -> list[Step]:
    bare = device in assigned.used
    return [
        filesystems.make_step(spec, name, device, bare=bare, size_bytes=device_size_bytes(device)),
        filesystems.mount_step(spec, device, folder),
    ]


def _make_mount_folder(built: Built, folder: str, journal: UndoJournal) -> None:
    """Create a mount point in the folder with the run's marker."""
    path = Path(folder)
    # It may be the run's trial folder on another target, which is not removed with the array.
    if journal.find("file", path=str(path.parent), run_id=journal.run_id) is None:
        mount = mount_of(LIVE, existing(LIVE, str(path.parent)))
        entry = journal.record(
            "file",
            path=str(path.parent),
            run_id=journal.run_id,
            mount_point=mount.point if mount else "",
        )
        built.entries.append(entry)
    # Other users may pass: a database server runs under a different account.
    path.parent.mkdir(mode=0o711, exist_ok=True)
    write_marker(path.parent, journal.run_id)
    path.mkdir(mode=0o711, exist_ok=True)


def _too_small(spec: LayoutSpec, problem: str) -> SpaceError:
    return SpaceError(
        seen=f"Layout {spec.label!r} is too small for {spec.filesystem}",
        cause=problem,
        next_step="Use larger or more drives, or another file system (ext4 needs less)",
    )


def _not_synced(built: Built, now: Sequence[ArrayState], waited_s: float) -> TargetError:
    states = "; ".join(_state_text(state) for state in now)
    return TargetError(
        seen=f"Layout {built.spec.label!r} is not synchronised after {waited_s:.0f} s: {states}",
        cause="A drive failed or hangs, or something else blocks the synchronisation",
        next_step="Check the end of `dmesg` and /proc/mdstat, then try again",
    )


def _state_text(state: ArrayState) -> str:
    share = "" if state.share is None else f" at {state.share:.0%}"
    doing = f"{state.operation}{share}" if state.operation else "idle"
    return f"{doing}, {state.missing} drives missing"


PLANNED_RUN: Final = "RUN"
"""Placeholder in shown commands for the run id, which does not exist yet."""


class VariantPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One variant of a study's layouts.

    Attributes:
        label: Its label in the study.
        spec: The variant.
        assigned: The role of each drive; None where there are too few.
        holds_bytes: Its maximum capacity; None where its drives' sizes are unknown.
        survives: How many of its drives may fail in any combination, as a phrase.
        commands: The shell commands that build it; empty where it cannot be built.
        obstacle: Why it cannot be built on this machine, as sentences; empty if it can.
    """

    label: str
    spec: LayoutSpec
    assigned: DriveRoles | None
    holds_bytes: Count | None
    survives: str
    commands: list[str]
    obstacle: str


def describe(spec: LayoutSpec, drives: Sequence[DriveInfo]) -> VariantPlan:
    """Return the description of a variant before it is built; nothing is changed."""
    by_name = {drive.name: drive for drive in drives}
    try:
        roles = assigned(spec, list(by_name))
    except ValueError as error:
        roles = None
        obstacle = f"{error}."
    else:
        obstacle = _obstacle(spec)
    return VariantPlan(
        label=spec.label,
        spec=spec,
        assigned=roles,
        holds_bytes=usable_bytes(spec, [by_name[each] for each in roles.used]) if roles else None,
        survives=survives(spec),
        commands=_commands(spec, roles) if roles else [],
        obstacle=obstacle,
    )


def survives(spec: LayoutSpec) -> str:
    """Return how many drives may fail, as a phrase: ``any 1 of each leg``, ``none``."""
    count = spec.facts.losses_survived(spec.drives)
    if not count:
        return "none"
    return f"any {count} of each leg" if spec.legs > 1 else f"any {count}"


def _obstacle(spec: LayoutSpec) -> str:
    try:
        registry.require(spec)
    except SeatrialError as error:
        return f"{error.cause} {error.next_step}"
    return ""


def _commands(spec: LayoutSpec, roles: DriveRoles) -> list[str]:
    try:
        registry.check(spec)
        return commands_of(spec, roles, array_name(PLANNED_RUN, 1))
    except SeatrialError:
        return []
