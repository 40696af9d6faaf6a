"""Limits a server's memory, including page cache, so that a small database exceeds memory.

Sources: the kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst, sections
"Memory" and "No Internal Process Constraint".

The control segment of dynamic shared memory lists the others; the server's System V shared memory
refers to it, so that the next start of the server finds them. Without a next start, this module
finds them.

Sources: PostgreSQL's src/include/storage/pg_shmem.h (``PGShmemHeader``), src/backend/storage/ipc
``dsm.c`` (``dsm_control_header``, ``dsm_control_item``) and ``dsm_impl.c`` (names of the files);
shmop(2); proc_pid_maps(5).
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from seatrial import program
from seatrial.errors import TargetError, UsageError
from seatrial.machine.fingerprint.machine import own_groups
from seatrial.machine.fingerprint.tree import LIVE
from seatrial.machine.sizes import size_text
from seatrial.machine.undo_journal import UndoJournal, Undone
from seatrial.program import with_root

LIMIT_BYTES_MIN: Final = 64 * 1024 * 1024
"""A server hardly starts with less."""

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class MemoryGroup:
    """A control group with a limit of memory.

    Attributes:
        path: Its folder.
        limit_bytes: Maximum memory of its processes together, including their page cache.
        version: Version of the kernel's control groups, 1 or 2.
        entry: Its number in the undo journal.
    """

    path: Path
    limit_bytes: int
    version: int
    entry: int

    def command(self, args: Sequence[str]) -> list[str]:
        """Return the arguments of a process that enters the group and then executes a program.

        So all memory of the program is charged to the group.
        """
        return ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', f"{self.path}/cgroup.procs", *args]

    def used_bytes(self) -> int:
        """Return the memory in use by the group, including page cache."""
        file = "memory.usage_in_bytes" if self.version == 1 else "memory.current"
        return LIVE.integer(f"{self.path}/{file}") or 0

    def kills(self) -> int:
        """Return how many processes the kernel's OOM killer killed in the group."""
        file = "memory.oom_control" if self.version == 1 else "memory.events"
        match = re.search(r"^oom_kill (\d+)$", LIVE.text(f"{self.path}/{file}") or "", re.MULTILINE)
        return int(match[1]) if match else 0


def memory_limit(limit_bytes: int, journal: UndoJournal) -> MemoryGroup:
    """Create a control group whose processes may use ``limit_bytes`` together.

    It is created in our own group or, with version 2, in the nearest one above that allows groups
    with a memory limit, so limits from above still apply. Recorded in the journal first.

    Raises:
        UsageError: when the limit is too small for any server.
        TargetError: when this machine does not allow it, with the reason.
    """
    if limit_bytes < LIMIT_BYTES_MIN:
        raise UsageError(
            seen=f"The memory limit of {size_text(limit_bytes)} is too small",
            cause=f"A server needs at least {size_text(LIMIT_BYTES_MIN)}",
            next_step="Use a larger limit",
        )
    parent, own, version = _parent_group()
    path = Path(parent, f"seatrial-{journal.run_id}-{secrets.token_hex(4)}")
    entry = journal.record("cgroup", path=str(path), return_to=own)
    # The kernel rounds down to pages.
    group = MemoryGroup(
        path=path,
        limit_bytes=limit_bytes // _PAGE_BYTES * _PAGE_BYTES,
        version=version,
        entry=entry,
    )
    try:
        path.mkdir()
        _set_limits(group)
    except OSError as error:
        journal.undo(entry)
        raise _cannot(f"the group {path} cannot be created ({error.strerror})") from None
    return group


def limit_obstacle() -> str:
    """Return why memory cannot be limited on this machine, as a sentence; empty if it can."""
    try:
        _parent_group()
    except TargetError as error:
        return error.cause
    return ""


def remove_group(group: MemoryGroup, journal: UndoJournal) -> Undone:
    """Remove a group whose processes have ended; what fails stays in the journal."""
    return journal.undo(group.entry)


def _parent_group() -> tuple[str, str, int]:
    """Return the parent for a limited group, our own group, and the version."""
    version_1 = list(own_groups(LIVE, "memory"))
    if version_1:
        own = version_1[0]
        if not _is_writable(own):
            raise _cannot(f"only its administrator may create groups below {own}")
        return own, own, 1
    version_2 = list(own_groups(LIVE))
    if not version_2:
        raise _cannot("no control groups are mounted here")
    for folder in version_2:
        controllers = (LIVE.text(f"{folder}/cgroup.subtree_control") or "").split()
        if "memory" in controllers and _is_writable(folder):
            return folder, version_2[0], 2
    raise _cannot(
        f"neither {version_2[0]} nor a group above it is delegated to this user with its"
        " memory controller"
    )


