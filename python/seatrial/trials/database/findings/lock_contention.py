"""Finding ``lock_contention``: more clients than branches, which all of them update."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_cell, format_share
from seatrial.trials.database.analysis.model import DatabaseCell, database_of
from seatrial.trials.database.analysis.samples import specification

TPCB: Final = "tpcb-like"
LOCK_SHARE_WARNING: Final = 0.2


@from_samples(rank=400, section="Of a database")
def lock_contention(context: Context) -> list[Finding]:
    """Find TPC-B cells with more clients than the scale has branches.

    Source: pgbench's manual, "Good Practices": the scale should be at least as large as the
    number of clients, else they mostly wait for each other's update of pgbench_branches.

    Means:
        In TPC-B all clients update as many branches as the scale says. With more clients than that
        they wait for each other, and a faster device makes little difference.

    Decided:
        More clients of a database than its scale, with the script tpcb-like (pgbench's manual,
        "Good Practices"). Warning where locks took a fifth of the active clients' time; else note.

    Do:
        Use a scale of at least the clients, or the script simple-update.
    """
    parts = analysis.cells if (analysis := database_of(context)) else []
    crowded = [part for part in parts if _clients_a_branch(part) > 1]
    if not crowded:
        return []
    worst = max(crowded, key=lambda part: (part.waits.get("lock", 0.0), _clients_a_branch(part)))
    keys = {part.cell.key for part in crowded}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    share = worst.waits.get("lock")
    waited = (
        f"; in {format_cell(worst.cell)} {format_share(share)} of the active clients' time was "
        "spent so"
        if share is not None
        else ""
    )
    spec = specification(worst.cell)
    return [
        Finding(
            kind="lock_contention",
            severity="warning" if (share or 0.0) >= LOCK_SHARE_WARNING else "note",
            cells=[summary.cell.identity() for summary in concerned],
            sentence=(
                f"{context.of_cells(concerned)}: more clients than the scale has branches, so "
                f"they wait for each other's rows{waited}."
            ),
            cause=(
                "Each transaction of TPC-B updates one of as many branches as the scale says; two "
                "clients that meet there go one by one, whatever the storage does."
            ),
            evidence={
                "cells_count": len(crowded),
                "lock_share_max": share,
                "clients_count": worst.cell.threads,
                "branches_count": spec.load.scale if spec else None,
            },
            next=(
                f"Use a scale of at least {worst.cell.threads}, or the script simple-update, which "
                "leaves branches and tellers alone."
            ),
        )
    ]


def _clients_a_branch(part: DatabaseCell) -> float:
    """Return clients of a database over its branches; 0 where the script has none to share."""
    spec = specification(part.cell)
    if spec is None or spec.script != TPCB or spec.load.scale <= 0:
        return 0.0
    return spec.clients / spec.load.scale
