"""Arrays built, waited for and taken apart, every change in the undo journal before it is made.

A backend says which commands build an array; here they run, then those that make and mount its
file systems and set it up. Taking apart is undoing the entries, the last first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from seatrial.errors import SpaceError, TargetError
from seatrial.machine.fingerprint.mounts import existing, mount_of
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.marker import write_marker
from seatrial.machine.sysblock import node_by_number
from seatrial.machine.undo import UndoJournal, Undone
from seatrial.machine.undoer import Outcome
from seatrial.study.layouts.layout import Assigned, LayoutSpec
from seatrial.trials.layouts.build import filesystems, tuning
from seatrial.trials.layouts.build.backend import ArrayState, Built, Construction, Step
from seatrial.trials.layouts.build.names import mount_folder, run_of
from seatrial.trials.layouts.build.registry import backend as backend_of
from seatrial.trials.layouts.build.running import require_program, run_step
from seatrial.trials.layouts.build.wrapping import rewired, wrapping_commands

SYNC_PATIENCE_S: Final = 48 * 3600.0
"""Longest wait for a first synchronisation; a drive of 20 TB takes about a day and a half."""
_NO_PROGRESS_S: Final = 180.0
_POLL_S: Final = 0.1
_TELL_EVERY_S: Final = 1.0


def commands_of(spec: LayoutSpec, assigned: Assigned, name: str) -> list[str]:
    """Return what a build would run, as a shell would take it; nothing is touched.

    Args:
        spec: The variant.
        assigned: Which drive does what; they need not be there.
        name: What the array is called.

    Raises:
        TargetError: when a drive that is there has not the scheduler that is asked for.
    """
    schedulers = tuning.scheduler_steps(spec, assigned)
    wrapping, over = wrapping_commands(assigned.used, spec, run_of(name))
    assigned = rewired(assigned, over)
    construction = backend_of(spec.backend).plan(spec, assigned, name)
    steps = [
        *schedulers,
        *construction.steps,
        *tuning.read_ahead_steps(spec, assigned, construction),
        *(
            step
            for device, folder in _filesystem_places(spec, construction, name)
            for step in _filesystem_steps(spec, assigned, name, device, folder)
        ),
    ]
    return [*wrapping, *(str(step) for step in steps)]


def build(spec: LayoutSpec, assigned: Assigned, name: str, journal: UndoJournal) -> Built:
    """Build an array with what lies on it; its first synchronisation goes on (``wait_synced``).

    A build that fails midway is undone, and so is one that is interrupted.

    Args:
        spec: The variant, which ``registry.require`` has let pass.
        assigned: Which drive does what; the guard has let each pass.
        name: What the array is called: ``names.array_name`` of the journal's run.
        journal: Where every change is recorded before it is made.

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
    construction = backend.plan(spec, assigned, name)
    built = Built(spec=spec, name=name, assigned=assigned, construction=construction)
    started_s = time.monotonic()
    try:
        _carry_out(built, journal)
    except BaseException as error:
        left = [each for each in destroy(built, journal) if each.outcome == Outcome.FAILED]
        for each in left:
            error.add_note(f"Not undone: {each.kind} {each.subject}: {each.detail}")
        raise
    built.built_s = time.monotonic() - started_s
    return built


