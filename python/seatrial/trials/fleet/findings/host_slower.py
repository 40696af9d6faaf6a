"""Finding ``host_slower``: one host does less than the others."""

from __future__ import annotations

import statistics
from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, identities
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.results.fleet import FleetRecord
from seatrial.stats.model import CellSummary, Figures, Finding, FindingText
from seatrial.stats.wording import format_share

SHARE_MAX: Final = 0.8
HOSTS_MIN: Final = 3
ROUNDS_MIN: Final = 2
CPU_SHARE_MIN: Final = 0.9


class HostSlowerFigures(Figures, frozen=True, kw_only=True, tag="host_slower"):
    host: str
    share_of_median: float
    cpu_share: float
    concerned: Annotated[AffectedCells, HIDDEN]

    def text(self) -> FindingText:
        cause = "Its network, its mount options or its drive are slower than those of the others."
        if self.cpu_share >= CPU_SHARE_MIN:
            cause = f"Its processors are at their limit ({format_share(self.cpu_share)} busy)."
        return FindingText(
            sentence=f"{self.host} reached {format_share(self.share_of_median)} of the rate of the "
            f"median host in {self.concerned}.",
            cause=cause,
            next="Compare it with another host: `seatrial fleet check --ray ADDRESS PATH`.",
        )


@from_samples(rank=657, section="Hosts of a cluster", sees_replays=True)
def host_slower(context: Context) -> list[Finding]:
    """Find hosts that do less than the others in the same samples.

    Means:
        One host limits its own share, by its network, processors or (with files of its own) drive.

    Decided:
        With at least three hosts and two rounds: below 80 % of the hosts' median in every round of
        a test. Warning.

    Do:
        Compare the host with another one.
    """
    slow: dict[str, list[tuple[CellSummary, float, float]]] = {}
    for summary in context.cells:
        records = [s.fleet for s in summary.samples if s.fleet and len(s.fleet.hosts) >= HOSTS_MIN]
        shares = _shares(records)
        for name, values in shares.items():
            if len(values) >= ROUNDS_MIN and max(v for v, _ in values) < SHARE_MAX:
                share = statistics.median(v for v, _ in values)
                cpu_share = statistics.median(c for _, c in values)
                slow.setdefault(name, []).append((summary, share, cpu_share))
    return [
        Finding(
            severity="warning",
            cells=identities(summary for summary, _, _ in found),
            figures=HostSlowerFigures(
                host=name,
                share_of_median=min(share for _, share, _ in found),
                cpu_share=max(cpu_share for _, _, cpu_share in found),
                concerned=context.affected_cells([summary for summary, _, _ in found]),
            ),
        )
        for name, found in slow.items()
    ]


def _shares(records: list[FleetRecord]) -> dict[str, list[tuple[float, float]]]:
    """Return of each host its rates over the median of the hosts, and its processor's share."""
    found: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        median = statistics.median(host.window_completed for host in record.hosts)
        for host in record.hosts if median > 0 else ():
            share = host.window_completed / median
            found.setdefault(host.name, []).append((share, host.cpu_share))
    return found
