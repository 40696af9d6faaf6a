"""Markers from another process, which adds them to the file of each watch in the state folder.

A file belongs to a watch that runs if that watch holds its lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO, Final

import msgspec

from seatrial.errors import UsageError
from seatrial.machine.undo_journal import state_folder
from seatrial.trials.watch.analysis.events import Mark

_ENDING: Final = ".marks"
CHARACTERS_MAX: Final = 200


class Marks:
    """The markers of one watch, until it is closed."""

    def __init__(self) -> None:
        """Make the file.

        Raises:
            OSError: if it cannot be made.
        """
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / f"{os.getpid()}{_ENDING}"
        number = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file: IO[bytes] = os.fdopen(number, "rb")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._rest = b""

    def take(self) -> list[Mark]:
        """Return the markers that came since the last call."""
        lines = (self._rest + self._file.read()).split(b"\n")
        self._rest = lines.pop()
        return [msgspec.json.decode(line, type=Mark) for line in lines]

    def close(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)
        self._file.close()


def set_mark(text: str) -> int:
    """Send a marker to every watch of this user; return how many there are.

    Raises:
        UsageError: if there is none, or the text is empty or too long.
    """
    if not text.strip() or len(text) > CHARACTERS_MAX or not text.isprintable():
        raise UsageError(
            seen=f"A marker of {len(text)} characters cannot be set.",
            cause=f"It is one line of 1 to {CHARACTERS_MAX} printable characters.",
            next_step="Choose another text",
        )
    line = msgspec.json.encode(Mark(at=time.time(), text=text.strip())) + b"\n"
    reached = sum(_append(path, line) for path in _folder().glob(f"*{_ENDING}"))
    if not reached:
        raise UsageError(
            seen="No watch of this user is running.",
            cause="None was started, or another user started it.",
            next_step="Start 'seatrial watch', or run this command as the user of the watch",
        )
    return reached


def _append(path: Path, line: bytes) -> bool:
    """Add a line to the file of a watch; False if that watch has ended."""
    try:
        number = os.open(path, os.O_RDWR | os.O_APPEND)
        with os.fdopen(number, "rb+", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # the watch holds it
                return file.write(line) == len(line)
            path.unlink()
    except OSError:  # removed meanwhile
        pass
    return False


def _folder() -> Path:
    return state_folder() / "watches"
