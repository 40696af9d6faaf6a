"""Monitors a database trial: machine, device and server, second by second.

Two threads read: one the machine's counters, one the server's statistics and waits over its own
connection, so that a hanging server leaves no gap in the machine's data. The columns are those of
observe_series.py and observe_server.py; docs/method.md describes how each is computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.machine.fingerprint import (
    SYSTEM_GAUGES,
    ProcessTree,
    other_process_readings,
    system_readings,
)
from seatrial.machine.fingerprint.tree import LIVE, SystemTree
from seatrial.results.model import Series
from seatrial.trials.database.measure.observe_series import Readings
from seatrial.trials.database.measure.observe_server import (
    IO_PREFIX,
    MACHINE_COLUMNS,
    MOMENT_COLUMNS,
    REPORT_COLUMNS,
    ServerWatch,
)

if TYPE_CHECKING:
    from seatrial.postgres.connection import Address, Secret


class MachineWatch:
    """Reads counters of the data's machine, and of the processes of server and client.

    Args:
        data_folder: Path of the data; None if it is not on this machine, so that only the client is
            monitored.
        server_pid: The server's first process; None where it is not visible.
        client_pids: Parents of the processes that put the load on the server; what they use
            themselves counts as Seatrial's own.
        period_s: Interval between two readings.
        tree: The machine.

    Attributes:
        readings: The readings.
        notes: What could not be read and why, as sentences.
        cpu_ns: CPU time of the monitoring thread.
        other_processes: Activity of the rest of the machine from ``open`` to ``finish``: see
            ``other_process_readings``.
    """

    def __init__(
        self,
        data_folder: Path | None,
        server_pid: int | None,
        client_pids: Collection[int],
        *,
        period_s: float,
        tree: SystemTree = LIVE,
    ) -> None:
        self.readings = Readings(period_s)
        self.notes: list[str] = []
        self.cpu_ns = 0
        self.other_processes: dict[str, float] = {}
        self._data_folder = data_folder
        self._period_s = period_s
        self._tree = tree
        without = () if server_pid is None else (server_pid,)
        self._server = None if server_pid is None else ProcessTree(server_pid, tree=tree)
        self._clients = [
            ProcessTree(pid, tree=tree, without=without, counts_root=False) for pid in client_pids
        ]
        self._own_pids = [*client_pids, *without]
        # Their children are counted by the trees above: what remains is their own.
        self._own_times = [_ProcessTime(pid, tree) for pid in client_pids]
        self._session: _ProcessTime | None = None
        self._other_processes_before: dict[str, float] = {}
        self._began_s = 0.0

    def open(self, session_pid: int | None) -> None:
        """Take readings that need time, before the trial begins.

        Args:
            session_pid: The server process of the observer's session; None if unknown.
        """
        # A server in a container has different process numbers than on this machine.
        if self._server and session_pid is not None and self._server.has_child(session_pid):
            self._session = _ProcessTime(session_pid, self._tree)
        if self._data_folder is not None:
            self._other_processes_before = other_process_readings(self._own_pids, tree=self._tree)

    def begin(self, began_s: float) -> None:
        """Take the first reading; ``began_s`` is the trial's start on the monotonic clock."""
        self._began_s = began_s
        found = self._read()
        if self._data_folder is None:
            return
        if "device_reads" not in found:
            self.notes.append("No block device is visible under the data: its I/O is unknown")
        if "psi_io_some_ns" not in found:
            self.notes.append("This kernel does not report pressure (PSI)")

    def watch(self, ending: Event) -> None:
        """Read until the end is requested, and once more at the end."""
        boundary = 1
        while not ending.wait(max(0.0, boundary * self._period_s - self._now_s())):
            self._read()
            boundary = int(self._now_s() / self._period_s) + 1
        self._read()
        self.cpu_ns = time.thread_time_ns()

    def finish(self) -> None:
        """Add what the processes did until the server's last reports were read."""
        self.readings.add(self._now_s(), self._processes())
        if self._data_folder is None:
            return
        after = other_process_readings(self._own_pids, tree=self._tree)
        before = self._other_processes_before
        self.other_processes = {
            name: max(0.0, value - before[name]) for name, value in after.items() if name in before
        }

    def _read(self) -> dict[str, float]:
        at_s = self._now_s()
        found = self._processes()
        if self._data_folder is not None:
            found |= system_readings(self._data_folder, tree=self._tree)
        self.readings.add(at_s, found)
        return found

    def _processes(self) -> dict[str, float]:
        """Return the usage of server and clients up to now; absent where unknown."""
        found: dict[str, float] = {}
        session_ns = self._session.cpu_ns() if self._session else 0.0
        server = self._server.usage() if self._server else None
        if server is not None:
            # The observer's session is Seatrial's work, not the load's.
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
            found["seatrial_cpu_ns"] = session_ns + sum(own.cpu_ns() for own in self._own_times)
        return found

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s


