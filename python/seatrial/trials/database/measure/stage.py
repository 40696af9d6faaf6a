"""The databases of a run: prepared for each cell, measured, and removed afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from seatrial.errors import SeatrialError, StudyError, TargetError
from seatrial.machine.file import TrialFolder
from seatrial.machine.fingerprint import block_device_of
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.background import Background, NoBackground
from seatrial.measure.engine import Driver, SampleContext
from seatrial.measure.progress import Watcher
from seatrial.postgres.cluster import SocketFolder, make_own_socket_folder
from seatrial.postgres.row_content import load_content
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.study.seeds import seed_of
from seatrial.trials.database.measure import crash_sample
from seatrial.trials.database.measure.client_ceiling import client_ceiling
from seatrial.trials.database.measure.crash_sample import CrashTrials
from seatrial.trials.database.measure.driver_result import (
    DriverOptions,
    DriverResult,
    Endpoints,
    LoadFunction,
    ReplayFunction,
)
from seatrial.trials.database.measure.embedded import EmbeddedServers
from seatrial.trials.database.measure.existing_database import ExistingDatabase
from seatrial.trials.database.measure.existing_server import ExistingServer
from seatrial.trials.database.measure.pgbench_ceiling import FOLDER_BYTES_MAX
from seatrial.trials.database.measure.ready import ReadyServer, ServerProvider
from seatrial.trials.database.measure.sample import Parts, run_load, sample_of
from seatrial.trials.database.measure.server_session import ServerSession
from seatrial.trials.database.study.files import is_archive_folder
from seatrial.trials.database.study.workloads import (
    BUILTIN_SCRIPTS,
    OnDatabase,
    is_of_database,
    spec_of,
)
from seatrial.trials.replay.measure.row_comparison import RowComparison, rows_file

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of ours is made in it, for us alone
FREE_BYTES_MIN: Final = 512 << 20
"""A transaction takes about 35 bytes of log: 15 minutes at 15,000 per second."""


def choose_log_folder(trials: Sequence[Path], state: Path) -> tuple[Path, str]:
    """Return a folder for logs, and a warning if it is unsuitable; else empty.

    Writes there would be measured with the target, if it were on the same device.

    Args:
        trials: The directories under test.
        state: The folder of the undo journals: the first choice.
    """
    folders = [state, Path(tempfile.gettempdir()), MEMORY]
    for folder in folders:
        if (
            folder.is_dir()
            and _has_space(folder)
            and not any(_is_same_device(folder, trial) for trial in trials)
        ):
            return folder, ""
    return state, (
        f"pgbench's log is on the device under test ({state}): there is no space elsewhere."
    )


def _has_space(folder: Path) -> bool:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize >= FREE_BYTES_MIN and os.access(folder, os.W_OK)


def _is_same_device(folder: Path, other: Path) -> bool:
    """Return whether two folders are on one file system or one device."""
    if folder.stat().st_dev == other.stat().st_dev:
        return True
    device = block_device_of(folder)
    return bool(device) and device == block_device_of(other)


INVARIANT_HOLDS: Final = "invariant_holds"
"""Name among the driver's totals: 1 if the sums agree, else 0."""
_SUMS: Final = {
    "accounts": "SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts",
    "tellers": "SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers",
    "branches": "SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches",
    "history": "SELECT coalesce(sum(delta), 0) FROM pgbench_history",
}
_TABLES_OF_SCRIPT: Final = {
    "tpcb-like": ("accounts", "tellers", "branches", "history"),
    "simple-update": ("accounts", "history"),
}
"""The tables whose sums each of pgbench's own scripts keeps equal."""


def with_invariant(result: DriverResult, endpoints: Endpoints, script: str) -> DriverResult:
    """Add whether the sums of pgbench's tables agree in all databases.

    Every transaction of pgbench's ``tpcb-like`` adds one amount to an account, a teller and a
    branch, and records it in the history; so the four sums are equal at any time, whatever was lost
    or repaired in the storage below.
    Source: PostgreSQL's documentation of pgbench, "What Is the Transaction Actually Performed in
    pgbench?".

    Args:
        result: Result of the load.
        endpoints: The databases of a running server.
        script: The script; only pgbench's own are known.
    """
    tables = _TABLES_OF_SCRIPT.get(script)
    if tables is None:
        return result
    try:
        notes = [
            note
            for number in range(len(endpoints.addresses))
            for note in _sum_difference(endpoints, number, tables)
        ]
    except TargetError as error:
        # A server that cannot read its own tables has lost them.
        notes = [f"The sums of pgbench's tables cannot be read: {error.seen.rstrip('.')}."]
    return msgspec.structs.replace(
        result,
        reported=result.reported | {INVARIANT_HOLDS: float(not notes)},
        notes=[*result.notes, *notes],
    )


