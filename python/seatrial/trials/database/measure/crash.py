"""Crash trials: a server is killed in mid-load, with or without its power, and held to its word.

All transactions of a trial go on over all its crashes on the same data, so each check covers all
crashes before it, too. A data folder that does not come back is given up; the next crash begins
with a new one.
"""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import SeatrialError, TargetError
from seatrial.machine.undo import UndoJournal
from seatrial.measure.progress import LiveReading, Watcher
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.cluster import Cluster, create_cluster
from seatrial.postgres.connection import Address
from seatrial.postgres.processes import end_server
from seatrial.postgres.server import Server
from seatrial.trials.database.measure.crash_check import can_check_indexes, found_in, index_faults
from seatrial.trials.database.measure.crash_ledger import Ledger, Verdict, rows_of
from seatrial.trials.database.measure.crash_load import CrashLoad, make_tables
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.power_cut import SIZE_BYTES, CuttableFilesystem
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.study.cost import data_bytes
from seatrial.trials.database.study.workloads import DatabaseSpec

DATABASE: Final = "trial"
DATA_FOLDER: Final = "data"
"""On a file system whose power is cut."""
LIES_S: Final = 1.0
"""A lying drive loses what was written so long before the power fails, if the load lasts longer."""
KILL_SHARE_MIN: Final = 0.2
"""The server is killed after this share of the longest time at the earliest."""

_LOG_SETTINGS: Final = {"max_wal_size": "128MB", "min_wal_size": "32MB"}
"""On a small file system of our own, unless the study sets them."""
_TICK_S: Final = 0.1
_TELL_S: Final = 1.0
_CHECKSUMS_TIMEOUT_S: Final = 300.0


def drive_bytes(spec: DatabaseSpec) -> int:
    """Return how large the file system is whose power is cut: each row may be there twice."""
    return SIZE_BYTES + 2 * data_bytes(spec.load)


class Crashed(msgspec.Struct, frozen=True, kw_only=True):
    """One crash, and what was found after it.

    Attributes:
        load: The load that it ended, with all that was acknowledged.
        began_s: When the load began, in Unix time.
        lasted_s: From then to the kill.
        verdict: On what was found.
        came_back: Whether the server recovered.
        recovery_s: How long it took until it took connections again, or gave up.
        faults: What pg_amcheck found; empty when all is sound, None when it was not asked.
        server: As it calls itself.
        settings: That are not its defaults.
        database_bytes: Of the database on disk; 0 where the server did not come back.
        notes: What is worth knowing, as sentences.
    """

    load: CrashLoad
    began_s: float
    lasted_s: float
    verdict: Verdict
    came_back: bool
    recovery_s: float
    faults: str | None
    server: str
    settings: dict[str, str]
    database_bytes: int
    notes: list[str]


