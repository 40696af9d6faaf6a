"""A few bytes of a device read past the page cache, as the drive has them now."""

from __future__ import annotations

import mmap
import os


def read_direct(device: str, offset_bytes: int, length_bytes: int) -> bytes:
    """Return bytes of a device; fewer at its end.

    Args:
        device: Its path.
        offset_bytes: Where they begin; whole logical blocks of the device, as the length.
        length_bytes: How many.

    Raises:
        OSError: when it cannot be opened, or does not answer.
    """
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        # Anonymous memory is aligned to pages, as O_DIRECT wants it.
        with mmap.mmap(-1, length_bytes) as buffer:
            return buffer[: os.preadv(descriptor, [buffer], offset_bytes)]
    finally:
        os.close(descriptor)
