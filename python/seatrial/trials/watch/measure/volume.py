"""The disks below a file system, at which the kernel counts requests.

Requests to device-mapper and md devices are seen at the disks below them only, at other offsets.
Followed are partitions, the device-mapper targets linear, striped and crypt, and md's RAID 0 and 1.

Sources: the kernel's Documentation/admin-guide/device-mapper (linear.rst, striped.rst,
dm-crypt.rst), drivers/md/dm-stripe.c (stripe_map_sector), Documentation/admin-guide/md.rst
(offset, slot) and drivers/md/raid0.c (map_sector, one zone).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.layers import dm_table
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.sysblock import BlockNode, node_by_name, node_by_number
from seatrial.units import SECTOR_BYTES

DeviceNumber = tuple[int, int]
"""Major and minor number of a whole disk."""

_TABLE_LINE: Final = re.compile(
    r"""(?P<start>\d+)\ (?P<length>\d+)\ (?:
        (?:linear|crypt\ \S+\ \S+\ \d+)\ (?P<areas>\d+:\d+\ \d+)(?:\ .*)?
        |striped\ (?P<stripes>\d+)\ (?P<chunk>[1-9]\d*)(?P<striped>(?:\ \d+:\d+\ \d+)+)
    )\ *$""",
    re.VERBOSE,
)
"""``start length target arguments``, all in sectors."""
_LAYERS_MAX: Final = 16
"""A limit, although a table cannot refer to itself."""


class DiskExtent(NamedTuple):
    """A part of a disk.

    Attributes:
        disk: The disk.
        start_bytes: Offset of the part on the disk.
        end_bytes: Offset of its end.
    """

    disk: DeviceNumber
    start_bytes: int
    end_bytes: int


class Leg(NamedTuple):
    """Where bytes of a volume lie on the device below.

    Attributes:
        below: That device.
        offset_bytes: Where they begin on it.
    """

    below: Volume
    offset_bytes: int


class Segment(NamedTuple):
    """A part of a volume whose bytes lie on the devices below by one rule.

    Attributes:
        start_bytes: Its offset on the volume.
        end_bytes: Offset of its end.
        legs: The legs, in turn; with ``is_mirror`` all bytes are on each.
        chunk_bytes: Bytes on a leg before the next leg follows.
        is_mirror: Whether all legs hold the same.
    """

    start_bytes: int
    end_bytes: int
    legs: tuple[Leg, ...]
    chunk_bytes: int = 0
    is_mirror: bool = False

    def extents(self, start_bytes: int, end_bytes: int) -> Iterator[DiskExtent]:
        """Yield the parts of disks that hold a part of it, those of one leg after the other.

        The chunks of a leg are neighbours on it, so each leg has one extent whatever its length.

        Args:
            start_bytes: Offset of the part on the volume, at least that of the segment.
            end_bytes: Offset of its end, at most that of the segment.
        """
        from_bytes, to_bytes = start_bytes - self.start_bytes, end_bytes - self.start_bytes
        for index, leg in enumerate(self.legs):
            begin_bytes, stop_bytes = from_bytes, to_bytes
            if not self.is_mirror and len(self.legs) > 1:
                begin_bytes, stop_bytes = (
                    self._on_leg(index, each) for each in (from_bytes, to_bytes)
                )
            if begin_bytes < stop_bytes:
                offset_bytes = leg.offset_bytes
                yield from leg.below.extents(offset_bytes + begin_bytes, offset_bytes + stop_bytes)

    def _on_leg(self, index: int, offset_bytes: int) -> int:
        """Return how many of the segment's first bytes lie on a leg."""
        rows, rest_bytes = divmod(offset_bytes, self.chunk_bytes * len(self.legs))
        own_bytes = min(max(rest_bytes - index * self.chunk_bytes, 0), self.chunk_bytes)
        return rows * self.chunk_bytes + own_bytes


class Volume(NamedTuple):
    """A block device: a disk, or one whose bytes lie on others.

    Attributes:
        number: Its major and minor number.
        segments: Where its bytes lie, in order; none for a disk.
    """

    number: DeviceNumber
    segments: tuple[Segment, ...] = ()

    @property
    def disks(self) -> tuple[DeviceNumber, ...]:
        """The disks that it lies on, each once."""
        if not self.segments:
            return (self.number,)
        legs = [leg for segment in self.segments for leg in segment.legs]
        return tuple(dict.fromkeys(disk for leg in legs for disk in leg.below.disks))

    def extents(self, start_bytes: int, end_bytes: int) -> Iterator[DiskExtent]:
        """Yield the parts of disks that hold a part of it; nothing for what lies on none."""
        if not self.segments:
            yield DiskExtent(self.number, start_bytes, end_bytes)
        for each in self.segments:
            begin_bytes = max(start_bytes, each.start_bytes)
            stop_bytes = min(end_bytes, each.end_bytes)
            if begin_bytes < stop_bytes:
                yield from each.extents(begin_bytes, stop_bytes)


def volume_of(device: int, tree: SystemTree = LIVE) -> Volume:
    """Return what a file system lies on, by its ``st_dev``, or what a device is, by ``st_rdev``.

    Args:
        device: Its number.
        tree: The machine.

    Raises:
        TargetError: if it lies on no disk, or its layers cannot be followed.
    """
    node = node_by_number(f"{os.major(device)}:{os.minor(device)}", tree)
    if not node.size_bytes():
        raise TargetError(
            seen="The file system is not on a single disk.",
            cause="It is btrfs, ZFS, tmpfs, an overlay or a network file system, whose extents "
            "have no address on a disk.",
            next_step="Name the disk itself (lsblk lists them), or watch all disks",
        )
    return _volume(node, _LAYERS_MAX)


