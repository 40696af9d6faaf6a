"""The number by which a server knows its data, and so every copy of them."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Final

from seatrial.postgres.connection import Address, connect

_ASKED: Final = "SELECT system_identifier::text FROM pg_control_system()"
_CONTROL_FILE: Final = Path("global", "pg_control")
_VERSION_FILE: Final = "PG_VERSION"
_IDENTIFIER: Final = struct.Struct("=Q")
"""``pg_control`` begins with it, in the byte order of the machine that wrote it."""


def system_identifier_of(path: str | Path) -> str | None:
    """Return the identifier of the server whose data directory holds a file or folder.

    Source: PostgreSQL's ``src/include/catalog/pg_control.h``; it is what ``pg_controldata`` and
    ``pg_control_system()`` tell. A standby, or a copy of the files, has that of its primary.

    Args:
        path: A log, or a data directory itself.

    Returns:
        Its digits; None where the path lies in no data directory, or in one that we may not read.
    """
    place = Path(path).absolute()
    for folder in (place, *place.parents):
        try:
            if (folder / _VERSION_FILE).is_file() and (folder / _CONTROL_FILE).is_file():
                return _read(folder / _CONTROL_FILE)
        except OSError:
            return None
    return None


def asked_system_identifier(address: Address) -> str | None:
    """Return the identifier that a server tells of itself, as digits; None where it will not.

    Raises:
        TargetError: when it cannot be reached, or does not let us in.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    with contextlib.closing(connect(address)) as connection:
        try:
            row = connection.execute(_ASKED).fetchone()
        except psycopg.Error:
            return None
    return None if row is None else str(row[0])


def _read(path: Path) -> str | None:
    with path.open("rb") as file:
        head = file.read(_IDENTIFIER.size)
    return str(_IDENTIFIER.unpack(head)[0]) if len(head) == _IDENTIFIER.size else None
