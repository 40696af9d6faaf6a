"""dm-dust and dm-delay over drives: bad blocks, drives that fail, delays, and all of it undone."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from seatrial.errors import TargetError
from seatrial.machine.undo_journal import UndoJournal
from seatrial.machine.undoers import UNDOERS
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.trials.layouts.build.failing import can_fail, fail_drive
from seatrial.trials.layouts.build.wrapping import (
    make_bad,
    make_flaky,
    mark_bad,
    with_wrappers,
    wrap,
    wrapping_notes,
    wrapping_obstacle,
)


def spec_of(**more) -> LayoutSpec:
    return LayoutSpec(label="w", name="w", backend="md", level="raid1", drives=2, **more)


def read(device: str, at_bytes: int = 0) -> bytes:
    """Read 4 KiB past the page cache."""
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 4096) as buffer:
            os.preadv(descriptor, [buffer], at_bytes)
            return buffer[:]
    finally:
        os.close(descriptor)


def write(device: str, data: bytes, at_bytes: int = 0) -> None:
    descriptor = os.open(device, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 4096) as buffer:
            buffer[:] = data
            os.pwritev(descriptor, [buffer], at_bytes)
    finally:
        os.close(descriptor)


def test_bad_blocks_fail_until_they_are_written_again(disks):
    assert wrapping_obstacle(spec_of(flaky=True, delay_ms=[1.0, 1.0])) == ""
    with UndoJournal("wraps") as journal:
        over = wrap(disks[:2], spec_of(flaky=True), journal)
        assert list(over) == disks[:2]
        device = over[disks[1]]
        data = os.urandom(4096)
        write(device, data, 8192)
        mark_bad(device, [8192, 40960])
        assert read(device, 8192) == data
        make_bad(device)
        assert read(device, 4096) == bytes(4096)
        for at_bytes in (8192, 40960):
            with pytest.raises(OSError, match="Input/output error"):
                read(device, at_bytes)
        assert read(disks[1], 8192) == data
        write(device, data, 8192)
        assert read(device, 8192) == data
        assert read(over[disks[0]], 40960) == bytes(4096)
    assert not list(Path("/sys/block").glob("dm-*"))
    assert not journal.path.exists()


def test_a_wrapped_drive_fails_for_good(disks):
    with UndoJournal("wraps") as journal:
        over = wrap(disks[:1], spec_of(flaky=True, delay_ms=[0.0]), journal)
        device = over[disks[0]]
        assert can_fail(device)
        assert not can_fail(disks[0])
        fail_drive(device)
        with pytest.raises(OSError, match="Input/output error"):
            read(device)
        with pytest.raises(OSError, match="Input/output error"):
            write(device, bytes(4096))
        with pytest.raises(TargetError, match="does not use dm-dust"):
            make_bad(device)


def test_a_flaky_drive_falters_or_drops_writes_until_that_is_undone(disks):
    with UndoJournal("wraps") as journal:
        device = wrap(disks[:1], spec_of(flaky=True, delay_ms=[0.0]), journal)[disks[0]]
        old, new = os.urandom(4096), os.urandom(4096)
        write(device, old)
        dropping = make_flaky(device, "drop_writes", journal)
        write(device, new)
        assert read(device) == old
        assert journal.undo(dropping).outcome == "undone"
        write(device, new)
        assert read(device) == new
        faltering = make_flaky(device, "falter", journal)
        outcomes = {is_answered(device) for _ in range(25)}
        assert outcomes == {True, False}
        assert journal.undo(faltering).outcome == "undone"
        assert all(is_answered(device) for _ in range(12))
    assert UNDOERS["flaky"].undo(name="cryptroot").outcome == "foreign"
    assert UNDOERS["flaky"].undo(name="seatrial-wraps-1-dust").outcome == "gone"


def is_answered(device: str) -> bool:
    """Read once, a tenth of a second after the last time."""
    time.sleep(0.1)
    try:
        read(device)
    except OSError:
        return False
    return True


def test_each_drive_has_its_delay(disks):
    spec = spec_of(delay_ms=[0.0, 100.0])
    with UndoJournal("wraps") as journal:
        quick, slow = wrap(disks[:2], spec, journal).values()
        assert took_s(quick) < 0.05
        assert 0.1 <= took_s(slow) < 0.2
        with pytest.raises(TargetError, match="does not use dm-dust"):
            make_bad(slow)
    assert wrapping_notes(spec) == []
    assert "12 ms is rounded up" in wrapping_notes(spec_of(delay_ms=[12.0, 100.0]))[0]


def took_s(device: str) -> float:
    started_s = time.monotonic()
    read(device, 4096)
    return time.monotonic() - started_s


def test_drives_take_the_places_of_those_below_them(disks):
    who = assigned(spec_of(spares=1), disks[:4])
    with UndoJournal("wraps") as journal:
        over = wrap(who.used, spec_of(spares=1, flaky=True), journal)
        above = with_wrappers(who, over)
        assert above.legs == [[over[disks[0]], over[disks[1]]]]
        assert above.spares == [[over[disks[2]]]]
        assert above.unused == [disks[3]]
    assert with_wrappers(who, wrap(who.used, spec_of(), journal)) is who


def test_what_is_in_use_or_of_others_is_not_removed(disks):
    undo = UNDOERS["dm"].undo
    with UndoJournal("wraps") as journal:
        device = wrap(disks[:1], spec_of(flaky=True), journal)[disks[0]]
        descriptor = os.open(device, os.O_RDWR)
        name = "seatrial-wraps-1-dust"
        try:
            assert undo(name="cryptroot").outcome == "foreign"
            assert undo(name="seatrial-none-1-dust").outcome == "gone"
        finally:
            os.close(descriptor)
        assert undo(name=name).outcome == "undone"
        assert undo(name=name).outcome == "gone"
