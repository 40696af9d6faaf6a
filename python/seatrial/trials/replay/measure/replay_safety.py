"""What a replay may be sent to: a target that is ours, or one whose name was typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.errors import RefusedError, StudyError
from seatrial.postgres.connection import Address
from seatrial.postgres.remote import RemoteServer
from seatrial.trials.database.study.workloads import DatabaseSpec, ReplaySpec
from seatrial.trials.replay.study.trace_facts import trace_facts

_STATE: Final = """
    SELECT current_database(), current_user, pg_is_in_recovery(),
        EXISTS (
            SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE relkind IN ('r', 'p', 'f', 'm', 'v') AND nspname !~ '^pg_'
                AND nspname <> 'information_schema'
        ),
        has_function_privilege('pg_control_system()', 'EXECUTE')
"""
_IDENTIFIER: Final = "SELECT system_identifier::text FROM pg_control_system()"
_ENCRYPTED: Final = ("require", "verify-ca", "verify-full")


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a database is that a replay would be sent to.

    Attributes:
        place: Where its server listens, for a person.
        database: Its name.
        user: Whom every session would be played as.
        in_recovery: Whether its server is a standby, or recovers.
        has_tables: Whether there is any table or view in it.
        system_identifier: Of its server, as digits; None where we may not ask.
    """

    place: str
    database: str
    user: str
    in_recovery: bool
    has_tables: bool
    system_identifier: str | None


def look_at(server: RemoteServer, dbname: str) -> Standing:
    """Ask what a database is.

    Raises:
        TargetError: when it cannot be reached.
    """
    with server.connect(dbname) as connection:
        row = connection.execute(_STATE).fetchone()
        database, user, in_recovery, has_tables, may_ask = row or (dbname, "", False, True, False)
        reported = connection.execute(_IDENTIFIER).fetchone() if may_ask else None
    return Standing(
        place=server.address.place,
        database=str(database),
        user=str(user),
        in_recovery=bool(in_recovery),
        has_tables=bool(has_tables),
        system_identifier=str(reported[0]) if reported else None,
    )


def require_safe_replays(
    specs: Sequence[DatabaseSpec], server: RemoteServer, *, is_ours: bool
) -> None:
    """Check that none of the cells' replays is sent where it must not be.

    Args:
        specs: Of the cells; those that are no replays are passed over.
        server: Where they are sent; its address names the database.
        is_ours: Whether the databases are made for the run.

    Raises:
        RefusedError: with what was seen, and what allows it.
        StudyError: when the address asks for what the driver cannot do.
        TargetError: when the server cannot be reached.
    """
    replays = [spec.replay for spec in specs if spec.replay is not None]
    if not replays:
        return
    _require_plain(server.address)
    standing = look_at(server, server.address.dbname)
    for replay in replays:
        require_safe(replay, standing, is_ours=is_ours)


def require_safe(replay: ReplaySpec, standing: Standing, *, is_ours: bool) -> None:
    """Check that a replay is not sent where it must not be.

    Raises:
        RefusedError: with what was seen, and what allows it.
    """
    facts = trace_facts(replay.trace)
    own = facts.system_identifier if facts else None
    if own is not None and own == standing.system_identifier and "same_system" not in replay.allow:
        raise _the_logs_own(standing)
    if standing.in_recovery and not replay.read_only:
        raise _in_recovery(standing)
    if standing.in_recovery and "recovery" not in replay.allow:
        raise _a_standby_serves(standing)
    if is_ours or replay.read_only:
        return
    if replay.allow_writes != standing.database:
        raise _may_write(replay, standing)


def notes_on(replay: ReplaySpec, standing: Standing) -> list[str]:
    """Return what is worth knowing of a database before a replay is sent to it, as sentences."""
    notes = []
    if not standing.has_tables:
        notes.append(
            f"The database {standing.database} had no table before the replay: it may be the wrong "
            "one."
        )
    facts = trace_facts(replay.trace)
    own = facts.system_identifier if facts else None
    if own is not None and standing.system_identifier is None:
        notes.append(
            f"Whether {standing.place} is the server that the log is of is not known: the user "
            f"{standing.user} may not call pg_control_system()."
        )
    if facts and [name for name in facts.users if name != standing.user]:
        notes.append(
            f"All sessions were played as {standing.user}; in the capture they were of "
            f"{_some(facts.users)}."
        )
    return notes


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _require_plain(address: Address) -> None:
    """Refuse an address whose parameters the driver of replays cannot follow."""
    encrypted = address.parameters.get("sslmode") in _ENCRYPTED
    if not encrypted and "options" not in address.parameters:
        return
    what = f"sslmode={address.parameters['sslmode']}" if encrypted else "options"
    raise StudyError(
        seen=f"The address of the server asks for {what}",
        cause="The connections of a replay are plain, so that encryption is not measured, and have "
        "the role's own settings",
        next_step="Leave it out, and reach a distant server through a tunnel such as `ssh -L`"
        if encrypted
        else "Leave it out, and set it for the role with `ALTER ROLE ... SET`",
    )


def _the_logs_own(standing: Standing) -> RefusedError:
    return RefusedError(
        seen=f"The server at {standing.place} is the one that the log was written by, or a copy of "
        f"its files: both have the system identifier {standing.system_identifier}",
        cause="A replay would be sent to production, and its load would come on top of it",
        next_step="Play to another server, or to a directory with --prepare and a dump; for a copy "
        "of the files that nobody else uses, add --allow same_system",
    )


def _in_recovery(standing: Standing) -> RefusedError:
    return RefusedError(
        seen=f"The server at {standing.place} is in recovery, and the replay would write",
        cause="It is a standby, which takes no writes, or has not finished its own recovery",
        next_step="Play to a primary that is not in use, or only what reads with --read-only "
        "--allow recovery",
    )


def _a_standby_serves(standing: Standing) -> RefusedError:
    return RefusedError(
        seen=f"The server at {standing.place} is in recovery",
        cause="A standby usually stands by for production: queries on it hold its recovery up, or "
        "are cancelled by it",
        next_step="If it may serve the replay, add --allow recovery",
    )


def _may_write(replay: ReplaySpec, standing: Standing) -> RefusedError:
    typed = replay.allow_writes
    named = (
        f"; the name that was given is {typed}" if typed else "; it was not made for this replay"
    )
    return RefusedError(
        seen=f"The replay may write to the database {standing.database} at {standing.place}{named}",
        cause="What it writes cannot be undone, and only the database's own name, typed exactly, "
        "allows it",
        next_step=f"If it may be changed, add --allow-writes {standing.database}; else play only "
        "what reads with --read-only, or to a directory",
    )
