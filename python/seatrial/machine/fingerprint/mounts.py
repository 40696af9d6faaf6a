"""Mounts: which one a path is on, and the block devices under it.

Source: proc(5), ``/proc/[pid]/mountinfo``.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final, NamedTuple

from seatrial.fingerprint import Mount as MountFacts
from seatrial.machine.fingerprint.privacy import (
    without_host,
    without_revealing_options,
    without_server,
)
from seatrial.machine.fingerprint.tree import CommandMissingError, CommandTimeoutError, SystemTree

_ANONYMOUS_MAJOR: Final = "0"
_OVERLAYS_MAX: Final = 8
_ZPOOL_TIMEOUT_S: Final = 5.0
_FIELDS_BEFORE_DASH: Final = 6
_FIELDS_AFTER_DASH: Final = 3


class Mount(NamedTuple):
    """One mounted file system of ``mountinfo``.

    Attributes:
        id: The kernel's number of the mount.
        number: ``major:minor`` of the file system; major 0 where it is not one block device.
        point: Where it is mounted.
        kind: Type of the file system, such as ``xfs``.
        source: Device, server or pool, as named when mounted.
        options: Options of the mount and of the file system, without duplicates, comma separated.
    """

    id: int
    number: str
    point: str
    kind: str
    source: str
    options: str


def mounts(tree: SystemTree, pid: str = "self") -> list[Mount]:
    """Return the mounts visible to a process, by default ours, oldest first."""
    lines = (tree.text(f"/proc/{pid}/mountinfo") or "").splitlines()
    return [mount for line in lines if (mount := _parsed(line)) is not None]


def namespaces(tree: SystemTree) -> list[str]:
    """Return one process of each other visible mount namespace."""
    found = {tree.link("/proc/self/ns/mnt"): ""}
    for pid in tree.names("/proc"):
        namespace = tree.link(f"/proc/{pid}/ns/mnt") if pid.isdigit() else None
        if namespace is not None:
            found.setdefault(namespace, pid)
    return [pid for pid in found.values() if pid]


def mount_of(tree: SystemTree, path: str) -> Mount | None:
    """Return the mount that a path is on; None when unknown.

    The kernel reports the mount of an open file; where it does not, the longest mount point above
    the path is used, and of several on one point the last, which hides the others.
    """
    found = mounts(tree)
    identity = tree.mount_id(path)
    for mount in found:
        if mount.id == identity:
            return mount
    real = tree.resolve(path) or path
    above = [mount for mount in found if _lies_below(real, mount.point)]
    return max(reversed(above), key=lambda mount: len(mount.point), default=None)


def existing(tree: SystemTree, path: str) -> str:
    """Return the path, or the nearest folder above it that exists."""
    while path != "/" and not tree.exists(path):
        path = posixpath.dirname(path)
    return path


def devices_of(tree: SystemTree, path: str) -> list[str]:
    """Return ``major:minor`` of every block device directly under a path; empty if none."""
    number = tree.block_number(path)
    if number is not None:
        return [number]
    mount = mount_of(tree, existing(tree, path))
    return device_numbers(tree, mount) if mount else []


def device_numbers(tree: SystemTree, mount: Mount) -> list[str]:
    """Return ``major:minor`` of each block device directly under a file system.

    One for most; several for btrfs and ZFS; none for tmpfs, network and container file systems.
    """
    if mount.number.partition(":")[0] != _ANONYMOUS_MAJOR:
        return [mount.number]
    if mount.kind == "zfs":
        return _zfs_numbers(tree, mount.source)
    if mount.kind == "overlay":
        return _overlay_numbers(tree, mount)
    number = tree.block_number(mount.source) if mount.source.startswith("/dev/") else None
    if number is None:
        return []
    if mount.kind == "btrfs":
        return _btrfs_numbers(tree, number) or [number]
    return [number]


def btrfs_folder(tree: SystemTree, number: str) -> str | None:
    """Return the sysfs folder of the btrfs of a block device."""
    directory = tree.resolve(f"/sys/dev/block/{number}")
    name = posixpath.basename(directory or "")
    for identity in tree.names("/sys/fs/btrfs"):
        folder = f"/sys/fs/btrfs/{identity}"
        if name and name in tree.names(f"{folder}/devices"):
            return folder
    return None


def mount_facts(tree: SystemTree, mount: Mount) -> MountFacts:
    """Return a mount without host names or serial numbers, as in /dev/disk/by-id."""
    source = mount.source
    if source.startswith("/dev/disk/"):
        source = tree.resolve(source) or "/dev/disk"
    return MountFacts(
        type=mount.kind,
        mount_point=mount.point,
        mount_options=without_revealing_options(mount.options),
        source=without_host(without_server(source, mount.kind, tree), tree),
    )


def why_no_device(tree: SystemTree, mount: Mount | None) -> str:
    """Return why there is no block device under a file system."""
    if mount is None:
        return "the mount of the path is not visible in /proc/self/mountinfo"
    if mount.kind in {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}:
        return f"{mount.kind} is in memory"
    if mount.kind == "overlay":
        return "the upper directory of the overlay is not visible, as in containers: use a volume"
    if mount.kind == "zfs":
        return "`zpool list`, which lists the devices of the pool, is missing or failed"
    if mount.source.startswith("/dev/"):
        return f"{mount.source} is not visible in /dev or /sys"
    return f"{mount.kind} is not on a block device of this machine"


def _parsed(line: str) -> Mount | None:
    """Parse one line of mountinfo; a dash ends a variable number of optional fields."""
    before, dash, after = line.partition(" - ")
    left, right = before.split(), after.split()
    if not dash or len(left) < _FIELDS_BEFORE_DASH or len(right) < _FIELDS_AFTER_DASH:
        return None
    options = dict.fromkeys((left[5] + "," + right[2]).split(","))
    return Mount(
        id=int(left[0]),
        number=left[2],
        point=unescaped(left[4]),
        kind=right[0],
        source=unescaped(right[1]),
        options=",".join(option for option in options if option),
    )


def unescaped(field: str) -> str:
    r"""Decode octal escapes (``\040``) in a field of a file of /proc."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _lies_below(path: str, point: str) -> bool:
    return point in {"/", path} or path.startswith(point + "/")


