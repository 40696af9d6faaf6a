"""The crash trials of a run, one for each cell; each crash becomes a sample."""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from seatrial import _core
from seatrial.errors import TargetError
from seatrial.machine.file import TrialFolder
from seatrial.machine.undo_journal import UndoJournal
from seatrial.measure.engine import SampleContext
from seatrial.measure.recorder import SystemCounters
from seatrial.measure.requests import Request, timeline_of
from seatrial.postgres.binaries import Binaries, find_binaries
from seatrial.postgres.server_processes import end_server
from seatrial.postgres.settings import check_settings
from seatrial.results.model import DatabaseRecord, OperationResult, Outcome, Sample, Timeline
from seatrial.study.cell import Cell
from seatrial.study.model import Plan
from seatrial.study.seeds import seed_of
from seatrial.trials.database.measure.crash import (
    DATA_FOLDER,
    AcknowledgedTransaction,
    CrashResult,
    CrashTrial,
    drive_bytes,
)
from seatrial.trials.database.measure.power_cut import require_cuttable
from seatrial.trials.database.study.cost import data_bytes
from seatrial.trials.database.study.workloads import DatabaseSpec, spec_of
from seatrial.units import NS_PER_MS

KIND: Final = "crash"
ENGINE: Final = "ledger"
OPERATION: Final = "transaction"

CLUSTER_BYTES: Final = 1 << 30
"""A server with its WAL, and a ledger that grows by 100 bytes a transaction."""


class CrashTrials:
    """Crashes the servers of a run's cells of kind ``crash``.

    Args:
        plan: The plan of the run.
        journal: Records every change before it is made.
    """

    def __init__(self, plan: Plan, journal: UndoJournal) -> None:
        self._plan = plan
        self._journal = journal
        self._cells = [cell for cell in plan.cells if cell.kind == KIND]
        self._binaries: dict[str, Binaries] = {}
        self._folders: dict[str, TrialFolder] = {}
        self._trials: dict[str, CrashTrial] = {}

    def check(self) -> None:
        """Find the programs, and check what can be checked in advance.

        Raises:
            TargetError: when there is no PostgreSQL, or power cuts are not possible here.
            UsageError: when a setting is invalid.
        """
        for cell in self._cells:
            spec = spec_of(cell.spec)
            self._binaries[cell.target] = find_binaries(self._plan.target(cell.target).pg_bin)
            check_settings(spec.settings)
            if spec.power_cut != "none":
                require_cuttable()

    def needed_bytes(self, label: str) -> int:
        """Return the space needed in a directory; 0 for one without crash trials."""
        return sum(_needed_bytes(spec_of(cell.spec)) for cell in self._of(label))

    def use(self, label: str, folder: TrialFolder) -> None:
        """Use the open trial folder of a directory for its servers.

        A server left running there by a killed run is ended; its data is useless, as the list of
        acknowledged transactions is lost.
        """
        self._folders[label] = folder
        for left in folder.files():
            if left.is_dir():
                # With power cuts, the data is one folder below.
                for data_folder in (left, left / DATA_FOLDER):
                    end_server(data_folder)

    def measure(self, cell: Cell, sample_context: SampleContext) -> Sample:
        """Crash the server of a cell once.

        Args:
            cell: A cell of kind ``crash``.
            sample_context: Round, position and watcher.

        Returns:
            The sample, not stored yet.

        Raises:
            KeyboardInterrupt: when the user ended it.
            SeatrialError: when a server cannot be created or started, or died before it was killed.
        """
        watcher = sample_context.watcher
        trial = self._trials.get(cell.key)
        if trial is None:
            watcher.step(f"Creating a server for the crash trial on {cell.target}")
            trial = self._trials[cell.key] = self._trial(cell, sample_context.round_number)
        system = SystemCounters(trial.data_folder)
        crashed = trial.crash(cell.parsed.duration_s, watcher)
        increases = system.grown() if crashed.recovered else {}
        if not crashed.recovered:
            del self._trials[cell.key]
            trial.close()
        _require_work(crashed)
        return self._sample(cell, sample_context, crashed, increases)

    def close(self) -> None:
        """Stop all servers and clean up."""
        for trial in self._trials.values():
            trial.close()
        self._trials.clear()

    def _of(self, label: str) -> list[Cell]:
        return [cell for cell in self._cells if cell.target == label]

    def _trial(self, cell: Cell, round_number: int) -> CrashTrial:
        number = self._cells.index(cell)
        seed = seed_of(self._plan.study.seed, cell.key, round_number)
        return CrashTrial(
            self._folders[cell.target].path,
            # A resumed run must not reuse a mount left by a killed one.
            f"crash-{number}-{secrets.token_hex(4)}",
            spec_of(cell.spec),
            binaries=self._binaries[cell.target],
            journal=self._journal,
            seed=seed,
        )

    def _sample(
        self,
        cell: Cell,
        sample_context: SampleContext,
        crashed: CrashResult,
        increases: dict[str, float],
    ) -> Sample:
        load = crashed.load
        completed, in_flight = len(load.answers), load.cut_off
        response = _core.Histogram.of([answer.took_ns for answer in load.answers])
        return Sample(
            cell=cell,
            round=sample_context.round_number,
            position=sample_context.position,
            started_at=crashed.began_s,
            duration_s=crashed.lasted_s,
            engine=ENGINE,
            engine_reason="each transaction is noted as it is sent and as it is acknowledged",
            outcome=Outcome(
                offered=completed + load.failed + in_flight,
                completed=completed,
                failed=load.failed,
                late_skipped=0,
                in_flight_at_end=in_flight,
            ),
            operations={
                OPERATION: OperationResult(
                    completed=completed,
                    failed=load.failed,
                    transferred_bytes=0,
                    response=response.encode(),
                )
            },
            timeline=_timeline(load.answers, cell.parsed.slice_ms * NS_PER_MS),
            counters={**increases, **_counters(crashed)},
            database=self._record(cell, crashed),
        )

    def _record(self, cell: Cell, crashed: CrashResult) -> DatabaseRecord:
        refusals = [f"The server refused: {words}" for words in crashed.load.refusals]
        faults = [f"pg_amcheck found: {crashed.faults}"] if crashed.faults else []
        return DatabaseRecord(
            server=crashed.server,
            binaries=self._binaries[cell.target].origin,
            settings=crashed.settings,
            start_state="warm",
            database_bytes=crashed.database_bytes,
            notes=[*crashed.notes, *refusals, *faults],
        )


