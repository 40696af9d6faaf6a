"""How a capture ends, what it leaves, and who may have it."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.command import Ended, ended, seatrial
from seatrial.postgres.row_content import load_content
from seatrial.trials.replay.analysis.verdict import judge
from trials.replay import talk
from trials.replay.capturing import Command, assert_unaltered, capturing, start_capture
from trials.replay.targets import Target, play

FILE_BYTES_MAX = 2_000


def _dsn(target: Target, port: int, name: str) -> str:
    user = target.address(name).user
    return f"host=127.0.0.1 port={port} user={user} dbname={name} sslmode=disable"


def _capture(target: Target, folder: Path, name: str, **how: Any) -> Command:
    to = ("--to", target.url(name))
    return start_capture("--listen", ":0", *to, "-o", "t.trace", folder=folder, **how)


def test_the_rows_of_the_end_are_kept_with_the_trace(target, tmp_path):
    name = target.make("kept_rows", "CREATE TABLE t (id serial PRIMARY KEY, v int)")
    to = ("--to", target.url(name))
    command = start_capture("--listen", ":0", *to, "-o", "t.trace", "--rows", folder=tmp_path)
    with psycopg.connect(_dsn(target, command.port, name), autocommit=True) as connection:
        connection.execute("INSERT INTO t (v) VALUES (1), (2)")
    done = command.end()
    assert done.code == 0, done.err
    assert "2 rows of 1 table of kept_rows: t.trace.rows" in done.out
    held = tmp_path / "t.trace.rows"
    assert held.stat().st_mode & 0o777 == 0o600
    assert load_content(held).tables["public.t"].count == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "/nowhere:5432"), "--rows is given, but --to names a folder"),
        (("--to", "postgresql://127.0.0.1:1/x", "--mask"), "--rows is given with --mask"),
    ],
)
def test_rows_that_cannot_be_had_are_refused_at_once(tmp_path, options, words):
    done = seatrial(
        *("sql", "capture", "--listen", ":0", "-o", "t.trace", "--rows", *options), folder=tmp_path
    )
    assert done.code == 2
    assert words in done.err


def test_a_second_signal_breaks_nothing_off(target, tmp_path):
    name = target.make("interrupted", talk.TABLES)
    command = _capture(target, tmp_path, name)
    with psycopg.connect(_dsn(target, command.port, name), autocommit=True) as connection:
        connection.execute("SELECT 1")
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            command.process.send_signal(number)
            time.sleep(0.02)
        done = ended(command.process)
    assert done.code == 0, done.err
    assert "1 statements + " in done.out
    assert (tmp_path / "t.trace").stat().st_mode & 0o777 == 0o600


def test_a_terminal_that_is_closed_ends_it_in_order(target, tmp_path):
    command = _capture(target, tmp_path, "postgres")
    assert command.end(signal.SIGHUP).code == 0
    assert (tmp_path / "t.trace").exists()


def test_a_trace_that_cannot_be_written_to_its_end_is_a_partial_result(target, tmp_path):
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        pytest.skip("needs prlimit, to bound the size of files")
    limit = (prlimit, f"--fsize={FILE_BYTES_MAX}")
    command = _capture(target, tmp_path, "postgres", prefix=limit)
    with psycopg.connect(_dsn(target, command.port, "postgres")) as connection:
        connection.execute("SELECT 1")
    done = command.end()
    assert done.code == 4, done.err
    assert "t.trace cannot be written" in done.err


def test_what_is_being_captured_is_neither_recovered_nor_written_over(target, tmp_path):
    name = target.make("locked", talk.TABLES)
    trace = tmp_path / "t.trace"
    with capturing(target, name, trace, checkpoint_s=1) as capture:
        dsn = _dsn(target, capture.address.port, name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT 1")
            for _ in range(100):
                if (tmp_path / "t.trace.part.end").exists():
                    break
                time.sleep(0.1)
            recovered = seatrial("sql", "capture", "--recover", "-o", "t.trace", folder=tmp_path)
            again = _refused(target, tmp_path, name)
            connection.execute("SELECT 2")
        capture.end()
    for done in (recovered, again):
        assert done.code == 2, done.err
        assert "is being written" in done.err
    assert_unaltered(capture)
    assert [statement["sql"] for statement in capture.statements] == ["SELECT 1", "SELECT 2"]


def _refused(target: Target, folder: Path, name: str) -> Ended:
    wanted = ("--listen", ":0", "--to", target.url(name), "-o", "t.trace")
    return seatrial("sql", "capture", *wanted, folder=folder)


def test_a_pipeline_that_the_server_rolled_back_is_not_committed_by_a_replay(target, tmp_path):
    tables = "CREATE TABLE batch (id int PRIMARY KEY, note text);"
    name = target.make("batches", tables)
    played = target.make("batches_played", tables)
    with capturing(target, name, tmp_path / "t.trace") as capture:
        dsn = _dsn(target, capture.address.port, name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            _insert(connection, [1, 2])
            with pytest.raises(psycopg.errors.UniqueViolation):
                _insert(connection, [3, 2, 4])
            _insert(connection, [5])
        reported = capture.end()
    rows = "SELECT id FROM batch ORDER BY id"
    assert target.run(name, rows) == [(1,), (2,), (5,)]
    assert reported.accounting.skipped == {"rolled_back": 1}
    record = play(capture.trace, target.address(played))
    assert judge(record).ok, judge(record)
    assert target.run(played, rows) == [(1,), (2,), (5,)]


def _insert(connection: psycopg.Connection, ids: list[int]) -> None:
    with connection.pipeline(), connection.cursor() as cursor:
        for number in ids:
            cursor.execute("INSERT INTO batch VALUES (%s, 'x')", (number,))


def test_what_the_server_says_last_is_heard(target, tmp_path):
    name = target.make("terminated", talk.TABLES)
    with capturing(target, name, tmp_path / "t.trace") as capture:
        dsn = _dsn(target, capture.address.port, name)
        connection = psycopg.connect(dsn, autocommit=True)
        with connection, pytest.raises(psycopg.errors.AdminShutdown):
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        reported = capture.end()
    assert_unaltered(capture)
    (statement,) = capture.statements
    assert statement["error"] == "57P01"
    assert reported.capture is not None
    assert reported.capture.unanswered == 0


def test_what_a_client_sets_as_it_connects_is_reported(target, tmp_path):
    with capturing(target, "postgres", tmp_path / "t.trace") as capture:
        dsn = _dsn(target, capture.address.port, "postgres")
        with psycopg.connect(dsn, options="-c search_path=public") as connection:
            connection.execute("SELECT 1")
        reported = capture.end()
    assert reported.capture is not None
    assert reported.capture.settings == {"options": 1}
    assert any("options (1)" in note for note in reported.notes)


def test_a_folder_as_the_server_reports_that_nothing_guards_it(target, tmp_path):
    at = target.address("postgres")
    if not at.host.startswith("/"):
        pytest.skip("needs a server with a socket in a folder")
    to = f"{at.host}:{at.port}"
    command = start_capture("--listen", ":0", "--to", to, "-o", "t.trace", folder=tmp_path)
    assert "system identifier" in command.warned
    assert command.end().code == 0


def test_of_a_servers_addresses_the_one_that_answers_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        to = f"postgresql://x@localhost:{port}/x?sslmode=disable&connect_timeout=1"
        command = start_capture("--listen", ":0", "--to", to, "-o", "t.trace", folder=tmp_path)
        with socket.create_connection(("127.0.0.1", command.port)) as client:
            client.sendall(b"hello")
            server.settimeout(20)
            heard = b""
            while heard != b"hello":
                # Those before it only asked whether somebody is there.
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(2)
                    try:
                        heard = connection.recv(9)
                    except TimeoutError:
                        continue
        assert command.end().code == 0
