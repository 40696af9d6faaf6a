"""Samples the counters of a running server, which is not restarted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from seatrial.errors import UsageError
from seatrial.postgres.connection import connect, parse_url
from seatrial.trials.cache.analysis.sweep_bound import (
    CacheBound,
    bound_points,
    gain_ratio_max,
    present_relations,
)
from seatrial.trials.cache.measure.counters import PAGE_BYTES, relation_accesses
from seatrial.trials.watch.measure.relations import NAMES, RELATIONS, relation_name

if TYPE_CHECKING:
    import psycopg

RELATIONS_MAX: Final = 12
OPEN_SHARE_MAX: Final = 0.1
"""Of the sampling time. A server counts the accesses of a transaction at its end: those of one that
was open for longer at either end of that time are missing, or of another time.
"""
_DATABASE: Final = """
    SELECT blks_hit, blks_read, blk_read_time / 1e3, active_time / 1e3,
        current_setting('track_io_timing')::bool, pg_size_bytes(current_setting('shared_buffers')),
        current_setting('server_version'),
        (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8
            FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid())
    FROM pg_stat_database WHERE datname = current_database()
"""
_NODES: Final = f"{NAMES}, pg_relation_filenode(c.oid) {RELATIONS}"
_BUFFERED: Final = """
    SELECT relfilenode, count(*) FROM pg_buffercache
    WHERE reldatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
        AND relfilenode IS NOT NULL
    GROUP BY 1
"""


class _Database(NamedTuple):
    """Statistics of the database, and settings of the server."""

    hits: int
    reads: int
    read_s: float
    active_s: float
    has_times: bool
    present_bytes: int
    version: str
    open_s: float
    """Age of its oldest open transaction; 0 if there is none, or none that we may see."""


def sampled_bound(url: str, for_s: float) -> CacheBound:
    """Return the bounds from a server's counters over some seconds.

    Raises:
        TargetError: when it cannot be reached.
        UsageError: when it had no accesses meanwhile.
    """
    address, secret = parse_url(url)
    with connect(address, secret=secret) as connection:
        # A server counts accesses when their transaction ends: our own are in one that ends later.
        with connection.transaction():
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            before, began_s = _statistics(connection), time.monotonic()
            relations = relation_accesses(connection)
            time.sleep(for_s)
            connection.execute("SELECT pg_stat_clear_snapshot()")
            after, seconds = _statistics(connection), time.monotonic() - began_s
            changes = [
                (name, now.size_bytes, change.accesses, change.hits)
                for name, now in relation_accesses(connection).items()
                if (change := now.since(relations.get(name))).accesses > 0
            ]
        buffered = _buffered(connection)
    hits, reads = after.hits - before.hits, after.reads - before.reads
    read_s, active_s = after.read_s - before.read_s, after.active_s - before.active_s
    open_s = max(before.open_s, after.open_s)
    if hits + reads <= 0:
        raise UsageError(
            seen=f"The server counted no page access of the database {address.dbname} for "
            f"{for_s:g} s",
            cause=f"A transaction was open for {open_s:.0f} s, whose accesses count when it ends"
            if open_s > 0
            else "Nobody used it, or the server's statistics are off (track_counts)",
            next_step="Sample it under its usual load, longer: --for 10m",
        )
    is_complete = open_s <= OPEN_SHARE_MAX * seconds
    share = min(1.0, read_s / active_s) if after.has_times and active_s > 0 else None
    data_bytes = sum(each.size_bytes for each in relations.values())
    hit_share = hits / (hits + reads)
    return CacheBound(
        server=f"PostgreSQL {after.version.split()[0]}",
        seconds=seconds,
        present_bytes=after.present_bytes,
        data_bytes=data_bytes,
        accesses=hits + reads,
        hit_share=hit_share,
        reads_per_s=reads / seconds if is_complete else None,
        open_s=open_s,
        read_wait_share=share,
        gain_ratio_max=gain_ratio_max(share) if is_complete else None,
        points=bound_points(after.present_bytes, hit_share, data_bytes),
        relations=present_relations(changes, buffered, RELATIONS_MAX),
    )


def _statistics(connection: psycopg.Connection) -> _Database:
    row = connection.execute(_DATABASE).fetchone()
    if row is None:
        raise RuntimeError("a server has statistics of the database that one is connected to")
    return _Database(*row)


def _buffered(connection: psycopg.Connection) -> dict[str, int] | None:
    """Return what of each relation is in shared buffers (bytes); None without pg_buffercache."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    try:
        pages: dict[int, int] = dict(connection.execute(_BUFFERED).fetchall())
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        return None
    return {
        relation_name(name, kind, table): pages.get(node, 0) * PAGE_BYTES
        for name, kind, table, node in connection.execute(_NODES)
    }
