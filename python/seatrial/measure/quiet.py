"""Leaving a target alone until it is quiet again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from seatrial import context

LOOK_EVERY_S: Final = 0.1
QUIET_S_MAX: Final = 5.0
"""A target that other programs use is never quiet; it is not waited for any longer."""
WORK: Final = ("device_read_bytes", "device_write_bytes", "device_busy_ns")


def rest(path: Path | None, least_s: float) -> None:
    """Leave a target alone: for so long, and on until its device does nothing, at most 5 s more.

    What a drive or an array works off behind its own cache is not seen from here; for that there
    is the least time.

    Args:
        path: Where the target lies; None where there is nothing to look at.
        least_s: The least time; 0 does not wait at all.

    Raises:
        KeyboardInterrupt: when the user ends it.
    """
    if least_s <= 0:
        return
    time.sleep(least_s)
    if path is None:
        return
    give_up_s = time.monotonic() + QUIET_S_MAX
    before = _work(path)
    while before and time.monotonic() < give_up_s:
        time.sleep(LOOK_EVERY_S)
        now = _work(path)
        if now == before:
            return
        before = now


def _work(path: Path) -> dict[str, float]:
    """Return what the device has done so far; empty where the kernel does not count it."""
    counters = context.counters(path)
    return {name: counters[name] for name in WORK if name in counters}
