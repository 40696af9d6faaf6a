"""Sessions that change the same few rows at the same time, in ways that do not commute."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import psycopg

from seatrial.postgres.connection import connect
from trials.replay.logging_server import LoggingServer

TABLES = """
    CREATE TABLE place (id int PRIMARY KEY, code text NOT NULL UNIQUE, v bigint NOT NULL);
    INSERT INTO place SELECT n, 'code ' || n, n FROM generate_series(1, 6) AS n;
    CREATE TABLE entry (
        id serial PRIMARY KEY, place int NOT NULL REFERENCES place, x bigint NOT NULL
    );
    CREATE TABLE total (session int, turn int, v numeric, PRIMARY KEY (session, turn));
    CREATE TABLE wide (id int PRIMARY KEY, kind text NOT NULL, v bigint NOT NULL);
    INSERT INTO wide SELECT n, 'kind ' || n % 2, n FROM generate_series(1, 8) AS n;
    CREATE TABLE note (session int, turn int, v bigint);
    CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN INSERT INTO note VALUES (NEW.id, 0, NEW.v); RETURN NEW; END';
    CREATE TRIGGER changed AFTER UPDATE ON wide FOR EACH ROW EXECUTE FUNCTION changed();
"""
SESSIONS = 8
PRIME = 1_000_003
CHANGE = f"UPDATE place SET v = (v * 3 + %s) %% {PRIME} WHERE id = %s"
CHANGE_BY_CODE = f"UPDATE place SET v = (v * 7 + %s) %% {PRIME} WHERE code = %s"
FEED = (
    f"UPDATE place SET v = (v + (SELECT sum(v) FROM place WHERE id < 4)) %% {PRIME} WHERE id = %s"
)
READ = "SELECT v FROM place WHERE id = %s FOR UPDATE"
READ_SEVERAL = "SELECT v FROM place WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
CHANGE_SEVERAL = f"UPDATE place SET v = (v * 11 + %s) %% {PRIME} WHERE id = ANY(%s)"
ENTER = "INSERT INTO entry (place, x) VALUES (%s, %s) RETURNING id"
TOTAL = "INSERT INTO total SELECT %s, %s, sum(v) FROM place"
SUM_ENTRIES = "UPDATE place SET v = (SELECT count(*) + v FROM entry WHERE place = %s) WHERE id = %s"
WIDE = f"UPDATE wide SET v = (v * 5 + %s) %% {PRIME} WHERE id = %s"
WIDEST = f"UPDATE wide SET v = (v * 2 + 1) %% {PRIME} WHERE kind = %s"


def contended_load(server: LoggingServer, turns: int, *, extended: bool) -> None:
    """Put the load on a server's database ``postgres``: sessions of so many transactions each.

    Args:
        server: Where the tables are.
        turns: Of each session.
        extended: Send parameters apart from the text; else as literals in it.
    """
    failed: list[BaseException] = []
    begin = threading.Barrier(SESSIONS)
    widest = threading.Lock()

    def work(number: int) -> None:
        try:
            with connect(server.server.address) as session:
                if not extended:
                    session.cursor_factory = psycopg.ClientCursor
                begin.wait()
                _Turns(session, number, widest).run(turns)
        except BaseException as error:  # it is raised again in the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failed:
        raise error


class _Turns:
    """What a session does. Rows are locked in the order of their numbers: nothing deadlocks.

    A statement without a key locks them in the order in which its snapshot found them, which two
    such statements need not agree on: one at a time holds ``widest``.
    """

    def __init__(self, session: psycopg.Connection, number: int, widest: threading.Lock) -> None:
        self._session = session
        self._widest_one = widest
        self._number = number
        self._random = random.Random(number)

    def run(self, turns: int) -> None:
        faults: list[Callable[[int], None]] = [
            *(self._change, self._transfer, self._transfer, self._several, self._feed),
            *(self._enter, self._total, self._widen, self._widest),
        ]
        for turn in range(turns):
            self._random.choice(faults)(turn)

    def _change(self, turn: int) -> None:
        self._session.execute(CHANGE, (turn, self._row()))

    def _transfer(self, turn: int) -> None:
        low, high = sorted(self._random.sample(range(1, 7), 2))
        with self._session.transaction():
            (value,) = self._session.execute(READ, (low,)).fetchone()
            self._session.execute(CHANGE, (-turn - value % 7, low))
            self._session.execute(CHANGE_BY_CODE, (turn, f"code {high}"))

    def _several(self, turn: int) -> None:
        rows = self._random.sample(range(1, 7), 2)
        with self._session.transaction():
            values = self._session.execute(READ_SEVERAL, (rows,)).fetchall()
            self._session.execute(CHANGE_SEVERAL, (turn + values[0][0] % 5, rows))

    def _feed(self, turn: int) -> None:
        with self._session.transaction(force_rollback=turn % 5 == 0):
            self._session.execute(FEED, (self._row(),))

    def _enter(self, turn: int) -> None:
        row = self._row()
        with self._session.transaction():
            self._session.execute(ENTER, (row, turn))
            self._session.execute(SUM_ENTRIES, (row, row))

    def _total(self, turn: int) -> None:
        self._session.execute(TOTAL, (self._number, turn))

    def _widen(self, turn: int) -> None:
        with self._session.transaction():
            self._session.execute(CHANGE, (turn, self._row()))
            self._session.execute(WIDE, (turn, self._random.randint(1, 8)))

    def _widest(self, turn: int) -> None:
        with self._widest_one:
            self._session.execute(WIDEST, (f"kind {turn % 2}",))

    def _row(self) -> int:
        return self._random.randint(1, 6)
