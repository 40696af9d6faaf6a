"""Blocks of a drive that are made bad, or changed in silence: where data of the trial lie.

Nobody would notice corruption where nothing lies. The drives have passed the guard, and all that
is on them is the run's own.
"""

from __future__ import annotations

import mmap
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from seatrial.errors import TargetError

BLOCK_BYTES: Final = 4096
"""What drives of today read and write at once; dm-dust's blocks, too."""
SEARCH_S_MAX: Final = 5.0
MAGIC: Final = b"SEATRIAL"
"""The beginning of every sector of verifiable data (crates/load/src/verify/sector.rs)."""
WIPED_BYTES: Final = 1 << 20
ENDS_SHARE: Final = 0.02
"""Of a drive, at either end: there lies what an array knows of itself."""


def choose_blocks(drive: str, count: int, draw: random.Random, *, verifiable: bool) -> list[int]:
    """Return where blocks lie on a drive that hold data of the trial, in bytes, in rising order.

    Args:
        drive: The drive.
        count: How many; fewer are returned where no more are found within 5 s.
        draw: Chooses them.
        verifiable: Whether the trial's data are known by their mark; else any block does that
            does not hold zeros alone.

    Raises:
        TargetError: when the drive cannot be read.
    """
    wanted: Callable[[bytes], bool] = _is_marked if verifiable else any
    found: set[int] = set()
    give_up_s = time.monotonic() + SEARCH_S_MAX
    with _opened(drive, os.O_RDONLY) as descriptor, mmap.mmap(-1, BLOCK_BYTES) as buffer:
        blocks = os.lseek(descriptor, 0, os.SEEK_END) // BLOCK_BYTES
        first = int(blocks * ENDS_SHARE)
        while len(found) < count and time.monotonic() < give_up_s:
            at_bytes = draw.randrange(first, blocks - first) * BLOCK_BYTES
            os.preadv(descriptor, [buffer], at_bytes)
            if wanted(buffer[:]):
                found.add(at_bytes)
    return sorted(found)


def rot(drive: str, blocks_bytes: list[int]) -> None:
    """Turn every bit of some blocks of a drive, behind the back of the array that it belongs to.

    Raises:
        TargetError: when the drive cannot be read or written.
    """
    with _opened(drive, os.O_RDWR) as descriptor, mmap.mmap(-1, BLOCK_BYTES) as buffer:
        for at_bytes in blocks_bytes:
            os.preadv(descriptor, [buffer], at_bytes)
            buffer[:] = bytes(byte ^ 0xFF for byte in buffer[:])
            os.pwritev(descriptor, [buffer], at_bytes)
        os.fsync(descriptor)


def wipe(drive: str) -> None:
    """Take from a drive what arrays and file systems know it by: zeros at both of its ends.

    Raises:
        TargetError: when the drive cannot be written.
    """
    with _opened(drive, os.O_RDWR) as descriptor, mmap.mmap(-1, WIPED_BYTES) as zeros:
        size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
        os.pwritev(descriptor, [zeros], 0)
        os.pwritev(descriptor, [zeros], (size_bytes - WIPED_BYTES) // BLOCK_BYTES * BLOCK_BYTES)
        os.fsync(descriptor)


def _is_marked(block: bytes) -> bool:
    return block.startswith(MAGIC)


@contextmanager
def _opened(drive: str, mode: int) -> Iterator[int]:
    try:
        descriptor = os.open(drive, mode | os.O_DIRECT | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise TargetError(
            seen=f"{drive} cannot be corrupted: {error.strerror}",
            cause="The drive is gone, or this kernel lets nobody write to a drive in use",
            next_step="See the end of `dmesg`; a layout with flaky = true has drives that can be "
            "made bad",
        ) from None
