"""What every backend can do: plan, describe, tell its state, fail, replace, scrub.

A backend only says which commands build an array and what undoes each of them; build.py runs them
by way of the undo journal, and taking apart is undoing them, the last first. So a backend cannot
forget to clean up after itself.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from seatrial.errors import TargetError
from seatrial.machine.undoer import Undoer
from seatrial.study.layouts.layout import Assigned, LayoutSpec

COMMAND_PATIENCE_S: Final = 300.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that a backend needs, and the Debian package that holds it."""

    name: str
    package: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of a build.

    Attributes:
        command: Program and arguments; no shell sees them.
        undo: Kind of the undo journal's entry that is written before it runs; empty where an
            earlier step's entry covers it.
        details: Of that entry: the keyword arguments of its undoer.
        stdin: What is written to the command.
        environment: Variables that it gets beside those of ours.
        patience_s: Seconds after which it is given up.
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
        steps: In order. Those that make and mount a file system on a block device are not among
            them (filesystems.py), but those of a file system that is the array itself are.
        devices: The block devices that result: of the whole, or one a leg with ``expose``; empty
            where the array is a file system.
        leg_devices: The array of each leg, where it has a device of its own.
        folders: Where an array that is a file system is mounted.
    """

    steps: tuple[Step, ...]
    devices: tuple[str, ...] = ()
    leg_devices: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ArrayState:
    """How an array, or one leg of it, is now.

    Attributes:
        missing: Active drives that do not serve (failed, absent, or still being rebuilt).
        operation: ``rebuild``, ``resync`` (of copies or parity, with all drives there), ``scrub``
            or empty.
        share: How much of the operation is done, 0 to 1; None where that cannot be told.
        has_failed: Whether more drives are gone than it survives.
    """

    missing: int = 0
    operation: str = ""
    share: float | None = None
    has_failed: bool = False


@dataclass(kw_only=True)
class Built:
    """An array that stands.

    Attributes:
        spec: The variant.
        name: What it is called: ``seatrial-<run>`` and a number; md, LVM, btrfs and ZFS all bear
            it, by which an undoer knows what is ours.
        assigned: Which drive does what. Its lists change when a drive takes another's place.
        construction: How it was built.
        folders: Where the file systems are mounted: one, or one a leg; empty with none.
        entries: Numbers in the undo journal of all that was made, in order.
        commands: What was run, as a shell would take it.
        built_s: How long that took, without the first synchronisation.
        syncing_since_s: When it was first seen to synchronise (monotonic); None if it never was.
        synced_s: How long that took, at most: its end may have come while the file system was made.
    """

    spec: LayoutSpec
    name: str
    assigned: Assigned
    construction: Construction
    folders: tuple[str, ...] = ()
    entries: list[int] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    built_s: float = 0.0
    syncing_since_s: float | None = None
    synced_s: float = 0.0

    @property
    def places(self) -> tuple[str, ...]:
        """What is measured: folders, or devices where there is no file system."""
        return self.folders or self.construction.devices


class Backend(ABC):
    """One way to build arrays.

    Attributes:
        name: As a study writes it.
        levels: Levels that it has.
        programs: What must be installed.
        undoers: How each kind of change that its steps make is undone, by kind.
        is_filesystem: Whether the array is a file system itself (btrfs, ZFS).
        parts: What a variant may have beside its active drives: ``spares``, ``logs``, ``caches``.
    """

    name: ClassVar[str]
    levels: ClassVar[tuple[str, ...]]
    programs: ClassVar[tuple[Program, ...]]
    undoers: ClassVar[Mapping[str, Undoer]]
    is_filesystem: ClassVar[bool] = False
    parts: ClassVar[frozenset[str]] = frozenset({"spares"})

    def obstacle(self) -> str:
        """Return why it cannot work on this machine, as a sentence; empty where it can.

        Whether its programs are installed is checked by others; this is about the kernel.
        """
        return ""

    def check(self, spec: LayoutSpec) -> str:
        """Return what of a variant it cannot do, as a sentence; empty where it can all."""
        return ""

    @abstractmethod
    def plan(self, spec: LayoutSpec, assigned: Assigned, name: str) -> Construction:
        """Return how a variant is built; nothing is touched, and no root is needed.

        Args:
            spec: The variant.
            assigned: Which drive does what.
            name: What the array is called.
        """

    @abstractmethod
    def describe(self, built: Built) -> dict[str, str]:
        """Return facts of an array that stands, by name, as the system tells them."""

    @abstractmethod
    def state(self, built: Built, leg: int) -> ArrayState:
        """Return how a leg (from 1) is now; the whole where the backend has no legs."""

    @abstractmethod
    def fail(self, built: Built, leg: int, member: int) -> str:
        """Make an active drive (from 1) of a leg fail; return the drive.

        Raises:
            TargetError: when it cannot be done.
        """

    @abstractmethod
    def replace(self, built: Built, leg: int, member: int, new_device: str) -> None:
        """Have another drive take the place of one that failed; returns when that has begun.

        Raises:
            TargetError: when it cannot be done.
        """

    def start_scrub(self, built: Built, leg: int) -> None:
        """Start to check all data of a leg.

        Raises:
            TargetError: when it cannot be done.
        """
        raise TargetError(
            seen=f"Leg {leg} of {built.name} cannot be scrubbed",
            cause=f"{self.name} has nothing that it could compare its data with",
            next_step="Take the scrub out of the workload, or choose a level with redundancy",
        )

    def mismatch_blocks(self, built: Built, leg: int) -> int | None:
        """Return what the last scrub found not to agree, in blocks of 512 bytes, if it tells."""
        return None

    def hasten(self, built: Built) -> list[Step]:
        """Return the steps that let the first synchronisation go as fast as the drives allow."""
        return []

    def limit_rebuild(self, built: Built, kib_per_s: int) -> list[Step]:
        """Return the steps that limit how fast a rebuild may go; 0 is the kernel's own limit."""
        return []
