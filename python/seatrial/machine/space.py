"""A file system that ran full in mid-run: seen, and told with its name."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from seatrial.errors import SeatrialError, SpaceError
from seatrial.machine.marker import FOLDER_PREFIX
from seatrial.machine.sizes import size_text

FULL_WORDS: Final = os.strerror(errno.ENOSPC)
FULL_NAMES: Final = frozenset({"ENOSPC", "EDQUOT"})
FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
FULL_BYTES: Final = 16 * 1024 * 1024
"""Less than this is too little for the next file of PostgreSQL's log (WAL), as initdb sets it."""


def no_space(place: Path, words: str = "") -> SpaceError:
    """Return the error for a file system that has no space left.

    Args:
        place: A file or folder on it; a trial folder stands for the directory under trial.
        words: What was being done, or what a program said of it, as a phrase.
    """
    target = directory_of(place)
    reported = f": {words}" if words else ""
    return SpaceError(
        seen=f"No space left on {target}{reported}",
        cause="The trial needed more than was free, or something else filled the file system "
        "meanwhile",
        next_step=f"Free some space (`df -h {target}`), or make the trial smaller; what was "
        "measured before is kept",
    )


def directory_of(place: Path) -> Path:
    """Return the directory under trial that holds a place in a run's folder, else the place."""
    for part in (place, *place.parents):
        if part.name.startswith(FOLDER_PREFIX):
            return part.parent
    return place


def free_text(place: Path) -> str:
    """Return that hardly anything is free on the file system of a place; empty where more is.

    A server that ran out of space may leave no word of it: its log lies on the full file system.
    """
    existing = next((each for each in (place, *place.parents) if each.exists()), place)
    try:
        status = os.statvfs(existing)
    except OSError:
        return ""
    if status.f_blocks == 0:
        return ""  # A file system such as ramfs, which keeps no account of its space.
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes < FULL_BYTES:
        return f"{size_text(free_bytes)} are free"
    return "no inode is free" if status.f_files and status.f_favail == 0 else ""


def as_space_error(error: SeatrialError, place: Path) -> SeatrialError:
    """Return the error of a full file system where that is what a program's words say."""
    if isinstance(error, SpaceError) or FULL_WORDS not in error.seen + error.cause:
        return error
    return no_space(place, error.seen.rstrip("."))
