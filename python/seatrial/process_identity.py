"""Identity of processes that is never reused: number and start, on one boot of one host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

import msgspec

INITIAL_NAMESPACE: Final = "pid:[4026531836]"
"""The process namespace from which all others are seen (``PROC_PID_INIT_INO`` of
include/linux/proc_ns.h)."""


class OwnerProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The process that made changes, so that its death can be detected from elsewhere.

    Attributes:
        pid: Its number in its namespace.
        start_ticks: When it started, in clock ticks since boot; a number used again differs here.
        boot_id: The boot that it ran on.
        host: The host that it ran on; a home folder may be shared by several.
        pid_namespace: The container that it ran in, as the kernel names it.
    """

    pid: int
    start_ticks: int
    boot_id: str
    host: str
    pid_namespace: str

    @classmethod
    def current(cls) -> OwnerProcess:
        """Return this very process."""
        pid = os.getpid()
        return cls(
            pid=pid,
            start_ticks=start_ticks(pid) or 0,
            boot_id=boot_id(),
            host=os.uname().nodename,
            pid_namespace=pid_namespace(),
        )

    def state(self, *, is_below: bool = False) -> Literal["alive", "dead", "elsewhere"]:
        """Return whether it still runs; ``elsewhere`` when that cannot be seen from here.

        A process of another namespace has ended where that namespace has none any more.

        Args:
            is_below: Whether it is known to have run on this machine, in this process namespace or
                a descendant. Otherwise only the initial namespace sees all of them.
        """
        is_here = is_below or self.host == os.uname().nodename
        if self.boot_id != boot_id():
            # Without /proc no boot is known, and no process is seen.
            return "dead" if is_here and start_ticks(os.getpid()) is not None else "elsewhere"
        own = pid_namespace()
        if self.pid_namespace == own:
            # Clones of a virtual machine have the same boot id.
            if not is_here:
                return "elsewhere"
            return "alive" if start_ticks(self.pid) == self.start_ticks else "dead"
        if not is_below and own != INITIAL_NAMESPACE:
            return "elsewhere"
        pids = pids_in(self.pid_namespace)
        if pids is None:
            return "elsewhere"
        return "alive" if any(self._is(pid) for pid in pids) else "dead"

    def _is(self, pid: int) -> bool:
        """Return whether it is the process with this number here, in its descendant namespace."""
        ticks = start_ticks(pid)
        if ticks is None or _number_inside(pid) != self.pid:
            return False
        # Each process reads its start by the clock of its own time namespace.
        shift_s = _boot_shift_s(str(pid)) - _boot_shift_s("self")
        return abs(ticks + shift_s * os.sysconf("SC_CLK_TCK") - self.start_ticks) <= 1

    def without_host(self) -> OwnerProcess:
        """Return it without the host's name, for a file that may be passed on."""
        return msgspec.structs.replace(self, host="")

    def is_seen_running(self) -> bool:
        """Return whether it runs on this boot of this machine, where it can be seen from here."""
        return (
            self.boot_id == boot_id()
            and self.pid_namespace == pid_namespace()
            and start_ticks(self.pid) == self.start_ticks
        )


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it is gone or a zombie.

    Source: proc_pid_stat(5), fields 3 and 22; the name in field 2 may hold blanks and brackets.
    """
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in {"Z", "X"}:
        return None
    return int(fields[19])


def started_unix_s(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970; None when it is gone or a zombie."""
    ticks = start_ticks(pid)
    for line in _text("/proc/stat").splitlines():
        if line.startswith("btime ") and ticks is not None:
            return int(line.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return None


def pids_in(namespace: str) -> list[int] | None:
    """Return the processes of a namespace, by their numbers here; None if not all can be seen.

    Args:
        namespace: As the kernel names it.

    Source: pid_namespaces(7), and ``NSpid`` of proc_pid_status(5), which every user may read.
    """
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            if str((each / "ns/pid").readlink()) == namespace:
                found.append(int(each.name))
        except PermissionError:
            if len(_numbers(int(each.name))) > 1:
                return None
        except OSError:
            continue
    return found


def _numbers(pid: int) -> list[int]:
    """Return the numbers of a process in our namespace and those below; none when it is gone."""
    lines = _text(f"/proc/{pid}/status").splitlines()
    return [int(n) for each in lines if each.startswith("NSpid:") for n in each.split()[1:]]


def _number_inside(pid: int) -> int | None:
    """Return the number that a process has for itself."""
    return next(reversed(_numbers(pid)), None)


def _boot_shift_s(pid: str) -> float:
    """Return by how much the time since boot is ahead in the time namespace of a process.

    Source: time_namespaces(7).
    """
    for line in _text(f"/proc/{pid}/timens_offsets").splitlines():
        name, seconds, nanoseconds = line.split()
        if name == "boottime":
            return int(seconds) + int(nanoseconds) / 1e9
    return 0.0


def boot_id() -> str:
    """Return the kernel's identifier of this boot."""
    return _text("/proc/sys/kernel/random/boot_id")


def pid_namespace() -> str:
    """Return our own process namespace, as the kernel names it; empty where it is not known."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""
