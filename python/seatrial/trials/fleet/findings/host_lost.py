"""Finding ``host_lost``: a host did not finish its part of a sample."""

from __future__ import annotations

from typing import Annotated

from seatrial.findings.context import Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_cell, format_duration_s
from seatrial.study.cell import Cell

_HOW = {
    "died": "died",
    "unreachable": "became unreachable",
    "silent": "fell silent",
    "failed": "failed",
}
_CAUSES = {
    "died": "The host, its memory or its Ray daemons failed.",
    "unreachable": "The host or its network failed.",
    "silent": "The host was stopped or its network was cut, or its target hangs.",
    "failed": "The target or the engine refused on that host.",
}


class HostLostFigures(Figures, frozen=True, kw_only=True, tag="host_lost"):
    host: str
    how: str
    noticed_s: float
    round: int
    planned_hosts: int
    left_hosts: int
    detail: str
    cell: Annotated[Cell, HIDDEN]

    def text(self) -> FindingText:
        detail = f" ({self.detail})" if self.detail else ""
        return FindingText(
            sentence=f"{self.host} {_HOW[self.how]}{detail} in round {self.round + 1} of "
            f"{format_cell(self.cell)}, noticed {format_duration_s(self.noticed_s)} after the "
            f"start; the sample is the sum of {self.left_hosts} of {self.planned_hosts} hosts and "
            "is not combined with the others.",
            cause=_CAUSES[self.how],
            next="Run `seatrial fleet check --ray ADDRESS`, bring the host back, and continue "
            "with --resume.",
        )

    def in_short(self, cells_count: int) -> str:
        del cells_count
        return f"{self.host} {_HOW[self.how]}"


@from_samples(rank=5, section="Hosts of a cluster", sees_faults=True, sees_replays=True)
def host_lost(context: Context) -> list[Finding]:
    """Find hosts that did not finish their part of a sample.

    Means:
        A host died, was cut off or failed while several measured together. What the others measured
        is kept as a test of its own (`lost_hosts`), and never averaged with samples of all hosts.

    Decided:
        The host's process or node ended, its connection broke, its kernel answered no heartbeat
        for 4 s, its part raised an error, or no result came within 15 s after the planned end of
        the sample. Critical.

    Do:
        Bring the host back, and continue with --resume.
    """
    return [
        Finding(
            severity="critical",
            cells=identities([summary]),
            figures=HostLostFigures(
                host=lost.name,
                how=lost.how,
                noticed_s=lost.noticed_s,
                round=sample.round,
                planned_hosts=sample.fleet.planned_hosts,
                left_hosts=len(sample.fleet.hosts),
                detail=lost.detail,
                cell=summary.cell,
            ),
        )
        for summary in context.cells
        for sample in summary.samples
        if sample.fleet
        for lost in sample.fleet.lost
    ]
