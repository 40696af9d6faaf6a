"""An existing server: a database of our own there, and nothing else touched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, LiteralString

from seatrial.errors import RefusedError, TargetError
from seatrial.machine.undo import UndoJournal
from seatrial.postgres.connection import Address, Secret, connect

if TYPE_CHECKING:
    import psycopg

NAME_PREFIX: Final = "seatrial_"
NAME_BYTES_MAX: Final = 63
"""PostgreSQL cuts longer names off."""

_MARK: Final = "made by seatrial, run "
_NAMED_MAX: Final = 5
_VERSION_WITH_STRATEGY: Final = 150000

# What a user keeps in a database; what an extension brought along is not the user's.
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

    A long run's name loses its beginning: its end tells runs of the same second apart.
    """
    tail = re.sub(r"[^a-z0-9]+", "_", f"_{suffix}".lower()) if suffix else ""
    run = re.sub(r"[^a-z0-9]+", "_", run_id.lower())
    room = NAME_BYTES_MAX - len(NAME_PREFIX) - len(tail)
    return f"{NAME_PREFIX}{run[-room:]}{tail}"


class RemoteServer:
    """A server that is there already, and the databases that a run makes on it.

    Attributes:
        address: Where it is; its database is the one that is asked, never one that is measured.
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

    def environment(self, dbname: str) -> dict[str, str]:
        """Return the environment of a child that works in one of its databases, by libpq."""
        return self.address.with_dbname(dbname).environment(self._secret)

    def may_create_databases(self) -> bool:
        """Tell whether the user may create databases there.

        Raises:
            TargetError: when the server cannot be reached.
        """
        with self._connected() as connection:
            row = connection.execute(
                "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
        return bool(row and row[0])

    def create_database(self, name: str, *, template: str | None = None) -> Address:
        """Make a database, written to the journal before, and mark it as the run's.

        Args:
            name: One that ``database_name`` gives.
            template: A database to copy, in which nobody is working.

        Returns:
            Its address.

        Raises:
            TargetError: when the server refuses, in its own words.
            ValueError: without a journal, or with a name that is not the run's.
        """
        journal = self._required_journal(name)
        journal.record("remote_database", **self._details(name, journal))
        if template is None:
            self._execute("CREATE DATABASE {}", name)
        else:
            # Since 15 the default goes block by block through the log, which suits small ones.
            strategy = " STRATEGY file_copy" if self.version >= _VERSION_WITH_STRATEGY else ""
            self._execute("CREATE DATABASE {} TEMPLATE {}" + strategy, name, template)
        self._execute("COMMENT ON DATABASE {} IS {text}", name, text=_MARK + journal.run_id)
        return self.address.with_dbname(name)

    def drop_database(self, name: str) -> None:
        """Drop a database that the run made; one that is gone is well.

        Raises:
            RefusedError: when it does not bear the run's mark.
            TargetError: when the server refuses, in its own words.
            ValueError: without a journal, or with a name that is not the run's.
        """
        journal = self._required_journal(name)
        maker = self.maker_of(name)
        if maker not in (None, journal.run_id):
            raise _not_ours(name, self.address.place)
        if maker is not None:
            self.drop_marked(name)
        journal.done(journal.record("remote_database", **self._details(name, journal)))

    def drop_marked(self, name: str) -> None:
        """Drop a database of which ``maker_of`` has told that it is ours, with its sessions.

        Raises:
            TargetError: when the server refuses, in its own words.
        """
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def maker_of(self, name: str) -> str | None:
        """Return the run that made a database; empty when none did, None when there is none.

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
        """Check that a database holds nothing of a user's.

        Raises:
            RefusedError: when it has tables, views, sequences or functions; some are named.
            TargetError: when the server cannot be reached.
        """
        with self._connected(dbname) as connection:
            found = [(str(kind), str(name)) for kind, name in connection.execute(_OBJECTS)]
        if found:
            raise _not_empty(dbname, self.address.place, found)

    @contextmanager
    def _connected(self, dbname: str | None = None) -> Iterator[psycopg.Connection]:
        """Connect for a while; what the server refuses becomes an error for a person."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            with self.connect(dbname) as connection:
                yield connection
        except psycopg.Error as error:
            raise _refused(self.address, error.sqlstate, str(error)) from None

    def _execute(self, statement: LiteralString, *names: str, **texts: str) -> None:
        """Execute a statement with names and texts of ours quoted into it."""
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
    """Return the error for what a server refused; source of the codes: its Appendix A."""
    causes = {
        "42501": f"The user {address.user} has no right to do it",
        "42P04": "Another run, or somebody else, made a database of that name",
        "53100": "Its disk is full",
        "53300": "Its connections are all in use",
        "55006": "Somebody is connected to the template",
        "57P01": "Its administrator is stopping it",
    }
    return TargetError(
        seen=f"The server at {address.place} refused: {words}",
        cause=causes.get(code or "", "The server's state or settings do not allow it"),
        next_step=f"Mend what it names; for rights, `ALTER ROLE {address.user} CREATEDB` as its"
        " administrator"
        if code == "42501"
        else "Mend what it names, then try again",
    )


def _not_ours(name: str, place: str) -> RefusedError:
    return RefusedError(
        seen=f"The database {name} at {place} does not bear the mark of this run",
        cause="Somebody else made it, or its comment was changed",
        next_step="Look into it, and drop it yourself if it is not needed",
    )


def _not_empty(dbname: str, place: str, found: list[tuple[str, str]]) -> RefusedError:
    named = ", ".join(f"{kind} {name}" for kind, name in found[:_NAMED_MAX])
    more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return RefusedError(
        seen=f"The database {dbname} at {place} is not empty: it has {named}{more}",
        cause="A trial would write beside them, and load what it measures would slow them down",
        next_step=f"Make one for the trial with `createdb NAME` and name it in the URL instead of"
        f" {dbname}, or grant the user CREATEDB so that the run makes its own",
    )
