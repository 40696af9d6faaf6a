"""The stack: every block device from the one under the file system to the physical ones."""

from __future__ import annotations

import posixpath
from collections import deque
from typing import Any, Final

from seatrial.context.device import describe, directory_of, kind_of
from seatrial.context.errors import error_counts
from seatrial.context.mounts import device_numbers, existing, mount_of
from seatrial.context.tree import SystemTree

_DEVICES_MAX: Final = 256


def stack(tree: SystemTree, tops: list[str]) -> list[dict[str, Any]]:
    """Return every device from the given ones (``major:minor``) down, each once, top first.

    ``children`` names the devices on which one is laid: a partition's disk, an array's members,
    the device under the file system that holds a loop device's file. ``parents`` names those of
    this stack that are laid on it. A device without children is a physical one, as far as this
    machine can tell. At most 256 devices are followed.
    """
    found: dict[str, dict[str, Any]] = {}
    waiting = deque(tops)
    while waiting and len(found) < _DEVICES_MAX:
        number = waiting.popleft()
        directory = directory_of(tree, number)
        if directory is None or posixpath.basename(directory) in found:
            continue
        below = numbers_below(tree, directory)
        node = describe(tree, number, directory)
        node["error_counts"] = error_counts(tree, directory)
        node["children"] = names_of(tree, below)
        node["parents"] = []
        found[node["name"]] = node
        waiting.extend(below)
    for node in found.values():
        for child in node["children"]:
            if child in found:
                found[child]["parents"].append(node["name"])
    return list(found.values())


def physical(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the devices of a stack that are laid on no other."""
    return [node for node in nodes if not node["children"]]


def physical_directories(tree: SystemTree, tops: list[str]) -> list[str]:
    """Return the sysfs directories of the physical devices under the given ones, each once."""
    found: dict[str, bool] = {}
    waiting = deque(tops)
    while waiting and len(found) < _DEVICES_MAX:
        directory = directory_of(tree, waiting.popleft())
        if directory is None or directory in found:
            continue
        below = numbers_below(tree, directory)
        found[directory] = not below
        waiting.extend(below)
    return [directory for directory, is_physical in found.items() if is_physical]


def names_of(tree: SystemTree, numbers: list[str]) -> list[str]:
    """Return the names of the devices ``major:minor`` that exist."""
    directories = [directory_of(tree, number) for number in numbers]
    return [posixpath.basename(directory) for directory in directories if directory]


def numbers_below(tree: SystemTree, directory: str) -> list[str]:
    """Return ``major:minor`` of the devices directly under one; empty for a physical one."""
    kind = kind_of(tree, directory)
    if kind == "partition":
        files = [f"{posixpath.dirname(directory)}/dev"]
    elif kind == "loop":
        return _numbers_below_file(tree, f"{directory}/loop/backing_file")
    else:
        files = [f"{directory}/slaves/{name}/dev" for name in tree.names(f"{directory}/slaves")]
    return [number for file in files if (number := tree.word(file)) is not None]


def _numbers_below_file(tree: SystemTree, backing: str) -> list[str]:
    """Return the devices under the file system that holds a loop device's file.

    The backing file may itself be a block device.
    """
    path = tree.word(backing)
    if path is None or not path.startswith("/"):
        return []
    number = tree.block_number(path)
    if number is not None:
        return [number]
    mount = mount_of(tree, existing(tree, path))
    return device_numbers(tree, mount) if mount else []
