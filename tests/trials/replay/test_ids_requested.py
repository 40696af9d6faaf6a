"""Ids that a client asks for, through the proxy: what ON CONFLICT found, what triggers drew."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seatrial.postgres.connection import Address, connect
from seatrial.postgres.row_content import read_content
from seatrial.results.replay import CAPTURE, ReplayRecord
from seatrial.trials.replay.measure.row_comparison import compare_content
from trials.replay.capturing import capturing
from trials.replay.targets import Target, catalogue_of, play

SESSIONS = 4
TURNS = 60
"""Of each session; two sessions have each key."""

TABLES = """
    CREATE TABLE node (
        id bigserial PRIMARY KEY, key bigint UNIQUE, touched int DEFAULT 0, seen bigint
    );
    INSERT INTO node (key) SELECT -n FROM generate_series(1, 100) AS n;
"""
TOUCH = "UPDATE node SET touched = touched + 1, seen = {key} WHERE id = {id}"
TRIGGER = """
    CREATE TABLE audit (id bigserial PRIMARY KEY, of_key bigint, by_session int, seen bigint);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO audit (of_key, by_session) VALUES (NEW.key, 0); RETURN NEW; END';
    CREATE TRIGGER noted AFTER INSERT ON node FOR EACH ROW EXECUTE FUNCTION note();
"""

TRIGGER_OF_SEVERAL = """
    CREATE TABLE part (
        id bigserial PRIMARY KEY, of_key bigint, number int, seen bigint,
        made timestamptz DEFAULT now()
    );
    CREATE FUNCTION note_parts() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO part (of_key, number) VALUES (NEW.key, 2), (NEW.key, 1);
        RETURN NEW; END';
    CREATE TRIGGER parted AFTER INSERT ON node FOR EACH ROW EXECUTE FUNCTION note_parts();
