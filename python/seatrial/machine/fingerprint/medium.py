"""The identity of a medium: which bytes a file or block device leads to, whatever its name.

Two paths to one disk, a disk and its partition, a file and the loop devices over it have names of
their own but share bytes. The guard, the lock of runs and the check of a resumed run all ask here.
"""

from __future__ import annotations

import fcntl
import os
import posixpath
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from seatrial.machine.fingerprint.device import directory_of, disk_directory, unit_serial
from seatrial.machine.fingerprint.layers import SECTOR_BYTES, sectors_bytes
from seatrial.machine.fingerprint.tree import SystemTree

END_UNKNOWN_BYTES: Final = 1 << 63
"""Where a medium of unknown size ends: no range lies beyond it."""

# Source: include/uapi/linux/loop.h, struct loop_info64; the numbers of devices are encoded as in
# new_encode_dev() of include/linux/kdev_t.h, of which os.makedev is the inverse.
_LOOP_GET_STATUS64: Final = 0x4C05
_LOOP_INFO64_BYTES: Final = 232
_DELETED: Final = " (deleted)"
_LAYERS_MAX: Final = 16
_NO_IDENTITY: Final = frozenset("0 -.")


@dataclass(frozen=True, kw_only=True)
class Medium:
    """What holds bytes: a file, or a device that stands for no other.

    Attributes:
        own: What this machine calls it now: ``file DEVICE:INODE`` or ``disk MAJOR:MINOR``.
        wwid: World-wide name, or another name that lasts; empty where it has none.
        serial: Serial number of the unit; empty where it has none.
    """

    own: str
    wwid: str = ""
    serial: str = ""

    @property
    def file(self) -> str:
        """``DEVICE:INODE`` of the file that it is; empty for a device."""
        kind, _, name = self.own.partition(" ")
        return name if kind == "file" else ""

    @property
    def lasting(self) -> str:
        """The name that the medium keeps over a restart and on every path; empty without one."""
        return self.wwid or self.serial

    def is_same(self, other: Medium) -> bool:
        """Tell whether both are one medium, by the best name that both of them have."""
        if self.own == other.own:
            return True
        for mine, theirs in ((self.wwid, other.wwid), (self.serial, other.serial)):
            if mine and theirs:
                return mine == theirs
        return False


@dataclass(frozen=True, kw_only=True)
class Extent:
    """A range of bytes on a medium, from ``start_bytes`` up to ``end_bytes``, which is not in it.

    ``number`` is the device, ``major:minor``, that leads to it; empty for a file.
    """

    medium: Medium
    start_bytes: int
    end_bytes: int
    number: str = ""

    def overlaps(self, other: Extent) -> bool:
        """Tell whether both share a byte."""
        is_apart = self.end_bytes <= other.start_bytes or other.end_bytes <= self.start_bytes
        return not is_apart and self.medium.is_same(other.medium)

    def lies_in(self, other: Extent) -> bool:
        """Tell whether all of its bytes are the other's as well."""
        inside = self.start_bytes >= other.start_bytes and self.end_bytes <= other.end_bytes
        return inside and self.medium.is_same(other.medium)


@dataclass(frozen=True, kw_only=True)
class Backing:
    """What is behind a loop device.

    Attributes:
        name: Its path as the kernel tells it, cut off after 64 bytes in some answers.
        file: ``DEVICE:INODE`` of a regular file; empty for a device or where it is not known.
        number: ``major:minor`` of a block device; empty for a file or where it is not known.
        offset_bytes: Where the loop device begins in it.
    """

    name: str
    file: str
    number: str
    offset_bytes: int


def extent_of_file(status: os.stat_result) -> Extent:
    """Return the bytes of a regular file; all that it may grow to are its own."""
    medium = Medium(own=f"file {file_text(status)}")
    return Extent(medium=medium, start_bytes=0, end_bytes=END_UNKNOWN_BYTES)


def extent_of_device(tree: SystemTree, number: str) -> Extent:
    """Return the bytes that a block device leads to.

    A partition lies on its disk and a loop device on its file, each at an offset. Arrays and
    volumes are media of their own; what they are built on is told by ``numbers_below``.
    """
    extent = _extent(tree, number, _LAYERS_MAX)
    return Extent(
        medium=extent.medium,
        start_bytes=extent.start_bytes,
        end_bytes=extent.end_bytes,
        number=number,
    )


