"""What an application may say to a server, with every feature of the protocol that psycopg has."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import threading
import uuid
from collections.abc import Callable
from typing import Any

import psycopg

TABLES = """
    CREATE TABLE person (id serial PRIMARY KEY, name text UNIQUE, born date);
    CREATE TABLE thing (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        key uuid DEFAULT gen_random_uuid(),
        owner int REFERENCES person DEFERRABLE INITIALLY DEFERRED,
        small int2, big int8, price numeric(12, 4), ratio float8, part float4,
        is_new bool, at timestamptz, seen timestamp, note text, raw bytea, many int[], doc jsonb
    );
    CREATE SEQUENCE tickets;
"""
BIG_BYTES = 3_000_000
DAY = datetime.date(1999, 12, 31)
MOMENT = datetime.datetime(2026, 11, 21, 12, 30, 15, 123456, tzinfo=datetime.UTC)
KEY = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
INSERT = (
    "INSERT INTO thing (key, owner, small, big, price, ratio, part, is_new, at, seen, note, raw,"
    " many, doc) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id, key"
)
VALUES = [
    *(KEY, 1, -7, 1 << 40, decimal.Decimal("-1234.5600"), 0.1, 0.5, True),
    *(MOMENT, MOMENT.replace(tzinfo=None), 'it\'s \\ "so" ä', b"\x00\xff", [1, -2, 3]),
]

Saw = list[tuple[str, Any]]
"""What the client saw: a name, and rows or figures of it."""


def talk(dsn: str) -> Saw:
    """Say all of it; return what came back."""
    saw: Saw = []
    parts: list[Callable[[str, Saw], None]] = [
        _plainly,
        _in_binary,
        _in_pipelines,
        _in_copies,
        _by_cursors,
        _at_length,
        _notified,
        _cancelled,
        _failing,
    ]
    for part in parts:
        part(dsn, saw)
    return saw


def _plainly(dsn: str, saw: Saw) -> None:
    with psycopg.connect(dsn, application_name="plainly") as connection:
        rows = connection.execute(
            "INSERT INTO person (name, born) VALUES (%s, %s), ('b', NULL) RETURNING id, name",
            ("a", DAY),
        ).fetchall()
        saw.append(("returned", rows))
        cursor = psycopg.ClientCursor(connection)
        cursor.execute("SELECT nextval('tickets'), currval('tickets'); SELECT lastval()")
        saw.append(("tickets", cursor.fetchall()))
        saw.append(("set", connection.execute("SELECT setval('tickets', 40)").fetchall()))
        connection.execute("SET application_name TO 'renamed'")
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as connection:
        for name in ("c", "d", "e"):
            rows = connection.execute(
                "INSERT INTO person (name) VALUES (%s) RETURNING id", (name,)
            ).fetchall()
            saw.append(("prepared", rows))
        found = connection.execute("UPDATE person SET born = %s", (DAY,)).rowcount
        saw.append(("updated", found))
        connection.execute("DEALLOCATE ALL")


def _in_binary(dsn: str, saw: Saw) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.cursor(binary=True)
        values = (*VALUES, psycopg.types.json.Jsonb({"a": [1, None]}))
        marked = INSERT.replace("%s", "%b")
        rows = cursor.execute(marked, values).fetchall()
        saw.append(("binary", rows))
        saw.append(("same", cursor.execute("SELECT * FROM thing").fetchall()))
        saw.append(("drawn", cursor.execute("SELECT nextval('tickets')").fetchall()))


def _in_pipelines(dsn: str, saw: Saw) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        with connection.pipeline() as pipeline:
            cursors = [
                connection.execute(
                    "INSERT INTO person (name) VALUES (%s) RETURNING id", (f"pipe {number}",)
                )
                for number in range(20)
            ]
            pipeline.sync()
            saw.append(("piped", [cursor.fetchall() for cursor in cursors]))
        with contextlib.suppress(psycopg.Error), connection.pipeline():
            connection.execute("INSERT INTO person (name) VALUES ('before')")
            connection.execute("INSERT INTO person (name) VALUES ('a')")
            connection.execute("INSERT INTO person (name) VALUES ('never')")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO person (name) VALUES (%s) RETURNING id",
                [(f"many {number}",) for number in range(5)],
                returning=True,
            )


def _in_copies(dsn: str, saw: Saw) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.cursor()
        with cursor.copy("COPY person (name) FROM STDIN") as copy:
            for number in range(5_000):
                copy.write_row((f"copied {number}\tQ",))
        with cursor.copy("COPY person (id, name) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            copy.write_row((900_000, "in binary"))
        with contextlib.suppress(psycopg.Error), cursor.copy("COPY person FROM STDIN") as copy:
            copy.write("nonsense\n")
        with contextlib.suppress(ZeroDivisionError), cursor.copy("COPY person FROM STDIN"):
            raise ZeroDivisionError
        with cursor.copy("COPY (SELECT id, name FROM person) TO STDOUT") as copy:
            saw.append(("copied", sum(len(block) for block in copy)))
        with cursor.copy("COPY thing TO STDOUT (FORMAT binary)") as copy:
            saw.append(("copied", sum(len(block) for block in copy)))
        saw.append(("after", cursor.execute("SELECT count(*) FROM person").fetchall()))


def _by_cursors(dsn: str, saw: Saw) -> None:
    with psycopg.connect(dsn) as connection:
        with connection.cursor("portions") as cursor:
            cursor.itersize = 700
            cursor.execute("SELECT id FROM person ORDER BY id")
            saw.append(("portions", sum(1 for _ in cursor)))
        with connection.cursor("binary", binary=True, scrollable=True) as cursor:
            cursor.execute("SELECT id FROM person ORDER BY id")
            cursor.scroll(5)
            saw.append(("scrolled", cursor.fetchone()))
        for row in connection.cursor().stream("SELECT name FROM person ORDER BY id LIMIT 30"):
            saw.append(("streamed", row))


def _at_length(dsn: str, saw: Saw) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        text = "x" * BIG_BYTES
        (found,) = connection.execute("SELECT %s::text || 'y'", (text,)).fetchone() or ("",)
        saw.append(("long", len(found)))
        rows = connection.execute(
            "SELECT number, repeat('z', 1000) FROM generate_series(1, 3000) AS number"
        ).fetchall()
        saw.append(("wide", len(rows)))


def _notified(dsn: str, saw: Saw) -> None:
    heard: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: heard.append(notice.message_primary or ""))
        connection.execute("LISTEN news")
        connection.execute("DO $$ BEGIN RAISE NOTICE 'hear'; END $$")
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("NOTIFY news, 'hello'")
        news = next(connection.notifies(timeout=10.0))
        saw.append(("heard", [*heard, news.payload]))


def _cancelled(dsn: str, saw: Saw) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        # ``cancel`` waits without letting other threads go on, and the relay is one of them.
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        try:
            connection.execute("SELECT pg_sleep(30)")
        except psycopg.errors.QueryCanceled as error:
            saw.append(("cancelled", error.sqlstate))
        timer.join()


def _failing(dsn: str, saw: Saw) -> None:
    codes = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text, values in (
            ("SELECT 1/%s", (0,)),
            ("SELECT nonsense", None),
            ("SELEC 1", None),
            ("SELECT %s::int", ("no",)),
            ("INSERT INTO thing (owner) VALUES (999999)", None),
            ("INSERT INTO person (name) VALUES (%s) RETURNING id", ("a",)),
        ):
            try:
                connection.execute(text, values)
            except psycopg.Error as error:
                codes.append(error.sqlstate)
        with contextlib.suppress(psycopg.Error), connection.transaction():
            connection.execute("INSERT INTO person (name) VALUES ('gone')")
            connection.execute("SELECT 1/0")
        with connection.transaction(), connection.transaction(), connection.transaction():
            connection.execute("SELECT 1")
    saw.append(("codes", codes))
