"""Who is connected to a server by TCP."""

from __future__ import annotations

import contextlib
from typing import Final

import msgspec

from seatrial.postgres.connection import Address, connect

_ASKED: Final = """
    SELECT host(client_addr), client_port, pid, usename, datname, application_name
    FROM pg_stat_activity
    WHERE client_addr IS NOT NULL AND datname IS NOT NULL AND pid <> pg_backend_pid()
"""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """A session and where its client is (crates/capture/src/spec.rs).

    Attributes:
        client: The client's address and port, an IPv6 address in brackets.
        name: The number of the server's process.
        user: That it connected as.
        database: That it connected to.
        application: What it calls itself.
    """

    client: str
    name: str
    user: str
    database: str
    application: str


def connected_clients(address: Address) -> list[Client]:
    """Return who is connected by TCP, as far as this user may know.

    Raises:
        TargetError: when the server cannot be reached, or does not let us in.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    with contextlib.closing(connect(address)) as connection:
        try:
            rows = connection.execute(_ASKED).fetchall()
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
