"""The server's statistics and waits, queried over one connection during a trial.

Source: PostgreSQL's documentation, chapter "The Cumulative Statistics System", of each version.
Every figure is cast to a double, whose 53 bits suffice for any count in a trial.

Source: PostgreSQL's documentation, "Wait Events of Type ...": an active backend without a wait
event is assumed to run or to queue for a CPU.

A share is between 0 and 1. The columns of the machine are there only when the server runs on it.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any, Final

import msgspec

from seatrial.errors import SeatrialError, TargetError
from seatrial.trials.database.analysis.readings import ON_CPU, class_of
from seatrial.trials.database.measure.observe_series import (
    Derive,
    Readings,
    cores,
    count,
    mean_ms,
    now,
    per_s,
    rest_of,
    share_among,
    share_of_time,
)

if TYPE_CHECKING:
    import psycopg

    from seatrial.postgres.connection import Address, Secret


Record = dict[str, Any]
"""A row by the names of its columns."""

STATEMENT_TIMEOUT_S: Final = 1.0
CONNECT_TIMEOUT_S: Final = 2

_SETTINGS: Final = (
    f"SET statement_timeout = '{STATEMENT_TIMEOUT_S:g}s'",
    "SET idle_in_transaction_session_timeout = 0",
)


class Session:
    """A connection to the server under trial.

    Args:
        address: Address of the server.
        secret: The password, if needed.

    Attributes:
        version: The server's ``server_version_num``.
        pid: Number of the server's process, on the server's machine.
        transactions: Number of own transactions committed so far.
        timed_out: Number of statements that timed out.

    Raises:
        TargetError: when the server cannot be reached, or a pooler answers in its place.
        psycopg.Error: when it fails right after.
    """

    def __init__(self, address: Address, secret: Secret | None) -> None:
        from seatrial.postgres.connection import connect  # noqa: PLC0415 - loads psycopg

        options = {
            "connect_timeout": str(CONNECT_TIMEOUT_S),
            "application_name": "seatrial observer",
        }
        parameters = {**address.parameters, **options}
        observer_address = msgspec.structs.replace(address, parameters=parameters)
        self._connection: psycopg.Connection[Any] = connect(observer_address, secret=secret)
        self.pid = self._connection.info.backend_pid
        self._refuse_pooler(address)
        for setting in _SETTINGS:
            self._connection.execute(setting)
        # From here on every statement is prepared when it is first sent.
        self._connection.prepare_threshold = 0
        # Creating one for each statement takes as long as sending it.
        self._cursor = self._connection.cursor()
        self.version = self._connection.info.server_version
        self.transactions = 0
        self.timed_out = 0

    def _refuse_pooler(self, address: Address) -> None:
        """Raise behind a pooler: our settings would stay in sessions that others get."""
        from seatrial.postgres.connection import is_pooled  # noqa: PLC0415 - loads psycopg

        if not is_pooled(self._connection):
            return
        self._connection.close()
        raise TargetError(
            seen=f"{address.endpoint} is a connection pooler, whose sessions are not monitored",
            cause="Its clients share the server's sessions: settings of one stay for the others",
            next_step="Use the server's own address",
        )

    def rows(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query; None when it timed out.

        Raises:
            psycopg.Error: when the query fails or the connection is lost.
        """
        cursor = self._execute(query, values)
        return None if cursor is None else cursor.fetchall()

    def records(self, query: str, values: Mapping[str, Any]) -> list[Record] | None:
        """Return the rows of a query by column name; None when it timed out.

        Raises:
            psycopg.Error: when the query fails or the connection is lost.
        """
        cursor = self._execute(query, values)
        if cursor is None:
            return None
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def disconnect(self) -> None:
        """End the connection during a hanging query, from another thread."""
        with suppress(OSError, ValueError):
            handle = os.dup(self._connection.fileno())
            with socket.socket(fileno=handle) as line:
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _execute(
        self, query: str, values: Mapping[str, Any]
    ) -> psycopg.Cursor[tuple[Any, ...]] | None:
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            self._cursor.execute(query, values)
        except psycopg.errors.QueryCanceled:
            self.timed_out += 1
            return None
        self.transactions += 1
        return self._cursor


