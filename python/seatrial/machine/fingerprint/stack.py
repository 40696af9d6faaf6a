"""The stack: every block device from the one under the file system to the physical ones."""

from __future__ import annotations

import posixpath
import re
from collections import deque
from typing import Final, NamedTuple

from msgspec.structs import replace

from seatrial.fingerprint import Device
from seatrial.fingerprint import Mount as MountFacts
from seatrial.machine.fingerprint.device import (
    controllers,
    describe,
    directory_of,
    kind_of,
    pci_functions,
)
from seatrial.machine.fingerprint.medium import lasting_name
from seatrial.machine.fingerprint.mounts import devices_of, existing, mount_facts, mount_of
from seatrial.machine.fingerprint.privacy import short_hash
from seatrial.machine.fingerprint.tree import SystemTree

_SCSI: Final = {
    "requests": "iorequest_cnt",
    "requests_done": "iodone_cnt",
    "request_errors": "ioerr_cnt",
    "request_timeouts": "iotmo_cnt",
}
_PCIE: Final = {
    "pcie_corrected": ("aer_dev_correctable", "TOTAL_ERR_COR"),
    "pcie_not_fatal": ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
    "pcie_fatal": ("aer_dev_fatal", "TOTAL_ERR_FATAL"),
}


def error_counts(tree: SystemTree, directory: str) -> dict[str, int]:
    """Return the counters of a device by name; missing ones are absent.

    ``in_flight`` is not a count of errors: it is the current number of requests.
    Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci-devices-aer, sysfs-fs-ext4, the
    SCSI layer's ``ioerr_cnt`` and its siblings, and btrfs' ``error_stats``.
    """
    counts: dict[str, int | None] = {
        "in_flight": _in_flight(tree, directory),
        **{key: tree.integer(f"{directory}/device/{file}") for key, file in _SCSI.items()},
    }
    hardware = (controllers(tree, directory) or [directory])[0]
    for function in pci_functions(hardware)[:1]:
        for key, (file, total) in _PCIE.items():
            counts[key] = _labelled(tree.text(f"{function}/{file}") or "").get(total)
    return {key: count for key, count in counts.items() if count is not None}


def filesystem_error_counts(
    tree: SystemTree, btrfs: str | None, names: list[str]
) -> dict[str, int]:
    """Return the error counters of a file system on the named devices; empty without any.

    ``btrfs`` is its folder in sysfs if it is a btrfs; its devices are summed up.
    """
    counts: dict[str, int] = {}
    for device in tree.names(f"{btrfs}/devinfo") if btrfs else []:
        stats = _labelled(tree.text(f"{btrfs}/devinfo/{device}/error_stats") or "")
        for key, count in stats.items():
            counts[key] = counts.get(key, 0) + count
    for name in names:
        count_ext4 = tree.integer(f"/sys/fs/ext4/{name}/errors_count")
        if count_ext4 is not None:
            counts["errors"] = counts.get("errors", 0) + count_ext4
    return counts


def _in_flight(tree: SystemTree, directory: str) -> int | None:
    """Return the requests in flight, reads and writes together."""
    words = (tree.text(f"{directory}/inflight") or "").split()
    return sum(map(int, words)) if words and all(word.isdigit() for word in words) else None


def _labelled(text: str) -> dict[str, int]:
    """Return lines of a name and a number as a mapping."""
    return {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", text, re.MULTILINE)}


_DEVICES_MAX: Final = 256


class _StackedDevice(NamedTuple):
    """A device of a stack: its ``major:minor``, directory in sysfs, and the devices under it."""

    number: str
    directory: str
    below: list[str]


def stack(tree: SystemTree, tops: list[str]) -> list[Device]:
    """Return all devices from the given ones (``major:minor``) down, without duplicates, top first.

    ``children`` names the devices directly under one: a partition's disk, an array's members, the
    device under the file system that holds a loop device's file. ``parents`` names those of this
    stack directly above it. A loop device's ``loop.filesystem`` is the one that holds its file
    (``mounts.mount_facts``). ``medium_hash`` identifies the medium (``medium.lasting_name``). A
    device without children is a physical one, as far as visible on this machine. At most 256
    devices are followed.
    """
    found = {d.name: d for d in (_described(tree, each) for each in _reached(tree, tops))}
    return [
        replace(device, parents=[each.name for each in found.values() if name in each.children])
        for name, device in found.items()
    ]


def _described(tree: SystemTree, stacked: _StackedDevice) -> Device:
    """Return one device with the devices under it."""
    device = describe(tree, stacked.number, stacked.directory)
    name = lasting_name(tree, stacked.number)
    if device.loop:
        below = _filesystem_below(tree, stacked.directory)
        device = replace(device, loop=replace(device.loop, filesystem=below))
    return replace(
        device,
        error_counts=error_counts(tree, stacked.directory),
        medium_hash=short_hash(name) if name else None,
        children=names_of(tree, stacked.below),
    )


def physical(devices: list[Device]) -> list[Device]:
    """Return the devices of a stack without others under them."""
    return [device for device in devices if not device.children]


def physical_directories(tree: SystemTree, tops: list[str]) -> list[str]:
    """Return the sysfs directories of the physical devices under the given ones."""
    return [each.directory for each in _reached(tree, tops) if not each.below]


def flushing_directories(tree: SystemTree, tops: list[str]) -> list[str]:
    """Return the sysfs directories of the devices at which the kernel counts flushes.

    It counts them where requests are queued, and there for the whole disk (block/blk-core.c and
    blk-flush.c: a partition's own count stays 0, and so does that of an array or a volume, which
    passes every flush on to its members). So these are the given devices or, if one of them is
    above others and has no queue of its own, the first below it that has one.
    """
    return [each.directory for each in _reached(tree, tops, to_queues=True) if not each.below]


def _reached(tree: SystemTree, tops: list[str], *, to_queues: bool = False) -> list[_StackedDevice]:
    """Return all devices from the given ones down, without duplicates, level by level.

    Args:
        tree: The machine.
        tops: ``major:minor`` of the given ones.
        to_queues: Whether not to look below a device with a queue of its own.
    """
    found: dict[str, _StackedDevice] = {}
    waiting = deque(tops)
    while waiting and len(found) < _DEVICES_MAX:
        number = waiting.popleft()
        directory = directory_of(tree, number)
        if directory is not None and directory not in found:
            has_queue = to_queues and tree.exists(f"{directory}/mq")
            below = [] if has_queue else numbers_below(tree, directory)
            found[directory] = _StackedDevice(number, directory, below)
            waiting.extend(below)
    return list(found.values())


def names_of(tree: SystemTree, numbers: list[str]) -> list[str]:
    """Return the names of the existing devices of some ``major:minor``."""
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
    """Return the backing file of a loop device; None if detached."""
    path = tree.word(f"{directory}/loop/backing_file")
    return path if path and path.startswith("/") else None


def _filesystem_below(tree: SystemTree, directory: str) -> MountFacts | None:
    """Return the file system that holds a loop device's file; None where it is a device."""
    path = _backing_file(tree, directory)
    if path is None or tree.block_number(path) is not None:
        return None
    mount = mount_of(tree, existing(tree, path))
    return mount_facts(tree, mount) if mount else None
