"""The machine under a trial, period by period: processors, pressure, device, processes."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from threading import Event

from seatrial.machine import fingerprint as context
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.trials.database.measure.observe_series import Readings


class MachineWatch:
    """Reads the machine on which the data lie, and the processes of server and client.

    Args:
        place: Where the data lie; None where that is not on this machine, of which then nothing
            is read but its client.
        server_pid: The server's first process; None where it is not ours to see.
        client_pids: Processes below which are those that put the load on the server; what they use
            themselves counts as Seatrial's own.
        period_s: Between two readings.
        tree: The machine.

    Attributes:
        readings: What was read.
        notes: What could not be read and why, as sentences.
        cpu_ns: Processor time of the thread that watched.
        bystanders: What the rest of the machine did from ``open`` to ``finish``: see
            ``context.bystanders``.
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
        self.bystanders: dict[str, float] = {}
        self._place = place
        self._period_s = period_s
        self._tree = tree
        without = () if server_pid is None else (server_pid,)
        self._server = None if server_pid is None else context.ProcessTree(server_pid, tree=tree)
        self._clients = [
            context.ProcessTree(pid, tree=tree, without=without, counts_root=False)
            for pid in client_pids
        ]
        self._own_pids = [*client_pids, *without]
        # Their children are left to the trees above: what remains is their own.
        self._selves = [_Own(pid, tree) for pid in client_pids]
        self._session: _Own | None = None
        self._bystanders_before: dict[str, float] = {}
        self._began_s = 0.0

    def open(self, session_pid: int | None) -> None:
        """Read what takes its time, before the trial begins.

        Args:
            session_pid: The process of the server that answers the observer; None if unknown.
        """
        # A server in a container numbers its processes in another way than this machine does.
        if self._server and session_pid is not None and self._server.has_child(session_pid):
            self._session = _Own(session_pid, self._tree)
        if self._place is not None:
            self._bystanders_before = context.bystanders(self._own_pids, tree=self._tree)

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
        if self._place is None:
            return
        after = context.bystanders(self._own_pids, tree=self._tree)
        before = self._bystanders_before
        self.bystanders = {
            name: max(0.0, value - before[name]) for name, value in after.items() if name in before
        }

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
        session_ns = self._session.cpu_ns() if self._session else 0.0
        server = self._server.usage() if self._server else None
        if server is not None:
            # The session that answers the observer is Seatrial's work, not the load's.
            found["server_cpu_ns"] = server.user_ns + server.system_ns - session_ns
            if server.delay_ns is not None:
                found["server_delay_ns"] = server.delay_ns
            if server.read_bytes is not None:
                found["server_read_bytes"] = float(server.read_bytes)
        clients = [usage for tree in self._clients if (usage := tree.usage()) is not None]
        if clients and len(clients) == len(self._clients):
            found["client_cpu_ns"] = sum(usage.user_ns + usage.system_ns for usage in clients)
            delays = [usage.delay_ns for usage in clients if usage.delay_ns is not None]
            if delays:
                found["client_delay_ns"] = sum(delays)
            found["seatrial_cpu_ns"] = session_ns + sum(own.cpu_ns() for own in self._selves)
        return found

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s


class _Own:
    """The processor time of one process without its children; what was last read once it is gone.

    Args:
        pid: The process.
        tree: The machine.
    """

    def __init__(self, pid: int, tree: SystemTree) -> None:
        self._tree = context.ProcessTree(pid, tree=tree)
        self._last_ns = 0.0

    def cpu_ns(self) -> float:
        self._last_ns = max(self._last_ns, self._tree.root_ns() or 0.0)
        return self._last_ns
