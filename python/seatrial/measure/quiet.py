"""Leaving a target alone until it is quiet again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from seatrial.machine import fingerprint as context

LOOK_EVERY_S: Final = 0.1
BUSY: Final = "device_busy_ns"
QUIET_S_MAX: Final = 2.0
"""A target that other programs use is never quiet; it is not waited for any longer."""
BUSY_SHARE_MAX: Final = 0.1
"""What is left of other programs' requests is no backlog of ours."""


def rest(path: Path | None, least_s: float) -> None:
    """Leave a target alone: for so long, and on until its device idles, at most 2 s more.

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
    while time.monotonic() < give_up_s and _busy_share(path) > BUSY_SHARE_MAX:
        pass


def _busy_share(path: Path) -> float:
    """Return for what share of the next 0.1 s the device has requests; 0 where it is not known."""
    before_ns = context.counters(path).get(BUSY)
    began_s = time.monotonic()
    time.sleep(LOOK_EVERY_S)
    after_ns = context.counters(path).get(BUSY)
    if before_ns is None or after_ns is None:
        return 0.0
    return (after_ns - before_ns) / 1e9 / (time.monotonic() - began_s)
