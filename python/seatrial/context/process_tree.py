"""What a process and all its descendants used: processor time, and bytes read from storage.

Sources: proc_pid_stat(5), proc_pid_io(5), proc_tid_children(5).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from seatrial.context.surroundings import NS_PER_TICK
from seatrial.context.tree import LIVE, SystemTree

_PROCESSES_MAX: Final = 10_000
_TRIES: Final = 3
_FILE_LIMIT_BYTES: Final = 4096

# Positions after the command's name, which may hold blanks and brackets: field 3 is the first.
_PARENT: Final = 1
_USER: Final = 11
_SYSTEM: Final = 12
_REAPED_USER: Final = 13
_REAPED_SYSTEM: Final = 14


class Usage(NamedTuple):
    """What a process tree used since its root began.

    Attributes:
        user_ns: Processor time in programs.
        system_ns: Processor time in the kernel.
        read_bytes: What it caused to be fetched from storage; None where that may not be read. (Of
            what it caused to be written the kernel's account is too rough: a page that is made
            dirty again counts again, and so does every other one of its folio.)
    """

    user_ns: float
    system_ns: float
    read_bytes: int | None


class ProcessTree:
    """A process and its descendants; those that ended count on, in whoever reaped them.

    The kernel adds time and bytes of a child to its parent's account when the parent reaps it
    (kernel/exit.c, ``wait_task_zombie``), so that the sum over the tree loses nothing. A child that
    is reaped while the tree is being read could be missed for once: then it is read again.

    Args:
        pid: The root.
        tree: The machine.
        without: Roots of trees that are left out, with all below them.
    """

    def __init__(self, pid: int, *, tree: SystemTree = LIVE, without: Collection[int] = ()) -> None:
        self.pid = pid
        self._tree = tree
        self._without = frozenset(without)
        self._most = Usage(0.0, 0.0, 0)

    def usage(self) -> Usage | None:
        """Return what was used up to now; None when the root is gone. It never falls."""
        for _ in range(_TRIES):
            before_ticks = self._reaped_ticks()
            parts = [part for pid in self._pids() if (part := self._of(pid)) is not None]
            after_ticks = self._reaped_ticks()
            if before_ticks is None or after_ticks is None:
                return None
            if before_ticks == after_ticks:
                break
        usage = Usage(
            sum(part.user_ns for part in parts),
            sum(part.system_ns for part in parts),
            _sum([part.read_bytes for part in parts]),
        )
        most = self._most
        self._most = Usage(
            max(usage.user_ns, most.user_ns),
            max(usage.system_ns, most.system_ns),
            _larger(usage.read_bytes, most.read_bytes),
        )
        return self._most

    def _pids(self) -> Iterator[int]:
        """Yield the root and every descendant, parents before their children."""
        waiting = [self.pid]
        for _ in range(_PROCESSES_MAX):
            if not waiting:
                return
            pid = waiting.pop()
            yield pid
            waiting += [child for child in self._children(pid) if child not in self._without]

    def _children(self, pid: int) -> list[int]:
        """Return the children of all threads of a process."""
        folder = f"/proc/{pid}/task"
        threads = self._tree.names(folder)
        lists = [self._tree.text(f"{folder}/{thread}/children") for thread in threads]
        if threads and lists[0] is None and self._tree.exists(f"{folder}/{threads[0]}"):
            return self._children_by_parent(pid)
        return [int(word) for words in lists if words for word in words.split()]

    def _children_by_parent(self, pid: int) -> list[int]:
        """Return the children as every process names its parent: slower, on any kernel."""
        numbers = [int(name) for name in self._tree.names("/proc") if name.isdigit()]
        parent = str(pid)
        return [n for n in numbers if (f := self._fields(n)) and f[_PARENT] == parent]

    def _reaped_ticks(self) -> int | None:
        """Return the time of the children that the root reaped; None when the root is gone."""
        fields = self._fields(self.pid)
        if fields is None:
            return None
        return int(fields[_REAPED_USER]) + int(fields[_REAPED_SYSTEM])

    def _of(self, pid: int) -> Usage | None:
        """Return what one process and the children that it reaped used; None when it is gone."""
        # In this order bytes that are not known are never those of a process that just ended.
        read_bytes = self._read_bytes(pid)
        fields = self._fields(pid)
        if fields is None:
            return None
        return Usage(
            (int(fields[_USER]) + int(fields[_REAPED_USER])) * NS_PER_TICK,
            (int(fields[_SYSTEM]) + int(fields[_REAPED_SYSTEM])) * NS_PER_TICK,
            read_bytes,
        )

    def _fields(self, pid: int) -> list[str] | None:
        """Return the fields of a process's stat file from the third on; None when it is gone."""
        text = self._tree.text(f"/proc/{pid}/stat", _FILE_LIMIT_BYTES)
        fields = (text or "").rpartition(")")[2].split()
        return fields if len(fields) > _REAPED_SYSTEM else None

    def _read_bytes(self, pid: int) -> int | None:
        """Return the bytes that a process fetched; None where that may not be read."""
        text = self._tree.text(f"/proc/{pid}/io", _FILE_LIMIT_BYTES) or ""
        match = re.search(r"^read_bytes: (\d+)$", text, re.MULTILINE)
        return int(match[1]) if match else None


def _sum(parts: list[int | None]) -> int | None:
    """Return a sum; None when a part of it is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _larger(one: int | None, other: int | None) -> int | None:
    """Return the larger; None when the first is not known."""
    return one if one is None or other is None else max(one, other)
