"""The superblock by which md knows its drives: read to tell an array of ours.

Taking an array apart asks it of every drive, twice; a process of mdadm's for each would take most
of that time.

Source: the kernel's include/uapi/linux/raid/md_p.h, ``struct mdp_superblock_1``; md(4): version 1.2
lies 4 KiB from the beginning of the drive.
"""

from __future__ import annotations

import struct
from typing import Final

from seatrial.machine.direct_read import read_direct

_OFFSET_BYTES: Final = 4096
_LENGTH_BYTES: Final = 4096
_SECTOR_BYTES: Final = 512
_MAGIC: Final = 0xA92B4EFC
_HEAD: Final = struct.Struct("<4I16s")
"""Magic number, major version, features, padding, the array's UUID."""
_OWN_SECTOR: Final = struct.Struct("<Q")
_OWN_SECTOR_AT: Final = 144
"""Where a superblock tells at which sector it lies: a copy elsewhere is none."""


def array_uuid(device: str) -> str:
    """Return the UUID of the array (32 hexadecimal digits) that a drive is part of.

    Empty where it bears no superblock of version 1.2, or cannot be read.
    """
    try:
        # md writes past the page cache, which may hold what was there before.
        block = read_direct(device, _OFFSET_BYTES, _LENGTH_BYTES)
    except OSError:
        return ""
    if len(block) < _LENGTH_BYTES:
        return ""
    magic, major, _features, _padding, uuid = _HEAD.unpack_from(block)
    (own_sector,) = _OWN_SECTOR.unpack_from(block, _OWN_SECTOR_AT)
    is_one = magic == _MAGIC and major == 1 and own_sector * _SECTOR_BYTES == _OFFSET_BYTES
    return uuid.hex() if is_one else ""
