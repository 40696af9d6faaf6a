"""Our own PostgreSQL cluster, with its data on the target, started and stopped as needed."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.errors import TargetError
from seatrial.interrupts import uninterrupted
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import Account, account_with_name, plain_environment
from seatrial.postgres.binaries import Binaries
from seatrial.postgres.connection import DEFAULT_PORT, Address
from seatrial.postgres.memory import MemoryGroup, mapped_by, memory_limit
from seatrial.postgres.page_cache import drop_cached
from seatrial.postgres.server import (
    Server,
    died_at_start,
    initdb_failed,
    log_from,
    not_ready_in_time,
)
from seatrial.postgres.server_processes import read_pid_file, server_pids
from seatrial.postgres.settings import (
    INCLUDE,
    SETTINGS_FILE,
    base_settings,
    check_settings,
    settings_text,
)
from seatrial.postgres.undoing import SOCKET_FOLDER_PREFIX

_PATH_BYTES_MAX: Final = 107
"""Source: unix(7), ``sun_path``: 108 bytes with the final zero."""
_SOCKET_NAME: Final = "/.s.PGSQL.65535.lock"
_FALLBACK_FOLDER: Final = Path("/tmp")  # noqa: S108 - a private folder is made in it
# In a list of socket folders a server takes a comma as separator.
_PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SocketFolder:
    """A private folder for sockets.

    Attributes:
        path: The folder, with mode 0700, owned by the server's account.
        entry: Its number in the undo journal.
    """

    path: Path
    entry: int


def make_socket_folder(account: Account, journal: UndoJournal) -> SocketFolder:
    """Create a private folder for an account's socket; recorded in the journal first.

    It is below ``$XDG_RUNTIME_DIR`` when the account is the user, else below ``/tmp``.

    Raises:
        TargetError: when it cannot be created.
    """
    path = _parent(account) / f"{SOCKET_FOLDER_PREFIX}{secrets.token_hex(4)}"
    entry = journal.record("socket_folder", path=str(path))
    try:
        # Fails when the name exists already.
        path.mkdir(mode=0o700)
    except OSError as error:
        journal.done(entry)
        raise TargetError(
            seen=f"The folder for the server's socket cannot be created in {path.parent}: "
            f"{error.strerror}",
            cause="It is full or read-only, or you have no write permission",
            next_step=f"See `ls -ld {path.parent}` and `df {path.parent}`, or set XDG_RUNTIME_DIR"
            " to a folder that you own",
        ) from None
    account.take_ownership(path)
    return SocketFolder(path=path, entry=entry)


def make_own_socket_folder(journal: UndoJournal) -> SocketFolder:
    """Create a private folder for sockets of this process; recorded in the journal first.

    Raises:
        TargetError: when it cannot be created.
    """
    return make_socket_folder(Account(uid=os.geteuid(), gid=os.getegid()), journal)


def _parent(account: Account) -> Path:
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or "/")
    length_bytes = len(f"{own}/{SOCKET_FOLDER_PREFIX}12345678{_SOCKET_NAME}".encode())
    fits = length_bytes <= _PATH_BYTES_MAX and _PLAIN_PATH.fullmatch(str(own))
    # Another account has no access to root's folder.
    if fits and own != Path("/") and not account.is_dropped and os.access(own, os.W_OK | os.X_OK):
        return own
    return _FALLBACK_FOLDER


SUPERUSER: Final = "seatrial"

_INITDB_TIMEOUT_S: Final = 600.0
_START_TIMEOUT_S: Final = 600.0
_POLL_S: Final = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """A data folder with everything needed to run a server on it.

    Attributes:
        folder: The data folder.
        binaries: The programs.
        account: The account that they run as.
        journal: Records every start before it is made.
    """

    folder: Path
    binaries: Binaries
    account: Account
    journal: UndoJournal

    @property
    def log_path(self) -> Path:
        """The server's log file, next to the data folder."""
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
        """Start a server and wait until it accepts connections.

        It listens on a socket in a private folder, never on TCP. fsync remains on unless the
        settings disable it.

        Args:
            settings: Settings other than the server's defaults, by name.
            memory_limit_bytes: Memory limit of the server including its page cache; its files are
                dropped from the cache first, so that they count.
            timeout_s: Maximum time for the start, including crash recovery.

        Raises:
            UsageError: when the server rejects a setting; with its message.
            SpaceError: when the file system is full.
            TargetError: when it does not start, or its memory cannot be limited.
        """
        check_settings(settings)
        if server_pids(self.folder):
            raise _already_running(self.folder)
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
        if server_pids(self.folder):
            raise _already_running(self.folder)
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
    """Create a data folder by initdb: UTF-8, C locale, superuser ``seatrial``, default checksums.

    Access is limited by the private folder of its socket; TCP is rejected.

    Args:
        folder: A new folder in the run's trial folder.
        binaries: The programs.
        account: The account that they run as.
        journal: Records every start before it is made.

    Raises:
        SpaceError: when the file system is full.
        TargetError: when initdb fails; with its message.
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
    account.take_ownership(folder)
    options = ["--encoding=UTF8", "--locale=C", "--auth-local=trust", "--auth-host=reject"]
    command = [str(cluster.binaries.program("initdb")), f"--pgdata={folder}", *options]
    try:
        result = account.run(
            [*command, f"--username={SUPERUSER}"],
            timeout_s=_INITDB_TIMEOUT_S,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise initdb_failed(folder, f"nothing for {_INITDB_TIMEOUT_S:g} s") from None
    if result.returncode != 0:
        raise initdb_failed(folder, result.stdout.decode(errors="replace"))
    with (folder / "postgresql.conf").open("a") as file:
        file.write(INCLUDE)
    (folder / SETTINGS_FILE).write_text("")
    cluster.account.take_ownership(folder)


class _Start:
    """One start of a server: the changes that it makes, and their undoing if it fails."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._entries: list[int] = []
        self._group: MemoryGroup | None = None

    def limit(self, limit_bytes: int) -> None:
        """Create the control group of the server."""
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
        # Recorded last, so that it is undone first.
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
                # Its own session, so that Ctrl+C in the terminal does not reach it.
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
    cluster.account.take_ownership(path)


def _wait_until_ready(
    cluster: Cluster, process: subprocess.Popen[bytes], timeout_s: float, log_start_bytes: int
) -> None:
    """Wait until the pid file shows that the server is ready, as pg_ctl does."""
    give_up_at_s = time.monotonic() + timeout_s
    while True:
        pid_file = read_pid_file(cluster.folder)
        # After a crash the dead server's file still exists.
        if pid_file is not None and pid_file.pid == process.pid and pid_file.is_ready:
            return
        if process.poll() is not None:
            log = log_from(cluster.log_path, log_start_bytes)
            raise died_at_start(cluster.folder, log, cluster.binaries.version_text)
        if time.monotonic() > give_up_at_s:
            log = log_from(cluster.log_path, log_start_bytes)
            raise not_ready_in_time(cluster.folder, timeout_s, log)
        time.sleep(_POLL_S)


def _already_running(folder: Path) -> TargetError:
    return TargetError(
        seen=f"A server runs on {folder}",
        cause="It was started by this run, or left over from a run that was killed",
        next_step="Stop it, or run `seatrial clean`, then try again",
    )
