"""Who uses a device or file now: mounts, swap, holders, loop devices and writing processes.

A partition's bytes are its disk's bytes, so what uses one uses the other; what is built on a
device (md, device-mapper, bcache) is followed up to where it is mounted.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from seatrial.context.mounts import Mount, btrfs_folder, mounts
from seatrial.context.tree import LIVE, SystemTree
from seatrial.targets.sysblock import BlockNode, node_by_number

_Matcher = Callable[[str], bool]

# Mount options that name a further device: xfs (log, real-time part) and ext4 (journal).
_SIDES: Final = ("logdev=", "rtdev=", "journal_path=")
_STACK_DEPTH_MAX: Final = 16


@dataclass(frozen=True, kw_only=True)
class Use:
    """One use of a device or file by somebody else.

    Attributes:
        kind: ``mounted``, ``swap``, ``held``, ``loop``, ``open`` or ``claimed``.
        phrase: What a sentence says after the name, such as ``is mounted on /var (xfs)``.
        release: How to end that use, as an imperative.
    """

    kind: str
    phrase: str
    release: str


@dataclass(frozen=True, kw_only=True)
class OpenFile:
    """A file that a process other than ours holds open.

    Attributes:
        pid: The process.
        number: Of its descriptor.
        name: Path that the kernel tells of the file.
    """

    pid: str
    number: str
    name: str


CLAIMED: Final = Use(
    kind="claimed",
    phrase="is claimed by the kernel or another process (a mount, an array, a ZFS pool)",
    release="end what uses it; `lsblk` and `fuser -v` show more",
)


def open_files(tree: SystemTree = LIVE) -> list[OpenFile]:
    """Return what other processes hold open; as a user, only what one's own processes do.

    There may be a hundred thousand: whoever judges several devices asks once for all of them.
    """
    return [
        OpenFile(pid=pid, number=number, name=name)
        for pid in tree.names("/proc")
        if pid.isdigit() and int(pid) != os.getpid()
        for number in tree.names(f"/proc/{pid}/fd")
        if (name := _name_of(tree, pid, number)).startswith("/")
    ]


def uses_of_device(
    number: str, tree: SystemTree = LIVE, files: Sequence[OpenFile] | None = None
) -> list[Use]:
    """Return every use of the block device ``major:minor`` and of its relatives.

    Args:
        number: The device.
        tree: The machine.
        files: What ``open_files`` told just now; asked here unless given.
    """
    target = node_by_number(number, tree)
    files = open_files(tree) if files is None else files
    found = []
    for node in target.relatives():
        owner = "" if node == target else f"shares its bytes with {node.name}, which "
        found += [replace(use, phrase=owner + use.phrase) for use in _uses_of_node(node, files)]
    return found


def uses_of_file(path: Path, tree: SystemTree = LIVE) -> list[Use]:
    """Return every use of a regular file as swap, behind a loop device or by a writing process.

    Raises:
        OSError: when the file does not exist.
    """
    wanted = path.stat()

    def is_it(name: str) -> bool:
        return name == str(path) or _is_same_file(name, wanted)

    files = open_files(tree)
    return [*_swap_uses(is_it, tree), *_loop_uses(is_it, tree), *_writer_uses(is_it, tree, files)]


def exclusive_use(path: Path) -> Use | None:
    """Return a use when the device cannot be opened with O_EXCL, as every kernel owner does.

    Source: open(2): without O_CREAT, O_EXCL on a block device in use fails with EBUSY.

    Raises:
        OSError: when it cannot be opened for another reason.
    """
    flags = os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        os.close(os.open(path, flags))
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return CLAIMED
    return None


def _uses_of_node(node: BlockNode, files: Sequence[OpenFile]) -> Iterator[Use]:
    def is_it(name: str) -> bool:
        return _names_device(name, node)

    yield from _mount_uses(node)
    yield from _swap_uses(is_it, node.tree)
    yield from _loop_uses(is_it, node.tree)
    yield from _held_uses(node)
    yield from _writer_uses(is_it, node.tree, files)


def _mount_uses(node: BlockNode) -> Iterator[Use]:
    direct = list(_mounts_of(node))
    for mount in direct:
        yield Use(
            kind="mounted",
            phrase=f"is mounted on {mount.point} ({mount.kind})",
            release=f"unmount it with `umount {mount.point}`",
        )
    # A btrfs of several devices names only one of them in the mount table.
    if not direct and btrfs_folder(node.tree, node.number):
        yield Use(
            kind="mounted",
            phrase="is one of several devices of a mounted btrfs",
            release="unmount that file system; `btrfs filesystem show` names it",
        )


def _mounts_of(node: BlockNode) -> Iterator[Mount]:
    """Yield the mounts that name the device: as theirs, as source, as log or real-time part."""
    for mount in mounts(node.tree):
        sides = [part.split("=", 1)[1] for part in mount.options.split(",") if _is_side(part)]
        named = any(_names_device(name, node) for name in (mount.source, *sides))
        if named or mount.number == node.number:
            yield mount


def _is_side(option: str) -> bool:
    return option.startswith(_SIDES)


def _swap_uses(is_it: _Matcher, tree: SystemTree) -> Iterator[Use]:
    """Yield swapping to it. Source: proc(5), ``/proc/swaps``, where blanks are escaped."""
    for line in (tree.text("/proc/swaps") or "").splitlines()[1:]:
        name = line.split()[0].replace("\\040", " ")
        if is_it(name):
            yield Use(
                kind="swap",
                phrase="is in use as swap",
                release=f"stop swapping to it with `swapoff {name}`",
            )


def _loop_uses(is_it: _Matcher, tree: SystemTree) -> Iterator[Use]:
    for name in tree.names("/sys/block"):
        backing = tree.word(f"/sys/block/{name}/loop/backing_file")
        if backing and is_it(backing):
            yield Use(
                kind="loop",
                phrase=f"is the backing file of /dev/{name}",
                release=f"detach it with `losetup -d /dev/{name}`",
            )


def _held_uses(node: BlockNode) -> Iterator[Use]:
    for holder in node.holders():
        mount = next(_mounts_above(holder, _STACK_DEPTH_MAX), None)
        above = f", which is mounted on {mount.point} ({mount.kind})" if mount else ""
        yield Use(
            kind="held",
            phrase=f"is held by {holder.name} ({holder.kind_text()}){above}",
            release=f"take it out of {holder.name}; `lsblk -s /dev/{holder.name}` shows the stack",
        )


def _mounts_above(node: BlockNode, depth_max: int) -> Iterator[Mount]:
    """Yield what is mounted from a device or from anything that is built on it."""
    yield from _mounts_of(node)
    if depth_max > 0:
        for upper in (*node.holders(), *node.partitions()):
            yield from _mounts_above(upper, depth_max - 1)


def _writer_uses(is_it: _Matcher, tree: SystemTree, files: Sequence[OpenFile]) -> Iterator[Use]:
    """Yield each process that holds it open for writing."""
    ours = (file for file in files if is_it(file.name) and _is_open_for_writing(tree, file))
    for pid in dict.fromkeys(file.pid for file in ours):
        name = tree.word(f"/proc/{pid}/comm") or "unnamed"
        yield Use(
            kind="open",
            phrase=f"is open for writing by process {pid} ({name})",
            release=f"end process {pid}",
        )


def _name_of(tree: SystemTree, pid: str, number: str) -> str:
    try:
        # There are thousands of them, and a Path would take most of the time of a judgement.
        return os.readlink(tree.at(f"/proc/{pid}/fd/{number}"))  # noqa: PTH115
    except OSError:
        return ""


def _is_open_for_writing(tree: SystemTree, file: OpenFile) -> bool:
    information = tree.text(f"/proc/{file.pid}/fdinfo/{file.number}") or ""
    flags = re.search(r"^flags:\s*([0-7]+)", information, re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _names_device(name: str, node: BlockNode) -> bool:
    """Tell whether a path names the device, by whatever name."""
    return name.startswith("/dev/") and node.tree.block_number(name) == node.number


def _is_same_file(name: str, wanted: os.stat_result) -> bool:
    """Tell whether a path is the very file."""
    try:
        return os.path.samestat(os.lstat(name), wanted)
    except OSError:
        return False
