"""Measures and stores one cell: the common step of every strategy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import SpaceError, TargetError
from seatrial.fingerprint import FingerprintAfter, OtherProcess, OtherRun
from seatrial.machine.file import FULL_NAMES, free_text, no_space
from seatrial.machine.fingerprint import GAUGES, counters
from seatrial.machine.fingerprint.process_usage import (
    ProcessIo,
    is_server_of_a_trial,
    own_processes,
    processes_io,
)
from seatrial.machine.run_lock import Holder, RunLock
from seatrial.measure.engine import SampleContext, measure_spec
from seatrial.measure.progress import SilentWatcher, TimeLeft, Watcher
from seatrial.measure.stage import AnyStage
from seatrial.postgres.page_cache import write_back
from seatrial.results.model import Run, Sample
from seatrial.results.store import ResultsFile
from seatrial.study.cell import Cell, SpecDocument
from seatrial.study.model import Plan
from seatrial.topic import topic_of

CALIBRATION_S: Final = 0.15
BLOCK_BYTES: Final = 4096
RANGE_BYTES: Final = 1 << 30


class NullLimits:
    """Requests per second of the engine without a target, measured once for each configuration."""

    def __init__(self) -> None:
        self._per_s: dict[tuple[str, int, int], float] = {}

    def null_limit_per_s(self, engine: str, threads: int, depth: int) -> float:
        """Return the limit of an engine (``psync``, ``io_uring``) with the given number of workers.

        Raises:
            EngineError: when the engine cannot run at all.
            KeyboardInterrupt: when the user ends it; the limit is then unknown.
        """
        setup = (engine, threads, depth)
        if setup not in self._per_s:
            self._per_s[setup] = _calibrate(engine, threads, depth)
        return self._per_s[setup]


def _calibrate(engine: str, threads: int, depth: int) -> float:
    block = {"bytes": BLOCK_BYTES, "weight": 1}
    access = {
        "operation": "read",
        "sizes": [block],
        "align_bytes": BLOCK_BYTES,
        "address": {"kind": "random"},
    }
    spec = {
        "seed": 0,
        "target": {"kind": "null", "size_bytes": RANGE_BYTES},
        "range": {"start_bytes": 0, "length_bytes": RANGE_BYTES},
        "accesses": [access],
        "threads": threads,
        "depth": depth,
        "engine": engine,
        "limit": {"duration_s": CALIBRATION_S},
    }
    measured = measure_spec(spec, SilentWatcher())
    if measured.interrupted:
        raise KeyboardInterrupt
    parts = measured.parts
    return parts["outcome"]["completed"] / parts["duration_s"]


LOOK_EVERY_S: Final = 0.1
BUSY: Final = "device_busy_ns"
QUIET_S_MAX: Final = 2.0
"""Longest wait for a target to become idle; one that other programs use never does."""
BUSY_SHARE_MAX: Final = 0.1
"""Below this the remaining requests are those of other programs, not our backlog."""


def rest(path: Path | None, least_s: float) -> None:
    """Leave a target idle: for a minimum time, and then at most 2 s until its device is idle.

    A drive's or array's work behind its own cache is not visible; the minimum time is for that.

    Args:
        path: A path on the target; None if there is none.
        least_s: The minimum time; 0 does not wait at all.

    Raises:
        KeyboardInterrupt: when the user ends it.
    """
    if least_s <= 0:
        return
    time.sleep(least_s)
    if path is None:
        return
    give_up_s = time.monotonic() + QUIET_S_MAX
    while time.monotonic() < give_up_s and _busy_share(path) > BUSY_SHARE_MAX:
        pass


def _busy_share(path: Path) -> float:
    """Return the device's utilisation in the next 0.1 s; 0 where it is not known."""
    before_ns = counters(path).get(BUSY)
    began_s = time.monotonic()
    time.sleep(LOOK_EVERY_S)
    after_ns = counters(path).get(BUSY)
    if before_ns is None or after_ns is None:
        return 0.0
    return (after_ns - before_ns) / 1e9 / (time.monotonic() - began_s)


COUNTERS_ELAPSED_NS = "counters_elapsed_ns"


