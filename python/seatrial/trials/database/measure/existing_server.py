"""Our own databases on an existing server, for the cells of such a target.

The loaded database is the template of a database for each sample, ``CREATE DATABASE ... TEMPLATE``;
or the user's empty database is used for all samples. All are dropped at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from seatrial.errors import RefusedError, SeatrialError, StudyError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import Watcher
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.connection import Address, commit_locally, parse_url
from seatrial.postgres.remote import RemoteServer, database_name
from seatrial.study.model import PlannedTarget
from seatrial.trials.database.measure.driver_result import Endpoints
from seatrial.trials.database.measure.load import (
    LoadResult,
    archived_locale,
    load_databases,
    migrate,
    objects_of,
)
from seatrial.trials.database.measure.ready import ReadyServer, Template, with_bases
from seatrial.trials.database.measure.server_session import ServerSession, prewarm
from seatrial.trials.database.measure.start_state import read_start_state
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec
from seatrial.trials.replay.measure.replay_safety import require_safe_replays

SETTABLE: Final = ("user", "superuser", "backend", "superuser-backend")
"""The contexts, in pg_settings, of settings that can be set for a single database."""
STARTS: Final = ("as_is", "prewarmed")
CLONES: Final = ("auto", "template", "reuse")


class ExistingServer:
    """Provides databases on an existing server.

    Args:
        target: The server.
        specs: Specifications of its cells.
        journal: Records every change before it is made.
    """

    def __init__(
        self, target: PlannedTarget, specs: Sequence[DatabaseSpec], journal: UndoJournal
    ) -> None:
        self._target = target
        self._specs = list(specs)
        address, self._secret = parse_url(target.url)
        self._server = RemoteServer(address, self._secret, journal)
        self._run_id = journal.run_id
        self.binaries: Binaries
        self._loaded: dict[Template, tuple[list[Address], LoadResult]] = {}

    def check(self) -> None:
        """Check that the server is accessible, with the permissions that the cells need.

        Raises:
            RefusedError: when the server is in recovery, or the specified database is not empty.
            StudyError: when a cell requests what an existing server does not support.
            TargetError: when the server cannot be reached, is too old, or refuses.
            UsageError: when it has no such setting.
        """
        self.binaries = find_binaries(self._target.pg_bin)
        for spec in self._specs:
            _require_possible(spec)
        self._require_settable()
        require_safe_replays(self._specs, self._server, is_ours=True)
        if self._server.is_in_recovery():
            raise _in_recovery(self._server.address)
        if self._target.database:
            self._require_one_load()
            # A resumed run begins again: its journal has what it left when it was killed.
            self._server.drop_marked_objects(self._target.database)
            self._server.require_empty(self._target.database)
        elif not self._server.may_create_databases():
            raise create_not_permitted(self._server.address)

    def needed_bytes(self) -> int:
        """Return 0: the server's free space is unknown."""
        return 0

    def prepare(self, watcher: Watcher) -> None:
        """Create and load every template.

        Raises:
            TargetError: when the server refuses.
        """
        for number, (load, processes) in enumerate(self._templates()):
            if self._target.database:
                addresses = [self._server.address.with_dbname(self._target.database)]
                self._loaded[load, processes] = (
                    addresses,
                    self._load_into_database(load, addresses, watcher),
                )
                continue
            names = self._names(f"template_{number}", processes)
            if load.migrate:
                result = self._create_migrated(load, processes, names, watcher)
            else:
                locale = archived_locale(load, self.binaries)
                addresses = [self._recreate(name, locale=locale) for name in names]
                result = (
                    addresses,
                    load_databases(load, self._endpoints(addresses), self._target.label, watcher),
                )
            self._loaded[load, processes] = result
        self._server.await_standbys()

    def _load_into_database(
        self, load: LoadSpec, addresses: list[Address], watcher: Watcher
    ) -> LoadResult:
        """Load the user's database, with the only requested schema."""
        if objects := objects_of(load):
            self._server.mark_objects(self._target.database, objects)
        endpoints, label = self._endpoints(addresses), self._target.label
        loaded = load_databases(load.unmigrated, endpoints, label, watcher)
        if not load.migrate:
            return loaded
        migrated = migrate(load, endpoints, label, watcher)
        return loaded.migrated(migrated)

    def _create_migrated(
        self, load: LoadSpec, processes: int, names: list[str], watcher: Watcher
    ) -> tuple[list[Address], LoadResult]:
        """Copy the databases of the unmigrated load, and change the schema of the copies."""
        sources, base = self._loaded[load.unmigrated, processes]
        pairs = zip(names, sources, strict=True)
        addresses = [self._recreate(name, source.dbname) for name, source in pairs]
        migrated = migrate(load, self._endpoints(addresses), self._target.label, watcher)
        return addresses, base.migrated(migrated)

    @contextmanager
    def ready(self, spec: DatabaseSpec) -> Iterator[ReadyServer]:
        """Copy the loaded databases, or use them as they are; drop the copies at the end.

        Raises:
            TargetError: when the server refuses.
        """
        sources, loaded = self._loaded[spec.load, spec.processes]
        is_copy = spec.clone != "reuse" and not self._target.database
        began_s = time.monotonic()
        addresses = self._copies(sources) if is_copy else sources
        cloned_s = time.monotonic() - began_s if is_copy else 0.0
        endpoints = self._endpoints(addresses)
        try:
            self._apply_settings(addresses, spec)
            restored = "template" if is_copy else "reuse"
            start = read_start_state(endpoints, restored=restored) if spec.replay else None
            unread = prewarm(endpoints) if spec.start == "prewarmed" else []
            yield ReadyServer(
                endpoints=endpoints,
                origin="remote",
                start_state=spec.start,
                data_folder=None,
                server_pid=None,
                loaded=loaded,
                cloned=restored,
                cloned_s=cloned_s,
                explain=lambda error: explain_error(error, self._server),
                notes=unread,
                start=start,
            )
        finally:
            if is_copy:
                self._drop(addresses)

    def close(self) -> None:
        """Drop what was loaded."""
        if self._target.database:
            # What could not be dropped stays in the journal, which reports it.
            with suppress(TargetError):
                self._server.drop_marked_objects(self._target.database)
        else:
            for addresses, _ in self._loaded.values():
                self._drop(addresses)
        self._loaded.clear()

    def _drop(self, addresses: Sequence[Address]) -> None:
        """Drop databases of the run; if the server is gone, they stay in the journal."""
        for address in addresses:
            with suppress(TargetError):
                self._server.drop_database(address.dbname)

    def _templates(self) -> list[Template]:
        templates = ((spec.load, spec.processes) for spec in self._specs)
        return list(dict.fromkeys(templates)) if self._target.database else with_bases(templates)

    def _names(self, kind: str, processes: int) -> list[str]:
        return [database_name(self._run_id, f"{kind}_{n}") for n in range(1, processes + 1)]

    def _recreate(self, name: str, template: str | None = None, locale: str = "") -> Address:
        """Create a database of the run, replacing one left by a killed run."""
        self._server.drop_database(name)
        return self._server.create_database(name, template=template, locale=locale)

    def _copies(self, sources: Sequence[Address]) -> list[Address]:
        names = self._names("sample", len(sources))
        return [
            self._recreate(name, source.dbname) for name, source in zip(names, sources, strict=True)
        ]

    def _endpoints(self, addresses: Sequence[Address]) -> Endpoints:
        return Endpoints(addresses=list(addresses), secret=self._secret, binaries=self.binaries)

    def _apply_settings(self, addresses: Sequence[Address], spec: DatabaseSpec) -> None:
        """Set a cell's settings as defaults for new sessions of the databases.

        Raises:
            TargetError: when the server refuses a value; with its message.
        """
        from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

        if self._target.database:  # that has none
            return
        for address in addresses:
            with ServerSession(self._endpoints([address])) as session:
                commit_locally(session.connection)
                database = sql.Identifier(address.dbname)
                if spec.clone == "reuse":
                    reset = sql.SQL("ALTER DATABASE {} RESET ALL").format(database)
                    session.connection.execute(reset)
                for name, value in spec.settings.items():
                    statement = sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                        database, sql.Identifier(name), sql.Literal(value)
                    )
                    session.connection.execute(statement)

    def _require_settable(self) -> None:
        names = {name for spec in self._specs for name in spec.settings}
        if not names:
            return
        if self._target.database:
            raise _settings_not_allowed(self._target.database)
        with self._server.connect() as connection:
            query = "SELECT name, context FROM pg_settings WHERE name = ANY(%s)"
            rows = connection.execute(query, (sorted(names),)).fetchall()
        contexts = {str(name): str(context) for name, context in rows}
        for name in sorted(names):
            if contexts.get(name, "absent") not in SETTABLE:
                raise _not_settable(name, contexts.get(name))

    def _require_one_load(self) -> None:
        templates = self._templates()
        if len(templates) > 1 or templates[0][1] > 1:
            raise StudyError(
                seen=f"The tests need {sum(count for _, count in templates)} loaded databases, but "
                f"the target names one, {self._target.database}",
                cause="Each scale and each client process needs a separate database",
                next_step="Leave out 'database' so that the run creates them, or use one scale "
                "and one process",
            )


