"""The tables of a results file, and its migrations.

A results file is an SQLite database with our ``application_id``; its ``user_version`` is the number
of migrations applied. docs/results-file.md explains every column.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x53454154
"""``SEAT`` in ASCII, at byte 68 of the file: identifies a results file."""


def _renamed(column: str, path: str, old: str, new: str) -> str:
    """Return the statement that renames a key of an object in a column of JSON."""
    return f"""
        UPDATE sample SET {column} = json_set(
            json_remove({column}, '{path}.{old}'),
            '{path}.{new}', json_extract({column}, '{path}.{old}')
        )
        WHERE json_type({column}, '{path}.{old}') IS NOT NULL
    """  # noqa: S608 - of our own names


FIRST_TABLES = (
    """
    CREATE TABLE run (
        id TEXT PRIMARY KEY,
        command TEXT NOT NULL,
        label TEXT NOT NULL,
        study_name TEXT NOT NULL,
        study_json TEXT NOT NULL,
        plan_hash TEXT NOT NULL,
        seed TEXT NOT NULL,
        status TEXT NOT NULL,
        started_at REAL NOT NULL,
        ended_at REAL,
        fingerprint_before_json TEXT NOT NULL,
        fingerprint_after_json TEXT NOT NULL,
        seatrial_version TEXT NOT NULL
    )
    """,
    "CREATE INDEX run_by_plan ON run (plan_hash)",
    """
    CREATE TABLE cell (
        id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL REFERENCES run (id),
        key TEXT NOT NULL,
        target TEXT NOT NULL,
        workload TEXT NOT NULL,
        kind TEXT NOT NULL,
        operation TEXT NOT NULL,
        block_size_bytes INTEGER NOT NULL,
        threads INTEGER NOT NULL,
        depth INTEGER NOT NULL,
        factors_json TEXT NOT NULL,
        spec_json TEXT NOT NULL,
        UNIQUE (run_id, key)
    )
    """,
    """
    CREATE TABLE sample (
        id INTEGER PRIMARY KEY,
        cell_id INTEGER NOT NULL REFERENCES cell (id),
        round INTEGER NOT NULL,
        position INTEGER NOT NULL,
        started_at REAL NOT NULL,
        duration_s REAL NOT NULL,
        status TEXT NOT NULL,
        engine TEXT NOT NULL,
        engine_reason TEXT NOT NULL,
        offered INTEGER NOT NULL,
        completed INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        late_skipped INTEGER NOT NULL,
        in_flight_at_end INTEGER NOT NULL,
        stalls_dropped INTEGER NOT NULL,
        oldest_in_flight_ns INTEGER NOT NULL,
        errors_count INTEGER NOT NULL,
        checked_blocks INTEGER,
        corrupt_blocks INTEGER,
        slice_ns INTEGER NOT NULL,
        timeline BLOB NOT NULL,
        UNIQUE (cell_id, round)
    )
    """,
    """
    CREATE TABLE operation (
        sample_id INTEGER NOT NULL REFERENCES sample (id),
        operation TEXT NOT NULL,
        completed INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        transferred_bytes INTEGER NOT NULL,
        response BLOB NOT NULL,
        service BLOB,
        UNIQUE (sample_id, operation)
    )
    """,
    """
    CREATE TABLE stall (
        sample_id INTEGER NOT NULL REFERENCES sample (id),
        start_s REAL NOT NULL,
        length_s REAL NOT NULL,
        cause TEXT NOT NULL,
        depth INTEGER NOT NULL,
        operations_json TEXT NOT NULL,
        evidence_json TEXT NOT NULL
    )
    """,
    "CREATE INDEX stall_by_sample ON stall (sample_id)",
    """
    CREATE TABLE error (
        sample_id INTEGER NOT NULL REFERENCES sample (id),
        operation TEXT NOT NULL,
        offset_bytes INTEGER NOT NULL,
        length_bytes INTEGER NOT NULL,
        errno INTEGER NOT NULL,
        name TEXT NOT NULL,
        at_s REAL NOT NULL
    )
    """,
    "CREATE INDEX error_by_sample ON error (sample_id)",
    """
    CREATE TABLE corruption (
        sample_id INTEGER NOT NULL REFERENCES sample (id),
        kind TEXT NOT NULL,
        offset_bytes INTEGER NOT NULL,
        detail TEXT NOT NULL
    )
    """,
    "CREATE INDEX corruption_by_sample ON corruption (sample_id)",
    """
    CREATE TABLE counter (
        sample_id INTEGER NOT NULL REFERENCES sample (id),
        name TEXT NOT NULL,
        value REAL NOT NULL,
        UNIQUE (sample_id, name)
    )
    """,
    """
    CREATE VIEW measurement AS
    SELECT
        cell.run_id, cell.key AS cell_key, cell.target, cell.workload, cell.kind,
        operation.operation, cell.block_size_bytes, cell.threads, cell.depth, cell.factors_json,
        sample.id AS sample_id, sample.round, sample.started_at, sample.duration_s,
        sample.status, sample.engine,
        operation.completed, operation.failed, operation.transferred_bytes,
        operation.completed / sample.duration_s AS completed_per_s,
        operation.transferred_bytes / sample.duration_s AS transferred_bytes_per_s
    FROM sample
    JOIN cell ON cell.id = sample.cell_id
    JOIN operation ON operation.sample_id = sample.id
    """,
)

REPORTED_BY_FOREIGN_RESULTS = (
    "ALTER TABLE operation ADD COLUMN told_ns_json TEXT NOT NULL DEFAULT '{}'",
)

DATABASE_SAMPLES = (
    "ALTER TABLE sample ADD COLUMN series BLOB",
    "ALTER TABLE sample ADD COLUMN database_json TEXT NOT NULL DEFAULT 'null'",
)

LAYOUT_SAMPLES = ("ALTER TABLE sample ADD COLUMN layout_json TEXT NOT NULL DEFAULT 'null'",)

REPLAY_SAMPLES = ("ALTER TABLE sample ADD COLUMN replay_json TEXT NOT NULL DEFAULT 'null'",)

RUN_PROCESS = ("ALTER TABLE run ADD COLUMN process_json TEXT NOT NULL DEFAULT 'null'",)

RUN_NOTES = (
    "ALTER TABLE run ADD COLUMN note TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE run ADD COLUMN edited_at REAL",
)

CACHE_SAMPLES = ("ALTER TABLE sample ADD COLUMN cache_json TEXT NOT NULL DEFAULT 'null'",)

FLEET_SAMPLES = ("ALTER TABLE sample ADD COLUMN fleet_json TEXT NOT NULL DEFAULT 'null'",)

REPORTED = (
    "ALTER TABLE operation RENAME COLUMN told_ns_json TO reported_ns_json",
    _renamed("database_json", "$", "told", "reported"),
)

PLANNED_HOSTS = (_renamed("fleet_json", "$", "asked_hosts", "planned_hosts"),)

FIELD_TERMS = (
    *(
        f"UPDATE counter SET name = '{new}' WHERE name = '{old}'"  # noqa: S608 - likewise
        for old, new in (
            ("guard_ns", "recovery_check_ns"),
            ("guard_rest_ns", "recovery_idle_ns"),
            ("guard_probe_ratio", "recovery_probe_ratio"),
            ("surroundings_ns", "counters_elapsed_ns"),
        )
    ),
    _renamed("replay_json", "$.order", "held", "delayed"),
    _renamed("replay_json", "$.order", "held_by", "delayed_by"),
    _renamed("replay_json", "$.content", "looked_s", "duration_s"),
    _renamed("database_json", "$.start", "looked_s", "duration_s"),
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    FIRST_TABLES,
    REPORTED_BY_FOREIGN_RESULTS,
    DATABASE_SAMPLES,
    LAYOUT_SAMPLES,
    REPLAY_SAMPLES,
    RUN_PROCESS,
    RUN_NOTES,
    CACHE_SAMPLES,
    FLEET_SAMPLES,
    REPORTED,
    PLANNED_HOSTS,
    FIELD_TERMS,
)
"""Statements that migrate from each version to the next: entry 0 creates version 1."""


def version(connection: sqlite3.Connection) -> int:
    """Return the schema version of an open file; 0 when it is empty."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def application_id(connection: sqlite3.Connection) -> int:
    """Return the application id of an open SQLite file; 0 for none."""
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Migrate a file to the newest version, in one transaction.

    Of two processes here at the same time, the second waits and finds nothing to do.

    Raises:
        sqlite3.Error: An error of SQLite; the file is unchanged.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statements in MIGRATIONS[version(connection) :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
