"""The server's own statistics of a replay's queries: counters around it, plans after it.

One statement of each query of the trace is explained, never executed: ``EXPLAIN`` without
``ANALYZE``, in a read-only transaction that is rolled back. The shape of a plan consists of the
kinds of nodes, their relations and indexes, and the order of joins; costs and row counts are
omitted, as they differ between any two servers.

Columns depend on the version of the extension (1.8 of PostgreSQL 13 to 1.12 of 18): the available
ones are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial import _core
from seatrial.errors import TargetError, native_errors
from seatrial.postgres.connection import Address, Secret, connect, parse_url
from seatrial.results.replay import ReplayRecord, ReplayServerQuery
from seatrial.statement_counters import TAKEN, Statement, added, grown, snapshot_of
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.observe_server import Record
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    import psycopg


QUERIES_MAX: Final = 50
PLANNED: Final = frozenset({"select", "insert", "update", "delete", "merge"})
SHAPE_CHARACTERS_MAX: Final = 300
TIMEOUT_MS: Final = 2_000
_PREPARED: Final = "seatrial_plan"
_READ_ONLY: Final = f"""
    BEGIN READ ONLY; SET LOCAL statement_timeout = {TIMEOUT_MS}; SET LOCAL lock_timeout = 200
"""
_EXPLAIN: Final = "EXPLAIN (FORMAT JSON) "


def plans_of(
    endpoints: Endpoints, trace: str, fingerprints: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return hash and shape of the plan of each query that can be explained, by fingerprint.

    Args:
        endpoints: The database.
        trace: The trace, with a statement of each.
        fingerprints: The queries, most time first; the first 50 are used.
    """
    with native_errors():
        examples = _core.trace_examples(trace, list(fingerprints[:QUERIES_MAX]))
    found: dict[str, tuple[str, str]] = {}
    with contextlib.suppress(TargetError):
        opened = connect(endpoints.addresses[0], secret=endpoints.secret)
        with contextlib.closing(opened) as connection:
            for fingerprint, example in examples.items():
                plan = _plan(connection, example)
                if plan is not None:
                    plan_shape = shape(plan)
                    plan_hash = hashlib.sha256(plan_shape.encode()).hexdigest()[:16]
                    found[fingerprint] = plan_hash, _shortened(plan_shape)
    return found


class PlanNode(msgspec.Struct, frozen=True, rename={
    "node_type": "Node Type", "strategy": "Strategy", "join_type": "Join Type",
    "operation": "Operation", "index": "Index Name", "relation": "Relation Name",
    "function": "Function Name", "plans": "Plans",
}):  # fmt: skip
    """What matters of a node of ``EXPLAIN (FORMAT JSON)``; ``plans`` are those below it."""

    node_type: str = ""
    strategy: str = ""
    join_type: str = "Inner"
    operation: str = "ModifyTable"
    index: str = ""
    relation: str = ""
    function: str = ""
    plans: list[PlanNode] = []


def shape(plan: PlanNode) -> str:
    """Return the shape of a plan, as ``Nested Loop(Index Scan orders_pkey, Seq Scan lines)``.

    Args:
        plan: The root.
    """
    kind = plan.node_type
    if plan.strategy in ("Hashed", "Sorted", "Mixed"):
        kind = f"{plan.strategy} {kind}"
    if plan.join_type != "Inner":
        kind = f"{plan.join_type} {kind}"
    if kind == "ModifyTable":
        kind = plan.operation
    about = plan.index or plan.relation or plan.function
    named = f"{kind} {about}" if about else kind
    inner = ", ".join(shape(each) for each in plan.plans)
    return f"{named}({inner})" if inner else named


