"""The interface of all backends: plan, describe, report the state, fail, replace, scrub.

A backend only lists the commands that build an array and how each is undone. build.py runs them
through the undo journal, and an array is removed by undoing them, the last first. So a backend
cannot forget to clean up.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from seatrial.errors import TargetError
from seatrial.machine.undo_result import Undoer
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec

COMMAND_PATIENCE_S: Final = 300.0
FASTEST_KIB_PER_S: Final = 20_000_000
"""A speed limit of md and of LVM that no array reaches."""
OPERATIONS: Final = {
    "recover": "rebuild",
    "resync": "resync",
    "check": "scrub",
    "repair": "scrub",
}
"""The kernel's word for what an array of md or LVM does, and that of ``ArrayState``."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A required program, and the Debian package that contains it."""

    name: str
    package: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of a build.

    Attributes:
        command: Program and arguments; no shell sees them.
        undo: Kind of the undo journal's entry that is written before it runs; empty where an
            earlier step's entry covers it.
        details: Details of that entry: the keyword arguments of its undoer.
        stdin: Standard input of the command.
        environment: Additional environment variables.
        patience_s: Timeout in seconds.
    """

    command: tuple[str, ...]
    undo: str = ""
    details: Mapping[str, str | float] = field(default_factory=dict)
    stdin: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = COMMAND_PATIENCE_S

    def __str__(self) -> str:
        line = shlex.join(self.command)
        return f"echo {shlex.quote(self.stdin)} | {line}" if self.stdin else line


@dataclass(frozen=True, kw_only=True)
class Construction:
    """How a variant is built.

    Attributes:
        steps: In order. They include making and mounting a file system only where the array itself
            is one; others are in filesystems.py.
        devices: The resulting block devices: of the whole, or one a leg with ``expose``; empty
            where the array is a file system.
        leg_devices: The array of each leg, where it has its own device.
        folders: Mount points of an array that is a file system.
        backing: The array's device below a cache device; empty without one.
    """

    steps: tuple[Step, ...]
    devices: tuple[str, ...] = ()
    leg_devices: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    backing: str = ""


@dataclass(frozen=True, kw_only=True)
class ArrayState:
    """The current state of an array, or of one leg.

    Attributes:
        missing: Active drives not in service (failed, absent, or still being rebuilt).
        operation: ``rebuild``, ``resync`` (of copies or parity, with all drives present), ``scrub``
            or empty.
        share: Progress of the operation, 0 to 1; None if unknown.
        has_failed: Whether more drives have failed than it survives.
    """

    missing: int = 0
    operation: str = ""
    share: float | None = None
    has_failed: bool = False


@dataclass(kw_only=True)
class Built:
    """An existing array.

    Attributes:
        spec: The variant.
        name: ``seatrial-<run>`` and a number; md, LVM, btrfs and ZFS all carry this name, by which
            an undoer recognises ours.
        assigned: The role of each drive, updated when a drive replaces another.
        construction: How it was built.
        folders: Mount points of the file systems: one, or one a leg; empty without any.
        entries: Numbers in the undo journal of all changes, in order.
        commands: The shell commands that built it.
        built_s: How long that took, without the first synchronisation.
        syncing_since_s: When it was first seen to synchronise (monotonic); None if never.
        synced_s: Upper bound of that time: it may have ended while the file system was created.
    """

    spec: LayoutSpec
    name: str
    assigned: DriveRoles
    construction: Construction
    folders: tuple[str, ...] = ()
    entries: list[int] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    built_s: float = 0.0
    syncing_since_s: float | None = None
    synced_s: float = 0.0

    @property
    def paths(self) -> tuple[str, ...]:
        """The measured paths: folders, or devices without a file system."""
        return self.folders or self.construction.devices

    def assign(self, leg: int, member: int, new_device: str) -> None:
        """Record that a device has replaced an active drive (from 1) of a leg."""
        self.assigned.legs[leg - 1][member - 1] = new_device
        if new_device in self.assigned.unused:
            self.assigned.unused.remove(new_device)

    def require_redundancy(self, leg: int, member: int) -> None:
        """Check that a drive of a leg can be rebuilt.

        Raises:
            TargetError: when the level has nothing to rebuild it from.
        """
        if not self.spec.facts.losses_survived(self.spec.drives):
            raise TargetError(
                seen=f"Drive {member} of leg {leg} cannot be replaced",
                cause=f"Level {self.spec.level} has no copies or parity to rebuild its data from",
                next_step="Rebuild the layout, or use a level with redundancy",
            )


class Backend(ABC):
    """One way to build arrays.

    Attributes:
        name: Its name in a study.
        levels: Supported levels.
        programs: Required programs.
        undoers: How each kind of change of its steps is undone.
        is_filesystem: Whether the array itself is a file system (btrfs, ZFS).
        parts: Supported parts other than active drives: ``spares``, ``logs``, ``caches``.
    """

    name: ClassVar[str]
    levels: ClassVar[tuple[str, ...]]
    programs: ClassVar[tuple[Program, ...]]
    undoers: ClassVar[Mapping[str, Undoer]]
    is_filesystem: ClassVar[bool] = False
    parts: ClassVar[frozenset[str]] = frozenset({"spares"})

    def obstacle(self) -> str:
        """Return why it cannot work on this machine, as a sentence; empty if it can.

        This checks the kernel; missing programs are checked elsewhere.
        """
        return ""

    def check(self, spec: LayoutSpec) -> str:
        """Return why it cannot build a variant, as a sentence; empty if it can."""
        return ""

    @abstractmethod
    def plan(self, spec: LayoutSpec, assigned: DriveRoles, name: str) -> Construction:
        """Return how a variant is built; nothing is changed, and no root is needed."""

    @abstractmethod
    def describe(self, built: Built) -> dict[str, str]:
        """Return facts of an existing array, by name, as reported by the system."""

    @abstractmethod
    def state(self, built: Built, leg: int) -> ArrayState:
        """Return the current state of a leg (from 1); of the whole if the backend has no legs."""

    @abstractmethod
    def fail(self, built: Built, leg: int, member: int) -> str:
        """Make an active drive (from 1) of a leg fail; return its path.

        Raises:
            TargetError: when it cannot be done.
        """

    @abstractmethod
    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Replace a failed drive; returns when the replacement has begun.

        Raises:
            TargetError: when it cannot be done.
        """

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start a check of all data of a leg.

        Raises:
            TargetError: when it cannot be done.
        """
        raise TargetError(
            seen=f"Leg {leg} of {built.name} cannot be scrubbed",
            cause=f"{self.name} has no copies, parity or checksums to compare its data with",
            next_step="Remove the scrub from the workload, or use a level with redundancy",
        )

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return the mismatches found by the last scrub, in blocks of 512 bytes, if known."""
        return None

    def remove_sync_limits(self, built: Built) -> list[Step]:
        """Return the steps that remove speed limits of the first synchronisation."""
        return []

    def limit_rebuild(self, built: Built, kib_per_s: int) -> list[Step]:
        """Return the steps that limit the rebuild rate; 0 is the kernel's own limit."""
        return []
