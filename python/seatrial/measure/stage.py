"""The stage of a run: targets are opened, trial files created and filled, and cleaned up after it.

Everything made here is in the undo journal before it is made.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError
from seatrial.fingerprint import Target
from seatrial.machine.device import Device, discard, open_device
from seatrial.machine.file import FULL_ERRNOS, FULL_NAMES, RESERVE_BYTES, TrialFolder, no_space
from seatrial.machine.fingerprint import block_device_of
from seatrial.machine.guard import Permit, inspect, permit_write
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.engine import Driver, SampleContext, SampleParts, measure_spec
from seatrial.measure.progress import Watcher
from seatrial.results.model import Sample
from seatrial.study.cell import Cell, SpecDocument
from seatrial.study.cost import target_write_bytes
from seatrial.study.model import Plan, PlannedTarget, TrialFile
from seatrial.study.seeds import seed_of
from seatrial.study.units import format_size
from seatrial.topic import topic_of

PREFILL_BLOCK_BYTES: Final = 1 << 20
PREFILL_DEPTH: Final = 4
OF_ARRAYS: Final = ("fail", "rebuild_limit_kib_per_s")
"""A cell's specification of its array, which the engine ignores."""

TargetState = Literal["new", "resumed", "emptied"]
"""State of the targets when a stage opens: empty, possibly with files of a killed run, or emptied
of what earlier cells wrote."""


