"""Layouts that are kept until a command removes them.

Each is a kept undo journal: its records list what was made, its note describes it to the user. So
there is no second list that could disagree.
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
from seatrial.machine.undo_journal import Kept, UndoJournal, Undone, kept_journals
from seatrial.published import Amount
from seatrial.study.layouts.layout import DriveRoles, Drives, LayoutSpec, assigned
from seatrial.trials.layouts.build import registry
from seatrial.trials.layouts.build.alignment import check_alignment
from seatrial.trials.layouts.build.backend import Built
from seatrial.trials.layouts.build.build import build, wait_synced
from seatrial.trials.layouts.build.drives import OpenDrives
from seatrial.trials.layouts.build.names import array_name
from seatrial.trials.layouts.build.wrapping import with_wrappers, wrap

_KIND = "layout"


class StandingLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A kept layout.

    Attributes:
        run_id: Run of the journal that undoes it.
        name: Name of the array.
        spec: The variant.
        assigned: The role of each drive.
        folders: Mount points of its file systems; empty without any.
        devices: Its block devices; empty where it is a file system itself.
        commands: The shell commands that built it.
        facts: Facts reported by the system, by name.
        misaligned: What is misaligned, as sentences.
        built_at: When it was built, as Unix time (s).
        built_s: How long that took, without the first synchronisation.
        synced_s: How long that took.
    """

    run_id: str
    name: str
    spec: LayoutSpec
    assigned: DriveRoles
    folders: list[str]
    devices: list[str]
    commands: list[str]
    facts: dict[str, str]
    misaligned: list[str]
    built_at: Amount
    built_s: Amount
    synced_s: Amount

    @property
    def paths(self) -> list[str]:
        """The paths to measure: folders, or devices without a file system."""
        return self.folders or self.devices

    def is_there(self, tree: SystemTree = LIVE) -> bool:
        """Return whether it still exists; a reboot removes it."""
        if not self.folders:
            return all(tree.exists(device) for device in self.devices)
        points = {mount.point for mount in mounts(tree)}
        return points.issuperset(self.folders)


def build_standing_layout(
    spec: LayoutSpec, drives: Drives, *, destroy: str | None, report: Callable[[str], None]
) -> StandingLayout:
    """Build a variant and keep it after the end of this process.

    A build that fails or is interrupted is undone.

    Args:
        spec: The variant.
        drives: Its drives.
        destroy: Serial numbers or paths of the devices whose data may be lost, comma-separated.
        report: Called with each stage, as a sentence.

    Raises:
        StudyError: when its backend does not support it, or there are too few drives.
        RefusedError: when the guard refuses a drive.
        TargetError: when a requirement is missing, or a command fails.
        SpaceError: when the files of loop devices do not fit, or the array is too small.
        UsageError: when the journal cannot be written.
        SeatrialError: when it failed, and could not be undone.
    """
    registry.require(spec)
    run_id = new_run_id()
    with UndoJournal(run_id) as journal:
        for device in drives.devices:
            report(f"All data on {inspect(device)} will be lost.")
        opened = OpenDrives(drives, run_id, journal, destroy, spec.members).open()
        opened.recheck()
        roles = assigned(spec, opened.paths)
        report(f"Building {spec.label} on {', '.join(roles.used)}.")
        roles = with_wrappers(roles, wrap(roles.used, spec, journal))
        built = build(spec, roles, array_name(run_id, 1), journal)
        if spec.initial_sync:
            if spec.facts.losses_survived(spec.drives):
                report("Waiting for the synchronisation.")
            wait_synced(built, journal)
        facts = registry.backend(spec.backend).describe(built)
        return keep(journal, built, facts, check_alignment(built))


def keep(
    journal: UndoJournal, built: Built, facts: Mapping[str, str], misaligned: Sequence[str]
) -> StandingLayout:
    """Keep a layout after the end of this process.

    Args:
        journal: The journal that recorded it.
        built: The layout.
        facts: Facts reported by the system, by name.
        misaligned: What is misaligned, as sentences.

    Raises:
        UsageError: when the journal cannot be written; then it is not kept.
    """
    standing = StandingLayout(
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


def standing_layouts() -> list[StandingLayout]:
    """Return the kept layouts of this user, oldest first.

    Raises:
        UsageError: when the state folder cannot be used.
    """
    return [
        msgspec.convert(kept.about[_KIND], StandingLayout)
        for kept in kept_journals().values()
        if _KIND in kept.about
    ]


def find_standing_layout(name: str) -> StandingLayout:
    """Return a kept layout by its variant's label, its run or its array's name.

    Raises:
        UsageError: when none, or more than one, has this name.
    """
    existing = standing_layouts()
    named = [each for each in existing if name in (each.run_id, each.name, each.spec.label)]
    if len(named) == 1:
        return named[0]
    if named:
        listed = ", ".join(each.run_id for each in named)
        raise UsageError(
            seen=f"{len(named)} layouts are named {name}: {listed}",
            cause="The same variant was built more than once",
            next_step="Give the run of the intended one",
        )
    raise UsageError(
        seen=f"There is no layout named {name}",
        cause=f"The standing layouts are {', '.join(each.spec.label for each in existing)}"
        if existing
        else "No layout was built with `seatrial layout build`, or all were destroyed",
        next_step="List the layouts with `seatrial layout show`",
    )


def destroy(standing: StandingLayout) -> list[Undone]:
    """Remove a layout, the last change first; what fails stays for ``seatrial clean``.

    Raises:
        RefusedError: when another process is removing it, or it is on another machine.
        UsageError: when the state folder cannot be used.
    """
    journal = UndoJournal(standing.run_id, release=True)
    return [*journal.ended_by_reboot, *journal.undo_all()]
