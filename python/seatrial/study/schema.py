"""The study: what a study file declares, checked and completed with defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, field

from seatrial.study.access import AccessSpecification
from seatrial.study.layouts.layout import Drives, Layout
from seatrial.study.sampled import Sampled
from seatrial.study.simulated import DeviceModel
from seatrial.study.thresholds import Thresholds
from seatrial.study.values import Seconds, Size
from seatrial.topic import kinds_of_workload

if TYPE_CHECKING:
    Workload = Sampled
else:
    Workload = kinds_of_workload()
"""Any kind of workload that a topic has."""

DEFAULT_SEED: Final = 20090220  # the day on which "One DVD per second" appeared
DEFAULT_LABEL: Final = "trial"
DEFAULT_SIZE_BYTES: Final = 1 << 30


class Rounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often each cell is measured.

    Attributes:
        min: Fewest rounds.
        max: Most rounds.
        precision: A cell is done when half of its interval is at most this share of its figure.
        remeasure: How often a cell is measured again that is far from what the rest of its table
            of block sizes and threads says; 0 is never.
    """

    min: Annotated[int, Meta(ge=1, le=1000)] = 3
    max: Annotated[int, Meta(ge=1, le=1000)] = 10
    precision: Annotated[float, Meta(gt=0, le=1)] = 0.05
    remeasure: Annotated[int, Meta(ge=0, le=1000)] = 2


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may spend; it ends in order when either is used up.

    Attributes:
        time_s: Seconds; None is no bound.
        write_bytes: Bytes written to targets; None is no bound.
    """

    time_s: Seconds | None = None
    write_bytes: Size | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is under trial.

    Attributes:
        label: What cells and findings call it.
        kind: ``auto`` (what the path turns out to be), ``directory``, ``device``, ``file``,
            ``null`` (the engine alone), ``simulated`` or ``database`` (an existing server).
        path: Directory, device or file; empty where the command line gives it.
        size_bytes: Length of the trial file, or of the part of a device or file that is used
            (``size``); unless given, 1 GiB in a directory, else the whole device or file.
        model: What a simulated device is like; a plain one unless given.
        url: Address of an existing server, never with a password; only of a ``database``.
        database: An empty database there to use, rather than one that is made for the run.
        pg_bin: Folder of the PostgreSQL programs to use; the newest that is found unless given.
    """

    label: str = DEFAULT_LABEL
    kind: Literal["auto", "directory", "device", "file", "null", "simulated", "database"] = "auto"
    path: str = ""
    size_bytes: Size | None = field(default=None, name="size")
    model: DeviceModel = DeviceModel()
    url: str = ""
    database: str = ""
    pg_bin: str = ""

    @property
    def place(self) -> str:
        """Where it is: a path, or a server's address; empty where it was not given yet."""
        return self.path or self.url


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole study file.

    Attributes:
        name: Short name.
        description: What it answers, in a sentence.
        seed: Of the order of cells and of all addresses.
        rounds: How often each cell is measured.
        budget: What a run may spend.
        targets: What is under trial (``[[target]]``); one named ``trial`` unless given, and none
            where there are layouts.
        layouts: Arrays that are built, measured and taken apart again (``[[layout]]``).
        drives: What layouts are built of.
        workloads: What is done to it (``[[workload]]``).
        accesses: The study's own access specifications (``[[access]]``).
        thresholds: What the results must keep.
    """

    name: Annotated[str, Meta(min_length=1)]
    description: str = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = DEFAULT_SEED
    rounds: Rounds = Rounds()
    budget: Budget = Budget()
    targets: list[Target] = field(default_factory=lambda: [Target()], name="target")
    layouts: list[Layout] = field(default_factory=list, name="layout")
    drives: Drives = Drives()
    workloads: Annotated[list[Workload], Meta(min_length=1)] = field(name="workload")
    accesses: list[AccessSpecification] = field(default_factory=list, name="access")
    thresholds: Thresholds = Thresholds()

    @property
    def plain_targets(self) -> list[Target]:
        """The targets that are there already: where there are layouts, only those with a place."""
        if not self.layouts:
            return self.targets
        return [each for each in self.targets if each.place or each.kind in ("null", "simulated")]

    def target(self, label: str) -> Target:
        """Return the target of a label; raises KeyError when there is none."""
        for target in self.targets:
            if target.label == label:
                return target
        raise KeyError(label)
