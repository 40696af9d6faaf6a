"""Where the driver's logs go while a database is measured: not onto the storage under trial."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from seatrial.machine import fingerprint as context

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of ours is made in it, for us alone
ROOM_BYTES_MIN: Final = 512 << 20
"""A transaction takes some 35 bytes of log: a quarter of an hour at 15,000 per second."""


def choose_place(trials: Sequence[Path], state: Path) -> tuple[Path, str]:
    """Return a folder for logs, and a sentence where it is no good one; else empty.

    What is written there would be measured with the target, if it lay on the same device.

    Args:
        trials: The directories under trial.
        state: Where the undo journals lie: the first choice.
    """
    places = [state, Path(tempfile.gettempdir()), MEMORY]
    for place in places:
        if place.is_dir() and _has_room(place) and not any(_share(place, each) for each in trials):
            return place, ""
    return state, (
        f"pgbench's log goes to {state}, on the device under trial: no other place has room for it."
    )


def _has_room(place: Path) -> bool:
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize >= ROOM_BYTES_MIN and os.access(place, os.W_OK)


def _share(place: Path, other: Path) -> bool:
    """Tell whether two folders lie on one file system or one device."""
    if place.stat().st_dev == other.stat().st_dev:
        return True
    device = context.block_device_of(place)
    return bool(device) and device == context.block_device_of(other)
