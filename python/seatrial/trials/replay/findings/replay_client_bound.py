"""Finding ``replay_client_bound``: the driver may limit the rate of a replay."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_iops
from seatrial.trials.database.analysis.rivals import DRIVER_CAUSE, DRIVER_SHARE_MAX, driver_sentence
from seatrial.trials.replay.analysis.model import replays_of


class ReplayClientBoundFigures(Figures, frozen=True, kw_only=True, tag="replay_client_bound"):
    client_core_share_max: float
    client_core_share_allowed: float
    client_delay_share_max: float
    ceiling_share_max: float | None
    ceiling_share_allowed: float
    ceiling_per_s: float | None
    cells_count: int
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        ceiling_per_s = f"{format_iops(self.ceiling_per_s or 0.0)} statements/s"
        limits = driver_sentence(
            self.client_core_share_max, self.ceiling_share_max or 0.0, ceiling_per_s
        )
        return FindingText(
            sentence=f"{self.concerned}: {limits}",
            cause=DRIVER_CAUSE,
            next=(
                "To compare latencies, replay at a fixed speed ('--speed 1.0'). For the highest "
                "rate, run the driver on a separate machine, or replay parts of the trace in "
                "parallel."
            ),
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return "the client limited the rate, not the database"


@from_samples(rank=430, section="Replays", sees_replays=True)
def replay_client_bound(context: Context) -> list[Finding]:
    """Find replays whose driver used 70 % of a core, or reached 70 % of its maximum rate.

    Means:
        The driver may limit the rate, not the database. Read the rate as "at least".

    Decided:
        The driver's busiest thread used more than 70 % of a core, or the rate is above 70 % of the
        same driver's rate against a null server, which answers at once. Warning.

    Do:
        To compare latencies, replay at a fixed speed. For the highest rate, run the driver on a
        separate machine.
    """
    parts = [
        part
        for part in replays_of(context)
        if (part.client_core_share or 0.0) > DRIVER_SHARE_MAX
        or (part.ceiling_share or 0.0) > DRIVER_SHARE_MAX
    ]
    if not parts:
        return []
    keys = {part.cell.key for part in parts}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    core = max(part.client_core_share or 0.0 for part in parts)
    fullest = max(parts, key=lambda part: part.ceiling_share or 0.0)
    return [
        Finding(
            severity="warning",
            cells=identities(concerned),
            figures=ReplayClientBoundFigures(
                client_core_share_max=core,
                client_core_share_allowed=DRIVER_SHARE_MAX,
                client_delay_share_max=max(part.client_delay_share or 0.0 for part in parts),
                ceiling_share_max=fullest.ceiling_share,
                ceiling_share_allowed=DRIVER_SHARE_MAX,
                ceiling_per_s=fullest.ceiling_per_s,
                cells_count=len(parts),
                concerned=context.affected_cells(concerned),
            ),
        )
    ]
