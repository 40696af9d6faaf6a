"""The dynamic shared memory of a server: files that a killed one leaves behind.

A list of them is in one of them, the control segment, to which the server's System V shared memory
leads: by it the next start of the server finds them. Where there is none, they are found here.

Sources: PostgreSQL's src/include/storage/pg_shmem.h (``PGShmemHeader``), src/backend/storage/ipc
``dsm.c`` (``dsm_control_header``, ``dsm_control_item``) and ``dsm_impl.c`` (names of the files);
shmop(2); proc_pid_maps(5).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from seatrial.machine.fingerprint.tree import LIVE

_NAME: Final = "/dev/shm/PostgreSQL."  # noqa: S108 - where PostgreSQL has it
"""Then its number."""
_READ_ONLY: Final = 0o10000
_NO_ADDRESS: Final = ctypes.c_void_p(-1).value

_HEAD: Final = struct.Struct("=iiQQI4xQQQ")
"""Of the System V shared memory: magic number, process, two sizes, the control segment's number, a
pointer, and device and inode of the data folder."""
_HEAD_MAGIC: Final = 679_834_894
_CONTROL: Final = struct.Struct("=III")
"""Magic number, segments, room for segments."""
_CONTROL_MAGIC: Final = 0x9A503D32
_ITEMS_AT: Final = 16
_ITEM: Final = struct.Struct("=II")
"""Number of a segment, how often it is held; more follows, and how much is up to the version."""
_HELD_MIN: Final = 1


def mapped_by(pid: int) -> Iterator[str]:
    """Yield the files of dynamic shared memory that a process has mapped."""
    for line in (LIVE.text(f"/proc/{pid}/maps") or "").splitlines():
        number = line.partition(_NAME)[2]
        if number.isdigit():
            yield f"{_NAME}{number}"


def segments_mapped_by(pid: int) -> Iterator[int]:
    """Yield the numbers of the System V shared memory that a process is attached to.

    The kernel shows each as a file ``/SYSV`` and its key, with its number as the inode.
    """
    for line in (LIVE.text(f"/proc/{pid}/maps") or "").splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[5].startswith("/SYSV"):
            yield int(fields[4])


def remove_dynamic_memory(paths: Iterable[str]) -> None:
    """Remove files of a dead server, and whatever the control segment among them lists."""
    found = set(paths)
    for path in list(found):
        found.update(_listed_in(path))
    for path in found:
        with suppress(OSError):
            Path(path).unlink()


class Head(NamedTuple):
    """What the System V shared memory of a server says of itself.

    Attributes:
        control: The file of the control segment that it names; empty where it names none.
        device: Of the data folder, as ``stat`` numbers it.
        inode: Of the data folder.
    """

    control: str
    device: int
    inode: int


def head_of(segment: int) -> Head | None:
    """Return what a dead server's System V shared memory says; None where it says nothing yet.

    Args:
        segment: Its number, as ``postmaster.pid`` has it.
    """
    library = ctypes.CDLL(None)
    library.shmat.restype = ctypes.c_void_p
    address = library.shmat(segment, None, _READ_ONLY)
    if address in (None, _NO_ADDRESS):
        return None
    try:
        head = _HEAD.unpack(ctypes.string_at(address, _HEAD.size))
    finally:
        library.shmdt(ctypes.c_void_p(address))
    magic, _pid, _total, _free, control, _pointer, device, inode = head
    if magic != _HEAD_MAGIC:
        return None
    return Head(f"{_NAME}{control}" if control else "", device, inode)


def _listed_in(path: str) -> Iterator[str]:
    """Yield the segments that a control segment lists; none where it is not one."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return
    if len(data) < _ITEMS_AT:
        return
    magic, count, room = _CONTROL.unpack_from(data)
    if magic != _CONTROL_MAGIC or not 0 < count <= room:
        return
    item_bytes = (len(data) - _ITEMS_AT) // room
    if item_bytes < _ITEM.size:
        return
    for place in range(count):
        number, held = _ITEM.unpack_from(data, _ITEMS_AT + place * item_bytes)
        if held >= _HELD_MIN:
            yield f"{_NAME}{number}"
