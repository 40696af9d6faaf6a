"""The load of a crash trial: connections that move amounts until the server dies under them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.errors import SeatrialError
from seatrial.postgres.connection import Address, connect
from seatrial.trials.database.measure.crash_ledger import FILLER_BYTES, Entry, Ledger, rows_of

if TYPE_CHECKING:
    import psycopg

_TABLES: Final = """
    CREATE TABLE crash_left WITH (fillfactor = 80) AS
        SELECT id, 0::bigint AS value, 0 AS changed, repeat(' ', {filler}) AS filler
        FROM generate_series(1, {rows}) AS id;
    CREATE TABLE crash_right WITH (fillfactor = 80) AS TABLE crash_left;
    ALTER TABLE crash_left ADD PRIMARY KEY (id);
    ALTER TABLE crash_right ADD PRIMARY KEY (id);
    CREATE TABLE crash_ledger (
        worker int, sequence int, source int NOT NULL, target int NOT NULL, amount int NOT NULL,
        PRIMARY KEY (worker, sequence)
    );
"""

_TAKE: Final = "UPDATE crash_left SET value = value - %s, changed = changed + 1 WHERE id = %s"
_GIVE: Final = "UPDATE crash_right SET value = value + %s, changed = changed + 1 WHERE id = %s"
_WRITE_DOWN: Final = "INSERT INTO crash_ledger VALUES (%s, %s, %s, %s, %s)"
_CONNECT_S_MAX: Final = 30.0
_END_S_MAX: Final = 30.0
_PAUSE_S: Final = 0.01


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """One transaction that was acknowledged.

    Attributes:
        at_ns: When, since the load began.
        took_ns: From its BEGIN.
    """

    at_ns: int
    took_ns: int


def make_tables(connection: psycopg.Connection, scale: int) -> None:
    """Make the tables of a crash trial, and fill the two that amounts are moved between.

    Args:
        connection: To the database.
        scale: 16 MB for each unit; 0 for tables without a filler.

    Raises:
        psycopg.Error: when the server does not let it.
    """
    filler = FILLER_BYTES if scale else 0
    connection.execute(_TABLES.format(rows=rows_of(scale), filler=filler).encode())


class CrashLoad:
    """Workers, each with a connection, that do one transaction after the other.

    Args:
        address: Of the database.
        ledger: Where each notes what it sent and what was acknowledged.
        workers: How many.
    """

    def __init__(self, address: Address, ledger: Ledger, workers: int) -> None:
        self._address = address
        self._ledger = ledger
        self._begun = threading.Barrier(workers + 1)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(workers)
        ]
        self._began_ns = 0
        self.answers: list[Answer] = []
        """What was acknowledged, in no particular order."""
        self.failed = 0
        """Transactions that the living server refused."""
        self.cut_off = 0
        """Transactions that were under way as the connection broke."""
        self.refusals: list[str] = []
        """The first words of refusal."""

    def start(self) -> None:
        """Connect all workers, then let them begin together.

        Raises:
            SeatrialError: when one cannot connect.
        """
        for thread in self._threads:
            thread.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            self._begun.wait(_CONNECT_S_MAX)
        if self._begun.broken:
            self.stop()
            # Connecting once more tells in the server's own words why it could not be done.
            connect(self._address).close()

    def stop(self) -> None:
        """Let all workers end; those whose server is dead have ended already."""
        self._stopped.set()
        self._begun.abort()
        for thread in self._threads:
            thread.join(_END_S_MAX)

    @property
    def is_over(self) -> bool:
        """Whether no worker works any more, as when the server died by itself."""
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, worker: int) -> None:
        try:
            connection = connect(self._address)
        except SeatrialError:
            self._begun.abort()
            return
        with contextlib.closing(connection):
            connection.prepare_threshold = 0
            try:
                self._begun.wait(_CONNECT_S_MAX)
            except threading.BrokenBarrierError:
                return
            self._transact(connection, worker, time.monotonic_ns())

    def _transact(self, connection: psycopg.Connection, worker: int, began_ns: int) -> None:
        """Do transactions until the load is stopped or the connection breaks."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        while not self._stopped.is_set():
            entry = self._ledger.next_entry(worker)
            sent_ns = time.monotonic_ns()
            try:
                self._send(connection, entry)
            except psycopg.Error as error:
                if connection.closed:
                    with self._lock:
                        self.cut_off += 1
                    return
                self._refused(connection, str(error))
            else:
                now_ns = time.monotonic_ns()
                self.answers.append(Answer(now_ns - began_ns, now_ns - sent_ns))

    def _send(self, connection: psycopg.Connection, entry: Entry) -> None:
        connection.execute("BEGIN")
        connection.execute(_TAKE, (entry.amount, entry.left))
        connection.execute(_GIVE, (entry.amount, entry.right))
        connection.execute(_WRITE_DOWN, tuple(_fields(entry)))
        self._ledger.commits(entry)
        connection.execute("COMMIT")
        self._ledger.acknowledge(entry)

    def _refused(self, connection: psycopg.Connection, words: str) -> None:
        """Take in that the living server refused a transaction, and go on after a while."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        with self._lock:
            self.failed += 1
            if not self.refusals:
                self.refusals.append(" ".join(words.split()))
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        self._stopped.wait(_PAUSE_S)


def _fields(entry: Entry) -> Iterator[int]:
    yield from (entry.worker, entry.sequence, entry.left, entry.right, entry.amount)
