"""From a server that is ready to an ordinary sample: asked, watched, put under load."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from seatrial.errors import SeatrialError
from seatrial.measure.background import Background
from seatrial.measure.progress import Watcher
from seatrial.measure.surroundings import Surroundings
from seatrial.postgres.page_cache import cached_bytes
from seatrial.results.model import DatabaseRecord, Sample
from seatrial.study.cell import Cell
from seatrial.trials.database.measure import telemetry
from seatrial.trials.database.measure.attribution import attributed
from seatrial.trials.database.measure.drive import drive
from seatrial.trials.database.measure.driver_result import DriverOptions, DriverResult
from seatrial.trials.database.measure.observe import Observed, Observer
from seatrial.trials.database.measure.ready import Ready
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.study.workloads import DatabaseSpec

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
NS_PER_S: Final = 1e9


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What the server was when the sample began.

    Attributes:
        server: As it calls itself.
        settings: That are not its defaults.
        database_bytes: Of its databases on disk.
        cached_bytes: Of its files in the page cache; None if unknown.
        notes: What could not be done, as sentences.
    """

    server: str
    settings: dict[str, str]
    database_bytes: int
    cached_bytes: int | None
    notes: list[str]


Parts = tuple[Begun, DriverResult, Observed, Mapping[str, float]]
"""What the server was, what was done, what was seen, and what the counters grew by."""


def begin(ready: Ready, cell: Cell, spec: DatabaseSpec) -> Begun:
    """Ask what is recorded of a server, and bring it to the start of its checkpoints' cycle.

    Raises:
        TargetError: when the server cannot be reached or refuses.
    """
    notes: list[str] = []
    if cell.kind == "telemetry":
        for address in ready.endpoints.addresses:
            with ServerSession(ready.endpoints, address) as session:
                telemetry.set_batch(session.connection, spec.batch_rows)
    with ServerSession(ready.endpoints) as session:
        is_left_alone = spec.is_standing and spec.replay is not None and spec.replay.read_only
        if not is_left_alone and not session.checkpoint():
            notes.append("The user may not CHECKPOINT, so samples begin anywhere in its cycle.")
        server, settings, size_bytes = session.name(), session.settings(), session.size_bytes()
    held_bytes = None
    if ready.place is not None:
        try:
            held_bytes = cached_bytes(ready.place)
        except OSError as error:
            notes.append(f"What the page cache holds is not known: {error.strerror}.")
    return Begun(
        server=server,
        settings=settings,
        database_bytes=size_bytes,
        cached_bytes=held_bytes,
        notes=notes,
    )


def measured(
    ready: Ready,
    cell: Cell,
    spec: DatabaseSpec,
    options: DriverOptions,
    watcher: Watcher,
    *,
    background: Background,
) -> Parts:
    """Put the load on and watch; return what the server was, what was done, and what was seen.

    Raises:
        KeyboardInterrupt: when the user ended it before there was anything to keep.
        SeatrialError: when the driver gives up, or the server died.
    """
    try:
        begun = begin(ready, cell, spec)
        observer = Observer(
            ready.endpoints.addresses[0],
            secret=ready.endpoints.secret,
            place=ready.place,
            server_pid=ready.server_pid,
            client_pids=[os.getpid()],
            databases=[address.dbname for address in ready.endpoints.addresses],
        )
        with background:
            surroundings = Surroundings(ready.place)
            observer.start()
            try:
                result = drive(cell.kind, spec, ready.endpoints, options, watcher)
            finally:
                observed = observer.stop()
            grown = surroundings.grown()
    except SeatrialError as error:
        raise ready.explain(error) from None
    return begun, result, observed, grown


def sample_of(
    cell: Cell,
    ready: Ready,
    parts: Parts,
    *,
    round_number: int,
    position: int,
    ceiling_per_s: float | None,
) -> Sample:
    """Return the sample, not stored yet; ``interrupted`` in its status if the user ended it."""
    begun, result, observed, grown = parts
    engine = DRIVER[cell.kind]
    counters = {
        **observed.counters,
        **grown,
        **result.counters,
        "cpu_user_ns": result.cpu_user_s * NS_PER_S,
        "cpu_system_ns": result.cpu_system_s * NS_PER_S,
    }
    if any(name in counters for name in _CHECKPOINTS):
        counters["checkpoints"] = sum(counters.get(name, 0.0) for name in _CHECKPOINTS)
    stalls = result.parts.get("stalls", [])
    return msgspec.convert(
        {
            **result.parts,
            "cell": cell,
            "round": round_number,
            "position": position,
            "status": "interrupted" if result.interrupted else "complete",
            "engine": engine,
            "engine_reason": _REASON[engine],
            "stalls": [attributed(stall, observed.series) for stall in stalls],
            "counters": counters,
            "series": observed.series,
            "database": _record(ready, begun, result, observed, ceiling_per_s),
        },
        Sample,
        from_attributes=True,
    )


def _record(
    ready: Ready,
    begun: Begun,
    result: DriverResult,
    observed: Observed,
    ceiling_per_s: float | None,
) -> DatabaseRecord:
    return DatabaseRecord(
        server=begun.server,
        binaries=ready.origin,
        settings=begun.settings,
        start_state=ready.start_state,
        cached_bytes=begun.cached_bytes,
        database_bytes=begun.database_bytes,
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
        notes=[*ready.notes, *begun.notes, *result.notes, *observed.notes],
    )
