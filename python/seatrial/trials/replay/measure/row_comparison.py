"""Compares the rows after a replay with those of the captured database.

The captured database's rows are in a file next to the trace, or in a specified one. Without it, the
replays of a run are compared with the first of them.

Rows are not identified by their ids: another server generates them differently. A row is identified
by the values of its columns, and an id by the row that it refers to. Columns are added one by one,
the most selective first; a column is equal if the rows, with it, match as well as without.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial.errors import SeatrialError
from seatrial.postgres.row_content import (
    BYTES_MAX,
    CHANCE,
    CLOCK,
    ID,
    MENTIONS_MAX,
    SUFFIX,
    TEXT,
    Content,
    ContentColumn,
    TableContent,
    load_content,
    read_content,
)
from seatrial.results.replay import CAPTURE, REPLAY, ReplayContent, ReplayRecord, TableDifference
from seatrial.study.cell import Cell
from seatrial.trials.database.measure.driver_result import DriverResult, Endpoints
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.measure.start_state import COUNTED_BYTES_MAX
from seatrial.trials.database.study.workloads import DatabaseSpec, ReplaySpec
from seatrial.trials.replay.measure.replay import required

if TYPE_CHECKING:
    import numpy as np


PASSES: Final = 3
"""Rows that are distinguished only by rows that they refer to are identified in the next pass."""
NAMED_SHARE: Final = 0.95
"""Share of the numbers after a table's name that must be ids of it."""
FEW_SHARE: Final = 0.1
"""A column with a larger share of differing rows is not used to distinguish rows."""
MISSING: Final = 1
"""Replaces the row of an id that refers to none."""

Sides = tuple["np.ndarray", "np.ndarray"]
"""A field of the captured table, and of this one."""


class _Named(msgspec.Struct, kw_only=True):
    """A table that generates ids: the ids in order, the row of each, and words for it."""

    ids: Sides
    rows: Sides
    words: np.ndarray


class _TableComparison(msgspec.Struct, kw_only=True):
    """The comparison of a table.

    Attributes:
        rows_different: As of a ``TableDifference``; ``columns`` likewise.
        not_judged: Differing columns of time or random values.
        rows: Hashes of each row's equal columns, on both sides.
    """

    rows_different: int
    columns: dict[str, int]
    not_judged: list[str]
    rows: Sides


def compare_content(captured: Content, now: Content, *, against: str, file: str) -> ReplayContent:
    """Return the differences between the captured database and this one.

    Args:
        captured: The rows of the captured database, or of an earlier replay.
        now: The rows of this one, after the replay.
        against: Which of these it is, as in a ``ReplayContent``; ``file`` likewise.
        file: The file with them.
    """
    both = {
        name: (captured.tables[name], table)
        for name, table in now.tables.items()
        if name in captured.tables
    }
    found: dict[str, _TableComparison] = {}
    for _ in range(PASSES):
        named = dict(_named(both, found))
        found = {name: _Table(*pair, named).compared() for name, pair in both.items()}
    different = [
        TableDifference(
            name=name,
            rows_captured=both[name][0].count,
            rows_now=both[name][1].count,
            rows_different=each.rows_different,
            columns=dict(sorted(each.columns.items(), key=lambda item: -item[1])),
        )
        for name, each in found.items()
        if each.rows_different
    ]
    return ReplayContent(
        against=against if both else "",
        file=file,
        taken_at=captured.taken_at,
        tables=len(both),
        rows=sum(one.count for one, _ in both.values()),
        different=sorted(different, key=lambda each: -each.rows_different),
        not_judged=sorted(
            f"{name}.{column}" for name, each in found.items() for column in each.not_judged
        ),
        not_compared=_not_compared(captured, now),
        reason="" if both else "the two databases have no common table that was read",
    )


def _not_compared(captured: Content, now: Content) -> dict[str, str]:
    """Return the tables that were not compared, and why."""
    found = {**now.unread, **captured.unread}
    for name in captured.tables.keys() - now.tables.keys() - found.keys():
        found[name] = "missing here"
    for name in now.tables.keys() - captured.tables.keys() - found.keys():
        found[name] = "missing in the captured database"
    return found


def _named(
    both: Mapping[str, tuple[TableContent, TableContent]], found: Mapping[str, _TableComparison]
) -> Iterator[tuple[str, _Named]]:
    """Yield the tables that generate ids, with the hashes of their rows so far."""
    import numpy as np  # noqa: PLC0415 - heavy

    for name, (one, other) in both.items():
        field = f"v:{other.id_column}"
        if not other.id_column or field not in one.fields:
            continue
        ids, rows = [], []
        for side, table in enumerate((one, other)):
            own = table.fields[field]
            order = np.argsort(own)
            is_known = name in found
            reported = (
                found[name].rows[side] if is_known else np.zeros(table.count, dtype=np.uint64)
            )
            ids.append(own[order])
            rows.append(reported[order])
        words = np.array(other.words, dtype=np.int64).view(np.uint64)
        yield name, _Named(ids=(ids[0], ids[1]), rows=(rows[0], rows[1]), words=words)


