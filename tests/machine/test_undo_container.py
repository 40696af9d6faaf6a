"""Journals of processes in other namespaces of this machine, which are killed by kill -9."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from machine.test_undo import outcomes
from seatrial import process_identity
from seatrial.fleet import undoing
from seatrial.fleet.undoing import STATE
from seatrial.machine.undo_journal import UndoJournal, clean, state_folder
from seatrial.process_identity import INITIAL_NAMESPACE, OwnerProcess

pytestmark = pytest.mark.root

MAKE_FOLDERS = """
    import os, sys, time
    from seatrial.machine.file import TrialFolder
    from seatrial.machine.undo_journal import UndoJournal

    journal = UndoJournal("run1")
    for directory in sys.argv[1:]:
        TrialFolder(directory, "run1", journal).open(0, direct=False).file("log").write_bytes(b"x")
    print("ready", flush=True)
    time.sleep(60)
"""
NOBODY = 65534
AHEAD_S = 1000
"""So much longer than on the machine a host runs by its own clock."""


@pytest.fixture(autouse=True)
def _needs():
    if os.geteuid() != 0:
        pytest.skip("needs root for namespaces")
    if str(Path("/proc/self/ns/pid").readlink()) != INITIAL_NAMESPACE:
        pytest.skip("needs to see all process namespaces, as outside of a container")


@pytest.fixture
def contained():
    """Start a host of its own name, processes, mounts and clocks, with what it runs before."""
    started: list[subprocess.Popen[str]] = []

    def start(before: str, *places: Path, state: Path) -> subprocess.Popen[str]:
        spaces = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--time"]
        clocks = ["--monotonic", str(AHEAD_S), "--boottime", str(AHEAD_S)]
        script = f'hostname ship && {before} && exec "$@"'
        program = [sys.executable, "-c", textwrap.dedent(MAKE_FOLDERS), *map(str, places)]
        process = subprocess.Popen(
            ["unshare", *spaces, *clocks, "sh", "-c", script, "sh", *program],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "SEATRIAL_STATE_DIR": str(state),
            },
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def end(process: subprocess.Popen[str]) -> None:
    """Kill a host; its output ends with the last of its processes."""
    process.kill()
    process.communicate()


def test_what_a_killed_container_left_is_undone_where_all_processes_are_seen(contained, tmp_path):
    process = contained("true", tmp_path, state=state_folder())
    folder = tmp_path / ".seatrial-run1"
    assert outcomes(clean()) == ["running"]
    assert folder.exists()
    end(process)
    assert outcomes(clean()) == ["undone"]
    assert not folder.exists()
    assert clean() == []


def test_inside_a_container_nothing_is_said_of_another(contained, tmp_path, monkeypatch):
    process = contained("true", tmp_path, state=state_folder())
    end(process)
    monkeypatch.setattr(process_identity, "INITIAL_NAMESPACE", "pid:[1]")
    (found,) = clean()
    assert found.outcome == "failed"
    assert "on another host or in another container (ship, pid:[" in found.detail
    assert (tmp_path / ".seatrial-run1").exists()


def owner_of_journal() -> OwnerProcess:
    (path,) = state_folder().glob("*.jsonl")
    return msgspec.convert(json.loads(path.read_text().splitlines()[0])["owner"], OwnerProcess)


def test_who_may_not_see_all_processes_says_nothing_of_another_container(contained, tmp_path):
    contained("true", tmp_path, state=state_folder())
    owner = owner_of_journal()
    assert owner.state() == "alive"
    os.seteuid(NOBODY)
    try:
        assert owner.state() == "elsewhere"
    finally:
        os.seteuid(0)


def test_a_number_that_is_used_again_is_another_process(contained, tmp_path):
    """The namespace of a journal that was written before has a process of the same number."""
    process = contained("true", tmp_path, state=state_folder())
    owner = owner_of_journal()
    earlier = msgspec.structs.replace(owner, start_ticks=owner.start_ticks - 100)
    assert (owner.state(), earlier.state()) == ("alive", "dead")
    end(process)
    assert owner.state() == "dead"


def test_what_lies_in_a_file_system_of_a_container_is_not_said_to_be_gone(contained, tmp_path):
    own, point = tmp_path / "own", tmp_path / "point"
    own.mkdir()
    point.mkdir()
    process = contained(f"mount --bind {own} {point}", point, tmp_path, state=state_folder())
    end(process)
    assert [each.outcome for each in clean()] == ["undone", "failed"]
    assert (own / ".seatrial-run1").exists()
    (again,) = clean()
    assert again.subject == str(point / ".seatrial-run1")
    assert again.detail.startswith(f"the file system of {point} is not mounted")


def test_a_lab_undoes_what_its_killed_hosts_left(contained, tmp_path, monkeypatch):
    lab, point = tmp_path / "lab", tmp_path / "point"
    own, state = lab / "host1/disk0", lab / f"host1/{STATE}"
    own.mkdir(parents=True)
    point.mkdir()
    process = contained(f"mount --bind {own} {point}", point, tmp_path, state=state)
    journal = UndoJournal("lab")
    entry = journal.record("fleet_folder", path=str(lab))
    journal.amend(entry, own_paths=[str(point)])
    with monkeypatch.context() as impatient:
        impatient.setattr(undoing, "wait_until", lambda condition: condition())
        left = journal.undo(entry)
    assert (left.outcome, own.exists()) == ("failed", True), "while it runs"
    assert "is still running" in left.detail
    process.kill()
    done = journal.undo(entry)
    assert (done.outcome, done.detail) == ("undone", "removed, after 1 changes of its hosts")
    assert not lab.exists()
    assert not (tmp_path / ".seatrial-run1").exists()
