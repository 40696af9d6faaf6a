"""What goes on around a trial, read again and again: processors, pressure, the device's queue.

Sources: proc_stat(5); the kernel's Documentation/accounting/psi.rst and
Documentation/block/stat.rst.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.counters import (
    NS_PER_MS,
    Field,
    device_readings,
    pressures,
    sources,
)
from seatrial.machine.fingerprint.layers import SECTOR_BYTES
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

SURROUNDINGS_GAUGES: Final = frozenset({"device_in_flight", "devices"})
"""The readings that say how things stand now. All others only grow: subtract an earlier one."""

NS_PER_TICK: Final = 1e9 / os.sysconf("SC_CLK_TCK")
"""Nanoseconds in a clock tick, in which the kernel tells processor time."""

_STAT_LIMIT_BYTES: Final = 4096
_DEVICE_FIELDS: Final[tuple[Field, ...]] = (
    ("device_reads", 0, 1),
    ("device_read_bytes", 2, SECTOR_BYTES),
    ("device_read_ns", 3, NS_PER_MS),
    ("device_writes", 4, 1),
    ("device_write_bytes", 6, SECTOR_BYTES),
    ("device_write_ns", 7, NS_PER_MS),
    ("device_in_flight", 8, 1),
    ("device_busy_ns", 9, NS_PER_MS),
    ("device_queued_ns", 10, NS_PER_MS),
)
_FLUSH_FIELDS: Final[tuple[Field, ...]] = (
    ("device_flushes", 15, 1),
    ("device_flush_ns", 16, NS_PER_MS),
)
_DISK_FIELDS: Final[tuple[Field, ...]] = (
    ("disk_read_bytes", 2, SECTOR_BYTES),
    ("disk_write_bytes", 6, SECTOR_BYTES),
)
_PRESSURES: Final = (("cpu", "some"), ("io", "some"), ("io", "full"), ("memory", "some"))

# Which fields of the line "cpu" make up each part. The guests' time is in user and nice already.
_CPU_PARTS: Final = {
    "machine_user_ns": (1, 2),
    "machine_system_ns": (3, 6, 7),
    "machine_idle_ns": (4,),
    "machine_iowait_ns": (5,),
    "machine_steal_ns": (8,),
}


def surroundings(path: Path | None, *, tree: SystemTree = LIVE) -> dict[str, float]:
    """Return absolute readings of the machine and of the device at a path; absent where unknown.

    ``machine_user_ns``, ``machine_system_ns``, ``machine_iowait_ns``, ``machine_steal_ns``,
    ``machine_idle_ns``: time over all processors; ``machine_iowait_ns`` may fall now and then, as
    proc_stat(5) warns. ``psi_cpu_some_ns``, ``psi_io_some_ns``, ``psi_io_full_ns``,
    ``psi_memory_some_ns``.

    Of the devices directly under the file system, summed up where there are several:
    ``device_reads``, ``device_writes`` (requests), ``device_read_bytes``, ``device_write_bytes``,
    ``device_read_ns``, ``device_write_ns`` and ``device_queued_ns`` (sums of the requests' times,
    of reads, writes and all), ``device_busy_ns`` (time with a request in flight);
    ``device_in_flight`` now and ``devices``, their number: gauges. ``device_flushes`` and
    ``device_flush_ns`` (sum of their times, since Linux 5.5), ``disk_read_bytes`` and
    ``disk_write_bytes`` are those of the whole disks under these devices, whoever asked for them.
    """
    files = sources(tree, path)
    readings = {
        **_processors(tree),
        **pressures(tree, _PRESSURES),
        **device_readings(tree, files.stats, _DEVICE_FIELDS),
        **device_readings(tree, files.flush_stats, (*_FLUSH_FIELDS, *_DISK_FIELDS)),
    }
    if files.stats:
        readings["devices"] = float(len(files.stats))
    return readings


def _processors(tree: SystemTree) -> dict[str, float]:
    """Return how the time of all processors was spent since boot."""
    line = (tree.text("/proc/stat", _STAT_LIMIT_BYTES) or "").partition("\n")[0].split()
    if not line or line[0] != "cpu":
        return {}
    return {
        name: sum(int(line[field]) for field in fields) * NS_PER_TICK
        for name, fields in _CPU_PARTS.items()
        if fields[-1] < len(line)
    }
