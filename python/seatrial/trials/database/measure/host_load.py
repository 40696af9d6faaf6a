"""The load of one of several hosts: pgbench, counted from an instant of the host's clock on.

pgbench has no option for its start: it connects its clients, its threads wait for each other, and
it begins. So it is started as soon as the host gets the instant, and loads the server by then;
transactions that end before are not counted. Its log has the time of day of its start, and
continues by the monotonic clock (``epoch_shift`` of src/bin/pgbench/pgbench.c, since
version 14), so that setting the clock meanwhile has no effect.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from seatrial.fleet.group import START_DELAY_S
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.progress import SilentWatcher
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.connection import Address, Secret, connect
from seatrial.trials.database.measure.client_processes import ProcessGroup
from seatrial.trials.database.measure.drive import drive
from seatrial.trials.database.measure.driver_result import DriverOptions, DriverResult, Endpoints
from seatrial.trials.database.study.workloads import DatabaseSpec
from seatrial.units import NS_PER_MS, NS_PER_S

STEP_NS_MIN: Final = NS_PER_MS
"""Smaller steps of the time of day against the monotonic clock are slewing."""


class HostResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one host.

    Attributes:
        result: Result of its pgbench; slices count from the agreed start, and transactions that
            ended before are in the first one.
        first_ns: When all of its clients loaded the server, after the agreed start; negative if
            that was before.
    """

    result: DriverResult
    first_ns: int


class HostLoad:
    """The load of one host (``seatrial.fleet.host.Work``).

    Args:
        kind: Kind of the cell: ``pgbench`` or ``telemetry``.
        spec: Specification of the cell; its clients are those of each host.
        addresses: The databases.
        secret: The password, if any.
        pg_bin: Folder of the programs; empty for the newest that are installed.
        options: Options of the driver; folder and start are added here.
        run_id: Identifier of this host's part of the run.
        script: Content of the user's script; None for a built-in one.
    """

    def __init__(
        self,
        *,
        kind: str,
        spec: DatabaseSpec,
        addresses: list[Address],
        secret: Secret | None,
        pg_bin: str,
        options: DriverOptions,
        run_id: str,
        script: str | None,
    ) -> None:
        self._kind = kind
        self._spec = spec
        self._addresses = addresses
        self._secret = secret
        self._pg_bin = pg_bin
        self._options = options
        self._run_id = run_id
        self._script = script
        self._processes = ProcessGroup()

    def prepare(self) -> str:
        """Connect to every database once; return the version of pgbench.

        Raises:
            TargetError: when there is no pgbench, or the server does not answer.
        """
        for address in self._addresses:
            connect(address, secret=self._secret).close()
        return self._binaries().version_text

    def run(self, start_at_ns: int) -> HostResult:
        """Load the databases, to be counted from an instant of this host's monotonic clock on.

        Raises:
            TargetError: when pgbench fails.
        """
        parent = Path(tempfile.gettempdir())
        with contextlib.ExitStack() as undo:
            journal = undo.enter_context(UndoJournal(self._run_id))
            folder = TrialFolder(parent, self._run_id, journal)
            folder.open(0, direct=False)
            undo.callback(folder.remove)
            logs = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=folder.path)))
            return self._loaded(start_at_ns, logs)

    def _loaded(self, start_at_ns: int, folder: Path) -> HostResult:
        spec = self._spec
        if self._script is not None:
            script = folder / Path(spec.script).name
            script.write_text(self._script, encoding="utf-8")
            spec = msgspec.structs.replace(spec, script=str(script))
        endpoints = Endpoints(
            addresses=self._addresses, secret=self._secret, binaries=self._binaries()
        )
        ahead_ns = _clock_difference_ns()
        early_ns = start_at_ns - time.monotonic_ns()
        options = msgspec.structs.replace(
            self._options,
            duration_s=self._options.duration_s + min(max(0.0, early_ns / NS_PER_S), START_DELAY_S),
            folder=folder,
            start_unix_ns=start_at_ns + ahead_ns,
            processes=self._processes,
        )
        result = drive(self._kind, spec, endpoints, options, SilentWatcher())
        step_ns = _clock_difference_ns() - ahead_ns
        if abs(step_ns) >= STEP_NS_MIN:
            note = f"The time of day was set by {step_ns / 1e9:+.3f} s while pgbench ran."
            result = msgspec.structs.replace(result, notes=[*result.notes, note])
        return HostResult(
            result=result, first_ns=self._first_ns(result, start_at_ns + ahead_ns, early_ns)
        )

    def _first_ns(self, result: DriverResult, start_unix_ns: int, early_ns: int) -> int:
        """Return when all clients loaded the server, after the start.

        With a limited rate the first transaction may be due long after the clients are connected.
        """
        starts_ns: list[int] = []
        if result.first_start_unix_us is not None:
            starts_ns.append(result.first_start_unix_us * 1000 - start_unix_ns)
        if self._spec.rate_per_s is not None or not starts_ns:
            took_ms = [v for name, v in result.reported.items() if name.startswith("connect_ms")]
            starts_ns += [round(max(took_ms) * NS_PER_MS) - early_ns] if took_ms else []
        return min(starts_ns, default=0)

    def stop(self) -> None:
        """End it early; what completed is kept. With --time an alarm ends pgbench."""
        self._processes.signal(signal.SIGALRM)

    def _binaries(self) -> Binaries:
        return find_binaries(self._pg_bin)


def _clock_difference_ns() -> int:
    """Return how far the time of day is ahead of the monotonic clock."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - (before_ns + time.monotonic_ns()) // 2
