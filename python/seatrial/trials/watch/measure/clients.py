"""The client of a request: a measurement's load engine, its server, or another program."""

from __future__ import annotations

import os
from typing import Final

from seatrial.machine.fingerprint.process_usage import (
    is_kernel_thread,
    is_server_of_a_trial,
    parent_of,
)

ENGINE: Final = "load engine"
SERVER: Final = "server of the run"
HELPER: Final = "helper of the run"
KERNEL: Final = "kernel thread"
OTHER: Final = "other program"
ENDED: Final = "ended process"
"""One that was gone before it could be identified."""
CLIENTS: Final = (ENGINE, SERVER, HELPER, KERNEL, OTHER, ENDED)
_GENERATIONS_MAX: Final = 64
_KNOWN_MAX: Final = 20_000


class Clients:
    """Identifies the processes of a run; each process is looked up once."""

    def __init__(self, engine_pid: int) -> None:
        """Take the process of the load engine; its child processes are helpers of the run."""
        self._engine_pid = engine_pid
        self._known: dict[tuple[int, str], str] = {}

    def client(self, pid: int, command: str) -> str:
        """Return one of ``CLIENTS`` for a process; empty where the process is unknown (0)."""
        if not pid:
            return ""
        found = self._known.get((pid, command))
        if found is None:
            if len(self._known) >= _KNOWN_MAX:  # numbers of processes that have ended
                self._known.clear()
            found = self._known[pid, command] = self._identified(pid)
        return found

    def _identified(self, pid: int) -> str:
        if pid == self._engine_pid:
            return ENGINE
        if is_kernel_thread(pid):
            return KERNEL
        return SERVER if is_server_of_a_trial(pid) else self._by_parents(pid)

    def _by_parents(self, pid: int) -> str:
        """Return whether a process was started by the engine; this one is not the run's."""
        above: int | None = pid
        for _ in range(_GENERATIONS_MAX):
            if above is None:
                return ENDED
            if above == self._engine_pid:
                return HELPER
            if above <= 1 or above == os.getpid():
                break
            above = parent_of(above)
        return OTHER
