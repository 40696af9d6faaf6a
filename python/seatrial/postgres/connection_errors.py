"""Why a server could not be reached, told from the words of libpq and of the server."""

from __future__ import annotations

import re
from typing import Final

from seatrial.errors import TargetError

_HOW_TO_GIVE_IT: Final = (
    "Give it in the environment (`PGPASSWORD=... seatrial ...`) or in a line of ~/.pgpass"
)

# The first that fits decides. What the server says itself comes before what may follow from it:
# libpq tries again without TLS, or with it, and then reports both attempts.
_REASONS: Final[tuple[tuple[str, str, str, str], ...]] = (
    (
        r"password authentication failed|SCRAM",
        "The server at {place} refused the password of user {user}",
        "The password is wrong, or the user does not exist",
        _HOW_TO_GIVE_IT,
    ),
    (
        r"no password supplied",
        "The server at {place} asks user {user} for a password, and none was given",
        "None is in the URL, in PGPASSWORD or in ~/.pgpass",
        _HOW_TO_GIVE_IT,
    ),
    (
        r'role ".*" does not exist|user ".*" does not exist|Peer authentication failed',
        "The server at {place} does not let you in as user {user}",
        "It has no such role, or it asks that the role bears the name of the system's user",
        "Name a role that exists in the URL, as in postgresql://ROLE@HOST/DATABASE",
    ),
    (
        r'database ".*" does not exist',
        "The server at {place} has no database {dbname}",
        "The name is mistyped, or the URL names none and the user's name was taken",
        "Name one that exists, such as postgres, at the end of the URL",
    ),
    (
        r"permission denied for database|not permitted to log in",
        "The server at {place} does not permit user {user} to connect to database {dbname}",
        "The role lacks the right CONNECT on it, or the right LOGIN",
        "Ask its administrator for them, or name another user or database",
    ),
    (
        r"too many clients|too many connections|connection slots are reserved",
        "The server at {place} has no connection left",
        "Its max_connections, or the limit of the role or database, is reached",
        "End other sessions or raise the limit, then try again",
    ),
    (
        r"starting up|shutting down|in recovery mode|not (yet )?accepting connections",
        "The server at {place} accepts no connections now",
        "It is starting, stopping or recovering from a crash",
        "Wait until its log says that it is ready, then try again",
    ),
    (
        r"does not support SSL|server does not support",
        "The server at {place} does not speak TLS, which the URL demands",
        "TLS is off in its settings (ssl = off)",
        "Turn it on there, or ask for it less strictly with ?sslmode=prefer",
    ),
    (
        r"certificate|SSL error",
        "The TLS connection to {place} failed: {words}",
        "The server's certificate is not one that the URL's sslmode and sslrootcert trust",
        "Name the right sslrootcert in the URL, or ask less strictly with ?sslmode=require",
    ),
    (
        r"^(?!.*(SSL encryption|SSL on|\[local\])).*no pg_hba\.conf entry.*(no encryption|SSL off)",
        "The server at {place} refuses user {user} without TLS",
        "Its pg_hba.conf has an entry for TLS connections only (hostssl), or none at all",
        "Add ?sslmode=require to the URL, or ask its administrator for an entry",
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "The server at {place} does not let user {user} into database {dbname} from here",
        "No entry of its pg_hba.conf permits it",
        "Ask its administrator for an entry, then try again",
    ),
    (
        r"could not translate host name|Name or service not known",
        "There is no host for {place}",
        "The name is mistyped, or no name server knows it",
        "Correct the host in the URL; `getent hosts NAME` tells whether a name is known",
    ),
    (
        r"Connection refused|No such file or directory",
        "No server listens at {place}",
        "It is not running, or it listens elsewhere",
        "Start it, or correct host and port in the URL; `pg_isready -h HOST -p PORT` asks it",
    ),
    (
        r"timeout expired|timed out|No route to host|Network is unreachable",
        "The server at {place} did not answer",
        "The host is down, or a firewall drops what is sent there",
        "See whether the host answers; `pg_isready -h HOST -p PORT` asks the server",
    ),
    (
        r"Permission denied",
        "The socket at {place} may not be opened",
        "You have no right to its folder or to the socket itself",
        "Run the command as a user who has, or name a TCP host in the URL",
    ),
)


def connection_error(words: str, *, place: str, user: str, dbname: str) -> TargetError:
    """Return the error for what libpq said of a failed connection.

    Servers speak the language of their ``lc_messages``; words that are not known here are given as
    they are. ``words`` must be free of the password.
    """
    said = " ".join(words.removeprefix("connection is bad: ").split())
    known = {"place": place, "user": user, "dbname": dbname, "words": said}
    for pattern, seen, cause, next_step in _REASONS:
        if re.search(pattern, said):
            return TargetError(seen=seen.format(**known), cause=cause, next_step=next_step)
    return TargetError(
        seen=f"The server at {place} could not be connected to as user {user}",
        cause=f"It was said: {said}",
        next_step="Mend what it names, then try again",
    )
