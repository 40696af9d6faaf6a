"""Counters of pg_stat_statements, of any version from 1.8 (PostgreSQL 13) on.

The columns that are read, with their names by version of the extension (the server's
``contrib/pg_stat_statements/pg_stat_statements--*.sql``):

| what | 1.8 to 1.12 |
|---|---|
| who and what | ``userid``, ``dbid``, ``queryid``, ``query``; ``toplevel`` from 1.9 |
| calls and time | ``calls``, ``rows``, ``total_exec_time`` (ms) |
| blocks | ``shared_blks_hit``, ``shared_blks_read`` |
| log | ``wal_bytes`` |
| since when | ``stats_since`` from 1.11 (PostgreSQL 17) |

With ``pg_stat_statements.track = all`` statements inside functions have their own rows, and their
time is included in the call that contains them as well: those with ``toplevel`` false are excluded.
Before 1.9 they cannot be distinguished. A role without ``pg_read_all_stats`` sees the statements of
other roles only as ``<insufficient privilege>``.

Planning is not counted, which few servers time (``track_planning``): a side that does would be
slower.

1.7 and older had ``total_time``, which included planning; it is used as the execution time.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

TAKEN: Final = "snapshot_at"
"""An additional column: Unix time of the snapshot."""
NO: Final = ("f", "false")
HIDDEN: Final = "<insufficient privilege>"
_TEXT_KEY: Final = 3
"""Maximum length of the text used as key for a statement without a number."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one statement since the extension first saw it.

    Attributes:
        query: Its text, with constants replaced by ``$1`` and so on.
        calls: Number of executions.
        exec_s: Time of the executions.
        rows: Rows returned or affected.
        blocks_hit: Shared blocks found in the buffers; None if unknown.
        blocks_read: Shared blocks read; None if unknown.
        wal_bytes: Bytes of write-ahead log.
        since: Unix time when counting began; None if unknown.
    """

    query: str
    calls: int
    exec_s: float
    rows: int = 0
    blocks_hit: int | None = None
    blocks_read: int | None = None
    wal_bytes: int | None = None
    since: float | None = None


Key = tuple[str, ...]
"""User, database, query number, whether it is at top level; or else the text."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All counters at one moment.

    Attributes:
        statements: By key.
        taken_at: Unix time in s; None if unknown.
        nested: Statements inside functions, which are part of a call and excluded.
        hidden: Statements of other roles, which the reading role may not see.
    """

    statements: dict[Key, Statement]
    taken_at: float | None = None
    nested: int = 0
    hidden: int = 0


def snapshot_of(rows: Iterable[Mapping[str, str]]) -> Snapshot:
    """Return the snapshot of rows that map column names to values.

    Raises:
        KeyError: when a column is missing.
        ValueError: when a counter is not a number.
    """
    statements: dict[Key, Statement] = {}
    taken_at: float | None = None
    nested = hidden = 0
    for row in rows:
        own = {name.strip().lower(): value for name, value in row.items() if name}
        if written_at := own.get(TAKEN):
            taken_at = float(written_at)
        text = own["query"]
        if text == HIDDEN:
            hidden += 1
            continue
        if not text:
            continue
        if (own.get("toplevel") or "").lower() in NO:
            nested += 1
            continue
        key = _key(own, text)
        statements[key] = added(statements.get(key), _statement(own))
    return Snapshot(statements=statements, taken_at=taken_at, nested=nested, hidden=hidden)


def grown(begin: Snapshot, end: Snapshot) -> tuple[Snapshot, int]:
    """Return the increases between two snapshots, and the number of statements with losses.

    If any counter decreased, or counting began later, the statement was reset, or evicted and added
    again: all of its counters then count from 0. A missing one was evicted.
    """
    found: dict[Key, Statement] = {}
    lost = len(begin.statements.keys() - end.statements.keys())
    for key, last in end.statements.items():
        first = begin.statements.get(key)
        if first is not None and _was_reset(first, last):
            lost += 1
            first = None
        between = last if first is None else _less(last, first)
        if between.calls:
            found[key] = between
    return msgspec.structs.replace(end, statements=found), lost


def contains(first: Snapshot, second: Snapshot) -> bool:
    """Return whether one snapshot is a later one of the same counters.

    It is if every statement of the first, by user, database and number, is in the second, none with
    a smaller counter, and some with a larger one.
    """
    if not all(len(key) > _TEXT_KEY for key in first.statements):
        return False
    pairs = [(each, second.statements.get(key)) for key, each in first.statements.items()]
    return all(later and not _was_reset(each, later) for each, later in pairs) and any(
        later and later.calls > each.calls for each, later in pairs
    )


def _was_reset(first: Statement, last: Statement) -> bool:
    if first.since is not None and last.since is not None and first.since < last.since:
        return True
    pairs = [(getattr(first, name), getattr(last, name)) for name in _COUNTERS]
    return any(then is not None and now is not None and _is_less(now, then) for then, now in pairs)


def _is_less(now: float, then: float) -> bool:
    """Return whether a counter decreased; sums in another order may differ in the last digit."""
    return now < then and not math.isclose(now, then, rel_tol=1e-9)


def covered_s(begin: Snapshot, end: Snapshot) -> float | None:
    """Return the time between two snapshots; None if unknown."""
    if begin.taken_at is None or end.taken_at is None:
        return None
    return end.taken_at - begin.taken_at


def _key(row: Mapping[str, str], text: str) -> Key:
    number = row.get("queryid") or ""
    if not number:
        return ("", "", text)
    return (row.get("userid") or "", row.get("dbid") or "", number, row.get("toplevel") or "")


def _statement(row: Mapping[str, str]) -> Statement:
    exec_ms = row.get("total_exec_time") or row["total_time"]
    return Statement(
        query=row["query"],
        calls=int(row["calls"]),
        exec_s=float(exec_ms) / 1e3,
        rows=int(row.get("rows") or 0),
        blocks_hit=_whole(row, "shared_blks_hit"),
        blocks_read=_whole(row, "shared_blks_read"),
        wal_bytes=_whole(row, "wal_bytes"),
        since=_since(row.get("stats_since") or ""),
    )


def _since(reported: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(reported).timestamp()
    except ValueError:
        return None


def _whole(row: Mapping[str, str], name: str) -> int | None:
    value = row.get(name)
    return int(value) if value else None


_COUNTERS: Final = ("calls", "exec_s", "rows", "blocks_hit", "blocks_read", "wal_bytes")


def added(first: Statement | None, second: Statement) -> Statement:
    """Return the counters of two statements added up; a counter that one lacks is None."""
    return second if first is None else _combined(first, second, 1)


def _less(last: Statement, first: Statement) -> Statement:
    return _combined(last, first, -1)


def _combined(one: Statement, other: Statement, sign: int) -> Statement:
    def both(name: str) -> float | None:
        a, b = getattr(one, name), getattr(other, name)
        return None if a is None or b is None else max(0, a + sign * b)

    return msgspec.structs.replace(one, **{name: both(name) for name in _COUNTERS})
