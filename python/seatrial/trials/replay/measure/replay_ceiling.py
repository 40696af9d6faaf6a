"""The replay driver's maximum rate: the same trace, sent to a null server."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError, native_errors
from seatrial.measure.progress import SilentWatcher
from seatrial.postgres.binaries import Binaries
from seatrial.results.replay import ReplayRecord
from seatrial.trials.database.measure import pgbench
from seatrial.trials.database.measure.drive import scripts_of
from seatrial.trials.database.measure.pgbench import Script
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS, DatabaseSpec, ReplaySpec
from seatrial.trials.replay.measure.null_server import (
    SPARE_CONNECTIONS,
    ceiling_per_s,
    null_server_folder,
)
from seatrial.trials.replay.measure.replay import engine_spec, play

USUAL_S: Final = 1.0
STATEMENTS_MIN: Final = 1_000
"""With fewer statements connecting takes more time than sending."""
NEED_CATALOGUE: Final = frozenset({"object", "key"})
"""Orders that the driver cannot keep without the target's catalogue."""
_SLICE_MS: Final = 100
_STALL_THRESHOLD_MS: Final = 60_000


def replay_ceiling_per_s(
    replay: ReplaySpec, *, connections: int, folder: Path | None = None, seconds: float = USUAL_S
) -> float | None:
    """Return the driver's maximum rate of statements per second.

    The trace is replayed at maximum speed, whatever the speed of the cell, from its beginning for
    a few seconds. No IDs are mapped, and orders that need the target's catalogue are replaced by
    that within sessions: a null server has none. Results are cached for the lifetime of this
    process, by trace and order.

    Args:
        replay: The cell's replay.
        connections: Maximum number of connections.
        folder: A folder of the run, for the server's socket.
        seconds: Maximum duration.

    Returns:
        None where the trace has too few statements.

    Raises:
        SeatrialError: when the trace cannot be replayed.
    """
    order = "session" if replay.order in NEED_CATALOGUE else replay.order
    fastest = msgspec.structs.replace(
        replay, speed=None, pace="arrivals", order=order, allow_writes=""
    )
    return _measured(msgspec.json.encode(fastest), connections, folder=folder, seconds=seconds)


@lru_cache(maxsize=64)
def _measured(
    encoded: bytes, connections: int, *, folder: Path | None, seconds: float
) -> float | None:
    replay = msgspec.json.decode(encoded, type=ReplaySpec)
    with null_server_folder(folder) as socket_folder:
        with native_errors():
            server = _core.NullServer(
                folder=socket_folder, connections_max=connections + SPARE_CONNECTIONS
            )
        try:
            endpoints = {
                "host": server.host,
                "port": server.port,
                "database": "null",
                "user": "null",
            }
            spec = engine_spec(
                replay, endpoints, slice_ms=_SLICE_MS, stall_threshold_ms=_STALL_THRESHOLD_MS
            )
            ran = play(spec, SilentWatcher(), seconds_max=seconds)
        finally:
            server.stop()
    sent = msgspec.json.decode(ran.result.record_json, type=ReplayRecord).total.sent
    duration_s = float(ran.result.parts["duration_s"])
    if ran.interrupted:
        raise KeyboardInterrupt
    return sent / duration_s if sent >= STATEMENTS_MIN and duration_s > 0 else None


_SLEEPS: Final = re.compile(r"^\s*\\sleep\b", re.MULTILINE)


class ClientCeiling(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's maximum rate.

    Attributes:
        per_s: Transactions per second of all processes, for a replay statements; None if unknown.
        notes: Why it is unknown or an upper bound, as sentences.
    """

    per_s: float | None = None
    notes: list[str] = []


def client_ceiling(
    kind: str, spec: DatabaseSpec, binaries: Binaries, folder: Path | None = None
) -> ClientCeiling:
    """Return the rate of a cell's client processes with a server that answers immediately.

    Several processes are measured as one with all their clients and threads. The result is cached
    for the lifetime of this process.

    Args:
        kind: Kind of the cell; a batch has no maximum rate.
        spec: Specification of the cell.
        binaries: The programs, with pgbench.
        folder: A folder of the run, cleaned up with it.

    Raises:
        KeyboardInterrupt: when the user ended it.
    """
    if kind == "batch":
        return ClientCeiling()
    if spec.replay is not None:
        return _ceiling_of_replay(spec, spec.replay, folder)
    scripts = scripts_of(kind, spec)
    if any(_sleeps(script) for script in scripts.scripts):
        return ClientCeiling(notes=["The driver's maximum rate is unknown: its script sleeps."])
    try:
        found = ceiling_per_s(
            binaries.program("pgbench"),
            pgbench.script_arguments(spec, scripts),
            # Processes share the cores: multiplying the rate of one by their number would be too
            # high.
            clients=spec.clients * spec.processes,
            threads=pgbench.jobs(spec) * spec.processes,
            folder=folder,
        )
    except TargetError as error:
        return ClientCeiling(notes=[f"The driver's maximum rate is unknown. {error.seen}"])
    return ClientCeiling(per_s=found.transactions_per_s)


def _ceiling_of_replay(
    spec: DatabaseSpec, replay: ReplaySpec, folder: Path | None
) -> ClientCeiling:
    try:
        found = replay_ceiling_per_s(replay, connections=spec.clients, folder=folder)
    except SeatrialError as error:
        return ClientCeiling(notes=[f"The driver's maximum rate is unknown. {error.seen}"])
    if found is None:
        return ClientCeiling(
            notes=["The driver's maximum rate is unknown: the trace is too short."]
        )
    if replay.order in NEED_CATALOGUE:
        note = f"The driver's maximum rate is an upper bound: it excludes the order {replay.order}."
        return ClientCeiling(per_s=found, notes=[note])
    return ClientCeiling(per_s=found)


def _sleeps(script: Script) -> bool:
    is_own = script.name not in BUILTIN_SCRIPTS
    return is_own and bool(_SLEEPS.search(Path(script.name).read_text(errors="replace")))