"""

Play = Callable[[psycopg.Connection, int, int], None]


def _one(session: psycopg.Connection, text: str) -> Any:
    found = session.execute(text.encode()).fetchone()
    return found[0] if found else None


def _requested(session: psycopg.Connection, key: int, _: int) -> None:
    session.execute(f"INSERT INTO node (key) VALUES ({key}) ON CONFLICT DO NOTHING".encode())
    own = _one(session, f"SELECT id FROM node WHERE key = {key}")
    session.execute(TOUCH.format(key=key, id=own).encode())


def _requested_where_none_came_back(session: psycopg.Connection, key: int, _: int) -> None:
    own = _one(
        session,
        f"INSERT INTO node (key) VALUES ({key}) ON CONFLICT (key) DO NOTHING RETURNING id",
    )
    if own is None:
        own = _one(session, f"SELECT id FROM node WHERE key = {key}")
    session.execute(TOUCH.format(key=key, id=own).encode())


def _came_back(session: psycopg.Connection, key: int, _: int) -> None:
    own = _one(
        session,
        f"INSERT INTO node (key) VALUES ({key}) ON CONFLICT (key) "
        "DO UPDATE SET touched = node.touched + 1 RETURNING id",
    )
    session.execute(TOUCH.format(key=key, id=own).encode())


def _prepared(session: psycopg.Connection, key: int, _: int) -> None:
    text = "INSERT INTO node (key) VALUES (%s) ON CONFLICT DO NOTHING"
    session.execute(text, (key,), prepare=True)
    cursor = session.execute("SELECT id, touched FROM node WHERE key = %s", (key,), prepare=True)
    (own, _touched) = cursor.fetchone() or (0, 0)
    text = "UPDATE node SET touched = touched + 1, seen = %s WHERE id = %s"
    session.execute(text, (key, own), prepare=True)


def _by_trigger(session: psycopg.Connection, key: int, number: int) -> None:
    own_key = key * 10 + number
    session.execute(f"INSERT INTO node (key) VALUES ({own_key})".encode())
    own = _one(session, f"SELECT id FROM audit WHERE of_key = {own_key}")
    session.execute(f"UPDATE audit SET seen = {own_key} WHERE id = {own}".encode())


def _by_select(session: psycopg.Connection, key: int, number: int) -> None:
    first, second = key * 20 + 2 * number, key * 20 + 2 * number + 1
    session.execute(
        f"INSERT INTO node (key) SELECT n FROM generate_series({first}, {second}) AS n".encode()
    )
    for own_key in (second, first):
        own = _one(session, f"SELECT id FROM node WHERE key = {own_key}")
        session.execute(TOUCH.format(key=own_key, id=own).encode())


def _several_by_trigger(session: psycopg.Connection, key: int, number: int) -> None:
    own_key = key * 10 + number
    session.execute(f"INSERT INTO node (key) VALUES ({own_key})".encode())
    requested = f"SELECT * FROM part WHERE of_key = {own_key}"
    for own, _, part, *_ in session.execute(requested.encode()).fetchall():
        seen = own_key * 10 + part
        session.execute(f"UPDATE part SET seen = {seen} WHERE id = {own}".encode())


def _alike(session: psycopg.Connection, key: int, number: int) -> None:
    own_key = key * 10 + number
    session.execute(f"INSERT INTO node (key) VALUES ({own_key})".encode())
    requested = f"SELECT id FROM part WHERE of_key = {own_key}"
    for (own,) in session.execute(requested.encode()).fetchall():
        session.execute(f"UPDATE part SET seen = {own_key} WHERE id = {own}".encode())


def _several_by_select(session: psycopg.Connection, key: int, number: int) -> None:
    first, second = key * 20 + 2 * number, key * 20 + 2 * number + 1
    session.execute(
        f"INSERT INTO node (key) SELECT n FROM generate_series({first}, {second}) AS n".encode()
    )
    requested = f"SELECT key, id FROM node WHERE key IN ({first}, {second}) ORDER BY key DESC"
    for own_key, own in session.execute(requested.encode()).fetchall():
        session.execute(TOUCH.format(key=own_key, id=own).encode())


def _in_texts(session: psycopg.Connection, key: int, number: int) -> None:
    own_key = key * 10 + number
    own = _one(session, f"INSERT INTO node (key) VALUES ({own_key}) RETURNING id")
    if own % 3 == 0:
        # Numbers that go up by equal steps might be counted by the client.
        session.execute(b"INSERT INTO node (key) VALUES (NULL)")
    session.execute(
        f"INSERT INTO event VALUES ({own_key}, "
        f"""'{{"node": {{"id": {own}}}, "nodes": [{own}, {own}], "price": 17.5}}', """
        f"'node {own} of 2024-01-15', '{{{own},{own}}}')".encode()
    )


@dataclass(frozen=True)
class Kind:
    """A way to come by an id; tables that it needs besides."""

    play: Play
    tables: str = ""


KINDS = {
    "requested": Kind(_requested),
    "requested where none came back": Kind(_requested_where_none_came_back),
    "came back": Kind(_came_back),
    "prepared": Kind(_prepared),
    "by trigger": Kind(_by_trigger, TRIGGER),
    "by select": Kind(_by_select),
    "several by trigger": Kind(_several_by_trigger, TRIGGER_OF_SEVERAL),
    "several by select": Kind(_several_by_select),
    "in texts": Kind(
        _in_texts, "CREATE TABLE event (key bigint, payload jsonb, note text, list bigint[]);"
    ),
}


def at_once(address: Address, kind: Kind) -> None:
    """Play a kind in all sessions."""
    failed: list[BaseException] = []

    def turns(number: int) -> None:
        try:
            with contextlib.closing(connect(address)) as session:
                for turn in range(TURNS):
                    kind.play(session, turn * 2 + number // 2 + 1, number)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=turns, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def played(target: Target, kind: Kind, trace: Path) -> tuple[str, str, ReplayRecord]:
    """Capture a kind and play it; return the databases of both, and the record."""
    source = target.make("requested_source", TABLES + kind.tables)
    with capturing(target, source, trace) as capture:
        at_once(capture.address, kind)
        capture.end()
    address = target.address(target.make("requested_target", TABLES + kind.tables))
    record = play(trace, address, ids="infer", catalog=catalogue_of(address))
    assert record.end == "complete", record.words
    assert record.errors.new == 0, record.errors.examples
    return source, address.dbname, record


def test_rows_that_are_alike_are_left_alone_in_doubt(target, tmp_path):
    *_, record = played(target, Kind(_alike, TRIGGER_OF_SEVERAL), tmp_path / "alike.trace")
    assert record.ids is not None
    (parts,) = (each for each in record.ids.classes if each.column == "public.part.id")
    assert parts.uses == sum(parts.unresolved.values()) == 2 * SESSIONS * TURNS
    assert record.ids.doubtful_uses == parts.uses


@pytest.mark.parametrize("name", KINDS)
def test_every_row_is_the_captured_one(target, tmp_path, name):
    source, now_in, record = played(target, KINDS[name], tmp_path / "requested.trace")
    assert record.ids is not None
    assert [each.unresolved for each in record.ids.classes if each.unresolved] == []
    assert record.ids.doubtful_uses == 0, record.ids.examples
    with contextlib.ExitStack() as stack:
        held, now = (
            read_content(stack.enter_context(contextlib.closing(connect(target.address(each)))))
            for each in (source, now_in)
        )
    found = compare_content(held, now, against=CAPTURE, file="")
    assert found.different == []
    assert found.is_same
