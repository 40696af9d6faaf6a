"""Loads on a logging server, and what the server itself knows of them afterwards."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from seatrial import _core
from seatrial.postgres.connection import connect
from seatrial.trials.replay.commands.read import ReadRequest, read_logs
from seatrial.trials.replay.reading import Reading
from trials.replay.logging_server import CLIENTS, MODES, TRANSACTIONS, LoggingServer

PROTOCOLS = ("simple", "extended", "prepared")
OUTLIER = "odd"
OF_PGBENCH = tuple(f"{protocol}-{mode}" for protocol in PROTOCOLS for mode in MODES)
UNUSUAL_LOADS = tuple(f"{OUTLIER}-{mode}" for mode in MODES)
LOADS = OF_PGBENCH + UNUSUAL_LOADS
TEXT = "it's $1, 'x'\nand a \"second\" line\twith a comma, a backslash \\ and ü"
BYTES = b"\x00\xff"
NAME = "by id: all"
FORGED = "drop table forged"


@dataclass(frozen=True)
class Trace:
    """What one log was read into.

    Attributes:
        reading: What came of it.
        statements: All of them, in the order of the log.
        path: The file.
    """

    reading: Reading
    statements: list[dict[str, Any]]
    path: Path

    def by_session(self) -> list[list[dict[str, Any]]]:
        """The statements of each session in their order, without the session's number.

        Records of several sessions come into each of a server's files in another order.
        """
        sessions: dict[int, list[dict[str, Any]]] = {}
        for statement in self.statements:
            own = {name: value for name, value in statement.items() if name != "session"}
            sessions.setdefault(statement["session"], []).append(own)
        return sorted(sessions.values(), key=repr)


@dataclass(frozen=True)
class Logged:
    """One load.

    Attributes:
        logs: The files by format.
        traces: What each was read into, by its content alone.
        transactions: As pgbench counts them; 0 for other loads.
        history: Rows that pgbench stored: (tid, bid, aid, delta), sorted.
        major: Version of the server.
    """

    logs: dict[str, Path]
    traces: dict[str, Trace]
    transactions: int
    history: list[tuple[int, int, int, int]]
    major: int


def log_all(server: LoggingServer, folder: Path) -> dict[str, Logged]:
    """Put every load on a server, one after the other, each into logs of its own; read these."""
    server.pgbench("--initialize", "--quiet", "--scale=1")
    return {name: _log(server, name, folder) for name in LOADS}


def _log(server: LoggingServer, name: str, folder: Path) -> Logged:
    load, _, mode = name.partition("-")
    transactions, history = 0, []
    with server.logging(name, **MODES[mode]):
        if load == OUTLIER:
            unusual_load(server)
        else:
            transactions = server.pgbench(
                "--no-vacuum",
                f"--protocol={load}",
                f"--client={CLIENTS}",
                f"--transactions={TRANSACTIONS}",
            )
    if load != OUTLIER:
        history = _taken_history(server)
    logs = {form: server.log(name, form) for form in server.formats}
    traces = {form: read(log, folder / f"{name}-{form}.trace") for form, log in logs.items()}
    return Logged(logs, traces, transactions, history, server.major)


def read(log: Path, trace: Path, **wanted: Any) -> Trace:
    """Read one log, by its content alone unless more is wanted."""
    reading = read_logs(ReadRequest(logs=(log,), output=trace, **wanted), quiet=True)
    statements = _core.trace_statements(trace, 0, reading.accounting.statements + 1)
    return Trace(reading, statements, trace)


def _taken_history(server: LoggingServer) -> list[tuple[int, int, int, int]]:
    """Return what pgbench stored, and leave nothing for the next load."""
    with contextlib.closing(connect(server.server.address)) as connection:
        rows = connection.execute("SELECT tid, bid, aid, delta FROM pgbench_history").fetchall()
        connection.execute("TRUNCATE pgbench_history")
    return sorted(rows)


def unusual_load(server: LoggingServer) -> None:
    """Send what a log has trouble with: quotes, line ends, NULL, bytes, errors, cursors, COPY."""
    with contextlib.closing(connect(server.server.address)) as connection:
        connection.execute("CREATE TABLE odd (t text, b bytea, n numeric)")
        insert = "INSERT INTO odd (t, b, n) VALUES (%s, %s, %s)"
        connection.execute(insert, (TEXT, BYTES, None))
        connection.execute(insert.replace("%s", "%b"), (TEXT, BYTES, 3))
        connection.execute("SELECT *\n  FROM odd\n\tWHERE t = 'a\tb' -- not all\n")
        connection.execute("SELECT 1; SELECT 2")
        connection.execute(f"DO $$BEGIN RAISE LOG 'statement: {FORGED}'; END$$")
        _prepared_by_name(connection)
        for failing in ("SELEC 1", "SELECT 1/0", "SELECT * FROM nowhere"):
            _fails(connection, failing)
        _in_a_block(connection)
        connection.prepare_threshold = 0
        for number in (5, 6):
            connection.execute("SELECT %s::int", (number,))
        connection.execute("DROP TABLE odd")


def _prepared_by_name(connection: psycopg.Connection) -> None:
    """A statement whose name has in it what ends names in a log."""
    connection.pgconn.prepare(NAME.encode(), b"SELECT 'by name'")
    connection.pgconn.exec_prepared(NAME.encode(), [])


def _in_a_block(connection: psycopg.Connection) -> None:
    """A cursor, a savepoint that is rolled back to, COPY both ways: all in one transaction."""
    with connection.transaction():
        with connection.cursor(name="some") as cursor:
            cursor.execute("SELECT generate_series(1, 100)")
            cursor.fetchmany(10)
        with contextlib.suppress(psycopg.Error), connection.transaction():
            connection.execute("SELECT 1/0")
        with connection.cursor().copy("COPY odd (t) FROM STDIN") as copy:
            copy.write("one\ntwo\n")
        with connection.cursor().copy("COPY odd TO STDOUT") as copy:
            list(copy)


def _fails(connection: psycopg.Connection, sql: str) -> None:
    with contextlib.suppress(psycopg.Error):
        connection.execute(sql)
        raise AssertionError(f"{sql} did not fail")
