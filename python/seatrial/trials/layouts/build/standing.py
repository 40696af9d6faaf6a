"""Layouts that were built to stand, until somebody asks for their end.

One of them is a kept undo journal: what was made is in its records, what it is for a user is in
what is said of its keeping. So there is no second list that could disagree with the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from seatrial.errors import UsageError
from seatrial.machine.fingerprint.mounts import mounts
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.guard import inspect
from seatrial.machine.marker import new_run_id
from seatrial.machine.undo import Kept, UndoJournal, Undone, kept_journals
from seatrial.published import Amount
from seatrial.study.layouts.layout import Assigned, Drives, LayoutSpec, assigned
from seatrial.trials.layouts.build import registry
from seatrial.trials.layouts.build.alignment import check_alignment
from seatrial.trials.layouts.build.backend import Built
from seatrial.trials.layouts.build.build import build, wait_synced
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.names import array_name
from seatrial.trials.layouts.build.wrapping import rewired, wrap

_KIND = "layout"


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that stands.

    Attributes:
        run_id: Of the journal that undoes it.
        name: What the array is called.
        spec: The variant.
        assigned: Which drive does what.
        folders: Where its file systems are mounted; empty with none.
        devices: The block devices that it is; empty where it is a file system itself.
        commands: What was run, as a shell would take it.
        facts: What the system tells of it, by name.
        misaligned: What of it does not begin where the layer below does, as sentences.
        built_at: When it was built, as Unix time (s).
        built_s: How long that took, without the first synchronisation.
        synced_s: How long that took.
    """

    run_id: str
    name: str
    spec: LayoutSpec
    assigned: Assigned
    folders: list[str]
    devices: list[str]
    commands: list[str]
    facts: dict[str, str]
    misaligned: list[str]
    built_at: Amount
    built_s: Amount
    synced_s: Amount

    @property
    def places(self) -> list[str]:
        """What can be measured: folders, or devices where there is no file system."""
        return self.folders or self.devices

    def is_there(self, tree: SystemTree = LIVE) -> bool:
        """Tell whether it still is: a restart of the machine, or somebody else, may have ended it.

        Args:
            tree: The machine.
        """
        if not self.folders:
            return all(tree.exists(device) for device in self.devices)
        points = {mount.point for mount in mounts(tree)}
        return points.issuperset(self.folders)


def build_standing(
    spec: LayoutSpec, drives: Drives, *, destroy: str | None, report: Callable[[str], None]
) -> Standing:
    """Build a variant and let it stand after the end of this process.

    Whatever fails or is interrupted before it stands is undone.

    Args:
        spec: The variant.
        drives: What it is built of.
        destroy: Serial numbers or paths of the devices whose data may be lost, with commas.
        report: Told each stage, as a sentence.

    Raises:
        StudyError: when it cannot be built on any machine, or there are too few drives.
        RefusedError: when the guard does not let all drives pass.
        TargetError: when something that it needs is missing, or a command fails.
        SpaceError: when the files of loop devices do not fit, or the array is too small.
        UsageError: when the journal cannot be written.
        SeatrialError: when it failed, and could not be undone.
    """
    registry.require(spec)
    run_id = new_run_id()
    with UndoJournal(run_id) as journal:
        for device in drives.devices:
            report(f"All that {inspect(device)} holds will be lost.")
        opened = OpenDrives(drives, run_id, journal, destroy, spec.members).open()
        opened.ready()
        places = assigned(spec, opened.paths)
        report(f"Building {spec.label} of {', '.join(places.used)}.")
        places = rewired(places, wrap(places.used, spec, journal))
        built = build(spec, places, array_name(run_id, 1), journal)
        if spec.initial_sync:
            if spec.facts.losses_survived(spec.drives):
                report("Waiting until it is synchronised.")
            wait_synced(built, journal)
        facts = registry.backend(spec.backend).describe(built)
        return keep(journal, built, facts, check_alignment(built))


def keep(
    journal: UndoJournal, built: Built, facts: Mapping[str, str], misaligned: Sequence[str]
) -> Standing:
    """Let a layout that was built stand after the end of this process.

    Args:
        journal: That it was built with.
        built: The layout.
        facts: What the system tells of it, by name.
        misaligned: What is not aligned, as sentences.

    Raises:
        UsageError: when the journal cannot be written; then it is not kept.
    """
    standing = Standing(
        run_id=journal.run_id,
        name=built.name,
        spec=built.spec,
        assigned=built.assigned,
        folders=list(built.folders),
        devices=list(built.construction.devices),
        commands=list(built.commands),
        facts=dict(facts),
        misaligned=list(misaligned),
        built_at=time.time(),
        built_s=built.built_s,
        synced_s=built.synced_s,
    )
    about = {_KIND: msgspec.to_builtins(standing)}
    undone_by = f"`seatrial layout destroy {journal.run_id}`"
    journal.keep(Kept(name=f"layout {built.spec.label}", undone_by=undone_by, about=about))
    return standing


def all_standing() -> list[Standing]:
    """Return the layouts of this user that stand, the oldest first.

    Raises:
        UsageError: when the state folder cannot be used.
    """
    return [
        msgspec.convert(kept.about[_KIND], Standing)
        for kept in kept_journals().values()
        if _KIND in kept.about
    ]


def find_standing(name: str) -> Standing:
    """Return the layout of a name: its variant's label, its run's, or the array's own.

    Raises:
        UsageError: when none, or more than one, is called so.
    """
    there = all_standing()
    named = [each for each in there if name in (each.run_id, each.name, each.spec.label)]
    if len(named) == 1:
        return named[0]
    if named:
        listed = ", ".join(each.run_id for each in named)
        raise UsageError(
            seen=f"{len(named)} layouts are called {name}: {listed}",
            cause="The same variant was built more than once",
            next_step="Name the run of the one that is meant",
        )
    raise UsageError(
        seen=f"No layout called {name} stands",
        cause=_who_stands(there),
        next_step="See `seatrial layout show` for those that do",
    )


def destroy(standing: Standing) -> list[Undone]:
    """Take a layout apart, the last change first; what fails stays for ``seatrial clean``.

    Raises:
        RefusedError: when another process is at it, or it stands on another machine.
        UsageError: when the state folder cannot be used.
    """
    journal = UndoJournal(standing.run_id, release=True)
    return [*journal.ended_by_reboot, *journal.undo_all()]


def _who_stands(there: Sequence[Standing]) -> str:
    if not there:
        return "None was left standing by `seatrial layout build`, or all were destroyed since"
    return f"Those that do are {', '.join(each.spec.label for each in there)}"
