"""What clean makes of servers that were left behind, and of processes that are none of ours."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.machine.undo_result import wait_until
from seatrial.postgres import server_processes
from seatrial.postgres.account import account_with_name
from seatrial.postgres.cluster import create_cluster
from seatrial.postgres.connection import connect
from seatrial.postgres.memory import (
    mapped_by,
    read_header,
    remove_dynamic_memory,
    segments_mapped_by,
)
from seatrial.postgres.server_processes import (
    PidFile,
    end_server,
    kill_server,
    read_pid_file,
    remove_segments,
    server_pids,
)
from seatrial.postgres.undoing import undo_server, undo_socket_folder
from seatrial.process_identity import start_ticks

START = """
    import sys, time
    from pathlib import Path
    from seatrial.postgres.account import account_for
    from seatrial.postgres.binaries import find_binaries
    from seatrial.postgres.cluster import Cluster, create_cluster
    from seatrial.machine.undo_journal import UndoJournal

    journal = UndoJournal("killed")
    binaries = find_binaries(Path(sys.argv[2]))
    folder = Path(sys.argv[1])
    account = account_for(folder, binaries)
    cluster = Cluster(folder=folder, binaries=binaries, account=account, journal=journal)
    {trap}
    server = cluster.start({{}})
    print(server.address.host, flush=True)
    time.sleep(60)
"""


def segments(uid: int) -> list[str]:
    """The System V shared memory that a user made, by number."""
    return [number for number, _maker in segments_by_maker(uid)]


def segments_by_maker(uid: int) -> list[tuple[str, int]]:
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [
        (line.split()[1], int(line.split()[4])) for line in lines if line.split()[9] == str(uid)
    ]


def place(cluster) -> list[str]:
    return [str(cluster.folder), str(cluster.binaries.folder)]


def reported(undone):
    return [(each.kind, each.outcome) for each in undone]


def test_kill_minus_9_of_seatrial_leaves_no_server_after_clean(template, cluster, child, state_dir):
    process = child(START.format(trap=""), *place(cluster))
    socket_folder = Path(process.stdout.readline().strip())
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    family = server_pids(cluster.folder)
    written = read_pid_file(cluster.folder)
    assert len(family) > 3, "the server lives on without seatrial"
    assert socket_folder.is_dir()
    assert reported(clean(dry_run=True)) == [("server", "pending"), ("socket_folder", "pending")]
    assert server_pids(cluster.folder) == family
    assert reported(clean()) == [("server", "undone"), ("socket_folder", "undone")]
    assert server_pids(cluster.folder) == []
    assert [start_ticks(pid) for pid in family] == [None] * len(family)
    assert not socket_folder.exists()
    assert written.segment is not None
    assert str(written.segment[1]) not in segments(cluster.account.uid)
    assert clean() == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_while_the_server_starts_is_cleaned_too(cluster, child, state_dir, moment):
    """The child kills itself right before or right after the postmaster is started."""
    trap = f"""
    import os, signal
    from seatrial.postgres.account import Account
    start = Account.popen

    def trapped(self, *args, **kwargs):
        if {moment == "after"}:
            start(self, *args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    Account.popen = trapped
"""
    process = child(START.format(trap=trap), *place(cluster))
    assert process.wait(20) == -signal.SIGKILL
    expected = "undone" if moment == "after" else "gone"
    assert reported(clean()) == [("server", expected), ("socket_folder", "undone")]
    assert server_pids(cluster.folder) == []


def test_orphans_of_a_postmaster_that_died_are_ended(cluster):
    server = cluster.start({})
    with contextlib.closing(connect(server.address)) as connection:
        backend = connection.info.backend_pid
        # A process that hangs does not notice that its postmaster died.
        os.kill(backend, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait(10)
        assert backend in server_pids(cluster.folder)
        found = undo_server(data_folder=str(cluster.folder), run_id="run1")
    assert found.outcome == "undone"
    assert start_ticks(backend) is None
    assert undo_server(data_folder=str(cluster.folder), run_id="run1").outcome == "gone"


@pytest.fixture
def unburied():
    """Orphans become this process's own and stay zombies, as under an init that is late."""
    # PR_SET_CHILD_SUBREAPER of prctl(2).
    assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
    yield
    assert ctypes.CDLL(None).prctl(36, 0, 0, 0, 0) == 0
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def test_a_server_that_is_dead_and_not_buried_hinders_no_next_one(cluster, child, unburied):
    process = child(START.format(trap=""), *place(cluster))
    process.stdout.readline()
    process.kill()
    process.wait(10)
    written = read_pid_file(cluster.folder)
    # It cannot end by itself, so that it leaves its pid file.
    os.kill(written.pid, signal.SIGSTOP)
    assert end_server(cluster.folder, patience_s=0.5)
    os.kill(written.pid, 0)
    with cluster.start({}) as server:
        assert server.pid != written.pid


@pytest.fixture
def bystander(tmp_path):
    """A process that works in what could be a data folder, and is not a server."""
    (tmp_path / "mine").mkdir()
    process = subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path / "mine", stdin=-1)
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_number_that_was_given_anew_is_never_hit(bystander, monkeypatch, is_hidden):
    folder = Path(f"/proc/{bystander.pid}/cwd").readlink()
    lines = [bystander.pid, folder, int(time.time()), 5432, "/tmp", "", "1 2", "ready   "]
    (folder / "postmaster.pid").write_text("\n".join(str(line) for line in lines) + "\n")
    if is_hidden:
        hide(monkeypatch)
    assert server_pids(folder) == []
    assert undo_server(data_folder=str(folder), run_id="run1").outcome == "gone"
    assert kill_server(folder)
    assert bystander.poll() is None


