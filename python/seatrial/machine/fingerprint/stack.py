"""The stack: every block device from the one under the file system to the physical ones."""

from __future__ import annotations

import posixpath
from collections import deque
from typing import Any, Final, NamedTuple

from seatrial.machine.fingerprint.device import describe, directory_of, kind_of
from seatrial.machine.fingerprint.error_counts import error_counts
from seatrial.machine.fingerprint.medium import lasting_name
from seatrial.machine.fingerprint.mounts import devices_of, existing, mount_facts, mount_of
from seatrial.machine.fingerprint.privacy import short_hash
from seatrial.machine.fingerprint.tree import SystemTree

_DEVICES_MAX: Final = 256


class _Place(NamedTuple):
    """A device of a stack: its ``major:minor``, directory in sysfs, and what it is laid on."""

    number: str
    directory: str
    below: list[str]


def stack(tree: SystemTree, tops: list[str]) -> list[dict[str, Any]]:
    """Return every device from the given ones (``major:minor``) down, each once, top first.

    ``children`` names the devices on which one is laid: a partition's disk, an array's members,
    the device under the file system that holds a loop device's file. ``parents`` names those of
    this stack that are laid on it. A loop device's ``loop.filesystem`` is the one that holds its
    file (``mounts.mount_facts``). ``medium_hash`` tells the medium itself from others
    (``medium.lasting_name``). A device without children is a physical one, as far as this
    machine can tell. At most 256 devices are followed.
    """
    nodes: dict[str, dict[str, Any]] = {}
    for place in _reached(tree, tops):
        node = describe(tree, place.number, place.directory)
        node["error_counts"] = error_counts(tree, place.directory)
        name = lasting_name(tree, place.number)
        node["medium_hash"] = short_hash(name) if name else None
        if node["kind"] == "loop":
            node["loop"]["filesystem"] = _filesystem_below(tree, place.directory)
        node["children"] = names_of(tree, place.below)
        node["parents"] = []
        nodes[node["name"]] = node
    for node in nodes.values():
        for child in node["children"]:
            if child in nodes:
                nodes[child]["parents"].append(node["name"])
    return list(nodes.values())


def physical(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the devices of a stack that are laid on no other."""
    return [node for node in nodes if not node["children"]]


def physical_directories(tree: SystemTree, tops: list[str]) -> list[str]:
    """Return the sysfs directories of the physical devices under the given ones, each once."""
    return [place.directory for place in _reached(tree, tops) if not place.below]


def flushing_directories(tree: SystemTree, tops: list[str]) -> list[str]:
    """Return the sysfs directories of the devices at which the kernel counts flushes, each once.

    It counts them where requests are queued, and there for the whole disk (block/blk-core.c and
    blk-flush.c: a partition's own count stays 0, and so does that of an array or a volume, which
    hands every flush on to its members). So these are the given devices or, where one of them is
    laid on others and has no queue of its own, the first below it that has one.
    """
    found: dict[str, None] = {}
    waiting = deque(tops)
    looked_at: set[str] = set()
    while waiting and len(looked_at) < _DEVICES_MAX:
        directory = directory_of(tree, waiting.popleft())
        if directory is None or directory in looked_at:
            continue
        looked_at.add(directory)
        below = [] if tree.exists(f"{directory}/mq") else numbers_below(tree, directory)
        if not below:
            found[directory] = None
        waiting.extend(below)
    return list(found)


def _reached(tree: SystemTree, tops: list[str]) -> list[_Place]:
    """Return every device from the given ones down, each once, level by level."""
    found: dict[str, _Place] = {}
    waiting = deque(tops)
    while waiting and len(found) < _DEVICES_MAX:
        number = waiting.popleft()
        directory = directory_of(tree, number)
        if directory is not None and directory not in found:
            below = numbers_below(tree, directory)
            found[directory] = _Place(number, directory, below)
            waiting.extend(below)
    return list(found.values())


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
        path = _backing_file(tree, directory)
        return devices_of(tree, path) if path else []
    else:
        files = [f"{directory}/slaves/{name}/dev" for name in tree.names(f"{directory}/slaves")]
    return [number for file in files if (number := tree.word(file)) is not None]


def _backing_file(tree: SystemTree, directory: str) -> str | None:
    """Return the file on which a loop device is laid; None while it has none."""
    path = tree.word(f"{directory}/loop/backing_file")
    return path if path and path.startswith("/") else None


def _filesystem_below(tree: SystemTree, directory: str) -> dict[str, Any] | None:
    """Return the file system that holds a loop device's file; None where it is a device."""
    path = _backing_file(tree, directory)
    if path is None or tree.block_number(path) is not None:
        return None
    mount = mount_of(tree, existing(tree, path))
    return mount_facts(tree, mount) if mount else None