class _Table:
    """Compares the rows of one table."""

    def __init__(
        self, captured: TableContent, now: TableContent, named: Mapping[str, _Named]
    ) -> None:
        import numpy as np  # noqa: PLC0415 - heavy

        self._sides = captured, now
        self._named = named
        self._most = max(captured.count, now.count)
        self._rows: Sides = (
            np.zeros(captured.count, dtype=np.uint64),
            np.zeros(now.count, dtype=np.uint64),
        )
        self._alike = self._rows
        self._rows_different = self._different_most = abs(captured.count - now.count)
        self._columns: dict[str, int] = {}
        self._not_judged: list[str] = []

    def compared(self) -> _TableComparison:
        """Return the differences."""
        for column in self._in_order():
            if column.kind == TEXT:
                self._take_text(column)
            else:
                self._take(column, f"v:{column.name}", column.owner)
        return _TableComparison(
            rows_different=max(self._different_most, self._rows_different),
            columns=self._columns,
            not_judged=self._not_judged,
            rows=self._alike,
        )

    def _in_order(self) -> list[ContentColumn]:
        """Return the columns of both sides, the most selective first."""
        import numpy as np  # noqa: PLC0415 - heavy

        captured, now = self._sides
        there = {each.name for each in captured.columns}
        chosen = [each for each in now.columns if each.name in there and each.name != now.id_column]

        def rank(column: ContentColumn) -> tuple[int, int, int]:
            field = captured.fields.get(f"v:{column.name}")
            distinct = 0 if field is None else len(np.unique(field))
            last = {ID: 2, TEXT: 1, CLOCK: 3, CHANCE: 3}.get(column.kind, 0)
            last = max(last, 2) if column.owner else last
            may_be_id = field is not None and self._may_be_id(field)
            return last, may_be_id and not column.is_key, -distinct

        return sorted(chosen, key=rank)

    def _may_be_id(self, field: np.ndarray) -> bool:
        """Return whether almost all captured values are ids of some table."""
        return any(_share_of(field, named.ids[0]) > NAMED_SHARE for named in self._named.values())

    def _take(self, column: ContentColumn, field: str, owner: str) -> None:
        """Add a column, by the interpretation with the fewest differing rows."""
        captured, now = self._sides
        if field not in captured.fields or field not in now.fields:
            return
        raw = captured.fields[field], now.fields[field]
        best: tuple[int, Sides, Sides] | None = None
        for endpoints in self._ways(raw, owner, column):
            rows = _mixed(self._rows, endpoints)
            more = _differing(*rows) - self._rows_different
            if best is None or more < best[0]:
                best = more, rows, endpoints
            if more <= 0:
                break
        if best is not None:
            self._judge(column, *best)

    def _ways(self, raw: Sides, owner: str, column: ContentColumn) -> Iterator[Sides]:
        """Yield the interpretations of values: the rows that they refer to, or themselves."""
        if owner in self._named and (
            column.kind == ID or _share_of(raw[0], self._named[owner].ids[0]) > NAMED_SHARE
        ):
            yield _naming(raw, self._named[owner], misses=(MISSING, MISSING))
            return
        yield raw
        for named in self._named.values():
            if _share_of(raw[0], named.ids[0]) > 0:
                yield _naming(raw, named, misses=raw)

    def _judge(self, column: ContentColumn, more: int, rows: Sides, endpoints: Sides) -> None:
        if more <= 0:
            self._rows, self._alike = rows, _mixed(self._alike, endpoints)
            return
        if column.kind in (CLOCK, CHANCE):
            if column.name not in self._not_judged:
                self._not_judged.append(column.name)
            return
        self._columns[column.name] = max(more, self._columns.get(column.name, 0))
        self._different_most = max(self._different_most, self._rows_different + more)
        if more <= FEW_SHARE * self._most:
            self._rows = rows
            self._rows_different += more

    def _take_text(self, column: ContentColumn) -> None:
        """Add a text: the text without numbers, then each number."""
        captured, _ = self._sides
        self._take(column, f"s:{column.name}", "")
        for nth in range(1, MENTIONS_MAX + 1):
            words = captured.fields.get(f"w{nth}:{column.name}")
            numbers = captured.fields.get(f"n{nth}:{column.name}")
            if words is None or numbers is None or not numbers.any():
                break
            self._take(column, f"n{nth}:{column.name}", self._owner_by(words[numbers != 0]))
        self._take(column, f"r:{column.name}", "")

    def _owner_by(self, words: np.ndarray) -> str:
        """Return the table that the words before numbers refer to; empty for none."""
        import numpy as np  # noqa: PLC0415 - heavy

        return next(
            (
                name
                for name, named in self._named.items()
                if np.isin(words, named.words).mean() > NAMED_SHARE
            ),
            "",
        )


