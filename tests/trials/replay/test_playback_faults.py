"""What ends badly ends with exit code 4, and the first sentence says what it was."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cli.command import Ended, ended
from postgres.programs import installed_programs
from seatrial.postgres.connection import connect
from seatrial.results.replay import ReplayRecord
from seatrial.trials.replay.commands.read import ReadRequest, read_logs
from trials.replay.loads import read
from trials.replay.logging_server import MODES
from trials.replay.targets import (
    END_OF_LOGGING,
    PLAY_S_MAX,
    Target,
    play,
    record_in,
    replay,
    start_replay,
    target_server,
)

CLIENTS = 4
TRANSACTIONS = 100
SLOW = "0.05"
"""A speed at which nothing ends by itself before a test is done with it."""
DANGEROUS = """
    CREATE TABLE made_by_the_log (n int);
    TRUNCATE pgbench_history;
    NOTIFY somebody;
    SELECT pg_notify('somebody', 'of it');
    SELECT pg_terminate_backend(0);
    COPY pgbench_branches TO PROGRAM 'cat > /dev/null';
    ALTER SYSTEM SET work_mem = '5MB';
    SELECT pg_reload_conf();
    CREATE TEMPORARY TABLE passing (n int);
    INSERT INTO passing VALUES (1);
    DROP TABLE passing
"""
"""What is refused, and last what is only temporary."""


@pytest.fixture(scope="module")
def log(source) -> Path:
    """A short log of pgbench's own load."""
    source.pgbench("--initialize", "--quiet", "--scale=1")
    with source.logging("short", **MODES["log_statement"]):
        source.pgbench("--no-vacuum", f"--client={CLIENTS}", f"--transactions={TRANSACTIONS}")
    return source.log("short", "csv")


@pytest.fixture(scope="module")
def trace(log, target, tmp_path_factory) -> Path:
    """Its trace; the database ``short`` of the target is as it begins."""
    target.make("short")
    target.pgbench("short", "--initialize", "--quiet", "--scale=1")
    return read(log, tmp_path_factory.mktemp("short") / "short.trace").path


def first_screen(reported: Ended) -> str:
    """Return verdict, figures and worst findings as one line."""
    assert reported.out.startswith("Do not trust these figures: ")
    return " ".join(reported.out.split("\nConfidence:")[0].split())


def played_badly(
    trace: Path, target: Target, name: str, folder: Path, user: str = ""
) -> tuple[str, ReplayRecord]:
    """Play to a database, which must end with exit code 4; return what was said first."""
    reported = replay(trace, target.url(name, user), "--allow-writes", name, folder=folder)
    assert reported.code == 4, reported.out + reported.err
    record = record_in(folder)
    assert record.total.adds_up
    assert list(folder.glob("seatrial-reports/*.html"))
    return first_screen(reported), record


def test_the_wrong_database(trace, target, tmp_path):
    said, record = played_badly(trace, target, target.make("wrong"), tmp_path)
    assert "the database is not the captured one" in said
    assert "statements are missing in the database" in said
    assert record.total.not_reached == 0
    assert record.errors.new > TRANSACTIONS


def test_an_empty_database(trace, target, tmp_path):
    name = target.make("empty", template="short")
    target.run(name, "TRUNCATE pgbench_accounts, pgbench_branches, pgbench_tellers")
    said, record = played_badly(trace, target, name, tmp_path)
    assert "the database is not the captured one" in said
    assert "The database is empty or not the captured one" in said
    assert record.rows.empty_writes == record.rows.writes == 3 * CLIENTS * TRANSACTIONS
    assert record.errors.new == 0


def test_connections_that_are_refused(trace, target, tmp_path):
    name = target.make("refusing", template="short")
    target.run(name, "DROP ROLE IF EXISTS few; CREATE ROLE few LOGIN SUPERUSER")
    target.run(name, f"ALTER DATABASE {name} CONNECTION LIMIT 3")
    target.run(name, "ALTER ROLE few NOSUPERUSER; GRANT ALL ON ALL TABLES IN SCHEMA public TO few")
    said, record = played_badly(trace, target, name, tmp_path, user="few")
    assert re.search(r"connection attempts? (was|were) refused", said)
    assert any("too many connections" in example.message for example in record.errors.examples) or (
        "too many connections" in record.sessions.words
    )
    assert record.sessions.refused > 0
    assert record.total.ok > 0


def test_a_database_that_is_not_there(trace, target, tmp_path):
    reported = replay(trace, target.url("nowhere"), "--allow-writes", "nowhere", folder=tmp_path)
    assert reported.code == 6
    assert "has no database nowhere" in reported.err


def test_a_server_that_is_killed(trace, tmp_path):
    with target_server(tmp_path, installed_programs()) as target:
        target.make("short")
        target.pgbench("short", "--initialize", "--quiet", "--scale=1")
        process = start_replay(
            *(trace, target.url("short"), "--allow-writes", "short", "--speed", SLOW),
            folder=tmp_path,
        )
        await_transactions(target, process, "short")
        target.server.kill()
        reported = ended(process, PLAY_S_MAX)
    assert reported.code == 4, reported.out + reported.err
    assert "The connection to the server was lost during the replay" in first_screen(reported)
    record = record_in(tmp_path)
    assert record.end == "server_lost"
    assert record.total.adds_up
    assert record.total.ok > 0
    assert record.total.not_reached > 0
    assert record.commits.committed > 0