def run_steps(built: Built, steps: Sequence[Step], journal: UndoJournal) -> list[int]:
    """Run further steps on an array, each recorded before; return the journal's entries.

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
    """Undo steps of ``run_steps``, the last first; the array stays."""
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
    """Wait until an array's first synchronisation has ended; return how long that took (s).

    It goes as fast as the drives allow meanwhile, whatever limit the system has.

    Args:
        built: The array; its ``synced_s`` is set.
        journal: Where the limits that are lifted for that time are recorded.
        patience_s: Longest wait (s).
        no_progress_s: After which a synchronisation that does not get on is given up (s).
        report: Told about once a second how far it is (0 to 1; None where that cannot be told).

    Raises:
        TargetError: when it does not end, or a drive fails meanwhile.
    """
    backend = backend_of(built.spec.backend)
    moved_s = time.monotonic()
    started_s = built.syncing_since_s or moved_s
    told_s = 0.0
    before: list[ArrayState] = []
    entries = run_steps(built, backend.hasten(built), journal)
    try:
        while True:
            now = [backend.state(built, leg) for leg in range(1, built.spec.legs + 1)]
            if not any(state.operation or state.missing for state in now):
                # What was never seen to go on did not take any time.
                has_gone_on = before or built.syncing_since_s is not None
                built.synced_s = time.monotonic() - started_s if has_gone_on else 0.0
                break
            at_s = time.monotonic()
            moved_s = moved_s if now == before else at_s
            gone_on = at_s - started_s <= patience_s and at_s - moved_s <= no_progress_s
            if not gone_on or any(state.has_failed for state in now):
                raise _not_synced(built, now, at_s - started_s)
            before = now
            if report and at_s - told_s >= _TELL_EVERY_S:
                told_s = at_s
                report(min((s.share for s in now if s.share is not None), default=None))
            time.sleep(_POLL_S)
    finally:
        undo_steps(built, entries, journal)
    return built.synced_s


def destroy(built: Built, journal: UndoJournal) -> list[Undone]:
    """Take an array apart with all that lies on it; what fails stays in the journal."""
    return [journal.undo(entry) for entry in reversed(built.entries)]


def usable_bytes(built: Built) -> int:
    """Return what a layout holds (bytes): its file systems as made, or its devices.

    Of several legs that stand side by side, the smallest.
    """
    if built.folders:
        reported = [os.statvfs(folder) for folder in built.folders]
        return min(each.f_blocks * each.f_frsize for each in reported)
    return min((_size_bytes(device) for device in built.construction.devices), default=0)


def _carry_out(built: Built, journal: UndoJournal) -> None:
    spec, assigned, construction = built.spec, built.assigned, built.construction
    run_steps(built, tuning.scheduler_steps(spec, assigned), journal)
    for folder in construction.folders:
        _make_mount_folder(built, folder, journal)
    run_steps(built, construction.steps, journal)
    built.folders = construction.folders
    if spec.initial_sync and _is_syncing(built):
        built.syncing_since_s = time.monotonic()
    run_steps(built, tuning.read_ahead_steps(spec, assigned, construction), journal)
    for device, folder in _filesystem_places(spec, construction, built.name):
        problem = filesystems.too_small(spec.filesystem, _size_bytes(device))
        if problem:
            raise _too_small(spec, problem)
        _make_mount_folder(built, folder, journal)
        steps = _filesystem_steps(spec, assigned, built.name, device, folder)
        run_steps(built, steps, journal)
        built.folders = (*built.folders, folder)


def _is_syncing(built: Built) -> bool:
    """Tell whether an array synchronises; a small one may be through when its file system is made.

    Raises:
        TargetError: when that cannot be told.
    """
    backend = backend_of(built.spec.backend)
    states = (backend.state(built, leg) for leg in range(1, built.spec.legs + 1))
    return any(state.operation or state.missing for state in states)


def _filesystem_places(
    spec: LayoutSpec, construction: Construction, name: str
) -> list[tuple[str, str]]:
    """Return each device that gets a file system, and where it is mounted."""
    if construction.folders or spec.filesystem == "none":
        return []
    folders = [mount_folder(name, label) for label in spec.target_labels]
    return list(zip(construction.devices, folders, strict=True))


def _filesystem_steps(
    spec: LayoutSpec, assigned: Assigned, name: str, device: str, folder: str
) -> list[Step]:
    bare = device in assigned.used
    return [
        filesystems.make_step(spec, name, device, bare=bare, size_bytes=_size_bytes(device)),
        filesystems.mount_step(spec, device, folder),
    ]


def _make_mount_folder(built: Built, folder: str, journal: UndoJournal) -> None:
    """Make a folder to mount on, in the one that bears the run's mark."""
    path = Path(folder)
    mount = mount_of(LIVE, existing(LIVE, str(path.parent)))
    entry = journal.record(
        "file",
        path=str(path.parent),
        run_id=journal.run_id,
        mount_point=mount.point if mount else "",
    )
    if entry not in built.entries:
        built.entries.append(entry)
    # Others may pass: a database's server runs under another user.
    path.parent.mkdir(mode=0o711, exist_ok=True)
    write_marker(path.parent, journal.run_id)
    path.mkdir(mode=0o711, exist_ok=True)


def _size_bytes(device: str) -> int:
    number = LIVE.block_number(device)
    return node_by_number(number).size_bytes() if number else 0


def _too_small(spec: LayoutSpec, problem: str) -> SpaceError:
    return SpaceError(
        seen=f"Layout {spec.label!r} is too small for {spec.filesystem}",
        cause=problem,
        next_step="Give larger drives or more of them, or another filesystem (ext4 is content "
        "with less)",
    )


def _not_synced(built: Built, now: Sequence[ArrayState], waited_s: float) -> TargetError:
    states = "; ".join(_state_text(state) for state in now)
    return TargetError(
        seen=f"Layout {built.spec.label!r} is not synchronised after {waited_s:.0f} s: {states}",
        cause="A drive failed or hangs, or something else keeps the array from it",
        next_step="See the end of `dmesg` and /proc/mdstat, then try again",
    )


def _state_text(state: ArrayState) -> str:
    share = "" if state.share is None else f" at {state.share:.0%}"
    doing = f"{state.operation}{share}" if state.operation else "idle"
    return f"{doing}, {state.missing} drives missing"
