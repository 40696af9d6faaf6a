"""The null server serves pgbench in all its ways, and tells the driver's ceiling."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import psycopg
import pytest

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.trials.database.measure.pgbench_ceiling import ceiling_per_s
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS

from .null_runs import PROGRAMS, needs_pgbench, null_server, pgbench

EVERY_PROGRAM = pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parts[-3])
PROTOCOLS = ("simple", "extended", "prepared")
OWN_SCRIPT = r"""
\set aid random(1, 100000 * :scale)
BEGIN;
SELECT abalance AS old FROM pgbench_accounts WHERE aid = :aid \gset
\set new :old + 1
INSERT INTO t (a, b) VALUES (:aid, 'a;b') RETURNING b \gset own_
UPDATE pgbench_accounts SET abalance = :new WHERE aid = :own_b;
SELECT 1 \; SELECT 2;
END;
"""


@needs_pgbench
@EVERY_PROGRAM
def test_pgbench_s_own_scripts_run_in_every_protocol(program, tmp_path):
    with null_server(tmp_path) as server:
        for script, protocol in itertools.product(BUILTIN_SCRIPTS, PROTOCOLS):
            done = pgbench(program, server, "-b", script, "-M", protocol, "-c3", "-j2", "-t20")
            assert done.returncode == 0, (script, protocol, done.stderr)
            assert "actually processed: 60/60" in done.stdout, (script, protocol)
            assert "scaling factor: 1\n" in done.stdout
            assert "partition" not in done.stdout
            assert "error" not in done.stderr, (script, protocol, done.stderr)


@needs_pgbench
@EVERY_PROGRAM
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_own_scripts_get_their_columns(program, protocol, tmp_path):
    script = tmp_path / "own.sql"
    text = OWN_SCRIPT if protocol == "simple" else OWN_SCRIPT.replace("SELECT 1 \\; ", "")
    script.write_text(text)
    with null_server(tmp_path) as server:
        done = pgbench(program, server, "-f", str(script), "-M", protocol, "-c2", "-t9", "-n")
    assert done.returncode == 0, done.stderr
    assert "actually processed: 18/18" in done.stdout


@needs_pgbench
@EVERY_PROGRAM
def test_pipelines_and_new_connections_are_served(program, tmp_path):
    script = tmp_path / "own.sql"
    script.write_text("\\startpipeline\nBEGIN;\nSELECT 1;\nEND;\n\\endpipeline\n")
    server = _core.NullServer()
    assert server.host == "127.0.0.1"
    done = pgbench(program, server, "-f", str(script), "-M", "prepared", "-C", "-c2", "-t9", "-n")
    server.stop()
    assert done.returncode == 0, done.stderr
    assert server.connections >= 18


def test_a_client_sees_the_version_that_was_requested(tmp_path):
    with (
        null_server(tmp_path, server_version="9.6.24") as server,
        psycopg.connect(host=server.host, port=server.port, user="x", dbname="y") as connection,
    ):
        assert connection.info.server_version == 90624
        assert connection.execute("SHOW server_version_num").fetchone() == (90624,)
        assert connection.execute("SELECT a, 'b' AS c FROM t WHERE d = %s", [7]).fetchall() == [
            (1, 1)
        ]
        assert connection.info.transaction_status.name == "INTRANS"
        connection.commit()
        assert connection.info.transaction_status.name == "IDLE"
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            connection.execute("COPY t TO STDOUT")


def test_a_server_that_is_stopped_or_dropped_is_gone(tmp_path):
    with null_server(tmp_path) as server:
        where = {"host": server.host, "port": server.port, "user": "x", "dbname": "y"}
        psycopg.connect(**where).close()
        server.stop()
        server.stop()
        assert server.cpu_ns > 0
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**where)
    loopback = _core.NullServer()
    where = {"host": loopback.host, "port": loopback.port, "user": "x", "dbname": "y"}
    psycopg.connect(**where).close()
    del loopback
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(**where)


def test_a_bad_place_or_version_is_refused(tmp_path):
    tmp_path.chmod(0o755)
    with pytest.raises(_core.NativeUsageError, match="must have mode 700"):
        _core.NullServer(folder=tmp_path)
    with pytest.raises(_core.NativeTargetError, match="No such file"):
        _core.NullServer(folder=tmp_path / "missing")
    with pytest.raises(_core.NativeDefectError, match="not a version"):
        _core.NullServer(server_version="newest")


@needs_pgbench
@EVERY_PROGRAM
def test_the_ceiling_is_a_rate_and_is_measured_once(program):
    arguments = ["--builtin=select-only", "--protocol=prepared"]
    first = ceiling_per_s(program, arguments, clients=4, threads=2, seconds=0.2)
    assert first > 2000
    assert ceiling_per_s(program, arguments, clients=4, threads=2, seconds=0.2) is first


@needs_pgbench
def test_a_ceiling_that_cannot_be_measured_is_reported(tmp_path):
    script = tmp_path / "copy.sql"
    script.write_text("COPY t FROM STDIN;\n")
    with pytest.raises(TargetError, match="takes no COPY"):
        ceiling_per_s(PROGRAMS[0], ["-f", str(script)], clients=1, threads=1)
    with pytest.raises(TargetError, match="cannot be started"):
        ceiling_per_s(tmp_path / "pgbench", [], clients=1, threads=1)
    with pytest.raises(ValueError, match="1 clients for 2 threads"):
        ceiling_per_s(PROGRAMS[0], [], clients=1, threads=2)


@needs_pgbench
def test_the_socket_lies_in_the_folder_that_goes_with_the_run(tmp_path, monkeypatch):
    made = []
    usual_floor = tempfile.TemporaryDirectory
    monkeypatch.setattr(
        tempfile, "TemporaryDirectory", lambda **how: made.append(how["dir"]) or usual_floor(**how)
    )
    with usual_floor(dir="/tmp") as short:
        long = tmp_path / ("x" * 70)
        long.mkdir()
        for place in (Path(short), long):
            ceiling_per_s(
                PROGRAMS[0], ["-b", "select-only"], clients=1, threads=1, folder=place, seconds=0.1
            )
        assert made[0] == short
        assert made[1] != str(long), "too long for a socket"