class CrashTrial:
    """A server of our own that is crashed again and again.

    Args:
        folder: The trial folder, open.
        name: Of what is made there.
        spec: Of the cell.
        binaries: The programs.
        journal: Where everything is recorded before it is made.
        seed: Of the transactions and of the moments.
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
        self._moments = random.Random(seed)
        self._ledger = Ledger(seed, rows_of(spec.load.scale))
        self._server: Server | None = None
        self._notes: list[str] = []
        cuts = spec.power_cut != "none"
        size_bytes = drive_bytes(spec)
        self._drive = (
            CuttableFilesystem(folder, name, journal, size_bytes=size_bytes) if cuts else None
        )
        # Outside of the file system whose power is cut, a file survives whatever happens there.
        self.place = self._drive.point / DATA_FOLDER if self._drive else folder / name
        self._settings = {**_LOG_SETTINGS, **spec.settings} if cuts else spec.settings
        account = account_for(self.place, binaries)
        self._cluster = create_cluster(self.place, binaries, account, journal)
        self._checks_pages = _enable_checksums(self._cluster)
        self._checks_indexes = self._prepare()

    def crash(self, seconds_max: float, watcher: Watcher) -> Crashed:
        """Put load on, kill the server at a moment of chance, restart it, and check.

        Args:
            seconds_max: The longest time until the kill.
            watcher: Told of the progress.

        Raises:
            KeyboardInterrupt: when the user ended it.
            TargetError: when the server died before it was killed, or refuses all transactions.
        """
        server = self._server or self._cluster.start(self._settings)
        self._server = server
        server_name, settings = self._ask(server)
        load = CrashLoad(self._address(server), self._ledger, self._spec.clients)
        moment_s = seconds_max * self._moments.uniform(KILL_SHARE_MIN, 1.0)
        began_s, began_at_s = time.monotonic(), time.time()
        try:
            load.start()
            began_s, began_at_s = time.monotonic(), time.time()
            self._load_until(moment_s, began_s, load, server, watcher)
            lasted_s = time.monotonic() - began_s
            self._kill(server)
        finally:
            load.stop()
        self._server = None
        watcher.stage("Killed; the server recovers")
        verdict, recovery_s, faults, size_bytes, notes = self._come_back()
        return Crashed(
            load=load,
            began_s=began_at_s,
            lasted_s=lasted_s,
            verdict=verdict,
            came_back=self._server is not None,
            recovery_s=recovery_s,
            faults=faults,
            server=server_name,
            settings=settings,
            database_bytes=size_bytes,
            notes=[*self._notes, *notes],
        )

    def close(self) -> None:
        """Stop the server and put everything away.

        Raises:
            TargetError: when something cannot be put away; it stays in the journal.
        """
        if self._server is not None and self._server.is_alive():
            self._server.stop(0.0)
        self._server = None
        end_server(self.place)
        if self._drive:
            self._drive.close()
        else:
            self._cluster.remove()

    def _address(self, server: Server) -> Address:
        return server.address.with_dbname(DATABASE)

    def _prepare(self) -> bool:
        """Make the tables, and bring all on the medium; tell whether indexes can be checked."""
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
            self._notes.append("Pages have no checksums: this PostgreSQL could not add them.")
        with self._session(self._server.address) as session:
            session.checkpoint()
        if self._drive:
            # What initdb and we wrote without a sync is not what is on trial.
            self._drive.sync()
        return checks

    def _session(self, address: Address) -> ServerSession:
        return ServerSession(Endpoints(addresses=[address], secret=None, binaries=self._binaries))

    def _ask(self, server: Server) -> tuple[str, dict[str, str]]:
        with self._session(self._address(server)) as session:
            return session.name(), session.settings()

    def _load_until(
        self, moment_s: float, began_s: float, load: CrashLoad, server: Server, watcher: Watcher
    ) -> None:
        """Let the load go on until the moment of the kill, and tell how it goes.

        Raises:
            TargetError: when the server died by itself.
        """
        lies_at_s = max(moment_s - LIES_S, moment_s / 2) if self._spec.power_cut == "lying" else -1
        told_s = began_s
        while (elapsed_s := time.monotonic() - began_s) < moment_s:
            if not server.is_alive() or load.is_over:
                raise server.death()
            if self._drive and 0 <= lies_at_s <= elapsed_s:
                self._drive.remember()
                lies_at_s = -1
            if time.monotonic() - told_s >= _TELL_S:
                told_s = time.monotonic()
                watcher.live(_reading(load, elapsed_s))
            time.sleep(min(_TICK_S, max(moment_s - elapsed_s, 0.0)))

    def _kill(self, server: Server) -> None:
        """Kill the server, then cut the power at once: nobody writes in between.

        The other way about, the server might acknowledge what the cut has taken already.
        """
        server.kill()
        if self._drive:
            self._drive.cut()
        # Its record would stand before those of the mount to come, and be undone after them.
        self._journal.undo(server.entries[-1])

    def _come_back(self) -> tuple[Verdict, float, str | None, int, list[str]]:
        """Restart the server and check; what does not come back has lost all."""
        began_s = time.monotonic()
        try:
            if self._drive:
                self._drive.come_back(with_earlier=self._spec.power_cut == "lying")
            began_s = time.monotonic()
            self._server = self._cluster.start(self._settings)
            recovery_s = time.monotonic() - began_s
            address = self._address(self._server)
            verdict = self._ledger.compare(found_in(address))
            faults = index_faults(address, self._binaries) if self._checks_indexes else None
            with self._session(address) as session:
                size_bytes = session.size_bytes()
        except SeatrialError as error:
            recovery_s = time.monotonic() - began_s
            if self._server is not None:
                self._server.stop(0.0)
                self._server = None
            words = f"The database did not come back: {error.seen} {error.cause}"
            return self._ledger.lose_all(), recovery_s, None, 0, [words]
        return verdict, recovery_s, faults, size_bytes, []


def _enable_checksums(cluster: Cluster) -> bool:
    """Give every page of a new cluster a checksum; tell whether they have one now.

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
    # Since version 18 a new cluster has them already, and it says so.
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
