"""Files that a command writes for its user."""

from __future__ import annotations

import os
from pathlib import Path

from seatrial.errors import UsageError


def require_writable(place: Path) -> None:
    """Check that a file can be written later, so that nobody waits an hour to hear that it cannot.

    Raises:
        UsageError: when its folder is missing or closed to this user, or it is a folder itself.
    """
    folder = place.parent
    if place.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            seen=f"{place} cannot be written",
            cause="It is a folder, or its own folder is missing or read-only",
            next_step=f"Name another file, or see `ls -ld {folder}`",
        )


def write_text(place: Path, text: str, *, otherwise: str) -> None:
    """Write a text file; ``otherwise`` is the command that makes it elsewhere.

    Raises:
        UsageError: when the file cannot be written.
    """
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            seen=f"{place} cannot be written: {error.strerror}",
            cause="The folder is missing, read-only or full; the run itself is stored",
            next_step=f"Write it elsewhere with `{otherwise}`",
        ) from None