class _ProcessTime:
    """CPU time of one process without its children; the last reading after it has ended.

    Args:
        pid: The process.
        tree: The machine.
    """

    def __init__(self, pid: int, tree: SystemTree) -> None:
        self._tree = ProcessTree(pid, tree=tree)
        self._last_ns = 0.0

    def cpu_ns(self) -> float:
        self._last_ns = max(self._last_ns, self._tree.root_ns() or 0.0)
        return self._last_ns


READ_BLOCK_BYTES: Final = 8192
"""The unit of reads, whatever the server's block size."""

_DEVICE_TOTALS_USED: Final = (
    "The server's own device reads cannot be monitored here: all reads of the device are used "
    "instead"
)
_NO_DEVICE: Final = "Page cache hits are unknown, since the device's reads cannot be monitored"


def reads(counters: Mapping[str, float], block_bytes: int) -> tuple[dict[str, float], list[str]]:
    """Return where blocks of 8 KiB were found, and caveats.

    ``reads_shared_buffers``: in the server's shared buffers. ``reads_device``: read by the kernel
    from the device. ``reads_page_cache``: read by the kernel from the page cache. The three add up
    to all blocks requested. Unknown ones are absent.

    The device's part is what the server's processes read from storage (``read_bytes`` of
    proc_pid_io(5), including ended backends), so other programs do not count. The server's control
    group would report the same, but only if it has its own. If these counters are not readable, the
    device's total reads are used.

    Read-ahead blurs the boundary: the kernel reads more than requested. If it is requested later,
    it counts correctly as the device's; if it never is, the device's part is too large. It never
    exceeds what the server requested from the kernel. Reads of the WAL and of other files that
    bypass the shared buffers are assumed to be few.

    Args:
        counters: Totals of a trial, by name.
        block_bytes: Size of the server's blocks.
    """
    if "shared_hits" not in counters or "shared_reads" not in counters:
        return {}, []
    in_unit = block_bytes / READ_BLOCK_BYTES
    session = counters["shared_reads"] * in_unit
    found = {"reads_shared_buffers": counters["shared_hits"] * in_unit}
    fetched_bytes = counters.get("server_read_bytes", counters.get("device_read_bytes"))
    if fetched_bytes is None:
        return found, [_NO_DEVICE]
    found["reads_device"] = min(session, fetched_bytes / READ_BLOCK_BYTES)
    found["reads_page_cache"] = session - found["reads_device"]
    return found, [] if "server_read_bytes" in counters else [_DEVICE_TOTALS_USED]


ANSWER_S_MAX: Final = 1.5
"""Maximum wait for the server's response at the end before the connection is cut."""
CUT_S_MAX: Final = 0.2
"""Time for a thread to notice that its connection was cut."""


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """The observations of a trial.

    Attributes:
        series: By second: the known columns of observe_series.py and observe_server.py, without
            those of pg_stat_io that are all zero.
        counters: Totals over the trial by name, unit last: of the machine (``machine_user_ns``,
            ``steal_ns``, ``psi_io_full_ns`` ... and ``counters_elapsed_ns``, the time in which they
            grew), of the device (``device_reads``, ``device_flush_ns`` ...), of processes
            (``server_cpu_ns``, ``server_delay_ns``, ``client_cpu_ns``, ``client_delay_ns``,
            ``seatrial_cpu_ns``, and of the rest ``other_process_readings``), of the server
            (``transactions_committed``, ``shared_hits``, ``wal_bytes``, ``checkpoints_requested``,
            ``io_normal_reads`` ...), of its reads (``reads``), and of the observer itself
            (``observer_cpu_ns``, ``observer_looks``: number of readings of the waits).
        waits: How often active clients were observed in a wait, by ``class:event`` in the server
            version's spelling (``IO:WALSync`` is ``IO:WalSync`` from 17 on); ``CPU`` for none.
        notes: What could not be read and why, as sentences.
        began_unix_s: When the series begins.
    """

    series: Series
    counters: dict[str, float]
    waits: dict[str, int]
    notes: list[str]
    began_unix_s: float


