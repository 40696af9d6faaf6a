"""Sets the scheduler of the drives and the read-ahead of the array as a layout requests.

Source: the kernel's Documentation/ABI/stable/sysfs-block (``queue/scheduler``,
``queue/read_ahead_kb``) and fs/btrfs/sysfs.c (``bdi``).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.layers import selected
from seatrial.machine.fingerprint.mounts import btrfs_folder
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.sysblock import BlockNode, node_by_number
from seatrial.study.layouts.layout import DriveRoles, LayoutSpec
from seatrial.trials.layouts.build.backend import Construction, Step

_STACK_DEPTH_MAX = 16


def setting_step(path: str, value: str, *, old: str, is_shared: bool = False) -> Step:
    """Return the step that writes a value to a kernel setting.

    Args:
        path: Below ``/sys`` or ``/proc/sys``.
        value: The new value.
        old: The value to restore when it is undone.
        is_shared: Whether others may change it meanwhile, so that only ``value`` is undone. The
            kernel must report it as it was written.
    """
    details = {"path": path, "old": old} | ({"new": value} if is_shared else {})
    return Step(command=("tee", path), stdin=value, undo="setting", details=details)


def scheduler_steps(spec: LayoutSpec, assigned: DriveRoles, tree: SystemTree = LIVE) -> list[Step]:
    """Return the steps that set the scheduler of a variant's drives; none unless requested.

    A drive that does not exist yet gets a step for ``--plan`` to show.

    Raises:
        TargetError: when a drive does not support that scheduler; the message lists those
            supported.
    """
    if not spec.scheduler:
        return []
    disks = dict.fromkeys(disk for drive in assigned.used for disk in _disks(drive, tree))
    steps = []
    for disk in disks:
        folder = f"/sys/block/{disk}"
        offered = tree.text(f"{folder}/queue/scheduler") or ""
        if offered and spec.scheduler not in offered.replace("[", "").replace("]", "").split():
            raise _no_such_scheduler(disk, spec.scheduler, offered)
        steps.append(
            Step(
                command=("tee", f"{folder}/queue/scheduler"),
                stdin=spec.scheduler,
                undo="scheduler",
                details={
                    "device": disk,
                    "new": spec.scheduler,
                    "old": selected(offered) or "none",
                    "diskseq": tree.text(f"{folder}/diskseq") or "",
                },
            )
        )
    return steps


def read_ahead_steps(
    spec: LayoutSpec, assigned: DriveRoles, construction: Construction, tree: SystemTree = LIVE
) -> list[Step]:
    """Return the steps that set the read-ahead of an array, or of each exposed leg.

    Raises:
        TargetError: when a file system that is the array itself has no settable read-ahead.
    """
    if spec.read_ahead_kib is None:
        return []
    folders = [_queue(device, tree) for device in construction.devices]
    if construction.folders:
        folders = [_of_filesystem(spec, assigned, tree)]
    settings = dict.fromkeys(f"{folder}/read_ahead_kb" for folder in folders)
    return [
        setting_step(path, str(spec.read_ahead_kib), old=tree.text(path) or "128")
        for path in settings
    ]


def _queue(device: str, tree: SystemTree) -> str:
    number = tree.block_number(device)
    if number is None:
        return f"/sys/block/{posixpath.basename(device)}/queue"
    return f"{node_by_number(number, tree).disk().directory}/queue"


def _of_filesystem(spec: LayoutSpec, assigned: DriveRoles, tree: SystemTree) -> str:
    """Return the folder of settings of a file system that is the array itself."""
    if spec.backend != "btrfs":
        raise TargetError(
            seen=f"The read-ahead of layout {spec.label!r} cannot be set",
            cause=f"{spec.backend} controls its own read-ahead",
            next_step="Remove read_ahead_kib from this layout",
        )
    number = tree.block_number(assigned.used[0])
    folder = btrfs_folder(tree, number) if number else None
    return f"{folder or '/sys/fs/btrfs/UUID'}/bdi"


def _disks(drive: str, tree: SystemTree) -> list[str]:
    """Return the disks below a drive, by kernel name: wrappers have no scheduler."""
    number = tree.block_number(drive)
    if number is None:
        return [posixpath.basename(drive)]
    return list(_bottom(node_by_number(number, tree).disk(), tree, _STACK_DEPTH_MAX))


def _bottom(node: BlockNode, tree: SystemTree, depth_left: int) -> Iterator[str]:
    below = tree.names(f"{node.directory}/slaves")
    if not below or not depth_left:
        yield node.name
        return
    for name in below:
        number = tree.word(f"/sys/class/block/{name}/dev")
        if number is not None:
            yield from _bottom(node_by_number(number, tree).disk(), tree, depth_left - 1)


def _no_such_scheduler(disk: str, wanted: str, offered: str) -> TargetError:
    return TargetError(
        seen=f"The drive {disk} has no scheduler {wanted!r}",
        cause=f"Its schedulers are {offered}",
        next_step="Use one of these in the layout, or load the module of the other",
    )
