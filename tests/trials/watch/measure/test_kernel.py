"""The programs in the kernel against what was really sent to a disk."""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import reduce
from pathlib import Path

import pytest

from seatrial import _core

pytestmark = pytest.mark.root

BLOCK_BYTES = 4096
READS, WRITES, FLUSHES = 500, 200, 7
SKIPPED_SHARE_MAX = 0.02
"""Some hypervisors' kernels run no BPF while an agent of their own is the current process."""
SOURCES = pytest.mark.parametrize("by_fields", [False, True], ids=["types", "fields"])


def number_of(device: Path) -> tuple[int, int]:
    number = device.stat().st_rdev
    return os.major(number), os.minor(number)


def counters(device: Path) -> list[int]:
    return [int(each) for each in Path(f"/sys/block/{device.name}/stat").read_text().split()]


def load(device: Path) -> None:
    """Send random reads of 4 KiB, random writes of 8 KiB, and flushes."""
    drawn = random.Random(7)
    file = os.open(device, os.O_RDWR | os.O_DIRECT)
    blocks = os.lseek(file, 0, os.SEEK_END) // BLOCK_BYTES - 1
    small, large = (mmap.mmap(-1, size) for size in (BLOCK_BYTES, 2 * BLOCK_BYTES))
    for _ in range(READS):
        os.preadv(file, [small], drawn.randrange(blocks) * BLOCK_BYTES)
    for place in range(WRITES):
        os.pwritev(file, [large], drawn.randrange(blocks) * BLOCK_BYTES)
        if place < FLUSHES:
            os.fdatasync(file)
    os.close(file)