class Observer:
    """Monitors from ``start`` to ``stop``; what cannot be read is noted and is not an error.

    Args:
        address: Address of the server, with the database to connect to.
        secret: The password, if needed.
        data_folder: Path of the data; None if it is not on this machine: then no counters of this
            machine are attributed to the server.
        server_pid: The server's first process; None where it is not on this machine.
        client_pids: Parents of the processes that put the load on the server: for our own process
            (``os.getpid()``) all that it starts, except the server. What they use themselves counts
            as Seatrial's.
        databases: Databases whose transactions and blocks count; all if empty.
        period_s: Length of an entry of the series.
        waits_period_s: Interval between two readings of the waits.
    """

    def __init__(
        self,
        address: Address,
        *,
        secret: Secret | None = None,
        data_folder: Path | None,
        server_pid: int | None,
        client_pids: Collection[int] = (),
        databases: Collection[str] = (),
        period_s: float = 1.0,
        waits_period_s: float = 0.1,
    ) -> None:
        self._period_s = period_s
        self._server = ServerWatch(
            address,
            secret,
            databases=databases,
            period_s=period_s,
            waits_period_s=waits_period_s,
        )
        self._machine = MachineWatch(data_folder, server_pid, client_pids, period_s=period_s)
        self._ending = threading.Event()
        self._defects: list[str] = []
        self._began_s = self._began_unix_s = 0.0
        self._threads = [
            self._thread("machine", self._machine.watch),
            self._thread("server", self._server.watch),
        ]

    def start(self) -> None:
        """Take the first readings and start monitoring; to be called right before the load starts.

        It waits some seconds at most for an unresponsive server, and does not raise for it.
        """
        self._server.open()
        self._machine.open(self._server.session_pid)
        self._began_s, self._began_unix_s = time.monotonic(), time.time()
        self._server.begin(self._began_s)
        self._machine.begin(self._began_s)
        for thread in self._threads:
            thread.start()

    def stop(self) -> Observations:
        """Take the last readings; to be called right after the load has ended.

        Waits until the server's backends have reported what they did, at most 2 s.
        """
        ended_s = time.monotonic() - self._began_s
        self._ending.set()
        machine, server = self._threads
        server.join(ANSWER_S_MAX)
        notes = []
        if server.is_alive():
            self._server.disconnect()
            notes.append("The server did not answer the last monitoring queries in time")
        server.join(CUT_S_MAX)
        machine.join(CUT_S_MAX)
        self._machine.finish()
        return self._observed(ended_s, notes)

    def _observed(self, ended_s: float, notes: list[str]) -> Observations:
        """Combine the observations of both threads over ``ended_s`` seconds."""
        entries = int(ended_s / self._period_s + 0.5)
        totals = {
            **self._machine.readings.totals(),
            **self._server.moments.totals(),
            **self._server.reports.totals(),
            **self._machine.other_processes,
        }
        counters = {
            name: value
            for name, value in totals.items()
            if name not in SYSTEM_GAUGES and not _is_idle(name, [value])
        }
        if "machine_steal_ns" in counters:
            counters["steal_ns"] = counters.pop("machine_steal_ns")
            counters["counters_elapsed_ns"] = ended_s * 1e9
        by_source, reads_notes = reads(counters, self._server.block_bytes)
        counters |= by_source
        counters["observer_cpu_ns"] = float(self._machine.cpu_ns + self._server.cpu_ns)
        counters["observer_looks"] = float(self._server.waits.count)
        return Observations(
            series=Series(period_s=self._period_s, columns=self._columns(entries)),
            counters=counters,
            waits=dict(self._server.waits.by_event),
            notes=[
                *self._machine.notes,
                *self._server.notes,
                *reads_notes,
                *notes,
                *self._defects,
            ],
            began_unix_s=self._began_unix_s,
        )

    def _columns(self, entries: int) -> dict[str, list[float | None]]:
        """Return the columns of a series with the given number of entries."""
        columns = {
            **self._machine.readings.columns(entries, MACHINE_COLUMNS),
            **self._server.moments.columns(entries, MOMENT_COLUMNS),
            **self._server.reports.columns(entries, REPORT_COLUMNS),
            **self._server.waits.columns(entries),
        }
        return {name: column for name, column in columns.items() if not _is_idle(name, column)}

    def _thread(self, name: str, watch: Callable[[threading.Event], None]) -> threading.Thread:
        def run() -> None:
            try:
                watch(self._ending)
            except Exception as error:
                # An error of the observer must not end the trial.
                kind = type(error).__name__
                self._defects.append(
                    f"Monitoring of the {name} ended early because of a bug: {kind}"
                )

        return threading.Thread(target=run, name=f"seatrial-observe-{name}", daemon=True)


def _is_idle(name: str, values: Sequence[float | None]) -> bool:
    """Return whether a column of pg_stat_io is all zero."""
    return name.startswith(IO_PREFIX) and not any(values)
