"""A database that is there already: taken as it is, restored by the user's command, or copied.

Nothing is loaded into it. Where samples get copies of it, ``CREATE DATABASE ... TEMPLATE``, it is
only read, and the copies are dropped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from seatrial.errors import StudyError, TargetError
from seatrial.machine.undo import UndoJournal
from seatrial.measure.progress import Silent, Watcher
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.connection import names_database, parse_url
from seatrial.postgres.remote import RemoteServer, database_name
from seatrial.study.model import PlannedTarget
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.existing import explained, may_not_create
from seatrial.trials.database.measure.load import migrate
from seatrial.trials.database.measure.ready import Ready
from seatrial.trials.database.measure.restore import run_restore
from seatrial.trials.database.measure.server_session import prewarm
from seatrial.trials.database.measure.start_state import log_place, look_at_start, rows_written
from seatrial.trials.database.study.workloads import DatabaseSpec, ReplaySpec
from seatrial.trials.replay.measure.replay import required
from seatrial.trials.replay.measure.replay_safety import (
    Standing,
    look_at,
    notes_on,
    require_safe,
    require_safe_replays,
)


class StandingDatabase:
    """Gives replays the database that an address names, as it is.

    Args:
        target: The server; the database is its ``database``, else that of its address.
        specs: Of the cells that take it so.
        journal: Where a copy is recorded before it is made.
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
        """Check that the database can be reached, and that every replay may be sent to it.

        Raises:
            RefusedError: when one must not be.
            StudyError: when the address names no database.
            TargetError: when the server cannot be reached.
        """
        if not self._target.database and not names_database(self._target.url):
            raise StudyError(
                seen=f"The address of target {self._target.label} names no database",
                cause="A replay for which nothing is loaded is sent to a database that is there",
                next_step="Write its name at the end of the address, as in "
                "postgresql://USER@HOST:PORT/DATABASE",
            )
        copied = [spec for spec in self._specs if _is_copied(spec)]
        taken = [spec for spec in self._specs if not _is_copied(spec)]
        require_safe_replays(copied, self._server, is_ours=True)
        require_safe_replays(taken, self._server, is_ours=False)
        if copied and not self._server.may_create_databases():
            raise may_not_create(self._server.address)

    def needed_bytes(self) -> int:
        """Return 0: how much room there is cannot be seen from here."""
        return 0

    def prepare(self, watcher: Watcher) -> None:
        """Load nothing, but tell what is worth knowing of the database before a replay is sent.

        Raises:
            TargetError: when the server cannot be reached.
        """
        standing = self._look()
        notes = (note for spec in self._specs for note in notes_on(required(spec), standing))
        for note in dict.fromkeys(notes):
            watcher.stage(note)

    @contextmanager
    def ready(self, spec: DatabaseSpec) -> Iterator[Ready]:
        """Give the database as it is, restored, or a copy, once more made sure that it may be used.

        Raises:
            RefusedError: when it has become what a replay must not be sent to.
            TargetError: when the server cannot be reached, or the restore fails.
        """
        replay = required(spec)
        is_copied = _is_copied(spec)
        require_safe(replay, self._look(), is_ours=is_copied)
        began_s = time.monotonic()
        unrestored = ""
        if replay.restore:
            unrestored = log_place(self._way_to(""))
            run_restore(replay.restore, self._way_to(""), time_s_max=replay.restore_s_max)
        standing = self._look()
        # A restore may have put another server there.
        require_safe(replay, standing, is_ours=is_copied)
        written = rows_written(self._way_to("")) if is_copied else None
        with self._database(is_copied=is_copied) as endpoints:
            if spec.load.migrate:
                migrate(spec.load, endpoints, self._target.label, Silent())
            restored = "template" if is_copied else "restore" if replay.restore else ""
            cloned_s = time.monotonic() - began_s if restored else 0.0
            start = msgspec.structs.replace(
                look_at_start(
                    endpoints,
                    restored=restored,
                    counts=not replay.read_only,
                    keeps_contents=not spec.load.migrate,
                ),
                lsn_unrestored=unrestored,
                source_rows_written=written,
            )
            if spec.start == "prewarmed":
                prewarm(endpoints)
            yield Ready(
                endpoints=endpoints,
                origin="remote",
                start_state=spec.start,
                place=None,
                server_pid=None,
                loaded=None,
                cloned=restored,
                cloned_s=cloned_s,
                explain=lambda error: explained(error, self._server),
                notes=[*notes_on(replay, standing), *self._written_before(replay, restored)],
                start=start,
            )

    def _written_before(self, replay: ReplaySpec, restored: str) -> list[str]:
        """Return what is worth knowing where a database holds what replays before wrote."""
        was_written = self._was_written and not restored
        self._was_written = self._was_written or not (replay.read_only or restored)
        reported = "The database holds what the replays before this one wrote."
        return [reported] if was_written else []

    @contextmanager
    def _database(self, *, is_copied: bool) -> Iterator[Endpoints]:
        """Give the way to the database itself, or to a copy that is dropped in the end."""
        if not is_copied:
            yield self._way_to("")
            return
        # One that a killed run left goes before.
        self._server.drop_database(self._copy)
        self._server.create_database(self._copy, template=self._server.address.dbname)
        try:
            yield self._way_to(self._copy)
        finally:
            # A server that died has been told of by now; what it keeps stays in the journal.
            with suppress(TargetError):
                self._server.drop_database(self._copy)

    def _way_to(self, dbname: str) -> Endpoints:
        address = self._server.address.with_dbname(dbname or self._server.address.dbname)
        return Endpoints(addresses=[address], secret=self._secret, binaries=self.binaries)

    def close(self) -> None:
        """Nothing is left: copies went with their samples."""

    def _look(self) -> Standing:
        return look_at(self._server, self._server.address.dbname)

    @property
    def binaries(self) -> Binaries:
        """The client programs; without any where none are installed, for a replay needs none."""
        if self._binaries is None:
            pg_bin = self._target.pg_bin
            try:
                self._binaries = find_binaries(Path(pg_bin) if pg_bin else None)
            except TargetError:
                self._binaries = Binaries(
                    folder=Path(pg_bin), version=0, version_text="", origin="installed"
                )
        return self._binaries


def _is_copied(spec: DatabaseSpec) -> bool:
    return spec.clone == "template"