def _sum_difference(endpoints: Endpoints, number: int, tables: tuple[str, ...]) -> list[str]:
    """Return a sentence if the sums of one database differ.

    Raises:
        TargetError: when the server refuses or fails.
    """
    with ServerSession(endpoints, endpoints.addresses[number]) as session:
        rows = {
            name: session.connection.execute(_SUMS[name].encode()).fetchone() for name in tables
        }
    sums = {name: int(row[0]) for name, row in rows.items() if row}
    if len(set(sums.values())) <= 1:
        return []
    shown = ", ".join(f"{name} {total}" for name, total in sums.items())
    return [f"The sums of pgbench's tables differ: {shown}."]


REPLAY: Final = "replay"
SEED_MAX: Final = 1 << 31
_ServerKey = tuple[str, bool]
"""A target's label, and whether an existing database is used there."""


class Databases(Driver):
    """Provides a server for every cell of a database and measures it there.

    Args:
        plan: The plan of the run.
        journal: Records every change before it is made.
        log_folder: The preferred folder for the driver's logs; the journal's folder by default.
    """

    shrink_option = "--scale"

    def __init__(self, plan: Plan, journal: UndoJournal, log_folder: Path | None = None) -> None:
        super().__init__()
        self._plan = plan
        self._journal = journal
        self._preferred_log_folder = log_folder or journal.path.parent
        self._cells = [
            cell for cell in plan.cells if is_of_database(cell) and cell.kind != crash_sample.KIND
        ]
        self._crashes = CrashTrials(plan, journal)
        replays = sum(cell.kind == REPLAY for cell in self._cells)
        self._rows = RowComparison(replays * plan.study.rounds.max)
        self._hosts: dict[_ServerKey, ServerProvider] = {}
        self._logs: TrialFolder | None = None
        self._log_notes: list[str] = []
        self._sockets: SocketFolder | None = None
        self.play: ReplayFunction | None = None
        self.load: Callable[[Cell, int], LoadFunction] | None = None

    def open(self) -> Self:
        """Check everything that can be checked, and create a folder for the driver's logs.

        Raises:
            SeatrialError: with what is missing, refused or wrong.
        """
        self.check()
        self._open_logs()
        return self

    def check(self) -> None:
        """Check everything that can be checked before a run is stored.

        Raises:
            SeatrialError: with what is missing, refused or wrong.
        """
        for cell in self._cells:
            _require_files(cell)
        for key in dict.fromkeys(map(_server_key, self._cells)):
            host = self._host(key)
            host.check()
            self._hosts[key] = host
        self._crashes.check()

    def needed_bytes(self, label: str) -> int:
        """Return the space needed in a directory; 0 for one without databases."""
        host = self._hosts.get((label, False))
        own_bytes = host.needed_bytes() if host else 0
        return own_bytes + self._crashes.needed_bytes(label)

    def use(self, label: str, folder: TrialFolder) -> None:
        """Use the open trial folder of a directory for its servers."""
        host = self._hosts.get((label, False))
        if isinstance(host, EmbeddedServers):
            host.use(folder)
        self._crashes.use(label, folder)

    def prepare(self, watcher: Watcher) -> dict[str, SeatrialError]:
        """Load the initial data of the samples, once for all of them.

        Returns:
            Errors on targets whose databases are all optional, by label.

        Raises:
            SeatrialError: when a server does not start, or loading fails, on any other target.
        """
        errors = {}
        for (label, _), host in self._hosts.items():
            try:
                host.prepare(watcher)
            except SeatrialError as error:
                if not self._is_optional(label):
                    raise
                errors[label] = error
        return errors

    def _is_optional(self, label: str) -> bool:
        names = {cell.workload for cell in self._cells if cell.target == label}
        workloads = [workload for workload in self._plan.study.workloads if workload.label in names]
        return all(isinstance(workload, OnDatabase) and workload.optional for workload in workloads)

    def measure(self, cell: Cell, sample_context: SampleContext) -> Sample:
        """Measure one cell once.

        Args:
            cell: A database cell.
            sample_context: Round, position, watcher and background activity.

        Returns:
            The sample, not stored yet; ``interrupted`` in its status if the user ended it.

        Raises:
            KeyboardInterrupt: when the user ended it before any result.
            SeatrialError: when the server does not start or dies, or the driver fails.
        """
        round_number, background = sample_context.round_number, sample_context.background
        if cell.kind == crash_sample.KIND:
            return self._crashes.measure(cell, sample_context)
        spec = spec_of(cell.spec)
        host = self._hosts[_server_key(cell)]
        ceiling = client_ceiling(cell.kind, spec, host.binaries, self._socket_folder())
        with host.ready(spec) as ready, self._log_folder() as folder:
            options = DriverOptions(
                duration_s=cell.parsed.duration_s,
                seed=self._seed(round_number),
                slice_ms=cell.parsed.slice_ms,
                stall_threshold_ms=cell.parsed.stall_threshold_ms,
                folder=folder,
                play=self.play,
                load=self.load(cell, round_number) if self.load else None,
            )
            ready.notes += [*self._log_notes, *ceiling.notes]
            parts = run_load(
                ready,
                cell,
                spec,
                options,
                sample_context.watcher,
                background=background or NoBackground(),
            )
            if background and cell.parsed.fail:
                parts = _after_failure(parts, ready, cell, background)
            if cell.kind == REPLAY:
                initial, result, observed, increases = parts
                result = self._rows.with_content(result, cell, spec, ready.endpoints, round_number)
                parts = initial, result, observed, increases
        return sample_of(
            cell,
            ready,
            parts,
            sample_context,
            # It is that of one driver, not of several hosts.
            ceiling_per_s=None if self.play or self.load else ceiling.per_s,
        )

    def close(self) -> None:
        """Clean up."""
        self._crashes.close()
        for host in self._hosts.values():
            host.close()
        if self._sockets:
            self._journal.undo(self._sockets.entry)
        if self._logs:
            self._logs.remove()

    def _host(self, key: _ServerKey) -> ServerProvider:
        label, is_standing = key
        target = self._plan.target(label)
        specs = [spec_of(cell.spec) for cell in self._cells if _server_key(cell) == key]
        if is_standing:
            return ExistingDatabase(target, specs, self._journal)
        if target.holds_files:
            return EmbeddedServers(target, specs, self._journal)
        return ExistingServer(target, specs, self._journal)

    def _seed(self, round_number: int) -> int:
        """Return the seed of a round's transactions, the same for each cell and target."""
        return seed_of(self._plan.study.seed, "transactions", round_number) % SEED_MAX

    def _open_logs(self) -> None:
        """Create a folder for the driver's logs."""
        trials = [Path(target.path) for target in self._plan.targets if target.holds_files]
        folder, note = choose_log_folder(trials, self._preferred_log_folder)
        self._log_notes = [note] if note else []
        self._logs = TrialFolder(folder, self._journal.run_id, self._journal)
        self._logs.open(0, direct=False)

    def _socket_folder(self) -> Path | None:
        """Return a folder of the run whose path is short enough for sockets in it."""
        if self._logs is None:
            return None
        if len(os.fsencode(self._logs.path)) <= FOLDER_BYTES_MAX:
            return self._logs.path
        if self._sockets is None:
            self._sockets = make_own_socket_folder(self._journal)
        return self._sockets.path

    @contextmanager
    def _log_folder(self) -> Iterator[Path]:
        """Provide a folder for the logs of one sample, removed with them."""
        if self._logs is None:
            raise RuntimeError("open must be called before measure")
        # Its parent may have been removed with another part of the run.
        self._logs.open(0, direct=False)
        with tempfile.TemporaryDirectory(prefix="logs-", dir=self._logs.path) as folder:
            yield Path(folder)