def reason(error: Exception) -> str:
    """Return why a statement failed, by the server's message alone: libpq's contains addresses."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return message or "the connection was lost"


FACTS: Final = """
SELECT current_database() AS database,
       current_setting('block_size')::int AS block_bytes,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
       current_setting('track_io_timing') AS track_io_timing,
       coalesce(current_setting('track_wal_io_timing', true), 'off') AS track_wal_io_timing,
       ARRAY(SELECT oid::bigint FROM pg_database WHERE datname = ANY(%(databases)s)) AS oids
"""

# The function under pg_stat_activity: the view would join unneeded names.
WAITS: Final = """
SELECT CASE backend_type WHEN 'client backend' THEN state ELSE backend_type END,
       wait_event_type, wait_event, count(*)
FROM pg_stat_get_activity(NULL)
WHERE application_name IS DISTINCT FROM current_setting('application_name')
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
    """Return the queries of current values, each with a description.

    Args:
        version: The server's ``server_version_num``.
    """
    checkpoints = _CHECKPOINTS_17 if version >= 170000 else _CHECKPOINTS_13
    return {"the WAL's position": WAL_POSITION, "checkpoints": checkpoints}


def report_queries(version: int) -> dict[str, str]:
    """Return the queries of what backends have reported, each with a description.

    Each returns one row of figures by name, except with a first column ``context``: then each row's
    names are prefixed by its context.

    Args:
        version: The server's ``server_version_num``.
    """
    queries = {"databases": DATABASE}
    if version >= 140000:
        queries["the WAL"] = _WAL_18 if version >= 180000 else _WAL_14
    if version >= 160000:
        queries["I/O"] = _IO_16
    return queries


def report_now(version: int) -> str:
    """Return the query that makes the server count the observer's own transactions up to now.

    PostgreSQL 15 and later report on request, but only if there is more to report than
    transactions: so a table is read. Earlier versions report at the end of a transaction, half a
    second after the last report.
    """
    if version < 150000:
        return "SELECT 1"
    return "SELECT pg_stat_force_next_flush() FROM pg_database LIMIT 1"


WAIT_CLASSES: Final = (
    *("cpu", "lwlock", "lock", "io", "ipc", "client", "timeout", "buffer_pin", "other"),
)
"""Classes of waits of active backends; each is a column ``waits_<class>_share``."""

_CHECKPOINTER_IDLE: Final = ("Activity", "CheckpointerMain")
_COUNTED: Final = {
    "active": "backends_active",
    "idle": "backends_idle",
    "idle in transaction": "backends_idle_in_transaction",
    "idle in transaction (aborted)": "backends_idle_in_transaction",
    "autovacuum worker": "autovacuum_workers",
}

Row = tuple[str | None, str | None, str | None, int]
"""A client's state or a background process's kind, wait class, wait event, count."""


