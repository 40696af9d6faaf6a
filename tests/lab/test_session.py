"""One life of the lab from outside: status, words, interrupts, and nothing left by any death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.command import heed_interrupts
from seatrial.errors import TargetError
from seatrial.lab.session import open_lab, run_inside
from seatrial.lab.undoing import lab_processes, undo_lab
from seatrial.machine.undo_journal import clean
from seatrial.machine.undo_result import wait_until
from seatrial.machine.undoers import Outcome
from seatrial.process_identity import start_ticks

DISK_BYTES = 16 << 20
PATIENCE_S = 5.0
BUSY = "trap 'echo told to stop; exit 3' TERM; echo up; while :; do :; done"
"""A process that never sleeps: such a one goes on when what traces it is killed."""
HOLDER = """
import sys
from pathlib import Path
from lab.conftest import lab_machine
from seatrial.lab.session import open_lab, run_inside
shared, command = sys.argv[1:]
with open_lab(lab_machine(), "held", disks=1, disk_bytes=1 << 20, directory=Path(shared)) as lab:
    print("folder", lab.folder.path, flush=True)
    tell = lambda line: print(line, flush=True)
    run_inside(lab, ["/bin/sh", "-c", command], shared=Path(shared), report=tell)
"""


@pytest.fixture(autouse=True)
def state_dir(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(folder))
    return folder


@pytest.fixture
def held(machine, tmp_path):
    """A process that holds a lab in which a command is busy; its folder, when that has begun."""
    heed_interrupts()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), BUSY],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    reported, _, folder = process.stdout.readline().partition(" ")
    assert reported == "folder"
    assert process.stdout.readline() == "up\n"
    yield process, folder.strip()
    process.kill()
    process.communicate()


def running(machine, folder: str) -> list[int]:
    return list(lab_processes(folder, str(machine.program.resolve())))


def kernel_of(machine, folder: str) -> int:
    """The first of them: the oldest, which need not have the lowest number."""
    return min(running(machine, folder), key=lambda pid: start_ticks(pid) or sys.maxsize)


def test_status_words_and_what_is_shared(machine, tmp_path):
    lines: list[str] = []
    script = "echo out; echo err >&2; echo kept >kept; touch /etc/not-kept; exit 7"
    with open_lab(machine, "once", disks=2, disk_bytes=DISK_BYTES, directory=tmp_path) as lab:
        folder = lab.folder.path
        argv = ["/bin/sh", "-c", script]
        assert run_inside(lab, argv, shared=tmp_path, report=lines.append) == 7
        assert [each.stat().st_size for each in lab.disks] == [DISK_BYTES] * 2
    assert [line for line in lines if line] == ["out", "err"]
    assert (tmp_path / "kept").read_text() == "kept\n"
    assert "Linux version" in (tmp_path / "kernel.log").read_text()
    assert not Path("/etc/not-kept").exists()
    assert not folder.exists()
    assert running(machine, str(folder)) == []
    assert clean() == []


def test_kill_9_of_the_command_ends_the_machine(machine, held):
    process, folder = held
    assert running(machine, folder)
    process.kill()
    process.wait()
    assert wait_until(lambda: not running(machine, folder), PATIENCE_S)
    assert {undone.kind for undone in clean()} == {"lab", "file"}
    assert not Path(folder).exists()


def test_kill_9_of_the_keeper_as_well_is_undone_by_clean(machine, held):
    process, folder = held
    main = kernel_of(machine, folder)
    keeper = int(Path(f"/proc/{main}/stat").read_text().rpartition(")")[2].split()[1])
    # The keeper and its ear are killed first, and nobody else knows of the others.
    os.killpg(keeper, signal.SIGKILL)
    for pid in (process.pid, main):
        os.kill(pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    survivors = running(machine, folder)
    outcomes = {undone.kind: undone.outcome for undone in clean()}
    assert outcomes["file"] == Outcome.UNDONE
    assert not survivors or outcomes["lab"] == Outcome.UNDONE
    assert running(machine, folder) == []
    if not survivors:
        pytest.skip("this time no process of the guest outlived its kernel: clean had none to end")


def test_an_interrupt_lets_the_command_end_in_order(machine, held):
    process, folder = held
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=20)[0]
    assert "told to stop\n" in said
    assert "KeyboardInterrupt" in said
    assert running(machine, folder) == []
    assert clean() == []


def test_a_machine_that_is_killed_is_reported_with_its_last_words(machine, tmp_path):
    def kill(line: str) -> None:
        if line == "up":
            os.kill(kernel_of(machine, str(lab.folder.path)), signal.SIGKILL)

    with (
        open_lab(machine, "killed", disks=1, disk_bytes=DISK_BYTES, directory=tmp_path) as lab,
        pytest.raises(TargetError, match="ended before its command") as raised,
    ):
        run_inside(lab, ["/bin/sh", "-c", BUSY], shared=tmp_path, report=kill)
    assert raised.value.seen.endswith("up.")
    assert running(machine, str(lab.folder.path)) == []


def test_only_the_labs_own_processes_are_ended(tmp_path):
    """A person's shell in the lab's folder is not the lab's kernel."""
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as bystander:
        found = undo_lab(folder=str(tmp_path), program="/usr/bin/linux.uml", run_id="x")
        assert found.outcome == Outcome.GONE
        assert bystander.poll() is None
        bystander.kill()


def test_a_folder_that_a_kernels_command_line_cannot_name(machine, tmp_path):
    folder = tmp_path / "two words"
    folder.mkdir()
    with (
        pytest.raises(TargetError, match="TMPDIR"),
        open_lab(machine, "words", disks=1, disk_bytes=DISK_BYTES, directory=folder),
    ):
        pass
