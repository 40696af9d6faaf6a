"""The locale of a database: as an archive of pg_dump states it, and as a server has it."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seatrial.postgres.binaries import Binaries

if TYPE_CHECKING:
    import psycopg

_CREATE: Final = re.compile(r'^CREATE DATABASE (?:"(?:[^"]|"")*"|\S+) WITH (.*);$', re.MULTILINE)
_OPTION: Final = re.compile(
    r"\b(ENCODING|LOCALE_PROVIDER|LOCALE|LC_COLLATE|LC_CTYPE|ICU_LOCALE|ICU_RULES|BUILTIN_LOCALE)"
    r" = ('(?:[^'\\]|'')*'|\w+)"
)
_ACTUAL: Final = """
    SELECT pg_encoding_to_char(encoding), to_jsonb(d) FROM pg_database AS d
    WHERE datname = current_database()
"""
_PROVIDERS: Final = {"i": "icu", "b": "builtin"}
"""By PostgreSQL's own letter in ``pg_database``; any other is the C library."""


def locale_options(archive: Path, binaries: Binaries) -> str:
    """Return the encoding and locale in an archive as options of ``CREATE DATABASE``.

    Args:
        archive: A file or folder of pg_dump.
        binaries: The programs.

    Returns:
        The options; empty where the archive has none, or cannot be read.

    Raises:
        TargetError: when there is no pg_restore.
    """
    program = str(binaries.program("pg_restore"))
    command = [program, "--create", "--schema-only", "--file=-", str(archive)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    found = _CREATE.search(result.stdout.decode(errors="replace"))
    options = _OPTION.findall(found[1]) if found else []
    # From a database that has no encoding, psycopg returns the names of tables as bytes.
    return " ".join(f"{n} = {value}" for n, value in options).replace("'SQL_ASCII'", "'UTF8'")


def create_with_locale(connection: psycopg.Connection, name: str, options: str) -> None:
    """Create a database with a locale, or with the server's own where it refuses this one.

    The server's usual template is preferred: it may contain extensions that only a superuser can
    create. It has one locale; the other template allows any.

    Args:
        connection: In autocommit mode.
        name: Of the database.
        options: As ``locale_options`` returns them; empty for the server's own locale.

    Raises:
        psycopg.Error: when the server refuses any database of that name.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server
    from psycopg import sql  # noqa: PLC0415 - likewise

    create = sql.SQL("CREATE DATABASE {} ").format(sql.Identifier(name)).as_string(connection)
    for each in (options, f"TEMPLATE template0 {options}") if options else ():
        with contextlib.suppress(psycopg.Error):
            connection.execute(f"{create}{each}".encode())
            return
    connection.execute(create.encode())


def locale_text(options: str) -> str:
    """Return options of ``CREATE DATABASE`` as ``locale_of`` describes a locale; empty for none."""
    values = {name: value.strip("'").replace("''", "'") for name, value in _OPTION.findall(options)}
    if not values:
        return ""
    whole = values.get("LOCALE", "")
    return _text(
        values.get("ENCODING", ""),
        values.get("LOCALE_PROVIDER", ""),
        values.get("ICU_LOCALE") or values.get("BUILTIN_LOCALE") or whole,
        values.get("LC_COLLATE", whole),
        values.get("LC_CTYPE", whole),
    )


def locale_of(connection: psycopg.Connection) -> str:
    """Return the locale of a session's database, such as ``de (icu), UTF8``.

    Raises:
        psycopg.Error: when the connection is lost.
    """
    row = connection.execute(_ACTUAL).fetchone()
    if row is None:  # a pooler may name it otherwise
        return ""
    encoding, database = row
    provider = _PROVIDERS.get(database.get("datlocprovider", ""), "")
    own = database.get("datlocale") or database.get("daticulocale") or ""
    return _text(encoding, provider, own, database["datcollate"], database["datctype"])


def _text(encoding: str, provider: str, own: str, collate: str, ctype: str) -> str:
    if provider in _PROVIDERS.values():
        return f"{own} ({provider}), {encoding}"
    return f"{collate if collate == ctype else f'{collate} and {ctype}'}, {encoding}"