def _volume(node: BlockNode, layers_max: int) -> Volume:
    """Return a device with all that it lies on.

    Raises:
        TargetError: if they cannot be followed.
    """
    if not layers_max:
        raise _not_followed(node, "it has too many layers")
    major, _, minor = node.number.partition(":")
    number = int(major), int(minor)
    if (start_sectors := node.tree.integer(f"{node.directory}/start")) is not None:
        leg = Leg(_volume(node.disk(), layers_max - 1), start_sectors * SECTOR_BYTES)
        return Volume(number, (Segment(0, node.size_bytes(), (leg,)),))
    if node.tree.exists(f"{node.directory}/dm"):
        lines, reason = dm_table(node.tree, node.number)
        if lines is None:
            raise _not_followed(node, reason)
        return Volume(number, tuple(_segment(node, each, layers_max) for each in lines))
    if node.tree.exists(f"{node.directory}/md"):
        return Volume(number, (_array(node, layers_max),))
    if node.tree.exists(f"{node.directory}/bcache"):
        raise _not_followed(node, "bcache keeps blocks where its cache decides")
    if path := _nvme_path(node):
        raise TargetError(
            seen=f"{node.name} has native NVMe multipath, with paths such as {path}.",
            cause="At levels 2 and 3, its requests are those of the paths, whose numbers the "
            "kernel hides.",
            next_step="Watch all disks: at levels 2 and 3, each path has a row, by its number",
        )
    return Volume(number)


def _nvme_path(node: BlockNode) -> str:
    """Return the name of a path of an NVMe disk with native multipath; empty for any other."""
    if (parts := re.fullmatch(r"(nvme\d+)(n\d+)", node.name)) is None:
        return ""
    path = re.compile(rf"{parts[1]}c\d+{parts[2]}")
    return next(filter(path.fullmatch, node.tree.names("/sys/class/block")), "")


def _segment(node: BlockNode, line: str, layers_max: int) -> Segment:
    """Return a line of a device-mapper table.

    Raises:
        TargetError: if the addresses of its target are not fixed or not known here.
    """
    if (found := _TABLE_LINE.match(line)) is None:
        kind = " ".join(line.split()[2:3]) or "unknown"
        raise _not_followed(node, f"the addresses of its target {kind} are not known here")
    words = (found["areas"] or found["striped"]).split()
    if found["striped"] and len(words) != 2 * int(found["stripes"]):
        raise _not_followed(node, "its table names fewer stripes than it has")
    below = [node_by_number(each, node.tree) for each in words[::2]]
    offsets_bytes = [int(each) * SECTOR_BYTES for each in words[1::2]]
    start_bytes = int(found["start"]) * SECTOR_BYTES
    return Segment(
        start_bytes,
        start_bytes + int(found["length"]) * SECTOR_BYTES,
        _legs(below, offsets_bytes, layers_max),
        int(found["chunk"] or 0) * SECTOR_BYTES,
    )


def _array(node: BlockNode, layers_max: int) -> Segment:
    """Return the bytes of an md array.

    Raises:
        TargetError: if it is no RAID 1, and no RAID 0 of members of one size.
    """
    tree, folder = node.tree, f"{node.directory}/md"
    level, disks = tree.word(f"{folder}/level"), tree.integer(f"{folder}/raid_disks")
    found: dict[int, tuple[BlockNode | None, int, int]] = {}
    for name in tree.names(folder):
        slot = tree.integer(f"{folder}/{name}/slot") if name.startswith("dev-") else None
        if slot is not None:
            member = node_by_name(name.removeprefix("dev-"), tree)
            offset_sectors = tree.integer(f"{folder}/{name}/offset")
            size_kib = tree.integer(f"{folder}/{name}/size")
            if offset_sectors is not None and size_kib is not None:
                found[slot] = member, offset_sectors * SECTOR_BYTES, size_kib
    members = [found[slot] for slot in sorted(found)]
    below = [member for member, _, _ in members if member is not None]
    if level not in {"raid0", "raid1"}:
        raise _not_followed(node, f"md {level or 'arrays of no level'} are not followed")
    if not below or len(below) < len(members):
        raise _not_followed(node, "its members cannot be read")
    chunk_bytes = tree.integer(f"{folder}/chunk_size") or 0
    sizes = {size_kib for _, _, size_kib in members}
    if level == "raid0" and (len(members) != disks or len(sizes) > 1 or chunk_bytes <= 0):
        raise _not_followed(node, "its members differ in size, so it has several zones")
    legs = _legs(below, [offset_bytes for _, offset_bytes, _ in members], layers_max)
    return Segment(0, node.size_bytes(), legs, chunk_bytes, is_mirror=level == "raid1")


def _legs(
    below: Sequence[BlockNode], offsets_bytes: Sequence[int], layers_max: int
) -> tuple[Leg, ...]:
    """Return where bytes lie on the devices below.

    Raises:
        TargetError: if those cannot be followed.
    """
    return tuple(
        Leg(_volume(node, layers_max - 1), offset_bytes)
        for node, offset_bytes in zip(below, offsets_bytes, strict=True)
    )


def _not_followed(node: BlockNode, reason: str) -> TargetError:
    return TargetError(
        seen=f"Requests to {node.name} ({node.kind_text()}) are not followed to its disks.",
        cause=f"{reason[:1].upper()}{reason[1:]}.",
        next_step="Name the disks themselves (lsblk lists them), or watch all disks",
    )