def _server_key(cell: Cell) -> _ServerKey:
    return cell.target, spec_of(cell.spec).is_standing


def _after_failure(parts: Parts, ready: ReadyServer, cell: Cell, background: Background) -> Parts:
    """Wait until the array is repaired, and check the invariant of pgbench's tables."""
    initial, result, observed, increases = parts
    if result.interrupted or cell.kind != "pgbench":
        return parts
    background.settle()
    return (
        initial,
        with_invariant(result, ready.endpoints, spec_of(cell.spec).script),
        observed,
        increases,
    )


def _require_files(cell: Cell) -> None:
    """Check that the files of a cell exist.

    Raises:
        StudyError: when one does not.
        UsageError: when the rows to compare with cannot be read.
    """
    spec = spec_of(cell.spec)
    files = [spec.load.file] if spec.load.file else []
    if cell.kind == "pgbench" and spec.script not in BUILTIN_SCRIPTS:
        files.append(spec.script)
    if cell.kind in ("batch", "replay"):
        files.append(spec.script)
    if spec.replay is not None and spec.replay.compare_rows:
        files.append(spec.replay.compare_rows)
    for name in files:
        if not Path(name).is_file() and not is_archive_folder(Path(name)):
            raise StudyError(
                seen=f"The file {name} of workload {cell.workload!r} does not exist",
                cause="Its name is misspelled, or relative to another folder; the files of a "
                "shipped study are created first, as its first lines describe",
                next_step=f"See `ls -l {Path(name).parent}`",
            )
    if spec.replay is not None and not spec.replay.read_only:
        rows = rows_file(spec.replay)
        if rows.is_file():
            load_content(rows)
