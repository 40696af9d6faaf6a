"""What every process reads from storage and writes to it, as far as we may see it.

Source: proc_pid_io(5). What a process writes to the page cache counts as its own at once, and
reaches the device later.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from seatrial.machine.fingerprint.tree import LIVE, SystemTree

PROCESSES_MAX: Final = 4096
"""On a machine with more nothing is told: the look itself would take too long."""

_FILE_LIMIT_BYTES: Final = 4096
_COUNTED: Final = re.compile(r"^(read_bytes|write_bytes): (\d+)$", re.MULTILINE)
_PARENT: Final = 1
_BEGAN: Final = 19


class ProcessIo(NamedTuple):
    """What one process has moved since it began.

    Attributes:
        pid: Its number.
        began_ticks: When it began, which tells it from a later one of that number.
        parent: Number of its parent.
        name: Of its program, at most 15 characters.
        read_bytes: What was fetched from storage for it.
        write_bytes: What it gave to be written to storage.
    """

    pid: int
    began_ticks: int
    parent: int
    name: str
    read_bytes: int
    write_bytes: int


def processes_io(tree: SystemTree = LIVE) -> list[ProcessIo]:
    """Return what each process moved that has moved anything; empty where there are too many."""
    pids = [name for name in tree.names("/proc") if name.isdigit()]
    if len(pids) > PROCESSES_MAX:
        return []
    found = (_of(tree, pid) for pid in pids)
    return [each for each in found if each is not None]


def own_processes(tree: SystemTree = LIVE) -> frozenset[int]:
    """Return our own process and all below it."""
    parents = {
        int(pid): fields[_PARENT]
        for pid in tree.names("/proc")
        if pid.isdigit() and (fields := _fields(tree, pid))
    }
    own = {os.getpid()}
    for _ in range(len(parents)):
        more = {pid for pid, parent in parents.items() if int(parent) in own} - own
        if not more:
            break
        own |= more
    return frozenset(own)


def _of(tree: SystemTree, pid: str) -> ProcessIo | None:
    text = tree.text(f"/proc/{pid}/io", _FILE_LIMIT_BYTES) or ""
    counted = {name: int(value) for name, value in _COUNTED.findall(text)}
    if not any(counted.values()):
        return None
    fields = _fields(tree, pid)
    if len(fields) <= _BEGAN:
        return None
    return ProcessIo(
        pid=int(pid),
        began_ticks=int(fields[_BEGAN]),
        parent=int(fields[_PARENT]),
        name=tree.word(f"/proc/{pid}/comm") or "unnamed",
        read_bytes=counted.get("read_bytes", 0),
        write_bytes=counted.get("write_bytes", 0),
    )


def _fields(tree: SystemTree, pid: str) -> list[str]:
    """Return the fields of a process's stat file from the third on; none when it is gone."""
    text = tree.text(f"/proc/{pid}/stat", _FILE_LIMIT_BYTES) or ""
    return text.rpartition(")")[2].split()
