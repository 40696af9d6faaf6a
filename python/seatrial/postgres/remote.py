"""An existing server: the run uses its own database there and changes nothing else."""

from __future__ import annotations

import contextlib
import re
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, LiteralString

import msgspec

from seatrial.errors import RefusedError, TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.connection import Address, Secret, commit_locally, connect, text_of
from seatrial.postgres.locale import create_with_locale

if TYPE_CHECKING:
    import psycopg


NAME_PREFIX: Final = "seatrial_"
NAME_BYTES_MAX: Final = 63
"""PostgreSQL truncates longer names."""

_MARK: Final = "made by seatrial, run "
_DROP: Final[Mapping[str, LiteralString]] = {
    "table": "DROP TABLE IF EXISTS {} CASCADE",
    "function": "DROP FUNCTION IF EXISTS {} CASCADE",
    "sequence": "DROP SEQUENCE IF EXISTS {} CASCADE",
}
# A session that waits for a standby keeps its locks, even without its client.
_END_USERS: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE relation = to_regclass(%s) AND datname = current_database()
        AND usename = current_user AND wait_event = 'SyncRep'
"""
_NAMED_MAX: Final = 5
STANDBY_S_MAX: Final = 60.0
_STANDBY_PAUSE_S: Final = 0.05
_BEHIND: Final = """
    SELECT bool_or(%s > CASE reset_val WHEN 'remote_apply' THEN replay_lsn ELSE flush_lsn END)
    FROM pg_stat_replication, pg_settings
    WHERE sync_state IN ('sync', 'quorum') AND name = 'synchronous_commit'
"""
_VERSION_WITH_STRATEGY: Final = 150000

# User objects in a database, without those of extensions.
_OBJECTS: Final = """
    SELECT kind, name FROM (
        SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' WHEN 'S' THEN 'sequence'
               ELSE 'table' END AS kind,
               n.nspname || '.' || c.relname AS name,
               'pg_class'::regclass AS class, c.oid AS object
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S') AND n.nspname !~ '^pg_'
              AND n.nspname <> 'information_schema'
        UNION ALL
        SELECT 'function', n.nspname || '.' || p.proname, 'pg_proc'::regclass, p.oid
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ) AS o
    WHERE NOT EXISTS (
        SELECT FROM pg_depend d
        WHERE d.classid = o.class AND d.objid = o.object AND d.deptype = 'e'
    )
    ORDER BY name
