"""A trace played to a database by ``_core``: started, watched, ended in order, put into parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from seatrial import _core
from seatrial.errors import SeatrialError, TargetError
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.postgres.catalogue import Catalogue, read_catalogue
from seatrial.postgres.connection import driver_way
from seatrial.results.replay import ReplayRecord
from seatrial.trials.database.measure.driver_result import DriverOptions, DriverResult, Endpoints
from seatrial.trials.database.measure.preflight import (
    INFER,
    OFF,
    needs_catalogue,
    require_sequences,
)
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.measure.server_side import ServerSide
from seatrial.trials.database.study.workloads import DatabaseSpec, ReplaySpec
from seatrial.trials.replay.study.cells import OF_TARGETS
from seatrial.trials.replay.study.trace_facts import TraceFacts, trace_facts

POLL_S: Final = 0.1
_KEPT: Final = (
    *("outcome", "operations", "timeline", "stalls", "stalls_dropped"),
    *("errors_count", "errors", "duration_s"),
)
_US_PER_S: Final = 1_000_000


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What a playback gave back.

    Attributes:
        parts: The mapping of ``_core.SqlPlayback.result``.
        interrupted: Whether the user asked for the end.
    """

    parts: dict[str, Any]
    interrupted: bool


def run_replay(
    spec: DatabaseSpec, endpoints: Endpoints, options: DriverOptions, watcher: Watcher
) -> DriverResult:
    """Play a cell's trace to its database.

    An interrupt ends it in order, and what ran is kept; a second one is passed on. A server that
    goes away in mid-replay ends it as well, and that is in the record.

    Raises:
        KeyboardInterrupt: when the user ended it before anything was answered.
        TargetError: when the trace or the server cannot be used.
    """
    replay = required(spec)
    facts = _facts(replay)
    catalogue = _catalogue(replay, endpoints)
    noted = []
    if catalogue is not None and replay.ids == INFER:
        noted = require_sequences(replay, catalogue, endpoints)
    server = ServerSide(endpoints)
    ran = play(_engine_spec(replay, endpoints, options, catalogue), watcher)
    record, untold = server.told(_record(ran.parts, spec, facts), replay.trace)
    if ran.interrupted and record.total.sent == 0:
        raise KeyboardInterrupt
    client, duration_s = record.client, float(ran.parts["duration_s"])
    cpu_ns = client.cpu_user_ns + client.cpu_system_ns
    return DriverResult(
        parts={
            **{name: ran.parts[name] for name in _KEPT},
            "started_at": ran.parts["started_unix_s"],
            "replay": record,
        },
        interrupted=ran.interrupted or record.end == "interrupted",
        cpu_user_s=client.cpu_user_ns / 1e9,
        cpu_system_s=client.cpu_system_ns / 1e9,
        client_cpu_share=cpu_ns / 1e9 / duration_s if duration_s > 0 else None,
        counters=dict(ran.parts.get("counters", {})),
        notes=[*noted, *_notes(record, facts), *untold],
    )


def required(spec: DatabaseSpec) -> ReplaySpec:
    """Return what a cell plays.

    Raises:
        ValueError: when it is no replay.
    """
    if spec.replay is None:
        raise ValueError("a cell of a replay says what is played")
    return spec.replay


def play(spec: dict[str, Any], watcher: Watcher, *, seconds_max: float | None = None) -> Ran:
    """Play to the end, or until the user or ``seconds_max`` ends it.

    Raises:
        KeyboardInterrupt: when the user asked for the end twice.
        SeatrialError: for a defect of ours.
        TargetError: when the trace or the server cannot be used.
    """
    playback = _started(spec)
    live = Live(watcher, is_paced=spec.get("speed") is not None)
    interrupted = False
    waited_s = 0.0
    while True:
        try:
            if playback.wait(POLL_S):
                break
            live.tell(playback.live())
            waited_s += POLL_S
            if seconds_max is not None and waited_s >= seconds_max:
                playback.stop()
        except KeyboardInterrupt:
            playback.stop()
            if interrupted:
                raise
            interrupted = True
    return Ran(parts=_result(playback), interrupted=interrupted)


def engine_spec(
    replay: ReplaySpec,
    server: dict[str, Any],
    *,
    slice_ms: int,
    stall_threshold_ms: int,
    catalogue: Catalogue | None = None,
) -> dict[str, Any]:
    """Return what the engine is told (``crates/playback/src/spec.rs``).

    Without a catalogue ids are sent as they were captured.
    """
    return {
        "ids": replay.ids if catalogue is not None else OFF,
        "catalog": msgspec.to_builtins(catalogue),
        "trace": replay.trace,
        "server": server,
        "speed": replay.speed,
        "pace": replay.pace,
        "order": replay.order,
        "connections_max": replay.connections_max,
        "until_us": None if replay.until_s is None else round(replay.until_s * _US_PER_S),
        "databases": replay.databases,
        "read_only": replay.read_only,
        "allow": [name for name in replay.allow if name not in OF_TARGETS],
        "slice_ms": slice_ms,
        "stall_threshold_ms": stall_threshold_ms,
    }