def hide(monkeypatch):
    """Make every process's working folder invisible, as to a root without CAP_SYS_PTRACE."""
    readlink = Path.readlink

    def hidden(path):
        if str(path).startswith("/proc/") and path.name in ("cwd", "exe"):
            raise PermissionError(13, "Permission denied")
        return readlink(path)

    monkeypatch.setattr(Path, "readlink", hidden)


def test_where_working_folders_are_hidden_the_pid_file_leads_to_the_server(cluster, monkeypatch):
    server = cluster.start({})
    family = set(server_pids(cluster.folder))
    hide(monkeypatch)
    assert set(server_pids(cluster.folder)) == family
    text = (cluster.folder / "postmaster.pid").read_text()
    lines = text.splitlines()
    lines[2] = str(int(lines[2]) - 3600)
    (cluster.folder / "postmaster.pid").write_text("\n".join(lines))
    assert server_pids(cluster.folder) == [], "the number was another process's an hour ago"
    (cluster.folder / "postmaster.pid").write_text(text)
    assert end_server(cluster.folder)
    assert server.process.wait(5) is not None
    monkeypatch.undo()
    assert server_pids(cluster.folder) == []


def test_a_segment_that_is_not_the_dead_server_s_is_left_alone(cluster):
    with cluster.start({}) as server:
        written = read_pid_file(cluster.folder)
        assert written is not None
        assert written.segment is not None
        _key, number = written.segment
        remove_segments(cluster.folder)
        assert str(number) in segments(cluster.account.uid), "its server runs"
        pid_file = cluster.folder / "postmaster.pid"
        text = pid_file.read_text()
        pid_file.write_text(text.replace(str(server.pid), str(server.pid + 1), 1))
        remove_segments(cluster.folder)
        pid_file.write_text(text)
        assert str(number) in segments(cluster.account.uid), "another process made it"