def _btrfs_numbers(tree: SystemTree, number: str) -> list[str]:
    """Return the numbers of all devices of a device's btrfs."""
    folder = btrfs_folder(tree, number)
    if folder is None:
        return []
    devices = [f"{folder}/devices/{name}/dev" for name in tree.names(f"{folder}/devices")]
    return [found for device in devices if (found := tree.word(device)) is not None]


def _zfs_numbers(tree: SystemTree, source: str) -> list[str]:
    """Return the numbers of a pool's devices, which only ZFS's own tool lists.

    Source: zpool-list(8): ``-v`` devices, ``-H`` no headings, ``-P`` full paths, ``-L`` no links.
    """
    pool = source.partition("/")[0]
    try:
        listed = tree.run(["zpool", "list", "-v", "-H", "-P", "-L", pool], _ZPOOL_TIMEOUT_S)
    except (CommandMissingError, CommandTimeoutError):
        return []
    devices = [word for word in listed.output.split() if word.startswith("/dev/")]
    return [found for device in devices if (found := tree.block_number(device)) is not None]


def _overlay_numbers(tree: SystemTree, mount: Mount) -> list[str]:
    """Return the numbers of the devices under an overlay's upper folder, which takes the writes.

    Inside a container that folder has its path on the host: it does not exist, or would be found
    on the overlay itself. Both mean that nothing is known.
    """
    for _ in range(_OVERLAYS_MAX):
        upper = _option(mount, "upperdir")
        below = mount_of(tree, upper) if upper and tree.exists(upper) else None
        if below is None or below.id == mount.id:
            return []
        if below.kind != "overlay":
            return device_numbers(tree, below)
        mount = below
    return []


def _option(mount: Mount, key: str) -> str | None:
    for option in mount.options.split(","):
        name, _, value = option.partition("=")
        if name == key:
            return value
    return None
