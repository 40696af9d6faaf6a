"""The file system under a target.

Sources: statvfs(3), proc(5), and what btrfs shows under ``/sys/fs/btrfs``.
"""

from __future__ import annotations

import os
from typing import Any, Final

from seatrial.machine.fingerprint.error_counts import filesystem_error_counts
from seatrial.machine.fingerprint.mounts import Mount, btrfs_folder, mount_facts
from seatrial.machine.fingerprint.stack import names_of
from seatrial.machine.fingerprint.tree import SystemTree

_SPACE_FOLDERS: Final = {"data": "data_profiles", "metadata": "metadata_profiles"}


def filesystem(tree: SystemTree, mount: Mount, path: str, numbers: list[str]) -> dict[str, Any]:
    """Return the file system that a path lies on.

    Keys: ``type``, ``mount_point``, ``mount_options`` (a list), ``source``, ``size_bytes``,
    ``free_bytes`` (for an ordinary user), ``block_size_bytes``, ``error_counts``, and ``btrfs``
    (``data_profiles``, ``metadata_profiles``: ``single``, ``raid1`` ...) where it is one.
    ``numbers`` are the devices under it.
    """
    folder = btrfs_folder(tree, numbers[0]) if mount.kind == "btrfs" and numbers else None
    facts = {
        **mount_facts(tree, mount),
        **space(tree, path),
        "error_counts": filesystem_error_counts(tree, folder, names_of(tree, numbers)),
    }
    return facts | ({"btrfs": _btrfs(tree, folder)} if folder else {})


def space(tree: SystemTree, path: str) -> dict[str, int | None]:
    """Return ``size_bytes``, ``free_bytes`` and ``block_size_bytes`` of a path's file system."""
    try:
        room = os.statvfs(tree.at(path))
    except OSError:
        return {"size_bytes": None, "free_bytes": None, "block_size_bytes": None}
    return {
        "size_bytes": room.f_blocks * room.f_frsize,
        "free_bytes": room.f_bavail * room.f_frsize,
        "block_size_bytes": room.f_bsize,
    }


def _btrfs(tree: SystemTree, folder: str) -> dict[str, list[str]]:
    """Return how a btrfs lays out data and metadata; two profiles while it is being converted."""
    return {
        key: [
            name
            for name in tree.names(f"{folder}/allocation/{space_kind}")
            if tree.exists(f"{folder}/allocation/{space_kind}/{name}/used_bytes")
        ]
        for space_kind, key in _SPACE_FOLDERS.items()
    }
