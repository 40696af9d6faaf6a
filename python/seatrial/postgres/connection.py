"""The way to a server: its address, which never holds a password, and connecting to it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from seatrial.errors import TargetError, UsageError
from seatrial.postgres.binaries import VERSION_MIN
from seatrial.postgres.connection_errors import connection_error

if TYPE_CHECKING:
    import psycopg

DEFAULT_PORT: Final = 5432
SCHEMES: Final = ("postgresql://", "postgres://")

_SOCKET_FOLDERS: Final = ("/var/run/postgresql", "/tmp")  # noqa: S108 - where servers listen
_CONNECT_TIMEOUT_S: Final = 10
_ENVIRONMENT_OF: Final = {
    "application_name": "PGAPPNAME",
    "channel_binding": "PGCHANNELBINDING",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "gssencmode": "PGGSSENCMODE",
    "options": "PGOPTIONS",
    "passfile": "PGPASSFILE",
    "requirepeer": "PGREQUIREPEER",
    "sslcert": "PGSSLCERT",
    "sslcrl": "PGSSLCRL",
    "sslkey": "PGSSLKEY",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
}
"""The parameters that a URL may carry, and how libpq reads each from the environment.

Source: PostgreSQL's documentation, chapter "libpq: Environment Variables".
"""

_REDIRECTING: Final = frozenset(
    {
        "PGHOST",
        "PGHOSTADDR",
        "PGPORT",
        "PGUSER",
        "PGDATABASE",
        "PGSERVICE",
        "PGOPTIONS",
        "PGTARGETSESSIONATTRS",
        "PGLOADBALANCEHOSTS",
    }
)


class Secret:
    """A password that does not print itself."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the password, for the environment of a child or a connection, nowhere else."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(...)"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens and as whom to speak to it; never a password.

    Attributes:
        host: A host name or address, or the folder of a socket when it begins with ``/``.
        port: The port, which also ends the socket's name.
        user: The role to log in as.
        dbname: The database to connect to.
        parameters: Further parameters of libpq, such as ``sslmode``.
    """

    host: str
    port: int
    user: str
    dbname: str
    parameters: dict[str, str] = {}

    @property
    def is_socket(self) -> bool:
        """Whether it is a socket in a folder of this machine."""
        return self.host.startswith("/")

    @property
    def place(self) -> str:
        """Where it is, for a person: ``db.example:5432`` or ``/run/postgresql (port 5432)``."""
        return f"{self.host} (port {self.port})" if self.is_socket else f"{self.host}:{self.port}"

    def with_dbname(self, dbname: str) -> Address:
        """Return the address of another database of the same server."""
        return msgspec.structs.replace(self, dbname=dbname)

    def as_url(self) -> str:
        """Return it as a URL that ``parse_url`` reads; there is no password in it."""
        inside = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        query = f"?{urlencode(self.parameters, quote_via=quote)}" if self.parameters else ""
        user, dbname = quote(self.user, safe=""), quote(self.dbname, safe="")
        return f"postgresql://{user}@{inside}:{self.port}/{dbname}{query}"

    def environment(
        self, secret: Secret | None = None, base: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the environment of a child that reaches the server through libpq.

        What would lead it elsewhere is taken out of ``base`` (this process's environment). The
        password is only here, never among a child's arguments, which every user can see.
        """
        environment = {
            name: value
            for name, value in (os.environ if base is None else base).items()
            if name not in _REDIRECTING
        }
        environment |= {_ENVIRONMENT_OF[name]: value for name, value in self.parameters.items()}
        environment |= {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.dbname,
        }
        return environment | ({"PGPASSWORD": secret.reveal()} if secret else {})


def parse_url(url: str) -> tuple[Address, Secret | None]:
    """Return the address that a URL names, and the password in it.

    What the URL leaves open comes from ``PGHOST``, ``PGPORT``, ``PGUSER`` and ``PGDATABASE``, else
    from libpq's own rules. No message repeats a part of the URL that may be a mistyped password.

    Raises:
        UsageError: when it is no such URL, names several hosts, or has a parameter that we do not
            pass on.
    """
    given = _parsed(url)
    if "," in given.get("host", "") or "," in given.get("port", ""):
        raise _several_hosts()
    # A password with a bare @ or / spills into the parts that follow it.
    if any("@" in given.get(key, "") for key in ("host", "port", "dbname")):
        raise _malformed()
    secret = Secret(given.pop("password")) if "password" in given else None
    user = given.pop("user", "") or os.environ.get("PGUSER") or getpass.getuser()
    address = Address(
        host=given.pop("host", "") or os.environ.get("PGHOST") or _default_host(),
        port=_port(given.pop("port", "") or os.environ.get("PGPORT") or str(DEFAULT_PORT)),
        user=user,
        dbname=given.pop("dbname", "") or os.environ.get("PGDATABASE") or user,
        parameters=given,
    )
    for name in given:
        if name not in _ENVIRONMENT_OF:
            raise _unknown_parameter(name)
    return address, secret


