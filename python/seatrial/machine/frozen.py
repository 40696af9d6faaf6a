"""A file system made to stand still for a moment, so that a copy of its device is whole.

Source: ioctl_fs(2) and the kernel's fs/ioctl.c, ``FIFREEZE`` and ``FITHAW``.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from seatrial.machine.undoer import Result, Undoer, failed, gone, undone

_FREEZE: Final = 0xC0045877  # _IOWR('X', 119, int)
_THAW: Final = 0xC0045878  # _IOWR('X', 120, int)


def freeze(point: Path) -> None:
    """Let a file system stand still, all of it written out; the caller recorded it before.

    Raises:
        OSError: when the kernel refuses.
    """
    _report(point, _FREEZE)


def undo_frozen(*, point: str) -> Result:
    """Let a file system go on that a run had frozen."""
    try:
        _report(Path(point), _THAW)
    except FileNotFoundError:
        return gone("its mount point no longer exists")
    except OSError as error:
        if error.errno == errno.EINVAL:
            return gone("it is not frozen")
        return failed(f"it could not be thawed: {error.strerror}; try `fsfreeze -u {point}`")
    return undone("thawed")


def _report(point: Path, command: int) -> None:
    descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, command, 0)
    finally:
        os.close(descriptor)


FROZEN_UNDOERS: Final[dict[str, Undoer]] = {"frozen": Undoer(undo=undo_frozen, subject="point")}
