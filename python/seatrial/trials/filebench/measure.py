"""Measures workloads of files: makes the sets in the run's folder, runs the threads, cleans up."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial.errors import TargetError, UsageError, native_errors
from seatrial.machine.fingerprint import block_device_of
from seatrial.measure.background import NoBackground
from seatrial.measure.engine import (
    Driver,
    EngineResult,
    SampleContext,
    parts_of,
    sample_of,
    wait_for,
)
from seatrial.measure.progress import Watcher
from seatrial.measure.recorder import SystemCounters
from seatrial.results.model import Sample
from seatrial.study.cell import Cell, SpecDocument
from seatrial.study.model import Plan
from seatrial.study.seeds import seed_of
from seatrial.study.units import format_size
from seatrial.trials.filebench.cells import cost_of, engine_of, making_s
from seatrial.trials.filebench.study import FILEBENCH

FOLDER: Final = "filebench"
_ANNOUNCE_S: Final = 1.0
"""Creating files is announced if it is expected to take longer."""


class FilesDriver(Driver):
    """Measures the cells of a plan that are workloads of files.

    Everything is in one folder below the trial folder of the run, which the undo journal holds.

    Args:
        plan: What the run measures.
    """

    shrink_option = "--set nfiles=NUMBER or --set filesize=SIZE"

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._cells = [cell for cell in plan.cells if cell.kind == FILEBENCH]
        self._seed = plan.study.seed
        self._signatures: dict[str, str] = {}

    def close(self) -> None:
        """Remove all files of the workloads."""
        for label in list(self._signatures):
            self._clear(label)

    def needed_bytes(self, label: str) -> int:
        """Return the largest need of a cell of a target: each has the folder to itself."""
        return max((cost_of(c).space_bytes for c in self._cells if c.target == label), default=0)

    def measure(self, cell: Cell, sample_context: SampleContext) -> Sample:
        """Measure one cell once; its files are made before and not timed.

        Raises:
            TargetError: when files cannot be made.
            EngineError: when the engine refuses or fails.
        """
        is_made = self._provide(cell)
        spec = self._spec(cell, sample_context.round_number, is_made=is_made)
        if not is_made and making_s(cell) > _ANNOUNCE_S:
            size = format_size(cost_of(cell).made_bytes)
            sample_context.watcher.step(f"Making the files of {cell.key}: {size}")
        with sample_context.background or NoBackground():
            system = SystemCounters(Path(spec["folder"]))
            result = _run(spec, sample_context.watcher)
            counters = system.grown()
        if not cost_of(cell).keeps_files:
            self._clear(cell.target)
        counters |= counters_of(result.parts["files"])
        return sample_of(cell, sample_context, result, counters)

    def _provide(self, cell: Cell) -> bool:
        """Make the folder of a cell's files; return whether its files are there already."""
        sets = {"sets": engine_of(cell)["sets"], "seed": self._seed}
        signature = hashlib.sha256(msgspec.json.encode(sets, order="sorted")).hexdigest()
        if self._signatures.get(cell.target) == signature:
            return True
        self._clear(cell.target)
        path = self._path(cell.target)
        try:
            shutil.rmtree(path, ignore_errors=True)  # of a killed run
            path.mkdir(mode=0o700)
        except OSError as error:
            raise TargetError(
                seen=f"{path} cannot be created: {error.strerror}",
                cause="The file system is full, read-only or failing",
                next_step="Check `dmesg`, and the space with `df`",
            ) from None
        self._signatures[cell.target] = signature
        return False

    def _path(self, label: str) -> Path:
        return self.folders[label].file(FOLDER)

    def _clear(self, label: str) -> None:
        if self._signatures.pop(label, ""):
            shutil.rmtree(self._path(label), ignore_errors=True)

    def _spec(self, cell: Cell, round_number: int, *, is_made: bool) -> SpecDocument:
        path = self._path(cell.target)
        return {
            **engine_of(cell),
            "seed": seed_of(self._seed, cell.key, round_number),
            "set_seed": seed_of(self._seed, FOLDER, 0),
            "folder": str(path),
            "make": not is_made,
            "device": block_device_of(path) or None,
            "duration_s": cell.parsed.duration_s,
            "slice_ms": cell.parsed.slice_ms,
            "stall_threshold_ms": cell.parsed.stall_threshold_ms,
        }


def _run(spec: Mapping[str, Any], watcher: Watcher) -> EngineResult:
    with native_errors():
        running = _core.start_files(msgspec.json.encode(spec).decode())
    interrupted = wait_for(running, watcher)
    try:
        return EngineResult(parts=parts_of(running), interrupted=interrupted)
    except UsageError:
        if interrupted:  # while files were made: nothing was measured
            raise KeyboardInterrupt from None
        raise


def counters_of(files: Mapping[str, Any]) -> dict[str, float]:
    """Return the engine's readings of a workload of files as counters of a sample.

    Names of threads and flowops are prefixes of ``loops``, ``waits`` and ``wait_ns``.
    """
    counters: dict[str, float] = {
        f"files_{name}": files[name] for name in ("made_files", "made_folders", "made_bytes")
    }
    counters["files_made_ns"] = files["made_s"] * 1e9
    counters["files_cut"] = files["cuts"]
    counters[f"files_ended_by_{files['ended']}"] = 1
    if files["events"] is not None:
        counters["events_taken"], counters["events_due"] = files["events"]
    for name, loops in files["loops"].items():
        counters[f"{name}:loops"] = loops
    for name, (count, wait_ns) in files["waits"].items():
        counters[f"{name}:waits"] = count
        counters[f"{name}:wait_ns"] = wait_ns
    return counters
