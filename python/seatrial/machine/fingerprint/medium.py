"""The identity of a medium: the bytes behind a file or block device, by any name.

Two paths to a disk, a disk and its partition, a file and the loop devices over it have different
names but share bytes. The guard, the run lock and the check of a resumed run all use this.
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

from seatrial.descriptor import closing
from seatrial.machine.fingerprint.device import directory_of, disk_directory, unit_serial
from seatrial.machine.fingerprint.layers import sectors_bytes
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.units import SECTOR_BYTES

END_UNKNOWN_BYTES: Final = 1 << 63
"""The end of a medium of unknown size."""

# Source: include/uapi/linux/loop.h, struct loop_info64; device numbers are encoded by
# new_encode_dev() of include/linux/kdev_t.h, the inverse of os.makedev.
_LOOP_GET_STATUS64: Final = 0x4C05
_LOOP_INFO64_BYTES: Final = 232
_LAYERS_MAX: Final = 16
_NO_IDENTITY: Final = frozenset("0 -.")


@dataclass(frozen=True, kw_only=True)
class Medium:
    """What stores bytes: a file, or a device that is not a view of another.

    Attributes:
        own: Its current name on this machine: ``file DEVICE:INODE`` or ``disk MAJOR:MINOR``.
        wwid: World-wide name, or another persistent name; empty where it has none.
        serial: Serial number of the unit; empty where it has none.
    """

    own: str
    wwid: str = ""
    serial: str = ""

    @property
    def file(self) -> str:
        """``DEVICE:INODE`` of a file; empty for a device."""
        kind, _, name = self.own.partition(" ")
        return name if kind == "file" else ""

    @property
    def lasting(self) -> str:
        """A name that survives a restart and is the same on every path; empty without one."""
        return self.wwid or self.serial

    def is_same(self, other: Medium) -> bool:
        """Return whether both are the same medium, by the best name that both have."""
        if self.own == other.own:
            return True
        for mine, theirs in ((self.wwid, other.wwid), (self.serial, other.serial)):
            if mine and theirs:
                return mine == theirs
        return False


@dataclass(frozen=True, kw_only=True)
class Extent:
    """A range of bytes on a medium; ``end_bytes`` is exclusive.

    ``number`` is the device, ``major:minor``; empty for a file.
    """

    medium: Medium
    start_bytes: int
    end_bytes: int
    number: str = ""

    def overlaps(self, other: Extent) -> bool:
        """Return whether both share at least one byte."""
        is_apart = self.end_bytes <= other.start_bytes or other.end_bytes <= self.start_bytes
        return not is_apart and self.medium.is_same(other.medium)

    def lies_in(self, other: Extent) -> bool:
        """Return whether the other contains all of its bytes."""
        inside = self.start_bytes >= other.start_bytes and self.end_bytes <= other.end_bytes
        return inside and self.medium.is_same(other.medium)


@dataclass(frozen=True, kw_only=True)
class Backing:
    """The file or device behind a loop device.

    Attributes:
        name: Its path as reported by the kernel, in some cases cut off after 64 bytes.
        file: ``DEVICE:INODE`` of a regular file; empty for a device or where it is not known.
        number: ``major:minor`` of a block device; empty for a file or where it is not known.
        offset_bytes: Where the loop device begins in it.
    """

    name: str
    file: str
    number: str
    offset_bytes: int


def extent_of_device(tree: SystemTree, number: str) -> Extent:
    """Return the extent of a block device.

    A partition is a part of its disk and a loop device a part of its file. Arrays and volumes are
    media of their own; ``numbers_below`` returns their members.
    """
    extent = _extent(tree, number, _LAYERS_MAX)
    return Extent(
        medium=extent.medium,
        start_bytes=extent.start_bytes,
        end_bytes=extent.end_bytes,
        number=number,
    )


def lasting_name(tree: SystemTree, number: str) -> str:
    """Return a name of a block device's bytes that survives a restart; empty if unknown.

    For a loop device it is the inode of its file, as devices are renumbered.
    """
    extent = extent_of_device(tree, number)
    inode = extent.medium.file.rpartition(":")[2]
    name = f"inode {inode}" if inode else extent.medium.lasting
    return f"{name} at {extent.start_bytes}" if name else ""


def extents(tree: SystemTree) -> list[Extent]:
    """Return the extents of all block devices of the machine, including partitions."""
    numbers = [tree.word(f"/sys/class/block/{name}/dev") for name in tree.names("/sys/class/block")]
    return [extent_of_device(tree, number) for number in numbers if number]


def loop_backing(tree: SystemTree, directory: str) -> Backing | None:
    """Return the backing of a loop device, whatever its current name; None when detached.

    The kernel reports device and inode to those who may open the loop device. Others learn from
    sysfs the name at attachment, and whether that name is gone.
    """
    attached = tree.data(f"{directory}/loop/backing_file")
    if attached is None:
        return None
    # A name may end with a blank; only the newline is not part of it.
    name = os.fsdecode(attached.removesuffix(b"\n"))
    loop_status = _loop_status(tree, posixpath.basename(directory))
    if loop_status is not None:
        device, inode, rdevice, offset_bytes = loop_status
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


def read_ahead_bytes(path: Path, *, tree: SystemTree = LIVE) -> int:
    """Return how much the kernel reads ahead of a file of this file system at most; 0 if unknown.

    Raises:
        OSError: when the path is not there.
    """
    number = number_text(path.stat().st_dev)
    return (tree.integer(f"/sys/class/bdi/{number}/read_ahead_kb") or 0) * 1024


def file_text(status: os.stat_result) -> str:
    """Return ``DEVICE:INODE`` of a file, the same for all of its names."""
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
        # A file of unknown identity is identified by its loop device.
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
    """Return the medium of a whole disk; paths to the same disk share a persistent name.

    Sources: the kernel's Documentation/ABI: ``wwid`` of SCSI (page 0x83, SPC-4 7.8.6) and NVMe
    (UUID, NGUID or EUI-64; else serial, model and namespace), ``device/vpd_pg80`` of SCSI, and
    ``serial`` of virtio; sysfs-bus-rbd for the image behind ``rbd``.
    """
    names = (tree.word(f"{directory}/{file}") for file in ("wwid", "device/wwid"))
    wwid = next((name for name in names if name and _is_unique(name)), "")
    wwid = wwid or _nvme_name(tree, directory) or _image(tree, directory)
    serial = unit_serial(tree, directory) or ""
    if not _is_unique(serial) or posixpath.basename(directory).startswith("nvme"):
        # An NVMe serial number belongs to the controller, which may have many namespaces.
        serial = ""
    return Medium(own=f"disk {number}", wwid=wwid, serial=serial or _nbd_name(tree, directory))


def _is_unique(name: str) -> bool:
    """Return whether a name is unique to one medium: names of all zeros are not."""
    bare = name.partition(".")[2] if name.startswith(("eui.", "naa.", "uuid.")) else name
    return not set(bare) <= _NO_IDENTITY


def _nvme_name(tree: SystemTree, directory: str) -> str:
    """Return the name of an NVMe namespace where an old kernel has no ``wwid``."""
    for kind in ("uuid", "nguid", "eui"):
        name = tree.word(f"{directory}/{kind}")
        if name and _is_unique(name):
            return f"{kind}.{name}"
    namespace = tree.word(f"{directory}/nsid")
    serial = tree.word(f"{directory}/device/serial")
    return f"nvme.{serial}-{namespace}" if namespace and serial else ""


def _image(tree: SystemTree, directory: str) -> str:
    """Return the name of the Ceph image behind an ``rbd`` device."""
    if not posixpath.basename(directory).startswith("rbd"):
        return ""
    keys = ("cluster_fsid", "pool", "pool_ns", "image_id", "current_snap")
    parts = [tree.word(f"{directory}/device/{key}") or "" for key in keys]
    return "rbd." + "/".join(parts) if parts[0] and parts[3] else ""


def _nbd_name(tree: SystemTree, directory: str) -> str:
    """Return the name of an NBD export: the client's name for it, else only its size.

    The kernel does not report server and export, so two of the same size may be taken for one.
    """
    if not posixpath.basename(directory).startswith("nbd"):
        return ""
    size_bytes = sectors_bytes(tree, f"{directory}/size") or 0
    if size_bytes == 0:
        return ""
    return tree.word(f"{directory}/backend") or f"an NBD export of {size_bytes} bytes"


def _loop_status(tree: SystemTree, name: str) -> tuple[int, int, int, int] | None:
    """Return device, inode, own number and offset (bytes) of a loop device's backing."""
    if str(tree.root) != "/":
        return None  # A tree of files for tests has no kernel to query.
    buffer = bytearray(_LOOP_INFO64_BYTES)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with closing(os.open(Path("/dev") / name, flags)) as descriptor:
            fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, buffer)
    except OSError:
        return None
    device, inode, rdevice, offset_bytes = struct.unpack_from("=QQQQ", buffer)
    return int(device), int(inode), int(rdevice), int(offset_bytes)


def layers_below(tree: SystemTree, number: str) -> Iterator[str]:
    """Yield ``major:minor`` of every member of the arrays and volumes below a device."""
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
