"""What the samples of a run's databases say, as one."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.analysis.database.cache_sweep import cache_sweeps
from seatrial.analysis.database.cells import database_cell
from seatrial.analysis.database.model import DatabaseAnalysis
from seatrial.analysis.findings.context import usable_cpus
from seatrial.analysis.model import CellSummary
from seatrial.results.model import Run
from seatrial.study.database import is_of_database


def analyse(run: Run, cells: Sequence[CellSummary]) -> DatabaseAnalysis | None:
    """Return what is particular to a run's database cells; None where it has none.

    Args:
        run: For what its fingerprint says of the machine.
        cells: All cells of the run, in the order of the plan.
    """
    own = [summary for summary in cells if is_of_database(summary.cell)]
    if not own:
        return None
    cpus = usable_cpus(run.fingerprint_before)
    parts = [database_cell(summary, cpus) for summary in own]
    return DatabaseAnalysis(cells=parts, sweeps=cache_sweeps(own, parts))
