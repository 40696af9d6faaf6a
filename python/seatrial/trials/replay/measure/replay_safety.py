"""Targets that a replay may be sent to: our own, or one whose name the user typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.errors import RefusedError, StudyError
from seatrial.postgres.connection import Address
from seatrial.postgres.remote import RemoteServer
from seatrial.stats.wording import format_first
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


class DatabaseState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a database for a replay.

    Attributes:
        endpoint: Its server, for readers.
        database: Its name.
        user: The user of every replayed session.
        in_recovery: Whether its server is a standby, or recovers.
        has_tables: Whether it contains any table or view.
        system_identifier: System identifier of its server, as digits; None if it may not be
            queried.
    """

    endpoint: str
    database: str
    user: str
    in_recovery: bool
    has_tables: bool
    system_identifier: str | None


def database_state(server: RemoteServer, dbname: str) -> DatabaseState:
    """Return the state of a database.

    Raises:
        TargetError: when it cannot be reached.
    """
    with server.connect(dbname) as connection:
        row = connection.execute(_STATE).fetchone()
        database, user, in_recovery, has_tables, may_query = row or (dbname, "", False, True, False)
        identifier = connection.execute(_IDENTIFIER).fetchone() if may_query else None
    return DatabaseState(
        endpoint=server.address.endpoint,
        database=str(database),
        user=str(user),
        in_recovery=bool(in_recovery),
        has_tables=bool(has_tables),
        system_identifier=str(identifier[0]) if identifier else None,
    )


def require_safe_replays(
    specs: Sequence[DatabaseSpec], server: RemoteServer, *, is_ours: bool
) -> None:
    """Check that all replays of the cells are allowed.

    Args:
        specs: Specifications of the cells; those that are not replays are ignored.
        server: The server; its address specifies the database.
        is_ours: Whether the databases are created for the run.

    Raises:
        RefusedError: with the reason, and what allows it.
        StudyError: when the address has parameters that the driver does not support.
        TargetError: when the server cannot be reached.
    """
    replays = [spec.replay for spec in specs if spec.replay is not None]
    if not replays:
        return
    _require_plain(server.address)
    state = database_state(server, server.address.dbname)
    for replay in replays:
        require_safe(replay, state, is_ours=is_ours)


def require_safe(replay: ReplaySpec, state: DatabaseState, *, is_ours: bool) -> None:
    """Check that a replay is allowed.

    Raises:
        RefusedError: with the reason, and what allows it.
    """
    facts = trace_facts(replay.trace)
    own = facts.system_identifier if facts else None
    if own is not None and own == state.system_identifier and "same_system" not in replay.allow:
        raise _same_system(state)
    if state.in_recovery and not replay.read_only:
        raise _in_recovery(state)
    if state.in_recovery and "recovery" not in replay.allow:
        raise _standby_in_use(state)
    if is_ours or replay.read_only:
        return
    if replay.allow_writes != state.database:
        raise _writes_not_allowed(replay, state)


def notes_on(replay: ReplaySpec, state: DatabaseState) -> list[str]:
    """Return notes on a database before a replay is sent to it, as sentences."""
    notes = []
    if not state.has_tables:
        notes.append(
            f"The database {state.database} had no tables before the replay: it may be the "
            "wrong one."
        )
    facts = trace_facts(replay.trace)
    own = facts.system_identifier if facts else None
    if own is not None and state.system_identifier is None:
        notes.append(
            f"It is unknown whether {state.endpoint} is the server that wrote the log: the user "
            f"{state.user} may not call pg_control_system()."
        )
    if facts and [name for name in facts.users if name != state.user]:
        notes.append(
            f"All sessions were replayed as {state.user}; in the capture they belonged to "
            f"{format_first(facts.users, 3)}."
        )
    return notes


def _require_plain(address: Address) -> None:
    """Refuse an address with parameters that the replay driver does not support."""
    encrypted = address.parameters.get("sslmode") in _ENCRYPTED
    if not encrypted and "options" not in address.parameters:
        return
    parameter = f"sslmode={address.parameters['sslmode']}" if encrypted else "options"
    raise StudyError(
        seen=f"The address of the server requests {parameter}",
        cause="The connections of a replay are not encrypted, so that encryption is not measured, "
        "and use the role's settings",
        next_step="Leave it out, and reach a remote server through a tunnel such as `ssh -L`"
        if encrypted
        else "Leave it out, and set it for the role with `ALTER ROLE ... SET`",
    )


def _same_system(state: DatabaseState) -> RefusedError:
    return RefusedError(
        seen=f"The server at {state.endpoint} is the server that wrote the log, or a copy of its "
        f"files: both have the system identifier {state.system_identifier}",
        cause="The replay would add its load to production",
        next_step="Replay on another server, or on a directory with --prepare and a dump; for a "
        "copy of the files that nobody else uses, add --allow same_system",
    )


def _in_recovery(state: DatabaseState) -> RefusedError:
    return RefusedError(
        seen=f"The server at {state.endpoint} is in recovery, and the replay would write",
        cause="It is a standby, which is read-only, or has not finished its recovery",
        next_step="Replay on a primary that is not in use, or only reads with --read-only "
        "--allow recovery",
    )


def _standby_in_use(state: DatabaseState) -> RefusedError:
    return RefusedError(
        seen=f"The server at {state.endpoint} is in recovery",
        cause="A standby is usually needed by production: queries on it delay its recovery, or are "
        "cancelled by it",
        next_step="If it may be used for the replay, add --allow recovery",
    )


def _writes_not_allowed(replay: ReplaySpec, state: DatabaseState) -> RefusedError:
    name = replay.allow_writes
    named = f"; the given name is {name}" if name else "; it was not created for this replay"
    return RefusedError(
        seen=f"The replay may write to the database {state.database} at {state.endpoint}{named}",
        cause="Its writes cannot be undone, so the exact name of the database is required",
        next_step=f"If it may be changed, add --allow-writes {state.database}; otherwise replay "
        "only reads with --read-only, or use a directory",
    )