@SOURCES
def test_a_process_waits_for_reads_through_the_page_cache(disk, by_fields):
    # The kernel marks all of them as readahead.
    file = os.open(disk, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    watch = _core.Watch([number_of(disk)], by_fields=by_fields)
    for place in range(50):
        os.pread(file, BLOCK_BYTES, place << 20)
    reads = [each for each in watch.take_groups() if each.operation == "read"]
    watch.stop()
    os.close(file)
    assert sum(each.requests for each in reads) >= 50 * (1 - SKIPPED_SHARE_MAX)
    assert all(each.is_sync for each in reads)


@SOURCES
def test_requests_are_counted_by_operation_and_size_as_the_disk_counts_them(disk, by_fields):
    before = counters(disk)
    watch = _core.Watch([number_of(disk)], by_fields=by_fields)
    load(disk)
    groups = {each.operation: each for each in watch.take_groups() if each.pid == os.getpid()}
    lost = watch.lost()
    grown = [now - then for now, then in zip(counters(disk), before, strict=True)]
    # The disk counts what asks for a flush as a write without data, too.
    assert (grown[0], grown[4], grown[15]) == (READS, WRITES + FLUSHES, FLUSHES)
    counted = [groups[each].requests for each in ("read", "write", "flush")]
    missing = [then - now for then, now in zip((READS, WRITES, FLUSHES), counted, strict=True)]
    most = lost.missed + lost.unmatched + SKIPPED_SHARE_MAX * READS
    assert all(0 <= each <= most for each in missing), missing
    assert (lost.uncounted, lost.unrecorded) == (0, 0)
    # Programs that read fields are skipped while another one runs on the same processor.
    assert by_fields or (lost.missed, lost.unmatched) == (0, 0)
    for operation, length_bytes in (("read", BLOCK_BYTES), ("write", 2 * BLOCK_BYTES)):
        assert groups[operation].length_bytes_min == length_bytes
        assert groups[operation].transferred_bytes == groups[operation].requests * length_bytes
    own_name = Path("/proc/self/comm").read_text().strip()
    assert {each.command for each in groups.values()} == {own_name}
    assert all(each.is_sync and not each.failed for each in groups.values())
    assert watch.take_groups() == []


@SOURCES
def test_a_write_that_carries_a_flush_is_one_write(disk, by_fields):
    """The kernel completes it twice: with its data, and again without after the flush."""
    before = counters(disk)
    watch = _core.Watch([number_of(disk)], by_fields=by_fields)

    def write(thread: int) -> None:
        file = os.open(disk, os.O_RDWR | os.O_DIRECT)
        block = mmap.mmap(-1, BLOCK_BYTES)
        for place in range(WRITES):
            os.pwritev(file, [block], (thread * WRITES + place) * BLOCK_BYTES, os.RWF_DSYNC)
        os.close(file)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    groups, lost = watch.take_groups(), watch.lost()
    watch.stop()
    grown = [now - then for now, then in zip(counters(disk), before, strict=True)]
    writes = [each for each in groups if each.operation == "write"]
    flushes = sum(each.requests for each in groups if each.operation == "flush")
    assert {each.length_bytes_min for each in writes} == {BLOCK_BYTES}
    missing = lost.missed + lost.unmatched + SKIPPED_SHARE_MAX * len(threads) * WRITES
    assert 0 <= len(threads) * WRITES - sum(each.requests for each in writes) <= missing
    # Flushes at the same time are alike to a program that reads fields.
    assert by_fields or 0 <= grown[15] - flushes <= SKIPPED_SHARE_MAX * grown[15]


def test_single_requests_add_up_to_what_is_counted(disk):
    watch = _core.Watch([number_of(disk)], records=True)
    load(disk)
    requests = watch.take_requests()
    groups = watch.take_groups()
    for operation, number in (("read", READS), ("write", WRITES), ("flush", FLUSHES)):
        own = [each for each in requests if each.operation == operation]
        # Where the kernel lacks memory for a group, a request is in that of no process.
        counted = [each for each in groups if each.operation == operation]
        device = reduce(_core.Histogram.merged, (each.device for each in counted))
        assert len(own) == sum(each.requests for each in counted) == device.count
        assert number - SKIPPED_SHARE_MAX * READS <= len(own) <= number
        for name in ("device_ns", "queue_ns"):
            sums = [sum(getattr(each, name) or 0 for each in several) for several in (own, counted)]
            assert sums[0] == sums[1]
        exact = _core.Histogram.of([each.device_ns for each in own])
        for percent in (1, 50, 90, 99, 100):
            expected = exact.percentile_ns(percent)
            assert device.percentile_ns(percent) == pytest.approx(expected, rel=1 / 32)
    times = [each.completed_ns for each in requests]
    assert times == sorted(times)
    assert all(0 <= each.offset_bytes < 64 << 20 for each in requests if each.length_bytes)


BY_PROCESSES = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = memoryview(mmap.mmap(-1, 1 << 20))
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        for octave in range(12, 20):
            os.preadv(file, [buffer[: 1 << octave]], 0)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Reads of eight sizes by each of so many processes, from a small one, whose forks are quick."""


def read_by_processes(device: Path, processes: int) -> int:
    command = [sys.executable, "-S", "-c", BY_PROCESSES, str(device), str(processes)]
    subprocess.run(command, check=True)
    return processes * 8


@SOURCES
def test_more_groups_than_the_table_has_are_counted_and_recorded(disk, by_fields):
    """600 processes of eight sizes: 4,800 groups in a table of 4,096, until they have ended."""
    watch = _core.Watch([number_of(disk)], records=True, by_fields=by_fields)
    sent = read_by_processes(disk, 600)
    requests, groups = watch.take_requests(), watch.take_groups()
    lost = watch.lost()
    assert (lost.uncounted, lost.unrecorded) == (0, 0)
    assert len(requests) >= sent * (1 - SKIPPED_SHARE_MAX) - lost.missed - lost.unmatched
    assert sum(each.requests for each in groups) == len(requests)
    unnamed = [each for each in groups if not each.pid and not each.command]
    assert sum(each.requests for each in unnamed) >= len(requests) - 4096 > 0
    assert {each.length_bytes_min for each in unnamed} == {1 << octave for octave in range(12, 20)}
    # A look later, the groups of ended processes have made room.
    assert watch.take_groups() == []
    read_by_processes(disk, 100)
    later = watch.take_groups()
    watch.stop()
    assert sum(each.requests for each in later) >= 800 * (1 - SKIPPED_SHARE_MAX) - lost.missed
    # The kernel may lack memory for a group at times, more often on a busy machine. In a table
    # without room none would be named.
    assert sum(each.requests for each in later if each.pid) >= 400 - lost.missed


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: apt-get install fio")
def test_a_fast_load_is_counted_as_fio_and_the_disk_count_it(disk):
    before = counters(disk)
    watch = _core.Watch([number_of(disk)], records=True)
    job = ["--name=mixed", f"--filename={disk}", "--direct=1", "--ioengine=libaio"]
    load = ["--rw=randrw", "--rwmixread=70", "--bssplit=4k/60:8k/40", "--iodepth=32"]
    timed = ["--runtime=1", "--time_based", "--output-format=json"]
    fio = subprocess.Popen(["fio", *job, *load, *timed], stdout=subprocess.PIPE)
    recorded: Counter[str] = Counter()
    while fio.poll() is None:
        time.sleep(0.05)
        recorded.update(each.operation for each in watch.take_requests())
    recorded.update(each.operation for each in watch.take_requests())
    counted: Counter[str] = Counter()
    for each in watch.take_groups():
        counted[each.operation] += each.requests
    (found,) = json.loads(fio.communicate()[0])["jobs"]
    lost = watch.lost()
    assert (lost.unmatched, lost.uncounted, lost.missed) == (0, 0, 0)
    grown = [now - then for now, then in zip(counters(disk), before, strict=True)]
    for operation, place in (("read", 0), ("write", 4)):
        requests, merged = grown[place : place + 2]
        assert requests * (1 - SKIPPED_SHARE_MAX) <= counted[operation] <= requests
        assert requests + merged >= found[operation]["total_ios"]  # others may look at the disk
    assert recorded.total() + lost.unrecorded == counted.total()


def test_other_disks_are_left_out(disk, tmp_path):
    watch = _core.Watch([(7, 250)], records=True)
    load(disk)
    assert watch.take_groups() == []
    assert watch.take_requests() == []


def test_a_stopped_watch_sees_nothing(disk):
    watch = _core.Watch([number_of(disk)])
    watch.stop()
    load(disk)
    assert watch.take_groups() == []
