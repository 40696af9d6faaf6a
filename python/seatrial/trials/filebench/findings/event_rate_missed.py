"""Finding ``event_rate_missed``: a file workload did not reach the rate of its event generator."""

from __future__ import annotations

from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_share
from seatrial.trials.filebench.analysis import events_of
from seatrial.trials.filebench.cells import engine_of
from seatrial.trials.filebench.wml.flowops import EVENT_LIMITS

REACHED_SHARE_MIN: Final = 0.95


class EventRateMissedFigures(Figures, frozen=True, kw_only=True, tag="event_rate_missed"):
    due_per_s: float
    taken_per_s: float
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        share = format_share(self.taken_per_s / self.due_per_s)
        return FindingText(
            sentence=f"{self.concerned} consumed {share} of its events: {self.taken_per_s:,.0f} of "
            f"{self.due_per_s:,.0f} per second.",
            cause="The storage or the processors could not keep up with the rate of the workload "
            "file (eventgen), or its threads are too few",
            next="Lower the rate until it is reached (--set eventrate=NUMBER), or use more threads",
        )


@from_samples(rank=237, section="Time", doubt="the declared rate of events was not reached")
def event_rate_missed(context: Context) -> list[Finding]:
    """Find file workloads that took fewer events than their generator made.

    Means:
        A workload file declares a rate of events (`eventgen`), each of which lets an operation, a
        loop or a MiB through. Fewer were taken than were due, so the load was lower than declared.

    Decided:
        Less than 95 % of the events were taken, over all rounds of a cell. Workloads without a
        flowop that takes events are exempt. Warning.

    Do:
        Lower the rate until it is reached, or use more threads.
    """
    found = [
        (each, events)
        for each in context.cells
        if (events := events_of(each)) and _takes_events(each)
    ]
    missed = [(each, e) for each, e in found if e[1] > 0 and e[0] < REACHED_SHARE_MIN * e[1]]
    if not missed:
        return []
    _, (taken, due) = min(missed, key=lambda one: one[1][0] / one[1][1])
    concerned = [each for each, _ in missed]
    figures = EventRateMissedFigures(
        due_per_s=due, taken_per_s=taken, concerned=context.affected_cells(concerned)
    )
    return [Finding(severity="warning", cells=identities(concerned), figures=figures)]


def _takes_events(summary: CellSummary) -> bool:
    return any(kind["verb"] in EVENT_LIMITS for kind in engine_of(summary.cell)["kinds"])
