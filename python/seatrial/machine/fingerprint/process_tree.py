"""What a process and all its descendants used: processor time, and bytes read from storage.

Sources: proc_pid_stat(5), proc_pid_io(5), proc_tid_children(5); of the time for which a thread
could run and had no processor the kernel's Documentation/scheduler/sched-stats.rst,
"/proc/<pid>/schedstat".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from seatrial.machine.fingerprint.surroundings import NS_PER_TICK
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

_PROCESSES_MAX: Final = 10_000
_TRIES: Final = 3
_FILE_LIMIT_BYTES: Final = 4096

# Positions after the command's name, which may hold blanks and brackets: field 3 is the first.
_PARENT: Final = 1
_USER: Final = 11
_SYSTEM: Final = 12
_REAPED_USER: Final = 13
_REAPED_SYSTEM: Final = 14
_DELAY: Final = 1  # of the words of a schedstat file


class Usage(NamedTuple):
    """What a process tree used since its root began.

    Attributes:
        user_ns: Processor time in programs.
        system_ns: Processor time in the kernel.
        read_bytes: What it caused to be fetched from storage; None where that may not be read. (Of
            what it caused to be written the kernel's account is too rough: a page that is made
            dirty again counts again, and so does every other one of its folio.)
        delay_ns: For how long threads could run and had no processor, summed up over all threads;
            of a process that ended what was last read. None where the kernel keeps no account.
    """

    user_ns: float
    system_ns: float
    read_bytes: int | None
    delay_ns: float | None = None


class ProcessTree:
    """A process and its descendants; those that ended count on, in whoever reaped them.

    The kernel adds time and bytes of a child to its parent's account when the parent reaps it
    (kernel/exit.c, ``wait_task_zombie``), so that the sum over the tree loses nothing. A child that
    is reaped while the tree is being read could be missed for once: then it is read again.

    Args:
        pid: The root.
        tree: The machine.
        without: Roots of trees that are left out, with all below them.
        counts_root: Whether the root's own time counts; that of its descendants always does.
    """

    def __init__(
        self,
        pid: int,
        *,
        tree: SystemTree = LIVE,
        without: Collection[int] = (),
        counts_root: bool = True,
    ) -> None:
        self.pid = pid
        self._tree = tree
        self._without = frozenset(without)
        self._counts_root = counts_root
        self._most = Usage(0.0, 0.0, 0)
        self._delays = _Delays()

    def usage(self) -> Usage | None:
        """Return what was used up to now; None when the root is gone. It never falls."""
        for _ in range(_TRIES):
            before_ticks = self._reaped_ticks()
            pids = list(self._pids())
            parts = [part for pid in pids if (part := self._of(pid)) is not None]
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
            self._delays.total_ns(self._delays_ns(pids)),
        )
        return self._most

    def root_ns(self) -> float | None:
        """Return the processor time of the root alone, without children; None when it is gone."""
        fields = self._fields(self.pid)
        return None if fields is None else (int(fields[_USER]) + int(fields[_SYSTEM])) * NS_PER_TICK

    def has_child(self, pid: int) -> bool:
        """Tell whether a process is a child of the root."""
        fields = self._fields(pid)
        return fields is not None and fields[_PARENT] == str(self.pid)

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
        own = self._counts_root or pid != self.pid
        return Usage(
            (int(fields[_USER]) * own + int(fields[_REAPED_USER])) * NS_PER_TICK,
            (int(fields[_SYSTEM]) * own + int(fields[_REAPED_SYSTEM])) * NS_PER_TICK,
            read_bytes,
        )

    def _delays_ns(self, pids: Iterable[int]) -> dict[str, float]:
        """Return for how long each thread lacked a processor, as far as the kernel tells.

        The file of a process is that of its first thread alone, so each thread's own is read.
        """
        found = {}
        for pid in pids:
            if pid == self.pid and not self._counts_root:
                continue
            folder = f"/proc/{pid}/task"
            for thread in self._tree.names(folder):
                text = self._tree.text(f"{folder}/{thread}/schedstat", _FILE_LIMIT_BYTES)
                words = (text or "").split()
                if len(words) > _DELAY:
                    found[thread] = float(words[_DELAY])
        return found

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


class _Delays:
    """Sums up what threads lacked: nobody takes over the account of one that has ended."""

    def __init__(self) -> None:
        self._last_ns: dict[str, float] = {}
        self._ended_ns = 0.0
        self._is_known = False

    def total_ns(self, delays_ns: dict[str, float]) -> float | None:
        """Return the sum over all threads seen by now; None where none has told anything."""
        for thread, last_ns in self._last_ns.items():
            if delays_ns.get(thread, -1.0) < last_ns:  # it has ended, or its number was given anew
                self._ended_ns += last_ns
        self._last_ns = delays_ns
        self._is_known |= bool(delays_ns)
        return self._ended_ns + sum(delays_ns.values()) if self._is_known else None


def _sum(parts: list[int | None]) -> int | None:
    """Return a sum; None when a part of it is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _larger(one: int | None, other: int | None) -> int | None:
    """Return the larger; None when the first is not known."""
    return one if one is None or other is None else max(one, other)
