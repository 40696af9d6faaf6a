"""Which rows of two databases differ, whatever ids their servers gave.

Rows have no names of their own here: a server numbers them otherwise than another did. So a row is
known by what its columns hold, and an id stands for the row that it names. Columns are taken one by
one, those first that tell most rows apart; a column is alike where the rows, with it, are as much
alike as without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial.postgres.row_content import (
    CHANCE,
    CLOCK,
    ID,
    MENTIONS_MAX,
    TEXT,
    Content,
    ContentColumn,
    TableContent,
)
from seatrial.results.replay_content import ReplayContent, TableDifference

if TYPE_CHECKING:
    import numpy as np

PASSES: Final = 3
"""Rows that are only told apart by those that they name are known in the next pass."""
NAMED_SHARE: Final = 0.95
"""Of the numbers behind a word that names a table, those that have to be ids of it."""
FEW_SHARE: Final = 0.1
"""A column of which more rows differ does not help to tell rows apart."""
MISSING: Final = 1
"""In place of the row of an id that names none."""

Sides = tuple["np.ndarray", "np.ndarray"]
"""A field of the captured table, and of this one."""


class _Named(msgspec.Struct, kw_only=True):
    """A table that gives ids: these, in order, what the row of each is, and words that name it."""

    ids: Sides
    rows: Sides
    words: np.ndarray


class _Found(msgspec.Struct, kw_only=True):
    """What came of a table.

    Attributes:
        rows_different: As of a ``TableDifference``; ``columns`` likewise.
        not_judged: Columns of clock and chance that differ.
        rows: What each row is by columns that are alike, on both sides.
    """

    rows_different: int
    columns: dict[str, int]
    not_judged: list[str]
    rows: Sides


def compare_content(captured: Content, now: Content, *, against: str, file: str) -> ReplayContent:
    """Return what differs between the captured database and this one.

    Args:
        captured: The rows of the captured one, or of an earlier replay's.
        now: Of this one, after the replay.
        against: Which of these it is, as of a ``ReplayContent``; ``file`` likewise.
        file: What held them.
    """
    both = {
        name: (captured.tables[name], table)
        for name, table in now.tables.items()
        if name in captured.tables
    }
    found: dict[str, _Found] = {}
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
        reason="" if both else "the two databases have no table in common that was read",
    )


def _not_compared(captured: Content, now: Content) -> dict[str, str]:
    """Return the tables that were not compared, and why."""
    found = {**now.unread, **captured.unread}
    for name in captured.tables.keys() - now.tables.keys() - found.keys():
        found[name] = "it is not here"
    for name in now.tables.keys() - captured.tables.keys() - found.keys():
        found[name] = "the captured database had none of that name"
    return found


def _named(
    both: Mapping[str, tuple[TableContent, TableContent]], found: Mapping[str, _Found]
) -> Iterator[tuple[str, _Named]]:
    """Yield the tables that give ids, with what their rows are as far as was found."""
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

    def compared(self) -> _Found:
        """Return what differs."""
        for column in self._in_order():
            if column.kind == TEXT:
                self._take_text(column)
            else:
                self._take(column, f"v:{column.name}", column.owner)
        return _Found(
            rows_different=max(self._different_most, self._rows_different),
            columns=self._columns,
            not_judged=self._not_judged,
            rows=self._alike,
        )

    def _in_order(self) -> list[ContentColumn]:
        """Return the columns that both sides have: those first that tell rows apart for certain."""
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
        """Tell whether the captured values are ids of some table, all but a few."""
        return any(_share_of(field, named.ids[0]) > NAMED_SHARE for named in self._named.values())

    def _take(self, column: ContentColumn, field: str, owner: str) -> None:
        """Take a column with the others, in the way in which the fewest rows differ."""
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
        """Yield what values may mean: the rows that they name, or they themselves."""
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
        """Take a text: what is no number, then each number."""
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
        """Return the table that the words before numbers name; empty for none."""
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
    """Return the share of values, NULL left out, that are ids."""
    import numpy as np  # noqa: PLC0415 - heavy

    reported = values[values != 0]
    return float(np.isin(reported, ids).mean()) if len(reported) else 0.0


def _naming(field: Sides, named: _Named, misses: tuple[Any, Any]) -> Sides:
    """Return what the rows are that ids name, and what stands for an id that names none."""
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
    """Return what rows are with one more field."""
    one, other = (_mix(own, more) for own, more in zip(rows, field, strict=True))
    return one, other


def _mix(rows: np.ndarray, field: np.ndarray) -> np.ndarray:
    """Return hashes of two hashes each. Source: SplitMix64 (Steele, Lea and Flood 2014)."""
    import numpy as np  # noqa: PLC0415 - heavy

    mixed = (rows * np.uint64(0x9E3779B97F4A7C15)) ^ field
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: np.ndarray = mixed ^ (mixed >> np.uint64(31))
    return found


def _differing(captured: np.ndarray, now: np.ndarray) -> int:
    """Return how many rows of the one side, or of the other, the other one lacks."""
    import numpy as np  # noqa: PLC0415 - heavy

    _, places = np.unique(np.concatenate([captured, now]), return_inverse=True)
    counts = np.bincount(places[: len(captured)], minlength=places.max(initial=-1) + 1) - (
        np.bincount(places[len(captured) :], minlength=places.max(initial=-1) + 1)
    )
    return int(max(counts[counts > 0].sum(), -counts[counts < 0].sum()))