class SystemCounters:
    """Counters of device and machine since this was created.

    Args:
        path: A path on the target; None where it is not on storage of this machine.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._began_ns = time.monotonic_ns()
        self._before = counters(path)

    def grown(self) -> dict[str, float]:
        """Return the increases of counters and the current values of gauges.

        ``counters_elapsed_ns`` is the elapsed time: longer than the sample, as it includes starting
        threads and filling buffers.
        """
        after = counters(self._path)
        grown = _grown(self._before, after)
        grown[COUNTERS_ELAPSED_NS] = float(time.monotonic_ns() - self._began_ns)
        return grown


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value if name in GAUGES else value - before[name]
        for name, value in after.items()
        if name in GAUGES or name in before
    }


NAMED_MAX: Final = 8
_WORTH_NAMING_BYTES: Final = 1 << 20


class OtherProcessIo:
    """Reads the I/O of other processes before and after each sample, so as not to disturb it.

    Args:
        lock: The run's lock; it lists other runs on the same media.
    """

    def __init__(self, lock: RunLock) -> None:
        self._lock = lock
        self._runs: dict[int, Holder] = {}
        self._runs_of_sample: list[Holder] = []
        self._before: dict[tuple[int, int], ProcessIo] = {}
        self._read_bytes: Counter[str] = Counter()
        self._write_bytes: Counter[str] = Counter()

    def before(self) -> None:
        """Read before a sample."""
        self._runs_of_sample = self._lock.neighbours()
        self._before = {(each.pid, each.began_ticks): each for each in processes_io()}

    def after(self) -> dict[str, float]:
        """Read after it; return the I/O of others during it, by counter.

        ``other_process_read_bytes`` and ``other_process_write_bytes`` are sums over visible
        processes, on any device; ``other_runs`` is the number of other runs on the same media
        at its beginning or end.
        """
        # One that ended during the sample was there before it, one that began is there after it.
        runs = {run.pid: run for run in (*self._runs_of_sample, *self._lock.neighbours())}
        self._runs |= runs
        own = own_processes()
        found = {(each.pid, each.began_ticks): each for each in processes_io()}
        inherited = self._inherited(found)
        read_bytes = write_bytes = 0
        for key, each in found.items():
            if each.pid in own or is_server_of_a_trial(each.pid):
                continue
            before = [*inherited.get(each.pid, []), *filter(None, [self._before.get(key)])]
            grown = (
                max(0, each.read_bytes - sum(was.read_bytes for was in before)),
                max(0, each.write_bytes - sum(was.write_bytes for was in before)),
            )
            if max(grown) >= _WORTH_NAMING_BYTES:
                self._read_bytes[each.name] += grown[0]
                self._write_bytes[each.name] += grown[1]
            read_bytes += grown[0]
            write_bytes += grown[1]
        return {
            "other_process_read_bytes": float(read_bytes),
            "other_process_write_bytes": float(write_bytes),
            "other_runs": float(len(runs)),
        }

    def _inherited(self, found: Mapping[tuple[int, int], ProcessIo]) -> dict[int, list[ProcessIo]]:
        """Return the ended processes as they were before, by the process that reaped them.

        The kernel adds all that a child ever read and wrote to the parent that reaps it.
        """
        ended = {each.pid: each for key, each in self._before.items() if key not in found}
        inherited: dict[int, list[ProcessIo]] = {}
        for each in ended.values():
            parent = each.parent
            while parent in ended:
                parent = ended[parent].parent
            inherited.setdefault(parent, []).append(each)
        return inherited

    def noted(self, after: FingerprintAfter) -> FingerprintAfter:
        """Return the fingerprint after the run with the other processes found."""
        names = sorted(
            {*self._read_bytes, *self._write_bytes},
            key=lambda name: -self._read_bytes[name] - self._write_bytes[name],
        )
        return msgspec.structs.replace(
            after,
            other_runs=[
                OtherRun(pid=run.pid, command=run.command, since_unix_s=run.since_unix_s)
                for run in self._runs.values()
            ],
            other_processes=[
                OtherProcess(
                    name=name,
                    read_bytes=self._read_bytes[name],
                    write_bytes=self._write_bytes[name],
                )
                for name in names[:NAMED_MAX]
            ],
        )


COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"
FILL: Final = "fill"
"""The kind of cell that writes its target's whole file."""


