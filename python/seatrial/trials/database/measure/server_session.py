"""A session with the server under trial: its name, settings and sizes; checkpoints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from seatrial.errors import TargetError
from seatrial.postgres.connection import Address, connect
from seatrial.trials.database.measure.driver_result import Endpoints

if TYPE_CHECKING:
    from types import TracebackType

    import psycopg

# What somebody has set to other than it was built with, less what belongs to a session, to the
# language, or to the way in which the server is found. Checksums are chosen when a cluster is made.
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
"""In place of a setting that may hold a password."""

_SIZE: Final = "SELECT sum(pg_database_size(datname)) FROM pg_database WHERE datname = ANY(%s)"

# Tables and indexes of the user, and what was moved out of the rows of the tables.
_PREWARM: Final = """
    SELECT count(pg_prewarm(pg_class.oid)) FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'i', 't', 'm') AND relpersistence = 'p'
        AND nspname NOT IN ('pg_catalog', 'information_schema')
"""


class ServerSession:
    """A connection to a database of the server under trial; a context that closes it.

    What the server refuses is raised as a ``TargetError`` with its own words.

    Args:
        endpoints: To the databases.
        address: Of the database to ask; the first one's unless given.
    """

    def __init__(self, endpoints: Endpoints, address: Address | None = None) -> None:
        self._endpoints = endpoints
        self._connection = connect(address or endpoints.addresses[0], secret=endpoints.secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        self._connection.close()
        if isinstance(error, psycopg.Error):
            raise refused(error) from None

    @property
    def connection(self) -> psycopg.Connection:
        """The connection itself, in autocommit mode."""
        return self._connection

    def name(self) -> str:
        """Return what the server calls itself, such as ``PostgreSQL 15.20``."""
        row = self._connection.execute("SHOW server_version").fetchone()
        return f"PostgreSQL {str(row[0]).split()[0]}" if row else "PostgreSQL"

    def settings(self) -> dict[str, str]:
        """Return every setting that is not what the server was built with, as it shows it."""
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
        """Write all out, so that every sample begins at the same place of the checkpoints' cycle.

        Returns False where we may not.
        """
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            self._connection.execute("CHECKPOINT")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True

    def prewarm(self) -> None:
        """Read all tables and indexes of the database into shared buffers, as far as they fit."""
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        self._connection.execute(_PREWARM)


def prewarm(endpoints: Endpoints) -> None:
    """Read all databases of a way into shared buffers.

    Raises:
        TargetError: when a server lacks the extension pg_prewarm, or does not let us make it.
    """
    for address in endpoints.addresses:
        with ServerSession(endpoints, address) as server:
            server.prewarm()


def refused(error: psycopg.Error) -> TargetError:
    """Return the error for what a server refuses or fails in, in its own words."""
    return TargetError(
        seen=f"The server refused: {' '.join(str(error).split())}",
        cause="A setting or a right is missing, or the server ended",
        next_step="Try the same by hand with `psql`, and look at the server's log",
    )
