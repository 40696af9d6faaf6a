"""The machine under a trial, period by period: processors, pressure, device, processes."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from threading import Event

from seatrial import context
from seatrial.context.tree import LIVE, SystemTree
from seatrial.measure.database.observe_series import Readings


class MachineWatch:
    """Reads the machine on which the data lie, and the processes of server and client.

    Args:
        place: Where the data lie; None where that is not on this machine, of which then nothing
            is read but its client.
        server_pid: The server's first process; None where it is not ours to see.
        client_pids: Processes that put the load on the server.
        period_s: Between two readings.
        tree: The machine.

    Attributes:
        readings: What was read.
        notes: What could not be read and why, as sentences.
        cpu_ns: Processor time of the thread that watched.
    """

    def __init__(
        self,
        place: Path | None,
        server_pid: int | None,
        client_pids: Collection[int],
        *,
        period_s: float,
        tree: SystemTree = LIVE,
    ) -> None:
        self.readings = Readings(period_s)
        self.notes: list[str] = []
        self.cpu_ns = 0
        self._place = place
        self._period_s = period_s
        self._tree = tree
        without = () if server_pid is None else (server_pid,)
        self._server = None if server_pid is None else context.ProcessTree(server_pid, tree=tree)
        self._clients = [
            context.ProcessTree(pid, tree=tree, without=without) for pid in client_pids
        ]
        self._began_s = 0.0

    def begin(self, began_s: float) -> None:
        """Take the first reading; ``began_s`` is the trial's start on the monotonic clock."""
        self._began_s = began_s
        found = self._read()
        if self._place is None:
            return
        if "device_reads" not in found:
            self.notes.append(
                "No block device is visible under the data: what reached it is not known"
            )
        if "psi_io_some_ns" not in found:
            self.notes.append("This kernel tells no pressure (PSI)")

    def watch(self, ending: Event) -> None:
        """Read until told to end, and once more at the end."""
        boundary = 1
        while not ending.wait(max(0.0, boundary * self._period_s - self._now_s())):
            self._read()
            boundary = int(self._now_s() / self._period_s) + 1
        self._read()
        self.cpu_ns = time.thread_time_ns()

    def finish(self) -> None:
        """Take in what the processes still did until the server's last reports were read."""
        self.readings.add(self._now_s(), self._processes())

    def _read(self) -> dict[str, float]:
        at_s = self._now_s()
        found = self._processes()
        if self._place is not None:
            found |= context.surroundings(self._place, tree=self._tree)
        self.readings.add(at_s, found)
        return found

    def _processes(self) -> dict[str, float]:
        """Return what server and clients used up to now; absent where unknown."""
        found: dict[str, float] = {}
        server = self._server.usage() if self._server else None
        if server is not None:
            found["server_cpu_ns"] = server.user_ns + server.system_ns
            if server.read_bytes is not None:
                found["server_read_bytes"] = float(server.read_bytes)
        clients = [usage for tree in self._clients if (usage := tree.usage()) is not None]
        if clients and len(clients) == len(self._clients):
            found["client_cpu_ns"] = sum(usage.user_ns + usage.system_ns for usage in clients)
        return found

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s
