"""The sequences of a database: where each stands, as far as it may be read.

Source: PostgreSQL's documentation, "CREATE SEQUENCE" and "Sequence Manipulation Functions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, LiteralString

import msgspec

if TYPE_CHECKING:
    import psycopg

# Of an unlogged sequence nothing can be read on a standby.
_LISTED: Final = """
    SELECT c.oid, n.nspname, c.relname, s.seqincrement, s.seqcache, s.seqmin, s.seqmax, s.seqcycle,
        has_sequence_privilege(c.oid, 'SELECT')
            AND NOT (pg_is_in_recovery() AND c.relpersistence = 'u')
    FROM pg_sequence s
    JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    ORDER BY n.nspname, c.relname
"""
_ONE: Final = "SELECT {number} AS number, last_value, is_called FROM {sequence}"
_AT_ONCE: Final = 200
"""Sequences that one query reads: each is a relation that it locks for the time."""


class SequenceState(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence and where it stands.

    Attributes:
        oid: Its number in the catalogue.
        schema: Its schema.
        name: Its name.
        increment: From value to value.
        cache: Values that a session takes at once.
        cycles: Whether it begins again at its end.
        next_value: The value that it would give next to a new session; None where that may not be
            read, or where it has none left.
        is_readable: Whether it may be read.
    """

    oid: int
    schema: str
    name: str
    increment: int
    cache: int
    cycles: bool
    next_value: int | None
    is_readable: bool

    @property
    def label(self) -> str:
        """Its schema and name, such as ``public.orders_id_seq``."""
        return f"{self.schema}.{self.name}"


def read_sequences(connection: psycopg.Connection) -> list[SequenceState]:
    """Return the sequences of a database, those of the system left out, by schema and name.

    The sequence itself is read: ``pg_sequences`` does not tell what ``setval(..., false)`` has set.

    Raises:
        psycopg.Error: when the server refuses.
    """
    rows = connection.execute(_LISTED).fetchall()
    readable = [(int(oid), str(schema), str(name)) for oid, schema, name, *_, may in rows if may]
    stands = _stands(connection, readable)
    return [
        SequenceState(
            oid=oid,
            schema=schema,
            name=name,
            increment=increment,
            cache=cache,
            cycles=bool(cycles),
            next_value=_next(stands[oid], increment, low, high, cycles=cycles) if may else None,
            is_readable=may,
        )
        for oid, schema, name, increment, cache, low, high, cycles, may in rows
    ]


def _stands(
    connection: psycopg.Connection, sequences: list[tuple[int, str, str]]
) -> dict[int, tuple[int, bool]]:
    """Return each sequence's last value and whether it was given out, by the sequence's oid."""
    from psycopg import sql  # noqa: PLC0415 - heavy, and only where there is a server

    one: LiteralString = _ONE
    found = {}
    for first in range(0, len(sequences), _AT_ONCE):
        query = sql.SQL(" UNION ALL ").join(
            sql.SQL(one).format(number=sql.Literal(oid), sequence=sql.Identifier(schema, name))
            for oid, schema, name in sequences[first : first + _AT_ONCE]
        )
        for oid, last_value, is_called in connection.execute(query):
            found[int(oid)] = (int(last_value), bool(is_called))
    return found


def _next(
    stand: tuple[int, bool], increment: int, low: int, high: int, *, cycles: bool
) -> int | None:
    last_value, is_called = stand
    if not is_called:
        return last_value
    following = last_value + increment
    if low <= following <= high:
        return following
    if not cycles:
        return None
    return low if increment > 0 else high
