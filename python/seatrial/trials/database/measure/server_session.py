"""A session with the server under test: its name, settings and sizes; checkpoints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from seatrial.errors import TargetError
from seatrial.postgres.connection import Address, commit_locally, connect
from seatrial.stats.wording import format_plural
from seatrial.trials.database.measure.driver_result import Endpoints

if TYPE_CHECKING:
    import psycopg

# Settings that were changed from the built-in defaults, except those of a session, of the language,
# or of the connection. Checksums are chosen when a cluster is created.
_SETTINGS: Final = """
    SELECT name, current_setting(name) FROM pg_settings
    WHERE (name = 'data_checksums' AND setting = 'on')
        OR (setting IS DISTINCT FROM boot_val
            AND source NOT IN ('default', 'override', 'client', 'session', 'environment variable')
            AND category NOT IN (
                'File Locations',
                'Connections and Authentication / Connection Settings',
                'Client Connection Defaults / Locale and Formatting',
                'Reporting and Logging / Process Title'
            )
            AND name NOT IN ('log_timezone', 'log_destination', 'logging_collector'))
        OR (name = 'max_connections' AND setting IS DISTINCT FROM boot_val)
    ORDER BY name
"""
_MAY_BE_SECRET: Final = re.compile(r"conninfo|command|password|passphrase|secret|token|key", re.I)
HIDDEN: Final = "(set)"
"""Replaces a setting that may contain a password."""

# A pooler may know a database by another name than its server.
_SIZE: Final = """
    SELECT sum(pg_database_size(oid)) FROM pg_database
    WHERE datname = ANY(%s) OR datname = current_database()
"""

# Tables and indexes of the user, including TOAST tables: those read, and all.
_PREWARM: Final = """
    SELECT count(CASE WHEN has_table_privilege(pg_class.oid, 'SELECT')
                      THEN pg_prewarm(pg_class.oid) END), count(*)
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'i', 't', 'm') AND relpersistence = 'p'
        AND pg_class.oid >= 16384 AND nspname NOT IN ('pg_catalog', 'information_schema')
"""


class ServerSession:
    """A connection to a database of the server under test; a context that closes it.

    Refusals of the server are raised as a ``TargetError`` with its message.

    Args:
        endpoints: The databases.
        address: Address of the database; by default the first one.
    """

    def __init__(self, endpoints: Endpoints, address: Address | None = None) -> None:
        self._endpoints = endpoints
        self._connection = connect(address or endpoints.addresses[0], secret=endpoints.secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        self._connection.close()
        if isinstance(error, psycopg.Error):
            raise refused(error) from None

    @property
    def connection(self) -> psycopg.Connection:
        """The connection itself, in autocommit mode."""
        return self._connection

    def name(self) -> str:
        """Return the server's name and version, such as ``PostgreSQL 15.20``."""
        row = self._connection.execute("SHOW server_version").fetchone()
        return f"PostgreSQL {str(row[0]).split()[0]}" if row else "PostgreSQL"

    def settings(self) -> dict[str, str]:
        """Return all settings other than the built-in defaults, as shown by the server."""
        rows = self._connection.execute(_SETTINGS).fetchall()
        return {
            str(name): HIDDEN if _MAY_BE_SECRET.search(name) else str(value) for name, value in rows
        }

    def size_bytes(self) -> int:
        """Return the size of the databases on disk."""
        names = [address.dbname for address in self._endpoints.addresses]
        row = self._connection.execute(_SIZE, (names,)).fetchone()
        return int(row[0] or 0) if row else 0

    def checkpoint(self) -> bool:
        """Run a checkpoint, so that every sample begins at the same point of the checkpoint cycle.

        Returns False without the permission.
        """
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            # The role may have a limit; behind a pooler, it has to stay in the role's sessions.
            self._connection.execute("SET LOCAL statement_timeout = 0; CHECKPOINT")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True

    def prewarm(self) -> tuple[int, int]:
        """Read tables and indexes of the database into shared buffers, as far as they fit.

        Returns:
            How many were read, of how many; those of other roles are not readable.
        """
        commit_locally(self._connection)
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        row = self._connection.execute(_PREWARM).fetchone()
        return (int(row[0]), int(row[1])) if row else (0, 0)


def prewarm(endpoints: Endpoints) -> list[str]:
    """Read all databases into shared buffers; return a note on what could not be read.

    Raises:
        TargetError: when a server lacks the extension pg_prewarm, or does not allow it.
    """
    read = whole = 0
    for address in endpoints.addresses:
        with ServerSession(endpoints, address) as server:
            read, whole = (a + b for a, b in zip((read, whole), server.prewarm(), strict=True))
    if read == whole:
        return []
    return [
        f"{whole - read} of {format_plural(whole, 'table or index', 'tables and indexes')} could "
        "not be prewarmed: they belong to another role."
    ]


def refused(error: psycopg.Error) -> TargetError:
    """Return the error for a refusal or failure of the server, with its message."""
    return TargetError(
        seen=f"The server refused: {' '.join(str(error).split())}",
        cause="A setting or a privilege is missing, or the server stopped",
        next_step="Try the same by hand with `psql`, and check the server's log",
    )
