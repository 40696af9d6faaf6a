"""Replays a trace to a database through ``_core``: starts, watches, stops, and returns a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from seatrial import _core
from seatrial.errors import TargetError, native_errors
from seatrial.measure.engine import SampleParts
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.postgres.catalogue import Catalogue, read_catalogue
from seatrial.postgres.connection import driver_parameters
from seatrial.results.fleet import FleetRecord
from seatrial.results.replay import ReplayRecord
from seatrial.study.cell import SpecDocument
from seatrial.trials.database.measure.driver_result import (
    Completions,
    DriverOptions,
    DriverResult,
    Endpoints,
)
from seatrial.trials.database.measure.preflight import (
    INFER,
    OFF,
    needs_catalogue,
    require_sequences,
)
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.measure.server_side import ServerStatistics
from seatrial.trials.database.study.workloads import DatabaseSpec, ReplaySpec
from seatrial.trials.replay.study.cells import OF_TARGETS
from seatrial.trials.replay.study.trace_facts import TraceFacts, trace_facts
from seatrial.units import US_PER_S

POLL_S: Final = 0.1


class MergedPlayback(msgspec.Struct, frozen=True, kw_only=True):
    """The merged result of several playbacks.

    Attributes:
        parts: Like those of ``_core.PlaybackResult``; so are all others.
        record_json: The record.
        end: How it ended.
        words: The server's message if the connection was lost.
    """

    parts: SampleParts
    record_json: str
    end: Literal["complete", "interrupted", "server_lost"]
    words: str


class PlaybackOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a playback.

    Attributes:
        result: Its sample's parts and its record.
        interrupted: Whether the user ended it.
        fleet: The record of several hosts that replayed it together.
    """

    result: _core.PlaybackResult | MergedPlayback
    interrupted: bool
    fleet: FleetRecord | None = None


def run_replay(
    spec: DatabaseSpec, endpoints: Endpoints, options: DriverOptions, watcher: Watcher
) -> DriverResult:
    """Replay a cell's trace to its database.

    An interrupt stops it, keeping what ran; a second one is passed on. A server that is lost during
    the replay ends it as well, which is recorded.

    Raises:
        KeyboardInterrupt: when the user ended it before anything was answered.
        TargetError: when the trace or the server cannot be used.
    """
    replay = required(spec)
    facts = _facts(replay)
    catalogue = _catalogue(replay, endpoints)
    notes = []
    if catalogue is not None and replay.ids == INFER:
        notes = require_sequences(replay, catalogue, endpoints)
    server = ServerStatistics(endpoints)
    document = engine_spec(
        replay,
        driver_parameters(endpoints.addresses[0], endpoints.secret),
        slice_ms=options.slice_ms,
        stall_threshold_ms=options.stall_threshold_ms,
        catalogue=catalogue,
    )
    outcome = (options.play or play)(document, watcher)
    record, missing = server.with_statistics(_record(outcome.result, spec, facts), replay.trace)
    if outcome.interrupted and record.total.sent == 0:
        raise KeyboardInterrupt
    client, completions = record.client, Completions.of(outcome.result.parts)
    duration_s = completions.duration_s
    busiest_s = max(client.loop_cpu_ns, client.reader_cpu_ns) / 1e9
    return DriverResult(
        completions=completions,
        replay=record,
        interrupted=outcome.interrupted or record.end == "interrupted",
        cpu_user_s=client.cpu_user_ns / 1e9,
        cpu_system_s=client.cpu_system_ns / 1e9,
        client_cpu_share=busiest_s / duration_s if duration_s > 0 else None,
        counters=dict(outcome.result.parts.get("counters", {})),
        notes=[*notes, *_notes(record, facts), *missing],
        fleet=outcome.fleet,
    )


def required(spec: DatabaseSpec) -> ReplaySpec:
    """Return a cell's replay specification.

    Raises:
        ValueError: when it is not a replay.
    """
    if spec.replay is None:
        raise ValueError("the cell is not a replay")
    return spec.replay


