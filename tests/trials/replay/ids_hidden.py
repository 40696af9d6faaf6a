"""Ids where they are not easily seen: each kind in one session, on tables of its own.

Every node is drawn by the server, and then named in the way of its kind. Another server gives other
ids, so a statement that goes with the captured one meets no row, or one that was there before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

OLD = 300
"""Rows that are there before, on both servers."""
FURTHER = 40
"""Rows that the second server has besides; fewer than what is drawn there, so ids are met."""
TURNS = 60

Play = Callable[[psycopg.Connection, int, int], None]


@dataclass(frozen=True)
class Hidden:
    """A place where ids stand.

    Attributes:
        play: One turn: names a node by its id, and has its key.
        tables: What it needs besides the nodes.
        reasons: Why ids of it are left alone, if they are.
        places: Where it goes that is not followed.
    """

    play: Play
    tables: str = ""
    reasons: frozenset[str] = field(default=frozenset())
    places: frozenset[str] = field(default=frozenset())

    @property
    def is_whole(self) -> bool:
        """Whether every row has to be the right one."""
        return not self.reasons and not self.places


def _statements(*texts: str) -> Play:
    """Send texts with ``{id}`` and ``{key}`` in them."""

    def play(session: psycopg.Connection, id_: int, key: int) -> None:
        for text in texts:
            session.execute(text.format(id=id_, key=key).encode())

    return play


def _parameters(text: str) -> Play:
    """Send a text whose only parameter is the id, prepared."""

    def play(session: psycopg.Connection, id_: int, key: int) -> None:
        session.execute(f"PREPARE one (bigint) AS {text}".encode())
        session.execute(f"EXECUTE one ({id_})".encode())
        session.execute("DEALLOCATE one")

    return play


def _in_one_message(session: psycopg.Connection, id_: int, key: int) -> None:
    text = b"UPDATE node SET parent_id = $1, seen = seen + 1 WHERE id = $1 OR parent_id = $1"
    psycopg.RawCursor(session).execute(text, (id_,), prepare=True)


def _reversed(session: psycopg.Connection, id_: int, key: int) -> None:
    text = (
        "WITH n AS (INSERT INTO node (key) VALUES (%s), (%s) RETURNING id, key) "
        "SELECT id, key FROM n ORDER BY id DESC"
    )
    for own, own_key in session.execute(text, (-2 * key - 1, -2 * key - 2)).fetchall():
        session.execute(f"UPDATE node SET seen = {own_key} WHERE id = {own}".encode())


def _given_again(session: psycopg.Connection, id_: int, key: int) -> None:
    if key == TURNS // 2:
        session.execute("TRUNCATE again RESTART IDENTITY")
    text = f"INSERT INTO again (key) VALUES ({key}) RETURNING id"
    (own,) = session.execute(text.encode()).fetchone() or (None,)
    session.execute(f"UPDATE again SET seen = {key} WHERE id = {own}".encode())


_SEE = "UPDATE node SET seen = {key} WHERE id = "
FUNCTIONS = (
    "CREATE FUNCTION see(n bigint, k bigint) RETURNS void LANGUAGE plpgsql AS "
    "'BEGIN UPDATE node SET seen = k WHERE id = n; END';"
)
HIDDEN = {
    "twice in a text": Hidden(_in_one_message),
    "twice in a prepared text": Hidden(
        _parameters("UPDATE node SET seen = seen + 1, parent_id = $1 WHERE $1 IN (id, parent_id)")
    ),
    "view": Hidden(
        _statements(
            "UPDATE leaves SET parent_id = {id}, seen = {key} WHERE id = {id}",
            "INSERT INTO leaves (parent_id, key) VALUES ({id}, -{key})",
        ),
        "CREATE VIEW leaves AS SELECT id, parent_id, key, seen FROM node WHERE key IS NOT NULL;",
    ),
    "only": Hidden(_statements("UPDATE ONLY node SET seen = {key} WHERE id = {id}")),
    "case": Hidden(
        _statements(
            "UPDATE node SET parent_id = CASE WHEN (id = {id}) THEN {id} END, seen = {key} "
            "WHERE id IN ({id})"
        )
    ),
    "coalesce": Hidden(_statements(_SEE + "coalesce(NULL, {id})", _SEE + "(SELECT {id})")),
    "arithmetic": Hidden(_statements(_SEE + "{id} + 0"), reasons=frozenset({"expression"})),
    "array": Hidden(
        _statements(_SEE + "ANY ('{{{{{id}}},{{{id}}}}}')"), reasons=frozenset({"spelling"})
    ),
    "function": Hidden(
        _statements("SELECT see({id}, {key})"), FUNCTIONS, places=frozenset({"function"})
    ),
    "temporary": Hidden(
        _statements(
            "CREATE TEMP TABLE IF NOT EXISTS ids (id bigint, key bigint)",
            "INSERT INTO ids VALUES ({id}, {key})",
            "UPDATE node SET seen = ids.key FROM ids WHERE node.id = ids.id",
            "DELETE FROM ids",
        ),
        places=frozenset({"unknown_table"}),
    ),
    "order of rows": Hidden(_reversed, reasons=frozenset({"sequence_elsewhere"})),
    "given again": Hidden(
        _given_again,
        "CREATE TABLE again (id bigserial PRIMARY KEY, key bigint, seen bigint);",
        reasons=frozenset({"given_again"}),
    ),
}

TABLES = f"""
    CREATE TABLE node (
        id bigserial PRIMARY KEY, parent_id bigint REFERENCES node, key bigint,
        seen bigint DEFAULT 0
    );
    INSERT INTO node (seen) SELECT 0 FROM generate_series(1, {OLD});
"""
FURTHER_ROWS = f"INSERT INTO node (seen) SELECT 0 FROM generate_series(1, {FURTHER})"
HELD = """
    SELECT n.key, n.seen, p.key FROM node n LEFT JOIN node p ON p.id = n.parent_id
    WHERE n.key IS NOT NULL ORDER BY n.key
"""
TOUCHED = "SELECT count(*) FROM node WHERE key IS NULL AND (seen <> 0 OR parent_id IS NOT NULL)"
"""Rows of before that nothing should have touched."""


def play_hidden(session: psycopg.Connection, hidden: Hidden) -> None:
    """Draw a node each turn, and name it."""
    for key in range(1, TURNS + 1):
        text = f"INSERT INTO node (key) VALUES ({key}) RETURNING id"
        (id_,) = session.execute(text.encode()).fetchone() or (0,)
        hidden.play(session, id_, key)