class Waits:
    """Counts observations, by wait and by entry of the series.

    Args:
        period_s: Length of an entry.

    Attributes:
        by_event: How often active clients were observed in each wait, by ``class:event``; ``CPU``
                for none.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._readings: Counter[int] = Counter()
        self._seen: dict[int, Counter[str]] = {}
        self._checkpointer_readings: Counter[int] = Counter()
        self.by_event: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Number of readings."""
        return self._readings.total()

    def add(self, at_s: float, rows: Iterable[Row]) -> None:
        """Count one reading of the server, taken at ``at_s`` after the start."""
        entry = int(at_s / self._period_s)
        self._readings[entry] += 1
        seen = self._seen.setdefault(entry, Counter())
        for kind, wait_class, event, number in rows:
            if kind == "checkpointer":
                self._checkpointer_readings[entry] += 1
                seen["checkpointing"] += (wait_class, event) != _CHECKPOINTER_IDLE
            elif kind in _COUNTED:
                seen[_COUNTED[kind]] += number
            if kind == "active":
                seen[class_of(wait_class or ON_CPU)] += number
                self.by_event[f"{wait_class}:{event}" if wait_class else ON_CPU] += number

    def columns(self, entries: int) -> dict[str, list[float | None]]:
        """Return the columns of the given number of entries; empty without any observation.

        ``waits_<class>_share``: share of the active clients in the entry, None without any.
        ``backends_active``, ``backends_idle``, ``backends_idle_in_transaction``,
        ``autovacuum_workers``: mean numbers. ``checkpoint_running_share``: share of readings in
        which the checkpointer was busy, including when it accepts sync requests from backends,
        which takes only a moment.
        """
        if not self._readings:
            return {}
        columns: dict[str, list[float | None]] = {
            f"waits_{name}_share": self._shares(name, entries) for name in WAIT_CLASSES
        }
        for name in dict.fromkeys(_COUNTED.values()):
            columns[name] = self._means(name, self._readings, entries)
        if self._checkpointer_readings:
            columns["checkpoint_running_share"] = self._means(
                "checkpointing", self._checkpointer_readings, entries
            )
        return columns

    def _shares(self, name: str, entries: int) -> list[float | None]:
        active = Counter({entry: seen["backends_active"] for entry, seen in self._seen.items()})
        return self._means(name, active, entries)

    def _means(self, name: str, among: Counter[int], entries: int) -> list[float | None]:
        return [
            self._seen[entry][name] / among[entry] if among[entry] else None
            for entry in range(entries)
        ]


_PROCESSOR_PARTS_NS: Final = tuple(
    f"machine_{part}_ns" for part in ("user", "system", "iowait", "steal", "idle")
)

MACHINE_COLUMNS: Final[dict[str, Derive]] = {
    "cpu_user_share": share_among("machine_user_ns", _PROCESSOR_PARTS_NS),
    "cpu_system_share": share_among("machine_system_ns", _PROCESSOR_PARTS_NS),
    "cpu_iowait_share": share_among("machine_iowait_ns", _PROCESSOR_PARTS_NS),
    "cpu_steal_share": share_among("machine_steal_ns", _PROCESSOR_PARTS_NS),
    "cpu_idle_share": share_among("machine_idle_ns", _PROCESSOR_PARTS_NS),
    "server_cpu_cores": cores("server_cpu_ns"),
    "server_delay_cores": cores("server_delay_ns"),
    "server_read_bytes_per_s": per_s("server_read_bytes"),
    "client_cpu_cores": cores("client_cpu_ns"),
    "client_delay_cores": cores("client_delay_ns"),
    "seatrial_cpu_cores": cores("seatrial_cpu_ns"),
    "others_cpu_cores": rest_of(
        ("machine_user_ns", "machine_system_ns"),
        ("server_cpu_ns", "client_cpu_ns", "seatrial_cpu_ns"),
    ),
    "psi_cpu_some_share": share_of_time("psi_cpu_some_ns"),
    "psi_io_some_share": share_of_time("psi_io_some_ns"),
    "psi_io_full_share": share_of_time("psi_io_full_ns"),
    "psi_memory_some_share": share_of_time("psi_memory_some_ns"),
    "device_read_per_s": per_s("device_reads"),
    "device_write_per_s": per_s("device_writes"),
    "device_read_bytes_per_s": per_s("device_read_bytes"),
    "device_write_bytes_per_s": per_s("device_write_bytes"),
    "device_read_latency_ms": mean_ms("device_read_ns", "device_reads"),
    "device_write_latency_ms": mean_ms("device_write_ns", "device_writes"),
    "device_queue_mean": share_of_time("device_queued_ns"),
    "device_in_flight": now("device_in_flight"),
    "device_busy_share": share_of_time("device_busy_ns", among="devices"),
    "device_flush_per_s": per_s("device_flushes"),
    "device_flush_latency_ms": mean_ms("device_flush_ns", "device_flushes"),
}
"""Of the machine, of the device under the data, and of the processes of server and client.

``*_cpu_cores`` is CPU time per second, such as 1.6 for 1.6 busy processors: ``server`` without the
observer's session, ``client`` the processes of the load, ``seatrial`` this process (with the
driver, where it is a thread of it) and that session, ``others`` the rest of the machine, including
the kernel's own threads. ``*_delay_cores`` is the time per second in which threads were runnable
without a CPU, summed over them. ``device_queue_mean`` is the mean number of requests in flight
(their total time over elapsed time, by Little's law); ``device_in_flight`` the number at the
entry's end. With several devices under one file system rates are summed, and the busy share is
their mean.
"""

