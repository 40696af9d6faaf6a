"""Who else uses the disks under a target: other mounts, swap.

Their traffic shares the disk's rate and its cache, and shows in the disk's counters.
"""

from __future__ import annotations

from typing import Any, Final

from seatrial.machine.fingerprint.mounts import Mount, device_numbers, mount_of, mounts
from seatrial.machine.fingerprint.stack import physical
from seatrial.machine.fingerprint.tree import SystemTree

_DEVICES_MAX: Final = 1024
_LAID_ON_OTHERS: Final = frozenset({"overlay", "zfs"})


def users(tree: SystemTree, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what else is laid on the physical disks of a stack.

    Keys: ``mount_points`` of all file systems on these disks, the target's own among them, and
    ``swap``: the devices and files on them that are swapped to.
    """
    names = _everything_above(tree, [node["name"] for node in physical(nodes)])
    numbers = {tree.word(f"/sys/class/block/{name}/dev") for name in names}
    points = {mount.point for mount in mounts(tree) if _lies_on(tree, mount, numbers)}
    return {
        "mount_points": sorted(points),
        "swap": [area for area in _swap_areas(tree) if _swaps_to(tree, area, numbers)],
    }


def _everything_above(tree: SystemTree, disks: list[str]) -> set[str]:
    """Return the disks, their partitions, and all that is made of these, by name."""
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
    """Return whether a file system lies on one of these devices.

    Overlays are left out: the file system that holds their folders is among the mounts as well.
    """
    if mount.kind in _LAID_ON_OTHERS:
        return False
    return any(number in numbers for number in device_numbers(tree, mount))


def _swap_areas(tree: SystemTree) -> list[str]:
    """Return the devices and files that are swapped to. Source: proc(5), ``/proc/swaps``."""
    lines = (tree.text("/proc/swaps") or "").splitlines()[1:]
    return [line.split()[0] for line in lines if line.split()]


def _swaps_to(tree: SystemTree, area: str, numbers: set[str | None]) -> bool:
    """Return whether a swap area lies on one of these devices."""
    number = tree.block_number(area)
    if number is not None:
        return number in numbers
    mount = mount_of(tree, area)
    return mount is not None and _lies_on(tree, mount, numbers)
