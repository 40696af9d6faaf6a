"""What the driver of replays reaches by itself: the same trace, to a server that does nothing."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.measure.progress import Silent
from seatrial.results.replay import ReplayRecord
from seatrial.trials.database.study.workloads import ReplaySpec
from seatrial.trials.replay.measure.null_server import SPARE_CONNECTIONS, null_server_folder
from seatrial.trials.replay.measure.replay import engine_spec, play

USUAL_S: Final = 1.0
STATEMENTS_MIN: Final = 1_000
"""Of fewer the connecting takes more time than the sending."""
_SLICE_MS: Final = 100
_STALL_THRESHOLD_MS: Final = 60_000


def replay_ceiling_per_s(
    replay: ReplaySpec, *, connections: int, place: Path | None = None, seconds: float = USUAL_S
) -> float | None:
    """Return how many statements a second the driver sends and has answered, at most.

    It is played at maximum speed, whatever the speed of the cell, from its beginning for about so
    many seconds. The same trace in the same order gets the same answer without another
    measurement, as long as this process lasts.

    Args:
        replay: What the cell plays.
        connections: At once, at most.
        place: A folder that goes with the run, for the server's socket.
        seconds: How long it is to last at most.

    Returns:
        None where the trace has too few statements to tell.

    Raises:
        SeatrialError: when the trace cannot be played.
    """
    fastest = msgspec.structs.replace(replay, speed=None, pace="arrivals", allow_writes="")
    return _measured(msgspec.json.encode(fastest), connections, place=place, seconds=seconds)


@lru_cache(maxsize=64)
def _measured(
    encoded: bytes, connections: int, *, place: Path | None, seconds: float
) -> float | None:
    replay = msgspec.json.decode(encoded, type=ReplaySpec)
    with null_server_folder(place) as folder:
        server = _core.NullServer(folder=folder, connections_max=connections + SPARE_CONNECTIONS)
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
            ran = play(spec, Silent(), seconds_max=seconds)
        finally:
            server.stop()
    sent = msgspec.json.decode(ran.parts["record"], type=ReplayRecord).total.sent
    duration_s = float(ran.parts["duration_s"])
    if ran.interrupted:
        raise KeyboardInterrupt
    return sent / duration_s if sent >= STATEMENTS_MIN and duration_s > 0 else None
