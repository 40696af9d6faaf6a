"""Cache devices in front of real arrays: built, loaded, counted, removed, added again, undone."""

from __future__ import annotations

import mmap
import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from seatrial import _core
from seatrial.machine.signatures import read_signatures
from seatrial.machine.undo_journal import UndoJournal, clean
from seatrial.study.layouts.layout import LayoutSpec, assigned
from seatrial.trials.layouts.build import registry
from seatrial.trials.layouts.build.build import build, destroy, run_steps
from seatrial.trials.layouts.build.caching import cache_of, cache_setup_of

RUN = "20261121-074500-3fa2"
NAME = f"seatrial-{RUN}-1"
BLOCK_BYTES = 64 << 10
BLOCKS = 64
PATIENCE_S = 30
SETTLE_S = 2.0
COLLISIONS_MAX = 2
"""bcache writes what was read after the read has ended."""
KINDS = ("bcache", "dm-cache", "dm-writecache")


def variant(kind: str, backend: str = "single", **more) -> LayoutSpec:
    usual = {"level": "single", "drives": 1, "filesystem": "none", "caches": 1}
    return LayoutSpec(label="cached", name="cached", backend=backend, cache=kind, **usual | more)


def read_blocks(device: str) -> None:
    """Read the same blocks past the page cache."""
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        buffer = mmap.mmap(-1, BLOCK_BYTES)
        for block in range(BLOCKS):
            os.preadv(descriptor, [buffer], block * BLOCK_BYTES)
    finally:
        os.close(descriptor)


