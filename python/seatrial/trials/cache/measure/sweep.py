"""Runs a load with one size of shared buffers, counts its I/O, and records it on request."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError, native_errors
from seatrial.measure.engine import measure_spec
from seatrial.measure.progress import SilentWatcher, Watcher
from seatrial.postgres.catalogue import read_catalogue
from seatrial.postgres.connection import driver_parameters
from seatrial.results.model import OperationResult
from seatrial.results.replay import ReplayRecord
from seatrial.trials.cache.measure.counters import (
    Counters,
    RelationAccesses,
    read_counters,
    relation_accesses,
)
from seatrial.trials.database.measure.client_processes import Process, run_to_end
from seatrial.trials.database.measure.embedded import EmbeddedServers
from seatrial.trials.database.measure.pgbench import (
    error_text,
    progress,
    script_arguments,
    scripts_of,
    totals,
)
from seatrial.trials.database.measure.preflight import needs_catalogue
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.study.workloads import DatabaseSpec
from seatrial.trials.replay.measure.replay import engine_spec
from seatrial.trials.watch.measure.recorder import POLL_S, RecordingTarget
from seatrial.trials.watch.measure.relations import Relations
from seatrial.trials.watch.measure.watching import Watcher as DiskWatcher
from seatrial.trials.watch.measure.watching import WatchOptions

if TYPE_CHECKING:
    import psycopg

    from seatrial.trials.database.measure.driver_result import Endpoints

PAGE_BYTES: Final = 8192
PAGES_PER_SESSION: Final = 64
"""Of the smallest buffers. A session needs about ten at once. Of a few more, a changed page leaves
before its transaction ends: the server then flushes its WAL first, which larger buffers never do.
"""
PAGES_MIN: Final = 128
DIRECT: Final = "data,wal"
SETTINGS: Final = {
    "debug_io_direct": DIRECT,
    "track_io_timing": "on",
    "autovacuum": "off",
    "bgwriter_lru_maxpages": "0",
    "checkpoint_timeout": "1d",
    "max_wal_size": "16GB",
}
"""Settings of all servers of a sweep, without background activity that would differ by size."""
SLICES: Final = 10
_PROBE_S: Final = 1.5
_ROTATE_BYTES: Final = 1 << 30
_POLL_S: Final = 0.1
_CHUNK_BYTES_MIN: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Load:
    """A load.

    Attributes:
        kind: ``pgbench`` or ``replay``.
        spec: Its data, and what it sends.
        transactions: Transactions of pgbench; the first half warms the buffers, the second counts.
        seed: Seed of pgbench.
    """

    kind: str
    spec: DatabaseSpec
    transactions: int = 0
    seed: int = 1


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the counted part of a load.

    Attributes:
        buffers_bytes: Size of the shared buffers.
        operations: Transactions of pgbench, or statements.
        seconds: How long they took.
        clients: Sessions, on average.
        began_unix_s: When it began.
        counters: Reads, writes and waits of clients in that time.
        rates_per_s: Operations a second in parts of about equal length.
        client_cpu_s: Processor time of the client program.
        failed: Statements that failed.
    """

    buffers_bytes: int
    operations: int
    seconds: float
    clients: float
    began_unix_s: float
    counters: Counters
    rates_per_s: list[float]
    client_cpu_s: float
    failed: int = 0

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


class StorageProbe(msgspec.Struct, frozen=True, kw_only=True):
    """Random page reads of the storage.

    Attributes:
        depths: Reads in flight.
        rates_per_s: Reads a second at each.
        variation: Variance of the time of a read alone, over the square of its mean.
    """

    depths: list[int]
    rates_per_s: list[float]
    variation: float


