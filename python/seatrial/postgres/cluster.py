"""A PostgreSQL of our own: its data on the storage under trial, started and stopped at will."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.interrupts import uninterrupted
from seatrial.machine.undo import UndoJournal
from seatrial.postgres.account import Account, account_with_name, plain_environment
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.cluster_errors import died_at_start, initdb_failed, not_ready_in_time
from seatrial.postgres.connection import DEFAULT_PORT, Address
from seatrial.postgres.dynamic_memory import mapped_by
from seatrial.postgres.memory import MemoryGroup, memory_limit
from seatrial.postgres.page_cache import drop_cached
from seatrial.postgres.processes import read_pid_file, server_processes
from seatrial.postgres.server import Server, log_from
from seatrial.postgres.settings import (
    INCLUDE,
    SETTINGS_FILE,
    base_settings,
    check_settings,
    settings_text,
)
from seatrial.postgres.socket_folder import make_socket_folder

SUPERUSER: Final = "seatrial"

_INITDB_TIMEOUT_S: Final = 600.0
_START_TIMEOUT_S: Final = 600.0
_POLL_S: Final = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """A data folder with all that is needed to run a server on it.

    Attributes:
        folder: The data folder.
        binaries: The programs.
        account: Whom they run as.
        journal: Where every start is recorded before it is made.
    """

    folder: Path
    binaries: Binaries
    account: Account
    journal: UndoJournal

    @property
    def log_path(self) -> Path:
        """Where the server writes its messages: beside the data folder."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def at(self, folder: Path) -> Cluster:
        """Return the same cluster in another folder, such as a clone of its data."""
        return dataclasses.replace(self, folder=folder)

    def start(
        self,
        settings: Mapping[str, str],
        *,
        memory_limit_bytes: int | None = None,
        timeout_s: float = _START_TIMEOUT_S,
    ) -> Server:
        """Start a server and wait until it takes connections.

        It listens on a socket in a private folder, never on TCP. fsync stays on unless the
        settings say otherwise.

        Args:
            settings: What is set beside the server's defaults, by name.
            memory_limit_bytes: What the server may hold with the page cache that it fills; its
                files are dropped from the cache first, so that they count.
            timeout_s: How long it may take to start, recovery from a crash included.

        Raises:
            UsageError: when a setting is refused, in the server's own words.
            SpaceError: when the file system is full.
            TargetError: when it does not start, or its memory cannot be limited here.
        """
        check_settings(settings)
        if server_processes(self.folder):
            raise _runs_already(self.folder)
        start = _Start(self)
        try:
            if memory_limit_bytes is not None:
                drop_cached(self.folder)
                start.limit(memory_limit_bytes)
            return start.launch(settings, timeout_s)
        except BaseException:
            start.undo()
            raise

    def remove(self) -> None:
        """Remove the data folder of a stopped server, and its log.

        Raises:
            TargetError: when a server still runs on it, or it cannot be removed.
        """
        if server_processes(self.folder):
            raise _runs_already(self.folder)
        try:
            if self.folder.exists():
                shutil.rmtree(self.folder)
            self.log_path.unlink(missing_ok=True)
        except OSError as error:
            raise TargetError(
                seen=f"{self.folder} cannot be removed: {error.strerror}",
                cause="Its file system became read-only, or the device fails",
                next_step="See the end of `dmesg` for errors of the device",
            ) from None


def create_cluster(
    folder: Path, binaries: Binaries, account: Account, journal: UndoJournal
) -> Cluster:
    """Make a data folder by initdb: UTF-8, C locale, superuser ``seatrial``, checksums as usual.

    Only who passes the private folder of its socket can connect; TCP is rejected.

    Args:
        folder: A folder that does not exist yet, in the run's trial folder.
        binaries: The programs.
        account: Whom they run as.
        journal: Where a start is recorded before it is made.

    Raises:
        SpaceError: when the file system is full.
        TargetError: when initdb fails, in its own words.
    """
    cluster = Cluster(
        folder=folder.parent.resolve() / folder.name,
        binaries=binaries,
        account=account,
        journal=journal,
    )
    entry = journal.record("server", data_folder=str(cluster.folder), run_id=journal.run_id)
    try:
        _make_data_folder(cluster)
    except OSError as error:
        raise initdb_failed(cluster.folder, error.strerror or str(error)) from None
    finally:
        journal.undo(entry)
    return cluster


