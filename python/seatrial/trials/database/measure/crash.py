"""Crash trials: kills a server under load, with or without a power cut, and checks its durability.

All crashes of a trial use the same data, so each check also covers the transactions of earlier
crashes. A data folder that does not recover is discarded; the next crash begins with a new one.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.errors import SeatrialError, SpaceError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.cluster import Cluster, create_cluster
from seatrial.postgres.connection import Address, connect
from seatrial.postgres.server import Server
from seatrial.postgres.server_processes import end_server
from seatrial.trials.database.measure.client_processes import Process, ignored, run_to_end
from seatrial.trials.database.measure.crash_ledger import (
    FILLER_BYTES,
    Entry,
    Ledger,
    LedgerContent,
    Verdict,
    rows_of,
)
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.embedded import server_settings
from seatrial.trials.database.measure.pgbench import error_text
from seatrial.trials.database.measure.power_cut import SIZE_BYTES, CuttableFilesystem
from seatrial.trials.database.measure.server_session import ServerSession, refused
from seatrial.trials.database.study.cost import data_bytes
from seatrial.trials.database.study.workloads import DatabaseSpec

if TYPE_CHECKING:
    import psycopg


_LEDGER: Final = "SELECT worker, sequence, source, target, amount FROM crash_ledger"
_CHANGED: Final = "SELECT id, value, changed FROM {} WHERE value <> 0 OR changed <> 0"
_LEFT: Final = _CHANGED.format("crash_left")
_RIGHT: Final = _CHANGED.format("crash_right")

AMCHECK_OK: Final = 0
AMCHECK_FAULTS: Final = 2
"""Source: PostgreSQL's documentation of pg_amcheck, "Exit Status" in src/bin/pg_amcheck."""


_DAMAGE: Final = ("XX", "58", "22", "42P01", "42703")
"""SQLSTATE of unreadable pages and files, of invalid values, and of missing tables and columns.

Source: PostgreSQL's documentation, Appendix A. Timeouts, broken connections and insufficient
resources say nothing about the data.
"""
_DAMAGE_WORDS: Final = re.compile(
    r"invalid page|could not (open|read) (file|relation|block)|could not find|cache lookup failed"
    r"|does not exist|is missing|contains (invalid|incorrect)|not a valid data directory"
)
"""Of a server that speaks English; libpq has no SQLSTATE of a refused connection."""


class DamagedError(TargetError):
    """The database or a table cannot be read because it is damaged or missing."""


def read_content(address: Address) -> LedgerContent:
    """Read all tables of a crash trial; where pages have checksums, reading verifies them.

    Unchanged rows are read by the server, but not transferred.

    Raises:
        DamagedError: when the database or a table is damaged or missing.
        TargetError: when it cannot be read for another reason.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    try:
        with contextlib.closing(connect(address)) as connection:
            entries = [Entry(*row) for row in connection.execute(_LEDGER)]
            left = {row[0]: (row[1], row[2]) for row in connection.execute(_LEFT)}
            right = {row[0]: (row[1], row[2]) for row in connection.execute(_RIGHT)}
    except TargetError as error:
        message = " ".join(str(error.__context__).split())
        if not _DAMAGE_WORDS.search(message):
            raise
        raise _damaged(f"The database cannot be connected to: {message}", error) from None
    except psycopg.Error as error:
        found = refused(error)
        if not (error.sqlstate or "").startswith(_DAMAGE):
            raise found from None
        raise _damaged(found.seen, found) from None
    return LedgerContent(entries=entries, left=left, right=right)


def _damaged(seen: str, error: TargetError) -> DamagedError:
    return DamagedError(seen=seen, cause="The data are damaged", next_step=error.next_step)


def can_check_indexes(binaries: Binaries) -> bool:
    """Return whether this PostgreSQL has pg_amcheck (version 14 and later)."""
    return (binaries.folder / "pg_amcheck").is_file()


def index_faults(address: Address, binaries: Binaries) -> str:
    """Return what pg_amcheck reports for tables and indexes; empty when nothing.

    Every row of a table is looked up in its indexes (``--heapallindexed``).

    Raises:
        TargetError: when it cannot be run.
    """
    command = [
        str(binaries.program("pg_amcheck")),
        "--install-missing",
        "--heapallindexed",
        f"--database={address.dbname}",
    ]
    ended = run_to_end(lambda: Process(command, address.environment(), ignored))
    if ended.status == AMCHECK_OK:
        return ""
    message = error_text([*ended.lines, *ended.output.splitlines()])
    if ended.status == AMCHECK_FAULTS:
        return message
    raise TargetError(
        seen=f"pg_amcheck could not check the database: {message}",
        cause="The extension amcheck is not installed with this PostgreSQL, or the server stopped",
        next_step="Install PostgreSQL's contrib modules, or select another one with --pg-bin",
    )


_TABLES: Final = """
    CREATE TABLE crash_left WITH (fillfactor = 80) AS
        SELECT id, 0::bigint AS value, 0 AS changed, repeat(' ', {filler}) AS filler
        FROM generate_series(1, {rows}) AS id;
    CREATE TABLE crash_right WITH (fillfactor = 80) AS TABLE crash_left;
    ALTER TABLE crash_left ADD PRIMARY KEY (id);
    ALTER TABLE crash_right ADD PRIMARY KEY (id);
    CREATE TABLE crash_ledger (
        worker int, sequence int, source int NOT NULL, target int NOT NULL, amount int NOT NULL,
        PRIMARY KEY (worker, sequence)
    );
