"""The content of a database before a sample, to verify that samples start equally."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from seatrial.postgres.catalogue import read_sequences
from seatrial.postgres.connection import text_of
from seatrial.postgres.row_content import OUTPUT_FORMAT
from seatrial.results.model import StartRecord
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.server_session import ServerSession

if TYPE_CHECKING:
    import psycopg

COUNTED_BYTES_MAX: Final = 64 << 20
"""Tables are counted, smallest first, up to this size: a second or two of a disk.

The same applies to their contents, which include long values (TOAST)."""
COUNT_S_MAX: Final = 30.0
"""If a server takes longer to count, its estimates are used."""
_TABLES_PER_QUERY_MAX: Final = 50
_TABLES: Final = """
    SELECT n.nspname, c.relname, pg_relation_size(c.oid), pg_table_size(c.oid), c.reltuples,
        has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
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
_WRITTEN: Final = """
    SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::text FROM pg_stat_user_tables
"""
_LSN: Final = """
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
        ELSE pg_current_wal_insert_lsn() END::text
"""
_CHECKPOINT: Final = "SELECT checkpoint_lsn::text FROM pg_control_checkpoint()"


def read_start_state(
    endpoints: Endpoints,
    *,
    restored: str,
    counts: bool = True,
    of_copied_files: bool = False,
    keeps_contents: bool = True,
) -> StartRecord:
    """Return the content of the first database.

    Args:
        endpoints: The database.
        restored: How it was provided.
        counts: Whether small tables are counted, instead of using estimates.
        of_copied_files: Whether its last checkpoint is that of the copied files.
        keeps_contents: Whether small tables must have the same values for each sample; not after a
            migration for this sample, which may write timestamps.

    Raises:
        TargetError: when the server refuses or ends.
    """
    began_s = time.monotonic()
    with ServerSession(endpoints) as session:
        connection = session.connection
        sequences = read_sequences(connection)
        tables = connection.execute(_TABLES).fetchall()
        found = _row_counts(connection, tables) if counts else {}
        return StartRecord(
            lsn=text_of(connection, _LSN),
            checkpoint_lsn=text_of(connection, _CHECKPOINT) if of_copied_files else "",
            sequences={
                sequence.label: sequence.next_value
                for sequence in sequences
                if sequence.is_readable
            },
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
                *(sequence.label for sequence in sequences if not sequence.is_readable),
                *(f"{schema}.{table}" for schema, table, *_, may in tables if not may),
            ],
            restored=restored,
            duration_s=time.monotonic() - began_s,
        )


def wal_position(endpoints: Endpoints) -> str:
    """Return the server's WAL position; empty if it may not be read.

    Raises:
        TargetError: when the server cannot be reached.
    """
    with ServerSession(endpoints) as session:
        return text_of(session.connection, _LSN)


def rows_written(endpoints: Endpoints) -> int:
    """Return how many rows a database counts as written, since it counts.

    Raises:
        TargetError: when the server cannot be reached.
    """
    with ServerSession(endpoints) as session:
        return int(text_of(session.connection, _WRITTEN) or 0)


Counts = dict[str, tuple[int, str]]
"""Rows by table, and the fingerprint of their contents; empty where not read."""


def _row_counts(connection: psycopg.Connection, tables: list[tuple[Any, ...]]) -> Counts:
    """Return the number of rows of tables, smallest first, within a time limit."""
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
    for first in range(0, len(chosen), _TABLES_PER_QUERY_MAX):
        left_ms = round(1000 * (until_s - time.monotonic()))
        if left_ms <= 0:
            break
        try:
            found |= _count(connection, chosen[first : first + _TABLES_PER_QUERY_MAX], left_ms)
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
        connection.execute(OUTPUT_FORMAT)
        return {
            str(name): (int(rows), "" if total is None else f"{int(total):x}")
            for name, rows, total in connection.execute(query)
        }
