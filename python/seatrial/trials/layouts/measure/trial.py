"""One sample on a layout: the I/O of its drives, its faults, and the state of its data."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.background import Background
from seatrial.measure.progress import Watcher
from seatrial.measure.recorder import INTERRUPTED
from seatrial.results.model import LayoutRecord, Sample
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import failures_of
from seatrial.trials.layouts.build.backend import Step
from seatrial.trials.layouts.build.build import run_steps
from seatrial.trials.layouts.build.nfs import exported_folder
from seatrial.trials.layouts.measure import verify
from seatrial.trials.layouts.measure.array import Array, MemberCounters
from seatrial.trials.layouts.measure.cached import CachedSample, Probe
from seatrial.trials.layouts.measure.faults import ArrayFaults, FaultInjection
from seatrial.trials.layouts.measure.server_memory import PageCacheDropper
from seatrial.trials.layouts.measure.watch import ArrayWatch, joined, series_of

SETTLED: Final = "drives_settled_s"
"""Counter: time waited after the load until the drives were idle."""
START_S_MAX: Final = 60.0
SPONTANEOUS: Final = "spontaneously, detected after the load"
"""Detail of a drive failure in a sample without injected faults."""

Load = Callable[[Background], Sample]
"""Measures the cell with background activity."""


class Trial:
    """A sample of one cell on an existing array.

    Args:
        array: The array.
        record: The record of the target: the array or a leg of it.
        cell: The cell.
        journal: Records a rebuild limit before it is set.
        seed: Seed for the sectors to corrupt.
        watcher: Receives the progress.
    """

    def __init__(
        self,
        array: Array,
        record: LayoutRecord,
        cell: Cell,
        *,
        journal: UndoJournal,
        seed: int,
        watcher: Watcher,
    ) -> None:
        backend, built = array.backend, array.built
        self._array = array
        self._cached = (
            CachedSample(built, cell, journal, seed) if built.spec.has_cache_device else None
        )
        self._record = record
        self._journal = journal
        self._watcher = watcher
        self._failures = failures_of(cell.parsed.fail)
        self._limit_kib_per_s = cell.parsed.rebuild_limit_kib_per_s
        self._verifies = cell.parsed.verify
        self._watch = ArrayWatch(built.spec.legs, lambda leg: backend.state(built, leg))
        # Writes to a failed array may never complete.
        is_buffered = not cell.parsed.target.direct and not self._failures
        self._members = MemberCounters(
            list(record.roles),
            lambda: self._watch.is_working,
            paths=built.paths,
            is_buffered=is_buffered,
        )
        self._faults = ArrayFaults(
            backend, built, random.Random(seed), verifiable=self._verifies, journal=journal
        )
        self._injection = FaultInjection(self._failures, self._faults, self._watch)

    def measure(self, load: Load, spec: Mapping[str, Any], probe: Probe) -> Sample:
        """Measure, wait until the array is repaired, and check for lost data.

        Args:
            load: Measures the cell with background activity.
            spec: The engine's complete specification of the cell, for checking its data.
            probe: Measures the cell with another specification.

        Raises:
            KeyboardInterrupt: when the user ended it before any result.
            SeatrialError: as raised by ``load``.
        """
        if self._cached and self._array.built.spec.cold_cache:
            self._watcher.step(f"Emptying the cache of {self._array.built.spec.label}")
            self._cached.make_cold(spec, probe)
        counting = self._cached or nullcontext()
        built = self._array.built
        server = (
            PageCacheDropper(Path(exported_folder(built.folders[0]))) if built.spec.nfs else None
        )
        with (
            self._rebuild_limited(),
            self._flaky_drives_restored(),
            self._injection,
            counting,
            server or nullcontext(),
        ):
            waiting = f"Waiting for the rebuild of {built.spec.label}"
            background = _ArrayBackground(
                self._members,
                self._injection,
                lambda share: self._watcher.step(f"{waiting}: {share}"),
            )
            sample = load(background)
            is_complete = sample.status != INTERRUPTED
            if self._failures and is_complete:
                background.settle()
        if self._watch.missing and not self._failures:
            # The array failed without an injected fault: the figures are those of a failure.
            self._watch.note("failed", detail=SPONTANEOUS)
            self._array.is_damaged = True
        found = self._reported(sample, background)
        if self._cached:
            found = self._cached.recorded(found)
        return self._checked(found, spec) if self._failures and is_complete else found

    def _limit_steps(self) -> list[Step]:
        if not self._limit_kib_per_s:
            return []
        return self._array.backend.limit_rebuild(self._array.built, self._limit_kib_per_s)

    @contextmanager
    def _rebuild_limited(self) -> Iterator[None]:
        """Limit the array's rebuild during the sample."""
        entries = run_steps(self._array.built, self._limit_steps(), self._journal)
        try:
            yield
        finally:
            for entry in reversed(entries):
                self._journal.undo(entry)

    @contextmanager
    def _flaky_drives_restored(self) -> Iterator[None]:
        """End the flaky state of drives with the sample."""
        try:
            yield
        finally:
            self._faults.end()

    def _reported(self, sample: Sample, background: _ArrayBackground) -> Sample:
        """Return the sample with the facts about its array."""
        start_s = background.start_s(sample.started_at)
        record = msgspec.structs.replace(
            self._record,
            members=self._members.deltas,
            events=self._watch.events(start_s),
            mismatch_blocks=self._faults.mismatch_blocks(),
            rebuild_limit_kib_per_s=self._limit_kib_per_s or None,
            notes=[*self._record.notes, *self._notes()],
        )
        series = sample.series
        if self._failures and series is not None:
            series = joined(series, self._watch.readings, start_s)
        elif self._failures:
            series = series_of(self._watch.readings, start_s, sample.duration_s)
        counters = sample.counters
        if self._members.settled_s is not None:
            counters = counters | {SETTLED: self._members.settled_s}
        return msgspec.structs.replace(sample, layout=record, series=series, counters=counters)

    def _notes(self) -> Iterator[str]:
        yield from self._members.notes
        yield from self._faults.notes
        yield from self._injection.notes
        for words in self._watch.errors:
            yield f"The state of the array was unknown at times: {words}"
        if self._limit_kib_per_s and not self._limit_steps():
            yield f"The rebuild was not limited: {self._array.backend.name} has no such limit."

    def _checked(self, sample: Sample, spec: Mapping[str, Any]) -> Sample:
        """Read all data of a cell that verifies, and add the result."""
        record = sample.layout
        if not self._verifies or record is None or not spec.get("ledger_path"):
            return sample
        try:
            found = verify.check_all(spec, self._watcher, is_lost=self._watch.has_failed)
        except TargetError as error:
            lost_bytes, note = verify.unreadable(spec, error)
            checked = msgspec.structs.replace(
                record, unreadable_bytes=lost_bytes, notes=[*record.notes, note]
            )
            return msgspec.structs.replace(sample, layout=checked)
        checked = msgspec.structs.replace(
            record,
            checked_bytes=found.checked_bytes,
            wrong_bytes=found.wrong_bytes,
            unreadable_bytes=found.unreadable_bytes,
            notes=[*record.notes, *found.notes],
        )
        return msgspec.structs.replace(
            sample,
            layout=checked,
            verification=verify.merged(sample.verification, found.verification),
        )


class _ArrayBackground:
    """Background activity during a load: counters of the drives, faults, readings of the state."""

    def __init__(
        self, members: MemberCounters, injection: FaultInjection, report: Callable[[str], None]
    ) -> None:
        self._members = members
        self._injection = injection
        self._report = report
        self._began_s = 0.0
        self._began_unix_s = 0.0

    def __enter__(self) -> Self:
        self._members.begin()
        self._began_s, self._began_unix_s = time.monotonic(), time.time()
        self._injection.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._injection.load_ended()
        if error is None:
            self._members.end()

    def settle(self) -> None:
        """Wait until the array is idle."""
        self._injection.settle(self._report)

    def start_s(self, started_at: float) -> float:
        """Return the start of a sample by the monotonic clock.

        Args:
            started_at: The start by the wall clock, which may have been set meanwhile.
        """
        waited_s = started_at - self._began_unix_s
        return self._began_s + (waited_s if 0.0 <= waited_s <= START_S_MAX else 0.0)
