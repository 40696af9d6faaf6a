"""Counters of reads, writes and waits of a server (PostgreSQL 16 and later).

Source: PostgreSQL manual, "The Cumulative Statistics System": pg_stat_io, pg_stat_database and the
functions behind pg_statio_all_tables.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, LiteralString, NamedTuple

import msgspec

from seatrial.machine.fingerprint.tree import LIVE
from seatrial.postgres.server_processes import server_pids
from seatrial.trials.watch.measure.relations import NAMES, RELATIONS, relation_name

if TYPE_CHECKING:
    import psycopg

PAGE_BYTES: Final = 8192
VERSION_MIN: Final = 160000
"""The oldest version with pg_stat_io and direct I/O, as ``server_version_num``."""
_IO: Final = """
    SELECT to_jsonb(s) FROM pg_stat_io s
    WHERE s.object = 'relation' AND s.backend_type = 'client backend'
"""
_RELATION_ACCESSES: Final = (
    f"{NAMES}, pg_stat_get_blocks_fetched(c.oid), pg_stat_get_blocks_hit(c.oid), "
    f"pg_relation_size(c.oid) {RELATIONS}"
)
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_SELF, _CHILDREN = slice(11, 13), slice(13, 15)
"""User and system time of a process, and of children that it waited for; see proc(5)."""


class RelationAccesses(NamedTuple):
    """Accesses of a table or index.

    Attributes:
        accesses: Pages that were accessed.
        hits: Those in shared buffers.
        size_bytes: Size of its main fork.
    """

    accesses: int
    hits: int
    size_bytes: int

    def since(self, before: RelationAccesses | None) -> RelationAccesses:
        """Return the accesses after an earlier moment; all of them without one."""
        if before is None:
            return self
        return RelationAccesses(
            self.accesses - before.accesses, self.hits - before.hits, self.size_bytes
        )


class Counters(msgspec.Struct, frozen=True, kw_only=True):
    """I/O of clients up to a moment, or between two.

    Attributes:
        at_unix_s: The moment.
        hits: Pages that they found in shared buffers.
        reads: Pages that they read.
        read_s: Time of waiting for these.
        writes: Changed pages that they wrote to make room.
        write_s: Time of waiting for these.
        scan_reads: Reads through the small ring of a large scan.
        cpu_s: Processor time of the server's processes; 0 where it is on another machine.
    """

    at_unix_s: float
    hits: int
    reads: int
    read_s: float
    writes: int
    write_s: float
    scan_reads: int
    cpu_s: float

    def since(self, before: Counters) -> Counters:
        """Return the increase since an earlier moment."""
        names = ("hits", "reads", "read_s", "writes", "write_s", "scan_reads", "cpu_s")
        return msgspec.structs.replace(
            self, **{name: getattr(self, name) - getattr(before, name) for name in names}
        )

    @property
    def accesses(self) -> int:
        """Pages accessed."""
        return self.hits + self.reads


def read_counters(connection: psycopg.Connection, folder: Path | None = None) -> Counters:
    """Return the counters of clients now.

    Args:
        connection: A connection to the server.
        folder: Its data folder, if it is on this machine.
    """
    rows = [row for (row,) in connection.execute(_IO)]

    def pages(operation: str) -> int:
        return sum(_pages(row, operation) for row in rows)

    def waited_s(name: str) -> float:
        return sum(row[name] or 0.0 for row in rows) / 1e3

    return Counters(
        at_unix_s=time.time(),
        hits=sum(row["hits"] or 0 for row in rows),
        reads=pages("read"),
        read_s=waited_s("read_time"),
        writes=pages("write"),
        write_s=waited_s("write_time"),
        scan_reads=sum(_pages(row, "read") for row in rows if row["context"] == "bulkread"),
        cpu_s=_cpu_s(folder) if folder is not None else 0.0,
    )


def relation_accesses(connection: psycopg.Connection) -> dict[str, RelationAccesses]:
    """Return accesses of each table and index of the database, by its name in a recording."""
    query: LiteralString = _RELATION_ACCESSES
    return {
        relation_name(name, kind, table): RelationAccesses(fetches, hits, size_bytes)
        for name, kind, table, fetches, hits, size_bytes in connection.execute(query)
    }


def _pages(row: dict[str, float | None], operation: str) -> int:
    """Return pages of an operation: version 18 counts requests and bytes, those before pages."""
    if f"{operation}_bytes" in row:
        return round((row[f"{operation}_bytes"] or 0) / PAGE_BYTES)
    return round(row[f"{operation}s"] or 0)


def _cpu_s(folder: Path) -> float:
    """Return the processor time of a server, with that of its processes that have ended."""
    ticks = 0
    for pid in server_pids(folder):
        _, _, fields_text = (LIVE.text(f"/proc/{pid}/stat") or "").rpartition(")")
        fields = fields_text.split()
        if len(fields) > _CHILDREN.stop:
            ticks += sum(map(int, fields[_SELF])) + sum(map(int, fields[_CHILDREN]))
    return ticks / _TICKS_PER_S
