"""One variant built for its cells: its array, what is known of it, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import msgspec

from seatrial.errors import SeatrialError, TargetError
from seatrial.machine.undo import UndoJournal, Undone
from seatrial.machine.undoer import Outcome
from seatrial.measure.progress import Watcher
from seatrial.results.model import LayoutRecord
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.study.model import PlannedTarget
from seatrial.trials.layouts.build.alignment import check_alignment
from seatrial.trials.layouts.build.backend import Backend, Built
from seatrial.trials.layouts.build.build import build, destroy, usable_bytes, wait_synced
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.names import array_name
from seatrial.trials.layouts.build.registry import backend as backend_of
from seatrial.trials.layouts.build.wrapping import rewired, wrap, wrapping_notes
from seatrial.trials.layouts.measure.members import roles


@dataclass(kw_only=True)
class Array:
    """An array that stands.

    Attributes:
        backend: That built it.
        built: What was built.
        places: Where each of its targets is measured, by label.
        record: What every sample on the whole of it tells.
        journal: What undoes it.
        is_spent: Whether something was broken in it, so that no other cell may be measured there.
    """

    backend: Backend
    built: Built
    places: dict[str, str]
    record: LayoutRecord
    journal: UndoJournal
    is_spent: bool = False

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

        What was made is undone when it fails or is interrupted.

        Args:
            spec: The variant.
            drives: The drives of the run; none is in use.
            journal: Where every change is recorded before it is made.
            number: Of the array in its run.
            watcher: Told of the progress.

        Raises:
            SeatrialError: when it cannot be built.
        """
        drives.ready()
        backend = backend_of(spec.backend)
        bare = assigned(spec, drives.paths)
        watcher.stage(f"Building {spec.label} of {_drives_text(spec.members)}")
        try:
            laid = wrap(bare.used, spec, journal)
            name = array_name(journal.run_id, number)
            built = build(spec, rewired(bare, laid), name, journal)
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
            places=dict(zip(spec.target_labels, built.places, strict=True)),
            record=record,
            journal=journal,
        )

    def record_of(self, target: PlannedTarget) -> LayoutRecord:
        """Return what every sample on a target tells: the whole, or a leg of it."""
        if not target.leg:
            return self.record
        meant = (f"leg {target.leg}", f"spare of leg {target.leg}")
        return msgspec.structs.replace(
            self.record,
            device=self.built.construction.leg_devices[target.leg - 1]
            if self.built.construction.leg_devices
            else self.places[target.label],
            roles={drive: role for drive, role in self.record.roles.items() if role in meant},
        )

    def take_apart(self) -> list[Undone]:
        """Undo all that it is; return what could not be undone, and stays in the journal."""
        reported = [*destroy(self.built, self.journal), *_unwrap(self.journal)]
        return [each for each in reported if each.outcome == Outcome.FAILED]


def not_taken_apart(label: str, left: list[Undone]) -> TargetError:
    """Return the error of an array that stands in the way of the next one."""
    each = "; ".join(f"{one.kind} {one.subject}: {one.detail}" for one in left)
    return TargetError(
        seen=f"{label} could not be taken apart: {each}",
        cause="Something else uses what was built, or a drive hangs",
        next_step="End what uses it, then run `seatrial clean`; the run goes on with --resume",
    )


def _unwrap(journal: UndoJournal) -> list[Undone]:
    """Take off what was laid over drives: of one array only, for one alone stands at a time."""
    return [journal.undo(entry) for entry in reversed(journal.entries("dm"))]


def _record(backend: Backend, built: Built, commands: list[str]) -> LayoutRecord:
    who = built.assigned
    notes = wrapping_notes(built.spec)
    facts: dict[str, str] = {}
    odd: list[str] = []
    try:
        facts = backend.describe(built)
        odd = check_alignment(built)
    except (SeatrialError, OSError) as error:
        notes.append(f"What the array is like could not be told: {error}")
    return LayoutRecord(
        layout=msgspec.to_builtins(built.spec, enc_hook=int),
        device=next(iter((*built.construction.devices, *built.folders)), ""),
        built_s=built.built_s,
        synced_s=built.synced_s,
        usable_bytes=usable_bytes(built),
        facts=facts,
        misaligned=odd,
        roles=roles(who.legs, who.spares, who.logs, who.caches),
        commands=commands,
        notes=notes,
    )


def _report_sync(watcher: Watcher, spec: LayoutSpec, share: float | None) -> None:
    reported = "" if share is None else f": {share:.0%}"
    watcher.stage(f"Synchronising {spec.label}{reported}")


def _drives_text(count: int) -> str:
    return "1 drive" if count == 1 else f"{count} drives"
