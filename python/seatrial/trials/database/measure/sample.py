"""Measures a sample on a ready server: reads its state, runs the load, monitors it.

pgbench's log shows when nothing completed, not why. The readings have a resolution of a second, so
a cause is named only if they exclude others; else it is ``unknown``, with the evidence.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from seatrial.errors import SeatrialError
from seatrial.measure.background import Background
from seatrial.measure.engine import SampleContext
from seatrial.measure.progress import Watcher
from seatrial.measure.recorder import SystemCounters
from seatrial.postgres.page_cache import cached_bytes
from seatrial.results.model import DatabaseRecord, Sample, Series, Stall
from seatrial.study.cell import Cell
from seatrial.study.hosts import cell_without
from seatrial.trials.database.measure import telemetry
from seatrial.trials.database.measure.drive import drive
from seatrial.trials.database.measure.driver_result import (
    Completions,
    DriverOptions,
    DriverResult,
)
from seatrial.trials.database.measure.observe import Observations, Observer
from seatrial.trials.database.measure.ready import ReadyServer
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.study.workloads import DatabaseSpec
from seatrial.units import NS_PER_S

STOLEN_SHARE_MIN: Final = 0.5
"""Share of every processor during a stall that the hypervisor must have taken to be its cause."""
BUSY_SHARE_MIN: Final = 0.9
"""Share of a second, completely within a stall, in which the device must have had requests."""
FLUSH_SHARE_MIN: Final = 0.5
"""Share of a stall that the mean flush of that second must have taken."""

_EVIDENCE: Final = {
    "device_busy_share": "device_busy_share_max",
    "device_flush_latency_ms": "device_flush_latency_ms_max",
    "device_write_latency_ms": "device_write_latency_ms_max",
    "device_read_latency_ms": "device_read_latency_ms_max",
    "cpu_steal_share": "cpu_steal_share_max",
    "checkpoint_running_share": "checkpoint_running_share_max",
    "waits_lock_share": "waits_lock_share_max",
    "waits_io_share": "waits_io_share_max",
    "waits_lwlock_share": "waits_lwlock_share_max",
}
"""Columns of the series, and the names of their maxima in a stall as evidence."""


def attributed(stall: Stall, series: Series) -> Stall:
    """Return a stall with its cause, as far as the series shows it, and the evidence.

    Args:
        stall: A stall from the log.
        series: The readings, starting with the sample.
    """
    first = int(stall.start_s / series.period_s)
    end = math.ceil((stall.start_s + stall.length_s) / series.period_s)
    whole_first, whole_end = _whole_seconds(stall, series)
    evidence = {}
    for column, figure in _EVIDENCE.items():
        bounds = (first, end)
        # A latency is that of the second in which the request ended, perhaps with the stall; the
        # device was busy in the seconds in which the stall began and ended, whatever the cause.
        if column == "device_busy_share" and whole_first < whole_end:
            bounds = (whole_first, whole_end)
        if (value := _largest(series, column, *bounds)) is not None:
            evidence[figure] = value
    return msgspec.structs.replace(stall, cause=_cause(stall, series, evidence), evidence=evidence)


def _cause(stall: Stall, series: Series, evidence: Mapping[str, float]) -> str:
    length_s = float(stall.length_s)
    stolen_s = evidence.get("cpu_steal_share_max", 0.0) * series.period_s
    if stolen_s >= STOLEN_SHARE_MIN * length_s and length_s <= series.period_s:
        return "generator"
    latencies_ms = [
        evidence.get(f"device_{kind}_latency_ms_max", 0.0) for kind in ("flush", "write", "read")
    ]
    if max(latencies_ms) >= FLUSH_SHARE_MIN * length_s * 1e3:
        return "device"
    if _covers_busy_seconds(stall, series):
        return "device"
    return "generator" if _sent_nothing(stall, series) else "unknown"


def _sent_nothing(stall: Stall, series: Series) -> bool:
    """Return whether no client was active, or nothing was read: then we did not run either.

    In all seconds completely within the stall, and for a server of this machine only.
    """
    first, end = _whole_seconds(stall, series)
    within = {name: values[first:end] for name, values in series.columns.items()}
    active = within.get("backends_active", [])
    if not active or "device_busy_share" not in within:
        return False
    was_paused = all(value is None for values in within.values() for value in values)
    return was_paused or all(value == 0 for value in active)


def _covers_busy_seconds(stall: Stall, series: Series) -> bool:
    """Return whether the device was busy in all seconds completely within the stall."""
    first, end = _whole_seconds(stall, series)
    busy = (series.columns.get("device_busy_share") or [])[first:end]
    return bool(busy) and all(share is not None and share >= BUSY_SHARE_MIN for share in busy)


def _whole_seconds(stall: Stall, series: Series) -> tuple[int, int]:
    """Return the first reading that is completely within the stall, and the end of them."""
    end_s = stall.start_s + stall.length_s
    return math.ceil(stall.start_s / series.period_s), int(end_s / series.period_s)


def _largest(series: Series, column: str, first: int, end: int) -> float | None:
    values = [value for value in (series.columns.get(column) or [])[first:end] if value is not None]
    return max(values, default=None)


DRIVER: Final = {
    "pgbench": "pgbench",
    "telemetry": "pgbench",
    "batch": "script",
    "replay": "replay",
}
"""The engine of each kind of cell."""
_REASON: Final = {
    "pgbench": "pgbench's own log of its transactions",
    "replay": "each statement's own answer, with a connection for each session",
    "script": "timed from start to end, as a shell's time does",
}
_CHECKPOINTS: Final = ("checkpoints_timed", "checkpoints_requested")


class InitialState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the server when the sample began.

    Attributes:
        server: Name and version of the server.
        settings: Settings other than its defaults.
        database_bytes: Size of its databases on disk.
        cached_bytes: Bytes of its files in the page cache; None if unknown.
        notes: What could not be done, as sentences.
    """

    server: str
    settings: dict[str, str]
    database_bytes: int
    cached_bytes: int | None
    notes: list[str]


