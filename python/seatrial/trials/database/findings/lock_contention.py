"""Finding ``lock_contention``: more clients than branches, whose rows all of them update."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_share
from seatrial.study.cell import Cell
from seatrial.trials.database.analysis.model import DatabaseCell, database_of, specification

TPCB: Final = "tpcb-like"
LOCK_SHARE_WARNING: Final = 0.2


class LockContentionFigures(Figures, frozen=True, kw_only=True, tag="lock_contention"):
    cells_count: int
    lock_share_max: float | None
    clients_count: int
    branches_count: int | None
    concerned: Annotated[AffectedCells, HIDDEN]
    worst_cell: Annotated[Cell, HIDDEN]

    def text(self) -> FindingText:
        may = "" if (self.lock_share_max or 0.0) >= LOCK_SHARE_WARNING else "may "
        waited = (
            f"; lock waits took {format_share(self.lock_share_max)} of the active clients' time "
            f"in {format_cell(self.worst_cell)}"
            if self.lock_share_max is not None
            else ""
        )
        return FindingText(
            sentence=(
                f"{self.concerned}: there are more clients than branches (scale), so clients {may}"
                f"wait for each other's row locks{waited}."
            ),
            cause=(
                "Each TPC-B transaction updates one row of pgbench_branches, which has as many "
                "rows as the scale. Transactions on the same branch run one after the other, "
                "however fast the storage is."
            ),
            next=(
                f"Use a scale of at least {self.clients_count}, or the script simple-update, which "
                "does not update branches and tellers."
            ),
        )


@from_samples(rank=400, section="Databases")
def lock_contention(context: Context) -> list[Finding]:
    """Find TPC-B cells with more clients than the scale has branches.

    Source: pgbench's manual, "Good Practices": the scale should be at least as large as the
    number of clients, otherwise they mostly wait for each other's update of pgbench_branches.

    Means:
        In TPC-B every transaction updates a row of pgbench_branches, which has as many rows as the
        scale. More clients than rows wait for each other. A faster device helps as far as it makes
        commits faster, for which the holders of the locks wait.

    Decided:
        The script is tpcb-like and there are more clients than the scale (pgbench's manual, "Good
        Practices"). Warning if lock waits took 20 % of the active clients' time, otherwise note.

    Do:
        Use a scale of at least the number of clients, or the script simple-update.
    """
    parts = analysis.cells if (analysis := database_of(context)) else []
    crowded = [part for part in parts if _clients_a_branch(part) > 1]
    if not crowded:
        return []
    worst = max(crowded, key=lambda part: (part.waits.get("lock", 0.0), _clients_a_branch(part)))
    keys = {part.cell.key for part in crowded}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    share = worst.waits.get("lock")
    spec = specification(worst.cell)
    return [
        Finding(
            severity="warning" if (share or 0.0) >= LOCK_SHARE_WARNING else "note",
            cells=[summary.cell.identity() for summary in concerned],
            figures=LockContentionFigures(
                cells_count=len(crowded),
                lock_share_max=share,
                clients_count=max(part.cell.threads for part in crowded),
                branches_count=spec.load.scale if spec else None,
                concerned=context.affected_cells(concerned),
                worst_cell=worst.cell,
            ),
        )
    ]


def _clients_a_branch(part: DatabaseCell) -> float:
    """Return clients per branch; 0 if the script does not update branches."""
    spec = specification(part.cell)
    if spec is None or spec.script != TPCB or spec.load.scale <= 0:
        return 0.0
    return spec.clients / spec.load.scale
