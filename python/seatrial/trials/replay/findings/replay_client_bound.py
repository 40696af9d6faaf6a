"""Finding ``replay_client_bound``: a replay's number may be the driver's own."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_iops, format_share
from seatrial.trials.replay.analysis.model import replays_of

CORE_SHARE_MAX: Final = 0.7
"""Of one core, by the driver's one thread: with more it sometimes has no time for an answer."""
CEILING_SHARE_MAX: Final = 0.7
"""Of what the same driver does with a server that answers at once."""


@from_samples(rank=430, section="Of a replay", sees_replays=True)
def replay_client_bound(context: Context) -> list[Finding]:
    """Find replays whose driver used 70 % of a core, or reached 70 % of its own ceiling.

    Means:
        The driver may be what was measured, not the database: read the rate as "at least".

    Decided:
        Its one thread used more than 70 % of a core, or the rate is above 70 % of what the same
        driver does with a server that answers at once. Warning.

    Do:
        Play at a pace to compare latencies; for the highest rate put the driver on a machine of its
        own.
    """
    parts = [
        part
        for part in replays_of(context)
        if (part.client_core_share or 0.0) > CORE_SHARE_MAX
        or (part.ceiling_share or 0.0) > CEILING_SHARE_MAX
    ]
    if not parts:
        return []
    keys = {part.cell.key for part in parts}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    core = max(part.client_core_share or 0.0 for part in parts)
    fullest = max(parts, key=lambda part: part.ceiling_share or 0.0)
    reported = []
    if core > CORE_SHARE_MAX:
        reported.append(f"the driver's one thread used up to {format_share(core)} of a core")
    if (fullest.ceiling_share or 0.0) > CEILING_SHARE_MAX:
        reported.append(
            f"it reached up to {format_share(fullest.ceiling_share or 0.0)} of the "
            f"{format_iops(fullest.ceiling_per_s or 0.0)} statements a second that it does with a "
            "server that answers at once"
        )
    return [
        Finding(
            kind="replay_client_bound",
            severity="warning",
            cells=identities(concerned),
            sentence=(
                f"{context.of_cells(concerned)}: {' and '.join(reported)}, so the rate is a lower "
                "bound of what the database does."
            ),
            cause=(
                "Above 70 % the driver is part of what is measured: answers wait until it has time "
                "for them. Many short statements lead there, which a fast database answers at once."
            ),
            evidence={
                "client_core_share_max": core,
                "client_core_share_allowed": CORE_SHARE_MAX,
                "client_delay_share_max": max(part.client_delay_share or 0.0 for part in parts),
                "ceiling_share_max": fullest.ceiling_share,
                "ceiling_share_allowed": CEILING_SHARE_MAX,
                "ceiling_per_s": fullest.ceiling_per_s,
                "cells_count": len(parts),
            },
            next=(
                "Play at a pace ('--speed 1.0') to compare latencies; for the highest rate put the "
                "driver on a machine of its own, or play parts of the trace at once."
            ),
        )
    ]
