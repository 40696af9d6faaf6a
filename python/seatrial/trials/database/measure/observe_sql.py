"""What the observer asks a server of PostgreSQL 13 to 18, by version.

Source: PostgreSQL's documentation, chapter "The Cumulative Statistics System", of each version.
Every figure is cast to a double: its 53 bits hold any count that a trial can reach.
"""

from __future__ import annotations

from typing import Final

FACTS: Final = """
SELECT current_database() AS database,
       current_setting('block_size')::int AS block_bytes,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       current_setting('track_io_timing') AS track_io_timing,
       coalesce(current_setting('track_wal_io_timing', true), 'off') AS track_wal_io_timing,
       ARRAY(SELECT oid::bigint FROM pg_database WHERE datname = ANY(%(databases)s)) AS oids
"""

# The function under pg_stat_activity: the view would join names that nobody asked for, each time.
WAITS: Final = """
SELECT CASE backend_type WHEN 'client backend' THEN state ELSE backend_type END,
       wait_event_type, wait_event, count(*)
FROM pg_stat_get_activity(NULL)
WHERE pid <> pg_backend_pid()
  AND (backend_type IN ('checkpointer', 'autovacuum worker')
       OR backend_type = 'client backend'
          AND (%(all)s OR datid = ANY(%(oids)s::oid[])))
GROUP BY 1, 2, 3
"""

OTHERS: Final = """
SELECT count(*) FROM pg_stat_get_activity(NULL)
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""

DATABASE: Final = """
SELECT sum(xact_commit)::float8 AS transactions_committed,
       sum(xact_rollback)::float8 AS transactions_rolled_back,
       sum(blks_hit)::float8 AS shared_hits,
       sum(blks_read)::float8 AS shared_reads,
       sum(blk_read_time) * 1e6 AS shared_read_ns,
       sum(blk_write_time) * 1e6 AS shared_write_ns,
       sum(temp_files)::float8 AS temp_files,
       sum(temp_bytes)::float8 AS temp_bytes,
       sum(deadlocks)::float8 AS deadlocks
FROM pg_stat_database WHERE %(all)s OR datid = ANY(%(oids)s::oid[])
"""

WAL_POSITION: Final = """
SELECT pg_wal_lsn_diff(
           CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                ELSE pg_current_wal_lsn() END, '0/0')::float8 AS wal_bytes
"""

_WAL_14: Final = """
SELECT wal_records::float8, wal_fpi::float8, wal_buffers_full::float8,
       wal_write::float8 AS wal_writes, wal_sync::float8 AS wal_syncs,
       wal_write_time * 1e6 AS wal_write_ns, wal_sync_time * 1e6 AS wal_sync_ns
FROM pg_stat_wal
"""
_WAL_18: Final = """
SELECT w.wal_records::float8, w.wal_fpi::float8, w.wal_buffers_full::float8,
       i.wal_writes, i.wal_syncs, i.wal_write_ns, i.wal_sync_ns
FROM pg_stat_wal w,
     (SELECT sum(writes)::float8 AS wal_writes, sum(fsyncs)::float8 AS wal_syncs,
             sum(write_time) * 1e6 AS wal_write_ns, sum(fsync_time) * 1e6 AS wal_sync_ns
      FROM pg_stat_io WHERE object = 'wal') i
"""

_CHECKPOINTS_13: Final = """
SELECT checkpoints_timed::float8, checkpoints_req::float8 AS checkpoints_requested,
       checkpoint_write_time * 1e6 AS checkpoint_write_ns,
       checkpoint_sync_time * 1e6 AS checkpoint_sync_ns,
       buffers_checkpoint::float8 AS checkpoint_buffers,
       buffers_clean::float8 AS bgwriter_buffers,
       buffers_backend::float8 AS backend_buffers,
       buffers_backend_fsync::float8 AS backend_fsyncs
FROM pg_stat_bgwriter
"""
_CHECKPOINTS_17: Final = """
SELECT c.num_timed::float8 AS checkpoints_timed,
       c.num_requested::float8 AS checkpoints_requested,
       c.write_time * 1e6 AS checkpoint_write_ns,
       c.sync_time * 1e6 AS checkpoint_sync_ns,
       c.buffers_written::float8 AS checkpoint_buffers,
       b.buffers_clean::float8 AS bgwriter_buffers,
       i.backend_buffers, i.backend_fsyncs
FROM pg_stat_checkpointer c, pg_stat_bgwriter b,
     (SELECT sum(writes)::float8 AS backend_buffers, sum(fsyncs)::float8 AS backend_fsyncs
      FROM pg_stat_io WHERE backend_type = 'client backend' AND object <> 'wal') i
"""

_IO_16: Final = """
SELECT context, sum(reads)::float8 AS reads, sum(writes)::float8 AS writes,
       sum(extends)::float8 AS extends, sum(fsyncs)::float8 AS fsyncs,
       sum(read_time) * 1e6 AS read_ns, sum(write_time) * 1e6 AS write_ns,
       sum(extend_time) * 1e6 AS extend_ns, sum(fsync_time) * 1e6 AS fsync_ns
FROM pg_stat_io WHERE object <> 'wal' GROUP BY context
"""


def moment_queries(version: int) -> dict[str, str]:
    """Return what tells of the moment in which it is asked, by what it tells of, in words.

    Args:
        version: The server's, as ``server_version_num`` has it.
    """
    checkpoints = _CHECKPOINTS_17 if version >= 170000 else _CHECKPOINTS_13
    return {"the WAL's position": WAL_POSITION, "checkpoints": checkpoints}


def report_queries(version: int) -> dict[str, str]:
    """Return what tells what backends have reported, by what it tells of, in words.

    Each yields one row of figures by name, but for a first column ``context``: then each row's
    names are those of its context.

    Args:
        version: The server's, as ``server_version_num`` has it.
    """
    queries = {"databases": DATABASE}
    if version >= 140000:
        queries["the WAL"] = _WAL_18 if version >= 180000 else _WAL_14
    if version >= 160000:
        queries["I/O"] = _IO_16
    return queries


def report_now(version: int) -> str:
    """Return what makes the server count the observer's own transactions up to this one.

    PostgreSQL 15 and later do so at once when they are asked to, but only if there is more to
    report than transactions: so a table is read. Before that, a session reports at the end of any
    transaction, half a second after its last report.
    """
    if version < 150000:
        return "SELECT 1"
    return "SELECT pg_stat_force_next_flush() FROM pg_database LIMIT 1"