def somebody_kills_it_whole(server, folder):
    for pid in [server.pid, *server_pids(folder)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.process.wait(10)
    assert wait_until(lambda: not server_pids(folder), 10)
    assert undo_server(data_folder=str(folder), run_id="run1").outcome == "gone"


@pytest.mark.parametrize("kill", [lambda server, _folder: server.kill(), somebody_kills_it_whole])
def test_a_killed_server_leaves_no_segment_though_no_pid_file_names_it(cluster, kill):
    """A power cut takes the pid file with it, and a server names its segment late in it."""
    server = cluster.start({})
    try:
        (number,) = {
            number for pid in server_pids(cluster.folder) for number in segments_mapped_by(pid)
        }
        assert str(number) in segments(cluster.account.uid)
        (cluster.folder / "postmaster.pid").unlink()
        kill(server, cluster.folder)
        assert str(number) not in segments(cluster.account.uid)
    finally:
        end_server(cluster.folder)


def test_a_segment_with_the_key_of_another_folder_s_inode_is_left_alone(cluster, tmp_path):
    """Inode numbers are the same on two file systems: what the segment itself says decides."""
    server = cluster.start({})
    try:
        written = read_pid_file(cluster.folder)
        key, number = written.segment
        head = read_header(number)
        folder = cluster.folder.stat()
        assert key & 0xFFFFFFFF == folder.st_ino & 0xFFFFFFFF
        assert (head.device, head.inode) == (folder.st_dev, folder.st_ino)
        dead = server_processes._Segment(
            key=key & 0xFFFFFFFF, number=number, creator_pid=0, attached=0, uid=folder.st_uid
        )
        assert server_processes._is_of_folder(dead, folder)
        elsewhere = os.stat_result([*folder[:2], folder.st_dev + 1, *folder[3:]])
        assert not server_processes._is_of_folder(dead, elsewhere)
    finally:
        server.stop()


@pytest.mark.parametrize("text", ["", "12\n", "x\n/d\n1\n", "12\n/d\n"])
def test_a_pid_file_that_is_half_written_says_nothing(tmp_path, text):
    (tmp_path / "postmaster.pid").write_text(text)
    assert read_pid_file(tmp_path) is None


@pytest.mark.parametrize("delay_s", [0.01, 0.03, 0.1, 0.3, 0.6])
def test_whenever_initdb_is_ended_nothing_is_left(
    template, tmp_path, journal, monkeypatch, delay_s
):
    monkeypatch.setattr("seatrial.postgres.cluster._INITDB_TIMEOUT_S", delay_s)
    uid = account_with_name(template.account).uid
    with contextlib.suppress(TargetError):
        create_cluster(tmp_path / "data", template.binaries, template.account, journal)
    assert server_pids(tmp_path / "data") == []
    pid_file = read_pid_file(tmp_path / "data")
    left = {
        number for number, maker in segments_by_maker(uid) if pid_file and maker == pid_file.pid
    }
    assert left == set()


def test_a_pid_file_of_a_process_without_a_postmaster_is_read(tmp_path):
    (tmp_path / "postmaster.pid").write_text("-12\n/d\n34\n5432\n\n\n56 78\n")
    expected = PidFile(pid=12, started_s=34, segment=(56, 78), is_ready=False)
    assert read_pid_file(tmp_path) == expected


def test_a_socket_folder_is_removed_only_if_it_is_ours(tmp_path):
    ours = tmp_path / "seatrial-pg-0123"
    assert undo_socket_folder(path=str(ours)).outcome == "gone"
    ours.mkdir()
    (ours / ".s.PGSQL.5432.lock").touch()
    assert undo_socket_folder(path=str(ours)).outcome == "undone"
    ours.mkdir()
    (ours / "letter.txt").touch()
    assert undo_socket_folder(path=str(ours)).outcome == "foreign"
    other = tmp_path / "other"
    other.mkdir()
    assert undo_socket_folder(path=str(other)).outcome == "foreign"
    (tmp_path / "seatrial-pg-link").symlink_to(other)
    assert undo_socket_folder(path=str(tmp_path / "seatrial-pg-link")).outcome == "foreign"
    assert (ours / "letter.txt").exists()


def test_a_process_that_cannot_be_killed_stays_recorded(cluster, journal, monkeypatch):
    entry = journal.record("server", data_folder=str(cluster.folder), run_id="run1")
    with cluster.start({}):
        with monkeypatch.context() as patch:
            patch.setattr(server_processes, "_signal", lambda *_arguments: None)
            patch.setattr(server_processes, "wait_until", lambda condition, patience_s: condition())
            assert journal.undo(entry).outcome == "failed"
        assert UndoJournal("run1").path.exists()


def seatrial_kills(server, folder):
    server.kill()


def somebody_kills(server, folder):
    """All processes end by themselves as their first one is gone: none is left that shows files."""
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait(10)
    assert wait_until(lambda: not server_pids(folder), 10)
    assert end_server(folder)


@pytest.mark.parametrize("kill", [seatrial_kills, somebody_kills])
def test_a_killed_server_leaves_no_dynamic_shared_memory(cluster, kill):
    server = cluster.start({"dynamic_shared_memory_type": "posix"})
    try:
        with connect(server.address) as connection:
            connection.execute("SELECT count(*) FROM lines")
            pids = server_pids(cluster.folder)
            made = {Path(path) for pid in pids for path in mapped_by(pid)}
        assert len(made) >= 2, "a list of them, and what is on it"
        assert all(path.exists() for path in made)
        kill(server, cluster.folder)
        assert not [path for path in made if path.exists()]
    finally:
        end_server(cluster.folder)


def test_the_dynamic_memory_of_a_server_that_runs_is_left_alone(cluster):
    with cluster.start({}) as server:
        remove_segments(cluster.folder)
        assert server.shared_memory
        assert all(Path(path).exists() for path in server.shared_memory)


def test_what_is_no_list_of_dynamic_memory_is_removed_alone(tmp_path):
    for number, data in enumerate([b"", b"PostgreSQL", bytes(64), b"\x32\x3d\x50\x9a" * 16]):
        path = tmp_path / str(number)
        path.write_bytes(data)
        remove_dynamic_memory([str(path), str(tmp_path / "missing")])
        assert not path.exists()
