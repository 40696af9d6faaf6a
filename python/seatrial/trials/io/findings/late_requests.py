"""Finding ``late_requests``: under a schedule, requests started late or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.findings.context import (
    Context,
    identities,
    lookup,
    number,
    response_times,
    service_times,
)
from seatrial.findings.rule import from_samples
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_cell, format_duration_ns, format_share
from seatrial.topic import topic_of

RESPONSE_FACTOR = 2.0
RESPONSE_EXTRA_NS = 1_000_000
CRITICAL_SHARE = 0.01


@dataclass(frozen=True)
class Lateness:
    """How late the requests of one cell were, over all its rounds."""

    summary: CellSummary
    rate_per_s: float | None
    offered: int
    skipped: int
    response_ns: int
    service_ns: int

    @property
    def skipped_share(self) -> float:
        """Share of the offered requests that were skipped as too late."""
        return self.skipped / self.offered if self.offered else 0.0

    @property
    def queued(self) -> bool:
        """Whether the response p99 is far above the service p99: requests waited to start."""
        far_ns = max(RESPONSE_FACTOR * self.service_ns, self.service_ns + RESPONSE_EXTRA_NS)
        return self.response_ns > far_ns


@from_samples(rank=230, section="Time")
def late_requests(context: Context) -> list[Finding]:
    """Find cells with a schedule whose requests were skipped or waited long for their start.

    Means:
        Under a schedule (`fixed`, `poisson`, `bursts`) requests started late, or were skipped as
        too late. What the user of a database waits is the response time, from the intended start.

    Decided:
        Not in load lines, which seek the rate that is too high. Any skipped request, or a response
        p99 above twice the service p99 and at least 1 ms above it. Critical when more than 1 % were
        skipped, else warning.

    Do:
        Look for a stall; if there is none, lower the rate until the two percentiles agree.
    """
    scheduled = [
        _lateness(summary)
        for summary in context.cells
        # A load line seeks the rate that is too high; its own finding tells of it.
        if topic_of(summary.cell).in_rounds
        and lookup(summary.cell.spec, "arrival", "kind") not in (None, "closed")
    ]
    late = [one for one in scheduled if one.skipped or one.queued]
    if not late:
        return []
    worst = max(late, key=lambda one: (one.skipped_share, one.response_ns))
    concerned = [one.summary for one in late]
    return [
        Finding(
            kind="late_requests",
            severity="critical" if worst.skipped_share > CRITICAL_SHARE else "warning",
            cells=identities(concerned),
            sentence=f"{_opening(context, concerned, worst)}: {_reported(worst)}.",
            cause=(
                "The target could not keep up with the schedule, all the time or after a stall; "
                "the time from the intended start is what a user of the database would have "
                "waited."
            ),
            evidence={
                "cells_count": len(late),
                "offered_count": sum(one.offered for one in late),
                "late_skipped_count": sum(one.skipped for one in late),
                "late_skipped_share_max": worst.skipped_share,
                "response_p99_ns": worst.response_ns,
                "service_p99_ns": worst.service_ns,
                "rate_per_s": worst.rate_per_s,
            },
            next=(
                "Look for a stall in the timeline; if there is none, lower the rate until the two "
                "percentiles agree: that is what the target carries."
            ),
        )
    ]


def _lateness(summary: CellSummary) -> Lateness:
    return Lateness(
        summary=summary,
        rate_per_s=number(summary.cell.spec, "arrival", "rate_per_s"),
        offered=sum(sample.outcome.offered for sample in summary.samples),
        skipped=sum(sample.outcome.late_skipped for sample in summary.samples),
        response_ns=response_times(summary.samples).percentile_ns(99),
        service_ns=service_times(summary.samples).percentile_ns(99),
    )


def _opening(context: Context, concerned: list[CellSummary], worst: Lateness) -> str:
    opening = f"{context.of_cells(concerned)} could not keep the schedule"
    if len(concerned) == 1:
        return opening
    return f"{opening}; the worst ({format_cell(worst.summary.cell)})"


def _reported(one: Lateness) -> str:
    reported = []
    if one.skipped:
        reported.append(
            f"{format_share(one.skipped_share)} of the requests were skipped as too late"
        )
    if one.queued:
        reported.append(
            f"p99 was {format_duration_ns(one.response_ns)} from the intended start and "
            f"{format_duration_ns(one.service_ns)} from the actual one"
        )
    return ", ".join(reported)
