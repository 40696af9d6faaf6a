"""Counters read before and after every sample, of the device and of the machine.

Sources: proc_stat(5); the kernel's Documentation/accounting/psi.rst and
Documentation/block/stat.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from seatrial.machine.fingerprint.device import directory_of
from seatrial.machine.fingerprint.health import sensor_folder
from seatrial.machine.fingerprint.mounts import devices_of
from seatrial.machine.fingerprint.stack import flushing_directories, physical_directories
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.units import KIB, NS_PER_MS, NS_PER_US, SECTOR_BYTES

GAUGES: Final = frozenset({"dirty_bytes", "temperature_c", "cpu_frequency_hz_max"})
"""Gauges, which are current values. All other readings are counters: subtract an earlier one."""

_HZ_PER_KHZ: Final = 1_000
_MILLI: Final = 1000.0
_CPUS_READ_MAX: Final = 8
_DRIVES_READ_MAX: Final = 4
_TARGETS_KEPT: Final = 64
_STAT_LIMIT_BYTES: Final = 4096
_STEAL_FIELD: Final = 8

Field = tuple[str, int, int]
"""A field of a device's stat file: name of the reading, position, size of a unit."""

_STAT_FIELDS: Final[tuple[Field, ...]] = (
    ("device_reads", 0, 1),
    ("device_read_bytes", 2, SECTOR_BYTES),
    ("device_writes", 4, 1),
    ("device_write_bytes", 6, SECTOR_BYTES),
    ("device_busy_ns", 9, NS_PER_MS),
)
_FLUSH_FIELDS: Final[tuple[Field, ...]] = (("device_flushes", 15, 1),)
_PRESSURES: Final = (("io", "full"), ("cpu", "some"))


class Sources(NamedTuple):
    """Files that are read for a target.

    Attributes:
        stats: Stat files of the devices directly under the file system.
        flush_stats: Stat files of the devices at which the kernel counts flushes.
        temperatures: The drives' sensors.
        frequencies: The processors' clock frequencies.
    """

    stats: tuple[str, ...]
    flush_stats: tuple[str, ...]
    temperatures: tuple[str, ...]
    frequencies: tuple[str, ...]


def counters(path: Path | None, *, tree: SystemTree = LIVE) -> dict[str, float]:
    """Return absolute readings of the target's device and of the machine; absent where unknown.

    Counters of the device under the file system, summed over several: ``device_reads``,
    ``device_writes``, ``device_flushes`` (requests), ``device_read_bytes``, ``device_write_bytes``,
    ``device_busy_ns`` (time with a request in flight). Counters of the machine: ``steal_ns`` (all
    processors), ``psi_io_full_ns``, ``psi_cpu_some_ns``. Gauges: ``dirty_bytes`` in the page cache,
    ``temperature_c`` of the hottest of the first four drives, ``cpu_frequency_hz_max`` of the first
    eight processors.

    The files to read are looked up once for each target, and again when it is on another device.
    """
    files = sources(tree, path)
    return {
        **device_readings(tree, files.stats, _STAT_FIELDS),
        **device_readings(tree, files.flush_stats, _FLUSH_FIELDS),
        **_gauges(tree, files),
        **_stolen(tree),
        **pressures(tree, _PRESSURES),
    }


def sources(tree: SystemTree, path: Path | None) -> Sources:
    """Return the files to read for a target, or for the machine alone where it is None."""
    target = None if path is None else str(path.absolute())
    status = None if target is None else tree.status(target)
    return _sources(tree, target, None if status is None else status.st_dev)


@lru_cache(maxsize=_TARGETS_KEPT)
def _sources(tree: SystemTree, path: str | None, _device: int | None) -> Sources:
    numbers = [] if path is None else devices_of(tree, path)
    directories = [found for number in numbers if (found := directory_of(tree, number))]
    folders = [sensor_folder(tree, drive) for drive in physical_directories(tree, numbers)]
    sensors = [f"{folder}/temp1_input" for folder in folders if folder]
    cpu = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
    frequencies = [cpu.format(number) for number in range(_CPUS_READ_MAX)]
    flushing = flushing_directories(tree, numbers)
    return Sources(
        stats=tuple(f"{directory}/stat" for directory in directories),
        flush_stats=tuple(f"{directory}/stat" for directory in flushing),
        temperatures=tuple(sensors[:_DRIVES_READ_MAX]),
        frequencies=tuple(file for file in frequencies if tree.exists(file)),
    )


def device_readings(
    tree: SystemTree, stats: Iterable[str], fields: Iterable[Field]
) -> dict[str, float]:
    """Return the sums of the devices' ``stat`` counters.

    A field that an older kernel does not have is absent.
    """
    readings: dict[str, float] = {}
    for file in stats:
        words = (tree.text(file) or "").split()
        for name, position, worth in fields:
            if position < len(words):
                readings[name] = readings.get(name, 0.0) + int(words[position]) * worth
    return readings


