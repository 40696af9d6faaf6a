"""Finding ``client_limited``: the rate may be limited by the driver, not by the database."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_iops
from seatrial.trials.database.analysis.model import DatabaseCell, ceiling_share, database_of
from seatrial.trials.database.analysis.rivals import DRIVER_CAUSE, DRIVER_SHARE_MAX, driver_sentence


class ClientLimitedFigures(Figures, frozen=True, kw_only=True, tag="client_limited"):
    client_cpu_share_max: float
    client_cpu_share_allowed: float
    ceiling_share_max: float
    ceiling_share_allowed: float
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]
    ceiling_per_s: Annotated[float, HIDDEN]

    def text(self) -> FindingText:
        ceiling_per_s = f"{format_iops(self.ceiling_per_s)} transactions/s"
        limits = driver_sentence(self.client_cpu_share_max, self.ceiling_share_max, ceiling_per_s)
        return FindingText(
            sentence=f"{self.concerned}: {limits}",
            cause=DRIVER_CAUSE,
            next=(
                "If cores are idle, use more driver threads or processes ('jobs', 'processes'). "
                'Otherwise use prepared statements (protocols = "prepared") or a separate client '
                "machine ('seatrial db --url')."
            ),
        )


@from_samples(rank=420, section="Databases")
def client_limited(context: Context) -> list[Finding]:
    """Find cells whose driver used 70 % of a core, or reached 70 % of its maximum rate.

    Means:
        The driver may limit the rate, not the database. Read the rate as "at least".

    Decided:
        The driver's busiest thread used more than 70 % of a core, or the rate is above 70 % of the
        same driver's rate against a null server, which answers at once. Warning. Batches are
        exempt, since a batch is its own driver.

    Do:
        If cores are idle, use more `jobs` or `processes`. Otherwise use prepared statements or a
        separate client machine.
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
    core_share, of_ceiling_share = max(cores), max(ceilings)
    index = ceilings.index(of_ceiling_share)
    ceiling_per_s = parts[concerned[index].cell.key].ceiling_per_s or 0.0
    return [
        Finding(
            severity="warning",
            cells=[c.cell.identity() for c in concerned],
            figures=ClientLimitedFigures(
                client_cpu_share_max=core_share,
                client_cpu_share_allowed=DRIVER_SHARE_MAX,
                ceiling_share_max=of_ceiling_share,
                ceiling_share_allowed=DRIVER_SHARE_MAX,
                cells_count=len(concerned),
                concerned=context.affected_cells(concerned),
                ceiling_per_s=ceiling_per_s,
            ),
        )
    ]


def _core(part: DatabaseCell) -> float:
    """Return the driver's share of a core if it is above the limit, otherwise 0."""
    share = part.client_cpu_share or 0.0
    return share if share > DRIVER_SHARE_MAX and part.cell.operation != "batch" else 0.0


def _ceiling(summary: CellSummary, part: DatabaseCell) -> float:
    """Return the share of the driver's ceiling if it is above the limit, otherwise 0."""
    share = ceiling_share(summary.iops.value, part.ceiling_per_s) or 0.0
    return share if share > DRIVER_SHARE_MAX else 0.0
