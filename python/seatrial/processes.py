"""Telling one process from another for good: by number and start, on one boot of one host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec


class Owner(msgspec.Struct, frozen=True, kw_only=True):
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
    def current(cls) -> Owner:
        """Return this very process."""
        pid = os.getpid()
        return cls(
            pid=pid,
            start_ticks=start_ticks(pid) or 0,
            boot_id=boot_id(),
            host=os.uname().nodename,
            pid_namespace=_pid_namespace(),
        )

    def state(self) -> Literal["alive", "dead", "elsewhere"]:
        """Return whether it still runs; ``elsewhere`` when that cannot be seen from here."""
        if self.host != os.uname().nodename:
            return "elsewhere"
        if self.boot_id != boot_id():
            return "dead"
        if self.pid_namespace != _pid_namespace():
            return "elsewhere"
        return "alive" if start_ticks(self.pid) == self.start_ticks else "dead"

    def without_host(self) -> Owner:
        """Return it for a file that may be handed on: the boot alone tells machines apart."""
        return msgspec.structs.replace(self, host="")

    def is_seen_running(self) -> bool:
        """Return whether it runs on this boot of this machine, where it can be seen from here."""
        return (
            self.boot_id == boot_id()
            and self.pid_namespace == _pid_namespace()
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


def boot_id() -> str:
    """Return the kernel's name of this boot."""
    return _text("/proc/sys/kernel/random/boot_id")


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""
