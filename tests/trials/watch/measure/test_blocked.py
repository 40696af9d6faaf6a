"""Which tasks are blocked by storage, and on which disk, by what /proc says of them."""

from __future__ import annotations

import os

import pytest

from seatrial.trials.watch.measure import blocked
from seatrial.trials.watch.measure.blocked import blocked_tasks

MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
36 21 8:17 / /data rw - ext4 /dev/sdb1 rw
"""
pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the numbers of system calls are those of x86-64"
)


def found(monkeypatch, call: str, *, state: str = "D", wait: str = "", parent: int = 1) -> list:
    """The blocked tasks of a machine with one process, which has open files on both disks."""
    stat = f"70 (my (d) b) {state} {parent} " + " ".join(["0"] * 15) + " 1 0"
    files = {
        "/proc/70/stat": stat,
        "/proc/70/task/70/stat": stat,
        "/proc/70/task/70/status": "voluntary_ctxt_switches:\t5\n",
        "/proc/70/task/70/wchan": wait,
        "/proc/70/task/70/syscall": call,
        "/proc/70/task/70/mountinfo": MOUNTS,
        "/proc/70/task/70/fdinfo/3": "pos:\t0\nmnt_id:\t36\n",
        "/proc/70/task/70/fdinfo/4": "pos:\t0\nmnt_id:\t21\n",
    }
    folders = {"/proc": [70], "/proc/70/task/70/fdinfo": [0, 1, 2, 3, 4]}
    monkeypatch.setattr(blocked, "_text", lambda path: files.get(path, ""))
    monkeypatch.setattr(blocked, "_numbers", lambda path: folders.get(path, []))
    disks = {os.makedev(8, 1): "sda", os.makedev(8, 17): "sdb"}
    monkeypatch.setattr(blocked, "_disk_name", lambda device: disks[device])
    return [*blocked_tasks(7.0, {}, set())]


PWRITE = "18 0x3 0x0 0x1000 0x0 0x0 0x0 0x7f 0x7f"


def test_the_file_of_the_call_says_which_disk(monkeypatch):
    (task,) = found(monkeypatch, PWRITE, wait="percpu_rwsem_wait")
    assert (task.pid, task.command, task.disk) == (70, "my (d) b", "sdb")
    assert (task.wait, task.since_s, task.switches) == ("percpu_rwsem_wait", 7.0, 5)


def test_a_path_does_not_where_files_are_on_several(monkeypatch):
    (task,) = found(monkeypatch, "257 0xffffff9c 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f")
    assert task.disk == ""


@pytest.mark.parametrize("call", ["58 0x0 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f",
                                  "231 0x0 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f"])  # fmt: skip
def test_a_call_that_is_about_no_file_is_left_out(monkeypatch, call):
    assert found(monkeypatch, call) == []  # vfork waits for the child, uninterruptibly


def test_who_waits_for_no_storage_is_left_out(monkeypatch):
    assert found(monkeypatch, PWRITE, wait="__refrigerator") == []
    assert found(monkeypatch, PWRITE, state="S") == []
    assert found(monkeypatch, PWRITE, parent=2) == []


def test_what_may_not_be_read_is_unknown(monkeypatch):
    (task,) = found(monkeypatch, "")
    assert (task.wait, task.disk) == ("", "")


def test_a_task_that_has_not_run_meanwhile_keeps_its_beginning(monkeypatch):
    (task,) = found(monkeypatch, PWRITE)
    (later,) = blocked_tasks(9.0, {70: task}, set())
    assert later is task
