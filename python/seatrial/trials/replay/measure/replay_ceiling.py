"""The replay driver's maximum rate: the same trace, sent to a null server."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import native_errors
from seatrial.measure.progress import SilentWatcher
from seatrial.results.replay import ReplayRecord
from seatrial.trials.database.measure.pgbench_ceiling import SPARE_CONNECTIONS, null_server_folder
from seatrial.trials.database.study.workloads import ReplaySpec
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
