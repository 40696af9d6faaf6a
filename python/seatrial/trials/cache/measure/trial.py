"""Measures a cell on a pool that is built for it: ceiling, cold start, baseline, cache device.

Of a sample with a cache device, the prediction is made between the baseline and the device.
"""

from __future__ import annotations

import base64
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from seatrial.errors import EngineError, RefusedError, SeatrialError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.engine import Driver, SampleContext
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.postgres.memory import LIMIT_BYTES_MIN, MemoryGroup, memory_limit, remove_group
from seatrial.results.cache import CacheForecast, CacheRecord
from seatrial.results.model import Sample
from seatrial.study.cell import Cell, SpecDocument
from seatrial.study.model import Plan
from seatrial.study.seeds import seed_of
from seatrial.trials.cache.analysis.forecast import (
    Baseline,
    forecast_with_device,
    forecast_without_device,
)
from seatrial.trials.cache.measure.arcstats import (
    Reading,
    Sampler,
    added_unix_s,
    series_of,
)
from seatrial.trials.cache.measure.client import READY, MeasurementRequest
from seatrial.trials.cache.measure.pool import Pool, limit_obstacle, obstacle
from seatrial.trials.cache.measure.undoing import all_pools, other_daemons
from seatrial.trials.cache.study.cells import l2arc_cells, space_bytes
from seatrial.trials.cache.study.workload import spec_of

CEILING_S: Final = 3.0
LOCK_NAME: Final = "\0seatrial-zfs-pool"
IMAGES: Final = "pool"
"""The folder of the images, in the trial folder."""
CACHED_NOTE: Final = (
    "Blocks that are missing in a client's page cache are read through a loop device, which sends "
    "one read at a time: its rate is a lower bound, and no prediction is made."
)
_WORKING_BYTES: Final = 24 << 20
"""Memory of a client without its page cache."""
_BASELINE_SHARE: Final = 0.5
"""The end of the baseline, from which the prediction is made."""


class PoolDriver(Driver):
    """Builds a pool for every sample and measures it there.

    Args:
        plan: Plan of the run.
        journal: Records every change before it is made.
    """

    shrink_option = "a smaller working_set"

    def __init__(self, plan: Plan, journal: UndoJournal) -> None:
        super().__init__()
        self._plan = plan
        self._journal = journal
        self._lock: socket.socket | None = None

    def open(self) -> Self:
        """Check the prerequisites, and lock the machine for pools.

        Raises:
            TargetError: when no pool can be built here, with the reason.
            RefusedError: when another run has a pool of its own.
        """
        self.check()
        if l2arc_cells(self._plan.cells):
            self._lock = _machine_lock()
        return self

    def check(self) -> None:
        """Check everything that can be checked before a run is stored.

        Raises:
            TargetError: when no pool can be built here, with the reason.
            RefusedError: when another run has a pool of its own.
        """
        if not l2arc_cells(self._plan.cells):
            return
        specs = [spec_of(cell) for cell in l2arc_cells(self._plan.cells)]
        limited = any(each.disk_reads_per_s for each in specs)
        why = obstacle() or (limit_obstacle() if limited else "")
        if why:
            raise TargetError(
                seen="A cache device cannot be measured here",
                cause=why,
                next_step="`seatrial cache predict` needs neither root nor ZFS",
            )
        if pools := all_pools():
            raise _pool_in_use(f"Process {min(pools)} runs ZFS for another run of Seatrial")

    def needed_bytes(self, label: str) -> int:
        """Return the space needed in the directory of a target."""
        return space_bytes(self._plan.cells_on(label))

    def prepare(self, watcher: Watcher) -> dict[str, SeatrialError]:
        """Report who else runs ZFS; each sample prepares its own pool."""
        if self.folders and (others := other_daemons()):
            watcher.step(f"Another zfs-fuse runs (process {others[0]}); it is left alone")
        return {}

    def close(self) -> None:
        """Let other runs have a pool; each of ours was removed with its sample."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def measure(self, cell: Cell, sample_context: SampleContext) -> Sample:
        """Measure one cell once.

        Raises:
            KeyboardInterrupt: when the user ended it before any result.
            TargetError: when the pool cannot be built, or fails.
            EngineError: when the clients fail.
        """
        images = self.folders[cell.target].path / IMAGES
        images.mkdir(exist_ok=True)
        seed = seed_of(self._plan.study.seed, cell.key, sample_context.round_number)
        with Pool(spec_of(cell), images, self._journal) as pool:
            return Trial(cell, pool, sample_context, self._journal, seed).measure()


def _machine_lock() -> socket.socket:
    """Return the machine's lock on pools: an abstract socket, which ends with the process.

    Raises:
        RefusedError: when another run has it.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        lock.bind(LOCK_NAME)
    except OSError as error:
        lock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise _pool_in_use("Another run of Seatrial has a pool of ZFS on this machine") from None
    return lock


