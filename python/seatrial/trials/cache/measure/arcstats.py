"""Statistics of ZFS each second, and their increase.

Source: ``arc.c`` of OpenSolaris (``arc_stats``); zfs-fuse has one file for each counter, OpenZFS
one file with a line for each (``/proc/spl/kstat/zfs/arcstats``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

from seatrial.results.model import Series

COUNTERS: Final[Mapping[str, str]] = {
    "demand_data_hits": "arc_hits_per_s",
    "demand_data_misses": "arc_misses_per_s",
    "l2_hits": "device_hits_per_s",
    "l2_misses": "device_misses_per_s",
    "l2_write_bytes": "device_write_bytes_per_s",
    "l2_feeds": "device_feeds_per_s",
    "l2_rw_clash": "device_clashes_per_s",
    "evict_l2_cached": "evicted_cached_bytes_per_s",
    "evict_l2_eligible": "evicted_missed_bytes_per_s",
    "mru_ghost_hits": "mru_ghost_hits_per_s",
    "mfu_ghost_hits": "mfu_ghost_hits_per_s",
}
"""Counters, and the column with their increase per second."""
GAUGES: Final[Mapping[str, str]] = {
    "size": "arc_bytes",
    "data_size": "arc_data_bytes",
    "l2_size": "device_fill_bytes",
    "l2_hdr_size": "device_header_bytes",
}
"""Values, and their columns."""
PERIOD_S: Final = 1.0

Reading = dict[str, float]


class Counters:
    """The statistics of a daemon, or of the kernel.

    Args:
        path: The folder with a file for each counter, or the file with a line for each.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def exist(self) -> bool:
        """Return whether the counters can be read."""
        try:
            return "size" in self.read()
        except OSError:
            return False

    def read(self) -> Reading:
        """Return the counters that a series has, by their names.

        Raises:
            OSError: when they cannot be read: the daemon has ended.
        """
        names = [*COUNTERS, *GAUGES]
        if self._path.is_dir():
            return {
                name: float((self._path / name).read_text().split()[-1])
                for name in names
                if (self._path / name).exists()
            }
        return {k: v for k, v in parse_kstat(self._path.read_text()).items() if k in names}


def parse_kstat(text: str) -> Reading:
    """Return the counters in a file of OpenZFS: lines of name, type and value."""
    rows = (line.split() for line in text.splitlines()[2:])
    return {row[0]: float(row[2]) for row in rows if len(row) == 3 and row[2].isdigit()}


class CounterSource(Protocol):
    """A source of counters."""

    def read(self) -> Reading:
        """Return the counters; raises OSError when they cannot be read."""


class Sampler:
    """Reads counters each second in a thread, until it is left as a context.

    Args:
        counters: The source.
    """

    def __init__(self, counters: CounterSource) -> None:
        self.readings: list[tuple[float, Reading]] = []
        self._counters = counters
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self.readings.append((time.time(), self._counters.read()))
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._ends.is_set():
            due_s += PERIOD_S / 2
            if self._ends.wait(max(0.0, due_s - time.monotonic())):
                break
            try:
                found = self._counters.read()
            except OSError:
                break
            self.readings.append((time.time(), found))


def added_unix_s(readings: Sequence[tuple[float, Reading]], command_unix_s: float) -> float:
    """Return when a cache device was added: the last reading before its feed began (Unix time, s).

    The feed begins while the command that adds it is still writing the pool's labels.

    Args:
        readings: Unix time and counters, in order.
        command_unix_s: When the command ended; the result where no pass of the feed was seen.
    """
    for (before_s, before), (_, after) in pairwise(readings):
        if after.get("l2_feeds", 0.0) > before.get("l2_feeds", 0.0):
            return min(before_s, command_unix_s)
    return command_unix_s


def series_of(
    readings: Sequence[tuple[float, Reading]],
    start_unix_s: float,
    duration_s: float,
    *,
    counters: Mapping[str, str] = COUNTERS,
    gauges: Mapping[str, str] = GAUGES,
) -> Series:
    """Return readings as a series over a sample, with the increase of counters by second.

    Args:
        readings: Unix time and counters, in order.
        start_unix_s: The start of the sample.
        duration_s: Its duration.
        counters: Counters, and the column with their increase per second.
        gauges: Values, and their columns.
    """
    seconds = int(duration_s / PERIOD_S)
    columns: dict[str, list[float | None]] = {}
    for name, column in (*counters.items(), *gauges.items()):
        known = [(at_s - start_unix_s, found[name]) for at_s, found in readings if name in found]
        at_ends = [_value_at(known, second * PERIOD_S) for second in range(seconds + 1)]
        if name in gauges:
            columns[column] = list(at_ends[1:])
        else:
            columns[column] = [
                None if before is None or after is None else (after - before) / PERIOD_S
                for before, after in pairwise(at_ends)
            ]
    return Series(period_s=PERIOD_S, columns=columns)


def _value_at(known: Sequence[tuple[float, float]], at_s: float) -> float | None:
    """Return the value at a time between two readings; None outside of all."""
    for (before_s, before), (after_s, after) in pairwise(known):
        if before_s <= at_s <= after_s:
            share = (at_s - before_s) / (after_s - before_s) if after_s > before_s else 1.0
            return before + share * (after - before)
    return None
