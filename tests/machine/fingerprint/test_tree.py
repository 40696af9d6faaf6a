"""The one way of reading: files under a root, and commands."""

import os
import time
from pathlib import Path

import pytest
from fake_trees import FakeMachine

from seatrial.machine.fingerprint import SystemTree
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, run_command


def test_what_is_not_there_is_none(machine: FakeMachine) -> None:
    tree = machine.tree
    assert tree.text("/sys/nothing") is None
    assert tree.integer("/sys/nothing") is None
    assert tree.flag("/sys/nothing") is None
    assert tree.resolve("/sys/nothing") is None
    assert tree.block_number("/dev/nothing") is None
    assert tree.mount_id("/nothing") is None
    assert tree.names("/sys/nothing") == []
    assert not tree.exists("/sys/nothing")


def test_a_folder_reads_as_nothing(machine: FakeMachine) -> None:
    machine.folder("/sys/block")
    assert machine.tree.text("/sys/block") is None


@pytest.mark.parametrize(
    ("text", "number"), [("12", 12), ("-1", -1), ("0x1f", 31), ("", None), ("8.0 GT/s", None)]
)
def test_numbers(machine: FakeMachine, text: str, number: int | None) -> None:
    machine.write("/n", text)
    assert machine.tree.integer("/n") == number


def test_an_empty_file_is_no_word(machine: FakeMachine) -> None:
    machine.write("/empty", " ")
    assert machine.tree.text("/empty") == ""
    assert machine.tree.word("/empty") is None


def test_a_read_is_bounded(machine: FakeMachine) -> None:
    machine.write("/long", "x" * 5000)
    assert machine.tree.text("/long", limit_bytes=10) == "x" * 10


def test_a_link_out_of_the_tree_leads_nowhere(machine: FakeMachine) -> None:
    Path(machine.tree.at("/out")).symlink_to("/etc")
    assert machine.tree.resolve("/out") is None


def test_a_pipe_does_not_hang(machine: FakeMachine) -> None:
    os.mkfifo(machine.tree.at("/pipe"))
    started_s = time.monotonic()
    assert machine.tree.text("/pipe") == ""
    assert time.monotonic() - started_s < 1


def test_command_prints_and_ends() -> None:
    done = run_command(["sh", "-c", "echo out; echo err >&2; exit 3"], 5.0)
    assert done == (3, "out\n", "err\n")


def test_command_that_is_missing() -> None:
    with pytest.raises(CommandMissingError):
        run_command(["seatrial-no-such-command"], 5.0)


def test_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    started_s = time.monotonic()
    with pytest.raises(CommandTimeoutError):
        run_command(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 30"], 1.0)
    assert time.monotonic() - started_s < 10
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path(f"/proc/{pid}").exists()


def test_mount_of_a_live_path_is_reported_by_the_kernel() -> None:
    tree = SystemTree()
    identity = tree.mount_id("/proc/self")
    lines = (tree.text("/proc/self/mountinfo") or "").splitlines()
    points = {int(line.split()[0]): line.split()[4] for line in lines}
    assert identity is not None
    assert points[identity] == "/proc"
