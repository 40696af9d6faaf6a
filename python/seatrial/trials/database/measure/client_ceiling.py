"""The maximum rate of a cell's client processes: pgbench, or the driver of replays."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from seatrial.errors import SeatrialError, TargetError
from seatrial.postgres.binaries import Binaries
from seatrial.trials.database.measure import pgbench
from seatrial.trials.database.measure.drive import scripts_of
from seatrial.trials.database.measure.pgbench import Script
from seatrial.trials.database.measure.pgbench_ceiling import ceiling_per_s
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS, DatabaseSpec, ReplaySpec
from seatrial.trials.replay.measure.replay_ceiling import NEED_CATALOGUE, replay_ceiling_per_s

_SLEEPS: Final = re.compile(r"^\s*\\sleep\b", re.MULTILINE)


class ClientCeiling(msgspec.Struct, frozen=True, kw_only=True):
    """A driver's maximum rate.

    Attributes:
        per_s: Transactions per second of all processes, for a replay statements; None if unknown.
        notes: Why it is unknown or an upper bound, as sentences.
    """

    per_s: float | None = None
    notes: list[str] = []


def client_ceiling(
    kind: str, spec: DatabaseSpec, binaries: Binaries, folder: Path | None = None
) -> ClientCeiling:
    """Return the rate of a cell's client processes with a server that answers immediately.

    Several processes are measured as one with all their clients and threads. The result is cached
    for the lifetime of this process.

    Args:
        kind: Kind of the cell; a batch has no maximum rate.
        spec: Specification of the cell.
        binaries: The programs, with pgbench.
        folder: A folder of the run, cleaned up with it.

    Raises:
        KeyboardInterrupt: when the user ended it.
    """
    if kind == "batch":
        return ClientCeiling()
    if spec.replay is not None:
        return _ceiling_of_replay(spec, spec.replay, folder)
    scripts = scripts_of(kind, spec)
    if any(_sleeps(script) for script in scripts.scripts):
        return ClientCeiling(notes=["The driver's maximum rate is unknown: its script sleeps."])
    try:
        per_s = ceiling_per_s(
            binaries.program("pgbench"),
            pgbench.script_arguments(spec, scripts),
            # Processes share the cores: multiplying the rate of one by their number would be too
            # high.
            clients=spec.clients * spec.processes,
            threads=pgbench.jobs(spec) * spec.processes,
            folder=folder,
        )
    except TargetError as error:
        return ClientCeiling(notes=[f"The driver's maximum rate is unknown. {error.seen}"])
    return ClientCeiling(per_s=per_s)


def _ceiling_of_replay(
    spec: DatabaseSpec, replay: ReplaySpec, folder: Path | None
) -> ClientCeiling:
    try:
        found = replay_ceiling_per_s(replay, connections=spec.clients, folder=folder)
    except SeatrialError as error:
        return ClientCeiling(notes=[f"The driver's maximum rate is unknown. {error.seen}"])
    if found is None:
        return ClientCeiling(
            notes=["The driver's maximum rate is unknown: the trace is too short."]
        )
    if replay.order in NEED_CATALOGUE:
        note = f"The driver's maximum rate is an upper bound: it excludes the order {replay.order}."
        return ClientCeiling(per_s=found, notes=[note])
    return ClientCeiling(per_s=found)


def _sleeps(script: Script) -> bool:
    is_own = script.name not in BUILTIN_SCRIPTS
    return is_own and bool(_SLEEPS.search(Path(script.name).read_text(errors="replace")))
