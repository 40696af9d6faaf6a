"""Drives that fail under an array which does not tell: asked by reading from them."""

from __future__ import annotations

import mmap
import os
from typing import Final

from seatrial.targets.layouts.deeds import can_fail

_BLOCK_BYTES: Final = 4096


def answers(drive: str) -> bool:
    """Tell whether a drive still answers; one that cannot be made to fail is taken to do so.

    Only what a run can make fail is asked, by one read of 4 KiB past the cache: any other drive
    tells of its failure whoever reads from it.
    """
    return not can_fail(drive) or can_be_read(drive)


def can_be_read(device: str, offset_bytes: int = 0, length_bytes: int = _BLOCK_BYTES) -> bool:
    """Tell whether bytes of a device can be read, past the page cache."""
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Anonymous memory is aligned to pages, as O_DIRECT wants it.
        with mmap.mmap(-1, length_bytes) as buffer:
            return os.preadv(descriptor, [buffer], offset_bytes) >= 0
    except OSError:
        return False
    finally:
        os.close(descriptor)