IO_PREFIX: Final = "io_"
"""Prefix of names from pg_stat_io; context and operation follow."""

IO_CONTEXTS: Final = ("normal", "vacuum", "bulkread", "bulkwrite", "init")
"""Contexts of the server's I/O, as in pg_stat_io."""

_IO_COLUMNS: Final[dict[str, Derive]] = {
    f"{IO_PREFIX}{context}_{kind}_per_s": per_s(f"{IO_PREFIX}{context}_{kind}")
    for context in IO_CONTEXTS
    for kind in ("reads", "writes", "extends", "fsyncs")
}

MOMENT_COLUMNS: Final[dict[str, Derive]] = {
    "wal_bytes_per_s": per_s("wal_bytes"),
    "checkpoints_timed": count("checkpoints_timed"),
    "checkpoints_requested": count("checkpoints_requested"),
    "checkpoint_buffers_per_s": per_s("checkpoint_buffers"),
    "bgwriter_buffers_per_s": per_s("bgwriter_buffers"),
    "backend_buffers_per_s": per_s("backend_buffers"),
}
"""Current values of the server. ``*_buffers_per_s`` are blocks written by the checkpointer, the
background writer and the clients' own backends."""

REPORT_COLUMNS: Final[dict[str, Derive]] = {
    "transactions_per_s": per_s("transactions_committed"),
    "rollbacks_per_s": per_s("transactions_rolled_back"),
    "shared_hits_per_s": per_s("shared_hits"),
    "shared_reads_per_s": per_s("shared_reads"),
    "temp_bytes_per_s": per_s("temp_bytes"),
    "deadlocks": count("deadlocks"),
    "wal_records_per_s": per_s("wal_records"),
    "wal_fpi_per_s": per_s("wal_fpi"),
    "wal_buffers_full_per_s": per_s("wal_buffers_full"),
    "wal_writes_per_s": per_s("wal_writes"),
    "wal_syncs_per_s": per_s("wal_syncs"),
    "wal_sync_latency_ms": mean_ms("wal_sync_ns", "wal_syncs"),
    **_IO_COLUMNS,
}
"""Values reported by the server's backends; blocks are the server's, usually 8 KiB each.

A backend reports at most once a second (PostgreSQL's PGSTAT_MIN_INTERVAL): a report is half a
second late on average. So these are read half a second later than the rest, and an entry is
accurate to half a second; the last one is read when all backends have ended, so that the entries
add up to the totals.
"""

SETTLE_S_MAX: Final = 0.6
"""Maximum wait for the trial's backends to end, when they report for the last time."""
POLL_S: Final = 0.02
LATE_REPORT_S: Final = 0.6
"""Before version 15 reports are sent every half second, and read when half a second old."""
REPORT_LAG_S: Final = 0.5
"""Mean delay of a report: backends report at most once a second."""
PROMPT_VERSION: Final = 150000
"""From this version on, reports are visible at once."""
BLOCK_BYTES: Final = 8192


