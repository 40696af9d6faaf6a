"""What planning takes and gives: what is known of a target, the files a trial needs, the plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from seatrial.published import Amount, Count, Positive
from seatrial.study.cell import Cell
from seatrial.study.layouts.drives import DriveInfo
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.study.schema import Study

TRIAL_FILE: Final = "trial.dat"
COPY_FILE: Final = "copy.dat"
LOG_FILE: Final = "wal.dat"


class TargetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the targets room knows of a target before a plan is made; every part may be unknown.

    Attributes:
        kind: ``directory``, ``device``, ``file``, ``null``, ``simulated`` or ``database``; empty
            if unknown.
        size_bytes: Length of the device or file; None for a directory or if unknown.
        drive_bytes: Capacity of the drives behind it, for drive-writes; None if unknown.
        logical_block_bytes: What O_DIRECT requests must be a multiple of.
        direct: Whether O_DIRECT works there.
        free_bytes: Room in a directory; None if unknown.
        database_obstacle: Why no PostgreSQL of our own can run with its data there, as the
            beginning of a sentence; empty where nothing is known to stand in its way.
    """

    kind: str = ""
    size_bytes: int | None = None
    drive_bytes: int | None = None
    logical_block_bytes: int = 512
    direct: bool = True
    free_bytes: int | None = None
    database_obstacle: str = ""


class PlannedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target as the plan takes it.

    Attributes:
        label: What cells call it.
        kind: ``directory``, ``device``, ``file``, ``null``, ``simulated`` or ``database``.
        path: Directory, device or file; empty if it has none, or if it was not given yet.
        size_bytes: Length of the trial file, or of the part of the device or file that is used.
        drive_bytes: Capacity of the drives behind it; None if unknown.
        logical_block_bytes: What O_DIRECT requests must be a multiple of.
        direct: Whether O_DIRECT works there.
        model: Parameters of a simulated device.
        url: Address of an existing server, without a password.
        database: The empty database there that is used; empty where one is made.
        pg_bin: Folder of the PostgreSQL programs; empty for the newest that is found.
        layout: What is built for it; its ``path`` is known only while that stands.
        leg: Which leg of the layout it is, from 1; 0 for the whole.
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
        """What must be built for it to be there: the label of a layout, or empty."""
        return self.layout.label if self.layout else ""

    @property
    def holds_files(self) -> bool:
        """Whether the trial makes files of its own there."""
        return self.kind == "directory"

    @property
    def is_storage(self) -> bool:
        """Whether bytes are kept there, at a path: not so where the engine is alone or remote."""
        return self.kind not in ("null", "simulated", "database")


class TrialFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that the cells of a target need; on a device or file, that target itself.

    A file that is read past the page cache must hold data before: reads of holes and of unwritten
    extents never reach the medium.

    Attributes:
        target: Label of the target.
        name: ``trial.dat``, ``copy.dat`` or ``wal.dat``, as in ``Cell.spec["target"]["file"]``.
        size_bytes: Its length.
        prefill: Whether it must be written whole before the first round. Where it is not, a
            ``fill`` cell writes it at the beginning of every round (a resumed run that finds
            it missing or short writes it as if it were true), or what is there is only read.
        data: What to write, as ``Cell.spec["data"]``.
    """

    target: str
    name: str
    size_bytes: Count
    prefill: bool
    data: dict[str, object]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run will do.

    Attributes:
        study: The study.
        targets: Its targets, as far as they are known.
        cells: Every cell, in the order of the study; keys are unique.
        files: What the cells need on the targets.
        notes: What was left out and why, and what is worth knowing, as sentences.
        left_out: Those of the notes that tell of optional workloads, for the end of the run.
        drives: What its layouts are built of; where nobody has named them, as many as they need.
        plan_hash: Of the cells, the files and the seed: what a resume must find unchanged. Rounds
            and budget are not part of it, so a run may be resumed with more of either.
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
        """Return the plan less some cells of optional workloads, with notes that say why."""
        return msgspec.structs.replace(
            self,
            cells=[cell for cell in self.cells if cell.key not in keys],
            notes=[*self.notes, *notes],
            left_out=[*self.left_out, *notes],
        )

    def groups(self) -> list[str]:
        """Return what is there at the same time: ``PlannedTarget.group`` of each, once."""
        return list(dict.fromkeys(target.group for target in self.targets))

    def of_group(self, group: str, places: Mapping[str, str]) -> Plan:
        """Return the part of the plan that a group of targets has, with their paths by label."""
        targets = [
            msgspec.structs.replace(target, path=places.get(target.label, target.path))
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
    """What a plan will take.

    Attributes:
        cells: Cells of one round.
        rounds_min: Fewest rounds.
        rounds_max: Most rounds.
        time_s_min: With the fewest rounds, or the budget if that is less.
        time_s_max: With the most rounds, or the budget if that is less.
        write_bytes_min: Upper bound of what is written with the fewest rounds; of what databases
            write, an assumption.
        write_bytes_max: The same with the most rounds.
        file_bytes: Space that the files take in directories that are there already.
        database_bytes: Space that databases are assumed to take there.
        builds: How many arrays each round builds.
        building_s: What a round takes for them beside the cells, as assumed: building,
            synchronising, filling, loading, waiting for rebuilds.
        building_write_bytes: What a round writes to them beside the cells.
        loop_bytes: Space that the files of loop devices take at most.
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
