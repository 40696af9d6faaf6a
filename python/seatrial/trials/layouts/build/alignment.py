"""Checks whether partitions, arrays and file systems are aligned with the layer below.

An unaligned request that crosses a chunk, or a sector of the drive, costs two; no error reports it.

Sources: the kernel's Documentation/ABI/stable/sysfs-block (``alignment_offset``,
``queue/physical_block_size``, ``queue/optimal_io_size``), xfs_info(8) ``sunit`` and ``swidth``,
dumpe2fs(8) ``RAID stride`` and ``RAID stripe width``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from seatrial.errors import TargetError
from seatrial.machine.fingerprint.layers import sectors_bytes
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.sysblock import BlockNode, node_by_name, node_by_number
from seatrial.study.units import format_size
from seatrial.trials.layouts.build import filesystems, md_array, volume_group
from seatrial.trials.layouts.build.backend import Built
from seatrial.trials.layouts.build.running import attempt
from seatrial.units import KIB, SECTOR_BYTES

PAGE_BYTES: Final = 4096
"""Assumed minimum write of a flash drive, whatever its reported sector size."""


@dataclass(frozen=True, kw_only=True)
class DriveGeometry:
    """The position of one drive's part in an array.

    Attributes:
        physical_bytes: Its physical block size.
        start_bytes: Where it begins on its disk; 0 where it is not a partition.
        shift_bytes: Offset of its first sector from its physical blocks (``alignment_offset``).
        data_offset_bytes: Where an array's data begins on it; None if unknown.
    """

    physical_bytes: int
    start_bytes: int = 0
    shift_bytes: int = 0
    data_offset_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class FilesystemGeometry:
    """The stripe geometry that a file system was created with.

    Attributes:
        kind: Such as ``xfs``.
        unit_bytes: Stripe unit on one drive; 0 for none.
        width_bytes: Data of a full stripe; 0 for none.
    """

    kind: str
    unit_bytes: int
    width_bytes: int


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """The geometry of an existing array.

    Attributes:
        drives: Each drive, by its path.
        unit_bytes: Planned stripe unit on one drive; 0 without stripes.
        width_bytes: Planned data of a full stripe; 0 without stripes.
        reported_units: ``optimal_io_size`` (bytes) of the array's devices, if the kernel has one.
        leg_width_bytes: Data of a full stripe of one leg under a volume group.
        extent_starts: Where LVM's extents begin on each leg (bytes), by its path.
        filesystems: Each file system on the array.
    """

    drives: Mapping[str, DriveGeometry] = field(default_factory=dict)
    unit_bytes: int = 0
    width_bytes: int = 0
    reported_units: Mapping[str, int] = field(default_factory=dict)
    leg_width_bytes: int = 0
    extent_starts: Mapping[str, int] = field(default_factory=dict)
    filesystems: tuple[FilesystemGeometry, ...] = ()


def check_alignment(built: Built) -> list[str]:
    """Return what is misaligned in an array, as sentences; empty if nothing.

    Raises:
        TargetError: when LVM does not report where its extents begin.
    """
    return misaligned(read_geometry(built))


def misaligned(geometry: Geometry) -> list[str]:
    """Return what is misaligned, as sentences; empty if nothing."""
    return [
        *(text for path, drive in geometry.drives.items() for text in _of_drive(path, drive)),
        *_of_extents(geometry),
        *_of_devices(geometry),
        *(text for each in geometry.filesystems for text in _of_filesystem(each, geometry)),
    ]


def read_geometry(built: Built, tree: SystemTree = LIVE) -> Geometry:
    """Return the geometry of an array.

    Raises:
        TargetError: when LVM does not report where its extents begin.
    """
    spec = built.spec
    stripes = filesystems.stripes_of(spec)
    unit_bytes = stripes.unit_kib * KIB
    devices = {path: _node(path, tree) for path in built.construction.devices}
    reported = {
        path: tree.integer(f"{node.directory}/queue/optimal_io_size") or 0
        for path, node in devices.items()
        if node is not None
    }
    over_lvm = spec.backend == "md+lvm" and spec.expose != "legs"
    legs = built.construction.leg_devices
    data = int(spec.facts.data_members(spec.drives))
    return Geometry(
        drives=dict(_drives(built, tree)),
        unit_bytes=unit_bytes,
        width_bytes=unit_bytes * stripes.count if unit_bytes else 0,
        reported_units={path: size_bytes for path, size_bytes in reported.items() if size_bytes},
        leg_width_bytes=spec.chunk_kib * KIB * data if over_lvm and data > 1 else 0,
        extent_starts=volume_group.pe_starts_bytes(built.name, legs) if over_lvm else {},
        filesystems=tuple(_filesystems(built)),
    )


def parse_xfs(text: str) -> FilesystemGeometry | None:
    """Return the stripe geometry in the output of ``xfs_info``; None if absent."""
    found = re.search(r"data\s+=\s+bsize=(\d+).*?sunit=(\d+)\s+swidth=(\d+) blks", text, re.DOTALL)
    if found is None:
        return None
    block_bytes, unit, width = (int(number) for number in found.groups())
    return FilesystemGeometry(
        kind="xfs", unit_bytes=unit * block_bytes, width_bytes=width * block_bytes
    )


def parse_ext4(text: str) -> FilesystemGeometry | None:
    """Return the stripe geometry in the output of ``dumpe2fs -h``; None if it is not a header."""
    numbers = {name: int(number) for name, number in re.findall(r"^([\w ]+):\s+(\d+)$", text, re.M)}
    if "Block size" not in numbers:
        return None
    block_bytes = numbers["Block size"]
    return FilesystemGeometry(
        kind="ext4",
        unit_bytes=numbers.get("RAID stride", 0) * block_bytes,
        width_bytes=numbers.get("RAID stripe width", 0) * block_bytes,
    )


def _of_drive(path: str, drive: DriveGeometry) -> Iterator[str]:
    grain_bytes = max(drive.physical_bytes, PAGE_BYTES)
    if drive.shift_bytes:
        yield (
            f"{path} starts {format_size(drive.shift_bytes)} before a physical sector of its disk "
            "(alignment_offset)."
        )
    if drive.start_bytes % grain_bytes:
        yield (
            f"Partition {path} starts at {format_size(drive.start_bytes)} of its disk, not at a "
            f"multiple of {format_size(grain_bytes)}: every request accesses an additional sector."
        )
    if drive.data_offset_bytes and drive.data_offset_bytes % grain_bytes:
        yield (
            f"The array's data start at {format_size(drive.data_offset_bytes)} of {path}, not at a "
            f"multiple of {format_size(grain_bytes)}."
        )


def _of_extents(geometry: Geometry) -> Iterator[str]:
    width_bytes = geometry.leg_width_bytes
    for path, start_bytes in geometry.extent_starts.items():
        if width_bytes and start_bytes % width_bytes:
            yield (
                f"LVM's data start at {format_size(start_bytes)} of {path}, not at a multiple of "
                f"its full stripe of {format_size(width_bytes)}: full-stripe writes become partial."
            )


def _of_devices(geometry: Geometry) -> Iterator[str]:
    unit_bytes, width_bytes = geometry.unit_bytes, geometry.width_bytes
    for path, reported_bytes in geometry.reported_units.items():
        if unit_bytes and reported_bytes % unit_bytes and width_bytes % reported_bytes:
            yield (
                f"{path} reports stripes of {format_size(reported_bytes)} to file systems, but has "
                f"stripes of {format_size(width_bytes)}."
            )


def _of_filesystem(system: FilesystemGeometry, geometry: Geometry) -> Iterator[str]:
    wanted, width = geometry.unit_bytes, geometry.width_bytes
    if not wanted and system.width_bytes <= system.unit_bytes:
        # md reports a chunk for a RAID 0 of one drive, too: its stripes are that chunk alone.
        return
    if wanted and not system.unit_bytes:
        yield (
            f"{system.kind} does not know the array's stripes of {format_size(wanted)}, so its "
            "files are not aligned to them."
        )
    elif system.unit_bytes != wanted:
        real = f"that of the array is {format_size(wanted)}" if wanted else "the array has none"
        yield f"{system.kind} has a stripe unit of {format_size(system.unit_bytes)}, but {real}."
    elif system.width_bytes != width:
        yield (
            f"{system.kind} has a stripe width of {format_size(system.width_bytes)}, but that of "
            f"the array is {format_size(width)}."
        )


def _drives(built: Built, tree: SystemTree) -> Iterator[tuple[str, DriveGeometry]]:
    offsets = {
        name: offset
        for leg in built.construction.leg_devices
        for name, offset in md_array.data_offsets_bytes(leg, tree).items()
    }
    for path in built.assigned.used:
        node = _node(path, tree)
        if node is None:
            continue
        disk = node.disk()
        below = _bottom(disk, tree)
        yield (
            path,
            DriveGeometry(
                physical_bytes=tree.integer(f"{below.directory}/queue/physical_block_size")
                or SECTOR_BYTES,
                start_bytes=sectors_bytes(tree, f"{node.directory}/start") or 0,
                shift_bytes=tree.integer(f"{node.directory}/alignment_offset") or 0,
                data_offset_bytes=offsets.get(node.name),
            ),
        )


def _bottom(node: BlockNode, tree: SystemTree) -> BlockNode:
    """Return the drive below a wrapped drive; the drive itself if it is not wrapped."""
    for name in tree.names(f"{node.directory}/slaves"):
        found = node_by_name(name, tree)
        if found is not None:
            return found.disk()
    return node


def _filesystems(built: Built) -> Iterator[FilesystemGeometry]:
    kind = built.spec.filesystem
    for device, folder in zip(built.construction.devices, built.folders, strict=False):
        command = ["xfs_info", folder] if kind == "xfs" else ["dumpe2fs", "-h", device]
        if kind not in {"xfs", "ext4"}:
            continue
        try:
            text = attempt(command).output
        except TargetError:
            # The program that reports it may be missing: then the geometry is unknown.
            continue
        found = parse_xfs(text) if kind == "xfs" else parse_ext4(text)
        if found is not None:
            yield found


def _node(path: str, tree: SystemTree) -> BlockNode | None:
    number = tree.block_number(path)
    return node_by_number(number, tree) if number else None