def _gauges(tree: SystemTree, files: Sources) -> dict[str, float]:
    readings: dict[str, float] = {}
    dirty = re.search(r"^Dirty:\s+(\d+) kB$", tree.text("/proc/meminfo") or "", re.MULTILINE)
    if dirty:
        readings["dirty_bytes"] = float(int(dirty[1]) * KIB)
    milli = _largest(tree, files.temperatures)
    if milli is not None:
        readings["temperature_c"] = milli / _MILLI
    kilohertz = _largest(tree, files.frequencies)
    if kilohertz is not None:
        readings["cpu_frequency_hz_max"] = float(kilohertz * _HZ_PER_KHZ)
    return readings


def _largest(tree: SystemTree, files: tuple[str, ...]) -> int | None:
    """Return the largest number in the files."""
    numbers = [tree.integer(file) for file in files]
    return max((number for number in numbers if number is not None), default=None)


def _stolen(tree: SystemTree) -> dict[str, float]:
    """Return the steal time of the hypervisor, over all processors."""
    fields = (tree.text("/proc/stat", _STAT_LIMIT_BYTES) or "").partition("\n")[0].split()
    if len(fields) <= _STEAL_FIELD:
        return {}
    return {"steal_ns": int(fields[_STEAL_FIELD]) * 1e9 / os.sysconf("SC_CLK_TCK")}


def pressures(tree: SystemTree, wanted: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return how long tasks waited, from pressure stall information where the kernel has it.

    Args:
        tree: The machine.
        wanted: Pairs of a resource (``cpu``, ``io``, ``memory``) and ``some`` or ``full``.

    Returns:
        For each pair the counter ``psi_<resource>_<line>_ns``.
    """
    readings: dict[str, float] = {}
    for resource, line in wanted:
        text = tree.text(f"/proc/pressure/{resource}") or ""
        match = re.search(rf"^{line} .*total=(\d+)$", text, re.MULTILINE)
        if match:
            readings[f"psi_{resource}_{line}_ns"] = float(int(match[1]) * NS_PER_US)
    return readings


SYSTEM_GAUGES: Final = frozenset({"device_in_flight", "devices"})
"""Gauges, which are current values. All other readings are counters: subtract an earlier one."""

NS_PER_TICK: Final = 1e9 / os.sysconf("SC_CLK_TCK")
"""Nanoseconds in a clock tick, the kernel's unit of processor time."""

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
_ALL_FLUSH_FIELDS: Final[tuple[Field, ...]] = (
    ("device_flushes", 15, 1),
    ("device_flush_ns", 16, NS_PER_MS),
)
_DISK_FIELDS: Final[tuple[Field, ...]] = (
    ("disk_read_bytes", 2, SECTOR_BYTES),
    ("disk_write_bytes", 6, SECTOR_BYTES),
)
_ALL_PRESSURES: Final = (("cpu", "some"), ("io", "some"), ("io", "full"), ("memory", "some"))

# Fields of the line "cpu" that make up each part. Guest time is in user and nice already.
_CPU_PARTS: Final = {
    "machine_user_ns": (1, 2),
    "machine_system_ns": (3, 6, 7),
    "machine_idle_ns": (4,),
    "machine_iowait_ns": (5,),
    "machine_steal_ns": (8,),
}


def system_readings(path: Path | None, *, tree: SystemTree = LIVE) -> dict[str, float]:
    """Return absolute readings of the machine and of the device at a path; absent where unknown.

    Time over all processors: ``machine_user_ns``, ``machine_system_ns``, ``machine_iowait_ns``,
    ``machine_steal_ns``, ``machine_idle_ns``; ``machine_iowait_ns`` may decrease, as proc_stat(5)
    warns. Waiting: ``psi_cpu_some_ns``, ``psi_io_some_ns``, ``psi_io_full_ns``,
    ``psi_memory_some_ns``.

    Of the devices directly under the file system, summed over several: ``device_reads``,
    ``device_writes`` (requests), ``device_read_bytes``, ``device_write_bytes``, ``device_read_ns``,
    ``device_write_ns`` and ``device_queued_ns`` (sums of the times of reads, writes and all
    requests), ``device_busy_ns`` (time with a request in flight); the gauges ``device_in_flight``
    and ``devices``, their number. Of the whole disks under them, for all users:
    ``device_flushes`` and ``device_flush_ns`` (sum of their times, since Linux 5.5),
    ``disk_read_bytes`` and ``disk_write_bytes``.
    """
    files = sources(tree, path)
    readings = {
        **_processors(tree),
        **pressures(tree, _ALL_PRESSURES),
        **device_readings(tree, files.stats, _DEVICE_FIELDS),
        **device_readings(tree, files.flush_stats, (*_ALL_FLUSH_FIELDS, *_DISK_FIELDS)),
    }
    if files.stats:
        readings["devices"] = float(len(files.stats))
    return readings


def _processors(tree: SystemTree) -> dict[str, float]:
    line = (tree.text("/proc/stat", _STAT_LIMIT_BYTES) or "").partition("\n")[0].split()
    if not line or line[0] != "cpu":
        return {}
    return {
        name: sum(int(line[field]) for field in fields) * NS_PER_TICK
        for name, fields in _CPU_PARTS.items()
        if fields[-1] < len(line)
    }
