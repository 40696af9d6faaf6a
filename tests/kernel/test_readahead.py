"""The simulated page cache holds the pages that the kernel's holds after the same reads."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from seatrial import _core
from seatrial.machine.fingerprint.medium import read_ahead_bytes

pytestmark = pytest.mark.root

PAGE = mmap.PAGESIZE
PAGES = 4096
READ_PAGES = 2  # a page of a database
SETTLED_S = 5.0
FEW_SHARE = 0.005  # for what the kernel drops on a busy machine
TRIES = 10  # other tests drop the whole page cache

Read = tuple[int, int]
"""An open file and the first page."""


def in_order() -> Iterator[Read]:
    yield from ((0, page) for page in range(100, 1000, READ_PAGES))


def from_the_first_page() -> Iterator[Read]:
    yield from ((0, page) for page in range(0, 30, READ_PAGES))


def at_random() -> Iterator[Read]:
    dice = random.Random(1)
    yield from ((0, dice.randrange(PAGES // 2) * 2) for _ in range(200))


def two_files_in_turns() -> Iterator[Read]:
    dice = random.Random(2)
    at = [500, 2501]
    for _ in range(500):
        file = dice.randrange(2)
        yield file, at[file]
        at[file] += READ_PAGES


def in_order_with_detours() -> Iterator[Read]:
    dice = random.Random(3)
    for page in range(1000, 2000, READ_PAGES):
        if dice.random() < 0.2:
            yield 0, dice.randrange(PAGES // 2) * 2
        yield 0, page


def backwards() -> Iterator[Read]:
    yield from ((0, page) for page in range(2000, 1000, -READ_PAGES))


def with_gaps() -> Iterator[Read]:
    yield from ((0, page) for page in range(100, 1500, 2 * READ_PAGES))


def runs() -> Iterator[Read]:
    dice = random.Random(4)
    for nth in range(40):
        first = dice.randrange(PAGES // 2 - 40) * 2
        yield from ((nth % 3, first + READ_PAGES * k) for k in range(dice.randrange(1, 30)))


class Cached:
    """A file of a file system, by three open files."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(os.urandom(PAGE) * PAGES)
        self.files = [os.open(path, os.O_RDONLY) for _ in range(3)]
        os.fsync(self.files[0])
        os.posix_fadvise(self.files[0], 0, 0, os.POSIX_FADV_DONTNEED)
        self._mapped = mmap.mmap(self.files[0], PAGES * PAGE, mmap.MAP_PRIVATE)

    def __enter__(self) -> Cached:
        return self

    def __exit__(self, *_: object) -> None:
        self._mapped.close()
        for file in self.files:
            os.close(file)

    def read(self, file: int, page: int) -> None:
        assert len(os.pread(self.files[file], READ_PAGES * PAGE, page * PAGE)) == READ_PAGES * PAGE

    def pages(self) -> np.ndarray:
        """The pages in the cache, once none is on its way."""
        found = self._held()
        until_s = time.monotonic() + SETTLED_S
        while time.monotonic() < until_s:
            time.sleep(0.02)
            before, found = found, self._held()
            if np.array_equal(before, found):
                break
        return found

    def _held(self) -> np.ndarray:
        length = ctypes.c_size_t(PAGES * PAGE)
        view = np.frombuffer(self._mapped, dtype=np.uint8)
        held = (ctypes.c_ubyte * PAGES)()
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(view.ctypes.data), length, held) == 0
        return np.flatnonzero(np.frombuffer(held, dtype=np.uint8) & 1)


def held_after(made: list[Read], path: Path) -> set[int]:
    """The pages in the cache after these reads, unless somebody emptied it meanwhile."""
    own = {page + nth for _, page in made for nth in range(READ_PAGES)}
    for _ in range(TRIES):
        with Cached(path) as cached:
            assert len(cached.pages()) == 0
            for file, page in made:
                cached.read(file, page)
            held = set(cached.pages().tolist())
        if own <= held:
            return held
    pytest.fail(f"pages that were just read left the cache {TRIES} times")


@pytest.mark.parametrize(
    ("reads", "share_off_max"),
    [
        (in_order, FEW_SHARE),
        (from_the_first_page, FEW_SHARE),
        (at_random, FEW_SHARE),
        (two_files_in_turns, FEW_SHARE),
        (in_order_with_detours, FEW_SHARE),
        (backwards, FEW_SHARE),
        (with_gaps, FEW_SHARE),
        # Where a reader meets what another one read ahead, the kernel's search for the first absent
        # page misses by one if it begins inside a folio of several pages.
        (runs, 0.05),
    ],
)
def test_the_pages_that_are_read_ahead_are_the_kernels(file_system, reads, share_off_max):
    if os.uname().release.split(".")[:1] < ["6"]:
        pytest.skip("the rules are those of Linux 6")
    folder = file_system("ext4").folder
    window_pages = read_ahead_bytes(folder) // PAGE
    assert window_pages > 0
    made = list(reads())
    held = held_after(made, folder / "cached")
    simulated = _core.PageCache(PAGES, window_pages)
    firsts = np.array([page for _, page in made], dtype=np.uint64)
    files = np.array([file for file, _ in made], dtype=np.uint32)
    simulated.read(firsts.data, files.data, READ_PAGES)
    expected = {page for page in range(PAGES) if page in simulated}
    assert len(expected ^ held) <= share_off_max * len(expected)
