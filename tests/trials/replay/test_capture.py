"""A proxy between clients and a server: nothing is altered, and what was said is in the trace."""

from __future__ import annotations

import collections
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.command import seatrial
from seatrial import _core
from seatrial.trials.replay.analysis.verdict import judge
from seatrial.trials.replay.commands.compare_sides import trace_side
from trials.replay import talk
from trials.replay.capturing import Capture, assert_unaltered, capturing, start_capture
from trials.replay.encrypting import encrypting_server
from trials.replay.targets import Target, play

PGBENCH_TABLES = "pgbench_captured"
CLIENTS = 4
TRANSACTIONS = 60
SCRIPT = """
\\startpipeline
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :client_id, 5, now());
UPDATE pgbench_accounts SET abalance = abalance + 5 WHERE aid = 1 + :client_id;
\\endpipeline
"""

KILLED = """
import sys, time
from seatrial import _core
capture = _core.start_sql_capture(sys.argv[1])
print(capture.places[0], flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def talked(target, tmp_path_factory) -> tuple[Capture, talk.Saw]:
    """A conversation of psycopg that was captured, and what psycopg saw."""
    name = target.make("talked", talk.TABLES)
    trace = tmp_path_factory.mktemp("talked") / "talked.trace"
    with capturing(target, name, trace) as capture:
        saw = talk.talk(_dsn(capture))
        capture.end()
    return capture, saw


@pytest.fixture(scope="module")
def pgbench_tables(target) -> str:
    target.make(PGBENCH_TABLES)
    target.pgbench(PGBENCH_TABLES, "--initialize", "--quiet", "--scale=1")
    return PGBENCH_TABLES


def _dsn(capture: Capture) -> str:
    at = capture.address
    return f"host={at.host} port={at.port} user={at.user} dbname={at.dbname} sslmode=disable"


def _run(
    target: Target, capture: Capture, program: str, *arguments: str, **how: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [target.cluster.binaries.program(program), *arguments],
        env=os.environ | capture.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **how,
    )


def test_psycopg_sees_what_the_server_says(talked):
    capture, _ = talked
    assert_unaltered(capture)
    seen = capture.reported.capture
    assert seen is not None
    assert (seen.out_of_step, seen.not_understood, seen.unanswered) == (0, 0, 0)
    assert seen.cancels == 1
    assert capture.reported.accounting.unreadable == {}


def test_what_was_returned_is_in_the_trace(talked):
    capture, saw = talked
    seen = collections.defaultdict(list)
    for name, rows in saw:
        seen[name].append(rows)
    kept = collections.defaultdict(list)
    for statement in capture.statements:
        if statement["returned"] is not None and statement["error"] is None:
            kept[statement["sql"].split("VALUES")[0].strip()].append(statement["returned"])
    person = kept["INSERT INTO person (name)"]
    one_by_one = [*seen["prepared"], *seen["piped"][0]]
    assert [each["rows"] for each in person][: len(one_by_one)] == _texts(one_by_one)
    assert all(each["columns"] == ["id"] for each in person)
    (first,) = kept["INSERT INTO person (name, born)"]
    assert first == {"columns": ["id", "name"], "rows": _texts(seen["returned"])[0]}
    binary = next(rows for text, rows in kept.items() if text.startswith("INSERT INTO thing"))
    assert binary[0]["rows"] == _texts(seen["binary"])[0]
    assert kept["SELECT nextval('tickets')"][0]["rows"] == _texts(seen["drawn"])[0]
    assert kept["SELECT setval('tickets', 40)"][0]["rows"] == _texts(seen["set"])[0]


def test_its_times_are_the_clients(talked):
    capture, _ = talked
    side = trace_side("talked", capture.trace)
    assert (side.clock, side.detail) == ("client", "captured on the network")


def _texts(rows: list[Any]) -> list[Any]:
    return [[[str(value) for value in row] for row in each] for each in rows]


def test_parameters_in_binary_are_the_text_that_means_the_same(talked, target):
    capture, _ = talked
    (insert,) = (
        statement
        for statement in capture.statements
        if statement["sql"].startswith("INSERT INTO thing (k")
    )
    assert insert["skip"] is None
    connection = psycopg.connect(target.url("talked"), autocommit=True)
    places = iter(f"${place}" for place in range(1, 15))
    again = re.sub("%s", lambda _: next(places), talk.INSERT)
    with connection:
        connection.pgconn.exec_params(
            again.encode(),
            [None if value is None else value.encode() for value in insert["parameters"]],
        )
        sent, played = connection.execute(
            "SELECT to_jsonb(thing) - 'id' FROM thing WHERE key = %s ORDER BY id", (talk.KEY,)
        ).fetchall()
    assert sent == played


def test_rows_tags_errors_and_transactions_are_as_the_client_saw_them(talked):
    capture, saw = talked
    codes = next(rows for name, rows in saw if name == "codes")
    statements = capture.statements
    found = [statement["error"] for statement in statements if statement["error"]]
    assert [code for code in found if code in codes][-len(codes) - 1 :] == [*codes, "22012"]
    updated = next(rows for name, rows in saw if name == "updated")
    (update,) = (
        statement for statement in statements if statement["sql"].startswith("UPDATE person")
    )
    assert (update["rows"], update["tag"], update["transaction"]) == (updated, "UPDATE", 0)
    sqls = {statement["sql"] for statement in statements}
    assert "INSERT INTO person (name) VALUES ('never')" not in sqls
    pipe = [
        statement for statement in statements if (statement["parameters"] or [""])[0] == "pipe 3"
    ]
    assert len({each["transaction"] for each in pipe}) == 1
    assert pipe[0]["transaction"] > 0
    gone = next(statement for statement in statements if "'gone'" in statement["sql"])
    rollback = next(
        statement
        for statement in statements
        if statement["session"] == gone["session"] and statement["tag"] == "ROLLBACK"
    )
    assert gone["transaction"] == rollback["transaction"] > 0
    skipped = {
        statement["skip"] for statement in statements if statement["sql"].startswith("COPY person")
    }
    assert skipped == {"copy_data"}
    assert {statement["skip"] for statement in statements} == {None, "copy_data", "rolled_back"}


@pytest.mark.parametrize("protocol", ["simple", "extended", "prepared", "pipeline"])
def test_pgbench_is_captured_and_plays_again(protocol, pgbench_tables, target, tmp_path):
    name = target.make("captured", template=pgbench_tables)
    script = tmp_path / "pipeline.sql"
    script.write_text(SCRIPT)
    load = (
        [f"--file={script}", "--protocol=extended"]
        if protocol == "pipeline"
        else [f"--protocol={protocol}"]
    )
    with capturing(target, name, tmp_path / "t.trace") as capture:
        counts = [f"--client={CLIENTS}", f"--transactions={TRANSACTIONS}"]
        done = _run(target, capture, "pgbench", "--no-vacuum", *load, *counts)
        assert done.returncode == 0, done.stderr
        reported = capture.end()
    assert_unaltered(capture)
    per_transaction = 2 if protocol == "pipeline" else 7
    of_clients = CLIENTS * TRANSACTIONS * per_transaction
    assert 0 <= reported.accounting.statements - of_clients <= 20
    assert reported.accounting.skipped == {}
    assert sum(
        statement["tag"] == "UPDATE" and statement["rows"] == 1 for statement in capture.statements
    ) >= (CLIENTS * TRANSACTIONS)
    played = target.make("played", template=pgbench_tables)
    record = play(capture.trace, target.address(played))
    assert judge(record).ok, judge(record)
    assert record.total.ok == reported.accounting.statements
    assert record.rows.compared == record.rows.equal > of_clients / 2
    assert target.sums(played) == target.sums(name)


def test_psql_and_what_it_alone_does(target, tmp_path):
    name = target.make("psql", talk.TABLES)
    (tmp_path / "in.csv").write_text("7,x\n8,y\n")
    (tmp_path / "large").write_bytes(b"large object" * 1_000)
    lines = [
        f"\\copy person (id, name) from '{tmp_path}/in.csv' csv",
        "select id, name from person \\gdesc",
        f"\\copy (select * from person) to '{tmp_path}/out.csv' csv",
        f"\\lo_import {tmp_path}/large",
        f"\\lo_export :LASTOID {tmp_path}/back",
        "\\set FETCH_COUNT 1",
        "select * from person;",
        "insert into person (name) values ('z') returning id \\gset",
        "select :id;",
    ]
    with capturing(target, name, tmp_path / "t.trace") as capture:
        done = _run(target, capture, "psql", "-X", input="\n".join(lines) + "\n")
        assert (done.returncode, done.stderr) == (0, "")
        _cancel_by_ctrl_c(target, capture)
        reported = capture.end()
    assert_unaltered(capture)
    assert (tmp_path / "out.csv").read_text() == "7,x,\n8,y,\n"
    assert (tmp_path / "back").read_bytes() == (tmp_path / "large").read_bytes()
    skipped = reported.accounting.skipped
    assert skipped["copy_data"] == 1
    assert skipped["fast_path"] > 5
    assert reported.capture is not None
    assert (
        reported.capture.cancels,
        reported.capture.unanswered,
        reported.capture.out_of_step,
    ) == (1, 0, 0)
    sleep = next(statement for statement in capture.statements if "pg_sleep" in statement["sql"])
    assert sleep["error"] == "57014"


def _cancel_by_ctrl_c(target: Target, capture: Capture) -> None:
    psql = subprocess.Popen(
        [target.cluster.binaries.program("psql"), "-X", "-c", "select pg_sleep(60)"],
        env=os.environ | capture.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    requested = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'select pg_sleep%'"
    for _ in range(200):
        if target.run("postgres", requested) == [(1,)]:
            break
        time.sleep(0.05)
    psql.send_signal(signal.SIGINT)
    _, err = psql.communicate(timeout=30)
    assert "canceling statement due to user request" in err


def test_a_replication_connection_passes_unread(target, tmp_path):
    with capturing(target, "postgres", tmp_path / "t.trace") as capture:
        done = _run(
            target,
            capture,
            "pg_basebackup",
            "-D",
            str(tmp_path / "backup"),
            "-X",
            "none",
            "-c",
            "fast",
        )
        assert done.returncode == 0, done.stderr
        reported = capture.end()
    assert_unaltered(capture)
    assert (tmp_path / "backup" / "PG_VERSION").exists()
    assert reported.capture is not None
    assert (reported.capture.replication, reported.accounting.statements) == (1, 0)
    assert "1 connection: for replication: passed on and not captured." in reported.notes


@pytest.mark.parametrize("method", ["scram-sha-256", "md5", "password"])
def test_no_password_gets_into_a_trace(method, target, tmp_path):
    secret = "s3cr3t-of-nobody"
    rules = target.cluster.folder / "pg_hba.conf"
    before = rules.read_text()
    kept = "scram-sha-256" if method == "password" else method
    target.run("postgres", f"SET password_encryption TO '{kept}'; DROP ROLE IF EXISTS keyed")
    target.run(
        "postgres",
        f"SET password_encryption TO '{kept}'; CREATE ROLE keyed LOGIN PASSWORD '{secret}'",
    )
    rules.write_text(f"local all keyed {method}\nhost all keyed all {method}\n{before}")
    target.run("postgres", "SELECT pg_reload_conf()")
    try:
        with capturing(target, "postgres", tmp_path / "t.trace") as capture:
            dsn = f"{_dsn(capture)} user=keyed password={secret}"
            with psycopg.connect(dsn) as connection:
                assert connection.execute("SELECT current_user").fetchall() == [("keyed",)]
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(dsn + "x")
            reported = capture.end()
    finally:
        rules.write_text(before)
        target.run("postgres", "SELECT pg_reload_conf()")
    assert_unaltered(capture)
    assert reported.capture is not None
    assert reported.capture.not_let_in == 1
    assert reported.session_count == 1
    content = capture.trace.read_bytes()
    assert secret.encode() not in content
    assert b"SCRAM" not in content
    assert [statement["sql"] for statement in capture.statements][:2] == [
        "BEGIN",
        "SELECT current_user",
    ]


def test_who_encrypts_is_passed_on_and_reported(tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl, to make a certificate")
    names = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "certificate")]
    subprocess.run(
        [openssl, "req", "-new", "-x509", "-nodes", "-days", "2", "-subj", "/CN=x", *names],
        check=True,
        capture_output=True,
    )
    with encrypting_server(tmp_path / "certificate", tmp_path / "key") as port:
        folder = tmp_path / "capture"
        folder.mkdir()
        to = f"postgresql://x@127.0.0.1:{port}/x?sslmode=disable&connect_timeout=2"
        command = start_capture("--listen", ":0", "--to", to, "-o", "t.trace", folder=folder)
        dsn = f"host=127.0.0.1 port={command.port} user=x dbname=x sslmode=require"
        with psycopg.connect(dsn, autocommit=True) as connection:
            assert connection.execute("SELECT 1", prepare=False).fetchall() == [("1",)]
            assert connection.pgconn.ssl_in_use
            assert "sslmode=disable" in command.await_warning("encrypts")
        done = command.end()
    assert done.code == 4, done.err
    assert "0 records = 0 statements" not in done.out
    assert "sslmode=disable" in done.out
    assert "1 encrypted" in done.out


def test_the_command_ends_in_order_and_reports(target, pgbench_tables, tmp_path):
    name = target.make("captured", template=pgbench_tables)
    url = target.url(name)
    command = start_capture("--listen", ":0", "--to", url, "-o", "prod.trace", folder=tmp_path)
    dsn = f"host=127.0.0.1 port={command.port} user={target.address(name).user} dbname={name}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE pgbench_accounts SET abalance = 1 WHERE aid = 5")
        done = command.end(signal.SIGTERM)
    assert done.code == 0, done.err
    assert "1 statements + " in done.out
    assert re.search(r"^Next:  \S*seatrial sql show prod\.trace$", done.out, re.MULTILINE)
    shown = seatrial("sql", "show", "prod.trace", folder=tmp_path)
    assert shown.code == 0
    assert "1 file (wire)" in shown.out
    refused = seatrial(
        "sql", "capture", "--listen", ":0", "--to", url, "-o", "prod.trace", folder=tmp_path
    )
    assert refused.code == 5
    replayed = seatrial(
        "sql", "replay", "prod.trace", "--to", url, "--allow-writes", name, folder=tmp_path
    )
    assert replayed.code == 5, "it is the captured server itself"


def test_what_makes_no_sense_is_refused(target, tmp_path):
    url = target.url("postgres")

    def refusal(*arguments: str) -> tuple[int, str]:
        done = seatrial("sql", "capture", *arguments, "-o", "x.trace", folder=tmp_path)
        return done.code, done.err

    assert refusal("--listen", ":0")[0] == 2
    assert refusal("--listen", "nonsense", "--to", url)[0] == 2
    assert refusal("--listen", "db1:99", "--to", url)[0] == 2
    assert refusal("--listen", "192.0.2.1:0", "--to", url)[0] == 2
    assert refusal("--recover")[0] == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, err = refusal("--listen", f":{taken.getsockname()[1]}", "--to", url)
        assert code == 2
        assert "ss -ltnp" in err
    code, err = refusal("--listen", ":0", "--to", f"{tmp_path}:5")
    assert code == 6
    assert "pg_isready" in err
    assert list(tmp_path.glob("x.trace*")) == []


def test_a_server_that_went_away_is_reported_to_clients(target, tmp_path):
    gone = tmp_path / ".s.PGSQL.7"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(gone))
        listener.listen()
        command = start_capture(
            "--listen", ":0", "--to", f"{tmp_path}:7", "-o", "t.trace", folder=tmp_path
        )
    with pytest.raises(psycopg.OperationalError, match="cannot reach the server"):
        psycopg.connect(f"host=127.0.0.1 port={command.port} user=x sslmode=disable")
    done = command.end()
    assert done.code == 0
    assert "1 connection: found no server" in done.out


@pytest.mark.parametrize("spare", [6, 7])
def test_clients_beyond_the_descriptors_wait_in_the_backlog(spare, target, tmp_path):
    # A pair takes two: with an odd number left, a client was refused as if there were no server.
    url = target.url("postgres")
    command = start_capture("--listen", ":0", "--to", url, "-o", "t.trace", folder=tmp_path)
    pid = command.process.pid
    limit = max(int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()) + 1 + spare
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
    names = b"user\0" + target.server.address.user.encode() + b"\0\0"
    startup = struct.pack("!II", 8 + len(names), 3 << 16) + names
    clients = [socket.create_connection(("127.0.0.1", command.port), 30) for _ in range(12)]
    for client in clients:
        client.sendall(startup)
    answers = []
    for client in clients:
        answers.append(client.recv(1))
        client.close()
    assert answers == [b"R"] * len(clients)
    assert "found no server" not in command.end().out


def test_a_killed_capture_is_recovered_up_to_its_last_checkpoint(target, tmp_path):
    name = target.make("killed", talk.TABLES)
    at = target.address(name)
    spec = {
        "listen": [{"port": 0}],
        "server": {"host": at.host, "port": at.port},
        "output": str(tmp_path / "t.trace"),
        "checkpoint_s": 1,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, json.dumps(spec)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = process.stdout.readline().rsplit(":", 1)[1].strip()
    dsn = f"host=127.0.0.1 port={port} user={at.user} dbname={name} sslmode=disable"
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(10):
            connection.execute("INSERT INTO person (name) VALUES (%s) RETURNING id", (f"{number}",))
        for _ in range(100):
            if (tmp_path / "t.trace.part.end").exists():
                break
            time.sleep(0.1)
        process.kill()
    process.wait()
    to = f"{at.host}:{at.port}"
    wanted = ("--listen", ":0", "--to", to, "-o", "t.trace")
    again = seatrial("sql", "capture", *wanted, folder=tmp_path)
    assert again.code == 2
    assert "--recover" in again.err
    done = seatrial("sql", "capture", "--recover", "-o", "t.trace", folder=tmp_path)
    assert done.code == 0, done.err
    statements = _core.trace_statements(tmp_path / "t.trace", 0, 100)
    assert [statement["parameters"] for statement in statements] == [
        [f"{number}"] for number in range(10)
    ]
    assert statements[9]["returned"]["rows"] == [["10"]]