"""


def database_name(run_id: str, suffix: str = "") -> str:
    """Return a name for a database of the run, at most 63 bytes long.

    A long run id loses its beginning: its end distinguishes runs of the same second.
    """
    tail = re.sub(r"[^a-z0-9]+", "_", f"_{suffix}".lower()) if suffix else ""
    run = re.sub(r"[^a-z0-9]+", "_", run_id.lower())
    room = NAME_BYTES_MAX - len(NAME_PREFIX) - len(tail)
    return f"{NAME_PREFIX}{run[-room:]}{tail}"


class RemoteServer:
    """An existing server, and the databases that a run creates on it.

    Attributes:
        address: Its address; its database is used for administration only, never measured.
    """

    def __init__(
        self,
        address: Address,
        secret: Secret | None = None,
        journal: UndoJournal | None = None,
    ) -> None:
        self.address = address
        self._secret = secret
        self._journal = journal
        self._version = 0

    @property
    def version(self) -> int:
        """The server's version as ``server_version_num``, such as 150020.

        Raises:
            TargetError: when the server cannot be reached.
        """
        if not self._version:
            with self._connected() as connection:
                self._version = connection.info.server_version
        return self._version

    def connect(self, dbname: str | None = None) -> psycopg.Connection:
        """Connect to one of its databases.

        Raises:
            TargetError: when that fails.
        """
        return connect(self.address, secret=self._secret, dbname=dbname)

    def is_in_recovery(self) -> bool:
        """Return whether the server is a standby, or has not finished its recovery.

        Raises:
            TargetError: when the server cannot be reached.
        """
        with self._connected() as connection:
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        return bool(row and row[0])

    def may_create_databases(self) -> bool:
        """Return whether the user may create databases.

        Raises:
            TargetError: when the server cannot be reached.
        """
        with self._connected() as connection:
            row = connection.execute(
                "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
        return bool(row and row[0])

    def create_database(
        self, name: str, *, template: str | None = None, locale: str = ""
    ) -> Address:
        """Create a database, recorded in the journal first, and mark it as the run's.

        Args:
            name: A name from ``database_name``.
            template: A database to copy, without other connections.
            locale: As of ``create_with_locale``; a copy has that of its template.

        Returns:
            Its address.

        Raises:
            TargetError: when the server refuses; with its message.
            ValueError: without a journal, or with a name that is not the run's.
        """
        journal = self._required_journal(name)
        journal.record("remote_database", **self._details(name, journal))
        if template is None:
            with self._connected() as connection:
                create_with_locale(connection, name, locale)
        else:
            # Since 15 the default writes every block to the WAL, which suits small databases.
            strategy = " STRATEGY file_copy" if self.version >= _VERSION_WITH_STRATEGY else ""
            self._execute("CREATE DATABASE {} TEMPLATE {}" + strategy, name, template)
            self.await_standbys()
        self._execute("COMMENT ON DATABASE {} IS {text}", name, text=_MARK + journal.run_id)
        return self.address.with_dbname(name)

    def await_standbys(self, s_max: float = STANDBY_S_MAX) -> None:
        """Wait for the standbys that commits wait for, as our own did not.

        Otherwise the first measured commits would wait for that, too. Nothing is awaited where the
        server does not report its position.

        Raises:
            TargetError: when the server cannot be reached.
        """
        until_s = time.monotonic() + s_max
        with self._connected() as connection:
            position = text_of(connection, "SELECT pg_current_wal_flush_lsn()::text")
            while position and connection.execute(_BEHIND, (position,)).fetchone() == (True,):
                if time.monotonic() > until_s:
                    return
                time.sleep(_STANDBY_PAUSE_S)

    def drop_database(self, name: str) -> None:
        """Drop a database that the run created; a missing one is not an error.

        Raises:
            RefusedError: when it does not have the run's mark.
            TargetError: when the server refuses; with its message.
            ValueError: without a journal, or with a name that is not the run's.
        """
        journal = self._required_journal(name)
        creator = self.creator_of(name)
        if creator not in (None, journal.run_id):
            raise _not_ours(name, self.address.endpoint)
        if creator is not None:
            self.drop_marked(name)
        journal.done(journal.record("remote_database", **self._details(name, journal)))

    def drop_marked(self, name: str) -> None:
        """Drop a database that ``creator_of`` identified as ours, with its sessions.

        Raises:
            TargetError: when the server refuses; with its message.
        """
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def mark_objects(self, dbname: str, objects: Sequence[str]) -> None:
        """Record what the run is about to create in an empty database that is not its own.

        A table with the run's name marks the database until ``drop_marked_objects``.

        Args:
            dbname: The database.
            objects: Kinds and names, such as ``table pgbench_accounts``.

        Raises:
            RefusedError: when the database is not empty.
            TargetError: when the server refuses; with its message.
            ValueError: without a journal.
        """
        from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

        name = database_name(self._journal.run_id if self._journal else "")
        journal = self._required_journal(name)
        self.require_empty(dbname)
        journal.record(
            "remote_objects",
            url=self.address.with_dbname(dbname).as_url(),
            name=dbname,
            objects=", ".join([*objects, f"table {name}"]),
            run_id=journal.run_id,
        )
        with self._connected(dbname) as connection:
            connection.execute(sql.SQL("CREATE TABLE {} ()").format(sql.Identifier(name)))

    def drop_marked_objects(self, dbname: str) -> None:
        """Drop what ``mark_objects`` recorded, if anything.

        Raises:
            TargetError: when the server refuses; then it stays in the journal.
        """
        if self._journal is None:
            return
        url = self.address.with_dbname(dbname).as_url()
        found = self._journal.find("remote_objects", url=url, name=dbname)
        if found is None:
            return
        entry, details = found
        self.drop_objects(dbname, str(details["objects"]))
        self._journal.done(entry)

    def drop_objects(self, dbname: str, objects: str) -> bool:
        """Drop the objects of a record of ``mark_objects``, with their dependents.

        The last one is the mark of the run: without it, the others are somebody else's, and stay.

        Returns:
            Whether they were dropped.

        Raises:
            TargetError: when the server refuses; with its message.
        """
        from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

        kinds_and_names = [each.split(" ", 1) for each in objects.split(", ")]
        mark = kinds_and_names[-1][1]
        with self._connected(dbname) as connection, connection.transaction():
            row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (mark,)).fetchone()
            if not row or not row[0]:
                return False
            for kind, name in kinds_and_names:
                connection.execute(_END_USERS, (name,))
                connection.execute(sql.SQL(_DROP[kind]).format(sql.Identifier(name)))
        return True

    def creator_of(self, name: str) -> str | None:
        """Return the run that created a database; empty when none did, None if absent.

        Raises:
            TargetError: when the server cannot be reached.
        """
        with self._connected() as connection:
            row = connection.execute(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
                (name,),
            ).fetchone()
        if row is None:
            return None
        comment = str(row[0] or "")
        return comment.removeprefix(_MARK) if comment.startswith(_MARK) else ""

    def require_empty(self, dbname: str) -> None:
        """Check that a database contains no user objects.

        Raises:
            RefusedError: when it has tables, views, sequences or functions; some are named.
            TargetError: when the server cannot be reached.
        """
        with self._connected(dbname) as connection:
            found = [(str(kind), str(name)) for kind, name in connection.execute(_OBJECTS)]
        if found:
            raise _not_empty(dbname, self.address.endpoint, found)

    @contextmanager
    def _connected(self, dbname: str | None = None) -> Iterator[psycopg.Connection]:
        """Connect for the block; errors of the server become a TargetError."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            with self.connect(dbname) as connection:
                commit_locally(connection)
                yield connection
        except psycopg.Error as error:
            raise _refused(self.address, error.sqlstate, str(error)) from None

    def _execute(self, statement: LiteralString, *names: str, **texts: str) -> None:
        """Execute a statement with quoted names and texts."""
        from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

        identifiers = [sql.Identifier(name) for name in names]
        literals = {key: sql.Literal(text) for key, text in texts.items()}
        with self._connected() as connection:
            connection.execute(sql.SQL(statement).format(*identifiers, **literals))

    def _required_journal(self, name: str) -> UndoJournal:
        if self._journal is None:
            raise ValueError("a database is made and dropped only with an undo journal")
        run = database_name(self._journal.run_id)
        if not name.startswith(NAME_PREFIX) or len(name.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"not a name of the run's own, such as {run}: {name!r}")
        return self._journal

    def _details(self, name: str, journal: UndoJournal) -> dict[str, str]:
        return {"url": self.address.as_url(), "name": name, "run_id": journal.run_id}


