"""CPU time and I/O of processes: of a process tree, and of all others on the machine.

A write to the page cache counts for its process at once; it reaches the device later.

Sources: proc_pid_stat(5), proc_pid_io(5), proc_tid_children(5); the kernel's
Documentation/scheduler/sched-stats.rst, "/proc/<pid>/schedstat".
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from seatrial.machine.fingerprint.counters import NS_PER_TICK
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.machine.marker import FOLDER_PREFIX

PROCESSES_MAX: Final = 4096
"""``processes_io`` reports nothing on a machine with more: reading them would take too long."""

_TREE_PROCESSES_MAX: Final = 10_000
_ALL_PROCESSES_MAX: Final = 20_000
_TRIES: Final = 3
_FILE_LIMIT_BYTES: Final = 4096
_IO_COUNTERS: Final = re.compile(r"^(read_bytes|write_bytes): (\d+)$", re.MULTILINE)

# Positions after the command's name, which may contain blanks and brackets: field 3 is the first.
_PARENT: Final = 1
_FLAGS: Final = 6
_USER: Final = 11
_SYSTEM: Final = 12
_REAPED_USER: Final = 13
_REAPED_SYSTEM: Final = 14
_TIMES: Final = slice(_USER, _REAPED_SYSTEM + 1)
_START: Final = 19
_KERNEL_THREAD: Final = 0x0020_0000  # PF_KTHREAD of include/linux/sched.h
_DELAY: Final = 1  # of the words of a schedstat file


class Usage(NamedTuple):
    """What a process tree has used since its root began.

    Attributes:
        user_ns: CPU time in user mode.
        system_ns: CPU time in the kernel.
        read_bytes: Bytes read from storage for it; None where that may not be read. (Bytes written
            are not reported: the kernel counts a page again when it is dirtied again, and so every
            other page of its folio.)
        delay_ns: How long threads were runnable without a CPU, summed over all threads; for an
            ended process the last reading. None where the kernel does not account for it.
    """

    user_ns: float
    system_ns: float
    read_bytes: int | None
    delay_ns: float | None = None


class ProcessTree:
    """A process and its descendants; usage of ended ones is kept in the process that reaped them.

    The kernel adds time and bytes of a child to its parent when the parent reaps it (kernel/exit.c,
    ``wait_task_zombie``), so the sum over the tree is complete. A child that is reaped while the
    tree is being read could be missed: then it is read again.

    Args:
        pid: The root.
        tree: The machine.
        without: Roots of subtrees to exclude.
        counts_root: Whether to count the root's own time; its descendants always count.
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
        """Return the usage up to now; None when the root has ended. It never decreases."""
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
        """Return the CPU time of the root alone, without children; None when it has ended."""
        fields = _stat(self._tree, self.pid)
        return (int(fields[_USER]) + int(fields[_SYSTEM])) * NS_PER_TICK if fields else None

    def has_child(self, pid: int) -> bool:
        """Return whether a process is a child of the root."""
        return parent_of(pid, self._tree) == self.pid

    def _pids(self) -> Iterator[int]:
        """Yield the root and all descendants, parents before children."""
        waiting = [self.pid]
        for _ in range(_TREE_PROCESSES_MAX):
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
            # Slower, but works on any kernel.
            return [each for each in _pids(self._tree) if parent_of(each, self._tree) == pid]
        return [int(word) for words in lists if words for word in words.split()]

    def _reaped_ticks(self) -> int | None:
        """Return the time of the children reaped by the root; None when the root has ended."""
        fields = _stat(self._tree, self.pid)
        return int(fields[_REAPED_USER]) + int(fields[_REAPED_SYSTEM]) if fields else None

    def _of(self, pid: int) -> Usage | None:
        """Return the usage of one process and its reaped children; None when it has ended."""
        # In this order, unknown bytes never belong to a process that has just ended.
        read_bytes = _io_counters(self._tree, pid).get("read_bytes")
        fields = _stat(self._tree, pid)
        if not fields:
            return None
        is_counted = self._counts_root or pid != self.pid
        return Usage(
            (int(fields[_USER]) * is_counted + int(fields[_REAPED_USER])) * NS_PER_TICK,
            (int(fields[_SYSTEM]) * is_counted + int(fields[_REAPED_SYSTEM])) * NS_PER_TICK,
            read_bytes,
        )

    def _delays_ns(self, pids: Iterable[int]) -> dict[str, float]:
        """Return for each thread how long it was runnable without a CPU, where known.

        The file of a process covers only its first thread, so each thread's own file is read.
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


class _Delays:
    """Sums up the delays of threads, including ended ones, which no other account includes."""

    def __init__(self) -> None:
        self._last_ns: dict[str, float] = {}
        self._ended_ns = 0.0
        self._is_known = False

    def total_ns(self, delays_ns: dict[str, float]) -> float | None:
        """Return the sum over all threads read so far; None where none is known."""
        for thread, last_ns in self._last_ns.items():
            if delays_ns.get(thread, -1.0) < last_ns:  # it has ended, or its number was reused
                self._ended_ns += last_ns
        self._last_ns = delays_ns
        self._is_known |= bool(delays_ns)
        return self._ended_ns + sum(delays_ns.values()) if self._is_known else None


def _sum(parts: list[int | None]) -> int | None:
    """Return a sum; None when a term is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _larger(one: int | None, other: int | None) -> int | None:
    """Return the larger; None when the first is unknown."""
    return one if one is None or other is None else max(one, other)


