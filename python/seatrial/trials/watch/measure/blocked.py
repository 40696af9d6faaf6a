"""Tasks that are blocked in the kernel, what they wait in, and the disk of the file concerned.

Source: the kernel's Documentation/filesystems/proc.rst. Nothing here waits for a file system: files
are known by the mount that /proc names, not by opening them.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, Final, NamedTuple

from seatrial.errors import TargetError
from seatrial.trials.watch.measure.volume import volume_of

_KTHREADD: Final = 2
"""The parent of all threads of the kernel."""
_THREADS: Final = 17
"""Index of the number of threads among the fields of a stat after the name."""
_UNINTERRUPTIBLE: Final = "D"
_FILES_MAX: Final = 64
"""Open files of a task that are read."""
_AT_FILE: Final = frozenset(
    (
        *(0, 1, 3, 5, 8, 16, 17, 18, 19, 20, 40, 74, 75, 77, 78, 91, 93),
        *(187, 217, 221, 277, 285, 295, 296, 306, 327, 328),
    )
)
"""Numbers of system calls on x86-64 whose first argument is an open file: read, write, fsync ..."""
_AT_PATH: Final = frozenset(
    (
        *(2, 4, 6, 26, 59, 76, 82, 83, 84, 85, 86, 87, 88, 89, 90, 92, 94, 132, 161, 162, 165, 166),
        *(188, 189, 235, 257, 258, 260, 261, 262, 263, 264, 265, 266, 267, 268, 280, 316, 322),
        *(326, 332, 426, 437),
    )
)
"""Other calls about files: open, rename, unlink, sync, io_uring_enter ..."""
_NO_CALL: Final = ("-1", "running")
"""Texts instead of a number: a page fault, for example."""
_ELSEWHERE: Final = (
    *("kernel_clone", "wait_for_vfork_done", "__refrigerator", "__wait_rcu_gp", "wait_rcu_gp"),
    "do_coredump",
)
"""Kernel functions that wait for no storage: for a child that is to call exec, for thawing ..."""
_IO_SUBMIT: Final = 209
"""Takes a context, a number and an array of addresses of struct iocb (linux/aio_abi.h)."""
_FILE_IN_IOCB: Final = 20
_ARGUMENTS: Final = 6
_STANDARD_ERROR: Final = 2


class BlockedTask(NamedTuple):
    """A task that sleeps uninterruptibly.

    Attributes:
        pid: Its process.
        tid: The task.
        command: Its name.
        wait: Kernel function that it waits in; empty where that may not be read.
        disk: Name of the disk of the file concerned; empty where that is unknown.
        since_s: The first search at which it was blocked there.
        switches: Voluntary context switches; unchanged at the next search if it has not run
            meanwhile.
    """

    pid: int
    tid: int
    command: str
    wait: str
    disk: str
    since_s: float
    switches: int


def blocked_tasks(
    now_s: float, before: Mapping[int, BlockedTask], kernel_pids: set[int]
) -> Iterator[BlockedTask]:
    """Yield all blocked tasks of programs; threads of the kernel are left out.

    Args:
        now_s: The time of this search.
        before: The result of the last search, by task.
        kernel_pids: Threads of the kernel that earlier searches found; new ones are added.
    """
    for pid in _numbers("/proc"):
        if pid in kernel_pids:
            continue
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if not fields:  # ended meanwhile
            continue
        if _KTHREADD in (int(fields[1]), pid):
            kernel_pids.add(pid)
            continue
        tids = [pid] if fields[_THREADS] == "1" else _numbers(f"/proc/{pid}/task")
        for tid in tids:
            if (found := _blocked(pid, tid, now_s, before.get(tid))) is not None:
                yield found


def _blocked(pid: int, tid: int, now_s: float, before: BlockedTask | None) -> BlockedTask | None:
    folder = f"/proc/{pid}/task/{tid}"
    head, _, tail = _text(f"{folder}/stat").rpartition(")")
    fields = tail.split()
    if not fields or fields[0] != _UNINTERRUPTIBLE:
        return None
    found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)", _text(f"{folder}/status"), re.M)
    switches = int(found[1]) if found else 0
    if before is not None and before.switches == switches:
        return before
    wait = _text(f"{folder}/wchan").strip("0\n")
    if wait.startswith(_ELSEWHERE) or not _is_about_files(folder):
        return None
    command = head.partition("(")[2]
    return BlockedTask(pid, tid, command, wait, _disk(folder), now_s, switches)


def _disk(folder: str) -> str:
    """Return the disk of the file that a task's system call is about, if that is certain."""
    files = _files_of_call(folder)
    if files is None:
        # It names a path, or cannot be read: certain only if all files of the task, other than its
        # standard streams, are on one disk.
        files = [each for each in _numbers(f"{folder}/fdinfo") if each > _STANDARD_ERROR]
    disks = {name for file in files[:_FILES_MAX] if (name := _disk_of_file(folder, file))}
    return disks.pop() if len(disks) == 1 else ""


