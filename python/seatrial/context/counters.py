"""Readings to take before and after every sample: what the device did, what else went on.

Sources: the kernel's Documentation/block/stat.rst, Documentation/accounting/psi.rst, proc(5).
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from seatrial.context.device import directory_of
from seatrial.context.layers import SECTOR_BYTES
from seatrial.context.mounts import devices_of
from seatrial.context.stack import physical_directories
from seatrial.context.temperature import sensor_folder
from seatrial.context.tree import LIVE, SystemTree

GAUGES: Final = frozenset({"dirty_bytes", "temperature_c", "cpu_frequency_hz_max"})
"""The readings that say how things stand now. All others only grow: subtract an earlier one."""

_NS_PER_MS: Final = 1_000_000
_NS_PER_US: Final = 1_000
_HZ_PER_KHZ: Final = 1_000
_BYTES_PER_KB: Final = 1024
_MILLI: Final = 1000.0
_CPUS_READ_MAX: Final = 8
_DRIVES_READ_MAX: Final = 4
_TARGETS_KEPT: Final = 64
_STAT_LIMIT_BYTES: Final = 4096
_STEAL_FIELD: Final = 8

# Fields of a device's stat file: name of the reading, position, what one unit of it is worth.
_STAT_FIELDS: Final = (
    ("device_reads", 0, 1),
    ("device_read_bytes", 2, SECTOR_BYTES),
    ("device_writes", 4, 1),
    ("device_write_bytes", 6, SECTOR_BYTES),
    ("device_busy_ns", 9, _NS_PER_MS),
    ("device_flushes", 15, 1),
)


class _Sources(NamedTuple):
    """Files that are read for a target, found once."""

    stats: tuple[str, ...]
    temperatures: tuple[str, ...]
    frequencies: tuple[str, ...]


def counters(path: Path | None, *, tree: SystemTree = LIVE) -> dict[str, float]:
    """Return absolute readings of the target's device and of the machine; absent where unknown.

    ``device_reads``, ``device_writes``, ``device_flushes`` (requests), ``device_read_bytes``,
    ``device_write_bytes``, ``device_busy_ns`` (time with a request in flight) of the device under
    the file system, summed up where there are several; ``steal_ns`` (all processors),
    ``psi_io_full_ns``, ``psi_cpu_some_ns``: to be subtracted. ``dirty_bytes`` in the page cache,
    ``temperature_c`` of the hottest of the first four drives, ``cpu_frequency_hz_max`` of the first
    eight processors: gauges.

    Which files to read is found once for each target, and again when it lies on another device.
    """
    place = None if path is None else str(path.absolute())
    status = None if place is None else tree.status(place)
    sources = _sources(tree, place, None if status is None else status.st_dev)
    return {
        **_device_readings(tree, sources.stats),
        **_gauges(tree, sources),
        **_stolen(tree),
        **_pressures(tree),
    }


@lru_cache(maxsize=_TARGETS_KEPT)
def _sources(tree: SystemTree, path: str | None, _device: int | None) -> _Sources:
    """Return the files to read for a target."""
    numbers = [] if path is None else devices_of(tree, path)
    directories = [found for number in numbers if (found := directory_of(tree, number))]
    folders = [sensor_folder(tree, drive) for drive in physical_directories(tree, numbers)]
    sensors = [f"{folder}/temp1_input" for folder in folders if folder]
    cpu = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
    frequencies = [cpu.format(number) for number in range(_CPUS_READ_MAX)]
    return _Sources(
        stats=tuple(f"{directory}/stat" for directory in directories),
        temperatures=tuple(sensors[:_DRIVES_READ_MAX]),
        frequencies=tuple(file for file in frequencies if tree.exists(file)),
    )


def _device_readings(tree: SystemTree, stats: tuple[str, ...]) -> dict[str, float]:
    """Return the sums over the devices of what their ``stat`` files count."""
    readings: dict[str, float] = {}
    for file in stats:
        fields = (tree.text(file) or "").split()
        for name, position, worth in _STAT_FIELDS:
            if position < len(fields):
                readings[name] = readings.get(name, 0.0) + int(fields[position]) * worth
    return readings


def _gauges(tree: SystemTree, sources: _Sources) -> dict[str, float]:
    """Return the readings that say how things stand now."""
    readings: dict[str, float] = {}
    dirty = re.search(r"^Dirty:\s+(\d+) kB$", tree.text("/proc/meminfo") or "", re.MULTILINE)
    if dirty:
        readings["dirty_bytes"] = float(int(dirty[1]) * _BYTES_PER_KB)
    milli = _largest(tree, sources.temperatures)
    if milli is not None:
        readings["temperature_c"] = milli / _MILLI
    kilohertz = _largest(tree, sources.frequencies)
    if kilohertz is not None:
        readings["cpu_frequency_hz_max"] = float(kilohertz * _HZ_PER_KHZ)
    return readings


def _largest(tree: SystemTree, files: tuple[str, ...]) -> int | None:
    """Return the largest number that the files hold."""
    numbers = [tree.integer(file) for file in files]
    return max((number for number in numbers if number is not None), default=None)


def _stolen(tree: SystemTree) -> dict[str, float]:
    """Return the time that the hypervisor gave to others, over all processors."""
    fields = (tree.text("/proc/stat", _STAT_LIMIT_BYTES) or "").partition("\n")[0].split()
    if len(fields) <= _STEAL_FIELD:
        return {}
    return {"steal_ns": int(fields[_STEAL_FIELD]) * 1e9 / os.sysconf("SC_CLK_TCK")}


def _pressures(tree: SystemTree) -> dict[str, float]:
    """Return how long tasks waited in vain, where the kernel keeps account of it."""
    readings: dict[str, float] = {}
    for resource, line in (("io", "full"), ("cpu", "some")):
        text = tree.text(f"/proc/pressure/{resource}") or ""
        match = re.search(rf"^{line} .*total=(\d+)$", text, re.MULTILINE)
        if match:
            readings[f"psi_{resource}_{line}_ns"] = float(int(match[1]) * _NS_PER_US)
    return readings