class RecordedReplay(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded replay.

    Attributes:
        load_result: Results of its counted part.
        relations: Accesses of each table and index, warm-up included.
        storage: The storage by itself, right after.
        server: Name and version of the server.
    """

    load_result: LoadResult
    relations: dict[str, RelationAccesses]
    storage: StorageProbe
    server: str


def smallest_bytes(sessions: int) -> int:
    """Return the smallest shared buffers with which these sessions do not fail (bytes)."""
    return PAGE_BYTES * max(PAGES_MIN, PAGES_PER_SESSION * sessions)


class SweepServer:
    """Runs a load on servers that differ in their shared buffers alone."""

    def __init__(self, host: EmbeddedServers, load: Load, watcher: Watcher) -> None:
        """Store the host of the servers, whose data are loaded.

        Args:
            host: The host.
            load: The load.
            watcher: Receives the progress.
        """
        self._host = host
        self._load = load
        self._watcher = watcher

    def record(self, buffers_bytes: int, recording: Path) -> RecordedReplay:
        """Run the load while every request is recorded, until all changed pages are written.

        Raises:
            SeatrialError: when the server, the load or the recorder fails.
        """
        with self._session(buffers_bytes) as (endpoints, session, folder):
            before = relation_accesses(session.connection)
            with _recording(session.connection, endpoints, recording):
                load_result = self._run_load(buffers_bytes, endpoints, session, folder)
                session.checkpoint()
            found = {
                name: now.since(before.get(name))
                for name, now in relation_accesses(session.connection).items()
            }
            name = session.name()
            self._watcher.step("Reading from the storage without the server")
            storage = probe(folder, max(1, round(load_result.clients)))
        return RecordedReplay(
            load_result=load_result, relations=found, storage=storage, server=name
        )

    def run(self, buffers_bytes: int) -> LoadResult:
        """Run the load on a server with other buffers.

        Raises:
            SeatrialError: when the server or the load fails.
        """
        with self._session(buffers_bytes) as (endpoints, session, folder):
            return self._run_load(buffers_bytes, endpoints, session, folder)

    @contextmanager
    def _session(self, buffers_bytes: int) -> Iterator[tuple[Endpoints, ServerSession, Path]]:
        pages = max(PAGES_MIN, buffers_bytes // PAGE_BYTES)
        own = self._load.spec.settings
        settings = {**SETTINGS, **own, "shared_buffers": str(pages)}
        # Copies share no blocks, as writing to a shared block moves the page.
        spec = msgspec.structs.replace(
            self._load.spec, settings=settings, start="cold", clone="copy"
        )
        with self._host.ready(spec) as ready:
            if ready.data_folder is None:
                raise RuntimeError("a server of our own has a folder")
            try:
                with ServerSession(ready.endpoints) as session:
                    yield ready.endpoints, session, ready.data_folder
            except SeatrialError as error:
                raise ready.explain(error) from None

    def _run_load(
        self, buffers_bytes: int, endpoints: Endpoints, session: ServerSession, folder: Path
    ) -> LoadResult:
        play = _pgbench if self._load.kind == "pgbench" else _replay
        read_now = partial(read_counters, session.connection, folder)
        load_result = play(self._load, endpoints, read_now, self._watcher)
        return msgspec.structs.replace(load_result, buffers_bytes=buffers_bytes)


@contextmanager
def _recording(connection: psycopg.Connection, endpoints: Endpoints, path: Path) -> Iterator[None]:
    """Record requests meanwhile, from a thread of its own.

    Raises:
        SeatrialError: if it cannot be recorded.
    """
    relations = Relations(connection, endpoints.addresses[0], endpoints.secret)
    for each in relations.not_followed.values():
        relations.stop()
        raise each
    to = RecordingTarget(path, _ROTATE_BYTES)
    watcher = DiskWatcher(WatchOptions(relations.disks, None, relations, to))
    stop = threading.Event()
    failed: list[SeatrialError] = []

    def poll() -> None:
        try:
            while not stop.wait(POLL_S):
                watcher.poll()
        except SeatrialError as error:
            failed.append(error)

    thread = threading.Thread(target=poll, name="recorder", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if not failed:
            watcher.end_recording()
        watcher.stop()
    if failed:
        raise failed[0]


ReadCounters = Callable[[], Counters]


def _pgbench(
    load: Load, endpoints: Endpoints, read_now: ReadCounters, watcher: Watcher
) -> LoadResult:
    """Run pgbench twice: to warm the buffers, and to count."""
    per_client = max(1, load.transactions // 2 // load.spec.clients)
    watcher.step(f"Warming up: {per_client * load.spec.clients:,} transactions")
    _run_pgbench(load, endpoints, per_client, load.seed)
    watcher.step(f"Counting: {per_client * load.spec.clients:,} transactions")
    before = read_now()
    rates, printed, cpu_s = _run_pgbench(load, endpoints, per_client, load.seed + 1)
    counters = read_now().since(before)
    operations = round(printed["transactions"])
    return LoadResult(
        buffers_bytes=0,
        operations=operations,
        seconds=operations / printed["tps"],
        clients=float(load.spec.clients),
        began_unix_s=before.at_unix_s,
        counters=counters,
        rates_per_s=_parts(rates),
        client_cpu_s=cpu_s,
        failed=round(printed.get("failed", 0.0)),
    )


def _run_pgbench(
    load: Load, endpoints: Endpoints, transactions: int, seed: int
) -> tuple[list[float], dict[str, float], float]:
    """Return its rates a second, its totals and its processor time (s).

    Raises:
        TargetError: when it fails; with its message.
    """
    spec = load.spec
    threads = min(len(os.sched_getaffinity(0)), spec.clients)
    command = [
        str(endpoints.binaries.program("pgbench")),
        *("--no-vacuum", "--progress", "1", "--client", str(spec.clients)),
        *("--jobs", str(threads), "--transactions", str(transactions)),
        f"--random-seed={seed}",
        *script_arguments(spec, scripts_of(spec)),
    ]
    rates_per_s: list[float] = []

    def take_line(line: str) -> None:
        if (found := progress(line)) is not None:
            rates_per_s.append(found.per_s)

    ended = run_to_end(lambda: Process(command, endpoints.environments()[0], take_line))
    if ended.status != 0:
        raise TargetError(
            seen=f"pgbench failed with exit code {ended.status}: {error_text(ended.lines)}",
            cause="A statement failed, or the server ended",
            next_step="Run the script by hand with `pgbench`, and check the server's log",
        )
    return rates_per_s, totals(ended.output), ended.user_s + ended.system_s


def _replay(
    load: Load, endpoints: Endpoints, read_now: ReadCounters, watcher: Watcher
) -> LoadResult:
    """Replay a trace: its first half warms the buffers, the second is measured.

    Raises:
        TargetError: when the trace or the server cannot be used, or it is lost meanwhile.
    """
    if load.spec.replay is None:
        raise ValueError("the load is not a replay")
    catalogue = None
    if needs_catalogue(load.spec.replay):
        with ServerSession(endpoints) as session:
            catalogue = read_catalogue(session.connection)
    spec = engine_spec(
        load.spec.replay,
        driver_parameters(endpoints.addresses[0], endpoints.secret),
        slice_ms=100,
        stall_threshold_ms=500,
        catalogue=catalogue,
    )
    watcher.step("Playing the trace; its second half is counted")
    with native_errors():
        playback = _core.start_sql_playback(msgspec.json.encode(spec).decode())
    progress: list[tuple[float, int, int]] = []
    before: Counters | None = None
    half = load.spec.replay.statements // 2
    try:
        while not playback.wait(_POLL_S):
            live = playback.live()
            if before is None and live.answered >= half:
                before = read_now()
                live = playback.live()
            if before is not None:
                progress.append((time.time(), live.answered, live.open))
    except BaseException:
        playback.stop()
        playback.wait(60.0)
        raise
    with native_errors():
        result = playback.result()
    record = msgspec.json.decode(result.record_json, type=ReplayRecord)
    if before is None or len(progress) < SLICES or result.end != "complete":
        raise TargetError(
            seen=f"The replay ended after {record.total.sent:,} statements: "
            f"{result.words or result.end}",
            cause="The server was lost, or the trace is too short to be measured",
            next_step="Use a trace that takes at least a few seconds",
        )
    # The last sample was before the last answers.
    end = (time.time(), record.total.sent, 0)
    counters = read_now().since(before)
    return _counted_replay(progress, end, counters, record)


def _counted_replay(
    progress: Sequence[tuple[float, int, int]],
    end: tuple[float, int, int],
    counters: Counters,
    record: ReplayRecord,
) -> LoadResult:
    began_s, first, _ = progress[0]
    last_s = progress[-1][0]
    operations = end[1] - first
    step = max(1, len(progress) // SLICES)
    marks = [*progress[::step]]
    rates = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in itertools.pairwise(marks)
    ]
    client = record.client
    share = operations / max(1, record.total.sent)
    return LoadResult(
        buffers_bytes=0,
        operations=operations,
        seconds=min(end[0], last_s + _POLL_S) - began_s,
        clients=max(1.0, sum(sessions for _, _, sessions in progress) / len(progress)),
        began_unix_s=began_s,
        counters=counters,
        rates_per_s=rates,
        client_cpu_s=(client.cpu_user_ns + client.cpu_system_ns) / 1e9 * share,
        failed=record.total.failed,
    )


def _parts(rates_per_s: Sequence[float]) -> list[float]:
    """Return means of about ten parts of rates of single seconds."""
    step = max(1, len(rates_per_s) // SLICES)
    parts = [rates_per_s[at : at + step] for at in range(0, len(rates_per_s) - step + 1, step)]
    return [sum(part) / len(part) for part in parts]


def probe(folder: Path, depth_max: int) -> StorageProbe:
    """Return how many random page reads a second the storage serves, by reads in flight.

    They are from the largest file of the data, with direct I/O, by our engine.

    Raises:
        SeatrialError: when it cannot be read.
    """
    files = [each for each in (folder / "base").rglob("*") if each.is_file()]
    largest = max(files, key=lambda each: each.stat().st_size)
    size_bytes = largest.stat().st_size // PAGE_BYTES * PAGE_BYTES
    if size_bytes < _CHUNK_BYTES_MIN:
        raise TargetError(
            seen=f"The largest table has {size_bytes} bytes",
            cause="Reads of so few pages say nothing about the storage",
            next_step="Load the data that the trace was captured on: --prepare FILE",
        )
    depths = sorted({*(1 << power for power in range(depth_max.bit_length())), depth_max})
    rates, variations = [], []
    for depth in depths:
        parts = measure_spec(_probe_spec(largest, size_bytes, depth), SilentWatcher()).parts
        rates.append(parts["outcome"]["completed"] / parts["duration_s"])
        read = msgspec.convert(parts["operations"]["read"], OperationResult)
        variations.append(_variation(read))
    return StorageProbe(depths=depths, rates_per_s=rates, variation=variations[0])


def _variation(read: OperationResult) -> float:
    """Return the variance of the time of a read over the square of its mean; at most 1."""
    found = read.response_histogram()
    if found is None or not found.count:
        return 1.0
    count = 1000
    times_ns = [found.percentile_ns(100 * (number + 0.5) / count) for number in range(count)]
    mean_ns = sum(times_ns) / count
    variance = sum((each - mean_ns) ** 2 for each in times_ns) / count
    return min(1.0, variance / mean_ns**2)


def _probe_spec(path: Path, size_bytes: int, depth: int) -> dict[str, object]:
    return {
        "seed": depth,
        "target": {"kind": "file", "path": str(path), "size_bytes": size_bytes},
        "range": {"start_bytes": 0, "length_bytes": size_bytes},
        "accesses": [
            {"operation": "read", "sizes": [{"bytes": PAGE_BYTES}],
             "align_bytes": PAGE_BYTES, "address": {"kind": "random"}}
        ],
        "depth": depth,
        "limit": {"duration_s": _PROBE_S},
        "stall_threshold_ms": 500,
    }  # fmt: skip