Parts = tuple[InitialState, DriverResult, Observations, Mapping[str, float]]
"""Initial state of the server, driver's result, observations, and increases of the counters."""


def begin(ready: ReadyServer, cell: Cell, spec: DatabaseSpec) -> InitialState:
    """Read the state of a server to record, and run a checkpoint.

    Raises:
        TargetError: when the server cannot be reached or refuses.
    """
    notes: list[str] = []
    if cell.kind == "telemetry":
        for address in ready.endpoints.addresses:
            with ServerSession(ready.endpoints, address) as session:
                telemetry.set_batch(session.connection, spec.batch_rows)
    with ServerSession(ready.endpoints) as session:
        is_read_only = spec.is_standing and spec.replay is not None and spec.replay.read_only
        if not is_read_only and not session.checkpoint():
            notes.append("The role may not run CHECKPOINT, so samples start anywhere in its cycle.")
        server, settings, size_bytes = session.name(), session.settings(), session.size_bytes()
    in_page_cache_bytes = None
    if ready.data_folder is not None:
        try:
            in_page_cache_bytes = cached_bytes(ready.data_folder)
        except OSError as error:
            notes.append(f"The contents of the page cache are unknown: {error.strerror}.")
    return InitialState(
        server=server,
        settings=settings,
        database_bytes=size_bytes,
        cached_bytes=in_page_cache_bytes,
        notes=notes,
    )


