"""Where the bytes of files lie on a disk (FIEMAP), and whose a byte of a disk is.

Source: the kernel's Documentation/filesystems/fiemap.rst.
"""

from __future__ import annotations

import array
import bisect
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from seatrial.trials.watch.measure.volume import DeviceNumber, Volume

_FIEMAP: Final = 0xC020660B
_HEADER: Final = struct.Struct("=QQLLLL")
_EXTENT: Final = struct.Struct("=QQQQQLLLL")
_EXTENTS_AT_ONCE: Final = 512
_LAST: Final = 0x1
_NO_PLACE: Final = 0x2 | 0x4 | 0x8
"""Unknown place, delayed allocation, encoded: the address is no place on the disk."""


class Extent(NamedTuple):
    """A part of a disk that belongs to a file.

    Attributes:
        start_bytes: Its offset on the disk.
        end_bytes: The offset behind it.
        owner: The file's owner, as the map's user names it.
    """

    start_bytes: int
    end_bytes: int
    owner: str


class FileExtents(NamedTuple):
    """The parts of disks that hold a file.

    Attributes:
        extents: They, by disk.
        is_whole: Whether all of the file has its place; what was written a moment ago may get one
            later (delayed allocation).
    """

    extents: dict[DeviceNumber, list[Extent]]
    is_whole: bool


def extents_of(path: Path, volume: Volume, owner: str) -> FileExtents:
    """Return the parts of disks that hold a file.

    Args:
        path: The file.
        volume: What its file system lies on.
        owner: Whose it is.

    Raises:
        OSError: if the file cannot be opened, or its file system has no FIEMAP.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        places = list(_places(file))
    finally:
        os.close(file)
    found: dict[DeviceNumber, list[Extent]] = {}
    for place in places:
        for piece in volume.pieces(*place) if place else ():
            extent = Extent(piece.start_bytes, piece.end_bytes, owner)
            found.setdefault(piece.disk, []).append(extent)
    return FileExtents(found, is_whole=None not in places)


def _places(file: int) -> Iterator[tuple[int, int] | None]:
    """Yield where the extents of an open file begin and end; None for one without a place."""
    start_bytes, is_last = 0, False
    room = b"\0" * (_EXTENT.size * _EXTENTS_AT_ONCE)
    while not is_last:
        request = _HEADER.pack(start_bytes, (1 << 64) - 1, 0, 0, _EXTENTS_AT_ONCE, 0)
        buffer = array.array("B", request + room)
        fcntl.ioctl(file, _FIEMAP, buffer)
        count = _HEADER.unpack_from(buffer)[3]
        if not count:
            return
        for index in range(count):
            entry = _EXTENT.unpack_from(buffer, _HEADER.size + index * _EXTENT.size)
            logical_bytes, physical_bytes, length_bytes, _, _, flags, *_ = entry
            start_bytes = logical_bytes + length_bytes
            is_last = bool(flags & _LAST)
            has_place = not flags & _NO_PLACE
            yield (physical_bytes, physical_bytes + length_bytes) if has_place else None


class ExtentMap:
    """Whose the bytes of a disk are. Extents added later win over earlier ones."""

    def __init__(self, extents: Iterable[Extent] = ()) -> None:
        self._starts: list[int] = []
        self._extents: list[Extent] = []
        for each in sorted(extents):
            self._starts.append(each.start_bytes)
            self._extents.append(each)

    def owner_at(self, offset_bytes: int) -> str | None:
        """Return the owner of a byte of the disk; None if it is no file's that is known."""
        ((owner, _),) = self.parts(offset_bytes, offset_bytes + 1)
        return owner

    def parts(self, start_bytes: int, end_bytes: int) -> Iterator[tuple[str | None, int]]:
        """Yield the owners of a part of the disk, in order, and how many bytes are each one's.

        The kernel merges requests to neighbouring files into one.
        """
        place = max(0, bisect.bisect_right(self._starts, start_bytes) - 1)
        at_bytes = start_bytes
        while at_bytes < end_bytes:
            found = self._extents[place] if place < len(self._extents) else None
            if found is None or at_bytes < found.start_bytes:
                until_bytes = min(end_bytes, found.start_bytes) if found else end_bytes
                yield None, until_bytes - at_bytes
                at_bytes = until_bytes
            elif at_bytes < found.end_bytes:
                until_bytes = min(end_bytes, found.end_bytes)
                yield found.owner, until_bytes - at_bytes
                at_bytes = until_bytes
                place += 1
            else:
                place += 1
