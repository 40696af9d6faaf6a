"""The databases of a run: made ready for each of its cells, measured, all put away after."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from seatrial.errors import SeatrialError, StudyError
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo import UndoJournal
from seatrial.measure.background import Background, Nothing
from seatrial.measure.driver import Occasion
from seatrial.measure.progress import Watcher
from seatrial.postgres.row_file import load_content
from seatrial.postgres.socket_folder import SocketFolder, make_own_socket_folder
from seatrial.results.model import Sample
from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.trials.database.measure import crash_sample
from seatrial.trials.database.measure.crash_sample import CrashTrials
from seatrial.trials.database.measure.driver_result import DriverOptions
from seatrial.trials.database.measure.embedded import Embedded
from seatrial.trials.database.measure.existing import Existing
from seatrial.trials.database.measure.invariant import with_invariant
from seatrial.trials.database.measure.logs import choose_place
from seatrial.trials.database.measure.ready import Host, Ready
from seatrial.trials.database.measure.sample import Parts, measured, sample_of
from seatrial.trials.database.measure.standing import StandingDatabase
from seatrial.trials.database.study.files import is_archive_folder
from seatrial.trials.database.study.workloads import (
    BUILTIN_SCRIPTS,
    OnDatabase,
    is_of_database,
    spec_of,
)
from seatrial.trials.replay.measure.null_server import FOLDER_BYTES_MAX
from seatrial.trials.replay.measure.own_ceiling import own_ceiling
from seatrial.trials.replay.measure.row_comparison import RowComparison, rows_file

REPLAY: Final = "replay"
SEED_MAX: Final = 1 << 31
_Place = tuple[str, bool]
"""A target's label, and whether a database there is taken as it is."""


