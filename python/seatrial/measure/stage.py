"""The stage of a run: its targets opened, its trial files made and filled, all put away after.

Everything made here is in the undo journal before it is made.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError
from seatrial.machine import fingerprint as context
from seatrial.machine.device import Device, open_device
from seatrial.machine.discard import discard
from seatrial.machine.file import RESERVE_BYTES, TrialFolder
from seatrial.machine.guard import Permit, inspect, permit_write
from seatrial.machine.space import FULL_ERRNOS, FULL_NAMES, no_space
from seatrial.machine.undo import UndoJournal
from seatrial.measure.background import Background
from seatrial.measure.driver import Driver, Occasion
from seatrial.measure.engine import measure_spec
from seatrial.measure.progress import Watcher
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.estimate import target_write_bytes
from seatrial.study.model import Plan, PlannedTarget, TrialFile
from seatrial.study.units import format_size
from seatrial.topic import topic_of

PREFILL_BLOCK_BYTES: Final = 1 << 20
PREFILL_DEPTH: Final = 4
PREFILL_S_MAX: Final = 24 * 3600.0
OF_ARRAYS: Final = ("fail", "rebuild_limit_kib_per_s")
"""What a cell's specification says of its array, which is nothing to the engine."""

TargetState = Literal["new", "resumed", "emptied"]
"""What a stage finds on its targets: nothing; perhaps what a killed run left; nothing of what its
earlier cells had written."""


class AnyStage(Protocol):
    """Where the cells of a plan go, be it there already or built for them.

    A context: entering checks and opens what can be, leaving puts everything away.
    """

    plan: Plan

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def prepare(self, watcher: Watcher) -> None:
        """Fill and load what is there already."""

    def take_down(self) -> None:
        """Take apart what was built and still stands."""

    def bring_up(self, label: str, watcher: Watcher, *, fills: bool = False) -> None:
        """Have a target there; of what shares its drives nothing is there after.

        Args:
            label: Of the target.
            watcher: Told of the progress.
            fills: Whether its file is written next.

        Raises:
            SeatrialError: when it cannot be built, filled or loaded.
        """

    def spec(self, cell: Cell, round_number: int) -> dict[str, Any]:
        """Return the engine's whole specification of a cell whose target is there."""

    def measure(
        self,
        cell: Cell,
        spec: Mapping[str, Any],
        *,
        round_number: int,
        position: int,
        watcher: Watcher,
    ) -> Sample:
        """Measure one cell, whose target is there, once."""

    def discard(self, label: str) -> int:
        """Trim what the plan uses of a device that is there."""


@dataclass(frozen=True)
class StageRequest:
    """What a stage is made for.

    Attributes:
        plan: What is measured.
        run_id: The run.
        journal: Where everything is recorded before it is made.
        destroy: Serial numbers or exact paths of what may be overwritten, with commas.
        target_state: Whether a killed run may have left something.
        report_target: Told of each target that is built: its label and its fingerprint.
    """

    plan: Plan
    run_id: str
    journal: UndoJournal
    destroy: str | None
    target_state: TargetState
    report_target: Callable[[str, dict[str, Any]], None]