def _pool_in_use(seen: str) -> RefusedError:
    return RefusedError(
        seen=seen,
        cause="Two pools with a load would disturb each other; or a run was killed",
        next_step="Wait for that run; after a kill, run `seatrial clean`",
    )


class Trial:
    """One sample on a pool.

    Args:
        cell: The cell.
        pool: Its pool, which was built for it.
        sample_context: Round, position and watcher.
        journal: Records every change before it is made.
        seed: Seed of what the clients read.
    """

    def __init__(
        self, cell: Cell, pool: Pool, sample_context: SampleContext, journal: UndoJournal, seed: int
    ) -> None:
        self._cell = cell
        self._pool = pool
        self._sample_context = sample_context
        self._journal = journal
        self._seed = seed
        self._spec = spec_of(cell)
        self._forecast: CacheForecast | None = None
        self._added_unix_s: float | None = None
        self._notes: list[str] = []

    def measure(self) -> Sample:
        """Measure the ceiling, then the sample from a cold start.

        Raises:
            KeyboardInterrupt: when the user ended it before any result.
            TargetError: when the pool fails.
            EngineError: when the clients fail.
        """
        pool, spec = self._pool, self._spec
        ceiling_per_s = self._load(pool.file, CEILING_S, NoObserver()).completed_per_s
        if spec.clients == "cached":
            self._notes.append(CACHED_NOTE)
        elif not spec.has_cache:
            self._forecast = forecast_without_device(
                spec, self._cell.threads, ceiling_per_s, self._seed
            )
        pool.make_cold()
        path = pool.client_path()
        pool.limit_disks()
        cold = _read(pool)
        with Sampler(pool.counters) as sampler:
            duration_s = spec.baseline_s + spec.watched_s
            sample = self._load(path, duration_s, CacheAttacher(self, sampler, ceiling_per_s))
        start_unix_s = sample.started_at
        added_at_s = None
        if self._added_unix_s is not None:
            added_at_s = added_unix_s(sampler.readings, self._added_unix_s) - start_unix_s
        record = CacheRecord(
            zfs=pool.version(),
            working_set_bytes=spec.working_set_bytes,
            arc_bytes=spec.arc_bytes,
            cache_bytes=spec.cache_bytes if spec.has_cache else 0,
            added_at_s=added_at_s,
            cold=cold,
            ceiling_per_s=ceiling_per_s,
            forecast=self._forecast,
            commands=pool.commands,
            notes=self._notes,
        )
        series = series_of(sampler.readings, start_unix_s, sample.duration_s)
        return msgspec.structs.replace(sample, series=series, cache=record)

    def predict(
        self, readings: Sequence[tuple[float, Reading]], progress: Progress, ceiling_per_s: float
    ) -> None:
        """Predict the warm-up from the end of the baseline, but not that of cached clients."""
        if self._spec.clients == "cached":
            return
        end_unix_s = readings[-1][0]
        from_unix_s = end_unix_s - _BASELINE_SHARE * self._spec.baseline_s
        first = next(each for each in readings if each[0] >= from_unix_s)
        elapsed_s = max(end_unix_s - first[0], 1e-3)
        misses = readings[-1][1]["demand_data_misses"] - first[1]["demand_data_misses"]
        before = Baseline(
            reads_per_s=progress.reads_per_s_since(from_unix_s),
            disk_reads_per_s=misses / elapsed_s,
            arc_data_bytes=readings[-1][1]["data_size"],
            ceiling_per_s=ceiling_per_s,
        )
        made_at_s = time.time() - progress.began_unix_s
        self._forecast = forecast_with_device(
            self._spec, self._cell.threads, before, made_at_s, self._seed
        )

    def add_cache(self) -> None:
        """Add the cache device.

        Raises:
            TargetError: when ZFS refuses.
        """
        self._added_unix_s = self._pool.add_cache()

    def _load(self, path: Path, duration_s: float, observer: NoObserver | CacheAttacher) -> Sample:
        """Have the clients read for some time."""
        request = MeasurementRequest(
            cell=self._cell,
            spec=self._engine_spec(path, duration_s),
            round_number=self._sample_context.round_number,
            position=self._sample_context.position,
        )
        group = self._memory_group()
        try:
            with Clients(self._pool.token, group) as clients:
                return clients.measure(request, observer, self._sample_context.watcher)
        finally:
            if group is not None:
                remove_group(group, self._journal)

    def _memory_group(self) -> MemoryGroup | None:
        """Return a control group that limits the page cache of cached clients."""
        if self._spec.clients != "cached":
            return None
        limit_bytes = max(LIMIT_BYTES_MIN, self._spec.client_cache_bytes + _WORKING_BYTES)
        return memory_limit(limit_bytes, self._journal)

    def _engine_spec(self, path: Path, duration_s: float) -> SpecDocument:
        planned = self._cell.spec
        length_bytes = planned["range"]["length_bytes"]
        wanted = ("range", "accesses", "engine", "arrival", "slice_ms", "stall_threshold_ms")
        return {
            **{name: planned[name] for name in wanted},
            "seed": self._seed,
            "hot_seed": self._seed,
            "target": {
                "kind": "file",
                "path": str(path),
                "size_bytes": length_bytes,
                "direct": False,
                "create": False,
            },
            "threads": self._cell.threads,
            "depth": 1,
            "limit": {"duration_s": duration_s},
        }


