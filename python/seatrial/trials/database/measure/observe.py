"""Watching a trial of a database: machine, device and server, second by second.

Two threads read: one the machine's own counters, one the server's statistics and waits over a
connection of its own. So a server that hangs leaves no gap in what is known of the machine.
The columns are those of observe_columns.py and observe_waits.py; docs/method.md says how each is
come by.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.machine import fingerprint as context
from seatrial.results.model import Series
from seatrial.trials.database.measure.observe_columns import (
    IO_PREFIX,
    MACHINE_COLUMNS,
    MOMENT_COLUMNS,
    REPORT_COLUMNS,
)
from seatrial.trials.database.measure.observe_machine import MachineWatch
from seatrial.trials.database.measure.observe_reads import reads
from seatrial.trials.database.measure.observe_server import ServerWatch

if TYPE_CHECKING:
    from seatrial.postgres.connection import Address, Secret

END_S_MAX: Final = 1.5
"""How long the end waits for a server to answer before the line is cut."""
CUT_S_MAX: Final = 0.2
"""How long a thread whose line was cut has to notice it."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a trial.

    Attributes:
        series: By second: the columns of observe_columns.py and observe_waits.py, of those of which
            anything is known; without those of pg_stat_io in which nothing happened.
        counters: Totals over the trial by name, unit last: of the machine (``machine_user_ns``,
            ``steal_ns``, ``psi_io_full_ns`` ... and ``surroundings_ns``, the time in which they
            grew), of the device (``device_reads``, ``device_flush_ns`` ...), of processes
            (``server_cpu_ns``, ``server_delay_ns``, ``client_cpu_ns``, ``client_delay_ns``,
            ``seatrial_cpu_ns``, and of the rest ``context.bystanders``), of the server
            (``transactions_committed``, ``shared_hits``, ``wal_bytes``, ``checkpoints_requested``,
            ``io_normal_reads`` ...), of its reads (observe_reads.py), and of the observer itself
            (``observer_cpu_ns``, ``observer_looks``: how often the waits were looked at).
        waits: How often active clients were seen in a wait, by ``class:event`` as the server's
            version has it (``IO:WALSync`` is ``IO:WalSync`` from 17 on); ``CPU`` for none.
        notes: What could not be read and why, as sentences.
    """

    series: Series
    counters: dict[str, float]
    waits: dict[str, int]
    notes: list[str]


class Observer:
    """Watches from ``start`` to ``stop``; what cannot be read is noted and hinders nobody.

    Args:
        address: Where the server listens; the database named there is connected to.
        secret: The password, if the server needs one.
        place: Where the data lie; None when that is not on this machine: then nothing of this
            machine is told as the server's.
        server_pid: The server's first process; None where it is not on this machine.
        client_pids: Processes below which are those that put the load on: of our own
            (``os.getpid()``) all that it starts, but for the server. What they use themselves
            counts as Seatrial's.
        databases: Whose transactions and blocks count; those of all databases if empty.
        period_s: Length of an entry of the series.
        waits_period_s: Between two looks at what clients wait for.
    """

    def __init__(
        self,
        address: Address,
        *,
        secret: Secret | None = None,
        place: Path | None,
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
        self._machine = MachineWatch(place, server_pid, client_pids, period_s=period_s)
        self._ending = threading.Event()
        self._defects: list[str] = []
        self._began_s = 0.0
        self._threads = [
            self._thread("machine", self._machine.watch),
            self._thread("server", self._server.watch),
        ]

    def start(self) -> None:
        """Take the first readings and begin to watch; to be called right before the load starts.

        Waits at most some seconds for a server that does not answer, and does not raise for it.
        """
        self._server.open()
        self._machine.open(self._server.session_pid)
        self._began_s = time.monotonic()
        self._server.begin(self._began_s)
        self._machine.begin(self._began_s)
        for thread in self._threads:
            thread.start()

    def stop(self) -> Observed:
        """Take the last readings; to be called right after the load has ended.

        Waits until the server's backends have reported what they did, at most 2 s.
        """
        ended_s = time.monotonic() - self._began_s
        self._ending.set()
        machine, server = self._threads
        server.join(END_S_MAX)
        notes = []
        if server.is_alive():
            self._server.hang_up()
            notes.append("The server did not answer the observer's last queries in time")
        server.join(CUT_S_MAX)
        machine.join(CUT_S_MAX)
        self._machine.finish()
        return self._observed(ended_s, notes)

    def _observed(self, ended_s: float, notes: list[str]) -> Observed:
        """Put together what both threads saw in ``ended_s`` seconds."""
        entries = int(ended_s / self._period_s + 0.5)
        totals = {
            **self._machine.readings.totals(),
            **self._server.moments.totals(),
            **self._server.reports.totals(),
            **self._machine.bystanders,
        }
        counters = {
            name: value
            for name, value in totals.items()
            if name not in context.SURROUNDINGS_GAUGES and not _is_idle(name, [value])
        }
        if "machine_steal_ns" in counters:
            counters["steal_ns"] = counters.pop("machine_steal_ns")
            counters["surroundings_ns"] = ended_s * 1e9
        by_place, reads_notes = reads(counters, self._server.block_bytes)
        counters |= by_place
        counters["observer_cpu_ns"] = float(self._machine.cpu_ns + self._server.cpu_ns)
        counters["observer_looks"] = float(self._server.waits.looks)
        return Observed(
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
        )

    def _columns(self, entries: int) -> dict[str, list[float | None]]:
        """Return the columns of a series of so many entries."""
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
                # A trial is worth more than its observer.
                kind = type(error).__name__
                self._defects.append(f"Watching the {name} ended early, by a defect: {kind}")

        return threading.Thread(target=run, name=f"seatrial-observe-{name}", daemon=True)


def _is_idle(name: str, values: Sequence[float | None]) -> bool:
    """Whether it tells of one of the server's many kinds of I/O, and there was none of it."""
    return name.startswith(IO_PREFIX) and not any(values)