def lasting_name(tree: SystemTree, number: str) -> str:
    """Return what tells the bytes of a block device from others after a restart; empty if unknown.

    Of a loop device it is the inode of its file, for devices are numbered anew.
    """
    extent = extent_of_device(tree, number)
    inode = extent.medium.file.rpartition(":")[2]
    name = f"inode {inode}" if inode else extent.medium.lasting
    return f"{name} at {extent.start_bytes}" if name else ""


def extents(tree: SystemTree) -> list[Extent]:
    """Return the bytes of every block device of the machine, partitions among them."""
    numbers = [tree.word(f"/sys/class/block/{name}/dev") for name in tree.names("/sys/class/block")]
    return [extent_of_device(tree, number) for number in numbers if number]


def loop_backing(tree: SystemTree, directory: str) -> Backing | None:
    """Return what is behind a loop device, whatever its name now; None when nothing is.

    The kernel tells device and inode to those who may open the loop device. Others are told by
    sysfs under which name it was attached, and whether that name is gone.
    """
    attached = tree.data(f"{directory}/loop/backing_file")
    if attached is None:
        return None
    # A name may end with a blank; only the line's end is not part of it.
    name = os.fsdecode(attached.removesuffix(b"\n"))
    reported = _loop_status(tree, posixpath.basename(directory))
    if reported is not None:
        device, inode, rdevice, offset_bytes = reported
        is_device = rdevice != 0
        return Backing(
            name=name,
            file="" if is_device else f"{number_text(device)}:{inode}",
            number=number_text(rdevice) if is_device else "",
            offset_bytes=offset_bytes,
        )
    offset_bytes = tree.integer(f"{directory}/loop/offset") or 0
    status = tree.status(name) if name.startswith("/") else None
    number = tree.block_number(name) or ""
    is_file = status is not None and stat.S_ISREG(status.st_mode)
    return Backing(
        name=name,
        file=file_text(status) if status is not None and is_file else "",
        number=number,
        offset_bytes=offset_bytes,
    )


def number_text(device: int) -> str:
    """Return ``major:minor`` of an ``st_dev`` or ``st_rdev``."""
    return f"{os.major(device)}:{os.minor(device)}"


def file_text(status: os.stat_result) -> str:
    """Return ``DEVICE:INODE`` of a file, which all of its names have in common."""
    return f"{number_text(status.st_dev)}:{status.st_ino}"


def _extent(tree: SystemTree, number: str, layers_max: int) -> Extent:
    directory = directory_of(tree, number)
    if directory is None:
        return Extent(
            medium=Medium(own=f"disk {number}"), start_bytes=0, end_bytes=END_UNKNOWN_BYTES
        )
    size_bytes = sectors_bytes(tree, f"{directory}/size") or END_UNKNOWN_BYTES
    disk = disk_directory(tree, directory)
    if disk != directory:
        start_bytes = (tree.integer(f"{directory}/start") or 0) * SECTOR_BYTES
        below = _extent(tree, tree.word(f"{disk}/dev") or "", layers_max)
        return _part(below, start_bytes, size_bytes)
    backing = loop_backing(tree, directory) if layers_max > 0 else None
    if backing is not None and backing.number:
        below = _extent(tree, backing.number, layers_max - 1)
        return _part(below, backing.offset_bytes, size_bytes)
    if backing is not None:
        # A file that cannot be told from others is known by its loop device alone.
        own = f"file {backing.file}" if backing.file else f"disk {number}"
        whole = Extent(medium=Medium(own=own), start_bytes=0, end_bytes=END_UNKNOWN_BYTES)
        return _part(whole, backing.offset_bytes, size_bytes)
    return Extent(
        medium=medium_of_disk(tree, number, directory), start_bytes=0, end_bytes=size_bytes
    )


def _part(whole: Extent, start_bytes: int, size_bytes: int) -> Extent:
    begin_bytes = whole.start_bytes + start_bytes
    return Extent(
        medium=whole.medium,
        start_bytes=begin_bytes,
        end_bytes=min(begin_bytes + size_bytes, END_UNKNOWN_BYTES),
    )