def _make_data_folder(cluster: Cluster) -> None:
    folder, account = cluster.folder, account_with_name(cluster.account)
    folder.mkdir(mode=0o700)
    account.own(folder)
    options = ["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject"]
    command = [str(cluster.binaries.program("initdb")), f"--pgdata={folder}", *options]
    try:
        said = account.run(
            [*command, f"--username={SUPERUSER}"],
            timeout_s=_INITDB_TIMEOUT_S,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise initdb_failed(folder, f"nothing for {_INITDB_TIMEOUT_S:g} s") from None
    if said.returncode != 0:
        raise initdb_failed(folder, said.stdout.decode(errors="replace"))
    with (folder / "postgresql.conf").open("a") as file:
        file.write(INCLUDE)
    (folder / SETTINGS_FILE).write_text("")
    cluster.account.own(folder)


class _Start:
    """One start of a server: what it makes on the way, and how that is undone if it fails."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._entries: list[int] = []
        self._group: MemoryGroup | None = None

    def limit(self, limit_bytes: int) -> None:
        """Make the control group that the server is to run in."""
        self._group = memory_limit(limit_bytes, self._cluster.journal)
        self._entries.append(self._group.entry)

    def launch(self, settings: Mapping[str, str], timeout_s: float) -> Server:
        """Start the server with these settings and wait until it is ready."""
        cluster, journal = self._cluster, self._cluster.journal
        socket_folder = make_socket_folder(cluster.account, journal)
        self._entries.append(socket_folder.entry)
        base = base_settings(socket_folder.path, journal.run_id, DEFAULT_PORT)
        _write_settings(cluster, {**settings, **base})
        log_start_bytes = cluster.log_path.stat().st_size if cluster.log_path.exists() else 0
        # Recorded last, so that it is the first to be undone.
        self._entries.append(
            journal.record("server", data_folder=str(cluster.folder), run_id=journal.run_id)
        )
        process = self._process()
        server = Server(
            address=Address(
                host=str(socket_folder.path), port=DEFAULT_PORT, user=SUPERUSER, dbname="postgres"
            ),
            data_folder=cluster.folder,
            log_path=cluster.log_path,
            settings={**settings, **base},
            memory=self._group,
            process=process,
            journal=journal,
            entries=tuple(self._entries),
        )
        _wait_until_ready(cluster, process, timeout_s, log_start_bytes)
        return dataclasses.replace(server, shared_memory=frozenset(mapped_by(process.pid)))

    def undo(self) -> None:
        """Undo what was made before the start failed; what fails stays in the journal."""
        for entry in reversed(self._entries):
            self._cluster.journal.undo(entry)

    def _process(self) -> subprocess.Popen[bytes]:
        cluster, account = self._cluster, self._cluster.account
        words = [str(cluster.binaries.program("postgres")), "-D", str(cluster.folder)]
        with cluster.log_path.open("ab") as log:
            if self._group is None:
                # A session of its own, so that Ctrl+C in the terminal does not reach it.
                return account.popen(
                    words, cwd=cluster.folder, stdout=log, stderr=log, start_new_session=True
                )
            with uninterrupted():
                return subprocess.Popen(
                    self._group.command(account.command(words, step_down=True)),
                    cwd=cluster.folder,
                    env=plain_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )


def _write_settings(cluster: Cluster, settings: Mapping[str, str]) -> None:
    path = cluster.folder / SETTINGS_FILE
    path.write_text(settings_text(settings))
    cluster.account.own(path)


def _wait_until_ready(
    cluster: Cluster, process: subprocess.Popen[bytes], timeout_s: float, log_start_bytes: int
) -> None:
    """Wait until the server says in its pid file that it takes connections, as pg_ctl does."""
    give_up_at_s = time.monotonic() + timeout_s
    while True:
        written = read_pid_file(cluster.folder)
        # After a crash the file of the dead server is still there.
        if written is not None and written.pid == process.pid and written.is_ready:
            return
        if process.poll() is not None:
            log = log_from(cluster.log_path, log_start_bytes)
            raise died_at_start(cluster.folder, log, cluster.binaries.version_text)
        if time.monotonic() > give_up_at_s:
            log = log_from(cluster.log_path, log_start_bytes)
            raise not_ready_in_time(cluster.folder, timeout_s, log)
        time.sleep(_POLL_S)


def _runs_already(folder: Path) -> TargetError:
    return TargetError(
        seen=f"A server runs on {folder}",
        cause="It was started by this run, or left behind by one that was killed",
        next_step="Stop it, or run `seatrial clean`, then try again",
    )
