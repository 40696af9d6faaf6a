"""What the samples of a run's databases say, as one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from seatrial.findings.context import usable_cpus
from seatrial.results.model import Run
from seatrial.stats.model import CellSummary
from seatrial.trials.database.analysis.cache_sweep import cache_sweeps
from seatrial.trials.database.analysis.cells import database_cell
from seatrial.trials.database.analysis.model import DatabaseAnalysis, DatabaseCell, TimeVerdict
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.replay.analysis.model import ReplayCell


def analyse(
    run: Run, cells: Sequence[CellSummary], replays: Sequence[ReplayCell] = ()
) -> DatabaseAnalysis | None:
    """Return what is particular to a run's database cells; None where it has none.

    Args:
        run: For what its fingerprint says of the machine.
        cells: All cells of the run, in the order of the plan.
        replays: What is particular to those that play a trace; they have a verdict of their own.
    """
    own = [summary for summary in cells if is_of_database(summary.cell)]
    if not own:
        return None
    cpus = usable_cpus(run.fingerprint_before)
    bottlenecks = {each.cell.key: each for each in replays}
    parts = [
        _as_replay(part, bottlenecks.get(part.cell.key))
        for part in (database_cell(summary, cpus) for summary in own)
    ]
    return DatabaseAnalysis(cells=parts, sweeps=cache_sweeps(own, parts))


def _as_replay(part: DatabaseCell, replay: ReplayCell | None) -> DatabaseCell:
    """Return a cell with the verdict on the replay, where it is one."""
    if replay is None:
        return part
    found = replay.bottleneck
    verdict = TimeVerdict(
        bound=found.bound,
        sentence=found.sentence,
        evidence=found.evidence,
        likely=found.likely,
        rivals=found.rivals,
        next=found.next,
    )
    return msgspec.structs.replace(part, verdict=verdict)