def medium_of_disk(tree: SystemTree, number: str, directory: str) -> Medium:
    """Return the medium that a whole disk is: paths to the same one have a lasting name in common.

    Sources: the kernel's Documentation/ABI: ``wwid`` of SCSI (page 0x83, SPC-4 7.8.6) and NVMe
    (UUID, NGUID or EUI-64; else serial, model and namespace), ``device/vpd_pg80`` of SCSI, and
    ``serial`` of virtio; sysfs-bus-rbd for the image behind ``rbd``.
    """
    names = (tree.word(f"{directory}/{file}") for file in ("wwid", "device/wwid"))
    wwid = next((name for name in names if name and _distinguishes(name)), "")
    wwid = wwid or _nvme_name(tree, directory) or _image(tree, directory)
    serial = unit_serial(tree, directory) or ""
    if not _distinguishes(serial) or posixpath.basename(directory).startswith("nvme"):
        # An NVMe serial number is that of the controller, which may have many namespaces.
        serial = ""
    return Medium(own=f"disk {number}", wwid=wwid, serial=serial or _nbd_name(tree, directory))


def _distinguishes(name: str) -> bool:
    """Tell whether a name can be that of one medium alone: those of all zeros are no names."""
    bare = name.partition(".")[2] if name.startswith(("eui.", "naa.", "uuid.")) else name
    return not set(bare) <= _NO_IDENTITY


def _nvme_name(tree: SystemTree, directory: str) -> str:
    """Return the name of an NVMe namespace where an old kernel does not tell its ``wwid``."""
    for kind in ("uuid", "nguid", "eui"):
        name = tree.word(f"{directory}/{kind}")
        if name and _distinguishes(name):
            return f"{kind}.{name}"
    namespace = tree.word(f"{directory}/nsid")
    serial = tree.word(f"{directory}/device/serial")
    return f"nvme.{serial}-{namespace}" if namespace and serial else ""


def _image(tree: SystemTree, directory: str) -> str:
    """Return the name of the image of a Ceph cluster that an ``rbd`` device stands for."""
    if not posixpath.basename(directory).startswith("rbd"):
        return ""
    keys = ("cluster_fsid", "pool", "pool_ns", "image_id", "current_snap")
    parts = [tree.word(f"{directory}/device/{key}") or "" for key in keys]
    return "rbd." + "/".join(parts) if parts[0] and parts[3] else ""


def _nbd_name(tree: SystemTree, directory: str) -> str:
    """Return what tells an NBD export from others: the client's own word, else only its size.

    The kernel does not tell which server and export it is. So two of the same size may be one.
    """
    if not posixpath.basename(directory).startswith("nbd"):
        return ""
    size_bytes = sectors_bytes(tree, f"{directory}/size") or 0
    if size_bytes == 0:
        return ""
    return tree.word(f"{directory}/backend") or f"an NBD export of {size_bytes} bytes"


def _loop_status(tree: SystemTree, name: str) -> tuple[int, int, int, int] | None:
    """Return device, inode, own number and offset (bytes) of what is behind a loop device."""
    if str(tree.root) != "/":
        return None  # Of a machine that is made up of files no kernel can be asked.
    buffer = bytearray(_LOOP_INFO64_BYTES)
    try:
        descriptor = os.open(Path("/dev") / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, buffer)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    device, inode, rdevice, offset_bytes = struct.unpack_from("=QQQQ", buffer)
    return int(device), int(inode), int(rdevice), int(offset_bytes)


def layers_below(tree: SystemTree, number: str) -> Iterator[str]:
    """Yield ``major:minor`` of every member of the arrays and volumes that a device is made of."""
    waiting, found = [number], {number}
    for _ in range(_LAYERS_MAX * _LAYERS_MAX):
        if not waiting:
            return
        directory = directory_of(tree, waiting.pop(0)) or ""
        disk = disk_directory(tree, directory)
        lower = [tree.word(f"{disk}/slaves/{name}/dev") for name in tree.names(f"{disk}/slaves")]
        backing = loop_backing(tree, disk)
        if backing is not None and backing.number:
            lower.append(backing.number)
        for each in lower:
            if each and each not in found:
                found.add(each)
                waiting.append(each)
                yield each