class ServerWatch:
    """Reads a server's statistics in each period, and its waits more often.

    Its own transactions are subtracted from the server's counts.

    Args:
        address: Address of the server.
        secret: The password, if needed.
        databases: Databases whose transactions and blocks count; all if empty.
        period_s: Interval between two readings of the statistics.
        waits_period_s: Interval between two readings of the waits.

    Attributes:
        moments: Readings of current values.
        reports: Readings of values that the server's backends report periodically.
        waits: Waits of the active clients.
        notes: What could not be read and why, as sentences.
        block_bytes: Size of the server's blocks.
        cpu_ns: CPU time of the monitoring thread.
    """

    def __init__(
        self,
        address: Address,
        secret: Secret | None,
        *,
        databases: Collection[str],
        period_s: float,
        waits_period_s: float,
    ) -> None:
        self.moments = Readings(period_s)
        self.reports = Readings(period_s)
        self.waits = Waits(period_s)
        self.notes: list[str] = []
        self.block_bytes = BLOCK_BYTES
        self.cpu_ns = 0
        self._address = address
        self._secret = secret
        self._databases = list(databases)
        self._period_s = period_s
        self._waits_period_s = waits_period_s
        self._session: Session | None = None
        self._moment_queries: list[str] = []
        self._report_queries: list[str] = []
        self._values: Record = {}
        self._counts_itself = False
        self._untimed: tuple[str, ...] = ()
        self._others_at_start = 0
        self._began_s = 0.0

    @property
    def session_pid(self) -> int | None:
        """Process number of our session on the server; None without one."""
        return None if self._session is None else self._session.pid

    def open(self) -> None:
        """Connect and find out what is readable; errors are noted, never raised."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            self._session = Session(self._address, self._secret)
            self._read_facts(self._session)
            self._prepare(self._session)
        except SeatrialError as error:
            self._note_failure(f"{error.seen} {error.next_step}")
        except (psycopg.Error, OSError) as error:
            self._note_failure(reason(error))

    def begin(self, began_s: float) -> None:
        """Take the first reading; ``began_s`` is the trial's start on the monotonic clock."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        self._began_s = began_s
        if self._session is None:
            return
        try:
            self._read_moment(self._session, 0.0)
            self._read_reports(self._session, 0.0)
        except (psycopg.Error, OSError) as error:
            self._note_failure(reason(error))

    def watch(self, ending: Event) -> None:
        """Read until the end is requested, then wait for the last reports and read once more.

        A statement that times out leaves a gap; when the connection is lost, everything after it is
        missing. Never raises for what the server does.
        """
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        session = self._session
        if session is None:
            return
        try:
            self._watch(session, ending)
            ended_s = self._now_s()
            self._read_moment(session, ended_s)
            self._settle(session)
            self._read_reports(session, ended_s)
        except (psycopg.Error, OSError) as error:
            self._note_failure(reason(error))
        if session.timed_out:
            self.notes.append(
                f"{session.timed_out} monitoring queries took longer than {STATEMENT_TIMEOUT_S:g} s"
                " and were cancelled; their figures are missing"
            )
        with suppress(psycopg.Error, OSError):
            session.close()
        self.cpu_ns = time.thread_time_ns()

    def disconnect(self) -> None:
        """End the connection during a hanging query, from another thread."""
        if self._session is not None:
            self._session.disconnect()

    def _read_facts(self, session: Session) -> None:
        """Find out the server's version, permissions and settings."""
        [facts] = session.records(FACTS, {"databases": self._databases}) or [{}]
        self.block_bytes = facts.get("block_bytes", BLOCK_BYTES)
        self._values = {"all": not self._databases, "oids": facts.get("oids", [])}
        self._counts_itself = not self._databases or facts.get("database") in self._databases
        untimed = {"track_io_timing": (IO_PREFIX, "shared_"), "track_wal_io_timing": ("wal_",)}
        for setting, prefixes in untimed.items():
            if facts.get(setting) != "on":
                self._untimed += prefixes
        if not facts.get("sees_all"):
            self.notes.append(
                "The role may not see other roles' sessions (it lacks pg_read_all_stats): wait "
                "events are those of its own sessions, and running checkpoints are not visible"
            )

    def _prepare(self, session: Session) -> None:
        """Send every statement once, which prepares it and tests permissions."""
        self._moment_queries = self._permitted(session, moment_queries(session.version))
        self._report_queries = self._permitted(session, report_queries(session.version))
        session.rows(WAITS, self._values)
        others = session.rows(OTHERS, {})
        self._others_at_start = others[0][0] if others else 0
        if session.version < PROMPT_VERSION:
            time.sleep(LATE_REPORT_S)
        # Counted from the first reading on, by when all statements are prepared: to prepare one is
        # a transaction of its own.
        session.rows(report_now(session.version), {})

    def _permitted(self, session: Session, queries: dict[str, str]) -> list[str]:
        """Return the queries that succeed, and note why others do not."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        allowed = []
        for subject, query in queries.items():
            try:
                session.rows(query, self._values)
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                self.notes.append(f"The statistics of {subject} could not be read: {reason(error)}")
            else:
                allowed.append(query)
        return allowed

    def _watch(self, session: Session, ending: Event) -> None:
        """Read waits and statistics, each at its interval, until the end is requested."""
        look_s, moment_s, report_s = self._waits_period_s, self._period_s, self._period_s
        while True:
            due_s = min(look_s, moment_s, report_s + REPORT_LAG_S)
            if ending.wait(max(0.0, due_s - self._now_s())):
                return
            now_s = self._now_s()
            if now_s >= look_s:
                look_s = _boundary_after(now_s, self._waits_period_s)
                self._read_waits(session, now_s)
            if now_s >= moment_s:
                moment_s = _boundary_after(now_s, self._period_s)
                self._read_moment(session, now_s)
            if now_s - REPORT_LAG_S >= report_s:
                report_s = _boundary_after(now_s - REPORT_LAG_S, self._period_s)
                self._read_reports(session, now_s - REPORT_LAG_S)

    def _read_waits(self, session: Session, at_s: float) -> None:
        """Read the waits of the clients once."""
        rows = session.rows(WAITS, self._values)
        if rows is not None:
            self.waits.add(at_s, rows)

    def _read_moment(self, session: Session, at_s: float) -> None:
        """Read current values, unless the server is too slow."""
        found = self._read(session, self._moment_queries)
        if found is not None:
            self.moments.add(at_s, found)

    def _read_reports(self, session: Session, at_s: float) -> None:
        """Read what the backends reported until ``at_s``, unless the server is too slow."""
        if session.rows(report_now(session.version), {}) is None:
            return
        own = session.transactions
        found = self._read(session, self._report_queries)
        if found is None:
            return
        if self._counts_itself and "transactions_committed" in found:
            found["transactions_committed"] -= own
        self.reports.add(at_s, found)

    def _read(self, session: Session, queries: list[str]) -> dict[str, float] | None:
        """Return the figures of some queries; None when one timed out."""
        found: dict[str, float] = {}
        for query in queries:
            records = session.records(query, self._values)
            if records is None:
                return None
            for record in records:
                found |= self._figures(record)
        return found

    def _figures(self, record: Record) -> dict[str, float]:
        """Return the figures of one row, without times that the server does not measure."""
        context = record.pop("context", "")
        prefix = f"{IO_PREFIX}{context}_" if context else ""
        figures = {f"{prefix}{name}": value for name, value in record.items() if value is not None}
        return {
            name: value
            for name, value in figures.items()
            if not (name.endswith("_ns") and name.startswith(self._untimed))
        }

    def _settle(self, session: Session) -> None:
        """Wait until the trial's backends have ended, with their last report."""
        until_s = self._now_s() + SETTLE_S_MAX
        while self._now_s() < until_s:
            others = session.rows(OTHERS, {})
            if others is None or others[0][0] <= self._others_at_start:
                break
            time.sleep(POLL_S)
        if session.version < PROMPT_VERSION:
            time.sleep(LATE_REPORT_S)

    def _note_failure(self, why: str) -> None:
        """Note why and from when on the statistics are missing."""
        since_s = self.moments.last_s
        words = "are missing" if since_s is None else f"end after {since_s:.1f} s"
        self.notes.append(f"The server's own statistics {words}: {why}")

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s


def _boundary_after(at_s: float, period_s: float) -> float:
    """Return the next multiple of a period: missed readings are skipped."""
    return (int(at_s / period_s) + 1) * period_s
