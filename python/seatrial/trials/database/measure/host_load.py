"""What one of several hosts does of a sample: pgbench, counted from an instant of its clock on.

pgbench cannot be told when to begin: it connects its clients, its threads wait for each other, and
it begins. So it is started as soon as the host is given the instant, and loads the server by then;
what ends before the instant is not counted. Its log has the time of day when it was started, and
counts on by the monotonic clock from there (``epoch_shift`` of src/bin/pgbench/pgbench.c, since
version 14), so that a clock that is set meanwhile moves no transaction.
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
from seatrial.machine.undo import UndoJournal
from seatrial.measure.progress import SilentWatcher
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.connection import Address, Secret, connect
from seatrial.trials.database.measure.drive import drive
from seatrial.trials.database.measure.driver_result import DriverOptions, DriverResult, Endpoints
from seatrial.trials.database.measure.processes import Crowd
from seatrial.trials.database.study.workloads import DatabaseSpec
from seatrial.units import NS_PER_MS, NS_PER_S

STEP_NS_MIN: Final = NS_PER_MS
"""A time of day that moved by less against the monotonic clock was slewed, not set."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one host loaded.

    Attributes:
        result: Of its pgbench; slices count from the agreed start, and what ended before is in the
            first one.
        first_ns: When all of its clients loaded the server, after the agreed start; negative where
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
        options: Of the driver; folder and start are put in here.
        run_id: Of this host's part of the run.
        script: Content of the user's script; None for one of pgbench's or ours.
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
        self._crowd = Crowd()

    def prepare(self) -> str:
        """Connect to every database once; return the version of pgbench.

        Raises:
            TargetError: when there is no pgbench, or the server does not answer.
        """
        for address in self._addresses:
            connect(address, secret=self._secret).close()
        return self._binaries().version_text

    def run(self, start_at_ns: int) -> Part:
        """Load the databases, to be counted from an instant of this host's monotonic clock on.

        Raises:
            TargetError: when pgbench fails.
        """
        place = Path(tempfile.gettempdir())
        with contextlib.ExitStack() as undo:
            journal = undo.enter_context(UndoJournal(self._run_id))
            folder = TrialFolder(place, self._run_id, journal)
            folder.open(0, direct=False)
            undo.callback(folder.remove)
            logs = Path(undo.enter_context(tempfile.TemporaryDirectory(dir=folder.path)))
            return self._loaded(start_at_ns, logs)

    def _loaded(self, start_at_ns: int, folder: Path) -> Part:
        spec = self._spec
        if self._script is not None:
            script = folder / Path(spec.script).name
            script.write_text(self._script, encoding="utf-8")
            spec = msgspec.structs.replace(spec, script=str(script))
        endpoints = Endpoints(
            addresses=self._addresses, secret=self._secret, binaries=self._binaries()
        )
        ahead_ns = _wall_ahead_ns()
        early_ns = start_at_ns - time.monotonic_ns()
        options = msgspec.structs.replace(
            self._options,
            duration_s=self._options.duration_s + min(max(0.0, early_ns / NS_PER_S), START_DELAY_S),
            folder=folder,
            start_unix_ns=start_at_ns + ahead_ns,
            crowd=self._crowd,
        )
        result = drive(self._kind, spec, endpoints, options, SilentWatcher())
        step_ns = _wall_ahead_ns() - ahead_ns
        if abs(step_ns) >= STEP_NS_MIN:
            note = f"The time of day was set by {step_ns / 1e9:+.3f} s while pgbench ran."
            result = msgspec.structs.replace(result, notes=[*result.notes, note])
        return Part(
            result=result, first_ns=self._first_ns(result, start_at_ns + ahead_ns, early_ns)
        )

    def _first_ns(self, result: DriverResult, start_unix_ns: int, early_ns: int) -> int:
        """Return when all clients loaded the server, after the start.

        With a limited rate the first transaction may be due long after the clients are connected.
        """
        begun_ns: list[int] = []
        if result.first_start_unix_us is not None:
            begun_ns.append(result.first_start_unix_us * 1000 - start_unix_ns)
        if self._spec.rate_per_s is not None or not begun_ns:
            took_ms = [v for name, v in result.reported.items() if name.startswith("connect_ms")]
            begun_ns += [round(max(took_ms) * NS_PER_MS) - early_ns] if took_ms else []
        return min(begun_ns, default=0)

    def stop(self) -> None:
        """End it early; what completed is kept. With --time an alarm ends pgbench."""
        self._crowd.signal(signal.SIGALRM)

    def _binaries(self) -> Binaries:
        return find_binaries(Path(self._pg_bin) if self._pg_bin else None)


def _wall_ahead_ns() -> int:
    """Return how far the time of day is ahead of the monotonic clock."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - (before_ns + time.monotonic_ns()) // 2