def run_load(
    ready: ReadyServer,
    cell: Cell,
    spec: DatabaseSpec,
    options: DriverOptions,
    watcher: Watcher,
    *,
    background: Background,
) -> Parts:
    """Run the load and monitor it; return the server's state, the result and the observations.

    Raises:
        KeyboardInterrupt: when the user ended it before any result.
        SeatrialError: when the driver fails, or the server died.
    """
    try:
        initial = begin(ready, cell, spec)
        observer = Observer(
            ready.endpoints.addresses[0],
            secret=ready.endpoints.secret,
            data_folder=ready.data_folder,
            server_pid=ready.server_pid,
            client_pids=[os.getpid()],
            databases=[address.dbname for address in ready.endpoints.addresses],
        )
        with background:
            system = SystemCounters(ready.data_folder)
            observer.start()
            try:
                result = drive(cell.kind, spec, ready.endpoints, options, watcher)
            finally:
                observed = observer.stop()
            increases = system.grown()
    except SeatrialError as error:
        raise ready.explain(error) from None
    return initial, result, observed, increases


def sample_of(
    cell: Cell,
    ready: ReadyServer,
    parts: Parts,
    sample_context: SampleContext,
    *,
    ceiling_per_s: float | None,
) -> Sample:
    """Return the sample, not stored yet; ``interrupted`` in its status if the user ended it."""
    initial, result, observed, increases = parts
    series = series_from_start(observed, result.completions)
    engine = DRIVER[cell.kind]
    counters = {
        **observed.counters,
        **increases,
        **result.counters,
        "cpu_user_ns": result.cpu_user_s * NS_PER_S,
        "cpu_system_ns": result.cpu_system_s * NS_PER_S,
    }
    if any(name in counters for name in _CHECKPOINTS):
        counters["checkpoints"] = sum(counters.get(name, 0.0) for name in _CHECKPOINTS)
    return msgspec.convert(
        {
            **msgspec.structs.asdict(result.completions),
            "cell": cell_without(cell, len(result.fleet.lost) if result.fleet else 0),
            "round": sample_context.round_number,
            "position": sample_context.position,
            "status": "interrupted" if result.interrupted else "complete",
            "engine": engine,
            "engine_reason": _REASON[engine],
            "stalls": [attributed(stall, series) for stall in result.completions.stalls],
            "replay": result.replay,
            "fleet": result.fleet,
            "counters": counters,
            "series": series,
            "database": _record(ready, initial, result, observed, ceiling_per_s),
        },
        Sample,
        from_attributes=True,
    )


def series_from_start(observed: Observations, completions: Completions) -> Series:
    """Return the series without the entries before the load, whose timeline begins later.

    Clients connect first, and several hosts begin at an agreed instant. A host's clock may differ
    from ours, so no more is dropped than the load leaves.
    """
    series = observed.series
    entries = max(map(len, series.columns.values()), default=0)
    lead = round((completions.started_at - observed.began_unix_s) / series.period_s)
    spare = entries - round(completions.duration_s / series.period_s)
    first = max(0, min(lead, spare))
    columns = {name: values[first:] for name, values in series.columns.items()}
    known = {name: v for name, v in columns.items() if any(value is not None for value in v)}
    return Series(period_s=series.period_s, columns=known)


def _record(
    ready: ReadyServer,
    initial: InitialState,
    result: DriverResult,
    observed: Observations,
    ceiling_per_s: float | None,
) -> DatabaseRecord:
    return DatabaseRecord(
        server=initial.server,
        binaries=ready.origin,
        settings=initial.settings,
        start_state=ready.start_state,
        cached_bytes=initial.cached_bytes,
        database_bytes=initial.database_bytes,
        loaded_s=None if ready.loaded is None else ready.loaded.loaded_s,
        loaded_rows=0 if ready.loaded is None else ready.loaded.rows,
        cloned=ready.cloned,
        cloned_s=ready.cloned_s,
        waits=observed.waits,
        reported=result.reported,
        client_cpu_share=result.client_cpu_share,
        ceiling_per_s=ceiling_per_s,
        batch_s=result.batch_s,
        start=ready.start,
        locale="" if ready.loaded is None else ready.loaded.locale,
        locale_captured="" if ready.loaded is None else ready.loaded.locale_captured,
        notes=[*ready.notes, *initial.notes, *result.notes, *observed.notes],
    )