def _plan(connection: psycopg.Connection, example: Mapping[str, Any]) -> PlanNode | None:
    """Return the plan of a statement; None if absent or it cannot be planned."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    text = example["sql"]
    if not isinstance(text, str) or "\0" in text:
        return None
    _, _, kind, statements = _core.fingerprint_sql(text)
    # A second statement in the text would be executed.
    if kind not in PLANNED or statements != 1:
        return None
    try:
        connection.execute(_READ_ONLY)
        output = _explain(connection, text, example["parameters"])
    except psycopg.Error:  # it needs what its session had: a temporary table, a search_path
        return None
    finally:
        with contextlib.suppress(psycopg.Error):
            # In one message: behind a pooler, the next one may reach another session.
            connection.execute(f"ROLLBACK; DEALLOCATE {_PREPARED}")
    is_plan = isinstance(output, list) and output and isinstance(output[0], dict)
    return msgspec.convert(output[0]["Plan"], PlanNode) if is_plan else None


def _explain(
    connection: psycopg.Connection, text: str, parameters: Sequence[str | bytes | None]
) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the output of EXPLAIN; parameter values affect the plan, as they did originally."""
    if not parameters:
        return _rows(connection, _EXPLAIN + text)
    connection.execute(f"PREPARE {_PREPARED} AS {text}".encode())
    values = ", ".join(_literal(parameter) for parameter in parameters)
    return _rows(connection, f"{_EXPLAIN}EXECUTE {_PREPARED}({values})")


def _rows(connection: psycopg.Connection, text: str) -> Any:  # noqa: ANN401
    row = connection.execute(text.encode()).fetchone()
    return row[0] if row else None


def _literal(value: str | bytes | None) -> str:
    """Return a parameter as an untyped literal, whose type the server infers."""
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return "'" + text.replace("'", "''") + "'"


def _shortened(whole: str) -> str:
    if len(whole) <= SHAPE_CHARACTERS_MAX:
        return whole
    return f"{whole[: SHAPE_CHARACTERS_MAX - 4]} ..."


EXTENSION: Final = "pg_stat_statements"
COLUMNS: Final = (
    *("userid", "dbid", "toplevel", "queryid", "query", "calls", "rows"),
    *("total_exec_time", "shared_blks_hit", "shared_blks_read", "wal_bytes", "stats_since"),
)
FALLBACK_DATABASE: Final = "postgres"
"""The database in which extensions are often installed."""

_SCHEMA: Final = """
    SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid =
    extnamespace WHERE extname = %s
"""
_NAMES: Final = """
    SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0
    AND NOT attisdropped
"""
_ROWS: Final = """
    SELECT {columns} FROM {view} WHERE dbid = (SELECT oid FROM pg_database WHERE datname = %s)
"""
_EVICTED: Final = "SELECT dealloc FROM {view}_info"


class CounterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All counters of a database at one moment.

    Attributes:
        columns: The columns of ``COLUMNS`` that the server has.
        rows: Values in their order.
        taken_at: Unix time in s.
        evicted: How often the extension evicted statements; None where unknown (before 1.9).
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    taken_at: float
    evicted: int | None

    @property
    def hidden(self) -> list[Record]:
        """The statements of other roles, which a role without pg_read_all_stats may not see."""
        rows = (dict(zip(self.columns, row, strict=True)) for row in self.rows)
        return [row for row in rows if row["queryid"] is None]

    def as_texts(self) -> list[dict[str, str]]:
        """Return the rows by name, as in a CSV file, with their time."""
        taken = f"{self.taken_at:.3f}"
        return [
            {
                **{n: _text(v) for n, v in zip(self.columns, row, strict=True)},
                TAKEN: taken,
            }
            for row in self.rows
        ]


def counters_at(url: str) -> CounterSnapshot:
    """Return the counters of the database that a URL names.

    Raises:
        TargetError: when the server cannot be reached or has no such extension.
        UsageError: when it is not a URL.
    """
    address, secret = parse_url(url)
    found = read_counters(address, secret)
    if found is None:
        raise TargetError(
            seen=f"The server at {address.endpoint} has no {EXTENSION}",
            cause=f"It is neither in the database {address.dbname} nor in {FALLBACK_DATABASE}, or "
            "it is not loaded, or this role may not read it",
            next_step="Add it to shared_preload_libraries, restart the server, and run "
            f"`CREATE EXTENSION {EXTENSION}`",
        )
    return found


