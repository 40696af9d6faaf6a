"""What pg_stat_statements has counted: read whole, and what it grew by while a replay lasted.

Columns differ by version of the extension (1.8 of PostgreSQL 13 to 1.12 of 18): those are read
that are there.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.postgres.connection import Address, Secret, connect, parse_url
from seatrial.results.replay import ReplayServerQuery
from seatrial.trials.database.measure.driver_result import Endpoints

if TYPE_CHECKING:
    import psycopg

EXTENSION: Final = "pg_stat_statements"
COLUMNS: Final = (
    *("userid", "dbid", "toplevel", "queryid", "query", "calls", "rows"),
    *("total_exec_time", "total_plan_time", "shared_blks_hit", "shared_blks_read", "wal_bytes"),
    "stats_since",
)
TAKEN: Final = "snapshot_at"
ELSEWHERE: Final = "postgres"
"""The database in which administrators have their extensions."""
_NS_PER_MS: Final = 1e6

_SCHEMA: Final = """
    SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid =
    extnamespace WHERE extname = %s
"""
_NAMES: Final = """
    SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0
    AND NOT attisdropped
"""
_ROWS: Final = """
    SELECT {columns} FROM {view} WHERE queryid IS NOT NULL AND dbid =
    (SELECT oid FROM pg_database WHERE datname = %s)
"""
_LET_GO: Final = "SELECT dealloc FROM {view}_info"


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """All counters of a database at one moment.

    Attributes:
        columns: Those of ``COLUMNS`` that the server has.
        rows: Values in their order.
        taken_at: Unix time in s.
        let_go: How often the extension made room by letting statements go; None where it does
            not tell (before 1.9).
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    taken_at: float
    let_go: int | None

    def as_texts(self) -> list[dict[str, str]]:
        """Return the rows by name, as a CSV file has them, with the time at which they were."""
        taken = f"{self.taken_at:.3f}"
        return [
            {
                **{n: _text(v) for n, v in zip(self.columns, row, strict=True)},
                TAKEN: taken,
            }
            for row in self.rows
        ]


def counted_at(url: str) -> Counted:
    """Return the counters of the database that a URL names.

    Raises:
        TargetError: when the server cannot be reached or has no such extension.
        UsageError: when it is no URL.
    """
    address, secret = parse_url(url)
    found = counted(address, secret)
    if found is None:
        raise TargetError(
            seen=f"The server at {address.place} has no {EXTENSION}",
            cause=f"It is neither in the database {address.dbname} nor in {ELSEWHERE}, or not "
            "loaded, or this role may not read it",
            next_step="Put it into shared_preload_libraries, restart the server, and run "
            f"`CREATE EXTENSION {EXTENSION}`",
        )
    return found


def counted(address: Address, secret: Secret | None) -> Counted | None:
    """Return the counters of a database; None where its server has no such extension.

    Raises:
        TargetError: when it cannot be connected to.
    """
    for dbname in dict.fromkeys([address.dbname, ELSEWHERE]):
        try:
            opened = connect(address, secret=secret, dbname=dbname)
        except TargetError:
            if dbname == address.dbname:
                raise
            return None
        with contextlib.closing(opened) as connection:
            found = _read(connection, address.dbname)
            if found is not None:
                return found
    return None


