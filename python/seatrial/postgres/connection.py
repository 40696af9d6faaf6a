"""Connections to a server, and its address, which never contains a password."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, LiteralString
from urllib.parse import quote, urlencode

import msgspec

from seatrial.errors import TargetError, UsageError
from seatrial.postgres.binaries import VERSION_MIN

if TYPE_CHECKING:
    import psycopg


_WHERE_TO_PUT_IT: Final = (
    "Set it in the environment (`PGPASSWORD=... seatrial ...`) or in ~/.pgpass"
)

# The first match decides. The server's own messages come before consequences: libpq retries without
# or with TLS, and then reports both attempts.
_REASONS: Final[tuple[tuple[str, str, str, str], ...]] = (
    (
        r"password authentication failed|SCRAM",
        "The server at {endpoint} refused the password of user {user}",
        "The password is wrong, or the user does not exist",
        _WHERE_TO_PUT_IT,
    ),
    (
        r"no password supplied",
        "The server at {endpoint} requires a password for user {user}, and none was given",
        "None is in the URL, in PGPASSWORD or in ~/.pgpass",
        _WHERE_TO_PUT_IT,
    ),
    (
        r'role ".*" does not exist|user ".*" does not exist|Peer authentication failed',
        "The server at {endpoint} refused the login as user {user}",
        "The role does not exist, or peer authentication requires the name of the system user",
        "Use an existing role in the URL, as in postgresql://ROLE@HOST/DATABASE",
    ),
    (
        r'database ".*" does not exist',
        "The server at {endpoint} has no database {dbname}",
        "The name is misspelled, or the URL names none and the user name was used",
        "Use an existing one, such as postgres, at the end of the URL",
    ),
    (
        r"permission denied for database|not permitted to log in",
        "The server at {endpoint} does not permit user {user} to connect to database {dbname}",
        "The role lacks the privilege CONNECT on it, or the attribute LOGIN",
        "Ask the administrator to grant it, or use another user or database",
    ),
    (
        r"too many clients|too many connections|connection slots are reserved",
        "The server at {endpoint} has no connection left",
        "Its max_connections, or the limit of the role or database, is reached",
        "Close other sessions or raise the limit, then try again",
    ),
    (
        r"starting up|shutting down|in recovery mode|not (yet )?accepting connections",
        "The server at {endpoint} accepts no connections now",
        "It is starting, stopping or recovering from a crash",
        "Wait until its log reports that it is ready, then try again",
    ),
    (
        r"does not support SSL|server does not support",
        "The server at {endpoint} does not support TLS, which the URL requires",
        "TLS is off in its settings (ssl = off)",
        "Turn it on there, or use ?sslmode=prefer",
    ),
    (
        r"certificate|SSL error",
        "The TLS connection to {endpoint} failed: {message}",
        "The server's certificate is not trusted with the URL's sslmode and sslrootcert",
        "Set the right sslrootcert in the URL, or use ?sslmode=require",
    ),
    (
        r"^(?!.*(SSL encryption|SSL on|\[local\])).*no pg_hba\.conf entry.*(no encryption|SSL off)",
        "The server at {endpoint} refuses user {user} without TLS",
        "Its pg_hba.conf has an entry for TLS connections only (hostssl), or no entry",
        "Add ?sslmode=require to the URL, or ask its administrator for an entry",
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "The server at {endpoint} does not allow user {user} to connect to {dbname} from here",
        "No entry of its pg_hba.conf allows it",
        "Ask its administrator for an entry, then try again",
    ),
    (
        r"could not translate host name|Name or service not known",
        "The host of {endpoint} could not be resolved",
        "The name is misspelled, or unknown to the name servers",
        "Correct the host in the URL; `getent hosts NAME` checks a name",
    ),
    (
        r"Connection refused|No such file or directory",
        "No server listens at {endpoint}",
        "It is not running, or it listens elsewhere",
        "Start it, or correct host and port in the URL; `pg_isready -h HOST -p PORT` checks it",
    ),
    (
        r"timeout expired|timed out|No route to host|Network is unreachable",
        "The server at {endpoint} did not answer",
        "The host is down, or a firewall drops the packets",
        "Check whether the host answers; `pg_isready -h HOST -p PORT` checks the server",
    ),
    (
        r"Permission denied",
        "The socket at {endpoint} cannot be opened",
        "You have no permission for its folder or for the socket",
        "Run the command as a user who has, or use a TCP host in the URL",
    ),
)


def connection_error(message: str, *, endpoint: str, user: str, dbname: str) -> TargetError:
    """Return the error for libpq's message on a failed connection.

    Messages depend on the server's ``lc_messages``; unknown ones are quoted. ``message`` must not
    contain the password.
    """
    text = " ".join(message.removeprefix("connection is bad: ").split())
    values = {"endpoint": endpoint, "user": user, "dbname": dbname, "message": text}
    for pattern, seen, cause, next_step in _REASONS:
        if re.search(pattern, text):
            return TargetError(seen=seen.format(**values), cause=cause, next_step=next_step)
    return TargetError(
        seen=f"The connection to the server at {endpoint} as user {user} failed",
        cause=f"The error is: {text}",
        next_step="Fix the cause, then try again",
    )


DEFAULT_PORT: Final = 5432
SCHEMES: Final = ("postgresql://", "postgres://")

_SOCKET_FOLDERS: Final = ("/var/run/postgresql", "/tmp")  # noqa: S108 - where servers listen
_CONNECT_TIMEOUT_S: Final = 10
_ENVIRONMENT_VARIABLES: Final = {
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
"""The parameters that a URL may have, and libpq's environment variable for each.