def read_counters(address: Address, secret: Secret | None) -> CounterSnapshot | None:
    """Return the counters of a database; None where its server has no such extension.

    Raises:
        TargetError: when it cannot be connected to.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    real_name = ""
    for dbname in dict.fromkeys([address.dbname, FALLBACK_DATABASE]):
        try:
            opened = connect(address, secret=secret, dbname=dbname)
        except TargetError:
            if dbname == address.dbname:
                raise
            return None
        # An error: the extension is not loaded, or not readable by this role.
        with contextlib.closing(opened) as connection, contextlib.suppress(psycopg.Error):
            # A pooler may know the database by another name than its server.
            real_name = real_name or str(_rows(connection, "SELECT current_database()"))
            found = _read(connection, real_name)
            if found is not None:
                return found
    return None


def _read(connection: psycopg.Connection, dbname: str) -> CounterSnapshot | None:
    """Return the counters of a database from the extension in another; None without it."""

    def run(query: str, *parameters: object) -> list[tuple[Any, ...]]:
        # Query texts are our own, and parameters are quoted by the server.
        return connection.execute(query, parameters or None).fetchall()

    schemas = run(_SCHEMA, EXTENSION)
    if not schemas:
        return None
    view = f"{schemas[0][0]}.{EXTENSION}"
    existing = {name for (name,) in run(_NAMES, view)}
    columns = [name for name in COLUMNS if name in existing]
    rows = run(_ROWS.format(columns=", ".join(columns), view=view), dbname)
    return CounterSnapshot(
        columns=columns, rows=rows, taken_at=time.time(), evicted=_evicted(run, view)
    )


def _evicted(run: Callable[..., list[tuple[Any, ...]]], view: str) -> int | None:
    import psycopg  # noqa: PLC0415

    try:
        return int(run(_EVICTED.format(view=view))[0][0])
    except psycopg.Error:
        return None


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "t" if value else "f"
    return str(value)


def increases(before: CounterSnapshot, after: CounterSnapshot) -> dict[str, ReplayServerQuery]:
    """Return the increases of counters, summed by fingerprint."""
    between, _ = grown(*(snapshot_of(each.as_texts()) for each in (before, after)))
    sums: dict[str, Statement] = {}
    for statement in between.statements.values():
        fingerprint = _core.fingerprint_sql(statement.query)[0]
        sums[fingerprint] = added(sums.get(fingerprint), statement)
    return {
        fingerprint: ReplayServerQuery(
            fingerprint=fingerprint,
            calls=total.calls,
            exec_ns=round(total.exec_s * NS_PER_S),
            blocks_hit=total.blocks_hit,
            blocks_read=total.blocks_read,
            wal_bytes=total.wal_bytes,
        )
        for fingerprint, total in sums.items()
    }


class ServerStatistics:
    """The server's statistics from now on, without resetting or changing anything.

    Args:
        endpoints: The database.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._before = self._read_counters()

    def with_statistics(self, record: ReplayRecord, trace: str) -> tuple[ReplayRecord, list[str]]:
        """Return a record with the server's statistics of its queries, and notes.

        Args:
            record: The record of the replay.
            trace: The replayed trace.
        """
        if record.end == "server_lost":
            return record, []
        counters, notes = self._increases()
        keys = [query.fingerprint for query in record.queries]
        plans = plans_of(self._endpoints, trace, keys)
        queries = []
        for key in keys:
            increase = counters.get(key)
            plan_hash, plan_shape = plans.get(key, ("", ""))
            if increase is None and not plan_hash:
                continue
            increase = increase or ReplayServerQuery(fingerprint=key)
            queries.append(
                msgspec.structs.replace(increase, plan_hash=plan_hash, plan_shape=plan_shape)
            )
        return msgspec.structs.replace(record, queries_server=queries), notes

    def _read_counters(self) -> CounterSnapshot | None:
        """Return the counters, if available; nothing is reset."""
        with contextlib.suppress(TargetError):
            return read_counters(self._endpoints.addresses[0], self._endpoints.secret)
        return None

    def _increases(self) -> tuple[dict[str, ReplayServerQuery], list[str]]:
        """Return the increases of counters, by fingerprint, and notes on missing ones."""
        if self._before is None:
            return {}, []
        after = self._read_counters()
        if after is None:
            return {}, ["The server's statistics per query could not be read at the end."]
        notes = []
        if (after.evicted or 0) > (self._before.evicted or 0):
            notes.append(
                "pg_stat_statements evicted entries during the replay: blocks and WAL of some "
                "queries cover only part of their calls. Raise pg_stat_statements.max."
            )
        before_calls, calls = (
            sum(row["calls"] for row in each.hidden) for each in (self._before, after)
        )
        if calls > before_calls:
            notes.append(
                "Statements of other roles were executed during the replay, and are hidden from "
                "this one: blocks and WAL of some queries may be missing. Grant it "
                "pg_read_all_stats."
            )
        return increases(self._before, after), notes
