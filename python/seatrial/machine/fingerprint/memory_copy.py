"""How fast this machine copies memory: what no I/O through memory can pass."""

from __future__ import annotations

import time
from functools import cache
from typing import Final

SOURCE_BYTES: Final = 32 << 20
"""Larger than most caches of a processor, and touched within about 10 ms."""
BLOCK_BYTES: Final = 1 << 20
PASSES: Final = 5


@cache
def memory_copy_bytes_per_s() -> float:
    """Return the bytes per second that one thread copies out of memory, measured once a process.

    As a read from the page cache does: out of 32 MiB into one buffer of 1 MiB, again and again.
    The fastest of five passes, for a bound is what can be carried, and whatever else runs only
    slows a copy down. Takes about 25 ms.
    """
    # Every page must be touched: pages of a fresh mapping are all the same page of zeros.
    source = memoryview(bytearray(b"\1") * SOURCE_BYTES)
    block = memoryview(bytearray(b"\1") * BLOCK_BYTES)
    fastest_s = min(_pass_s(source, block) for _ in range(PASSES))
    return SOURCE_BYTES / fastest_s


def _pass_s(source: memoryview, block: memoryview) -> float:
    """Return how long it takes to copy the source once, block by block."""
    began_s = time.perf_counter()
    for start in range(0, SOURCE_BYTES, BLOCK_BYTES):
        block[:] = source[start : start + BLOCK_BYTES]
    return time.perf_counter() - began_s
