"""Who uses a device or file now: mounts, swap, holders, loop devices and writing processes.

A disk and its partitions share bytes, so a use of one is a use of the other. Devices built on a
device (md, device-mapper, bcache) are followed up to where they are mounted. Mounts are searched in
the mount namespaces of all visible processes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.medium import (
    Backing,
    Extent,
    extents,
    file_text,
    loop_backing,
    number_text,
)
from seatrial.machine.fingerprint.mounts import Mount, btrfs_folder, mounts, namespaces, unescaped
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.sysblock import BlockNode, node_by_number

# Mount options that name a second device: xfs (log, real-time part) and ext4 (journal).
_SIDES: Final = ("logdev=", "rtdev=", "journal_path=")
_SYSTEM_POINTS: Final = ("/", "/usr", "/var", "/boot", "/boot/efi")
_STACK_DEPTH_MAX: Final = 16
_MAPS_BYTES_MAX: Final = 16 << 20
_MAPPED = re.compile(
    rb"^[0-9a-f]+-[0-9a-f]+ .w.s [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(/[^\n]*)$",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class Use:
    """One use of a device or file.

    Attributes:
        kind: ``mounted``, ``swap``, ``held``, ``loop``, ``exported``, ``open`` or ``claimed``.
        phrase: The predicate of a sentence, such as ``is mounted on /var (xfs)``.
        release: How to end the use, as an imperative.
    """

    kind: str
    phrase: str
    release: str


@dataclass(frozen=True, kw_only=True)
class OpenFile:
    """A file that another process may write to, by a descriptor or a mapping.

    Attributes:
        pid: The process.
        number: Its descriptor; empty for a mapping.
        name: The path that the kernel reports; it may be deleted or be another file by now.
        file: ``DEVICE:INODE`` of a regular file; empty for others or where it is not known.
        device: ``major:minor`` of a block device; empty for others or where it is not known.
    """

    pid: str
    number: str
    name: str
    file: str = ""
    device: str = ""


class Survey:
    """The mounts, open files and block devices of a machine, read once for one check."""

    def __init__(self, tree: SystemTree = LIVE) -> None:
        self.tree = tree
        # Thousands of open files share a few names, such as /dev/null.
        self._number_of_name: dict[str, str] = {}

    @cached_property
    def files(self) -> list[OpenFile]:
        """Files that other processes may write to."""
        return open_files(self.tree)

    @cached_property
    def extents(self) -> list[Extent]:
        """The extents of all block devices."""
        return extents(self.tree)

    @cached_property
    def mounted(self) -> list[tuple[Mount, str, frozenset[str]]]:
        """Every mount, its namespace (empty for ours) as a phrase, and its devices."""
        found = [(mount, "") for mount in mounts(self.tree)]
        # A new namespace begins with a copy of every mount, which would only repeat ours.
        known = {(mount.number, mount.source, mount.point) for mount, _ in found}
        for pid in namespaces(self.tree):
            others = [
                mount
                for mount in mounts(self.tree, pid)
                if (mount.number, mount.source, mount.point) not in known
            ]
            known |= {(mount.number, mount.source, mount.point) for mount in others}
            where = f" in the mount namespace of process {pid} ({_name_of_process(self.tree, pid)})"
            found += [(mount, where) for mount in others]
        return [(mount, where, self._devices(mount)) for mount, where in found]

    @cached_property
    def swapped(self) -> list[str]:
        """Files and devices used as swap. Source: proc(5), ``/proc/swaps``."""
        lines = (self.tree.text("/proc/swaps") or "").splitlines()[1:]
        return [unescaped(line.split()[0]) for line in lines if line.split()]

    @cached_property
    def exported(self) -> list[str]:
        """Files and devices that the kernel itself exports (LIO, NVMe target).

        Source: the kernel's Documentation/target and drivers/nvme/target/configfs.c.
        """
        tree, base = self.tree, "/sys/kernel/config"
        stores = [
            f"{base}/target/core/{store}/{name}/udev_path"
            for store in tree.names(f"{base}/target/core")
            for name in tree.names(f"{base}/target/core/{store}")
        ]
        subsystems = f"{base}/nvmet/subsystems"
        stores += [
            f"{subsystems}/{name}/namespaces/{number}/device_path"
            for name in tree.names(subsystems)
            for number in tree.names(f"{subsystems}/{name}/namespaces")
        ]
        return [path for store in stores if (path := tree.word(store))]

    def _devices(self, mount: Mount) -> frozenset[str]:
        options = mount.options.split(",")
        sides = [each.split("=", 1)[1] for each in options if each.startswith(_SIDES)]
        numbers = {mount.number, *map(self.number_of, (mount.source, *sides))}
        return frozenset(number for number in numbers if number)

    def number_of(self, name: str) -> str:
        """Return ``major:minor`` of the device at a path below /dev; empty for others."""
        if not name.startswith("/dev/"):
            return ""
        if name not in self._number_of_name:
            self._number_of_name[name] = self.tree.block_number(name) or ""
        return self._number_of_name[name]


CLAIMED: Final = Use(
    kind="claimed",
    phrase="is claimed by the kernel or another process (a mount, an array, a ZFS pool)",
    release="end its use; `lsblk` and `fuser -v` show details",
)

UNSEEN: Final = Use(
    kind="open",
    phrase="is open for writing by the kernel or by a process that is not visible here (swap, a "
    "loop device, a network target, another container)",
    release="end the process that writes to it; check `fuser -v` and `losetup --list` on the host",
)


def open_files(tree: SystemTree = LIVE) -> list[OpenFile]:
    """Return files that other processes may write to; without root, only of the user's processes.

    There may be a hundred thousand: read them once for several devices.
    """
    found = []
    for pid in tree.names("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        for number in tree.names(f"/proc/{pid}/fd"):
            file = _open_file(tree, pid, number)
            if file is not None:
                found.append(file)
        found += _mapped_files(tree, pid)
    return found


def uses_of_device(number: str, tree: SystemTree = LIVE, survey: Survey | None = None) -> list[Use]:
    """Return every use of the block device ``major:minor``, of its disk and of its partitions.

    Args:
        number: The device.
        tree: The machine.
        survey: A current survey; made here unless given.
    """
    target = node_by_number(number, tree)
    survey = survey or Survey(tree)
    found = []
    for node in target.relatives():
        owner = "" if node == target else f"shares its data with {node.name}, which "
        found += [replace(use, phrase=owner + use.phrase) for use in uses_of_node(node, survey)]
    return found


def uses_of_node(node: BlockNode, survey: Survey) -> Iterator[Use]:
    """Yield the uses of one block device, without those of its disk and its partitions."""

    def is_same(name: str) -> bool:
        return survey.number_of(name) == node.number

    def is_writer(file: OpenFile) -> bool:
        return file.device == node.number or is_same(file.name)

    yield from _mount_uses(node, survey)
    yield from _swap_uses(is_same, survey)
    for loop, backing in _loops(survey.tree):
        if backing.number == node.number:
            yield _loop_use(loop)
    yield from _held_uses(node, survey)
    yield from _export_uses(is_same, survey)
    yield from _writer_uses(is_writer, survey)


def uses_of_file(file: str, survey: Survey) -> list[Use]:
    """Return every use of a regular file as swap, by a loop device or by a writing process.

    Args:
        file: The file, ``DEVICE:INODE``, by any of its names.
        survey: A current survey.
    """

    def is_same(name: str) -> bool:
        return _is_named(survey.tree, name, file)

    def is_writer(opened: OpenFile) -> bool:
        return opened.file == file or (not opened.file and is_same(opened.name))

    loops = [
        loop
        for loop, backing in _loops(survey.tree)
        if backing.file == file
        or (not backing.file and not backing.number and is_same(backing.name))
    ]
    return [
        *_swap_uses(is_same, survey),
        *map(_loop_use, loops),
        *_export_uses(is_same, survey),
        *_writer_uses(is_writer, survey),
    ]


def hidden_writer(descriptor: int) -> Use | None:
    """Return a use when any process has a regular file open for writing.

    The kernel grants a read lease only on a file without writers in any namespace or by any name:
    loop devices, swap, mappings and network targets count too. The lease is released at once.
    Source: fcntl(2), F_SETLEASE; check_conflicting_open() in fs/locks.c.

    Args:
        descriptor: The file, open for reading only.
    """
    try:
        # If a writer opens it in this moment, the signal must not end us.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        # Network file systems have no leases, and only the owner of a file may take one.
        return UNSEEN if error.errno == errno.EAGAIN else None
    return None


def exclusive_use(path: Path) -> Use | None:
    """Return a use when a device cannot be opened with O_EXCL, because the kernel has it in use.

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


