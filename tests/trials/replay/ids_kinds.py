"""All the ways in which clients come by ids: each on tables of its own, in sessions at once."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from seatrial.postgres.connection import Address, connect

SESSIONS = 4
"""Of more, a busy machine puts off some, draws come in another order than their records, and a
plain log does not tell all ids. The orders of `ids_load` have eight."""
TURNS = 80
"""Of each session, of each kind."""
ROWS = 3
"""Of a batch."""
Handed = queue.Queue[tuple[int, int]]
Play = Callable[[psycopg.Connection, int, Handed], None]


@dataclass(frozen=True)
class Kind:
    """A way to come by ids.

    Attributes:
        column: What the ids are of, as ``table.column``.
        tables: Makes them.
        play: One turn of a session: its connection, a key of its own, and ids from hand to hand.
        held: All that the rows hold but ids, by keys that the clients made up.
        is_whole: Whether a plain log tells all of its ids.
    """

    column: str
    tables: str
    play: Play
    held: str
    is_whole: bool = True


_KEPT: defaultdict[psycopg.Connection, list[tuple[int, int]]] = defaultdict(list)
"""Ids with their keys that a session has yet to use."""


def _rows(table: str, key: int) -> str:
    return f"INSERT INTO {table} (key) VALUES ({key})"


def _touch(table: str, key: int, id_: Any) -> str:
    shown = f"'{id_}'" if not isinstance(id_, int) else str(id_)
    return f"UPDATE {table} SET touched = touched + 1, seen = {key} WHERE id = {shown}"


def _one(session: psycopg.Connection, text: str) -> Any:
    (value,) = session.execute(text).fetchone() or (None,)
    return value


def _table(name: str, id_: str = "id serial PRIMARY KEY") -> str:
    return f"CREATE TABLE {name} ({id_}, key bigint UNIQUE, touched int DEFAULT 0, seen bigint);"


def _held(name: str) -> str:
    return f"SELECT key, touched, seen FROM {name} ORDER BY key"


def _children(session: psycopg.Connection, key: int, _: Handed) -> None:
    with session.transaction():
        order = _one(session, _rows("parents", key) + " RETURNING id")
        for place in range(2):
            session.execute(f"INSERT INTO children VALUES ({order}, {place}, {key})")
        session.execute(_touch("parents", key, order))
    session.execute(f"DELETE FROM children WHERE order_id = {order} AND place = 1")


def _batch(session: psycopg.Connection, key: int, _: Handed) -> None:
    keys = ", ".join(f"({key * ROWS + row})" for row in range(ROWS))
    rows = session.execute(f"INSERT INTO batches (key) VALUES {keys} RETURNING id, key").fetchall()
    for id_, own in rows:
        session.execute(_touch("batches", own, id_))


def _composite(session: psycopg.Connection, key: int, _: Handed) -> None:
    tenant = key % 5
    text = f"INSERT INTO parts (tenant, key) VALUES ({tenant}, {key}) RETURNING id"
    part = _one(session, text)
    session.execute(f"INSERT INTO moves VALUES ({tenant}, {part}, {key})")
    session.execute(
        f"UPDATE parts SET touched = {tenant} + 1, seen = {key} "
        f"WHERE tenant = {tenant} AND id = {part}"
    )


def _drawn_first(session: psycopg.Connection, key: int, _: Handed) -> None:
    id_ = _one(session, "SELECT nextval('things_seq')")
    session.execute(f"INSERT INTO things (id, key) VALUES ({id_}, {key})")
    session.execute(_touch("things", key, id_))


def _requested_afterwards(session: psycopg.Connection, key: int, _: Handed) -> None:
    session.execute(_rows("requested", key) + ";")
    session.execute(_touch("requested", key, _one(session, "SELECT lastval()")))


def _fails_and_goes_back(session: psycopg.Connection, key: int, _: Handed) -> None:
    if key % 7 == 0:
        with contextlib.suppress(psycopg.errors.UniqueViolation):
            session.execute(_rows("failing", -1))
    if key % 5 == 0:
        with session.transaction(force_rollback=True):
            lost = _one(session, _rows("failing", key) + " RETURNING id")
            session.execute(_touch("failing", key, lost))
    id_ = _one(session, _rows("failing", key) + " RETURNING id")
    session.execute(_touch("failing", key, id_))


def _parameters(session: psycopg.Connection, key: int, _: Handed) -> None:
    session.prepare_threshold = 0
    text = "INSERT INTO prepared (key) VALUES (%s) RETURNING id"
    ids = [session.execute(text, (key * 2 + row,)).fetchone()[0] for row in range(2)]
    update = "UPDATE prepared SET touched = touched + 1, seen = key WHERE id = ANY(%s)"
    session.execute(update, (ids,))
    session.prepare_threshold = None


def _handed_over(session: psycopg.Connection, key: int, handed: Handed) -> None:
    if key % 2:
        handed.put((_one(session, _rows("handed", key) + " RETURNING id"), key))
    else:
        id_, own = handed.get(timeout=30)
        session.execute(_touch("handed", own, id_))


def _used_later(session: psycopg.Connection, key: int, _: Handed) -> None:
    kept = _KEPT[session]
    kept.append((_one(session, _rows("later", key) + " RETURNING id"), key))
    if len(kept) > 3:
        id_, own = kept.pop(key % 3)
        session.execute(_touch("later", own, id_))


def _by_chance(session: psycopg.Connection, key: int, _: Handed) -> None:
    token = _one(session, _rows("tokens", key) + " RETURNING id")
    session.execute(_touch("tokens", key, token))


def _in_stock(session: psycopg.Connection, key: int, _: Handed) -> None:
    id_ = _one(session, _rows("cached", key) + " RETURNING id")
    session.execute(_touch("cached", key, id_))


KINDS = {
    "children": Kind(
        "parents.id",
        _table("parents") + "CREATE TABLE children (order_id int REFERENCES parents, "
        "place int, key bigint, PRIMARY KEY (order_id, place));",
        _children,
        "SELECT p.key, p.touched, p.seen, c.place, c.key FROM parents p "
        "LEFT JOIN children c ON c.order_id = p.id ORDER BY p.key, c.place",
    ),
    "batch": Kind("batches.id", _table("batches"), _batch, _held("batches")),
    "composite": Kind(
        "parts.id",
        "CREATE TABLE parts (tenant int, id bigint GENERATED BY DEFAULT AS IDENTITY, "
        "key bigint, touched int DEFAULT 0, seen bigint, PRIMARY KEY (tenant, id));"
        "CREATE TABLE moves (tenant int, part_id bigint, key bigint, "
        "FOREIGN KEY (tenant, part_id) REFERENCES parts (tenant, id));",
        _composite,
        "SELECT p.key, p.touched, p.seen, m.key FROM parts p "
        "LEFT JOIN moves m ON (m.tenant, m.part_id) = (p.tenant, p.id) ORDER BY p.key, m.key",
    ),
    "drawn first": Kind(
        "things.id",
        "CREATE SEQUENCE things_seq;" + _table("things", "id bigint PRIMARY KEY"),
        _drawn_first,
        _held("things"),
    ),
    "requested afterwards": Kind(
        "requested.id", _table("requested"), _requested_afterwards, _held("requested")
    ),
    "fails and goes back": Kind(
        "failing.id",
        _table("failing") + "INSERT INTO failing (key) VALUES (-1);",
        _fails_and_goes_back,
        _held("failing"),
    ),
    "parameters": Kind("prepared.id", _table("prepared"), _parameters, _held("prepared")),
    "handed over": Kind("handed.id", _table("handed"), _handed_over, _held("handed"), False),
    "used later": Kind("later.id", _table("later"), _used_later, _held("later"), False),
    "by chance": Kind(
        "tokens.id",
        _table("tokens", "id uuid PRIMARY KEY DEFAULT gen_random_uuid()"),
        _by_chance,
        _held("tokens"),
        False,
    ),
    "in stock": Kind(
        "cached.id",
        "CREATE SEQUENCE cached_seq CACHE 20;"
        + _table("cached", "id bigint PRIMARY KEY DEFAULT nextval('cached_seq')"),
        _in_stock,
        _held("cached"),
        False,
    ),
}
TABLES = "".join(kind.tables for kind in KINDS.values())


def all_kinds(address: Address) -> None:
    """Put all kinds of load on a database, one after the other."""
    with contextlib.ExitStack() as stack:
        sessions = [
            stack.enter_context(contextlib.closing(connect(address))) for _ in range(SESSIONS)
        ]
        for kind in KINDS.values():
            _at_once(kind, sessions)


def _at_once(kind: Kind, sessions: list[psycopg.Connection]) -> None:
    handed: Handed = queue.Queue()
    failed: list[BaseException] = []

    def turns(number: int, session: psycopg.Connection) -> None:
        try:
            for turn in range(TURNS):
                kind.play(session, turn * SESSIONS + number + 1, handed)
        except Exception as error:
            failed.append(error)

    threads = [
        threading.Thread(target=turns, args=(number, session))
        for number, session in enumerate(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
