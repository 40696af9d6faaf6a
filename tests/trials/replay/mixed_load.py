"""Sessions that take turns, with all that a replay may stumble over, on tables of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from seatrial.postgres.connection import connect
from trials.replay.logging_server import LoggingServer

TABLES = """
    CREATE TABLE account (id int PRIMARY KEY, owner text NOT NULL, cents bigint NOT NULL);
    INSERT INTO account SELECT n, 'owner ' || n, 1000 FROM generate_series(1, 200) AS n;
    CREATE TABLE entry (session int, turn int, what text, PRIMARY KEY (session, turn));
    CREATE TABLE loaded (line text);
"""
SESSIONS = 6
TURNS = 12
RECONNECTS = 5
ERRORS = {"23505": TURNS, "22012": TURNS, "25P02": TURNS, "42P01": 1}
"""What fails, by code."""


def mixed_load(server: LoggingServer) -> list[psycopg.Connection]:
    """Put the load on a server's database ``postgres``; return sessions that are still open."""
    server_address = server.server.address
    sessions = [connect(server_address) for _ in range(SESSIONS)]
    turns = [steps(number, each) for number, each in enumerate(sessions, start=1)]
    with contextlib.closing(connect(server_address)) as outlier:
        _outlier(outlier)
    while turns:
        turns = [turn for turn in turns if next(turn, None) is not None]
    for place in range(RECONNECTS):
        with contextlib.closing(connect(server_address)) as short:
            short.execute("INSERT INTO entry VALUES (100, %s, 'short')", (place,))
    *closed, kept, failed = sessions
    for each in closed:
        each.close()
    kept.execute("BEGIN")
    kept.execute("UPDATE account SET cents = 0")  # never committed: it is lost
    return [kept, failed]


def steps(number: int, session: psycopg.Connection) -> Iterator[str]:
    """Yield what a session does, one transaction a turn of twice, others in between."""
    session.execute(f"CREATE TEMPORARY TABLE mine (n int, note text); SET work_mem = '{number}MB'")
    session.prepare_threshold = 2  # some are prepared by name after their second time
    for turn in range(TURNS):
        session.execute("BEGIN")
        yield "begun"
        moved = "UPDATE account SET cents = cents + %s WHERE id = %s"
        session.execute(moved, (number, number * 10 + turn))
        session.execute("SAVEPOINT before_the_error")
        yield "saved"
        insert = "INSERT INTO entry VALUES (%s, %s, %s)"
        session.execute(insert, (number, turn, "it's\nthe 'first' \\ ü"))
        session.execute("SAVEPOINT twice")
        if number == 1:
            with contextlib.suppress(psycopg.errors.UniqueViolation):
                session.execute(insert, (number, turn, "the second"))
            session.execute("ROLLBACK TO SAVEPOINT twice")
        yield "entered"
        session.execute("INSERT INTO mine VALUES (%s, NULL)", (turn,))
        session.execute("DECLARE many CURSOR FOR SELECT * FROM account ORDER BY id")
        session.execute("FETCH 10 FROM many")
        yield "fetched"
        session.execute("FETCH 20 FROM many")
        session.execute("CLOSE many")
        session.execute("COMMIT")
        yield "ended"
        if number == 2:
            _fails_inside(session, turn)
        session.execute("DO $$ BEGIN RAISE NOTICE 'turn'; END $$")
        yield "noticed"
    session.execute(
        "INSERT INTO entry SELECT %s, 1000 + n, 'of a temporary table' FROM mine", (number,)
    )


def _fails_inside(session: psycopg.Connection, turn: int) -> None:
    """A transaction whose COMMIT is a ROLLBACK."""
    session.execute("BEGIN")
    session.execute("INSERT INTO entry VALUES (200, %s, 'rolled back')", (turn,))
    for failing in ("SELECT 1 / 0", "SELECT 'after the error'"):
        with contextlib.suppress(psycopg.Error):
            session.execute(failing)
            raise AssertionError(f"{failing} did not fail")
    session.execute("COMMIT")


def _outlier(session: psycopg.Connection) -> None:
    """COPY both ways, several statements in one text, an error outside of any transaction."""
    with session.cursor().copy("COPY loaded FROM STDIN") as copy:
        copy.write("one\ntwo\n")
    with session.cursor().copy("COPY account TO STDOUT") as copy:
        list(copy)
    session.execute("UPDATE account SET cents = cents + 1 WHERE id = 1; SELECT 1; SELECT 2")
    with contextlib.suppress(psycopg.errors.UndefinedTable):
        session.execute("SELECT * FROM nowhere")