def _refused(address: Address, code: str | None, words: str) -> TargetError:
    """Return the error for a server's refusal; source of the codes: its Appendix A."""
    causes = {
        "42501": f"The user {address.user} lacks the privilege",
        "42P04": "Another run or somebody else created a database of that name",
        "53100": "Its disk is full",
        "53300": "All of its connections are in use",
        "55006": "Another session is connected to the template",
        "57P01": "It is being stopped by its administrator",
    }
    return TargetError(
        seen=f"The server at {address.endpoint} refused: {words}",
        cause=causes.get(code or "", "The server's state or settings do not allow it"),
        next_step=f"Fix the cause; grant the privilege with `ALTER ROLE {address.user} CREATEDB`"
        " as its administrator"
        if code == "42501"
        else "Fix the cause, then try again",
    )


def _not_ours(name: str, endpoint: str) -> RefusedError:
    return RefusedError(
        seen=f"The database {name} at {endpoint} was not created by this run",
        cause="It was created by somebody else, or its comment was changed",
        next_step="Check it, and drop it yourself if it is not needed",
    )


def _not_empty(dbname: str, endpoint: str, found: list[tuple[str, str]]) -> RefusedError:
    named = ", ".join(f"{kind} {name}" for kind, name in found[:_NAMED_MAX])
    more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return RefusedError(
        seen=f"The database {dbname} at {endpoint} is not empty: it has {named}{more}",
        cause="A trial would write to the same database and slow down its other users",
        next_step=f"Create one for the trial with `createdb NAME` and use it in the URL instead of"
        f" {dbname}, or grant the user CREATEDB so that the run creates it",
    )