class Databases:
    """Provides a server for every cell of a database and measures it there (``Driver``).

    Args:
        plan: What the run measures.
        journal: Where everything is recorded before it is made.
        side: The first choice of a place for the driver's logs; the journal's folder unless given.
    """

    shrink_option = "--scale"

    def __init__(self, plan: Plan, journal: UndoJournal, side: Path | None = None) -> None:
        self._plan = plan
        self._journal = journal
        self._side = side or journal.path.parent
        self._cells = [
            cell for cell in plan.cells if is_of_database(cell) and cell.kind != crash_sample.KIND
        ]
        self._crashes = CrashTrials(plan, journal)
        replays = sum(cell.kind == REPLAY for cell in self._cells)
        self._rows = RowComparison(replays * plan.study.rounds.max)
        self._hosts: dict[_Place, Host] = {}
        self._logs: TrialFolder | None = None
        self._log_notes: list[str] = []
        self._sockets: SocketFolder | None = None

    def open(self) -> Self:
        """Check everything that can be checked, and make a folder for the driver's logs.

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
        for place in dict.fromkeys(map(_place, self._cells)):
            host = self._host(place)
            host.check()
            self._hosts[place] = host
        self._crashes.check()

    def needed_bytes(self, label: str) -> int:
        """Return what a directory must have room for; 0 for one without databases."""
        host = self._hosts.get((label, False))
        own_bytes = host.needed_bytes() if host else 0
        return own_bytes + self._crashes.needed_bytes(label)

    def use(self, label: str, folder: TrialFolder) -> None:
        """Have the servers of a directory work in its trial folder, which is open."""
        host = self._hosts.get((label, False))
        if isinstance(host, Embedded):
            host.use(folder)
        self._crashes.use(label, folder)

    def prepare(self, watcher: Watcher) -> dict[str, SeatrialError]:
        """Load what the samples begin with, once for all of them.

        Returns:
            What went wrong on targets all of whose databases are optional, by label.

        Raises:
            SeatrialError: when a server does not start, or loading fails, on any other target.
        """
        impossible = {}
        for (label, _), host in self._hosts.items():
            try:
                host.prepare(watcher)
            except SeatrialError as error:
                if not self._is_optional(label):
                    raise
                impossible[label] = error
        return impossible

    def _is_optional(self, label: str) -> bool:
        own = {cell.workload for cell in self._cells if cell.target == label}
        workloads = [each for each in self._plan.study.workloads if each.label in own]
        return all(isinstance(each, OnDatabase) and each.optional for each in workloads)

    def measure(self, cell: Cell, occasion: Occasion) -> Sample:
        """Measure one cell once.

        Args:
            cell: Of a database.
            occasion: Round and position, who watches, and what goes on meanwhile.

        Returns:
            The sample, not stored yet; ``interrupted`` in its status if the user ended it.

        Raises:
            KeyboardInterrupt: when the user ended it before there was anything to keep.
            SeatrialError: when the server does not start or dies, or the driver gives up.
        """
        round_number, position = occasion.round_number, occasion.position
        watcher, background = occasion.watcher, occasion.background
        if cell.kind == crash_sample.KIND:
            return self._crashes.measure(cell, round_number, position, watcher)
        spec = spec_of(cell.spec)
        host = self._hosts[_place(cell)]
        ceiling = own_ceiling(cell.kind, spec, host.binaries, self._place_of_sockets())
        with host.ready(spec) as ready, self._log_folder() as folder:
            options = DriverOptions(
                duration_s=float(cell.spec["limit"]["duration_s"]),
                seed=self._seed(round_number),
                slice_ms=cell.spec["slice_ms"],
                stall_threshold_ms=cell.spec["stall_threshold_ms"],
                folder=folder,
            )
            ready.notes += [*self._log_notes, *ceiling.notes]
            parts = measured(
                ready, cell, spec, options, watcher, background=background or Nothing()
            )
            if background and cell.spec.get("fail"):
                parts = _after_failure(parts, ready, cell, background)
            if cell.kind == REPLAY:
                begun, result, observed, grown = parts
                result = self._rows.with_content(result, cell, spec, ready.endpoints, round_number)
                parts = begun, result, observed, grown
        return sample_of(
            cell,
            ready,
            parts,
            round_number=round_number,
            position=position,
            ceiling_per_s=ceiling.per_s,
        )

    def close(self) -> None:
        """Put everything away."""
        self._crashes.close()
        for host in self._hosts.values():
            host.close()
        if self._sockets:
            self._journal.undo(self._sockets.entry)
        if self._logs:
            self._logs.remove()

    def _host(self, place: _Place) -> Host:
        label, is_standing = place
        target = self._plan.target(label)
        specs = [spec_of(cell.spec) for cell in self._cells if _place(cell) == place]
        if is_standing:
            return StandingDatabase(target, specs, self._journal)
        if target.holds_files:
            return Embedded(target, specs, self._journal)
        return Existing(target, specs, self._journal)

    def _seed(self, round_number: int) -> int:
        """Return the seed of a round's transactions: each cell and target gets the same ones."""
        text = f"{self._plan.study.seed} transactions {round_number}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") % SEED_MAX

    def _open_logs(self) -> None:
        """Make a folder for the driver's logs."""
        trials = [Path(target.path) for target in self._plan.targets if target.holds_files]
        place, note = choose_place(trials, self._side)
        self._log_notes = [note] if note else []
        self._logs = TrialFolder(place, self._journal.run_id, self._journal)
        self._logs.open(0, direct=False)

    def _place_of_sockets(self) -> Path | None:
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
        """Give a folder for the logs of one sample, which goes with them."""
        if self._logs is None:
            raise RuntimeError("open comes before measure")
        # Its folder may have gone with something else of the run that lay in it.
        self._logs.open(0, direct=False)
        with tempfile.TemporaryDirectory(prefix="logs-", dir=self._logs.path) as folder:
            yield Path(folder)


def _place(cell: Cell) -> _Place:
    return cell.target, spec_of(cell.spec).is_standing


def _after_failure(parts: Parts, ready: Ready, cell: Cell, background: Background) -> Parts:
    """Wait until the array is whole again, and check what pgbench's tables say of themselves."""
    begun, result, observed, grown = parts
    if result.interrupted or cell.kind != "pgbench":
        return parts
    background.settle()
    return (
        begun,
        with_invariant(result, ready.endpoints, spec_of(cell.spec).script),
        observed,
        grown,
    )


def _require_files(cell: Cell) -> None:
    """Check that the files which a cell names are there.

    Raises:
        StudyError: when one is not.
        UsageError: when the rows that a replay is to be held against cannot be read.
    """
    spec = spec_of(cell.spec)
    named = [spec.load.file] if spec.load.file else []
    if cell.kind == "pgbench" and spec.script not in BUILTIN_SCRIPTS:
        named.append(spec.script)
    if cell.kind in ("batch", "replay"):
        named.append(spec.script)
    if spec.replay is not None and spec.replay.compare_rows:
        named.append(spec.replay.compare_rows)
    for name in named:
        if not Path(name).is_file() and not is_archive_folder(Path(name)):
            raise StudyError(
                seen=f"The file {name} of workload {cell.workload!r} does not exist",
                cause="Its name is mistyped, or relative to another folder than this one; what a "
                "shipped study replays is made first, as its first lines tell",
                next_step=f"See `ls -l {Path(name).parent}`",
            )
    if spec.replay is not None and not spec.replay.read_only:
        rows = rows_file(spec.replay)
        if rows.is_file():
            load_content(rows)
