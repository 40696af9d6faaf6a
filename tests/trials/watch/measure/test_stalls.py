"""Stalls: what is one, when it begins and ends, and whose fault it is."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.trials.watch.analysis.events import Stall
from seatrial.trials.watch.measure.blocked import BlockedTask
from seatrial.trials.watch.measure.stalls import DiskReading, StallFinder, StallWatch

FROZEN = "percpu_rwsem_wait"


def task(disk: str, wait: str, since_s: float = 0.0) -> BlockedTask:
    return BlockedTask(7, 7, "postgres", wait, disk, since_s, 3)


def looked(steps: list[tuple[DiskReading, list[BlockedTask]]]) -> list:
    """The stalls that are found in looks at ``sda``, a tenth of a second apart."""
    finder = StallFinder()
    found = []
    for number, (look, tasks) in enumerate(steps):
        found += finder.step(number / 10, {"sda": look}, tasks)
    return found


def test_requests_in_flight_and_none_that_completes_are_a_stall_of_the_device():
    steps = [(DiskReading(5, 0), [])] + [(DiskReading(5, 2), [])] * 6 + [(DiskReading(7, 0), [])]
    found = looked(steps)
    assert (found[0].disk, found[0].cause, found[0].in_flight) == ("sda", "device", 2)
    assert not found[0].is_over
    assert found[-1].is_over
    assert found[-1].length_s == pytest.approx(0.6)
    assert {each.number for each in found} == {1}
    assert "2 requests in flight and none completes" in found[0].text


def test_an_idle_disk_a_busy_one_and_a_short_pause_are_none():
    assert looked([(DiskReading(5, 0), [])] * 20) == []
    assert looked([(DiskReading(number, 8), []) for number in range(20)]) == []
    short = [
        (DiskReading(5, 1), []),
        (DiskReading(5, 1), []),
        (DiskReading(6, 1), []),
        (DiskReading(6, 1), []),
        (DiskReading(7, 0), []),
    ]
    assert looked(short * 3) == []


def test_tasks_that_are_blocked_above_an_idle_disk_are_a_stall_of_the_file_system():
    found = looked([(DiskReading(5, 0), [task("sda", FROZEN)])] * 6 + [(DiskReading(5, 0), [])])
    assert {each.cause for each in found} == {"filesystem"}
    assert "postgres (pid 7) is blocked in percpu_rwsem_wait" in found[0].text
    assert found[-1].is_over


def test_a_frozen_file_system_is_seen_while_its_disk_serves_reads():
    reads = [(DiskReading(number, 1), [task("sda", FROZEN)]) for number in range(8)]
    assert {each.cause for each in looked(reads)} == {"filesystem"}
    # A journal that waits for a disk that is at work is none.
    assert looked([(DiskReading(number, 1), [task("sda", "jbd2_log_wait_commit")])
                   for number in range(8)]) == []  # fmt: skip


def test_a_task_that_is_blocked_while_its_disk_completes_requests_is_none():
    """Its journal waits for 4 s, in which a request completes every 200 ms."""
    waits = [task("sda", "jbd2_log_wait_commit")]
    slow = [(DiskReading(number // 2, 1), waits) for number in range(40)]
    assert looked(slow) == []
    # A stall of 0.6 s begins with the last completion, not when the task was blocked.
    found = looked([*slow, *[(DiskReading(19, 1), waits)] * 5, (DiskReading(20, 1), waits)])
    assert {each.number for each in found} == {1}
    assert (found[-1].is_over, found[-1].length_s) == (True, pytest.approx(0.7))


def test_what_does_not_decide_is_unknown_and_says_what_would_settle_it():
    throttled = looked([(DiskReading(5, 0), [task("sda", "blk_io_schedule")])] * 6)
    assert {each.cause for each in throttled} == {"unknown"}
    assert "io.max" in throttled[0].text
    assert "blkio.throttle" in throttled[0].text
    elsewhere = looked([(DiskReading(5, 0), [task("", FROZEN)])] * 6)
    assert {(each.disk, each.cause) for each in elsewhere} == {("", "unknown")}
    assert "/proc/PID/stack" in elsewhere[0].text


def test_the_second_stall_is_another_one():
    once = [(DiskReading(5, 2), [])] * 6
    found = looked([*once, (DiskReading(7, 0), []), *[(DiskReading(7, 2), [])] * 6])
    assert [each.number for each in found if not each.is_over][-1] == 2


def of_disk(name: str, found: list[Stall]) -> Callable[[Stall], None]:
    """Collects the stalls of a disk; other programs here may have some of disks unknown."""
    return lambda stall: found.append(stall) if stall.disk == name else None


@pytest.fixture
def mounted(disk: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "mounted"
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True)
    subprocess.run(["mount", str(disk), str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.root
def test_a_real_freeze_is_found_within_two_seconds_with_its_cause(disk, mounted):
    found = []
    watch = StallWatch(lambda: [disk.name], of_disk(disk.name, found))
    file = os.open(mounted / "written", os.O_WRONLY | os.O_CREAT)
    child = os.fork()
    if not child:  # a process whose blocked call names its file
        while True:
            os.pwrite(file, b"x", 0)
            os.fsync(file)
            time.sleep(0.01)
    try:
        time.sleep(0.5)
        assert found == []
        subprocess.run(["fsfreeze", "--freeze", str(mounted)], check=True)
        frozen_s = time.time()
        try:
            while not found and time.time() - frozen_s < 5:
                time.sleep(0.02)
            seen_s = time.time() - frozen_s
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(mounted)], check=True)
        assert seen_s < 2
        first = found[0]
        assert (first.disk, first.cause) == (disk.name, "filesystem"), first
        assert f"(pid {child}) is blocked in " in first.text
        give_up_s = time.time() + 5
        while not found[-1].is_over and time.time() < give_up_s:
            time.sleep(0.02)
        assert found[-1].is_over
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(file)
        watch.stop()


@pytest.mark.root
def test_a_device_that_answers_nothing_is_the_cause(mounted):
    """A loop device whose file lies on a frozen file system has requests in flight for ever."""
    backing = mounted / "inner.img"
    backing.write_bytes(b"\1" * (8 << 20))
    made = ["losetup", "--find", "--show", "--direct-io=on", str(backing)]
    inner = Path(subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip())
    found = []
    watch = StallWatch(lambda: [inner.name], of_disk(inner.name, found))
    child = os.fork()
    if not child:
        block = mmap.mmap(-1, 4096)
        file = os.open(inner, os.O_WRONLY | os.O_DIRECT)
        while True:
            os.pwritev(file, [block], 0)
            time.sleep(0.01)
    try:
        time.sleep(0.5)
        assert found == []
        subprocess.run(["fsfreeze", "--freeze", str(mounted)], check=True)
        frozen_s = time.time()
        try:
            while not found and time.time() - frozen_s < 5:
                time.sleep(0.02)
            seen_s = time.time() - frozen_s
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", str(mounted)], check=True)
        assert seen_s < 2
        assert (found[0].disk, found[0].cause, found[0].in_flight) == (inner.name, "device", 1)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        watch.stop()
        subprocess.run(["losetup", "-d", str(inner)], check=True)
