"""The one processor that all of a machine's processes share.

Each system call and each page fault of a guest is a hand-over between two processes of user-mode
Linux. On one processor that is a switch; between two it wakes a processor that sleeps, which takes
several times as long, the more so in a virtual machine (bench/lab_speed.py).
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from seatrial.machine.fingerprint.tree import LIVE, SystemTree

_LOOK_S: Final = 0.1
_TICKS_ALIKE: Final = 2
"""Processors whose idle time differs by no more are as good as each other."""


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep what this thread starts meanwhile on one processor, the idlest of those it may use.

    Where a container does not let it, all goes on as it is: the lab is slower then, nothing else.
    """
    allowed = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, {_chosen(allowed)})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def idlest(before: Mapping[int, int], after: Mapping[int, int], allowed: set[int]) -> list[int]:
    """Return those of some processors that were idle longest between two looks at ``idle_ticks``.

    All of them where nothing is known.
    """
    rested = {number: after.get(number, 0) - before.get(number, 0) for number in allowed}
    most = max(rested.values())
    return sorted(number for number in allowed if most - rested[number] <= _TICKS_ALIKE)


def idle_ticks(tree: SystemTree = LIVE) -> dict[int, int]:
    """Return how long each processor has been idle since the start, in ticks of the clock.

    Source: proc(5), ``/proc/stat``: the fourth number is idle, the fifth waits for I/O.
    """
    found = re.finditer(r"^cpu(\d+) ((?:\d+ ){4,}\d+)", tree.text("/proc/stat") or "", re.MULTILINE)
    return {int(line[1]): sum(map(int, line[2].split()[3:5])) for line in found}


def _chosen(allowed: set[int]) -> int:
    if len(allowed) == 1:
        return min(allowed)
    before = idle_ticks()
    time.sleep(_LOOK_S)
    # By chance among equals: labs that start together shall not meet on the first.
    return random.choice(idlest(before, idle_ticks(), allowed))
