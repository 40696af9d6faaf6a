"""The target: kind of path, and the file system and devices under it.

Sources: statvfs(3), proc(5), and what btrfs shows under ``/sys/fs/btrfs``.
"""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import Path
from typing import Final

import msgspec

from seatrial.fingerprint import Btrfs, Device, Filesystem, Target, Users
from seatrial.machine.fingerprint.device import directory_of, disk_directory
from seatrial.machine.fingerprint.mounts import (
    Mount,
    btrfs_folder,
    device_numbers,
    devices_of,
    existing,
    mount_facts,
    mount_of,
    mounts,
    why_no_device,
)
from seatrial.machine.fingerprint.stack import filesystem_error_counts, names_of, physical, stack
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

_DEVICES_MAX: Final = 1024
_LAID_ON_OTHERS: Final = frozenset({"overlay", "zfs"})


def users(tree: SystemTree, stack: list[Device]) -> Users:
    """Return the other users of the physical disks of a stack.

    Their traffic shares the disk's rate and its cache, and shows in the disk's counters.
    """
    names = _everything_above(tree, [device.name for device in physical(stack)])
    numbers = {tree.word(f"/sys/class/block/{name}/dev") for name in names}
    points = {mount.point for mount in mounts(tree) if _lies_on(tree, mount, numbers)}
    return Users(
        mount_points=sorted(points),
        swap=[area for area in _swap_areas(tree) if _swaps_to(tree, area, numbers)],
    )


def _everything_above(tree: SystemTree, disks: list[str]) -> set[str]:
    """Return the names of disks, their partitions, and everything built on these."""
    found: set[str] = set()
    waiting = list(disks)
    while waiting and len(found) < _DEVICES_MAX:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        directory = f"/sys/class/block/{name}"
        waiting += tree.names(f"{directory}/holders")
        waiting += [
            part
            for part in tree.names(directory)
            if part.startswith(name) and tree.exists(f"{directory}/{part}/partition")
        ]
    return found


def _lies_on(tree: SystemTree, mount: Mount, numbers: set[str | None]) -> bool:
    """Return whether a file system is on one of these devices.

    Overlays are excluded: the file system of their folders is among the mounts as well.
    """
    if mount.kind in _LAID_ON_OTHERS:
        return False
    return any(number in numbers for number in device_numbers(tree, mount))


def _swap_areas(tree: SystemTree) -> list[str]:
    """Return devices and files used as swap. Source: proc(5), ``/proc/swaps``."""
    lines = (tree.text("/proc/swaps") or "").splitlines()[1:]
    return [line.split()[0] for line in lines if line.split()]


def _swaps_to(tree: SystemTree, area: str, numbers: set[str | None]) -> bool:
    """Return whether a swap area is on one of these devices."""
    number = tree.block_number(area)
    if number is not None:
        return number in numbers
    mount = mount_of(tree, area)
    return mount is not None and _lies_on(tree, mount, numbers)


def filesystem(tree: SystemTree, mount: Mount, path: str, numbers: list[str]) -> Filesystem:
    """Return the file system of a path; ``numbers`` are the devices under it."""
    folder = btrfs_folder(tree, numbers[0]) if mount.kind == "btrfs" and numbers else None
    found = Filesystem(
        **msgspec.structs.asdict(mount_facts(tree, mount)),
        error_counts=filesystem_error_counts(tree, folder, names_of(tree, numbers)),
        btrfs=_btrfs(tree, folder) if folder else None,
    )
    try:
        room = os.statvfs(tree.at(path))
    except OSError:
        return found
    return msgspec.structs.replace(
        found,
        size_bytes=room.f_blocks * room.f_frsize,
        free_bytes=room.f_bavail * room.f_frsize,
        block_size_bytes=room.f_bsize,
    )


def _btrfs(tree: SystemTree, folder: str) -> Btrfs:
    """Return the profiles of a btrfs; two of a kind during a conversion."""
    return Btrfs(
        data_profiles=_profiles(tree, f"{folder}/allocation/data"),
        metadata_profiles=_profiles(tree, f"{folder}/allocation/metadata"),
    )


def _profiles(tree: SystemTree, folder: str) -> list[str]:
    return [name for name in tree.names(folder) if tree.exists(f"{folder}/{name}/used_bytes")]


def block_device_of(path: Path, *, tree: SystemTree = LIVE) -> str:
    """Return ``major:minor`` of the block device under a file, folder or device node.

    The first of several (btrfs, ZFS). Empty where there is none, as on tmpfs, or where it is not
    visible. For a path that does not exist, the nearest existing folder counts.
    """
    return next(iter(devices_of(tree, real_path(tree, path))), "")


def real_path(tree: SystemTree, path: Path) -> str:
    """Return the absolute path without links: those of /dev/disk/by-id contain serial numbers."""
    absolute = str(path.absolute())
    return tree.resolve(absolute) or posixpath.normpath(absolute)


def target(tree: SystemTree, path: str) -> Target:
    """Return the target at a path."""
    whole_device = tree.block_number(path) is not None
    mount = None if whole_device else mount_of(tree, existing(tree, path))
    numbers = devices_of(tree, path)
    nodes = stack(tree, numbers)
    return Target(
        path=path,
        kind="device" if whole_device else _kind(tree, path),
        filesystem=filesystem(tree, mount, existing(tree, path), numbers) if mount else None,
        logical_block_bytes=_block_bytes(tree, numbers, "logical_block_size"),
        physical_block_bytes=_block_bytes(tree, numbers, "physical_block_size"),
        stack=nodes,
        no_device_because="" if nodes else why_no_device(tree, mount),
        users=users(tree, nodes),
    )


def _kind(tree: SystemTree, path: str) -> str:
    """Return the kind of a path that is not a device."""
    status = tree.status(path)
    if status is None:
        return "absent"
    return "directory" if stat.S_ISDIR(status.st_mode) else "file"


def _block_bytes(tree: SystemTree, numbers: list[str], file: str) -> int | None:
    """Return the largest block size of the topmost devices; a partition has that of its disk."""
    directories = [found for number in numbers if (found := directory_of(tree, number))]
    sizes = [
        tree.integer(f"{disk_directory(tree, directory)}/queue/{file}") for directory in directories
    ]
    return max((size for size in sizes if size is not None), default=None)
