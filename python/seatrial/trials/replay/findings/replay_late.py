"""Finding ``replay_late``: statements were sent later than scheduled."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import FLATTENED, HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_count, format_duration_ns, format_share
from seatrial.trials.replay.analysis.model import Lateness, ReplayCell, replays_of
from seatrial.trials.replay.analysis.pace import KEPT_SHARE_MIN, has_think_times, keeps_pace

LATE_SHARE_MAX: Final = 0.05
"""Share of the statements sent more than 1 ms late."""

_DELAYED_BY: Final = {
    "session": "their session was still busy with the previous statement",
    "order": "the order delayed them",
    "connections": "all connections were in use",
    "driver": "the driver was late",
}
_CAUSES: Final = {
    "session": (
        "The server is slower than in the capture, relative to the speed: a session sends a "
        "statement only after the answer to the previous one."
    ),
    "order": "Statements waited for those of other sessions, which took longer than captured.",
    "connections": "Fewer connections were allowed than the capture had open at once.",
    "driver": (
        "The driver was busy or had no CPU when the statements were due. The delay is caused by "
        "the driver, not by the server."
    ),
}
_NEXT: Final = {
    "session": (
        "Use response times from the intended start: they include this wait, as users would see "
        "it. A lower '--speed' shows what the server can sustain."
    ),
    "order": "Compare with '--order session', which keeps the order only within each session.",
    "connections": "Raise '--connections', and max_connections of the target.",
    "driver": "Give the driver a dedicated CPU, or run it on another machine.",
}


class ReplayLateFigures(Figures, frozen=True, kw_only=True, tag="replay_late"):
    due_count: int
    within_1ms_share: float
    lag_p50_ns: int
    lag_p99_ns: int
    lag_max_ns: int
    lag_first_third_ns: float | None
    lag_longest_third_ns: float | None
    grows: bool
    delivered_ratio: float | None
    driver_lag_p99_ns: int
    driver_lag_max_ns: int
    others: Annotated[dict[str, int], FLATTENED]
    concerned: Annotated[AffectedCells, HIDDEN]
    part: Annotated[ReplayCell, HIDDEN]
    worst: Annotated[Lateness, HIDDEN]
    by: Annotated[str, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=_sentence(self.concerned, self.part, self.worst),
            cause=_CAUSES[self.by],
            next=_NEXT[self.by],
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return f"{format_share(1 - self.within_1ms_share)} of the statements were sent late"


@from_samples(rank=240, section="Replays", sees_replays=True)
def replay_late(context: Context) -> list[Finding]:
    """Find replays at a fixed speed that fell behind schedule.

    Means:
        Statements were sent later than scheduled by the speed. Response times count from the
        intended start and include that delay.

    Decided:
        Only for replays at a fixed speed. Warning if less than 95 % of the requested rate was
        reached or the median statement was more than 10 ms late (neither applies with think times),
        or if the mean lag of the second or last third of the time is twice that of the first and at
        least 10 ms longer. Note if more than 5 % of the statements were sent more than 1 ms late.
        The cause is what delayed most of these: their session, the order, the connections, or the
        driver, whose own lateness is reported separately.

    Do:
        If sessions were busy, the server cannot keep up: a lower `--speed` shows what it can
        sustain. If the driver was late, give it a dedicated CPU.
    """
    late = [
        (part, part.lateness)
        for part in replays_of(context)
        if part.lateness is not None and (_fell_behind(part) or _is_late(part.lateness))
    ]
    if not late:
        return []
    part, worst = max(late, key=lambda pair: (_fell_behind(pair[0]), 1 - pair[1].within_1ms_share))
    keys = {each.cell.key for each, _ in late}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    by = max(worst.late_by, key=lambda name: worst.late_by[name])
    return [
        Finding(
            severity="warning" if any(_fell_behind(each) for each, _ in late) else "note",
            cells=identities(concerned),
            figures=ReplayLateFigures(
                due_count=worst.due,
                within_1ms_share=worst.within_1ms_share,
                lag_p50_ns=worst.p50_ns,
                lag_p99_ns=worst.p99_ns,
                lag_max_ns=worst.max_ns,
                lag_first_third_ns=worst.first_ns,
                lag_longest_third_ns=worst.peak_ns,
                grows=worst.grows,
                delivered_ratio=part.delivered.value if part.delivered else None,
                driver_lag_p99_ns=worst.driver_p99_ns,
                driver_lag_max_ns=worst.driver_max_ns,
                others={f"late_by_{name}_count": count for name, count in worst.late_by.items()},
                concerned=context.affected_cells(concerned),
                part=part,
                worst=worst,
                by=by,
            ),
        )
    ]


def _fell_behind(part: ReplayCell) -> bool:
    """Return whether a replay fell behind the requested speed."""
    grows = part.lateness is not None and part.lateness.grows
    if part.delivered is None or has_think_times(part.cell):
        return grows
    return grows or not keeps_pace(part.delivered, part.lateness)


def _is_late(late: Lateness) -> bool:
    return 1 - late.within_1ms_share > LATE_SHARE_MAX


def _sentence(concerned: AffectedCells, part: ReplayCell, late: Lateness) -> str:
    parts = [
        f"{format_share(1 - late.within_1ms_share)} of {format_count(late.due)} statements were "
        f"sent more than 1 ms late (lag p50 {format_duration_ns(late.p50_ns)}, p99 "
        f"{format_duration_ns(late.p99_ns)})"
    ]
    if part.delivered is not None and part.delivered.value < KEPT_SHARE_MIN:
        share = format_share(part.delivered.value)
        parts.insert(0, f"the replay reached only {share} of the requested speed")
    if late.grows and late.first_ns is not None and late.peak_ns is not None:
        parts.append(
            f"the mean lag grew from {format_duration_ns(late.first_ns)} in the first third of the "
            f"time to {format_duration_ns(late.peak_ns)}"
        )
    late_by = {name: count for name, count in late.late_by.items() if count}
    if late_by:
        by, count = max(late_by.items(), key=lambda item: item[1])
        parts.append(f"{format_count(count)} were late because {_DELAYED_BY[by]}")
    parts.append(f"the driver's own lag was {format_duration_ns(late.driver_p99_ns)} at p99")
    return f"{concerned}: {'; '.join(parts)}."