def play(
    spec: SpecDocument, watcher: Watcher, *, seconds_max: float | None = None
) -> PlaybackOutcome:
    """Replay to the end, or until the user or ``seconds_max`` ends it.

    Raises:
        KeyboardInterrupt: when the user ended it twice.
        SeatrialError: for an internal error.
        TargetError: when the trace or the server cannot be used.
    """
    with native_errors():
        playback = _core.start_sql_playback(msgspec.json.encode(spec).decode())
    live = ProgressReport(watcher, is_paced=spec.get("speed") is not None)
    interrupted = False
    waited_s = 0.0
    while True:
        try:
            if playback.wait(POLL_S):
                break
            live.report(playback.live())
            waited_s += POLL_S
            if seconds_max is not None and waited_s >= seconds_max:
                playback.stop()
        except KeyboardInterrupt:
            playback.stop()
            if interrupted:
                raise
            interrupted = True
    with native_errors():
        return PlaybackOutcome(result=playback.result(), interrupted=interrupted)


def engine_spec(
    replay: ReplaySpec,
    server: Mapping[str, object],
    *,
    slice_ms: int,
    stall_threshold_ms: int,
    catalogue: Catalogue | None = None,
) -> SpecDocument:
    """Return the engine's specification (``crates/playback/src/spec.rs``).

    Without a catalogue ids are sent as captured.
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
        "until_us": None if replay.until_s is None else round(replay.until_s * US_PER_S),
        "databases": replay.databases,
        "read_only": replay.read_only,
        "allow": [name for name in replay.allow if name not in OF_TARGETS],
        "slice_ms": slice_ms,
        "stall_threshold_ms": stall_threshold_ms,
    }


class ProgressReport:
    """Reports the progress of a playback to a watcher.

    Args:
        watcher: The watcher.
        is_paced: Whether statements have due times, so that silence is not a stall.
    """

    def __init__(self, watcher: Watcher, *, is_paced: bool) -> None:
        self._watcher = watcher
        self._is_paced = is_paced
        self._answered = 0
        self._elapsed_s = 0.0
        self._quiet_since_s = 0.0

    def report(self, live: _core.PlaybackLive) -> None:
        """Report the statements answered per second since the last time, and the lag."""
        answered, elapsed_s = live.answered, live.elapsed_s
        if answered > self._answered:
            self._quiet_since_s = elapsed_s
        lasted_s = elapsed_s - self._elapsed_s
        per_s = (answered - self._answered) / lasted_s if lasted_s > 0 else 0.0
        self._answered, self._elapsed_s = answered, elapsed_s
        is_waiting = bool(live.open) and not self._is_paced
        self._watcher.live(
            LiveReading(
                elapsed_s=elapsed_s,
                iops=per_s,
                bytes_per_s=0.0,
                p99_ns=0,
                stalls=0,
                oldest_in_flight_ns=int(1e9 * (elapsed_s - self._quiet_since_s) * is_waiting),
                done=answered + live.skipped,
                planned=live.captured_total,
                lag_ns=live.lag_ns,
            )
        )


def _catalogue(replay: ReplaySpec, endpoints: Endpoints) -> Catalogue | None:
    """Return the target's catalogue, if the engine needs it."""
    if not needs_catalogue(replay):
        return None
    with ServerSession(endpoints) as session:
        return read_catalogue(session.connection)


def _facts(replay: ReplaySpec) -> TraceFacts:
    """Return the facts of the trace, which must be the one of the plan.

    Raises:
        TargetError: when it is missing or another one.
    """
    facts = trace_facts(replay.trace)
    if facts is None or (replay.identity and facts.identity != replay.identity):
        is_gone = facts is None
        raise TargetError(
            seen=f"The trace {replay.trace} is {'missing' if is_gone else 'not the planned one'}",
            cause="It was moved or replaced after the run was planned",
            next_step="Start the run again with the trace to be replayed",
        )
    return facts


def _record(
    result: _core.PlaybackResult | MergedPlayback, spec: DatabaseSpec, facts: TraceFacts
) -> ReplayRecord:
    record = msgspec.json.decode(result.record_json, type=ReplayRecord)
    return msgspec.structs.replace(
        record, end=result.end, words=result.words, trace=_metadata(spec, facts)
    )


def _metadata(spec: DatabaseSpec, facts: TraceFacts) -> dict[str, str]:
    """Return the trace's metadata, and how it was replayed."""
    replay = required(spec)
    metadata = {
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
        metadata["until_s"] = f"{replay.until_s:g}"
    if facts.system_identifier is not None:
        metadata["system_identifier"] = facts.system_identifier
    return metadata


def _notes(record: ReplayRecord, facts: TraceFacts) -> list[str]:
    notes = []
    if record.end == "server_lost":
        notes.append(f"The connection to the server was lost: {record.words or 'no message'}.")
    if facts.is_masked:
        notes.append(
            "The values in the trace are masked: statements find other rows than in the capture, "
            "or none."
        )
    return notes