class AnyStage(Protocol):
    """Where the cells of a plan are measured, existing or to be built.

    A context: entering checks and opens what exists, leaving cleans up.
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
        """Fill and load existing targets."""

    def take_down(self) -> None:
        """Take down what was built."""

    def bring_up(self, label: str, watcher: Watcher, *, fills: bool = False) -> None:
        """Make a target available; other targets on the same drives are gone afterwards.

        Args:
            label: The target.
            watcher: Receives the progress.
            fills: Whether its file is written next.

        Raises:
            SeatrialError: when it cannot be built, filled or loaded.
        """

    def spec(self, cell: Cell, round_number: int) -> SpecDocument:
        """Return the engine's complete specification of a cell whose target is available."""

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Measure one cell, whose target is available, once."""

    def discard(self, label: str) -> int:
        """Trim what the plan uses of an available device."""

    def is_available(self, cell: Cell) -> bool:
        """Return whether a cell can still be measured."""


@dataclass(frozen=True)
class StageRequest:
    """The parameters of a stage.

    Attributes:
        plan: What is measured.
        run_id: The run.
        journal: Records every change before it is made.
        destroy: Serial numbers or exact paths of what may be overwritten, comma-separated.
        target_state: Whether a killed run may have left files.
        report_target: Called for each target that is built, with its label and fingerprint.
        ray: Where the head of a cluster answers; empty for this machine alone.
    """

    plan: Plan
    run_id: str
    journal: UndoJournal
    destroy: str | None = None
    target_state: TargetState = "new"
    report_target: Callable[[str, Target], None] | None = None
    ray: str = ""


class Stage:
    """Where the cells of a plan are measured; a context that cleans up when it is left.

    Args:
        request: The plan, what may be overwritten, and the state of the targets.
        side: Folder for what may not be on the targets; the journal's folder by default.
        filled_next: Label of a target that a cell fills before any other use.
    """

    def __init__(
        self, request: StageRequest, *, side: Path | None = None, filled_next: str = ""
    ) -> None:
        self.plan = request.plan
        self.run_id = request.run_id
        self._journal = request.journal
        self._destroy = request.destroy
        self._target_state: TargetState = request.target_state
        self._side = side or self._journal.path.parent
        self._filled_next = filled_next
        self._folders: dict[str, TrialFolder] = {}
        self._devices: dict[str, Device] = {}
        self._permits: dict[str, Permit] = {}
        self._opened: dict[str, str] = {}
        self._ledgers: TrialFolder | None = None
        self._drivers: dict[str, Driver] = {}
        for topic in dict.fromkeys(map(topic_of, self.plan.cells)):
            if driver := topic.driver(self.plan, self._journal, side):
                self._drivers[topic.name] = driver

    def open(self) -> Self:
        """Check and open every target.

        Raises:
            RefusedError: when the guard refuses to let a target be written.
            TargetError: when a target is missing or cannot be used.
            SpaceError: when the trial files do not fit.
            DirectError: when O_DIRECT is requested but not supported.
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
                # A file system that the run created has no other users.
                reserve_bytes=0 if target.layout else RESERVE_BYTES,
            )
            self._folders[target.label] = folder
            self._check_blocks(target, folder)
            for driver in self._drivers.values():
                driver.use(target.label, folder)
        elif target.kind == "device":
            # An array contains only what the run wrote: its drives passed the guard.
            destroy = inspect(target.path).destroy_word if target.layout else self._destroy
            device = open_device(target.path, destroy=destroy, bytes_to_write=write_bytes)
            self._devices[target.label] = device
        elif target.kind == "file" and write_bytes > 0:
            permit = permit_write(target.path, destroy=self._destroy, bytes_to_write=write_bytes)
            self._permits[target.label] = permit

    def _needs_direct(self, target: PlannedTarget) -> bool:
        own = [cell for cell in self.plan.cells if cell.target == target.label]
        return any(cell.parsed.target.direct for cell in own)

    def _check_blocks(self, target: PlannedTarget, folder: TrialFolder) -> None:
        """Check the sizes against the tested alignment of O_DIRECT, not the stated one."""
        for cell in self.plan.cells:
            if cell.target == target.label and cell.parsed.target.direct:
                for access in cell.parsed.accesses:
                    for size in access.sizes:
                        folder.require_multiple(f"The block size of {cell.key}", size.bytes)

    def bring_up(self, label: str, watcher: Watcher, *, fills: bool = False) -> None:
        """Do nothing: all targets are available while the stage is open."""

    def take_down(self) -> None:
        """Do nothing: existing targets remain."""

    def is_available(self, cell: Cell) -> bool:
        """Return that every cell can be measured."""
        del cell
        return True

    def path(self, label: str, name: str) -> Path:
        """Return the path of a file of the plan; on a device or file, that target itself."""
        if label in self._folders:
            return self._folders[label].file(name)
        return Path(self.plan.target(label).path)

    def _writable(self, label: str, name: str) -> str:
        """Return the path of a file of the plan, opened if the run may write to it.

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
        """Trim what the plan uses of a device; return the bytes trimmed, 0 where unsupported.

        Raises:
            TargetError: when the device refuses or fails.
        """
        device = self._devices.get(label)
        if device is None or device.permit is None:
            return 0
        size_bytes = self.plan.target(label).size_bytes
        return size_bytes if discard(device.permit, size_bytes) else 0

    def prepare(self, watcher: Watcher) -> None:
        """Write every file that must have content before the first round, and load every database.

        Raises:
            TargetError: when a file cannot be written completely, or a database cannot be loaded.
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
            # Data of the first round's fills may be gone when a run is resumed.
            return self._held_bytes(file) < file.size_bytes
        return file.prefill or (
            self._target_state == "emptied" and file.target != self._filled_next
        )

    def _leave_out(self, label: str, topic: str, error: SeatrialError, watcher: Watcher) -> None:
        """Leave out a topic's optional cells of a target; raise where no others are left.

        On an array it raises: it is built for its cells alone, after others have been measured.
        """
        own = [c for c in self.plan.cells_on(label) if topic_of(c).name == topic]
        if len(own) == len(self.plan.cells) or self.plan.target(label).layout:
            raise error
        names = ", ".join(dict.fromkeys(cell.workload for cell in own))
        note = f"{names} is skipped on {label}: {error.seen.rstrip('.')}. {error.cause}"
        watcher.step(note)
        self.plan = self.plan.without({cell.key for cell in own}, [note])

    def _is_filled_at_random(self, file: TrialFile) -> bool:
        return any(
            access.address.kind == "one_pass"
            for cell in self.plan.cells
            if cell.target == file.target and cell.parsed.target.file == file.name
            for access in cell.parsed.accesses
        )

    def _allocate(self, file: TrialFile) -> None:
        """Allocate a file sequentially, not in the order of later writes.

        Raises:
            TargetError: when the file system fails.
        """
        try:
            path = self._writable(file.target, file.name)
            with Path(self._opened[path]).open("ab") as opened:
                os.posix_fallocate(opened.fileno(), 0, file.size_bytes)
        except OSError as error:
            if error.errno in FULL_ERRNOS:
                what = f"{format_size(file.size_bytes)} could not be allocated for {file.name}"
                by_quota = error.errno == errno.EDQUOT
                place = self.path(file.target, file.name)
                raise no_space(place, what, by_quota=by_quota) from None
            raise TargetError(
                seen=f"{format_size(file.size_bytes)} for {file.name} on {file.target} could not "
                f"be allocated: {error.strerror}",
                cause="The target ran out of space, or limits the file size",
                next_step="Use a smaller --size, or check the space with `df`",
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
        watcher.step(f"Filling {what}: {format_size(file.size_bytes)}")
        measured = measure_spec(self._fill_spec(file), watcher, self._opened)
        if measured.interrupted:
            raise KeyboardInterrupt
        moved_bytes = sum(
            part["transferred_bytes"] for part in measured.parts["operations"].values()
        )
        if moved_bytes < file.size_bytes:
            raise _not_filled(file, measured.parts, self.path(file.target, file.name))

    def _fill_spec(self, file: TrialFile) -> SpecDocument:
        target = self.plan.target(file.target)
        # The largest block up to 1 MiB that divides the file.
        block_bytes = min(PREFILL_BLOCK_BYTES, file.size_bytes & -file.size_bytes)
        access = {
            "operation": "write",
            "sizes": [{"bytes": block_bytes, "weight": 1}],
            "align_bytes": block_bytes,
            "address": {"kind": "sequential"},
        }
        spec: SpecDocument = {
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
            "limit": {"duration_s": _core.DURATION_S_MAX, "bytes": file.size_bytes},
        }
        return self._with_ledger(spec, file.target, file.name)

    def spec(self, cell: Cell, round_number: int) -> SpecDocument:
        """Return the engine's complete specification of a cell in a round."""
        planned = cell.parsed.target
        target = {key: value for key, value in cell.spec["target"].items() if key != "file"}
        spec = {
            **{key: value for key, value in cell.spec.items() if key not in OF_ARRAYS},
            "target": target,
            "seed": self._seed(cell.key, round_number),
            # The hot set belongs to the target: the same blocks in every cell and round.
            "hot_seed": self._seed(f"hot set of {cell.target}", 0),
        }
        if planned.kind == "simulated":
            target["state_key"] = self._state_key(cell.target)
        if planned.kind != "file":
            return spec
        target["path"] = self._writable(cell.target, planned.file or "")
        target["device"] = block_device_of(Path(target["path"])) or None
        if planned.copy_to:
            target["copy_to"] = self._writable(cell.target, planned.copy_to)
        return self._with_ledger(spec, cell.target, planned.file or "")

    def measure(self, cell: Cell, spec: Mapping[str, Any], sample_context: SampleContext) -> Sample:
        """Measure one cell once, by the driver of its kind.

        Args:
            cell: The cell.
            spec: As returned by ``spec``.
            sample_context: Round, position, watcher and background activity.

        Returns:
            The sample, not stored yet; ``interrupted`` in its status if the user ended it.

        Raises:
            KeyboardInterrupt: when the user ended it before any result.
            TargetError: when the target goes away.
            EngineError: when the engine refuses or fails.
        """
        topic = topic_of(cell)
        sample_context = replace(sample_context, opened=self._opened)
        if driver := self._drivers.get(topic.name):
            return driver.measure(cell, sample_context)
        return topic.measure(cell, spec, sample_context)

    def _with_ledger(self, spec: SpecDocument, label: str, name: str) -> SpecDocument:
        """Keep a ledger of a file that some cell verifies: all its writers must keep it."""
        using = [
            cell
            for cell in self.plan.cells
            if cell.target == label and cell.parsed.target.file == name
        ]
        if not any(cell.parsed.verify for cell in using):
            return spec
        accesses = [access for cell in using for access in cell.parsed.accesses]
        sizes_bytes = [size.bytes for access in accesses for size in access.sizes]
        aligns_bytes = [access.align_bytes or 0 for access in accesses]
        return {
            **spec,
            "data": {"kind": "verifiable"},
            "ledger_path": str(self._ledger(label, name)),
            "ledger_block_bytes": math.gcd(*sizes_bytes, *aligns_bytes),
        }

    def _ledger(self, label: str, name: str) -> Path:
        """Return the path of a file's ledger: next to the file, but not on a device.

        The ledger of a device is next to the undo journal until the run ends, for a resume. A
        failed array must not take down the ledger that identifies the lost blocks.
        """
        if label in self._folders and not self.plan.target(label).layout:
            return self._folders[label].file(f"{name}.ledger")
        if self._ledgers is None:
            self._ledgers = TrialFolder(self._side, self.run_id, self._journal)
            self._ledgers.open(0, direct=False)
        return self._ledgers.file(f"{label}.{name}.ledger")

    def _state_key(self, label: str) -> str:
        """Return the name of a simulated device with persistent state, for this run."""
        return f"{self.run_id} {label}"

    def _seed(self, what: str, round_number: int) -> int:
        """Return a distinct seed for each cell and round, the same in a repeated run."""
        return seed_of(self.plan.study.seed, what, round_number)


def _not_filled(file: TrialFile, parts: SampleParts, path: Path) -> TargetError:
    names = sorted({error["name"] for error in parts["errors"]}) or ["no error reported"]
    if FULL_NAMES & set(names):
        what = f"{file.name} on {file.target} could not be filled completely"
        return no_space(path, what, by_quota="EDQUOT" in names)
    seen = f"{file.name} on {file.target} could not be filled completely: {', '.join(names)}"
    if "EFBIG" in names:
        return TargetError(
            seen=seen,
            cause="It would exceed the maximum file size of the file system or of `ulimit -f`",
            next_step="Use a smaller --size, or raise the limit",
        )
    return TargetError(
        seen=seen,
        cause="The target ran out of space or failed during the fill",
        next_step="Check `dmesg`, and the space with `df`",
    )
