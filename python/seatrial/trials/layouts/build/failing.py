"""Drives that fail under an array which does not tell: asked by reading from them."""

from __future__ import annotations

from typing import Final

from seatrial.machine.direct_read import read_direct
from seatrial.trials.layouts.build.drive_failure import can_fail

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
        read_direct(device, offset_bytes, length_bytes)
    except OSError:
        return False
    return True