class ProcessIo(NamedTuple):
    """The I/O of one process since it began.

    Attributes:
        pid: Its number.
        began_ticks: Its start time, to distinguish processes with the same number.
        parent: Number of its parent.
        name: Name of its program, at most 15 characters.
        read_bytes: Bytes read from storage for it.
        write_bytes: Bytes that it gave to be written to storage.
    """

    pid: int
    began_ticks: int
    parent: int
    name: str
    read_bytes: int
    write_bytes: int


def processes_io(tree: SystemTree = LIVE) -> list[ProcessIo]:
    """Return the I/O of each process that did any; empty where there are too many."""
    pids = _pids(tree)
    if len(pids) > PROCESSES_MAX:
        return []
    found = (_process_io(tree, pid) for pid in pids)
    return [each for each in found if each is not None]


def own_processes(tree: SystemTree = LIVE) -> frozenset[int]:
    """Return our own process and its descendants."""
    parents = {pid: parent for pid in _pids(tree) if (parent := parent_of(pid, tree)) is not None}
    return frozenset(_descendants([os.getpid()], parents))


def is_server_of_a_trial(pid: int, tree: SystemTree = LIVE) -> bool:
    """Return whether a process runs in the trial folder of a run, as its database servers do."""
    folder = tree.link(f"/proc/{pid}/cwd") or ""
    return f"{os.sep}{FOLDER_PREFIX}" in folder


def parent_of(pid: int, tree: SystemTree = LIVE) -> int | None:
    """Return the parent of a process; None when it has ended."""
    fields = _stat(tree, pid)
    return int(fields[_PARENT]) if fields else None


def is_kernel_thread(pid: int, tree: SystemTree = LIVE) -> bool:
    """Return whether a process is a thread of the kernel; False when it has ended."""
    fields = _stat(tree, pid)
    return bool(fields) and bool(int(fields[_FLAGS]) & _KERNEL_THREAD)


def _process_io(tree: SystemTree, pid: int) -> ProcessIo | None:
    counters = _io_counters(tree, pid)
    if not any(counters.values()):
        return None
    fields = _stat(tree, pid)
    if len(fields) <= _START:
        return None
    return ProcessIo(
        pid=pid,
        began_ticks=int(fields[_START]),
        parent=int(fields[_PARENT]),
        name=tree.word(f"/proc/{pid}/comm") or "unnamed",
        read_bytes=counters.get("read_bytes", 0),
        write_bytes=counters.get("write_bytes", 0),
    )


def other_process_readings(
    own_pids: Collection[int], *, tree: SystemTree = LIVE
) -> dict[str, float]:
    """Return absolute readings of all processes except some trees; absent where unknown.

    ``kernel_cpu_ns``: CPU time of the kernel's own threads, which carry out I/O for any process.
    ``others_read_bytes`` and ``others_write_bytes``: bytes that other processes read from storage
    and gave to be written to it, on any device; a page that is dirtied again counts again. The
    counts of a child are added to the parent that reaps it.

    Args:
        own_pids: Roots of process trees to exclude.
        tree: The machine.
    """
    pids = _pids(tree)[:_ALL_PROCESSES_MAX]
    stats = {pid: fields for pid in pids if (fields := _stat(tree, pid))}
    own = _descendants(own_pids, {pid: int(fields[_PARENT]) for pid, fields in stats.items()})
    kernel = {pid for pid, fields in stats.items() if int(fields[_FLAGS]) & _KERNEL_THREAD}
    found = {}
    if kernel:
        ticks = sum(int(word) for pid in kernel for word in stats[pid][_TIMES])
        found["kernel_cpu_ns"] = ticks * NS_PER_TICK
    amounts = [_io_bytes(tree, pid) for pid in stats if pid not in own | kernel]
    known = [each for each in amounts if each is not None]
    # Where some may not be read, the sum of the others would pass for all.
    if len(known) == len(amounts):
        found["others_read_bytes"] = float(sum(read for read, _ in known))
        found["others_write_bytes"] = float(sum(written for _, written in known))
    return found


def _pids(tree: SystemTree) -> list[int]:
    return [int(name) for name in tree.names("/proc") if name.isdigit()]


def _stat(tree: SystemTree, pid: int) -> list[str]:
    """Return the fields of a process's stat file from the third on; empty when it has ended."""
    text = tree.text(f"/proc/{pid}/stat", _FILE_LIMIT_BYTES)
    fields = (text or "").rpartition(")")[2].split()
    return fields if len(fields) > _REAPED_SYSTEM else []


def _io_counters(tree: SystemTree, pid: int) -> dict[str, int]:
    """Return the bytes that a process read and wrote; empty where not readable."""
    text = tree.text(f"/proc/{pid}/io", _FILE_LIMIT_BYTES) or ""
    return {name: int(value) for name, value in _IO_COUNTERS.findall(text)}


def _descendants(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    """Return processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def _io_bytes(tree: SystemTree, pid: int) -> tuple[int, int] | None:
    """Return what a process read and wrote; 0 if it has just ended, None if not readable."""
    counters = _io_counters(tree, pid)
    if not counters and tree.exists(f"/proc/{pid}/stat"):
        return None
    return counters.get("read_bytes", 0), counters.get("write_bytes", 0)
