"""What a database holds before a sample: looked at, so that equal starts are not merely assumed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, LiteralString

from seatrial.postgres.sequences import read_sequences
from seatrial.results.start import StartRecord
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.server_session import ServerSession

if TYPE_CHECKING:
    import psycopg

COUNTED_BYTES_MAX: Final = 64 << 20
"""Tables are counted, the smallest first, until so much was read: a second or two of a disk.

Likewise for the contents, of which long values (TOAST) are a part."""
COUNT_S_MAX: Final = 30.0
"""A server that is too busy to count for so long is believed what it estimates."""
_AT_ONCE: Final = 50
_TABLES: Final = """
    SELECT n.nspname, c.relname, pg_relation_size(c.oid), pg_table_size(c.oid), c.reltuples,
        has_table_privilege(c.oid, 'SELECT')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND c.relispopulated AND n.nspname !~ '^pg_'
        AND n.nspname <> 'information_schema'
    ORDER BY 3, 1, 2
"""
_COUNT: Final = "SELECT {name}, count(*), NULL::numeric FROM ONLY {table}"
_CONTENTS: Final = """
    SELECT {name}, count(*), coalesce(sum(hashtextextended(seatrial_row::text, 0)), 0)
    FROM ONLY {table} AS seatrial_row
"""
_WORDING: Final = """
    SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'iso_8601';
    SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1
"""
"""So that the same values are the same texts, whatever a server or a role is set to."""
_WRITTEN: Final = """
    SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::text FROM pg_stat_user_tables
"""
_LSN: Final = """
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
        ELSE pg_current_wal_insert_lsn() END::text
"""
_CHECKPOINT: Final = "SELECT checkpoint_lsn::text FROM pg_control_checkpoint()"


def look_at_start(
    endpoints: Endpoints,
    *,
    restored: str,
    counts: bool = True,
    of_copied_files: bool = False,
    keeps_contents: bool = True,
) -> StartRecord:
    """Return what the first database of a way holds.

    Args:
        endpoints: To the database.
        restored: What brought it here.
        counts: Whether small tables are counted, rather than believed what is estimated of them.
        of_copied_files: Whether its last checkpoint is that of the files that were copied.
        keeps_contents: Whether small tables have to hold the same values for each sample; not
            where a migration that may write its own time was made for this one.

    Raises:
        TargetError: when the server refuses, or ends.
    """
    began_s = time.monotonic()
    with ServerSession(endpoints) as session:
        connection = session.connection
        sequences = read_sequences(connection)
        tables = connection.execute(_TABLES).fetchall()
        found = _counted(connection, tables) if counts else {}
        return StartRecord(
            lsn=_reported(connection, _LSN),
            checkpoint_lsn=_reported(connection, _CHECKPOINT) if of_copied_files else "",
            sequences={each.label: each.next_value for each in sequences if each.is_readable},
            rows={name: rows for name, (rows, _) in found.items()},
            contents={name: contents for name, (_, contents) in found.items() if contents}
            if keeps_contents
            else {},
            rows_estimated={
                name: None if estimate < 0 else float(estimate)
                for schema, table, _, _, estimate, _ in tables
                if (name := f"{schema}.{table}") not in found
            },
            unread=[
                *(each.label for each in sequences if not each.is_readable),
                *(f"{schema}.{table}" for schema, table, *_, may in tables if not may),
            ],
            restored=restored,
            looked_s=time.monotonic() - began_s,
        )


def log_place(endpoints: Endpoints) -> str:
    """Return where the log of a way's server stands; empty where that may not be read.

    Raises:
        TargetError: when the server cannot be reached.
    """
    with ServerSession(endpoints) as session:
        return _reported(session.connection, _LSN)


def rows_written(endpoints: Endpoints) -> int:
    """Return how many rows of its tables a database counts as written, since it counts.

    Raises:
        TargetError: when the server cannot be reached.
    """
    with ServerSession(endpoints) as session:
        return int(_reported(session.connection, _WRITTEN) or 0)


def _reported(connection: psycopg.Connection, query: LiteralString) -> str:
    """Return one text; empty where it may not be asked for."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    try:
        row = connection.execute(query).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return ""
    return str(row[0] or "") if row else ""


Counts = dict[str, tuple[int, str]]
"""Rows by table, and the fingerprint of their contents; empty where these were not read."""


def _counted(connection: psycopg.Connection, tables: list[tuple[Any, ...]]) -> Counts:
    """Return how many rows tables have, the smallest first, as far as there is time."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    chosen, read_bytes, whole_bytes = [], 0, 0
    for schema, table, size_bytes, with_toast_bytes, _, may in tables:
        read_bytes += size_bytes
        if read_bytes > COUNTED_BYTES_MAX:
            break
        if may:
            whole_bytes += with_toast_bytes
            chosen.append((schema, table, whole_bytes <= COUNTED_BYTES_MAX))
    found: Counts = {}
    until_s = time.monotonic() + COUNT_S_MAX
    for first in range(0, len(chosen), _AT_ONCE):
        left_ms = round(1000 * (until_s - time.monotonic()))
        if left_ms <= 0:
            break
        try:
            found |= _count(connection, chosen[first : first + _AT_ONCE], left_ms)
        except psycopg.errors.QueryCanceled:
            break
    return found


def _count(
    connection: psycopg.Connection, tables: list[tuple[str, str, bool]], time_ms: int
) -> Counts:
    from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

    query = sql.SQL(" UNION ALL ").join(
        sql.SQL(_CONTENTS if is_whole else _COUNT).format(
            name=sql.Literal(f"{schema}.{table}"), table=sql.Identifier(schema, table)
        )
        for schema, table, is_whole in tables
    )
    with connection.transaction():
        connection.execute(f"SET LOCAL statement_timeout = {time_ms}".encode())
        connection.execute(_WORDING)
        return {
            str(name): (int(rows), "" if total is None else f"{int(total):x}")
            for name, rows, total in connection.execute(query)
        }