def explain_error(error: SeatrialError, server: RemoteServer) -> SeatrialError:
    """Return the error for a server that is no longer reachable, else the given one."""
    try:
        server.connect().close()
    except TargetError as gone:
        return TargetError(
            seen=f"The server stopped or became unreachable. {gone.seen} Before: {error.seen}",
            cause=gone.cause,
            next_step="Check the server's log; the results until then are kept",
        )
    return error


def _require_possible(spec: DatabaseSpec) -> None:
    """Raise StudyError for requests that only our own servers support."""
    for kind, is_possible in (
        (f'start = "{spec.start}"', spec.start in STARTS),
        ("a memory_limit", spec.memory_limit_bytes is None),
        (f'clone = "{spec.clone}"', spec.clone in CLONES),
    ):
        if not is_possible:
            raise StudyError(
                seen=f"A workload requests {kind} on an existing server",
                cause="This needs access to the server's files or a server restart",
                next_step="Leave it out, or measure a directory, where Seatrial starts a server",
            )


def _in_recovery(address: Address) -> RefusedError:
    return RefusedError(
        seen=f"The server at {address.endpoint} is in recovery, and takes no writes",
        cause="It is a standby, or has not finished its recovery",
        next_step="Specify a primary that is not in use; reads of a trace can be replayed on a "
        "standby: `seatrial sql replay --read-only --allow recovery`",
    )


def create_not_permitted(address: Address) -> RefusedError:
    """Return the refusal for a user who may not create databases."""
    return RefusedError(
        seen=f"The user {address.user} may not create databases on {address.endpoint}",
        cause="A trial creates its own database and accesses no other",
        next_step=f"Grant it with `ALTER ROLE {address.user} CREATEDB`, or name an empty "
        "database with --database, or with the target's key 'database' in a study",
    )


def _not_settable(name: str, context: str | None) -> StudyError:
    if context is None:
        return StudyError(
            seen=f"The server has no setting {name}",
            cause="The name is misspelled, or it belongs to an extension that is not loaded",
            next_step="See `SHOW ALL` in psql",
        )
    return StudyError(
        seen=f"The setting {name} cannot be set on an existing server",
        cause=f"It applies to the whole server (its context is {context}), which is not ours",
        next_step="Leave it out, or measure a directory, where Seatrial starts a server",
    )


def _settings_not_allowed(database: str) -> StudyError:
    return StudyError(
        seen=f"The study has settings, but the target names the database {database}",
        cause="They would be changed permanently in that database, which is not ours",
        next_step="Leave out 'database' or the settings",
    )
