"""A variant built for its cells: its array, the facts about it, and its removal.

Source: the kernel's Documentation/block/stat.rst, the fields of ``/sys/class/block/<drive>/stat``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import msgspec

from seatrial.errors import SeatrialError, TargetError
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.undo_journal import UndoJournal, Undone
from seatrial.machine.undo_result import Outcome
from seatrial.measure.progress import Watcher
from seatrial.postgres.page_cache import write_back
from seatrial.results.model import LayoutRecord
from seatrial.stats.wording import format_plural
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec, assigned
from seatrial.study.model import PlannedTarget
from seatrial.trials.layouts.build.alignment import check_alignment
from seatrial.trials.layouts.build.backend import Backend, Built
from seatrial.trials.layouts.build.build import build, built_bytes, destroy, wait_synced
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.names import array_name
from seatrial.trials.layouts.build.registry import backend as backend_of
from seatrial.trials.layouts.build.wrapping import with_wrappers, wrap, wrapping_notes
from seatrial.units import NS_PER_MS, SECTOR_BYTES

IDLE_S: Final = 0.3
"""Drives are idle after this time without a completed or pending request. Writes that an array or
file system delays for seconds (md's bitmap, a journal) are not waited for."""
SETTLE_S_MAX: Final = 3.0
POLL_S: Final = 0.05

_FIELDS: Final = {
    "reads": (0, 1),
    "writes": (4, 1),
    "flushes": (15, 1),
    "read_bytes": (2, SECTOR_BYTES),
    "write_bytes": (6, SECTOR_BYTES),
    "busy_ns": (9, NS_PER_MS),
}
"""Index and unit of each counter; older kernels have no flushes."""
_IN_FLIGHT: Final = 8

Counts = dict[str, float]
Reading = dict[str, Counts]


class MemberCounters:
    """Counters of the drives of an array over a period.

    Args:
        drives: Their paths, in any form.
        is_working: Whether the array has its own I/O (a rebuild, a scrub): its drives do not become
            idle then, and are not waited for.
        paths: Folders or devices of the array that are written to. Their dirty pages are written
            back before the first reading, as they belong to earlier samples.
        is_buffered: Whether the load uses the page cache: then its dirty pages are written back
            before the second reading, as they belong to the load.
    """

    def __init__(
        self,
        drives: Sequence[str],
        is_working: Callable[[], bool] = lambda: False,
        *,
        paths: Sequence[str] = (),
        is_buffered: bool = False,
    ) -> None:
        self._names = {drive: Path(drive).resolve().name for drive in drives}
        self._is_working = is_working
        self._paths = list(paths)
        self._is_buffered = is_buffered
        self._before: Reading = {}
        self.deltas: Reading = {}
        """I/O of each drive, by path, after ``end``."""
        self.settled_s: float | None = None
        self.notes: list[str] = []

    def begin(self) -> None:
        """Take the first reading, right before the load, when no writes are pending."""
        self._write_back()
        self._before = self._read()

    def end(self) -> None:
        """Take the second reading after the load, when the drives are idle."""
        began_s = time.monotonic()
        if self._is_buffered:
            self._write_back()
        is_working = self._is_working()
        is_idle = self._settle(time.monotonic() + SETTLE_S_MAX)
        after = self._read()
        self.settled_s = time.monotonic() - began_s
        self.deltas = {
            drive: {name: value - self._before[drive].get(name, 0.0) for name, value in own.items()}
            for drive, own in after.items()
            if drive in self._before
        }
        gone = [drive for drive in self._names if drive not in self.deltas]
        if gone:
            self.notes.append(f"The I/O of {', '.join(gone)} is unknown: the kernel removed it.")
        if is_working:
            self.notes.append(
                "The array had background activity when the load ended: its drives' requests were "
                "counted at once and include that activity."
            )
        elif not is_idle:
            self.notes.append(
                "The drives' requests were counted while some were still in flight: the drives "
                f"were not idle within {SETTLE_S_MAX:g} s after the load."
            )

    def _write_back(self) -> None:
        for path in self._paths:
            try:
                write_back(Path(path))
            except OSError as error:
                self.notes.append(
                    f"The page cache of {path} could not be flushed ({error.strerror}): the "
                    "drives' requests may include those of another sample."
                )

    def _settle(self, give_up_s: float) -> bool:
        """Wait until no drive has had a request for a while; return whether they became idle."""
        idle_since_s, last = time.monotonic(), self._activity()
        while not self._is_working():
            time.sleep(POLL_S)
            now_s, activity = time.monotonic(), self._activity()
            if activity != last or any(in_flight for _, in_flight in activity):
                idle_since_s, last = now_s, activity
            elif now_s - idle_since_s >= IDLE_S:
                return True
            if now_s >= give_up_s:
                return False
        return False

    def _activity(self) -> list[tuple[int, int]]:
        """Return completed requests and requests in flight of each drive."""
        return [
            (fields[0] + fields[4], fields[_IN_FLIGHT])
            for fields in map(_fields, self._names.values())
            if fields
        ]

    def _read(self) -> Reading:
        found = {drive: _fields(name) for drive, name in self._names.items()}
        return {drive: _counts(fields) for drive, fields in found.items() if fields}


def roles(drives: DriveRoles) -> dict[str, str]:
    """Return the role of each drive, by path: ``leg 1``, ``spare of leg 1``, ``log``, ``cache``."""
    found = {drive: f"leg {n}" for n, leg in enumerate(drives.legs, 1) for drive in leg}
    for number, spares in enumerate(drives.spares, 1):
        found |= dict.fromkeys(spares, f"spare of leg {number}")
    return found | dict.fromkeys(drives.logs, "log") | dict.fromkeys(drives.caches, "cache")


def _fields(name: str) -> list[int]:
    """Return the fields of a drive or partition; empty if the kernel does not know it."""
    return [int(word) for word in (LIVE.text(f"/sys/class/block/{name}/stat") or "").split()]


def _counts(fields: Sequence[int]) -> Counts:
    return {
        name: float(fields[index] * unit)
        for name, (index, unit) in _FIELDS.items()
        if index < len(fields)
    }


@dataclass(kw_only=True)
class Array:
    """An existing array.

    Attributes:
        backend: Its backend.
        built: The built array.
        paths: Measured path of each of its targets, by label.
        record: The record of every sample on the whole layout.
        journal: The journal that undoes it.
        is_damaged: Whether a fault was injected, so that no other cell may be measured there.
    """

    backend: Backend
    built: Built
    paths: dict[str, str]
    record: LayoutRecord
    journal: UndoJournal
    is_damaged: bool = False

    @classmethod
    def build(
        cls,
        spec: LayoutSpec,
        drives: OpenDrives,
        journal: UndoJournal,
        number: int,
        watcher: Watcher,
    ) -> Self:
        """Build a variant and wait for its first synchronisation.

        A build that fails or is interrupted is undone.

        Args:
            spec: The variant.
            drives: The drives of the run; none is in use.
            journal: Records every change before it is made.
            number: Number of the array in its run.
            watcher: Receives the progress.

        Raises:
            SeatrialError: when it cannot be built.
        """
        drives.recheck()
        backend = backend_of(spec.backend)
        bare = assigned(spec, drives.paths)
        watcher.step(f"Building {spec.label} of {format_plural(spec.members, 'drive')}")
        try:
            wrappers = wrap(bare.used, spec, journal)
            name = array_name(journal.run_id, number)
            built = build(spec, with_wrappers(bare, wrappers), name, journal)
            commands = list(built.commands)
            if spec.initial_sync:
                wait_synced(built, journal, report=lambda share: _report_sync(watcher, spec, share))
        except BaseException:
            _unwrap(journal)
            raise
        record = _record(backend, built, commands)
        return cls(
            backend=backend,
            built=built,
            paths=dict(zip(spec.target_labels, built.paths, strict=True)),
            record=record,
            journal=journal,
        )

    def record_of(self, target: PlannedTarget) -> LayoutRecord:
        """Return the record of every sample on a target: the whole, or a leg of it."""
        if not target.leg:
            return self.record
        own = (f"leg {target.leg}", f"spare of leg {target.leg}")
        return msgspec.structs.replace(
            self.record,
            device=self.built.construction.leg_devices[target.leg - 1]
            if self.built.construction.leg_devices
            else self.paths[target.label],
            roles={drive: role for drive, role in self.record.roles.items() if role in own},
        )

    def remove(self) -> list[Undone]:
        """Undo everything; return what could not be undone, and stays in the journal."""
        texts = [*destroy(self.built, self.journal), *_unwrap(self.journal)]
        return [each for each in texts if each.outcome == Outcome.FAILED]


def not_removed(label: str, left: list[Undone]) -> TargetError:
    """Return the error for an array that blocks the next one."""
    each = "; ".join(f"{one.kind} {one.subject}: {one.detail}" for one in left)
    return TargetError(
        seen=f"{label} could not be removed: {each}",
        cause="Another process uses the layout, or a drive hangs",
        next_step="End that process, run `seatrial clean`, and resume the run with --resume",
    )


def _unwrap(journal: UndoJournal) -> list[Undone]:
    """Remove all wrappers of drives: only one array exists at a time."""
    return [journal.undo(entry) for entry in reversed(journal.entries("dm"))]


def _record(backend: Backend, built: Built, commands: list[str]) -> LayoutRecord:
    notes = wrapping_notes(built.spec)
    facts: dict[str, str] = {}
    misaligned: list[str] = []
    try:
        facts = backend.describe(built)
        misaligned = check_alignment(built)
    except (SeatrialError, OSError) as error:
        notes.append(f"The state of the array is unknown: {error}")
    return LayoutRecord(
        layout=msgspec.to_builtins(built.spec, enc_hook=int),
        device=next(iter((*built.construction.devices, *built.folders)), ""),
        built_s=built.built_s,
        synced_s=built.synced_s,
        usable_bytes=built_bytes(built),
        facts=facts,
        misaligned=misaligned,
        roles=roles(built.assigned),
        commands=commands,
        notes=notes,
    )


def _report_sync(watcher: Watcher, spec: LayoutSpec, share: float | None) -> None:
    text = "" if share is None else f": {share:.0%}"
    watcher.step(f"Synchronising {spec.label}{text}")