def _read(pool: Pool) -> Reading:
    """Return the counters; raises TargetError when the daemon has ended."""
    try:
        return pool.counters.read()
    except OSError as error:
        raise TargetError(
            seen=f"The counters of ZFS cannot be read: {error.strerror}",
            cause="The ZFS process of this trial no longer answers: it crashed or was killed",
            next_step="Look for 'Out of memory' or 'segfault' in `dmesg -T | tail`; if memory ran "
            "out, use a smaller working_set or cache, then run the command again",
        ) from None


class NoObserver:
    """Does nothing while clients read."""

    def observe(self, progress: Progress) -> None:
        """Do nothing."""


class CacheAttacher:
    """Predicts and adds the cache device when the baseline is over.

    Args:
        trial: The sample.
        sampler: The counters.
        ceiling_per_s: Reads per second with disks that were not limited.
    """

    def __init__(self, trial: Trial, sampler: Sampler, ceiling_per_s: float) -> None:
        self._trial = trial
        self._sampler = sampler
        self._ceiling_per_s = ceiling_per_s
        self._is_done = not trial._spec.has_cache

    def observe(self, progress: Progress) -> None:
        """Add it once, when the baseline is over; called several times a second."""
        baseline_s = self._trial._spec.baseline_s
        if self._is_done or progress.began_unix_s == 0.0:
            return
        if time.time() - progress.began_unix_s < baseline_s:
            return
        self._is_done = True
        self._trial.predict(list(self._sampler.readings), progress, self._ceiling_per_s)
        self._trial.add_cache()