_IDENTIFIER_QUERY: Final = "SELECT system_identifier::text FROM pg_control_system()"
_CONTROL_FILE: Final = Path("global", "pg_control")
_VERSION_FILE: Final = "PG_VERSION"
_IDENTIFIER: Final = struct.Struct("=Q")
"""``pg_control`` begins with it, in the byte order of the machine that wrote it."""


def system_identifier_of(path: str | Path) -> str | None:
    """Return the identifier of the server whose data directory holds a file or folder.

    Source: PostgreSQL's ``src/include/catalog/pg_control.h``; ``pg_controldata`` and
    ``pg_control_system()`` show the same. A standby, or a copy of the files, has that of its
    primary.

    Args:
        path: A log, or a data directory itself.

    Returns:
        Its digits; None where the path is not in a data directory, or not readable.
    """
    start = Path(path).absolute()
    for folder in (start, *start.parents):
        try:
            if (folder / _VERSION_FILE).is_file() and (folder / _CONTROL_FILE).is_file():
                return _read_identifier(folder / _CONTROL_FILE)
        except OSError:
            return None
    return None


def server_system_identifier(address: Address) -> str | None:
    """Return a server's own system identifier, as digits; None where not permitted.

    Raises:
        TargetError: when it cannot be reached or refuses the connection.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    with contextlib.closing(connect(address)) as connection:
        try:
            row = connection.execute(_IDENTIFIER_QUERY).fetchone()
        except psycopg.Error:
            return None
    return None if row is None else str(row[0])


def _read_identifier(path: Path) -> str | None:
    with path.open("rb") as file:
        head = file.read(_IDENTIFIER.size)
    return str(_IDENTIFIER.unpack(head)[0]) if len(head) == _IDENTIFIER.size else None


_CLIENTS_QUERY: Final = """
    SELECT host(client_addr), client_port, pid, usename, datname, application_name
    FROM pg_stat_activity
    WHERE client_addr IS NOT NULL AND datname IS NOT NULL AND pid <> pg_backend_pid()
"""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A session and its client's address (crates/capture/src/spec.rs).

    Attributes:
        client: The client's address and port, with an IPv6 address in brackets.
        name: The number of the server's process.
        user: Its user.
        database: Its database.
        application: Its application name.
    """

    client: str
    name: str
    user: str
    database: str
    application: str


def connected_clients(address: Address) -> list[Client]:
    """Return the clients connected by TCP, as far as visible to this user.

    Raises:
        TargetError: when the server cannot be reached or refuses the connection.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    with contextlib.closing(connect(address)) as connection:
        try:
            rows = connection.execute(_CLIENTS_QUERY).fetchall()
        except psycopg.Error:
            return []
    return [
        Client(
            client=f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            name=str(process),
            user=user or "",
            database=database,
            application=application or "",
        )
        for host, port, process, user, database, application in rows
    ]
