"""The machine's processes share one processor, and seatrial itself keeps all of its own."""

from __future__ import annotations

import os

import pytest

from seatrial.lab.session import idle_ticks, idlest, on_one_processor, open_lab, run_inside
from seatrial.lab.undoing import lab_processes
from seatrial.machine.fingerprint.tree import SystemTree

STAT = """cpu  30 0 9 700 50 0 0 2 0 0
cpu0 10 0 5 300 20 0 0 1 0 0
cpu11 20 0 4 400 30 0 0 1 0 0
intr 5 4 3
ctxt 77
"""


def test_idle_time_is_read_of_each_processor(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(STAT)
    assert idle_ticks(SystemTree(tmp_path)) == {0: 320, 11: 430}
    assert idle_ticks(SystemTree(tmp_path / "empty")) == {}


def test_a_thread_is_on_one_of_its_processors_and_on_all_of_them_again():
    allowed = os.sched_getaffinity(0)
    with on_one_processor():
        own = os.sched_getaffinity(0)
    assert len(own) == 1
    assert own <= allowed
    assert os.sched_getaffinity(0) == allowed


def test_where_processors_cannot_be_chosen_all_goes_on(monkeypatch):
    def refuse(*_any):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with on_one_processor():
        pass


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({0: 110, 1: 200, 2: 109}, [0, 2]),
        ({0: 101, 1: 200, 2: 110}, [2]),
        ({0: 100, 1: 200, 2: 100}, [0, 2]),
        ({}, [0, 2]),
    ],
)
def test_of_the_processors_allowed_those_that_rested_most_are_chosen(after, expected):
    before = dict.fromkeys(after, 100)
    assert idlest(before, after, {0, 2}) == expected


def test_all_processes_of_a_lab_are_on_the_same_processor(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    allowed = os.sched_getaffinity(0)
    seen: list[set[int]] = []

    with open_lab(machine, "pinned", disks=1, disk_bytes=1 << 20, directory=tmp_path) as lab:

        def look(_line: str) -> None:
            found = lab_processes(str(lab.folder.path), str(machine.program.resolve()))
            seen.extend(os.sched_getaffinity(pid) for pid in found)

        run_inside(lab, ["/bin/sh", "-c", "echo up; sleep 1"], shared=tmp_path, report=look)
    assert len(seen) > 1
    assert all(len(each) == 1 and each == seen[0] for each in seen)
    assert os.sched_getaffinity(0) == allowed