class Progress:
    """The progress of clients, as they reported it."""

    def __init__(self) -> None:
        self.began_unix_s = 0.0
        self._rates_per_s: list[tuple[float, float]] = []

    def add(self, reading: LiveReading) -> None:
        """Note a reading."""
        now_s = time.time()
        if self.began_unix_s == 0.0:
            self.began_unix_s = now_s - reading.elapsed_s
        self._rates_per_s.append((now_s, reading.iops))

    def reads_per_s_since(self, unix_s: float) -> float:
        """Return the mean rate since a moment; 0 if nothing was reported."""
        found = [per_s for at_s, per_s in self._rates_per_s if at_s >= unix_s]
        return sum(found) / len(found) if found else 0.0


class Clients:
    """The process of the clients; it ends with the context.

    Args:
        token: An argument by which it is found after a kill; in the journal by now.
        group: A control group that limits its memory.
    """

    def __init__(self, token: str, group: MemoryGroup | None) -> None:
        self._group = group
        self._child = subprocess.Popen(
            [sys.executable, "-m", "seatrial.trials.cache.measure.client", token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        with suppress(ProcessLookupError):
            self._child.kill()
        self._child.communicate()

    def measure(
        self, request: MeasurementRequest, observer: NoObserver | CacheAttacher, watcher: Watcher
    ) -> Sample:
        """Have it measure an order; return its sample.

        Raises:
            KeyboardInterrupt: when the user ended it twice.
            TargetError: when ZFS refuses the cache device.
            EngineError: when it fails.
        """
        stdin, stdout, stderr = self._child.stdin, self._child.stdout, self._child.stderr
        if stdin is None or stdout is None or stderr is None:
            raise RuntimeError("it has pipes")
        if stdout.readline().strip() != READY:
            raise self._failed(stderr.read())
        if self._group is not None:
            (self._group.path / "cgroup.procs").write_text(str(self._child.pid))
        stdin.write(msgspec.json.encode(request).decode() + "\n")
        stdin.flush()
        samples: list[str] = []
        progress = Progress()
        threads = [
            threading.Thread(target=lambda: samples.append(stdout.readline()), daemon=True),
            threading.Thread(target=self._read_progress, args=(progress, watcher), daemon=True),
        ]
        for each in threads:
            each.start()
        self._wait(threads[0], observer, progress)
        if not samples or not samples[0]:
            threads[1].join(1.0)
            raise self._failed("\n".join(self._lines))
        return msgspec.msgpack.decode(base64.b64decode(samples[0]), type=Sample)

    def _wait(
        self, reader: threading.Thread, observer: NoObserver | CacheAttacher, progress: Progress
    ) -> None:
        """Wait for the answer; an interrupt ends the load, and the sample with it."""
        is_ending = False
        while reader.is_alive():
            try:
                reader.join(0.1)
                if not is_ending:
                    observer.observe(progress)
            except KeyboardInterrupt:
                if is_ending:
                    raise
                is_ending = True
                self._child.send_signal(signal.SIGINT)

    def _read_progress(self, progress: Progress, watcher: Watcher) -> None:
        """Pass on the progress; other lines are the beginning of an error."""
        for line in self._child.stderr or ():
            try:
                reading = msgspec.json.decode(line, type=LiveReading)
            except msgspec.DecodeError:
                self._lines.append(line.rstrip())
                continue
            progress.add(reading)
            watcher.live(reading)

    def _failed(self, words: str) -> EngineError:
        return EngineError(
            seen=f"The clients ended without a result (exit code {self._child.poll()})",
            cause=f"Their output: {words.strip()[-400:] or 'nothing'}",
            next_step="Check that the pool is still there: `dmesg | tail`",
        )
