"""One cell measured and stored: what every way through a plan does again and again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.errors import SpaceError, TargetError
from seatrial.machine.space import FULL_NAMES, free_text, no_space
from seatrial.measure.limits import OwnLimits
from seatrial.measure.neighbours import Neighbours
from seatrial.measure.progress import Silent, TimeLeft, Watcher
from seatrial.measure.quiet import rest
from seatrial.measure.stage import AnyStage
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.topic import topic_of

COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"
FILL: Final = "fill"
"""The kind of cell that writes its target's file whole."""


class RoundsEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the rounds ended.

    Attributes:
        status: ``complete`` or ``interrupted``.
        reason: Why it ended, as a sentence.
    """

    status: str
    reason: str


class Interrupted(Exception):  # noqa: N818 - the user's wish, not an error
    """The user ended the run; what was measured before is stored."""


class Recorder:
    """Measures cells of a run and stores each sample as it ends.

    Args:
        plan: What the run measures.
        stage: Where it goes; open and prepared.
        store: Where samples go.
        run: The stored run that they belong to.
        watcher: Told of the progress.
        neighbours: Looks who else is at the storage; nobody does unless given.
    """

    def __init__(  # noqa: PLR0917 - each is a thing of its own
        self,
        plan: Plan,
        stage: AnyStage,
        store: ResultsFile,
        run: Run,
        watcher: Watcher,
        neighbours: Neighbours | None = None,
    ) -> None:
        self.plan = plan
        self.run = run
        self.watcher = watcher
        self._stage = stage
        self._store = store
        self._neighbours = neighbours
        self._limits = OwnLimits()
        self._rested_s: dict[str, float] = {}

    def earlier(self) -> list[Sample]:
        """Return what the run holds already, from before it was interrupted."""
        return self._store.samples(self.run.id)

    def measure(
        self,
        cell: Cell,
        round_number: int,
        position: int,
        *,
        time_left: TimeLeft,
        notes: Mapping[str, float] | None = None,
    ) -> Sample:
        """Measure one cell and store the sample.

        The sample of a run's only cell is kept even when it is cut short, but not of a load line,
        which has others.

        Args:
            cell: Of the plan, or one like those of the plan.
            round_number: The round, from 0.
            position: Its place in the round's order, from 0.
            time_left: How long the whole run will still take; for whoever watches.
            notes: What is stored among the sample's counters, by name with unit last.

        Raises:
            Interrupted: when the user ended the cell, or the run right after it.
            SpaceError: when a file system ran full; the sample is stored only if it is of the
                run's only cell, so that a resumed run measures the cell again.
            TargetError: when a target goes away.
        """
        with self._full_drives_named(cell.target):
            self._stage.bring_up(cell.target, self.watcher, fills=cell.kind == FILL)
            self.watcher.cell_started(cell, round_number, time_left)
            spec = self._spec(cell, round_number)
            looks = None if not is_on_storage(cell) else self._neighbours
            if looks:
                looks.before()
            sample = self._stage.measure(
                cell, spec, round_number=round_number, position=position, watcher=self.watcher
            )
            others = looks.after() if looks else {}
        is_only_cell = len(self.plan.cells) == 1 and topic_of(cell).in_rounds
        if sample.status == INTERRUPTED and not is_only_cell:
            raise Interrupted
        full = self._full(sample)
        if full and not is_only_cell:
            raise full
        goes_on = sample.status != INTERRUPTED
        try:
            limited = self._with_limit(sample)
        except KeyboardInterrupt:
            # The sample is whole and is kept, though the engine's own limit is not known.
            limited, goes_on = sample, False
        counters = limited.counters | others | dict(notes or {})
        noted = msgspec.structs.replace(limited, counters=counters)
        stored = self._store.add_sample(self.run.id, noted)
        self.watcher.cell_ended(stored)
        if full:
            raise full
        if not goes_on:
            raise Interrupted
        return stored

    def _full(self, sample: Sample) -> SpaceError | None:
        """Return the error of a file system that ran full under a sample; None where none did."""
        names = {error.name for error in sample.errors}
        what = f"{sample.cell.key} failed with {', '.join(sorted(names))}"
        if FULL_NAMES & names:
            path = self._stage.spec(sample.cell, 0)["target"].get("path")
            return no_space(Path(path or sample.cell.target), what)
        return self._full_drives(sample.cell.target, what) if names else None

    def _full_drives(self, label: str, what: str) -> SpaceError | None:
        """Return the error of a file system without room for the drives of a layout, if that is so.

        The files of loop devices are files of holes: where their own file system has no room, the
        kernel fails the requests of the device, and an array or file system on it may fail at
        anything.

        Args:
            label: Of the target.
            what: What failed, as a phrase.
        """
        drives = self.plan.study.drives
        if not (self.plan.target(label).layout and drives.loop):
            return None
        folder = Path(drives.folder or ".").resolve()
        free = free_text(folder)
        return no_space(folder, f"{what}; its drives are files there, and {free}") if free else None

    @contextmanager
    def _full_drives_named(self, label: str) -> Iterator[None]:
        """Name the full file system below a layout that fails within the block.

        Raises:
            SpaceError: when that is why it fails.
        """
        try:
            yield
        except TargetError as error:
            full = None
            if not isinstance(error, SpaceError):
                full = self._full_drives(label, error.seen.rstrip("."))
            if full is None:
                raise
            raise full from error

    def probe(self, cell: Cell, number: int) -> Sample:
        """Measure a cell without storing or telling of it.

        Args:
            cell: Like those of the plan, as short as the caller wants it.
            number: Of the probe; each has addresses of its own.

        Raises:
            Interrupted: when the user ended it.
            TargetError: when a target goes away.
        """
        self._stage.bring_up(cell.target, self.watcher)
        sample = self._stage.measure(
            cell, self._spec(cell, number), round_number=number, position=0, watcher=Silent()
        )
        if sample.status == INTERRUPTED:
            raise Interrupted
        return sample

    def discard(self, label: str) -> int:
        """Trim what the plan uses of a device; return how many bytes were, 0 where none can be.

        Raises:
            TargetError: when the device fails.
        """
        self._stage.bring_up(label, self.watcher, fills=True)
        discarded_bytes = self._stage.discard(label)
        reported = "is trimmed" if discarded_bytes else "cannot be trimmed, and is taken as it is"
        self.watcher.stage(f"{self.plan.target(label).path or label} {reported}")
        return discarded_bytes

    def rest(self, cell: Cell, rest_s: float) -> float:
        """Leave the target of a cell alone for so many seconds, and on until it is quiet.

        Returns the seconds that it took.

        What the page cache still holds of its file is written first. For a simulated device the
        seconds pass on its own clock, before its next request.

        Raises:
            Interrupted: when the user ended the run.
        """
        if cell.spec["target"]["kind"] == "simulated":
            self._rested_s[cell.target] = self._rested_s.get(cell.target, 0.0) + rest_s
            return rest_s
        self._stage.bring_up(cell.target, self.watcher)
        path = self._stage.spec(cell, 0)["target"].get("path")
        began_s = time.monotonic()
        try:
            if path and not cell.spec["target"]["direct"]:
                _write_back(Path(path))
            rest(Path(path) if path else None, rest_s)
        except KeyboardInterrupt:
            raise Interrupted from None
        return time.monotonic() - began_s

    def _spec(self, cell: Cell, number: int) -> dict[str, Any]:
        spec = self._stage.spec(cell, number)
        rested_s = self._rested_s.pop(cell.target, 0.0)
        if rested_s:
            spec["target"]["idle_s"] = rested_s
        return spec

    def _with_limit(self, sample: Sample) -> Sample:
        """Add what the engine could do without the target; a simulated device has no such limit."""
        if sample.engine not in ("psync", "io_uring"):
            return sample
        cell = sample.cell
        limit_per_s = self._limits.null_limit_per_s(sample.engine, cell.threads, cell.depth)
        counters = sample.counters | {"null_limit_per_s": limit_per_s}
        return msgspec.structs.replace(sample, counters=counters)


def is_on_storage(cell: Cell) -> bool:
    """Tell whether a cell is a load on storage, and neither on a database nor on a model."""
    return topic_of(cell).loads_storage and cell.spec.get("target", {}).get("kind") == "file"


def _write_back(path: Path) -> None:
    """Have the page cache write what it holds of a file; one that is gone holds nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        # The next sample meets the same error and tells of it.
        return
    finally:
        os.close(handle)


Strategy = Callable[[Recorder], RoundsEnd]
"""A way through a plan: which cell is measured next, and when it is enough.

It lets ``Interrupted`` pass: run.py ends the run in order.
"""
