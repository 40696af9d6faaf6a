"""Finding ``nothing_completed``: a cell in which no request completed successfully."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_s, format_plural
from seatrial.topic import topic_of


class NothingCompletedFigures(Figures, frozen=True, kw_only=True, tag="nothing_completed"):
    cells_count: int
    failed_count: int
    oldest_in_flight_s: float
    stall_causes: list[str]
    concerned: Annotated[AffectedCells, HIDDEN]
    first_blank: Annotated[str, HIDDEN]
    have_servers: Annotated[bool, HIDDEN]

    def text(self) -> FindingText:
        return FindingText(
            sentence=(
                f"No request completed in {self.concerned}: {self.first_blank}"
                f"{' in the first of them' if self.cells_count > 1 else ''}."
            ),
            cause=_cause(self.failed_count),
            next=_next(self.have_servers),
        )

    def in_short(self, cells_count: int) -> str:
        oldest = ""
        if self.oldest_in_flight_s:
            oldest = f", oldest in flight {format_duration_s(self.oldest_in_flight_s)}"
        return f"0 completed in {format_plural(cells_count, 'test')}{oldest}"


@from_samples(rank=160, section="Data and errors", sees_faults=True, sees_replays=True)
def nothing_completed(context: Context) -> list[Finding]:
    """Find cells without a figure; tables show the reason in its place (law 3).

    Means:
        No request of a test completed successfully. Tables show this in place of a figure ("0
        completed, oldest in flight 4.2 s").

    Decided:
        No completed request in any round of the test. Critical. A hung device and one whose
        requests take longer than the sample cannot be distinguished.

    Do:
        Measure one such test alone and longer with `seatrial io`, and watch `dmesg -T` meanwhile.
    """
    concerned = [summary for summary in context.cells if summary.blank]
    if not concerned:
        return []
    first = concerned[0]
    failed_count = sum(summary.failed for summary in concerned)
    have_servers = all(topic_of(summary.cell).has_server for summary in concerned)
    oldest_s = max(s.oldest_in_flight_ns for c in concerned for s in c.samples) / 1e9
    figures = NothingCompletedFigures(
        cells_count=len(concerned),
        failed_count=failed_count,
        oldest_in_flight_s=oldest_s,
        stall_causes=sorted({t.cause for c in concerned for s in c.samples for t in s.stalls}),
        concerned=context.affected_cells(concerned),
        first_blank=first.blank,
        have_servers=have_servers,
    )
    return [Finding(severity="critical", cells=identities(concerned), figures=figures)]


def _cause(failed_count: int) -> str:
    if failed_count:
        return "The requests failed; the finding 'errors' names the reason."
    return (
        "The device hung, or a request takes longer than the sample; without a single completion "
        "the two cannot be distinguished."
    )


def _next(have_servers: bool) -> str:
    if have_servers:
        return (
            "Fix the reported error, or repeat one of these tests alone and longer with "
            "'seatrial db'."
        )
    return (
        "Repeat one of these tests alone and longer with 'seatrial io', and check "
        "'dmesg -T | tail -50' for resets and timeouts meanwhile."
    )
