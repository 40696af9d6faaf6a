"""The disks of a lab: sparse files in its folder, which grow as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from seatrial.errors import UsageError
from seatrial.machine.file import TrialFolder

DISKS_MAX: Final = 16
"""User-mode Linux has no more (arch/um/drivers/ubd_kern.c, MAX_DEV)."""


def make_disks(folder: TrialFolder, count: int, size_bytes: int) -> tuple[Path, ...]:
    """Make the files that are a lab's disks.

    Raises:
        UsageError: when there are more than a lab can have.
    """
    if count > DISKS_MAX:
        raise UsageError(
            seen=f"{count} disks were asked for",
            cause=f"A lab has at most {DISKS_MAX}, for user-mode Linux has no more",
            next_step=f"Ask for fewer with --disks {DISKS_MAX}x256M, or use --loop as root",
        )
    paths = tuple(folder.file(f"disk{number}") for number in range(1, count + 1))
    for path in paths:
        with path.open("wb") as file:
            file.truncate(size_bytes)
    return paths
