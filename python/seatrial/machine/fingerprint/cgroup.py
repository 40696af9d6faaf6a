"""Limits of the control groups that this process runs in.

Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst (``cpu.max``, ``memory.max``,
``io.max``) and cgroup-v1/blkio-controller.rst, cgroup-v1/memory.rst, scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, Final

from seatrial.machine.fingerprint.mounts import Mount, mounts
from seatrial.machine.fingerprint.tree import SystemTree

_NO_LIMIT_BYTES: Final = 1 << 62
_V2_IO: Final = {
    "rbps": "read_bytes_per_s",
    "wbps": "write_bytes_per_s",
    "riops": "reads_per_s",
    "wiops": "writes_per_s",
}
_V1_IO: Final = {
    "read_bps": "read_bytes_per_s",
    "write_bps": "write_bytes_per_s",
    "read_iops": "reads_per_s",
    "write_iops": "writes_per_s",
}


def cgroup(tree: SystemTree) -> dict[str, Any]:
    """Return the narrowest limit of all groups from our own up to the root.

    Keys: ``cpu_limit_cpus`` (processors' worth of time), ``memory_limit_bytes`` (the page cache
    counts), ``io_limits``: by device ``major:minor`` a mapping of ``read_bytes_per_s``,
    ``write_bytes_per_s``, ``reads_per_s``, ``writes_per_s``. None or empty where there is none.
    """
    cpus: list[float] = []
    memory_bytes: list[int] = []
    io: dict[str, dict[str, int]] = {}
    for folder in _groups(tree):
        cpus += _cpu_limits(tree, folder)
        memory_bytes += _memory_limits(tree, folder)
        for device, key, limit in _io_limits(tree, folder):
            limits = io.setdefault(device, {})
            limits[key] = min(limit, limits.get(key, limit))
    return {
        "cpu_limit_cpus": min(cpus, default=None),
        "memory_limit_bytes": min(memory_bytes, default=None),
        "io_limits": io,
    }


def own_groups(tree: SystemTree, controller: str = "") -> Iterator[str]:
    """Yield the folder of the group that we are in, and of those above it, of one hierarchy.

    ``controller`` names one of version 1, such as ``memory``; empty means version 2.
    """
    hierarchies = [mount for mount in mounts(tree) if mount.kind in {"cgroup", "cgroup2"}]
    for number, controllers, path in _memberships(tree):
        if controller in controllers.split(",") and (number == "0") == (not controller):
            for mount in hierarchies:
                if _belongs(mount, number, controllers):
                    yield from _upwards(tree, mount.point, path)


def _groups(tree: SystemTree) -> Iterator[str]:
    """Yield the folder of each group that we are in, and those above, of every hierarchy."""
    for number, controllers, _path in _memberships(tree):
        if number == "0" or not controllers.startswith("name="):
            yield from own_groups(tree, controllers.split(",")[0])


def _memberships(tree: SystemTree) -> Iterator[tuple[str, str, str]]:
    """Yield number, controllers and group of each hierarchy: the lines of /proc/self/cgroup."""
    for line in (tree.text("/proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        yield number, controllers, path


def _belongs(mount: Mount, number: str, controllers: str) -> bool:
    """Return whether a mounted hierarchy is the one of a line of ``/proc/self/cgroup``."""
    if number == "0":
        return mount.kind == "cgroup2"
    wanted = set(controllers.split(","))
    return mount.kind == "cgroup" and wanted <= set(mount.options.split(","))


def _upwards(tree: SystemTree, top: str, path: str) -> Iterator[str]:
    """Yield the folder of a group and of each above it, as far as they are visible.

    In a container the path may be the host's, of which only the end is mounted: then the mounted
    top is our own group.
    """
    folder = posixpath.normpath(top + path)
    while len(folder) > len(top):
        if tree.exists(folder):
            yield folder
        folder = posixpath.dirname(folder)
    yield top


def _cpu_limits(tree: SystemTree, folder: str) -> list[float]:
    """Return the group's limit of processor time, in processors."""
    words = (tree.text(f"{folder}/cpu.max") or "").split()
    if len(words) == 2 and words[0].isdigit():
        return [int(words[0]) / int(words[1])]
    quota_us = tree.integer(f"{folder}/cpu.cfs_quota_us")
    period_us = tree.integer(f"{folder}/cpu.cfs_period_us")
    return [quota_us / period_us] if quota_us and quota_us > 0 and period_us else []


def _memory_limits(tree: SystemTree, folder: str) -> list[int]:
    """Return the group's limits of memory in bytes; the largest number stands for none."""
    files = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits = [tree.integer(f"{folder}/{file}") for file in files]
    return [limit for limit in limits if limit is not None and limit < _NO_LIMIT_BYTES]


def _io_limits(tree: SystemTree, folder: str) -> Iterator[tuple[str, str, int]]:
    """Yield device, name and value of each limit of the group on I/O."""
    for line in (tree.text(f"{folder}/io.max") or "").splitlines():
        device, *settings = line.split()
        for setting in settings:
            name, _, value = setting.partition("=")
            if name in _V2_IO and value.isdigit():
                yield device, _V2_IO[name], int(value)
    for file, key in _V1_IO.items():
        for line in (tree.text(f"{folder}/blkio.throttle.{file}_device") or "").splitlines():
            device, _, value = line.partition(" ")
            if value.isdigit():
                yield device, key, int(value)
