"""The labels by which ZFS knows its drives: read to tell a pool of ours, and wiped with it.

Source: the ZFS on-disk specification, chapter 1: four labels of 256 KiB, two at the beginning and
two at the end of what a pool was given; the names and values of the pool (XDR) are in each. OpenZFS
partitions a whole disk first, and lies on its first partition.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.sysblock import node_by_number
from seatrial.trials.layouts.build.running import run_checked

_LABEL_BYTES: Final = 256 << 10


def wipe_labels(device: str, pool: str) -> bool:
    """Wipe what a pool left on a drive; tell whether it had left anything.

    Raises:
        OSError: when the drive is in use, or cannot be written.
        TargetError: when its partition table cannot be wiped.
    """
    borne = [place for place in _places(device) if _bears(place, pool)]
    for place in borne:
        _zero_labels(place)
        # The table of partitions that OpenZFS made is the pool's, too.
        run_checked(["wipefs", "--all", "--force", device])
    return bool(borne)


def _places(device: str) -> list[str]:
    """Return a drive and its partitions, those that are there."""
    number = LIVE.block_number(device)
    if number is None:
        return []
    return [device, *(f"/dev/{part.name}" for part in node_by_number(number).partitions())]


def _bears(place: str, pool: str) -> bool:
    """Tell whether the first label there is of a pool of that name."""
    try:
        with Path(place).open("rb", buffering=0) as file:
            label = file.read(_LABEL_BYTES)
    except OSError:
        return False
    word = pool.encode()
    return len(word).to_bytes(4, "big") + word in label


def _zero_labels(place: str) -> None:
    """Zero all four labels; whoever uses the drive meanwhile keeps it from being opened."""
    descriptor = os.open(place, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    try:
        end_bytes = os.lseek(descriptor, 0, os.SEEK_END) // _LABEL_BYTES * _LABEL_BYTES
        for start_bytes in (0, end_bytes - 2 * _LABEL_BYTES):
            os.pwrite(descriptor, bytes(2 * _LABEL_BYTES), start_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