Source: PostgreSQL's documentation, chapter "libpq: Environment Variables".
"""

_REDIRECTING_VARIABLES: Final = frozenset(
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
        """Return the password, only for the environment of a child or a connection."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(...)"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Address and role of a connection; never a password.

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
    def endpoint(self) -> str:
        """The server for readers: ``db.example:5432`` or ``/run/postgresql (port 5432)``."""
        return f"{self.host} (port {self.port})" if self.is_socket else f"{self.host}:{self.port}"

    def with_dbname(self, dbname: str) -> Address:
        """Return the address of another database of the same server."""
        return msgspec.structs.replace(self, dbname=dbname)

    def as_url(self) -> str:
        """Return it as a URL for ``parse_url``, without a password."""
        host = f"[{self.host}]" if ":" in self.host else quote(self.host, safe="")
        query = f"?{urlencode(self.parameters, quote_via=quote)}" if self.parameters else ""
        user, dbname = quote(self.user, safe=""), quote(self.dbname, safe="")
        return f"postgresql://{user}@{host}:{self.port}/{dbname}{query}"

    def environment(
        self, secret: Secret | None = None, base: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the environment for a child process that connects through libpq.

        Other variables of libpq are removed from ``base`` (by default this process's environment).
        The password is passed only here, never in arguments, which are visible to every user.
        """
        environment = {
            name: value
            for name, value in (os.environ if base is None else base).items()
            if name not in _REDIRECTING_VARIABLES
        }
        environment |= {
            _ENVIRONMENT_VARIABLES[name]: value for name, value in self.parameters.items()
        }
        environment |= {
            "PGHOST": self.host,
            "PGPORT": str(self.port),
            "PGUSER": self.user,
            "PGDATABASE": self.dbname,
        }
        return environment | ({"PGPASSWORD": secret.reveal()} if secret else {})


def parse_url(url: str) -> tuple[Address, Secret | None]:
    """Return the address and the password in a URL.

    Missing parts are taken from ``PGHOST``, ``PGPORT``, ``PGUSER`` and ``PGDATABASE``, else from
    libpq's own rules. No message quotes a part of the URL that may be a mistyped password.

    Raises:
        UsageError: when it is not such a URL, names several hosts, or has an unsupported parameter.
    """
    given = _parsed(url)
    if "," in given.get("host", "") or "," in given.get("port", ""):
        raise _several_hosts()
    # An unescaped @ or / in a password would move part of it to other parts of the URL.
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
        if name not in _ENVIRONMENT_VARIABLES:
            raise _unknown_parameter(name)
    return address, secret


def names_database(url: str) -> bool:
    """Return whether a URL or ``PGDATABASE`` specifies a database.

    Raises:
        UsageError: when it is not such a URL.
    """
    return bool(_parsed(url).get("dbname") or os.environ.get("PGDATABASE"))


def connect(
    address: Address, *, secret: Secret | None = None, dbname: str | None = None
) -> psycopg.Connection:
    """Connect to a server, in autocommit mode.

    Without a secret libpq uses ``PGPASSWORD`` and ``~/.pgpass``.

    Raises:
        TargetError: when it cannot be reached, refuses, or is older than version 13; the message
            never contains the password.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    _refuse_hostaddr()
    target = address if dbname is None else address.with_dbname(dbname)
    password = {"password": secret.reveal()} if secret else {}
    defaults = {"connect_timeout": str(_CONNECT_TIMEOUT_S), "application_name": "seatrial"}
    try:
        connection = psycopg.connect(
            **{**defaults, **target.parameters, **password},  # type: ignore[arg-type]
            host=target.host,
            port=target.port,
            user=target.user,
            dbname=target.dbname,
            autocommit=True,
            prepare_threshold=None,
        )
    except psycopg.Error as error:
        message = str(error).replace(secret.reveal(), "***") if secret else str(error)
        raise connection_error(
            message, endpoint=target.endpoint, user=target.user, dbname=target.dbname
        ) from None
    if connection.info.server_version < VERSION_MIN:
        version = connection.info.server_version
        connection.close()
        raise _server_too_old(target.endpoint, version)
    return connection


def is_pooled(connection: psycopg.Connection) -> bool:
    """Return whether a pooler answers, which gives a session's settings to other clients.

    Poolers invent the process number with which a client may cancel its statements.

    Raises:
        psycopg.Error: when the server refuses.
    """
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return row != (connection.info.backend_pid,)


def commit_locally(connection: psycopg.Connection) -> None:
    """Let a session's commits wait for no standby, which may never answer.

    Not through a pooler: the commits of other clients would not wait either.

    Raises:
        psycopg.Error: when the server refuses.
    """
    if not is_pooled(connection):
        connection.execute("SET synchronous_commit = local")


def text_of(connection: psycopg.Connection, query: LiteralString) -> str:
    """Return one text; empty if not permitted, or not supported, as by Aurora.

    Raises:
        psycopg.Error: when the server refuses for another reason.
    """
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    try:
        row = connection.execute(query).fetchone()
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.ObjectNotInPrerequisiteState,
    ):
        return ""
    return str(row[0] or "") if row else ""


def driver_parameters(address: Address, secret: Secret | None) -> dict[str, str | int | None]:
    """Return the connection parameters for our drivers, which do not use libpq.

    They contain the password that libpq would use, including from ``PGPASSWORD`` and ``~/.pgpass``;
    it appears in no message or results.

    Raises:
        TargetError: when the database cannot be connected to.
    """
    password = secret.reveal() if secret else ""
    if not password:
        with connect(address) as connection:
            password = connection.info.password
    return {
        "host": address.host,
        "port": address.port,
        "database": address.dbname,
        "user": address.user,
        "password": password or None,
    }


def _parsed(url: str) -> dict[str, str]:
    """Return the parts of a URL as parsed by libpq, by keyword."""
    import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

    if not url.startswith(SCHEMES):
        raise _malformed()
    try:
        options = psycopg.pq.Conninfo.parse(url.encode())
        return {option.keyword.decode(): option.val.decode() for option in options if option.val}
    except (psycopg.Error, UnicodeError):
        # libpq's message may quote a part of the password.
        raise _malformed() from None


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
        return int(text)
    raise _malformed()


def _default_host() -> str:
    """Return the socket folder of a server on this machine, else localhost."""
    for folder in _SOCKET_FOLDERS:
        if Path(folder, f".s.PGSQL.{DEFAULT_PORT}").is_socket():
            return folder
    return "localhost"


def _refuse_hostaddr() -> None:
    """Raise for environment variables that would redirect every connection."""
    if os.environ.get("PGHOSTADDR"):
        raise UsageError(
            seen="The environment sets PGHOSTADDR",
            cause="libpq then connects to that address instead of the named server",
            next_step="Try again after `unset PGHOSTADDR`",
        )


def _malformed() -> UsageError:
    return UsageError(
        seen="The URL of the database is invalid",
        cause="It is not of the form postgresql://USER@HOST:PORT/DATABASE, or a character such as"
        " @ : / ? # % in the user, password or database name is not percent-encoded",
        next_step="Encode such characters, as in %40 for @; pass the password in PGPASSWORD or"
        " ~/.pgpass",
    )


def _several_hosts() -> UsageError:
    return UsageError(
        seen="The URL of the database names several hosts",
        cause="A trial measures one server, and with several hosts it could change during the run",
        next_step="Use one host; to compare servers, use one --url for each",
    )


def _unknown_parameter(name: str) -> UsageError:
    return UsageError(
        seen=f"The URL of the database has the parameter {name}",
        cause="Only these parameters are passed on: " + ", ".join(_ENVIRONMENT_VARIABLES),
        next_step=f"Remove {name} from the URL",
    )


def _server_too_old(endpoint: str, version: int) -> TargetError:
    major = version // 10_000
    text = f"{major}.{version % 10_000}" if major >= 10 else f"{major}.{version // 100 % 100}"
    return TargetError(
        seen=f"The server at {endpoint} is PostgreSQL {text}",
        cause=f"Trials need version {VERSION_MIN // 10_000} or later",
        next_step="Use a later server, or leave out --url to measure the storage with a separate"
        " PostgreSQL",
    )
