"""The target: what kind of thing the path is, and the file system and devices under it."""

from __future__ import annotations

import posixpath
import stat
from pathlib import Path
from typing import Any

from seatrial.machine.fingerprint.device import directory_of, disk_directory
from seatrial.machine.fingerprint.filesystem import filesystem
from seatrial.machine.fingerprint.mounts import devices_of, existing, mount_of, why_no_device
from seatrial.machine.fingerprint.stack import stack
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.fingerprint.users import users


def block_device_of(path: Path, *, tree: SystemTree = LIVE) -> str:
    """Return ``major:minor`` of the block device that a file, folder or device node lies on.

    Of several (btrfs, ZFS) the first. Empty where there is none, as on tmpfs, or where it is not
    visible. A path that does not exist yet lies where its nearest folder does.
    """
    return next(iter(devices_of(tree, real_path(tree, path))), "")


def real_path(tree: SystemTree, path: Path) -> str:
    """Return the path from the root, without links: those of /dev/disk/by-id hold serials."""
    absolute = str(path.absolute())
    return tree.resolve(absolute) or posixpath.normpath(absolute)


def target(tree: SystemTree, path: str) -> dict[str, Any]:
    """Return what lies under a path.

    Keys: ``path``; ``kind`` (``file``, ``directory``, ``device``, or ``absent`` when it is still to
    be made); ``filesystem`` (None under a device); ``logical_block_bytes`` and
    ``physical_block_bytes`` of the topmost device; ``stack``, every device from there down;
    ``no_device_because``, a phrase, empty where there is a stack; ``users`` of the same disks.
    """
    whole_device = tree.block_number(path) is not None
    mount = None if whole_device else mount_of(tree, existing(tree, path))
    numbers = devices_of(tree, path)
    nodes = stack(tree, numbers)
    return {
        "path": path,
        "kind": "device" if whole_device else _kind(tree, path),
        "filesystem": filesystem(tree, mount, existing(tree, path), numbers) if mount else None,
        "logical_block_bytes": _block_bytes(tree, numbers, "logical_block_size"),
        "physical_block_bytes": _block_bytes(tree, numbers, "physical_block_size"),
        "stack": nodes,
        "no_device_because": "" if nodes else why_no_device(tree, mount),
        "users": users(tree, nodes),
    }


def _kind(tree: SystemTree, path: str) -> str:
    """Return what a path that is no device is."""
    status = tree.status(path)
    if status is None:
        return "absent"
    return "directory" if stat.S_ISDIR(status.st_mode) else "file"


def _block_bytes(tree: SystemTree, numbers: list[str], file: str) -> int | None:
    """Return the largest block of the topmost devices; a partition has that of its disk."""
    directories = [found for number in numbers if (found := directory_of(tree, number))]
    sizes = [
        tree.integer(f"{disk_directory(tree, directory)}/queue/{file}") for directory in directories
    ]
    return max((size for size in sizes if size is not None), default=None)
