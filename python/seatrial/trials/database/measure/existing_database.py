"""An existing database: used as it is, restored by the user's command, or copied.

Nothing is loaded into it. Where samples use copies of it, ``CREATE DATABASE ... TEMPLATE``, it is
only read, and the copies are dropped.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import StudyError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import SilentWatcher, Watcher
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.connection import names_database, parse_url
from seatrial.postgres.remote import RemoteServer, database_name
from seatrial.study.model import PlannedTarget
from seatrial.trials.database.measure.client_processes import Process, ProcessGroup, ProcessResult
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.existing_server import create_not_permitted, explain_error
from seatrial.trials.database.measure.load import migrate
from seatrial.trials.database.measure.ready import ReadyServer
from seatrial.trials.database.measure.server_session import prewarm
from seatrial.trials.database.measure.start_state import (
    read_start_state,
    rows_written,
    wal_position,
)
from seatrial.trials.database.study.workloads import DatabaseSpec, ReplaySpec
from seatrial.trials.replay.measure.replay import required
from seatrial.trials.replay.measure.replay_safety import (
    DatabaseState,
    database_state,
    notes_on,
    require_safe,
    require_safe_replays,
)

SHELL: Final = "/bin/sh"
OUTPUT_LINES_MAX: Final = 20
GRACE_S: Final = 5.0
"""Time for a command that exceeds its limit to end by itself."""


def run_restore(command: str, endpoints: Endpoints, *, time_s_max: float) -> float:
    """Run a shell command to its end; return its duration in seconds.

    Its environment contains the database's address in ``DATABASE_URL`` (without the password), and
    in libpq's variables, including ``PGPASSWORD`` if there is one.

    Raises:
        TargetError: when it fails or times out, with the end of its output.
    """
    address = endpoints.addresses[0]
    environment = address.environment(endpoints.secret) | {"DATABASE_URL": address.as_url()}
    began_s = time.monotonic()
    with ProcessGroup() as processes:
        # One stream, so that errors keep their position in the output.
        arguments = [SHELL, "-c", f"exec 2>&1\n{command}"]
        processes.start(lambda: Process(arguments, environment, lambda _line: None))
        (ended,) = processes.wait(
            lambda: _enforce_limit(processes, time.monotonic() - began_s - time_s_max)
        )
    elapsed_s = time.monotonic() - began_s
    if ended.status != 0:
        raise _failed(command, ended, time_s_max if elapsed_s > time_s_max else None)
    return elapsed_s


def _enforce_limit(processes: ProcessGroup, over_s: float) -> None:
    if over_s > GRACE_S:
        processes.signal(signal.SIGKILL)
    elif over_s > 0:
        processes.signal(signal.SIGTERM)


def _failed(command: str, ended: ProcessResult, time_s_max: float | None) -> TargetError:
    ending = f"with exit code {ended.status}" if ended.status > 0 else f"by signal {-ended.status}"
    if time_s_max is not None:
        ending = f"by its time limit of {time_s_max:g} s"
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()][-OUTPUT_LINES_MAX:]
    output = f"with the output: {' / '.join(lines)}" if lines else "without output"
    return TargetError(
        seen=f"The restore command, {command!r}, ended {ending} {output}",
        cause="A sample would start with unknown data, so none was measured",
        next_step="Run the command by hand, with DATABASE_URL and PGDATABASE set as for a replay",
    )


class ExistingDatabase:
    """Provides an existing database for replays.

    Args:
        target: The server; the database is its ``database``, else that of its address.
        specs: Specifications of the cells that use it.
        journal: Records a copy before it is made.
    """

    def __init__(
        self, target: PlannedTarget, specs: Sequence[DatabaseSpec], journal: UndoJournal
    ) -> None:
        self._target = target
        self._specs = list(specs)
        address, self._secret = parse_url(target.url)
        dbname = target.database or address.dbname
        self._server = RemoteServer(address.with_dbname(dbname), self._secret, journal)
        self._copy = database_name(journal.run_id, "sample_1")
        self._binaries: Binaries | None = None
        self._was_written = False

    def check(self) -> None:
        """Check that the database is accessible, and that all replays are allowed.

        Raises:
            RefusedError: when one is not allowed.
            StudyError: when the address specifies no database.
            TargetError: when the server cannot be reached.
        """
        if not self._target.database and not names_database(self._target.url):
            raise StudyError(
                seen=f"The address of target {self._target.label} names no database",
                cause="A replay without a load step needs an existing database",
                next_step="Add its name to the end of the address, as in "
                "postgresql://USER@HOST:PORT/DATABASE",
            )
        copied = [spec for spec in self._specs if _uses_copy(spec)]
        used_directly = [spec for spec in self._specs if not _uses_copy(spec)]
        require_safe_replays(copied, self._server, is_ours=True)
        require_safe_replays(used_directly, self._server, is_ours=False)
        if copied and not self._server.may_create_databases():
            raise create_not_permitted(self._server.address)

    def needed_bytes(self) -> int:
        """Return 0: the server's free space is unknown."""
        return 0

    def prepare(self, watcher: Watcher) -> None:
        """Report notes on the database before a replay is sent; nothing is loaded.

        Raises:
            TargetError: when the server cannot be reached.
        """
        state = self._state()
        notes = (note for spec in self._specs for note in notes_on(required(spec), state))
        for note in dict.fromkeys(notes):
            watcher.step(note)

    @contextmanager
    def ready(self, spec: DatabaseSpec) -> Iterator[ReadyServer]:
        """Provide the database as it is, restored, or as a copy, after another safety check.

        Raises:
            RefusedError: when replays to it are no longer allowed.
            TargetError: when the server cannot be reached, or the restore fails.
        """
        replay = required(spec)
        is_copied = _uses_copy(spec)
        require_safe(replay, self._state(), is_ours=is_copied)
        began_s = time.monotonic()
        unrestored = ""
        if replay.restore:
            unrestored = wal_position(self._endpoints(""))
            run_restore(replay.restore, self._endpoints(""), time_s_max=replay.restore_s_max)
        state = self._state()
        # A restore may have replaced the server.
        require_safe(replay, state, is_ours=is_copied)
        written = rows_written(self._endpoints("")) if is_copied else None
        with self._database(is_copied=is_copied) as endpoints:
            if spec.load.migrate:
                migrate(spec.load, endpoints, self._target.label, SilentWatcher())
            restored = "template" if is_copied else "restore" if replay.restore else ""
            cloned_s = time.monotonic() - began_s if restored else 0.0
            start = msgspec.structs.replace(
                read_start_state(
                    endpoints,
                    restored=restored,
                    counts=not replay.read_only,
                    keeps_contents=not spec.load.migrate,
                ),
                lsn_unrestored=unrestored,
                source_rows_written=written,
            )
            unread = prewarm(endpoints) if spec.start == "prewarmed" else []
            yield ReadyServer(
                endpoints=endpoints,
                origin="remote",
                start_state=spec.start,
                data_folder=None,
                server_pid=None,
                loaded=None,
                cloned=restored,
                cloned_s=cloned_s,
                explain=lambda error: explain_error(error, self._server),
                notes=[*notes_on(replay, state), *self._written_before(replay, restored), *unread],
                start=start,
            )

    def _written_before(self, replay: ReplaySpec, restored: str) -> list[str]:
        """Return a note if a database contains the writes of earlier replays."""
        was_written = self._was_written and not restored
        self._was_written = self._was_written or not (replay.read_only or restored)
        note = "The database contains the writes of previous replays."
        return [note] if was_written else []

    @contextmanager
    def _database(self, *, is_copied: bool) -> Iterator[Endpoints]:
        """Provide the database itself, or a copy that is dropped at the end."""
        if not is_copied:
            yield self._endpoints("")
            return
        # A copy left by a killed run is dropped first.
        self._server.drop_database(self._copy)
        self._server.create_database(self._copy, template=self._server.address.dbname)
        try:
            yield self._endpoints(self._copy)
        finally:
            # The failure of a server was reported before; its copy stays in the journal.
            with suppress(TargetError):
                self._server.drop_database(self._copy)

    def _endpoints(self, dbname: str) -> Endpoints:
        address = self._server.address.with_dbname(dbname or self._server.address.dbname)
        return Endpoints(addresses=[address], secret=self._secret, binaries=self.binaries)

    def close(self) -> None:
        """Do nothing: copies are dropped with their samples."""

    def _state(self) -> DatabaseState:
        return database_state(self._server, self._server.address.dbname)

    @property
    def binaries(self) -> Binaries:
        """The client programs; empty if none are installed, as a replay needs none."""
        if self._binaries is None:
            pg_bin = self._target.pg_bin
            try:
                self._binaries = find_binaries(pg_bin)
            except TargetError:
                self._binaries = Binaries(
                    folder=Path(pg_bin), version=0, version_text="", origin="installed"
                )
        return self._binaries


def _uses_copy(spec: DatabaseSpec) -> bool:
    return spec.clone == "template"