def test_an_interrupt(trace, target, tmp_path):
    name = target.make("interrupted", template="short")
    process = start_replay(
        *(trace, target.url(name), "--allow-writes", name, "--speed", SLOW), folder=tmp_path
    )
    await_transactions(target, process, name)
    process.send_signal(signal.SIGINT)
    reported = ended(process, PLAY_S_MAX)
    assert reported.code == 4, reported.out + reported.err
    assert "The replay was interrupted" in first_screen(reported)
    record = record_in(tmp_path)
    assert record.total.adds_up
    assert record.total.ok > 0
    assert record.total.not_reached > 0


def await_transactions(target: Target, process: subprocess.Popen[str], name: str) -> None:
    """Wait until a replay has committed something."""
    give_up_at_s = time.monotonic() + PLAY_S_MAX
    with contextlib.closing(connect(target.address(name))) as connection:
        requested = "SELECT EXISTS (SELECT FROM pgbench_history)"
        while connection.execute(requested).fetchone() == (False,):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < give_up_at_s, "nothing was committed"
            time.sleep(0.02)


def test_dangers_are_skipped_by_their_reason(source, target, trace, tmp_path):
    with (
        source.logging("dangerous", **MODES["log_statement"]),
        contextlib.closing(connect(source.server.address)) as connection,
    ):
        for statement in DANGEROUS.split(";"):
            connection.execute(statement.strip())
        connection.execute("DROP TABLE made_by_the_log")
        connection.execute("ALTER SYSTEM RESET work_mem")
    dangerous = read(source.log("dangerous", "csv"), tmp_path / "dangerous.trace").path
    name = target.make("dangerous", template="short")
    before = target.checksums(name)
    record = play(dangerous, target.address(name))
    assert record.total.skipped == {
        "ddl": 3,
        "notify": 2,
        "terminate_backend": 1,
        "copy_program": 1,
        "server": 3 + END_OF_LOGGING,
    }
    assert (record.total.failed, record.total.not_reached) == (0, 0)
    assert record.total.ok == 3  # what is temporary
    assert target.checksums(name) == before


def test_a_database_of_somebody_is_not_written_to_unless_named(trace, target, tmp_path):
    reported = replay(trace, target.url("short"), "--allow-writes", "postgres", folder=tmp_path)
    assert reported.code == 5, reported.out + reported.err
    assert "--allow-writes short" in reported.err
    assert target.run("short", "SELECT count(*) FROM pgbench_history") == [(0,)]


def test_the_logs_own_server_is_refused(log, trace, target, tmp_path):
    ((number,),) = target.run("postgres", "SELECT system_identifier FROM pg_control_system()")
    own = tmp_path / "own.trace"
    read_logs(ReadRequest(logs=(log,), output=own, system_identifier=number), quiet=True)
    arguments = (own, target.url("short"), "--allow-writes", "short")
    reported = replay(*arguments, folder=tmp_path)
    assert reported.code == 5, reported.out + reported.err
    assert "the server that wrote the log, or a copy of its files" in reported.err
    assert "--allow same_system" in reported.err
    assert target.run("short", "SELECT count(*) FROM pgbench_history") == [(0,)]


def test_a_standby_is_refused(trace, target, tmp_path):
    folder = tmp_path / "standby"
    cluster = target.cluster
    folder.mkdir(mode=0o700)
    cluster.account.take_ownership(folder)
    address = target.server.address
    cluster.account.run(
        [
            str(cluster.binaries.program("pg_basebackup")),
            *(f"--host={address.host}", f"--port={address.port}", f"--username={address.user}"),
            *(f"--pgdata={folder}", "--write-recovery-conf", "--checkpoint=fast"),
        ],
        timeout_s=PLAY_S_MAX,
        stderr=subprocess.STDOUT,
        cwd=folder,
    ).check_returncode()
    with cluster.at(folder).start({"fsync": "off", "max_connections": "60"}) as standby:
        url = standby.address.with_dbname("short").as_url()
        reported = replay(trace, url, "--allow-writes", "short", folder=tmp_path)
    assert reported.code == 5, reported.out + reported.err
    assert "is in recovery" in reported.err


def test_a_server_that_is_not_there_is_reported(trace, tmp_path):
    reported = replay(trace, "postgresql://me@127.0.0.1:1/db", "--read-only", folder=tmp_path)
    assert reported.code == 6
    assert "127.0.0.1:1" in reported.err


def test_sessions_end_with_the_replay(trace, target):
    name = target.make("left", template="short")
    play(trace, target.address(name), order="commit")
    left = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    give_up_at_s = time.monotonic() + 10
    while target.run("postgres", left) != [(0,)]:
        assert time.monotonic() < give_up_at_s, "sessions stayed"
        time.sleep(0.05)
