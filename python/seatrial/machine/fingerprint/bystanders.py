"""What everybody else on the machine did: the kernel's own threads, and the I/O of other processes.

Sources: proc_pid_stat(5), proc_pid_io(5).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from seatrial.machine.fingerprint.surroundings import NS_PER_TICK
from seatrial.machine.fingerprint.tree import LIVE, SystemTree

_PROCESSES_MAX: Final = 20_000
_FILE_LIMIT_BYTES: Final = 4096
_KERNEL_FLAG: Final = 0x0020_0000  # PF_KTHREAD of include/linux/sched.h
_PARENT, _FLAGS, _TIMES = 1, 6, slice(11, 15)  # of the words behind the command's name


def bystanders(own_pids: Collection[int], *, tree: SystemTree = LIVE) -> dict[str, float]:
    """Return absolute readings of all processes but some trees; absent where unknown.

    ``kernel_cpu_ns``: processor time of the kernel's own threads, which carry out I/O for whoever
    asked for it. ``others_read_bytes`` and ``others_write_bytes``: what other processes caused to
    be fetched from storage and to be written to it, to any device; a page that is made dirty again
    counts again. A parent takes over the account of a child that it reaps.

    Args:
        own_pids: Roots of trees that are no bystanders.
        tree: The machine.
    """
    stats = {pid: words for pid in _pids(tree) if (words := _stat(tree, pid))}
    own = _descendants(own_pids, {pid: int(words[_PARENT]) for pid, words in stats.items()})
    kernel = {pid for pid, words in stats.items() if int(words[_FLAGS]) & _KERNEL_FLAG}
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
    return [int(name) for name in tree.names("/proc") if name.isdigit()][:_PROCESSES_MAX]


def _stat(tree: SystemTree, pid: int) -> list[str]:
    """Return the words behind a process's name; empty when it is gone."""
    text = tree.text(f"/proc/{pid}/stat", _FILE_LIMIT_BYTES)
    words = (text or "").rpartition(")")[2].split()
    return words if len(words) >= _TIMES.stop else []


def _descendants(roots: Iterable[int], parents: dict[int, int]) -> set[int]:
    """Return some processes and all below them."""
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
    """Return what a process read and wrote; 0 of one that has just ended, None if withheld."""
    text = tree.text(f"/proc/{pid}/io", _FILE_LIMIT_BYTES)
    if not text:
        return None if tree.exists(f"/proc/{pid}/stat") else (0, 0)
    amounts = dict(re.findall(r"^(read_bytes|write_bytes): (\d+)$", text, re.MULTILINE))
    return int(amounts.get("read_bytes", 0)), int(amounts.get("write_bytes", 0))
