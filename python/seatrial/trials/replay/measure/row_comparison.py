"""Whether a replay left the rows that the captured database held: read afterwards, held against it.

What the captured database held is in a file beside the trace, or named. Where there is none, the
replays of a run are held against the first of them.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from seatrial.errors import SeatrialError
from seatrial.postgres.row_content import BYTES_MAX, Content, read_content
from seatrial.postgres.row_file import SUFFIX, load_content
from seatrial.results.replay import ReplayRecord
from seatrial.results.replay_content import CAPTURE, REPLAY, ReplayContent
from seatrial.study.cell import Cell
from seatrial.trials.database.measure.driver_result import DriverResult, Endpoints
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.measure.start_state import COUNTED_BYTES_MAX
from seatrial.trials.database.study.workloads import DatabaseSpec, ReplaySpec
from seatrial.trials.replay.measure.replay import required
from seatrial.trials.replay.measure.row_differences import compare_content

COMPLETE = "complete"


class RowComparison:
    """Compares the rows of a run's replays.

    Args:
        replays: How many there will be.
    """

    def __init__(self, replays: int) -> None:
        self._replays = replays
        self._first: dict[bytes, tuple[str, Content]] = {}

    def with_content(
        self,
        result: DriverResult,
        cell: Cell,
        spec: DatabaseSpec,
        endpoints: Endpoints,
        round_number: int,
    ) -> DriverResult:
        """Return what a driver did, with what the database holds now against the captured one.

        Args:
            result: Of a replay.
            cell: What was played.
            spec: Of the cell.
            endpoints: To the database, which nobody writes to any more.
            round_number: From 0.
        """
        record: ReplayRecord = result.parts["replay"]
        if required(spec).read_only:
            return result
        began_s = time.monotonic()
        try:
            found = self._compared(record, cell, spec, endpoints, round_number)
        except SeatrialError as error:
            found = ReplayContent(reason=f"the rows could not be read: {error.seen}")
        found = msgspec.structs.replace(found, looked_s=time.monotonic() - began_s)
        reported = msgspec.structs.replace(record, content=found)
        return msgspec.structs.replace(result, parts={**result.parts, "replay": reported})

    def _compared(
        self,
        record: ReplayRecord,
        cell: Cell,
        spec: DatabaseSpec,
        endpoints: Endpoints,
        round_number: int,
    ) -> ReplayContent:
        replay = required(spec)
        if reason := _why_not(record, spec):
            return ReplayContent(reason=reason)
        named = rows_file(replay)
        if named.is_file():
            captured = load_content(named)
            now = _read(endpoints, BYTES_MAX)
            return compare_content(captured, now, against=CAPTURE, file=str(named))
        if replay.compare_rows:
            return ReplayContent(reason=f"{named} is gone")
        if self._replays > 1 and spec.clone != "reuse":
            return self._with_the_first(cell, spec, endpoints, round_number)
        return ReplayContent(reason=f"nothing tells what the captured database held ({named.name})")

    def _with_the_first(
        self, cell: Cell, spec: DatabaseSpec, endpoints: Endpoints, round_number: int
    ) -> ReplayContent:
        """Hold the rows against those that the first replay of the same left."""
        replay = required(spec)
        alike = msgspec.json.encode([spec.load, replay.identity, replay.schema])
        now = _read(endpoints, COUNTED_BYTES_MAX)
        if alike not in self._first:
            self._first[alike] = (f"round {round_number + 1} on {cell.target}", now)
            return ReplayContent(reason="it is the first replay, which others are held against")
        file, first = self._first[alike]
        return compare_content(first, now, against=REPLAY, file=file)


def rows_file(replay: ReplaySpec) -> Path:
    """Return where the rows of the captured database are, if they are."""
    return Path(replay.compare_rows or f"{replay.trace}{SUFFIX}")


def _why_not(record: ReplayRecord, spec: DatabaseSpec) -> str:
    """Return why the rows of a replay are not compared; empty where they are."""
    replay = required(spec)
    if record.end != COMPLETE:
        return "the replay did not come to its end"
    if record.trace.get("masked") == "yes":
        return "the trace holds stand-ins for the captured values"
    if replay.until_s is not None:
        return "only a part of the trace was played (--until)"
    is_ours = not replay.is_standing or spec.clone == "template"
    if not (is_ours or replay.compare_rows):
        return "the database is not one that Seatrial made; --compare-rows asks for it"
    return ""


def _read(endpoints: Endpoints, bytes_max: int) -> Content:
    with ServerSession(endpoints) as session:
        return read_content(session.connection, bytes_max=bytes_max)
