"""Finding ``nothing_completed``: a cell in which not one request ended well."""

from __future__ import annotations

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.topic import topic_of


@from_samples(rank=160, section="Data and errors", sees_faults=True, sees_replays=True)
def nothing_completed(context: Context) -> list[Finding]:
    """Find blank cells; each says in its own place why it is blank (law 3).

    Means:
        In a cell not one request ended well. Its place in every table says so ("0 completed, oldest
        in flight 4.2 s").

    Decided:
        No completed request in any round of the cell. Critical. A device that hung, and one whose
        requests take longer than the cell lasts, look the same.

    Do:
        Measure one such cell alone and longer with `seatrial io`, and look at `dmesg -T` meanwhile.
    """
    concerned = [summary for summary in context.cells if summary.blank]
    if not concerned:
        return []
    oldest_s = max(s.oldest_in_flight_ns for c in concerned for s in c.samples) / 1e9
    return [
        Finding(
            kind="nothing_completed",
            severity="critical",
            cells=identities(concerned),
            sentence=(
                f"Nothing completed in {context.of_cells(concerned)}: {concerned[0].blank}"
                f"{' in the first of them' if len(concerned) > 1 else ''}."
            ),
            cause=_cause(concerned),
            evidence={
                "cells_count": len(concerned),
                "failed_count": sum(summary.failed for summary in concerned),
                "oldest_in_flight_s": oldest_s,
                "stall_causes": sorted(
                    {t.cause for c in concerned for s in c.samples for t in s.stalls}
                ),
            },
            next=_next(concerned),
        )
    ]


def _cause(concerned: list[CellSummary]) -> str:
    if any(summary.failed for summary in concerned):
        return "The requests failed; the finding 'errors' names the reason."
    return (
        "The device hung, or one request takes longer than the cell was measured: the two cannot "
        "be told apart without a single completion."
    )


def _next(concerned: list[CellSummary]) -> str:
    if all(topic_of(summary.cell).has_server for summary in concerned):
        return (
            "Mend what the message names, or repeat one of these cells alone and longer with "
            "'seatrial db'."
        )
    return (
        "Repeat one of these cells alone and longer with 'seatrial io', and look at "
        "'dmesg -T | tail -50' for resets and time-outs meanwhile."
    )