class RoundsResult(msgspec.Struct, frozen=True, kw_only=True):
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
        stage: An open and prepared stage.
        store: Where samples are stored.
        run: The stored run that they belong to.
        watcher: Receives the progress.
        neighbours: Detects other users of the storage; optional.
    """

    def __init__(  # noqa: PLR0917 - independent objects
        self,
        plan: Plan,
        stage: AnyStage,
        store: ResultsFile,
        run: Run,
        watcher: Watcher,
        neighbours: OtherProcessIo | None = None,
    ) -> None:
        self.plan = plan
        self.run = run
        self.watcher = watcher
        self._stage = stage
        self._store = store
        self._neighbours = neighbours
        self._limits = NullLimits()
        self._rested_s: dict[str, float] = {}

    def earlier(self) -> list[Sample]:
        """Return the samples from before the run was interrupted."""
        return self._store.samples(self.run.id)

    def is_available(self, cell: Cell) -> bool:
        """Return whether a cell can still be measured: enough hosts are left for it."""
        return self._stage.is_available(cell)

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

        The sample of a run's only cell is stored even when it is cut short, except of a load line,
        which has others.

        Args:
            cell: A cell of the plan, or similar to one.
            round_number: The round, from 0.
            position: Its position in the round's order, from 0.
            time_left: The remaining time of the run; for the watcher.
            notes: Stored among the sample's counters; names end in the unit.

        Raises:
            Interrupted: when the user ended the cell, or the run right after it.
            SpaceError: when a file system ran full; the sample is stored only if it belongs to the
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
            sample_context = SampleContext(round_number, position, self.watcher)
            sample = self._stage.measure(cell, spec, sample_context)
            others = looks.after() if looks else {}
        is_only_cell = len(self.plan.cells) == 1 and topic_of(cell).in_rounds
        if sample.status == INTERRUPTED and not is_only_cell:
            raise Interrupted
        full = self._full(sample)
        if full and not is_only_cell:
            raise full
        goes_on = sample.status != INTERRUPTED and not (sample.fleet and sample.fleet.ends_run)
        try:
            limited = self._with_limit(sample)
        except KeyboardInterrupt:
            # The sample is complete and stored, though the engine's own limit is not known.
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
        """Return the error of a file system that ran full during a sample, or None."""
        names = {error.name for error in sample.errors}
        what = f"{sample.cell.key} failed with {', '.join(sorted(names))}"
        if FULL_NAMES & names:
            path = self._stage.spec(sample.cell, 0)["target"].get("path")
            by_quota = "EDQUOT" in names
            return no_space(Path(path or sample.cell.target), what, by_quota=by_quota)
        return self._full_drives(sample.cell.target, what) if names else None

    def _full_drives(self, label: str, what: str) -> SpaceError | None:
        """Return the error if the file system that holds the drives of a layout is full, else None.

        The backing files of loop devices are sparse: when their own file system is full, the
        device's requests fail, and an array or file system on it may fail in any way.

        Args:
            label: Label of the target.
            what: What failed, as a phrase.
        """
        drives = self.plan.study.drives
        if not (self.plan.target(label).layout and drives.loop):
            return None
        folder = Path(drives.folder or ".").resolve()
        free = free_text(folder)
        return (
            no_space(folder, f"{what}; its drives are files in that directory, and {free}")
            if free
            else None
        )

    @contextmanager
    def _full_drives_named(self, label: str) -> Iterator[None]:
        """Raise a full file system below a layout as the cause of a failure within the block.

        Raises:
            SpaceError: when it is the cause.
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
        """Measure a cell without storing or reporting it.

        Args:
            cell: Similar to a cell of the plan, of any length.
            number: Number of the probe; each uses different addresses.

        Raises:
            Interrupted: when the user ended it.
            TargetError: when a target goes away.
        """
        self._stage.bring_up(cell.target, self.watcher)
        sample_context = SampleContext(number, 0, SilentWatcher())
        sample = self._stage.measure(cell, self._spec(cell, number), sample_context)
        if sample.status == INTERRUPTED:
            raise Interrupted
        return sample

    def discard(self, label: str) -> int:
        """Trim a device's part that the plan uses; return the bytes trimmed, 0 where unsupported.

        Raises:
            TargetError: when the device fails.
        """
        self._stage.bring_up(label, self.watcher, fills=True)
        discarded_bytes = self._stage.discard(label)
        text = "is trimmed" if discarded_bytes else "cannot be trimmed and is used as it is"
        self.watcher.step(f"{self.plan.target(label).path or label} {text}")
        return discarded_bytes

    def rest(self, cell: Cell, rest_s: float) -> float:
        """Leave the target of a cell idle for ``rest_s``, and on until it is quiet.

        Returns the seconds that it took.

        Dirty pages of its file are written back first. For a simulated device the seconds pass on
        its own clock, before its next request.

        Raises:
            Interrupted: when the user ended the run.
        """
        if cell.parsed.target.kind == "simulated":
            self._rested_s[cell.target] = self._rested_s.get(cell.target, 0.0) + rest_s
            return rest_s
        self._stage.bring_up(cell.target, self.watcher)
        path = self._stage.spec(cell, 0)["target"].get("path")
        began_s = time.monotonic()
        try:
            if path and not cell.parsed.target.direct:
                # The next sample meets the same error and reports it; a missing file has no pages.
                with suppress(OSError):
                    write_back(Path(path))
            rest(Path(path) if path else None, rest_s)
        except KeyboardInterrupt:
            raise Interrupted from None
        return time.monotonic() - began_s

    def _spec(self, cell: Cell, number: int) -> SpecDocument:
        spec = self._stage.spec(cell, number)
        rested_s = self._rested_s.pop(cell.target, 0.0)
        if rested_s:
            spec["target"]["idle_s"] = rested_s
        return spec

    def _with_limit(self, sample: Sample) -> Sample:
        """Add the engine's limit without the target; a simulated device has no such limit.

        A cell close to this limit shows the generator's speed, not the target's (law 8).
        """
        if sample.engine not in ("psync", "io_uring"):
            return sample
        cell = sample.cell
        limit_per_s = self._limits.null_limit_per_s(sample.engine, cell.threads, cell.depth)
        counters = sample.counters | {"null_limit_per_s": limit_per_s}
        return msgspec.structs.replace(sample, counters=counters)


def is_on_storage(cell: Cell) -> bool:
    """Return whether a cell is a load on storage, not on a database or a model."""
    return topic_of(cell).loads_storage and cell.parsed.target.kind in ("file", "directory")


Strategy = Callable[[Recorder], RoundsResult]
"""A strategy to measure a plan: which cell is measured next, and when to stop.

It does not catch ``Interrupted``: run.py ends the run in order.
"""
