"""What drives did, by the kernel's counts: held against what was done to them."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from seatrial.machine.fingerprint.tree import SystemTree
from seatrial.machine.loop import attach
from seatrial.machine.undo_journal import UndoJournal
from seatrial.study.layouts.layout import DriveRoles
from seatrial.trials.layouts.measure import array as members_module
from seatrial.trials.layouts.measure.array import MemberCounters, roles

BEFORE = "100 5 800 40 50 2 400 30 0 60 70 0 0 0 0 9 3"


@pytest.fixture
def stat(tmp_path, monkeypatch) -> Path:
    """The counts of a drive called ``sdx``, as a test writes them."""
    folder = tmp_path / "sys/class/block/sdx"
    folder.mkdir(parents=True)
    monkeypatch.setattr(members_module, "LIVE", SystemTree(tmp_path))
    monkeypatch.setattr(members_module, "SETTLE_S_MAX", 0.5)
    monkeypatch.setattr(members_module, "IDLE_S", 0.1)
    (folder / "stat").write_text(BEFORE)
    return folder / "stat"


def test_each_count_has_its_unit(stat):
    members = MemberCounters(["/dev/sdx"])
    members.begin()
    stat.write_text("107 5 856 40 62 2 496 30 0 85 99 0 0 0 0 11 3")
    members.end()
    assert members.deltas["/dev/sdx"] == {
        "reads": 7,
        "writes": 12,
        "flushes": 2,
        "read_bytes": 56 * 512,
        "write_bytes": 96 * 512,
        "busy_ns": 25e6,
    }
    assert members.notes == []
    assert 0.1 <= members.settled_s < 0.5


def test_requests_in_flight_are_waited_for_but_not_for_ever(stat):
    members = MemberCounters(["/dev/sdx"])
    members.begin()
    stat.write_text(BEFORE.replace(" 30 0 ", " 30 1 "))
    members.end()
    assert members.settled_s >= 0.5
    assert "were not idle within" in members.notes[0]


def test_an_array_at_work_is_not_waited_for(stat):
    members = MemberCounters(["/dev/sdx"], lambda: True)
    members.begin()
    members.end()
    assert members.settled_s < 0.1
    assert "had background activity" in members.notes[0]


def test_a_drive_that_vanishes_is_named(stat):
    members = MemberCounters(["/dev/sdx"])
    members.begin()
    stat.unlink()
    members.end()
    assert members.deltas == {}
    assert "/dev/sdx" in members.notes[0]


def test_what_the_page_cache_holds_is_written_before_the_load_and_after_a_buffered_one(
    stat, tmp_path, monkeypatch
):
    """What earlier samples left is not this one's, and what this one leaves is."""
    written = []

    def write_back(path):
        written.append(path)
        stat.write_text(BEFORE.replace(" 50 2 400 ", f" {50 + 10 * len(written)} 2 400 "))

    monkeypatch.setattr(members_module, "write_back", write_back)
    for is_buffered, own in ((False, 0), (True, 10)):
        members = MemberCounters(["/dev/sdx"], paths=[str(tmp_path)], is_buffered=is_buffered)
        members.begin()
        members.end()
        assert members.deltas["/dev/sdx"]["writes"] == own
    assert written == [tmp_path] * 3


def test_what_cannot_be_written_back_is_reported(stat, tmp_path):
    members = MemberCounters(["/dev/sdx"], paths=[str(tmp_path / "gone")])
    members.begin()
    assert "could not be flushed" in members.notes[0]


def test_roles_are_reported_by_drive():
    reported = roles(
        DriveRoles(
            legs=[["a", "b"], ["c"]], spares=[["d"], []], logs=["e"], caches=["f"], unused=[]
        )
    )
    assert reported == {
        **{"a": "leg 1", "b": "leg 1", "c": "leg 2", "d": "spare of leg 1"},
        **{"e": "log", "f": "cache"},
    }


@pytest.mark.root
def test_writes_to_a_loop_device_are_counted_one_by_one(tmp_path):
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        pytest.skip("needs root and the kernel's loop devices")
    backing = tmp_path / "backing"
    backing.write_bytes(bytes(1 << 20))
    with UndoJournal("members", tmp_path / "state") as journal:
        loop = attach(backing, journal)
        members = MemberCounters([str(loop.path)])
        members.begin()
        descriptor = os.open(loop.path, os.O_WRONLY | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as block:
            for number in range(10):
                os.pwritev(descriptor, [block], number * 8192)
        os.close(descriptor)
        members.end()
    grown = members.deltas[str(loop.path)]
    assert (grown["writes"], grown["write_bytes"]) == (10, 10 * 4096)
