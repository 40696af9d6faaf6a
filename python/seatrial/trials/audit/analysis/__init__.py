"""Audit of tables: fitted models, gaps and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seatrial.results.model import Run
    from seatrial.stats.model import CellSummary
    from seatrial.trials.audit.analysis.model import TableAudit


def audit_tables(run: Run, cells: Sequence[CellSummary]) -> list[TableAudit]:
    """Return the audit of each table of a run that has at least 7 figures.

    Args:
        run: The run.
        cells: Its cells, in any order.
    """
    # A summary contains audits, and an audit uses parts of a summary: this avoids an import cycle.
    from seatrial.trials.audit.analysis import audit  # noqa: PLC0415

    return audit.audit_tables(run, cells)