def _is_writable(folder: str) -> bool:
    return all(os.access(path, os.W_OK) for path in (folder, f"{folder}/cgroup.procs"))


def _set_limits(group: MemoryGroup) -> None:
    """Write the limits; without a limit on swap, memory would only be swapped out."""
    limit = str(group.limit_bytes)
    if group.version == 1:
        (group.path / "memory.limit_in_bytes").write_text(limit)
        settings = {"memory.memsw.limit_in_bytes": limit}
    else:
        (group.path / "memory.max").write_text(limit)
        settings = {"memory.swap.max": "0"}
    for name, value in settings.items():
        if (group.path / name).exists():
            (group.path / name).write_text(value)


def _cannot(reason: str) -> TargetError:
    return TargetError(
        seen="The server's memory cannot be limited on this machine",
        cause=f"It requires a control group with a memory controller, but {reason}",
        next_step=f"Run it {with_root()}, or with `systemd-run --user --scope -p Delegate=yes "
        f"{program.path()} ...`, or use a larger scale without a memory limit",
    )


_NAME: Final = "/dev/shm/PostgreSQL."  # noqa: S108 - where PostgreSQL has it
"""Followed by its number."""
_READ_ONLY: Final = 0o10000
_NO_ADDRESS: Final = ctypes.c_void_p(-1).value

_HEADER: Final = struct.Struct("=iiQQI4xQQQ")
"""Of the System V shared memory: magic number, process, two sizes, the control segment's number, a
pointer, and device and inode of the data folder."""
_HEADER_MAGIC: Final = 679_834_894
_CONTROL: Final = struct.Struct("=III")
"""Magic number, number of segments, maximum number of segments."""
_CONTROL_MAGIC: Final = 0x9A503D32
_ITEMS_OFFSET_BYTES: Final = 16
_ITEM: Final = struct.Struct("=II")
"""Number of a segment, its reference count; the rest and its size depend on the version."""
_REFERENCES_MIN: Final = 1


def mapped_by(pid: int) -> Iterator[str]:
    """Yield the dynamic shared memory files that a process has mapped."""
    for line in (LIVE.text(f"/proc/{pid}/maps") or "").splitlines():
        number = line.partition(_NAME)[2]
        if number.isdigit():
            yield f"{_NAME}{number}"


def segments_mapped_by(pid: int) -> Iterator[int]:
    """Yield the System V shared memory ids that a process is attached to.

    The kernel shows each as a file ``/SYSV`` and its key, with its id as the inode.
    """
    for line in (LIVE.text(f"/proc/{pid}/maps") or "").splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[5].startswith("/SYSV"):
            yield int(fields[4])


def remove_dynamic_memory(paths: Iterable[str]) -> None:
    """Remove files of a dead server, and those listed by the control segment among them."""
    found = set(paths)
    for path in list(found):
        found.update(_listed_in(path))
    for path in found:
        with suppress(OSError):
            Path(path).unlink()


class SharedMemoryHeader(NamedTuple):
    """The header of a server's System V shared memory.

    Attributes:
        control: File of its control segment; empty without one.
        device: Device number of the data folder, as in ``stat``.
        inode: Inode of the data folder.
    """

    control: str
    device: int
    inode: int


def read_header(segment: int) -> SharedMemoryHeader | None:
    """Return the header of a dead server's System V shared memory; None if not yet initialised.

    Args:
        segment: Its id, as in ``postmaster.pid``.
    """
    library = ctypes.CDLL(None)
    library.shmat.restype = ctypes.c_void_p
    address = library.shmat(segment, None, _READ_ONLY)
    if address in (None, _NO_ADDRESS):
        return None
    try:
        header = _HEADER.unpack(ctypes.string_at(address, _HEADER.size))
    finally:
        library.shmdt(ctypes.c_void_p(address))
    magic, _pid, _total, _free, control, _pointer, device, inode = header
    if magic != _HEADER_MAGIC:
        return None
    return SharedMemoryHeader(f"{_NAME}{control}" if control else "", device, inode)


def _listed_in(path: str) -> Iterator[str]:
    """Yield the segments listed in a control segment; none if it is not one."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return
    if len(data) < _ITEMS_OFFSET_BYTES:
        return
    magic, count, capacity = _CONTROL.unpack_from(data)
    if magic != _CONTROL_MAGIC or not 0 < count <= capacity:
        return
    item_bytes = (len(data) - _ITEMS_OFFSET_BYTES) // capacity
    if item_bytes < _ITEM.size:
        return
    for index in range(count):
        number, references = _ITEM.unpack_from(data, _ITEMS_OFFSET_BYTES + index * item_bytes)
        if references >= _REFERENCES_MIN:
            yield f"{_NAME}{number}"
