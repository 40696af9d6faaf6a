"""Compares the rows after a replay with those of the captured database.

The captured database's rows are in a file next to the trace, or in a specified one. Without it, the
replays of a run are compared with the first of them.

Rows are not identified by their ids: another server generates them differently. A row is identified
by the values of its columns, and an id by the row that it refers to. Columns are added one by one,
the most selective first; a column is equal if the rows, with it, match as well as without.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from seatrial.errors import SeatrialError
from seatrial.lazy import np
from seatrial.postgres.row_content import (
    BYTES_MAX,
    CLOCK,
    ID,
    NUMBERS_MAX,
    RANDOM,
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

PASSES: Final = 3
"""Rows that are distinguished only by rows that they refer to are identified in the next pass."""
ID_SHARE_MIN: Final = 0.95
"""Minimum share of ids of a table among numbers after its name."""
DIFFERENT_SHARE_MAX: Final = 0.1
"""A column with a larger share of differing rows is not used to distinguish rows."""
MISSING: Final = 1
"""Replaces the row of an id that refers to none."""
OWN: Final = 2
"""Replaces a number that is the id of its own row."""

Sides = tuple["np.ndarray", "np.ndarray"]
"""A field of the captured table, and of this one."""


class _IdTable(msgspec.Struct, kw_only=True):
    """A table that generates ids: the ids in order, the row of each, and words for it."""

    ids: Sides
    rows: Sides
    words: np.ndarray

    def distinct(self) -> _IdTable:
        """Return those ids whose row no other row equals: among like rows, any id fits any."""
        kept = [np.sort(_first_and_only(rows)) for rows in self.rows]
        return msgspec.structs.replace(
            self,
            ids=(self.ids[0][kept[0]], self.ids[1][kept[1]]),
            rows=(self.rows[0][kept[0]], self.rows[1][kept[1]]),
        )


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
    comparisons: dict[str, _TableComparison] = {}
    for _ in range(PASSES):
        id_tables = dict(_id_tables(both, comparisons))
        distinct = [table.distinct() for table in id_tables.values()]
        comparisons = {
            name: _TableComparer(*pair, id_tables, distinct).compared()
            for name, pair in both.items()
        }
    different = [
        TableDifference(
            name=name,
            rows_captured=both[name][0].count,
            rows_now=both[name][1].count,
            rows_different=each.rows_different,
            columns=dict(sorted(each.columns.items(), key=lambda item: -item[1])),
        )
        for name, each in comparisons.items()
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
            f"{name}.{column}" for name, each in comparisons.items() for column in each.not_judged
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


def _id_tables(
    both: Mapping[str, tuple[TableContent, TableContent]], found: Mapping[str, _TableComparison]
) -> Iterator[tuple[str, _IdTable]]:
    """Yield the tables that generate ids, with the hashes of their rows so far."""
    for name, (one, other) in both.items():
        field = f"v:{other.id_column}"
        if not other.id_column or field not in one.fields:
            continue
        ids, rows = [], []
        for side, table in enumerate((one, other)):
            ids_of_side = table.fields[field]
            order = np.argsort(ids_of_side)
            is_known = name in found
            hashes = found[name].rows[side] if is_known else np.zeros(table.count, dtype=np.uint64)
            ids.append(ids_of_side[order])
            rows.append(hashes[order])
        words = np.array(other.words, dtype=np.int64).view(np.uint64)
        yield name, _IdTable(ids=(ids[0], ids[1]), rows=(rows[0], rows[1]), words=words)


class _TableComparer:
    """Compares the rows of one table."""

    def __init__(
        self,
        captured: TableContent,
        now: TableContent,
        id_tables: Mapping[str, _IdTable],
        distinct: Sequence[_IdTable],
    ) -> None:
        self._sides = captured, now
        self._id_tables = id_tables
        self._distinct = distinct
        self._rows_max = max(captured.count, now.count)
        self._rows: Sides = (
            np.zeros(captured.count, dtype=np.uint64),
            np.zeros(now.count, dtype=np.uint64),
        )
        self._equal_rows = self._rows
        self._rows_different = abs(captured.count - now.count)
        self._columns: dict[str, int] = {}
        self._different: list[tuple[ContentColumn, str, str]] = []
        self._not_judged: list[str] = []

    def compared(self) -> _TableComparison:
        """Return the differences."""
        for column in self._in_order():
            if column.kind == TEXT:
                self._add_text(column)
            else:
                self._add(column, f"v:{column.name}", column.owner)
        return _TableComparison(
            rows_different=self._count_different(),
            columns=self._columns,
            not_judged=self._not_judged,
            rows=self._equal_rows,
        )

    def _count_different(self) -> int:
        """Return the number of differing rows; count those of each differing column again.

        A column that was added before those that identify its rows was compared as a set of values.
        """
        before, rows = _differing(*self._equal_rows), self._equal_rows
        for column, field, owner in self._different:
            best = self._best(self._equal_rows, before, column, field, owner)
            if best is not None:
                more, _, values = best
                self._columns[column.name] = max(more, self._columns[column.name])
                rows = _combined(rows, values)
        return max([_differing(*rows), *self._columns.values()])

    def _in_order(self) -> list[ContentColumn]:
        """Return the columns of both sides, the most selective first."""
        captured, now = self._sides
        captured_names = {each.name for each in captured.columns}
        chosen = [
            each
            for each in now.columns
            if each.name in captured_names and each.name != now.id_column
        ]

        def rank(column: ContentColumn) -> tuple[int, int, int]:
            field = captured.fields.get(f"v:{column.name}")
            distinct = 0 if field is None else len(np.unique(field))
            last = {ID: 2, TEXT: 1, CLOCK: 3, RANDOM: 3}.get(column.kind, 0)
            last = max(last, 2) if column.owner else last
            may_be_id = field is not None and self._may_be_id(field)
            return last, may_be_id and not column.is_key, -distinct

        return sorted(chosen, key=rank)

    def _may_be_id(self, field: np.ndarray) -> bool:
        """Return whether almost all captured values are ids of some table."""
        return any(
            _share_of(field, table.ids[0]) > ID_SHARE_MIN for table in self._id_tables.values()
        )

    def _add(self, column: ContentColumn, field: str, owner: str) -> None:
        """Add a column."""
        best = self._best(self._rows, self._rows_different, column, field, owner)
        if best is None:
            return
        more, rows, values = best
        if more > 0 and column.kind not in (CLOCK, RANDOM):
            self._different.append((column, field, owner))
        self._judge(column, more, rows, values)

    def _best(
        self, base: Sides, before: int, column: ContentColumn, field: str, owner: str
    ) -> tuple[int, Sides, Sides] | None:
        """Return the interpretation with the fewest differing rows, of which ``base`` has some.

        Returns:
            How many more, the rows with the column, and its values; None where it is missing.
        """
        captured, now = self._sides
        if field not in captured.fields or field not in now.fields:
            return None
        raw = captured.fields[field], now.fields[field]
        best: tuple[int, Sides, Sides] | None = None
        for values in self._interpretations(raw, owner, column):
            rows = _combined(base, values)
            more = _differing(*rows) - before
            if best is None or more < best[0]:
                best = more, rows, values
            if more <= 0:
                break
        return best

    def _interpretations(self, raw: Sides, owner: str, column: ContentColumn) -> Iterator[Sides]:
        """Yield the interpretations of values: the rows that they refer to, or themselves."""
        if owner in self._id_tables and (
            column.kind == ID or _share_of(raw[0], self._id_tables[owner].ids[0]) > ID_SHARE_MIN
        ):
            yield _referenced_rows(raw, self._id_tables[owner], misses=(MISSING, MISSING))
            return
        yield raw
        own = f"v:{self._sides[1].id_column}"
        if own in self._sides[0].fields and own in self._sides[1].fields:
            one, other = (
                np.where(values == side.fields[own], np.uint64(OWN), values)
                for values, side in zip(raw, self._sides, strict=True)
            )
            yield one, other
        for table in self._distinct:
            if _share_of(raw[0], table.ids[0]) > 0:
                yield _referenced_rows(raw, table, misses=raw)

    def _judge(self, column: ContentColumn, more: int, rows: Sides, values: Sides) -> None:
        if more <= 0:
            self._rows, self._equal_rows = rows, _combined(self._equal_rows, values)
            return
        if column.kind in (CLOCK, RANDOM):
            if column.name not in self._not_judged:
                self._not_judged.append(column.name)
            return
        self._columns[column.name] = max(more, self._columns.get(column.name, 0))
        if more <= DIFFERENT_SHARE_MAX * self._rows_max:
            self._rows = rows
            self._rows_different += more

    def _add_text(self, column: ContentColumn) -> None:
        """Add a text: the text without numbers, then each number."""
        captured, _ = self._sides
        self._add(column, f"s:{column.name}", "")
        for nth in range(1, NUMBERS_MAX + 1):
            words = captured.fields.get(f"w{nth}:{column.name}")
            numbers = captured.fields.get(f"n{nth}:{column.name}")
            if words is None or numbers is None or not numbers.any():
                break
            self._add(column, f"n{nth}:{column.name}", self._owner_by(words[numbers != 0]))
        self._add(column, f"r:{column.name}", "")

    def _owner_by(self, words: np.ndarray) -> str:
        """Return the table that the words before numbers refer to; empty for none."""
        return next(
            (
                name
                for name, table in self._id_tables.items()
                if np.isin(words, table.words).mean() > ID_SHARE_MIN
            ),
            "",
        )


def _first_and_only(rows: np.ndarray) -> np.ndarray:
    """Return the indexes of the rows that no other row equals."""
    _, indexes, counts = np.unique(rows, return_index=True, return_counts=True)
    found: np.ndarray = indexes[counts == 1]
    return found


def _share_of(values: np.ndarray, ids: np.ndarray) -> float:
    """Return the share of values, without NULL, that are ids."""
    known = values[values != 0]
    return float(np.isin(known, ids).mean()) if len(known) else 0.0


def _referenced_rows(field: Sides, named: _IdTable, misses: tuple[Any, Any]) -> Sides:
    """Return the hashes of referenced rows, or a placeholder for an id without a row."""
    one, other = (
        _lookup(field[side], named.ids[side], named.rows[side], misses[side]) for side in (0, 1)
    )
    return one, other


def _lookup(
    values: np.ndarray, ids: np.ndarray, rows: np.ndarray, missing: np.ndarray | int
) -> np.ndarray:
    found = np.zeros(len(values), dtype=np.uint64) + np.asarray(missing, dtype=np.uint64)
    if len(ids):
        indexes = np.searchsorted(ids, values).clip(max=len(ids) - 1)
        found = np.where(ids[indexes] == values, rows[indexes], found)
    looked_up: np.ndarray = np.where(values == 0, values, found)
    return looked_up


def _combined(rows: Sides, field: Sides) -> Sides:
    """Return the hashes of rows with one more field."""
    one, other = (_combine_hashes(own, more) for own, more in zip(rows, field, strict=True))
    return one, other


def _combine_hashes(rows: np.ndarray, field: np.ndarray) -> np.ndarray:
    """Combine pairs of hashes. Source: SplitMix64 (Steele, Lea and Flood 2014)."""
    mixed = (rows * np.uint64(0x9E3779B97F4A7C15)) ^ field
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return found


def _differing(captured: np.ndarray, now: np.ndarray) -> int:
    """Return the number of rows missing on either side, whichever is larger."""
    _, indexes = np.unique(np.concatenate([captured, now]), return_inverse=True)
    counts = np.bincount(indexes[: len(captured)], minlength=indexes.max(initial=-1) + 1) - (
        np.bincount(indexes[len(captured) :], minlength=indexes.max(initial=-1) + 1)
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
            content = self._compared(record, cell, spec, endpoints, round_number)
        except SeatrialError as error:
            content = ReplayContent(reason=f"the rows could not be read: {error.seen}")
        content = msgspec.structs.replace(content, duration_s=time.monotonic() - began_s)
        record = msgspec.structs.replace(record, content=content)
        return msgspec.structs.replace(result, replay=record)

    def _compared(
        self,
        record: ReplayRecord,
        cell: Cell,
        spec: DatabaseSpec,
        endpoints: Endpoints,
        round_number: int,
    ) -> ReplayContent:
        replay = required(spec)
        if reason := _obstacle(record, spec):
            return ReplayContent(reason=reason)
        file = rows_file(replay)
        if file.is_file():
            captured = load_content(file)
            now = _read(endpoints, BYTES_MAX)
            return compare_content(captured, now, against=CAPTURE, file=str(file))
        if replay.compare_rows:
            return ReplayContent(reason=f"{file} no longer exists")
        if self._replays > 1 and spec.clone != "reuse":
            return self._compare_with_first(cell, spec, endpoints, round_number)
        return ReplayContent(reason=f"there are no rows of the captured database ({file.name})")

    def _compare_with_first(
        self, cell: Cell, spec: DatabaseSpec, endpoints: Endpoints, round_number: int
    ) -> ReplayContent:
        """Compare the rows with those after the first replay of the same kind."""
        replay = required(spec)
        key = msgspec.json.encode([spec.load, replay.identity, replay.schema])
        now = _read(endpoints, COUNTED_BYTES_MAX)
        if key not in self._first:
            self._first[key] = (f"round {round_number + 1} on {cell.target}", now)
            return ReplayContent(
                reason="this is the first replay, which the others are compared with"
            )
        file, first = self._first[key]
        return compare_content(first, now, against=REPLAY, file=file)


def rows_file(replay: ReplaySpec) -> Path:
    """Return the path of the captured database's rows."""
    return Path(replay.compare_rows or f"{replay.trace}{SUFFIX}")


def _obstacle(record: ReplayRecord, spec: DatabaseSpec) -> str:
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