def written(device: str) -> bytes:
    """Write the blocks; return them."""
    data = os.urandom(BLOCKS * BLOCK_BYTES)
    with Path(device).open("r+b", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
    return data


def read_back(device: str, length_bytes: int) -> bytes:
    """Read the first bytes; nothing of the page cache."""
    Path("/proc/sys/vm/drop_caches").write_text("1")
    with Path(device).open("rb") as file:
        return file.read(length_bytes)


def hits_after_loads(cache, use) -> float:
    """Read until the device has served some of the reads; return how many."""
    before = cache.read(use)["read_hits"]
    give_up_at_s = time.monotonic() + PATIENCE_S
    while (hits := cache.read(use)["read_hits"] - before) < BLOCKS / 4:
        assert time.monotonic() < give_up_at_s, cache.read(use)
        read_blocks(use.device)
    return hits


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_built_hit_removed_added_cold_and_undone(disks, kind):
    spec = variant(kind)
    registry.require(spec)
    cache = cache_of(spec)
    with UndoJournal(RUN) as journal:
        built = build(spec, assigned(spec, disks[:2]), NAME, journal)
        use = cache_setup_of(built)
        assert (use.below, use.fast, cache.has_cache(use)) == (disks[0], disks[1], True)
        data = written(use.device)
        hits_after_loads(cache, use)
        counts = cache.read(use)
        assert 0 < counts["fill_bytes"] <= cache.capacity_bytes(use) <= 256 << 20
        assert "promotion" in cache.facts(use)
        run_steps(built, cache.remove_steps(use), journal)
        assert not cache.has_cache(use)
        assert read_back(use.device, len(data)) == data, "it is on the array"
        run_steps(built, cache.add_steps(use), journal)
        assert cache.has_cache(use)
        again = cache.read(use)
        assert again["fill_bytes"] <= counts["fill_bytes"]
        read_blocks(use.device)
        hits = cache.read(use)["read_hits"] - again["read_hits"]
        assert hits < BLOCKS / 4, "it begins empty"
        undone = destroy(built, journal)
        assert [each for each in undone if each.outcome != "undone"] == []
    assert [read_signatures(Path(disk)) for disk in disks[:2]] == [[], []]
    assert list(Path("/sys/block").glob("bcache*")) == []


def test_a_bcache_that_ends_while_its_cache_is_detached_is_undone(disks):
    spec = variant("bcache")
    with UndoJournal(RUN) as journal:
        built = build(spec, assigned(spec, disks[:2]), NAME, journal)
        run_steps(built, cache_of(spec).remove_steps(cache_setup_of(built)), journal)
        assert {each.outcome for each in destroy(built, journal)} == {"undone"}
    assert [read_signatures(Path(disk)) for disk in disks[:2]] == [[], []]
    assert list(Path("/sys/block").glob("bcache*")) == []


def access(device: str, begins_bytes: Sequence[int], *, writes: bool = False) -> None:
    """Read or write a block at each offset in a process of its own."""
    child = os.fork()
    if not child:
        descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
        buffer = mmap.mmap(-1, BLOCK_BYTES)
        call = os.pwritev if writes else os.preadv
        for begin_bytes in begins_bytes:
            call(descriptor, [buffer], begin_bytes)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def places_on_device(cache, use, begins_bytes: Sequence[int]) -> set[int]:
    """Which offsets are read from the cache device alone; each is read once."""
    held = set()
    for begin_bytes in begins_bytes:
        before = cache.read(use)["array_reads"]
        access(use.device, [begin_bytes])
        if cache.read(use)["array_reads"] == before:
            held.add(begin_bytes)
    return held


def test_bcache_leaves_the_streams_to_the_disks_that_a_prediction_leaves_to_them(disks):
    """One stream of 40 MiB, whose mean then counts for a few scattered reads of its process.

    What is written is kept.
    """
    spec = variant("bcache")
    stream = [number * BLOCK_BYTES for number in range(640)]
    scattered = [(60 << 20) + number * (5 << 20) for number in range(10)]
    # The mean length of streams is inherited from the parent: short ones make it short first.
    short = [(200 << 20) + number % 20 * (2 << 20) for number in range(60)]
    begins = np.array([*short, *stream, *scattered], np.uint64)
    lengths = np.full(len(begins), BLOCK_BYTES, np.uint64)
    found = _core.stream_bytes(
        begins.data,
        lengths.data,
        np.arange(len(begins), dtype=np.uint64).data,
        np.ones(len(begins), np.int64).data,
    )
    is_short = np.frombuffer(found, np.uint32) < 4 << 20
    with UndoJournal(RUN) as journal:
        built = build(spec, assigned(spec, disks[:2]), NAME, journal)
        use, cache = cache_setup_of(built), cache_of(spec)
        access(use.device, begins.tolist())
        time.sleep(SETTLE_S)
        checked = [*stream[::10], *stream[61:68], *scattered]
        random.Random(5).shuffle(checked)
        held = places_on_device(cache, use, checked)
        written_bytes = [(150 << 20) + number * (5 << 20) for number in range(8)]
        access(use.device, [*short, *written_bytes], writes=True)
        # A read that collides with other work is served by the disks, too.
        assert len(places_on_device(cache, use, written_bytes)) >= 8 - COLLISIONS_MAX
        destroy(built, journal)
    predicted = {int(offset) for offset in begins[is_short]} & set(checked)
    # bcache does not keep a block whose read collides with other work on its tree.
    assert held <= predicted
    assert len(predicted - held) <= COLLISIONS_MAX
    assert 0 < len(predicted & set(scattered)) < len(scattered)
    assert 0 < len(predicted & set(stream)) < len(stream) / 10


@pytest.mark.parametrize("kind", KINDS[:2])
def test_what_a_dead_process_built_is_cleaned_with_a_file_system_on_it(disks, kind):
    spec = variant(kind, filesystem="ext4", cache_mode="writeback")
    journal = UndoJournal(RUN)
    built = build(spec, assigned(spec, disks[:2]), NAME, journal)
    Path(built.folders[0], "data").write_bytes(os.urandom(1 << 20))
    text = journal.path.read_text()
    journal.path.write_text(re.sub(r'"start_ticks":\d+', '"start_ticks":1', text))
    outcomes = {each.kind: each.outcome for each in clean()}
    assert set(outcomes.values()) == {"undone"}, outcomes
    assert sorted(path.name for path in Path("/dev/mapper").iterdir()) == ["control"]
    assert [read_signatures(Path(disk)) for disk in disks[:2]] == [[], []]


def test_a_cache_device_is_in_front_of_an_array(disks):
    spec = variant("bcache", "md", level="raid0", drives=2, member_bytes=64 << 20)
    earlier = LayoutSpec(
        label="earlier", name="earlier", backend="md", level="raid0", drives=2, filesystem="ext4"
    )
    with UndoJournal(RUN) as journal:
        # Its file system leaves a mark in the array that is built next.
        assert destroy(build(earlier, assigned(earlier, disks[:2]), NAME, journal), journal)
        built = build(spec, assigned(spec, disks[:3]), NAME, journal)
        use = cache_setup_of(built)
        assert use.below not in disks
        assert hits_after_loads(cache_of(spec), use) > 0
        undone = destroy(built, journal)
        assert [each for each in undone if each.outcome != "undone"] == []
    assert [read_signatures(Path(disk)) for disk in disks[:3]] == [[], [], []]
