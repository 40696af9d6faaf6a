"""Input and output of planning: facts about a target, files of a trial, the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from seatrial.published import Amount, Count, Positive
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import DriveInfo, LayoutSpec
from seatrial.study.schema import Study

TRIAL_FILE: Final = "trial.dat"
COPY_FILE: Final = "copy.dat"
LOG_FILE: Final = "wal.dat"


class TargetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a target before a plan is made; each may be unknown.

    Attributes:
        kind: ``directory``, ``device``, ``file``, ``null``, ``simulated`` or ``database``; empty
            if unknown.
        size_bytes: Length of the device or file; None for a directory or if unknown.
        drive_bytes: Capacity of the drives behind it, to compute drive writes; None if unknown.
        logical_block_bytes: O_DIRECT requests must be multiples of this size.
        direct: Whether O_DIRECT is supported.
        usable_bytes: Free space of a directory without the reserve; None if unknown.
        database_obstacle: Why PostgreSQL cannot be run with its data there, as the beginning of a
            sentence; empty if no obstacle is known.
    """

    kind: str = ""
    size_bytes: int | None = None
    drive_bytes: int | None = None
    logical_block_bytes: int = 512
    direct: bool = True
    usable_bytes: int | None = None
    database_obstacle: str = ""


class PlannedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target in a plan.

    Attributes:
        label: Its name in cells.
        kind: ``directory``, ``device``, ``file``, ``null``, ``simulated`` or ``database``.
        path: Directory, device or file; empty if it has none, or if it is not yet given.
        size_bytes: Length of the trial file, or of the part of the device or file that is used.
        drive_bytes: Capacity of the drives behind it; None if unknown.
        logical_block_bytes: O_DIRECT requests must be multiples of this size.
        direct: Whether O_DIRECT is supported.
        model: Parameters of a simulated device.
        url: Address of an existing server, without a password.
        database: An existing empty database to use; empty if one is created.
        pg_bin: Directory of the PostgreSQL programs; empty for the newest installed.
        layout: The layout built for it; its ``path`` is known only while the layout exists.
        leg: Number of the leg in the layout, from 1; 0 for the whole layout.
    """

    label: str
    kind: str
    path: str
    size_bytes: int
    drive_bytes: int | None
    logical_block_bytes: int
    direct: bool
    model: dict[str, object] = {}
    url: str = ""
    database: str = ""
    pg_bin: str = ""
    layout: LayoutSpec | None = None
    leg: int = 0

    @property
    def group(self) -> str:
        """The label of the layout that must be built for it, or empty."""
        return self.layout.label if self.layout else ""

    @property
    def holds_files(self) -> bool:
        """Whether the trial creates files there."""
        return self.kind == "directory"

    @property
    def is_storage(self) -> bool:
        """Whether it stores data at a path; false for the null target and remote servers."""
        return self.kind not in ("null", "simulated", "database")


class TrialFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that the cells of a target need; on a device or file, the target itself.

    A file that is read with direct I/O must be filled before: reads of holes and of unwritten
    extents never reach the device.

    Attributes:
        target: Label of the target.
        name: ``trial.dat``, ``copy.dat`` or ``wal.dat``, as in ``Cell.spec["target"]["file"]``.
        size_bytes: Its length.
        prefill: Whether it must be filled before the first round. If false, a ``fill`` cell writes
            it at the beginning of every round (a resumed run that finds it missing or short fills
            it as if this were true), or existing data is only read.
        data: The data to write, as ``Cell.spec["data"]``.
    """

    target: str
    name: str
    size_bytes: Count
    prefill: bool
    data: dict[str, object]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run.

    Attributes:
        study: The study.
        targets: Its targets, with the facts known so far.
        cells: Every cell, in the order of the study; keys are unique.
        files: Files that the cells need on the targets.
        notes: What is skipped and why, and other notes, as sentences.
        left_out: The notes on skipped optional workloads, for the end of the run.
        drives: Drives of its layouts; if none are named, as many as they need.
        plan_hash: Hash of the cells, the files and the seed, which a resume must find unchanged.
            Rounds and budget are not included, so that a run may be resumed with more of either.
    """

    study: Study
    targets: list[PlannedTarget]
    cells: list[Cell]
    files: list[TrialFile]
    notes: list[str]
    left_out: list[str] = []
    drives: list[DriveInfo] = []
    plan_hash: str

    def without(self, keys: Collection[str], notes: list[str]) -> Plan:
        """Return the plan without some cells of optional workloads, with notes on the reasons."""
        return msgspec.structs.replace(
            self,
            cells=[cell for cell in self.cells if cell.key not in keys],
            notes=[*self.notes, *notes],
            left_out=[*self.left_out, *notes],
        )

    def groups(self) -> list[str]:
        """Return the groups of targets that exist at the same time, each once."""
        return list(dict.fromkeys(target.group for target in self.targets))

    def of_group(self, group: str, paths: Mapping[str, str]) -> Plan:
        """Return the part of the plan for a group of targets, with their paths by label."""
        targets = [
            msgspec.structs.replace(target, path=paths.get(target.label, target.path))
            for target in self.targets
            if target.group == group
        ]
        labels = {target.label for target in targets}
        return msgspec.structs.replace(
            self,
            targets=targets,
            cells=[cell for cell in self.cells if cell.target in labels],
            files=[file for file in self.files if file.target in labels],
        )

    def cells_on(self, label: str) -> list[Cell]:
        """Return the cells of the target of a label."""
        return [cell for cell in self.cells if cell.target == label]

    def target(self, label: str) -> PlannedTarget:
        """Return the target of a label; raises KeyError when there is none."""
        for target in self.targets:
            if target.label == label:
                return target
        raise KeyError(label)


class PlanEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated cost of a plan.

    Attributes:
        cells: Cells of one round.
        rounds_min: Fewest rounds.
        rounds_max: Most rounds.
        time_s_min: With the fewest rounds, or the budget if that is less.
        time_s_max: With the most rounds, or the budget if that is less.
        write_bytes_min: Upper bound of bytes written with the fewest rounds; an assumption for
            databases.
        write_bytes_max: Upper bound of bytes written with the most rounds.
        file_bytes: Space of the files in existing directories.
        database_bytes: Assumed space of databases there.
        builds: How many arrays each round builds.
        building_s: Assumed time of each round for arrays, without cells: building, synchronising,
            filling, loading, waiting for rebuilds.
        building_write_bytes: Bytes that each round writes to arrays, without cells.
        loop_bytes: Maximum space of the files of loop devices.
    """

    cells: Count
    rounds_min: Positive
    rounds_max: Positive
    time_s_min: Amount
    time_s_max: Amount
    write_bytes_min: Count
    write_bytes_max: Count
    file_bytes: Count
    database_bytes: Count = 0
    builds: Count = 0
    building_s: Amount = 0.0
    building_write_bytes: Count = 0
    loop_bytes: Count = 0