class Live:
    """Tells whoever watches how far a playback is, from what it says of itself now and then.

    Args:
        watcher: Whom.
        is_paced: Whether statements are due at a time, so that quiet is no sign of trouble.
    """

    def __init__(self, watcher: Watcher, *, is_paced: bool) -> None:
        self._watcher = watcher
        self._is_paced = is_paced
        self._answered = 0.0
        self._elapsed_s = 0.0
        self._quiet_since_s = 0.0

    def tell(self, reported: Mapping[str, float]) -> None:
        """Tell how many statements a second were answered since the last time, and the lag."""
        answered, elapsed_s = reported["answered"], reported["elapsed_s"]
        if answered > self._answered:
            self._quiet_since_s = elapsed_s
        lasted_s = elapsed_s - self._elapsed_s
        per_s = (answered - self._answered) / lasted_s if lasted_s > 0 else 0.0
        self._answered, self._elapsed_s = answered, elapsed_s
        is_waiting = bool(reported["open"]) and not self._is_paced
        self._watcher.live(
            LiveReading(
                elapsed_s=elapsed_s,
                iops=per_s,
                bytes_per_s=0.0,
                p99_ns=0,
                stalls=0,
                oldest_in_flight_ns=int(1e9 * (elapsed_s - self._quiet_since_s) * is_waiting),
                done=int(answered + reported["skipped"]),
                planned=int(reported["captured_total"]),
                lag_ns=int(reported["lag_ns"]),
            )
        )


def _catalogue(replay: ReplaySpec, endpoints: Endpoints) -> Catalogue | None:
    """Return what the target's catalogue says, where the engine has to know."""
    if not needs_catalogue(replay):
        return None
    with ServerSession(endpoints) as session:
        return read_catalogue(session.connection)


def _engine_spec(
    replay: ReplaySpec, endpoints: Endpoints, options: DriverOptions, catalogue: Catalogue | None
) -> dict[str, Any]:
    return engine_spec(
        replay,
        driver_way(endpoints.addresses[0], endpoints.secret),
        slice_ms=options.slice_ms,
        stall_threshold_ms=options.stall_threshold_ms,
        catalogue=catalogue,
    )


def _started(spec: dict[str, Any]) -> _core.SqlPlayback:
    with _explained():
        return _core.start_sql_playback(msgspec.json.encode(spec).decode())


def _result(playback: _core.SqlPlayback) -> dict[str, Any]:
    with _explained():
        return playback.result()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the exceptions of a playback into ours."""
    try:
        yield
    except ValueError as error:
        raise TargetError(
            seen=f"The trace cannot be played: {error.args[-1]}",
            cause="The trace is damaged, or the server's name leads nowhere",
            next_step="Try the trace with `seatrial sql show`, and the server with `psql`",
        ) from None
    except OSError as error:
        raise TargetError(
            seen=f"The trace cannot be played: {error.args[-1]}",
            cause="A limit of this session (open files, threads, memory) is reached",
            next_step="See `ulimit -n`, or play with fewer --connections",
        ) from None
    except RuntimeError as error:
        raise _defect(error) from None


def _facts(replay: ReplaySpec) -> TraceFacts:
    """Return what the trace holds, which must be what the plan was made of.

    Raises:
        TargetError: when it is gone, or another one.
    """
    facts = trace_facts(replay.trace)
    if facts is None or (replay.identity and facts.identity != replay.identity):
        is_gone = facts is None
        raise TargetError(
            seen=f"The trace {replay.trace} is {'gone' if is_gone else 'another one now'}",
            cause="It was moved, or written anew, after the run was planned",
            next_step="Start the run anew, with the trace that is to be played",
        )
    return facts


def _record(parts: dict[str, Any], spec: DatabaseSpec, facts: TraceFacts) -> ReplayRecord:
    record = msgspec.json.decode(parts["record"], type=ReplayRecord)
    return msgspec.structs.replace(
        record, end=parts["end"], words=parts["words"], trace=_reported_of(spec, facts)
    )


def _reported_of(spec: DatabaseSpec, facts: TraceFacts) -> dict[str, str]:
    """Return what the trace says of itself, and how it was played."""
    replay = required(spec)
    reported = {
        "path": replay.trace,
        "identity": facts.identity,
        "files": ", ".join(facts.files),
        "statements": str(facts.statements),
        "sessions": str(facts.sessions),
        "databases": ", ".join(facts.databases),
        "masked": "yes" if facts.is_masked else "no",
        "clock": "yes" if facts.has_clock else "no",
        "speed": "max" if replay.speed is None else f"{replay.speed:g}",
        "pace": replay.pace,
        "order": replay.order,
        "read_only": "yes" if replay.read_only else "no",
        "played_databases": ", ".join(replay.databases),
        "allow": ", ".join(replay.allow),
        "ids": replay.ids,
        "schema": replay.schema,
        "migrated": "yes" if spec.load.migrate else "no",
    }
    if replay.until_s is not None:
        reported["until_s"] = f"{replay.until_s:g}"
    if facts.system_identifier is not None:
        reported["system_identifier"] = facts.system_identifier
    return reported


def _notes(record: ReplayRecord, facts: TraceFacts) -> list[str]:
    notes = []
    if record.end == "server_lost":
        notes.append(f"The server was lost in mid-replay: {record.words or 'without a word'}.")
    if facts.is_masked:
        notes.append(
            "The values in the trace are stand-ins: other rows are found than in the capture, or "
            "none."
        )
    return notes


def _defect(error: RuntimeError) -> SeatrialError:
    return SeatrialError(
        seen=str(error),
        cause="This is a defect of Seatrial, not of your trace",
        next_step="Please report it, if you can with the trace",
    )
