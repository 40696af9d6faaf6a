"""What goes on around a sample, told from readings before and after it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from seatrial.machine import fingerprint as context

SURROUNDINGS_NS = "surroundings_ns"


class Surroundings:
    """Readings that begin when this is made.

    Args:
        place: Where the target lies; None where it is not on storage of this machine.
    """

    def __init__(self, place: Path | None) -> None:
        self._place = place
        self._began_ns = time.monotonic_ns()
        self._before = context.counters(place)

    def grown(self) -> dict[str, float]:
        """Return what the counters grew by, and where the gauges stand now.

        ``surroundings_ns`` is the time in which they grew: longer than the sample, for threads are
        started and buffers are filled in between, too.
        """
        after = context.counters(self._place)
        grown = _grown(self._before, after)
        grown[SURROUNDINGS_NS] = float(time.monotonic_ns() - self._began_ns)
        return grown


def _grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {
        name: value if name in context.GAUGES else value - before[name]
        for name, value in after.items()
        if name in context.GAUGES or name in before
    }