def names_database(url: str) -> bool:
    """Tell whether a URL, or ``PGDATABASE``, says which database is meant.

    Raises:
        UsageError: when it is no such URL.
    """
    return bool(_parsed(url).get("dbname") or os.environ.get("PGDATABASE"))


def connect(
    address: Address, *, secret: Secret | None = None, dbname: str | None = None
) -> psycopg.Connection:
    """Connect to a server, in autocommit mode; without a secret libpq looks for one itself.

    It looks into ``PGPASSWORD`` and ``~/.pgpass``.

    Raises:
        TargetError: when it cannot be reached, refuses, or is older than version 13; the message
            tells which, and never holds the password.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    _require_undirected()
    wanted = address if dbname is None else address.with_dbname(dbname)
    password = {"password": secret.reveal()} if secret else {}
    defaults = {"connect_timeout": str(_CONNECT_TIMEOUT_S), "application_name": "seatrial"}
    try:
        connection = psycopg.connect(
            **{**defaults, **wanted.parameters, **password},  # type: ignore[arg-type]
            host=wanted.host,
            port=wanted.port,
            user=wanted.user,
            dbname=wanted.dbname,
            autocommit=True,
            prepare_threshold=None,
        )
    except psycopg.Error as error:
        words = str(error).replace(secret.reveal(), "***") if secret else str(error)
        raise connection_error(
            words, place=wanted.place, user=wanted.user, dbname=wanted.dbname
        ) from None
    if connection.info.server_version < VERSION_MIN:
        version = connection.info.server_version
        connection.close()
        raise _server_too_old(wanted.place, version)
    return connection


def driver_way(address: Address, secret: Secret | None) -> dict[str, Any]:
    """Return the way to a database for a driver of ours, which does not go through libpq.

    The password in it is the one that libpq would take, ``PGPASSWORD`` and ``~/.pgpass`` included;
    it goes into no message and no results.

    Raises:
        TargetError: when the database cannot be connected to.
    """
    password = secret.reveal() if secret else ""
    if not password:
        with connect(address) as asked:
            password = asked.info.password
    return {
        "host": address.host,
        "port": address.port,
        "database": address.dbname,
        "user": address.user,
        "password": password or None,
    }


def _parsed(url: str) -> dict[str, str]:
    """Return the parts of a URL as libpq reads them, by keyword."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    if not url.startswith(SCHEMES):
        raise _malformed()
    try:
        options = psycopg.pq.Conninfo.parse(url.encode())
        return {each.keyword.decode(): each.val.decode() for each in options if each.val}
    except (psycopg.Error, UnicodeError):
        # libpq's own words may quote a part of the password.
        raise _malformed() from None


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
        return int(text)
    raise _malformed()


def _default_host() -> str:
    """Return the folder in which a server of this machine listens, else localhost."""
    for folder in _SOCKET_FOLDERS:
        if Path(folder, f".s.PGSQL.{DEFAULT_PORT}").is_socket():
            return folder
    return "localhost"


def _require_undirected() -> None:
    """Refuse a setting of the environment that would lead every connection elsewhere."""
    if os.environ.get("PGHOSTADDR"):
        raise UsageError(
            seen="The environment sets PGHOSTADDR",
            cause="libpq then connects to that address, whatever server is named",
            next_step="Try again after `unset PGHOSTADDR`",
        )


def _malformed() -> UsageError:
    return UsageError(
        seen="The URL of the database cannot be read",
        cause="It is not of the form postgresql://USER@HOST:PORT/DATABASE, or a character such as"
        " @ : / ? # % in a user's name, password or database's name is not percent-encoded",
        next_step="Write such characters as in %40 for @, or leave the password out and give it in"
        " PGPASSWORD or ~/.pgpass",
    )


def _several_hosts() -> UsageError:
    return UsageError(
        seen="The URL of the database names several hosts",
        cause="A trial measures one server; which of several answers could change in mid-run",
        next_step="Name one host; to compare servers, give each its own --url",
    )


def _unknown_parameter(name: str) -> UsageError:
    return UsageError(
        seen=f"The URL of the database has the parameter {name}",
        cause="It is not among those that are passed on: " + ", ".join(_ENVIRONMENT_OF),
        next_step=f"Leave {name} out of the URL",
    )


def _server_too_old(place: str, version: int) -> TargetError:
    major = version // 10_000
    text = f"{major}.{version % 10_000}" if major >= 10 else f"{major}.{version // 100 % 100}"
    return TargetError(
        seen=f"The server at {place} is PostgreSQL {text}",
        cause=f"Trials need version {VERSION_MIN // 10_000} or later",
        next_step="Name a later server, or leave --url away to try the storage with a PostgreSQL"
        " of our own",
    )