def _is_about_files(folder: str) -> bool:
    """Return whether a task's system call may wait for storage; True where that is unknown."""
    call = _text(f"{folder}/syscall").split()
    if os.uname().machine != "x86_64" or not call or call[0] in _NO_CALL:
        return True
    return int(call[0]) in _AT_FILE | _AT_PATH | {_IO_SUBMIT}


def _files_of_call(folder: str) -> list[int] | None:
    """Return the open files that a task's system call is about; None where that is unknown."""
    call = _text(f"{folder}/syscall").split()
    if os.uname().machine != "x86_64" or len(call) <= _ARGUMENTS or not call[0].isdigit():
        return None
    number, *arguments = int(call[0]), *(int(each, 16) for each in call[1 : _ARGUMENTS + 1])
    if number in _AT_FILE:
        return [arguments[0]]
    if number != _IO_SUBMIT:
        return None
    try:
        with open(f"{folder}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - fast
            addresses = memory_at(memory, arguments[2], 8 * min(arguments[1], _FILES_MAX))
            return [
                int.from_bytes(memory_at(memory, address + _FILE_IN_IOCB, 4), sys.byteorder)
                for (address,) in struct.iter_unpack("=Q", addresses)
            ]
    except (OSError, ValueError, OverflowError):  # ended meanwhile, or not allowed
        return None


def memory_at(memory: IO[bytes], address: int, length_bytes: int) -> bytes:
    """Return the bytes at an address of a process's memory.

    Raises:
        ValueError: if it holds less.
    """
    memory.seek(address)
    found = memory.read(length_bytes)
    if len(found) < length_bytes:
        raise ValueError(f"{len(found)} of {length_bytes} bytes")
    return found


def _disk_of_file(folder: str, file: int) -> str:
    found = re.search(r"^mnt_id:\s*(\d+)", _text(f"{folder}/fdinfo/{file}"), re.M)
    if found is None:
        return ""
    for line in _text(f"{folder}/mountinfo").splitlines():
        parts = line.split()
        if parts[0] == found[1]:
            major, _, minor = parts[2].partition(":")
            return _disk_name(os.makedev(int(major), int(minor)))
    return ""


@lru_cache(maxsize=256)
def _disk_name(device: int) -> str:
    try:
        disks = volume_of(device).disks
    except TargetError:  # on no disk, or on one that cannot be followed
        return ""
    if len(disks) != 1:
        return ""
    link = Path(f"/sys/dev/block/{disks[0][0]}:{disks[0][1]}")
    return link.resolve().name if link.exists() else ""


def _numbers(folder: str) -> list[int]:
    try:
        return [int(each) for each in os.listdir(folder) if each.isdigit()]  # noqa: PTH208 - fast
    except OSError:  # ended meanwhile, or another user's
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - fast
            return file.read()
    except OSError:  # ended meanwhile, or another user's
        return ""