class Stage:
    """Where the cells of a plan go; a context that puts everything away when it is left.

    Args:
        plan: What is measured.
        run_id: The run.
        journal: Where everything is recorded before it is made.
        destroy: Serial number or exact path of what may be overwritten.
        target_state: What there is on the targets.
        side: Where what may not lie on the targets is kept; the journal's folder unless given.
        filled_next: Label of a target that a cell will fill before anything else is done there.
    """

    def __init__(
        self,
        plan: Plan,
        run_id: str,
        journal: UndoJournal,
        *,
        destroy: str | None = None,
        target_state: TargetState = "new",
        side: Path | None = None,
        filled_next: str = "",
    ) -> None:
        self.plan = plan
        self.run_id = run_id
        self._journal = journal
        self._destroy = destroy
        self._target_state: TargetState = target_state
        self._side = side or journal.path.parent
        self._filled_next = filled_next
        self._folders: dict[str, TrialFolder] = {}
        self._devices: dict[str, Device] = {}
        self._permits: dict[str, Permit] = {}
        self._opened: dict[str, str] = {}
        self._ledgers: TrialFolder | None = None
        self._drivers: dict[str, Driver] = {}
        for topic in dict.fromkeys(map(topic_of, plan.cells)):
            if driver := topic.driver(plan, journal, side):
                self._drivers[topic.name] = driver

    def open(self) -> Self:
        """Check and open every target.

        Raises:
            RefusedError: when the guard refuses to let a target be written.
            TargetError: when a target is missing or cannot be used.
            SpaceError: when the trial files do not fit.
            DirectError: when O_DIRECT is asked for and not supported.
            UsageError: when a server cannot have the settings of a cell.
        """
        for driver in self._drivers.values():
            driver.open()
        for target in self.plan.targets:
            self._open_target(target)
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for driver in self._drivers.values():
            driver.close()
        for device in self._devices.values():
            device.close()
        for permit in self._permits.values():
            permit.close()
        for folder in self._folders.values():
            folder.remove()
        if self._ledgers:
            self._ledgers.remove()
        for target in self.plan.targets:
            if target.kind == "simulated":
                _core.forget_device(self._state_key(target.label))

    def _open_target(self, target: PlannedTarget) -> None:
        rounds = self.plan.study.rounds.max
        write_bytes = target_write_bytes(self.plan, target.label, rounds)
        if target.kind == "directory":
            files = [file for file in self.plan.files if file.target == target.label]
            folder = TrialFolder(target.path, self.run_id, self._journal)
            needed_bytes = sum(file.size_bytes for file in files)
            shrink_option = "--size"
            for driver in self._drivers.values():
                if driver_bytes := driver.needed_bytes(target.label):
                    needed_bytes += driver_bytes
                    shrink_option = driver.shrink_option
            folder.open(
                needed_bytes,
                direct=self._needs_direct(target),
                shrink_option=shrink_option,
                # On a file system that the run has made there is nobody else to be harmed.
                reserve_bytes=0 if target.layout else RESERVE_BYTES,
            )
            self._folders[target.label] = folder
            self._check_blocks(target, folder)
            for driver in self._drivers.values():
                driver.use(target.label, folder)
        elif target.kind == "device":
            # An array holds nothing but what the run wrote there: its drives passed the guard.
            destroy = inspect(target.path).destroy_word if target.layout else self._destroy
            device = open_device(target.path, destroy=destroy, bytes_to_write=write_bytes)
            self._devices[target.label] = device
        elif target.kind == "file" and write_bytes > 0:
            permit = permit_write(target.path, destroy=self._destroy, bytes_to_write=write_bytes)
            self._permits[target.label] = permit

    def _needs_direct(self, target: PlannedTarget) -> bool:
        own = [cell for cell in self.plan.cells if cell.target == target.label]
        return any(cell.spec["target"]["direct"] for cell in own)

    def _check_blocks(self, target: PlannedTarget, folder: TrialFolder) -> None:
        """Check the sizes against the block that O_DIRECT proved to take, not the stated one."""
        for cell in self.plan.cells:
            if cell.target == target.label and cell.spec["target"]["direct"]:
                for access in cell.spec["accesses"]:
                    for size in access["sizes"]:
                        folder.require_multiple(f"The block size of {cell.key}", size["bytes"])

    def bring_up(self, label: str, watcher: Watcher, *, fills: bool = False) -> None:
        """Do nothing: all targets are there while the stage is open."""

    def take_down(self) -> None:
        """Do nothing: what is there already stays as it is."""

    def path(self, label: str, name: str) -> Path:
        """Return where a file of the plan lies; on a device or file, that target itself."""
        if label in self._folders:
            return self._folders[label].file(name)
        return Path(self.plan.target(label).path)

    def _writable(self, label: str, name: str) -> str:
        """Return where a file of the plan lies, and have it open if the run may write to it.

        Raises:
            RefusedError: when something else has the name of a trial file.
            TargetError: when it cannot be opened.
        """
        path = str(self.path(label, name))
        device = self._devices.get(label)
        permit = self._permits.get(label) or (device.permit if device else None)
        if label in self._folders:
            self._opened[path] = self._folders[label].claim(name)
        elif permit:
            self._opened[path] = permit.safe_path
        return path

    def discard(self, label: str) -> int:
        """Trim what the plan uses of a device; return how many bytes were, 0 where none can be.

        Raises:
            TargetError: when the device refuses or fails.
        """
        device = self._devices.get(label)
        if device is None or device.permit is None:
            return 0
        size_bytes = self.plan.target(label).size_bytes
        return size_bytes if discard(device.permit, size_bytes) else 0

    def prepare(self, watcher: Watcher) -> None:
        """Write every file that must hold data before the first round, and load every database.

        Raises:
            TargetError: when a file cannot be written whole, or a database cannot be loaded.
        """
        for file in self.plan.files:
            if file.target in self._folders and self._is_filled_at_random(file):
                self._allocate(file)
            if self._must_fill(file):
                self._fill(file, watcher)
        for name, driver in self._drivers.items():
            for label, error in driver.prepare(watcher).items():
                self._leave_out(label, name, error, watcher)

    def _must_fill(self, file: TrialFile) -> bool:
        if self._target_state == "resumed":
            # What the fills of the first round had written may be gone when a run is resumed.
            return self._held_bytes(file) < file.size_bytes
        return file.prefill or (
            self._target_state == "emptied" and file.target != self._filled_next
        )

    def _leave_out(self, label: str, topic: str, error: SeatrialError, watcher: Watcher) -> None:
        """Go on without a topic's optional cells of a target; raise where nothing else is left.

        An array is built for its cells alone, and when others have been measured already.
        """
        own = [c for c in self.plan.cells_on(label) if topic_of(c).name == topic]
        if len(own) == len(self.plan.cells) or self.plan.target(label).layout:
            raise error
        names = ", ".join(dict.fromkeys(cell.workload for cell in own))
        note = f"{names} is left out on {label}: {error.seen.rstrip('.')}. {error.cause}"
        watcher.stage(note)
        self.plan = self.plan.without({cell.key for cell in own}, [note])

    def _is_filled_at_random(self, file: TrialFile) -> bool:
        return any(
            access["address"]["kind"] == "one_pass"
            for cell in self.plan.cells
            if cell.target == file.target and cell.spec["target"]["file"] == file.name
            for access in cell.spec["accesses"]
        )

    def _allocate(self, file: TrialFile) -> None:
        """Give a file its places, in its own order and not in that of the writes to come.

        Raises:
            TargetError: when the file system does not.
        """
        try:
            path = self._writable(file.target, file.name)
            with Path(self._opened[path]).open("ab") as opened:
                os.posix_fallocate(opened.fileno(), 0, file.size_bytes)
        except OSError as error:
            if error.errno in FULL_ERRNOS:
                what = f"{format_size(file.size_bytes)} could not be set aside for {file.name}"
                raise no_space(self.path(file.target, file.name), what) from None
            raise TargetError(
                seen=f"{format_size(file.size_bytes)} for {file.name} on {file.target} could not "
                f"be set aside: {error.strerror}",
                cause="The target ran out of space, or limits the size of a file",
                next_step="Give a smaller --size, or check the space with `df`",
            ) from None

    def _held_bytes(self, file: TrialFile) -> int:
        if file.target not in self._folders:
            return file.size_bytes
        path = self.path(file.target, file.name)
        return path.stat().st_size if path.exists() else 0

    def _fill(self, file: TrialFile, watcher: Watcher) -> None:
        what = f"{file.name} on {file.target}"
        if file.target not in self._folders:
            what = self.plan.target(file.target).path
        watcher.stage(f"Filling {what}: {format_size(file.size_bytes)}")
        measured = measure_spec(self._fill_spec(file), watcher, self._opened)
        if measured.interrupted:
            raise KeyboardInterrupt
        moved_bytes = sum(
            part["transferred_bytes"] for part in measured.parts["operations"].values()
        )
        if moved_bytes < file.size_bytes:
            raise _not_filled(file, measured.parts, self.path(file.target, file.name))

    def _fill_spec(self, file: TrialFile) -> dict[str, Any]:
        target = self.plan.target(file.target)
        # The largest block up to 1 MiB that divides the file.
        block_bytes = min(PREFILL_BLOCK_BYTES, file.size_bytes & -file.size_bytes)
        access = {
            "operation": "write",
            "sizes": [{"bytes": block_bytes, "weight": 1}],
            "align_bytes": block_bytes,
            "address": {"kind": "sequential"},
        }
        spec: dict[str, Any] = {
            "seed": self._seed(file.name, 0),
            "target": {
                "kind": "file",
                "path": self._writable(file.target, file.name),
                "size_bytes": file.size_bytes,
                "direct": self._needs_direct(target),
                "create": target.holds_files,
            },
            "range": {"start_bytes": 0, "length_bytes": file.size_bytes},
            "accesses": [access],
            "threads": 1,
            "depth": min(PREFILL_DEPTH, file.size_bytes // block_bytes),
            "data": file.data,
            "limit": {"duration_s": PREFILL_S_MAX, "bytes": file.size_bytes},
        }
        return self._with_ledger(spec, file.target, file.name)

    def spec(self, cell: Cell, round_number: int) -> dict[str, Any]:
        """Return the engine's whole specification of a cell in a round."""
        planned: Mapping[str, Any] = cell.spec["target"]
        target = {key: value for key, value in planned.items() if key != "file"}
        spec = {
            **{key: value for key, value in cell.spec.items() if key not in OF_ARRAYS},
            "target": target,
            "seed": self._seed(cell.key, round_number),
            # What is hot belongs to the target: the same blocks in every cell and round.
            "hot_seed": self._seed(f"hot set of {cell.target}", 0),
        }
        if planned["kind"] == "simulated":
            target["state_key"] = self._state_key(cell.target)
        if planned["kind"] != "file":
            return spec
        target["path"] = self._writable(cell.target, planned["file"])
        target["device"] = context.block_device_of(Path(target["path"])) or None
        if planned["copy_to"]:
            target["copy_to"] = self._writable(cell.target, planned["copy_to"])
        return self._with_ledger(spec, cell.target, planned["file"])

    def measure(
        self,
        cell: Cell,
        spec: Mapping[str, Any],
        *,
        round_number: int,
        position: int,
        watcher: Watcher,
        background: Background | None = None,
    ) -> Sample:
        """Measure one cell once, by the driver of its kind.

        Args:
            cell: What the sample is of.
            spec: As ``spec`` gives it.
            round_number: The round, from 0.
            position: The cell's place in the round's order, from 0.
            watcher: Told of the progress.
            background: Background activity during the load.

        Returns:
            The sample, not stored yet; ``interrupted`` in its status if the user ended it.

        Raises:
            KeyboardInterrupt: when the user ended it before there was anything to keep.
            TargetError: when the target goes away.
            EngineError: when the engine refuses or fails.
        """
        topic = topic_of(cell)
        occasion = Occasion(round_number, position, watcher, background, self._opened)
        if driver := self._drivers.get(topic.name):
            return driver.measure(cell, occasion)
        return topic.measure(cell, spec, occasion)

    def _with_ledger(self, spec: dict[str, Any], label: str, name: str) -> dict[str, Any]:
        """Keep a ledger of a file that some cell verifies: then all its writers must keep it."""
        using = [
            cell
            for cell in self.plan.cells
            if cell.target == label and cell.spec["target"]["file"] == name
        ]
        if not any(cell.spec["verify"] for cell in using):
            return spec
        accesses = [access for cell in using for access in cell.spec["accesses"]]
        sizes_bytes = [size["bytes"] for access in accesses for size in access["sizes"]]
        aligns_bytes = [access["align_bytes"] for access in accesses]
        return {
            **spec,
            "data": {"kind": "verifiable"},
            "ledger_path": str(self._ledger(label, name)),
            "ledger_block_bytes": math.gcd(*sizes_bytes, *aligns_bytes),
        }

    def _ledger(self, label: str, name: str) -> Path:
        """Return where the ledger of a file is kept: beside it, but a device holds no other file.

        The ledger of a device lies with the undo journal until the run ends, for a resume. An
        array that has failed must not take with it what tells the lost blocks from the others.
        """
        if label in self._folders and not self.plan.target(label).layout:
            return self._folders[label].file(f"{name}.ledger")
        if self._ledgers is None:
            self._ledgers = TrialFolder(self._side, self.run_id, self._journal)
            self._ledgers.open(0, direct=False)
        return self._ledgers.file(f"{label}.{name}.ledger")

    def _state_key(self, label: str) -> str:
        """Return the name under which a simulated device that is lasting lasts: for this run."""
        return f"{self.run_id} {label}"

    def _seed(self, what: str, round_number: int) -> int:
        """Return a seed of its own for each cell and round, the same in a repeated run."""
        text = f"{self.plan.study.seed} {what} {round_number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def _not_filled(file: TrialFile, parts: Mapping[str, Any], path: Path) -> TargetError:
    names = sorted({error["name"] for error in parts["errors"]}) or ["no error reported"]
    if FULL_NAMES & set(names):
        return no_space(path, f"{file.name} on {file.target} could not be written whole")
    return TargetError(
        seen=f"{file.name} on {file.target} could not be written whole: {', '.join(names)}",
        cause="The target ran out of space or failed while it was being filled",
        next_step="Look at the kernel's log with `dmesg`, and check the space with `df`",
    )
