"""Unmounting with patience: a file system may be busy for a moment after its last user."""

from __future__ import annotations

import time

from seatrial.errors import TargetError
from seatrial.machine.commands import run_command
from seatrial.machine.undoer import PATIENCE_S, POLL_S, Result, failed, undone


def unmount(point: str) -> Result:
    """Unmount what is mounted on a folder; say who might use it where that cannot be done."""
    give_up_at_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            run_command("umount", point)
        except TargetError as error:
            if time.monotonic() > give_up_at_s:
                return failed(f"{error.cause} `fuser -vm {point}` shows who uses it")
            time.sleep(POLL_S * 10)
        else:
            return undone("unmounted")