def _needed_bytes(spec: DatabaseSpec) -> int:
    if spec.power_cut == "none":
        # Each row may exist twice.
        return CLUSTER_BYTES + 2 * data_bytes(spec.load)
    # A lying drive stores its earlier content in addition.
    return drive_bytes(spec) * (2 if spec.power_cut == "lying" else 1)


def _counters(crashed: CrashResult) -> dict[str, float]:
    """Return the outcome of a crash by the names used in its finding and table."""
    verdict = crashed.verdict
    counters = {
        f"crash_{name}": float(count) for name, count in msgspec.structs.asdict(verdict).items()
    }
    counters |= {
        "crash_came_back": float(crashed.recovered),
        "crash_recovery_s": crashed.recovery_s,
    }
    if crashed.faults is not None:
        counters["crash_index_faults"] = float(bool(crashed.faults))
    return counters


def _timeline(answers: list[AcknowledgedTransaction], slice_ns: int) -> Timeline:
    requests = (
        Request(OPERATION, answer.at_ns - answer.took_ns, answer.at_ns) for answer in answers
    )
    return timeline_of(requests, slice_ns)


def _require_work(crashed: CrashResult) -> None:
    """Check that there were transactions: a crash without any proves nothing.

    Raises:
        TargetError: when there were none.
    """
    if crashed.load.answers or not crashed.load.refusals:
        return
    words = crashed.load.refusals[0]
    raise TargetError(
        seen=f"The server acknowledged none of the trial's transactions: {words}",
        cause="A setting prevents writes, or its file system is full",
        next_step="Check the settings of the trial, and the space with `df`",
    )