def _read(connection: psycopg.Connection, dbname: str) -> Counted | None:
    """Return what the extension of one database tells of another; None without it."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    def ask(query: str, *given: object) -> list[tuple[Any, ...]]:
        # Every text is ours, and what is put into it is quoted by the server.
        return connection.execute(query, given or None).fetchall()

    try:
        schemas = ask(_SCHEMA, EXTENSION)
        if not schemas:
            return None
        view = f"{schemas[0][0]}.{EXTENSION}"
        there = {name for (name,) in ask(_NAMES, view)}
        columns = [name for name in COLUMNS if name in there]
        rows = ask(_ROWS.format(columns=", ".join(columns), view=view), dbname)
        return Counted(columns=columns, rows=rows, taken_at=time.time(), let_go=_let_go(ask, view))
    except psycopg.Error:  # not loaded, or not to be read by this role
        return None


def _let_go(ask: Callable[..., list[tuple[Any, ...]]], view: str) -> int | None:
    import psycopg  # noqa: PLC0415

    try:
        return int(ask(_LET_GO.format(view=view))[0][0])
    except psycopg.Error:
        return None


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "t" if value else "f"
    return str(value)


class ServerCounts:
    """What the server counts of each query from now on.

    Args:
        endpoints: To the database.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._before: Counted | None = None

    def begin(self) -> Self:
        """Read the counters, where there are any; nothing is reset."""
        with contextlib.suppress(TargetError):
            self._before = counted(self._endpoints.addresses[0], self._endpoints.secret)
        return self

    def grown(self) -> tuple[dict[str, ReplayServerQuery], list[str]]:
        """Return what they grew by since, by fingerprint, and what could not be told."""
        if self._before is None:
            return {}, []
        try:
            after = counted(self._endpoints.addresses[0], self._endpoints.secret)
        except TargetError:
            after = None
        if after is None:
            return {}, ["What the server counted of each query could not be read at the end."]
        notes = []
        if (after.let_go or 0) > (self._before.let_go or 0):
            notes.append(
                "pg_stat_statements let statements go meanwhile: blocks and log of some queries "
                "are of a part of their calls. Raise pg_stat_statements.max."
            )
        return grown(self._before, after), notes


def grown(before: Counted, after: Counted) -> dict[str, ReplayServerQuery]:
    """Return what counters grew by, summed by fingerprint.

    Statements inside functions are part of the call, and left out. Where any counter is smaller
    than before, or counting began later, all of them began anew.
    """
    first = {_key(row): row for row in _by_name(before)}
    sums: dict[str, dict[str, float | None]] = {}
    for row in _by_name(after):
        if row.get("toplevel") is False or not row["query"]:
            continue
        earlier = first.get(_key(row))
        if earlier is not None and _began_anew(earlier, row):
            earlier = None
        own = {name: _step(row, earlier, name) for name in _FIELDS}
        if not own["calls"]:
            continue
        fingerprint = _core.fingerprint_sql(row["query"])[0]
        held = sums.setdefault(fingerprint, dict.fromkeys(_FIELDS, 0.0))
        for name, value in own.items():
            so_far = held[name]
            held[name] = None if so_far is None or value is None else so_far + value
    return {key: _query(key, own) for key, own in sums.items()}


_FIELDS: Final = {
    "calls": "calls",
    "exec_ns": "total_exec_time",
    "blocks_hit": "shared_blks_hit",
    "blocks_read": "shared_blks_read",
    "wal_bytes": "wal_bytes",
}


def _began_anew(earlier: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Tell whether a statement was reset, or let go and came again."""
    since = earlier.get("stats_since"), row.get("stats_since")
    if None not in since and since[0] != since[1]:
        return True
    pairs = [(earlier.get(column), row.get(column)) for column in _FIELDS.values()]
    return any(then is not None and now is not None and now < then for then, now in pairs)


def _by_name(found: Counted) -> list[dict[str, Any]]:
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["userid"], row["dbid"], row["queryid"], row.get("toplevel")


def _step(row: Mapping[str, Any], earlier: Mapping[str, Any] | None, name: str) -> float | None:
    """Return what one counter grew by; None where the server has no such counter."""
    column = _FIELDS[name]
    if row.get(column) is None:
        return None
    return float(row[column]) - float(earlier[column] if earlier else 0)


def _query(fingerprint: str, own: Mapping[str, float | None]) -> ReplayServerQuery:
    def whole(name: str, scale: float = 1.0) -> int | None:
        value = own[name]
        return None if value is None else round(value * scale)

    return ReplayServerQuery(
        fingerprint=fingerprint,
        calls=whole("calls"),
        exec_ns=whole("exec_ns", _NS_PER_MS),
        blocks_hit=whole("blocks_hit"),
        blocks_read=whole("blocks_read"),
        wal_bytes=whole("wal_bytes"),
    )
