"""The observer's own connection: prepared statements that end in time, and are counted."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    import psycopg

    from seatrial.postgres.connection import Address, Secret

STATEMENT_TIMEOUT_S: Final = 1.0
CONNECT_TIMEOUT_S: Final = 2

_SETTINGS: Final = (
    f"SET statement_timeout = '{STATEMENT_TIMEOUT_S:g}s'",
    "SET idle_in_transaction_session_timeout = 0",
)


class Session:
    """A connection to the server under trial.

    Args:
        address: Where it listens.
        secret: The password, if it needs one.

    Attributes:
        version: The server's, as ``server_version_num`` has it.
        pid: Of the server's process that answers, on the server's machine.
        transactions: How many of its own the server has committed by now.
        given_up: How many statements took too long and were given up.

    Raises:
        TargetError: when the server cannot be reached.
        psycopg.Error: when it fails right after.
    """

    def __init__(self, address: Address, secret: Secret | None) -> None:
        from seatrial.postgres.connection import connect  # noqa: PLC0415 - loads psycopg

        named = {
            "connect_timeout": str(CONNECT_TIMEOUT_S),
            "application_name": "seatrial observer",
        }
        parameters = {**address.parameters, **named}
        patient = msgspec.structs.replace(address, parameters=parameters)
        self._connection: psycopg.Connection[Any] = connect(patient, secret=secret)
        for setting in _SETTINGS:
            self._connection.execute(setting)
        # From here on every statement is prepared when it is first sent.
        self._connection.prepare_threshold = 0
        # To make one anew for each statement takes as long as to send it.
        self._cursor = self._connection.cursor()
        self.version = self._connection.info.server_version
        self.pid = self._connection.info.backend_pid
        self.transactions = 0
        self.given_up = 0

    def rows(self, query: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query; None when it took too long.

        Raises:
            psycopg.Error: when the query fails or the connection is lost.
        """
        cursor = self._execute(query, values)
        return None if cursor is None else cursor.fetchall()

    def records(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Return the rows of a query by their columns' names; None when it took too long.

        Raises:
            psycopg.Error: when the query fails or the connection is lost.
        """
        cursor = self._execute(query, values)
        if cursor is None:
            return None
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def hang_up(self) -> None:
        """End the connection under a query that does not come back, from another thread."""
        with suppress(OSError, ValueError):
            handle = os.dup(self._connection.fileno())
            with socket.socket(fileno=handle) as line:
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _execute(
        self, query: str, values: Mapping[str, Any]
    ) -> psycopg.Cursor[tuple[Any, ...]] | None:
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            self._cursor.execute(query, values)
        except psycopg.errors.QueryCanceled:
            self.given_up += 1
            return None
        self.transactions += 1
        return self._cursor


def reason(error: Exception) -> str:
    """Return why a statement failed, in the server's words alone: libpq's name addresses."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return said or "the connection was lost"