def _mount_uses(node: BlockNode, survey: Survey) -> Iterator[Use]:
    direct = list(_mounts_of(node, survey))
    for mount, where in direct:
        release = f"unmount it with `umount {mount.point}`{where}"
        if mount.point in _SYSTEM_POINTS and not where:
            release = "boot from another disk, as this one holds the running system"
        yield Use(
            kind="mounted",
            phrase=f"is mounted on {mount.point} ({mount.kind}){where}",
            release=release,
        )
    # A btrfs of several devices names only one of them in the mount table.
    if not direct and btrfs_folder(node.tree, node.number):
        yield Use(
            kind="mounted",
            phrase="is one of several devices of a mounted btrfs file system",
            release="unmount that file system; `btrfs filesystem show` names it",
        )


def _mounts_of(node: BlockNode, survey: Survey) -> Iterator[tuple[Mount, str]]:
    """Yield the mounts of a device: as file system, source, log or real-time part."""
    for mount, where, numbers in survey.mounted:
        if node.number in numbers:
            yield mount, where


def _swap_uses(is_same: Callable[[str], bool], survey: Survey) -> Iterator[Use]:
    for name in survey.swapped:
        if is_same(name):
            yield Use(
                kind="swap",
                phrase="is in use as swap",
                release=f"disable the swap with `swapoff {name}`",
            )


