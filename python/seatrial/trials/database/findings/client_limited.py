"""Finding ``client_limited``: the number may be the driver's own, not the database's."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_iops, format_share
from seatrial.trials.database.analysis.model import DatabaseCell, database_of
from seatrial.trials.database.analysis.samples import ceiling_share

CORE_SHARE_MAX: Final = 0.7
"""Of one core, by the driver's busiest thread: with more it sometimes has no time for an answer."""
CEILING_SHARE_MAX: Final = 0.7
"""Of what the same driver does with a server that answers at once."""


@from_samples(rank=420, section="Of a database")
def client_limited(context: Context) -> list[Finding]:
    """Find cells whose driver used 70 % of a core, or reached 70 % of its own ceiling.

    Means:
        The driver may be what was measured, not the database: read the rate as "at least".

    Decided:
        The driver's busiest thread used more than 70 % of a core, or the rate is above 70 % of what
        the same driver does with a server that answers at once. Warning. Of a batch, which is its
        own driver, it is not told.

    Do:
        More `jobs` or `processes` where cores are idle, prepared statements, or a client machine of
        its own.
    """
    parts = (
        {part.cell.key: part for part in analysis.cells}
        if (analysis := database_of(context))
        else {}
    )
    own = [summary for summary in context.cells if summary.cell.key in parts]
    concerned = [c for c in own if _core(parts[c.cell.key]) or _ceiling(c, parts[c.cell.key])]
    if not concerned:
        return []
    cores = [_core(parts[c.cell.key]) for c in concerned]
    ceilings = [_ceiling(c, parts[c.cell.key]) for c in concerned]
    reported = []
    if max(cores):
        reported.append(f"its driver used up to {format_share(max(cores))} of a core")
    if max(ceilings):
        place = ceilings.index(max(ceilings))
        ceiling_per_s = parts[concerned[place].cell.key].ceiling_per_s or 0.0
        reported.append(
            f"it reached up to {format_share(max(ceilings))} of the {format_iops(ceiling_per_s)} "
            "transactions a second that the driver does with a server that answers at once"
        )
    return [
        Finding(
            kind="client_limited",
            severity="warning",
            cells=[c.cell.identity() for c in concerned],
            sentence=(
                f"{context.of_cells(concerned)}: {' and '.join(reported)}, so the number is a "
                "lower bound of what the database does."
            ),
            cause=(
                "Above 70 % the driver is part of what is measured: answers wait until it has "
                "time for them. A fast database with short transactions leads there."
            ),
            evidence={
                "client_cpu_share_max": max(cores),
                "client_cpu_share_allowed": CORE_SHARE_MAX,
                "ceiling_share_max": max(ceilings),
                "ceiling_share_allowed": CEILING_SHARE_MAX,
                "cells_count": len(concerned),
            },
            next=(
                "Use more threads or processes of the driver ('jobs', 'processes') where cores "
                'are idle, prepared statements (protocols = "prepared"), or a client machine of '
                "its own ('seatrial db --url')."
            ),
        )
    ]


def _core(part: DatabaseCell) -> float:
    """Return the driver's share of a core where it is too much; else 0."""
    share = part.client_cpu_share or 0.0
    return share if share > CORE_SHARE_MAX and part.cell.operation != "batch" else 0.0


def _ceiling(summary: CellSummary, part: DatabaseCell) -> float:
    """Return the share of the driver's ceiling where it is too much; else 0."""
    share = ceiling_share(summary.iops.value, part.ceiling_per_s) or 0.0
    return share if share > CEILING_SHARE_MAX else 0.0