def _share_of(values: np.ndarray, ids: np.ndarray) -> float:
    """Return the share of values, without NULL, that are ids."""
    import numpy as np  # noqa: PLC0415 - heavy

    reported = values[values != 0]
    return float(np.isin(reported, ids).mean()) if len(reported) else 0.0


def _naming(field: Sides, named: _Named, misses: tuple[Any, Any]) -> Sides:
    """Return the hashes of referenced rows, or a placeholder for an id without a row."""
    one, other = (
        _looked_up(field[side], named.ids[side], named.rows[side], misses[side]) for side in (0, 1)
    )
    return one, other


def _looked_up(
    values: np.ndarray, ids: np.ndarray, rows: np.ndarray, missing: np.ndarray | int
) -> np.ndarray:
    import numpy as np  # noqa: PLC0415 - heavy

    found = np.zeros(len(values), dtype=np.uint64) + np.asarray(missing, dtype=np.uint64)
    if len(ids):
        places = np.searchsorted(ids, values).clip(max=len(ids) - 1)
        found = np.where(ids[places] == values, rows[places], found)
    named: np.ndarray = np.where(values == 0, values, found)
    return named


def _mixed(rows: Sides, field: Sides) -> Sides:
    """Return the hashes of rows with one more field."""
    one, other = (_mix(own, more) for own, more in zip(rows, field, strict=True))
    return one, other


def _mix(rows: np.ndarray, field: np.ndarray) -> np.ndarray:
    """Combine pairs of hashes. Source: SplitMix64 (Steele, Lea and Flood 2014)."""
    import numpy as np  # noqa: PLC0415 - heavy

    mixed = (rows * np.uint64(0x9E3779B97F4A7C15)) ^ field
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return found


def _differing(captured: np.ndarray, now: np.ndarray) -> int:
    """Return the number of rows missing on either side, whichever is larger."""
    import numpy as np  # noqa: PLC0415 - heavy

    _, places = np.unique(np.concatenate([captured, now]), return_inverse=True)
    counts = np.bincount(places[: len(captured)], minlength=places.max(initial=-1) + 1) - (
        np.bincount(places[len(captured) :], minlength=places.max(initial=-1) + 1)
    )
    return int(max(counts[counts > 0].sum(), -counts[counts < 0].sum()))


COMPLETE = "complete"


class RowComparison:
    """Compares the rows of a run's replays.

    Args:
        replays: Number of replays.
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
        """Return a driver's result with the comparison of the database's rows.

        Args:
            result: Result of a replay.
            cell: The cell.
            spec: Specification of the cell.
            endpoints: The database, which has no more writers.
            round_number: From 0.
        """
        record = result.replay
        if record is None or required(spec).read_only:
            return result
        began_s = time.monotonic()
        try:
            found = self._compared(record, cell, spec, endpoints, round_number)
        except SeatrialError as error:
            found = ReplayContent(reason=f"the rows could not be read: {error.seen}")
        found = msgspec.structs.replace(found, looked_s=time.monotonic() - began_s)
        reported = msgspec.structs.replace(record, content=found)
        return msgspec.structs.replace(result, replay=reported)

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
            return ReplayContent(reason=f"{named} no longer exists")
        if self._replays > 1 and spec.clone != "reuse":
            return self._with_the_first(cell, spec, endpoints, round_number)
        return ReplayContent(reason=f"there are no rows of the captured database ({named.name})")

    def _with_the_first(
        self, cell: Cell, spec: DatabaseSpec, endpoints: Endpoints, round_number: int
    ) -> ReplayContent:
        """Compare the rows with those after the first replay of the same kind."""
        replay = required(spec)
        alike = msgspec.json.encode([spec.load, replay.identity, replay.schema])
        now = _read(endpoints, COUNTED_BYTES_MAX)
        if alike not in self._first:
            self._first[alike] = (f"round {round_number + 1} on {cell.target}", now)
            return ReplayContent(
                reason="this is the first replay, which the others are compared with"
            )
        file, first = self._first[alike]
        return compare_content(first, now, against=REPLAY, file=file)


def rows_file(replay: ReplaySpec) -> Path:
    """Return the path of the captured database's rows."""
    return Path(replay.compare_rows or f"{replay.trace}{SUFFIX}")


def _why_not(record: ReplayRecord, spec: DatabaseSpec) -> str:
    """Return why the rows of a replay are not compared; empty if they are."""
    replay = required(spec)
    if record.end != COMPLETE:
        return "the replay did not finish"
    if record.trace.get("masked") == "yes":
        return "the values of the trace are masked"
    if replay.until_s is not None:
        return "only part of the trace was replayed (--until)"
    is_ours = not replay.is_standing or spec.clone == "template"
    if not (is_ours or replay.compare_rows):
        return "the database was not created by Seatrial; use --compare-rows"
    return ""


def _read(endpoints: Endpoints, bytes_max: int) -> Content:
    with ServerSession(endpoints) as session:
        return read_content(session.connection, bytes_max=bytes_max)