def _loops(tree: SystemTree) -> Iterator[tuple[str, Backing]]:
    """Yield the name of each attached loop device and its backing."""
    for name in tree.names("/sys/block"):
        backing = loop_backing(tree, f"/sys/block/{name}")
        if backing is not None:
            yield name, backing


def _loop_use(name: str) -> Use:
    return Use(
        kind="loop",
        phrase=f"is the backing file of /dev/{name}",
        release=f"detach it with `losetup -d /dev/{name}`",
    )


def _export_uses(is_same: Callable[[str], bool], survey: Survey) -> Iterator[Use]:
    for name in survey.exported:
        if is_same(name):
            yield Use(
                kind="exported",
                phrase="is exported to other machines by this kernel (SCSI or NVMe target)",
                release="remove it from the target; `targetcli ls` or `nvmetcli ls` lists it",
            )


def _held_uses(node: BlockNode, survey: Survey) -> Iterator[Use]:
    for holder in node.holders():
        found = next(_mounts_above(holder, survey, _STACK_DEPTH_MAX), None)
        mount, where = found or (None, "")
        above = f", which is mounted on {mount.point} ({mount.kind}){where}" if mount else ""
        yield Use(
            kind="held",
            phrase=f"is held by {holder.name} ({holder.kind_text()}){above}",
            release=f"remove it from {holder.name}; `lsblk -s /dev/{holder.name}` shows the stack",
        )


def _mounts_above(node: BlockNode, survey: Survey, depth_max: int) -> Iterator[tuple[Mount, str]]:
    """Yield the mounts of a device or of anything built on it."""
    yield from _mounts_of(node, survey)
    if depth_max > 0:
        for upper in (*node.holders(), *node.partitions()):
            yield from _mounts_above(upper, survey, depth_max - 1)


def _writer_uses(is_writer: Callable[[OpenFile], bool], survey: Survey) -> Iterator[Use]:
    tree = survey.tree
    ours = (file for file in survey.files if is_writer(file) and _is_open_for_writing(tree, file))
    for pid in dict.fromkeys(file.pid for file in ours):
        yield Use(
            kind="open",
            phrase=f"is open for writing by process {pid} ({_name_of_process(tree, pid)})",
            release=f"end process {pid}",
        )


def _name_of_process(tree: SystemTree, pid: str) -> str:
    return tree.word(f"/proc/{pid}/comm") or "unnamed"


def _open_file(tree: SystemTree, pid: str, number: str) -> OpenFile | None:
    """Return the file of a descriptor; None when it is not open for writing."""
    link = tree.at(f"/proc/{pid}/fd/{number}")
    try:
        # There are thousands of them, and Path would take most of the time of a check.
        name = os.readlink(link)  # noqa: PTH115
        # The permissions of the link are those of the descriptor: proc_pid_fd(5).
        if not name.startswith("/") or not os.lstat(link).st_mode & stat.S_IWUSR:
            return None
    except OSError:
        return None
    try:
        # The name may belong to another file by now, or to one in another namespace.
        status = os.stat(link)  # noqa: PTH116
    except OSError:
        return OpenFile(pid=pid, number=number, name=name)
    device = number_text(status.st_rdev) if stat.S_ISBLK(status.st_mode) else ""
    file = file_text(status) if stat.S_ISREG(status.st_mode) else ""
    return OpenFile(pid=pid, number=number, name=name, file=file, device=device)


def _mapped_files(tree: SystemTree, pid: str) -> Iterator[OpenFile]:
    """Yield the files that a process has mapped for writing, which needs no open descriptor.

    Source: proc_pid_maps(5). On btrfs the device differs from that of stat(2): the name is used.
    """
    for found in _MAPPED.finditer(tree.data(f"/proc/{pid}/maps", _MAPS_BYTES_MAX) or b""):
        name = unescaped(os.fsdecode(found[4]))
        number = f"{int(found[1], 16)}:{int(found[2], 16)}"
        is_of_disk = not number.startswith("0:")
        yield OpenFile(
            pid=pid, number="", name=name, file=f"{number}:{int(found[3])}" if is_of_disk else ""
        )


def _is_open_for_writing(tree: SystemTree, file: OpenFile) -> bool:
    if not file.number:
        return True
    information = tree.text(f"/proc/{file.pid}/fdinfo/{file.number}") or ""
    flags = re.search(r"^flags:\s*([0-7]+)", information, re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _is_named(tree: SystemTree, name: str, file: str) -> bool:
    """Return whether a path is the file ``DEVICE:INODE``; links are not followed."""
    try:
        return file_text(os.lstat(tree.at(name))) == file
    except (OSError, ValueError):
        return False