"""

_DEBIT: Final = "UPDATE crash_left SET value = value - %s, changed = changed + 1 WHERE id = %s"
_CREDIT: Final = "UPDATE crash_right SET value = value + %s, changed = changed + 1 WHERE id = %s"
_INSERT: Final = "INSERT INTO crash_ledger VALUES (%s, %s, %s, %s, %s)"
_CONNECT_S_MAX: Final = 30.0
_END_S_MAX: Final = 30.0
_PAUSE_S: Final = 0.01


class AcknowledgedTransaction(msgspec.Struct, frozen=True, array_like=True):
    """One acknowledged transaction.

    Attributes:
        at_ns: Time since the load began.
        took_ns: Time since its BEGIN.
    """

    at_ns: int
    took_ns: int


def make_tables(connection: psycopg.Connection, scale: int) -> None:
    """Create the tables of a crash trial, and fill the two between which amounts are moved.

    Args:
        connection: Connection to the database.
        scale: 16 MB for each unit; 0 for tables without a filler.

    Raises:
        psycopg.Error: when the server refuses.
    """
    filler = FILLER_BYTES if scale else 0
    connection.execute(_TABLES.format(rows=rows_of(scale), filler=filler).encode())


class CrashLoad:
    """Workers with a connection each, which run one transaction after the other.

    Args:
        address: Address of the database.
        ledger: Records what each sends and what is acknowledged.
        workers: Number of workers.
    """

    def __init__(self, address: Address, ledger: Ledger, workers: int) -> None:
        self._address = address
        self._ledger = ledger
        self._barrier = threading.Barrier(workers + 1)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(workers)
        ]
        self._error: SeatrialError | None = None
        self.answers: list[AcknowledgedTransaction] = []
        """Acknowledged transactions, in no particular order."""
        self.failed = 0
        """Transactions that the server refused while running."""
        self.cut_off = 0
        """Transactions in progress when the connection broke."""
        self.refusals: list[str] = []
        """The first error messages."""

    def start(self) -> None:
        """Connect all workers, then start them together.

        Raises:
            SeatrialError: when one cannot connect.
        """
        for thread in self._threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            self._barrier.wait(_CONNECT_S_MAX)
        if self._barrier.broken:
            self.stop()
            raise self._error or TargetError(
                seen=f"The workers did not connect within {_CONNECT_S_MAX:g} s",
                cause="The server accepts connections slowly: its device may hang",
                next_step="See the end of `dmesg`, and repeat with fewer clients",
            )

    def stop(self) -> None:
        """Stop all workers; those whose server is dead have ended already."""
        self._stopped.set()
        self._barrier.abort()
        for thread in self._threads:
            thread.join(_END_S_MAX)

    @property
    def has_ended(self) -> bool:
        """Whether all workers have ended, as when the server died by itself."""
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, worker: int) -> None:
        try:
            connection = connect(self._address)
        except SeatrialError as error:
            self._error = error
            self._barrier.abort()
            return
        with contextlib.closing(connection):
            connection.prepare_threshold = 0
            try:
                self._barrier.wait(_CONNECT_S_MAX)
            except threading.BrokenBarrierError:
                return
            self._transact(connection, worker, time.monotonic_ns())

    def _transact(self, connection: psycopg.Connection, worker: int, began_ns: int) -> None:
        """Run transactions until the load is stopped or the connection breaks."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        while not self._stopped.is_set():
            entry = self._ledger.next_entry(worker)
            sent_ns = time.monotonic_ns()
            try:
                self._send(connection, entry)
            except psycopg.Error as error:
                if connection.closed:
                    with self._lock:
                        self.cut_off += 1
                    return
                self._refused(connection, str(error))
            else:
                now_ns = time.monotonic_ns()
                self.answers.append(AcknowledgedTransaction(now_ns - began_ns, now_ns - sent_ns))

    def _send(self, connection: psycopg.Connection, entry: Entry) -> None:
        connection.execute("BEGIN")
        connection.execute(_DEBIT, (entry.amount, entry.left))
        connection.execute(_CREDIT, (entry.amount, entry.right))
        connection.execute(_INSERT, tuple(_fields(entry)))
        self._ledger.commits(entry)
        connection.execute("COMMIT")
        self._ledger.acknowledge(entry)

    def _refused(self, connection: psycopg.Connection, message: str) -> None:
        """Record that the running server refused a transaction, and continue after a pause."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        with self._lock:
            self.failed += 1
            if not self.refusals:
                self.refusals.append(" ".join(message.split()))
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        self._stopped.wait(_PAUSE_S)


def _fields(entry: Entry) -> Iterator[int]:
    yield from (entry.worker, entry.sequence, entry.left, entry.right, entry.amount)


DATABASE: Final = "trial"
DATA_FOLDER: Final = "data"
"""On a file system with power cuts."""
LIE_S: Final = 1.0
"""A lying drive loses the writes of this time before the power cut, if the load lasts longer."""
KILL_SHARE_MIN: Final = 0.2
"""The server is killed after this share of the longest time at the earliest."""

_LOG_SETTINGS: Final = {"max_wal_size": "128MB", "min_wal_size": "32MB"}
"""On our own small file system, unless the study sets them."""
_TICK_S: Final = 0.1
_REPORT_S: Final = 1.0
_CHECKSUMS_TIMEOUT_S: Final = 300.0


def drive_bytes(spec: DatabaseSpec) -> int:
    """Return the size of the file system for power cuts: each row may exist twice."""
    return SIZE_BYTES + 2 * data_bytes(spec.load)


class CrashResult(msgspec.Struct, frozen=True, kw_only=True):
    """One crash and the result of its check.

    Attributes:
        load: The load before it, with everything that was acknowledged.
        began_s: Start of the load, in Unix time.
        lasted_s: From then to the kill.
        verdict: Result of the check.
        recovered: Whether the server recovered.
        recovery_s: Time until the server was ready again, or failed.
        faults: Output of pg_amcheck; empty when nothing was found, None when it was not run.
        server: Name and version of the server.
        settings: Settings other than its defaults.
        database_bytes: Size of the database on disk; 0 where the server did not recover.
        notes: Notes, as sentences.
    """

    load: CrashLoad
    began_s: float
    lasted_s: float
    verdict: Verdict
    recovered: bool
    recovery_s: float
    faults: str | None
    server: str
    settings: dict[str, str]
    database_bytes: int
    notes: list[str]


class CrashTrial:
    """Our own server that is crashed repeatedly.

    Args:
        folder: The open trial folder.
        name: Name of the files created there.
        spec: Specification of the cell.
        binaries: The programs.
        journal: Records every change before it is made.
        seed: Seed of the transactions and of the crash times.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        spec: DatabaseSpec,
        *,
        binaries: Binaries,
        journal: UndoJournal,
        seed: int,
    ) -> None:
        self._spec = spec
        self._binaries = binaries
        self._journal = journal
        self._kill_times = random.Random(seed)
        self._ledger = Ledger(seed, rows_of(spec.load.scale))
        self._server: Server | None = None
        self._notes: list[str] = []
        cuts = spec.power_cut != "none"
        size_bytes = drive_bytes(spec)
        self._drive = (
            CuttableFilesystem(folder, name, journal, size_bytes=size_bytes) if cuts else None
        )
        # A file outside the file system with power cuts survives them.
        self.data_folder = self._drive.point / DATA_FOLDER if self._drive else folder / name
        self._settings = {**(_LOG_SETTINGS if cuts else {}), **server_settings(spec)}
        account = account_for(self.data_folder, binaries)
        self._cluster = create_cluster(self.data_folder, binaries, account, journal)
        self._checks_pages = _enable_checksums(self._cluster)
        self._checks_indexes = self._prepare()

    def crash(self, seconds_max: float, watcher: Watcher) -> CrashResult:
        """Start the load, kill the server at a random time, restart it, and check.

        Args:
            seconds_max: The longest time until the kill.
            watcher: Receives the progress.

        Raises:
            KeyboardInterrupt: when the user ended it.
            TargetError: when the server died before it was killed, or refuses all transactions.
        """
        server = self._server or self._cluster.start(self._settings)
        self._server = server
        server_name, settings = self._server_facts(server)
        load = CrashLoad(self._address(server), self._ledger, self._spec.clients)
        kill_at_s = seconds_max * self._kill_times.uniform(KILL_SHARE_MIN, 1.0)
        began_s, began_at_s = time.monotonic(), time.time()
        try:
            load.start()
            began_s, began_at_s = time.monotonic(), time.time()
            self._load_until(kill_at_s, began_s, load, server, watcher)
            lasted_s = time.monotonic() - began_s
            self._kill(server)
        finally:
            load.stop()
        self._server = None
        watcher.step("Server killed; recovering")
        verdict, recovery_s, faults, size_bytes, notes = self._recover()
        return CrashResult(
            load=load,
            began_s=began_at_s,
            lasted_s=lasted_s,
            verdict=verdict,
            recovered=self._server is not None,
            recovery_s=recovery_s,
            faults=faults,
            server=server_name,
            settings=settings,
            database_bytes=size_bytes,
            notes=[*self._notes, *notes],
        )

    def close(self) -> None:
        """Stop the server and clean up.

        Raises:
            TargetError: when cleaning up fails; the rest stays in the journal.
        """
        if self._server is not None and self._server.is_alive():
            self._server.stop(0.0)
        self._server = None
        end_server(self.data_folder)
        if self._drive:
            self._drive.close()
        else:
            self._cluster.remove()

    def _address(self, server: Server) -> Address:
        return server.address.with_dbname(DATABASE)

    def _prepare(self) -> bool:
        """Create the tables durably; return whether indexes can be checked."""
        self._server = self._cluster.start(self._settings)
        with self._session(self._server.address) as session:
            session.connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        with self._session(self._address(self._server)) as session:
            make_tables(session.connection, self._spec.load.scale)
        checks = can_check_indexes(self._binaries)
        if checks:
            try:
                index_faults(self._address(self._server), self._binaries)
            except TargetError as error:
                checks = False
                self._notes.append(f"Indexes were not checked: {error.seen}")
        else:
            self._notes.append("Indexes were not checked: this PostgreSQL has no pg_amcheck.")
        if not self._checks_pages:
            self._notes.append("Pages have no checksums: this PostgreSQL could not enable them.")
        with self._session(self._server.address) as session:
            session.checkpoint()
        if self._drive:
            # Unsynced writes of initdb and of the preparation are not under test.
            self._drive.sync()
        return checks

    def _session(self, address: Address) -> ServerSession:
        return ServerSession(Endpoints(addresses=[address], secret=None, binaries=self._binaries))

    def _server_facts(self, server: Server) -> tuple[str, dict[str, str]]:
        with self._session(self._address(server)) as session:
            return session.name(), session.settings()

    def _load_until(
        self, kill_at_s: float, began_s: float, load: CrashLoad, server: Server, watcher: Watcher
    ) -> None:
        """Let the load run until the kill, and report the progress.

        Raises:
            TargetError: when the server died by itself.
        """
        lies = self._spec.power_cut == "lying"
        lies_at_s = max(kill_at_s - LIE_S, kill_at_s / 2) if lies else math.inf
        reported_s = began_s
        while (elapsed_s := time.monotonic() - began_s) < kill_at_s:
            if not server.is_alive() or load.has_ended:
                raise server.death_error()
            if self._drive and lies_at_s <= elapsed_s:
                self._drive.save_content()
                lies_at_s = math.inf
            if time.monotonic() - reported_s >= _REPORT_S:
                reported_s = time.monotonic()
                watcher.live(_reading(load, elapsed_s))
            time.sleep(min(_TICK_S, max(min(kill_at_s, lies_at_s) - elapsed_s, 0.0)))
        if self._drive and lies_at_s < math.inf:
            # A late wake-up must not leave the cut without a content to reset to.
            self._drive.save_content()

    def _kill(self, server: Server) -> None:
        """Kill the server, then cut the power at once: nothing is written in between.

        In the opposite order, the server could acknowledge what the cut has already dropped.
        """
        server.kill()
        if self._drive:
            self._drive.cut()
        # Its record would precede those of later mounts, and be undone after them.
        self._journal.undo(server.entries[-1])

    def _recover(self) -> tuple[Verdict, float, str | None, int, list[str]]:
        """Restart the server and check; if it does not recover, everything is lost.

        Raises:
            TargetError: when that cannot be decided: the file system cannot be mounted or is full,
                or the tables cannot be read although they are not damaged.
        """
        if self._drive:
            self._drive.remount(with_saved=self._spec.power_cut == "lying")
        began_s = time.monotonic()
        recovery_s = 0.0
        try:
            self._server = self._cluster.start(self._settings)
            recovery_s = time.monotonic() - began_s
        except SpaceError:
            raise
        except TargetError as error:
            return self._not_recovered(error, began_s)
        address = self._address(self._server)
        try:
            verdict = self._ledger.compare(read_content(address))
        except DamagedError as error:
            return self._not_recovered(error, began_s)
        faults, size_bytes, notes = self._examined(address)
        return verdict, recovery_s, faults, size_bytes, notes

    def _not_recovered(
        self, error: TargetError, began_s: float
    ) -> tuple[Verdict, float, str | None, int, list[str]]:
        recovery_s = time.monotonic() - began_s
        if self._server is not None:
            self._server.stop(0.0)
            self._server = None
        message = f"The database did not recover: {error.seen} {error.cause}"
        return self._ledger.lose_all(), recovery_s, None, 0, [message]

    def _examined(self, address: Address) -> tuple[str | None, int, list[str]]:
        """Return the faults of indexes and the size; failures are notes, not losses."""
        faults, size_bytes, notes = None, 0, []
        if self._checks_indexes:
            try:
                faults = index_faults(address, self._binaries)
            except TargetError as error:
                notes.append(f"Indexes were not checked: {error.seen}")
        try:
            with self._session(address) as session:
                size_bytes = session.size_bytes()
        except TargetError as error:
            notes.append(f"The size of the database is unknown: {error.seen}")
        return faults, size_bytes, notes


def _enable_checksums(cluster: Cluster) -> bool:
    """Enable page checksums of a new cluster; return whether they are enabled.

    Raises:
        TargetError: when the cluster's file system fails meanwhile.
    """
    program = cluster.binaries.folder / "pg_checksums"
    if not program.is_file():
        return False
    try:
        done = cluster.account.run(
            [program, "--enable", "--pgdata", str(cluster.folder)],
            timeout_s=_CHECKSUMS_TIMEOUT_S,
            stderr=subprocess.STDOUT,
            cwd=cluster.folder,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    # Since version 18 a new cluster has them already, and pg_checksums reports that.
    return done.returncode == 0 or b"already enabled" in done.stdout


def _reading(load: CrashLoad, elapsed_s: float) -> LiveReading:
    answers = list(load.answers)
    mean_ns = sum(answer.took_ns for answer in answers) // max(len(answers), 1)
    return LiveReading(
        elapsed_s=elapsed_s,
        iops=len(answers) / elapsed_s,
        bytes_per_s=0.0,
        p99_ns=0,
        stalls=0,
        oldest_in_flight_ns=0,
        mean_ns=mean_ns,
    )
