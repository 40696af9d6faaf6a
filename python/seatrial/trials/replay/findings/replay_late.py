"""Finding ``replay_late``: statements were sent later than the speed asked for."""

from __future__ import annotations

from typing import Final

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_count, format_duration_ns, format_share
from seatrial.trials.replay.analysis.model import Lateness, ReplayCell, replays_of
from seatrial.trials.replay.analysis.pace import KEPT_SHARE_MIN, keeps_pace

LATE_SHARE_MAX: Final = 0.05
"""Of the statements, those sent more than 1 ms after their time."""

_HELD: Final = {
    "session": "their session was still busy with the statement before",
    "order": "the order held them back",
    "connections": "all connections were in use",
    "driver": "the driver itself was late",
}
_CAUSES: Final = {
    "session": (
        "The server takes longer than it did when the load was captured, times the speed: a "
        "session sends its next statement when it has the answer to the last."
    ),
    "order": "Statements waited for those of other sessions, which took longer than captured.",
    "connections": "Fewer connections were allowed than the capture had open at once.",
    "driver": (
        "The driver had no time or no processor when the statements were due: their lateness is "
        "its own, not the server's."
    ),
}
_NEXT: Final = {
    "session": (
        "Read response times from the intended start: that is what a user would have waited. A "
        "lower '--speed' tells what the server carries."
    ),
    "order": "Compare with '--order session', which holds nothing back between sessions.",
    "connections": "Raise '--connections', and max_connections of the target.",
    "driver": "Give the driver a processor of its own, or run it on another machine.",
}


@from_samples(rank=240, section="Of a replay", sees_replays=True)
def replay_late(context: Context) -> list[Finding]:
    """Find replays under a pace that did not keep it, or kept it late.

    Means:
        Statements were sent later than the speed asked for. Response times count from the intended
        start, and so hold that wait.

    Decided:
        Only of a replay under a pace. Warning where less than 95 % of what was asked for was
        answered, where the median statement was more than 10 ms late, or where the mean lag of
        another third of the time is twice that of the first, and 10 ms more. Note where more than 5
        % of the statements were sent more than 1 ms late. The cause is what held most of these:
        their session, the order, the connections, or the driver itself, whose own lateness is told
        apart.

    Do:
        Where the session was busy, the server does not keep the pace: a lower `--speed` tells what
        it carries. Where it was the driver, give that a processor of its own.
    """
    late = [
        (part, part.lateness)
        for part in replays_of(context)
        if part.lateness is not None and (_breaks(part) or _is_late(part.lateness))
    ]
    if not late:
        return []
    part, worst = max(late, key=lambda pair: (_breaks(pair[0]), 1 - pair[1].within_1ms_share))
    keys = {each.cell.key for each, _ in late}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    by = max(worst.late_by, key=lambda name: worst.late_by[name])
    return [
        Finding(
            kind="replay_late",
            severity="warning" if any(_breaks(each) for each, _ in late) else "note",
            cells=identities(concerned),
            sentence=_sentence(context, concerned, part, worst),
            cause=_CAUSES[by],
            evidence={
                "due_count": worst.due,
                "within_1ms_share": worst.within_1ms_share,
                "lag_p50_ns": worst.p50_ns,
                "lag_p99_ns": worst.p99_ns,
                "lag_max_ns": worst.max_ns,
                "lag_first_third_ns": worst.first_ns,
                "lag_longest_third_ns": worst.peak_ns,
                "grows": worst.grows,
                "delivered_ratio": part.delivered.value if part.delivered else None,
                "driver_lag_p99_ns": worst.driver_p99_ns,
                "driver_lag_max_ns": worst.driver_max_ns,
                **{f"late_by_{name}_count": count for name, count in worst.late_by.items()},
            },
            next=_NEXT[by],
        )
    ]


def _breaks(part: ReplayCell) -> bool:
    """Tell whether a replay fell behind what was asked for."""
    grows = part.lateness is not None and part.lateness.grows
    return grows or (part.delivered is not None and not keeps_pace(part.delivered, part.lateness))


def _is_late(late: Lateness) -> bool:
    return 1 - late.within_1ms_share > LATE_SHARE_MAX


def _sentence(
    context: Context, concerned: list[CellSummary], part: ReplayCell, late: Lateness
) -> str:
    reported = [
        f"{format_share(1 - late.within_1ms_share)} of {format_count(late.due)} statements were "
        f"sent more than 1 ms late, the median by {format_duration_ns(late.p50_ns)}, 1 % by "
        f"{format_duration_ns(late.p99_ns)} and more"
    ]
    if part.delivered is not None and part.delivered.value < KEPT_SHARE_MIN:
        share = format_share(part.delivered.value)
        reported.insert(0, f"only {share} of what the speed asked for was answered in its time")
    if late.grows and late.first_ns is not None and late.peak_ns is not None:
        reported.append(
            f"the lag grew from {format_duration_ns(late.first_ns)} in the first third of the time "
            f"to {format_duration_ns(late.peak_ns)} in another"
        )
    held = {name: count for name, count in late.late_by.items() if count}
    if held:
        by, count = max(held.items(), key=lambda item: item[1])
        reported.append(f"{format_count(count)} because {_HELD[by]}")
    reported.append(
        f"the driver's own lateness was {format_duration_ns(late.driver_p99_ns)} at p99"
    )
    return f"{context.of_cells(concerned)}: {'; '.join(reported)}."
