"""The ceiling of the driver itself in a cell, where its scripts can run without a database."""

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
from seatrial.trials.database.study.workloads import BUILTIN_SCRIPTS, DatabaseSpec, ReplaySpec
from seatrial.trials.replay.measure.null_server import ceiling_per_s
from seatrial.trials.replay.measure.replay_ceiling import replay_ceiling_per_s

_SLEEPS: Final = re.compile(r"^\s*\\sleep\b", re.MULTILINE)


class OwnCeiling(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver reaches by itself.

    Attributes:
        per_s: Transactions per second of all processes, of a replay statements; None where that is
            not known.
        notes: Why it is not known, as sentences.
    """

    per_s: float | None = None
    notes: list[str] = []


def own_ceiling(
    kind: str, spec: DatabaseSpec, binaries: Binaries, place: Path | None = None
) -> OwnCeiling:
    """Return what the client processes of a cell reach with a server that answers at once.

    Several processes are measured as one that has the clients and threads of all of them.
    It is measured once for each set-up and kept as long as this process lasts.

    Args:
        kind: Of the cell; a batch has no ceiling.
        spec: Of the cell.
        binaries: Whose pgbench it is.
        place: A folder that goes with the run; a killed one is cleaned up with it.

    Raises:
        KeyboardInterrupt: when the user ended it.
    """
    if kind == "batch":
        return OwnCeiling()
    if spec.replay is not None:
        return _of_a_replay(spec, spec.replay, place)
    scripts = scripts_of(kind, spec)
    if any(_sleeps(script) for script in scripts.scripts):
        return OwnCeiling(notes=["The driver's own ceiling is not known: its script sleeps."])
    try:
        found = ceiling_per_s(
            binaries.program("pgbench"),
            pgbench.script_arguments(spec, scripts),
            # Processes share the cores: a ceiling of one, times their number, would be too high.
            clients=spec.clients * spec.processes,
            threads=pgbench.jobs(spec) * spec.processes,
            place=place,
        )
    except TargetError as error:
        return OwnCeiling(notes=[f"The driver's own ceiling is not known. {error.seen}"])
    return OwnCeiling(per_s=found.transactions_per_s)


def _of_a_replay(spec: DatabaseSpec, replay: ReplaySpec, place: Path | None) -> OwnCeiling:
    try:
        found = replay_ceiling_per_s(replay, connections=spec.clients, place=place)
    except SeatrialError as error:
        return OwnCeiling(notes=[f"The driver's own ceiling is not known. {error.seen}"])
    if found is None:
        return OwnCeiling(notes=["The driver's own ceiling is not known: the trace is too short."])
    return OwnCeiling(per_s=found)


def _sleeps(script: Script) -> bool:
    is_own = script.name not in BUILTIN_SCRIPTS
    return is_own and bool(_SLEEPS.search(Path(script.name).read_text(errors="replace")))
