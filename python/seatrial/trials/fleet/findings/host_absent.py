"""Finding ``host_absent``: a host of a cluster does not run our actor."""

from __future__ import annotations

from seatrial.findings.rule import from_hosts
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_s
from seatrial.trials.fleet.analysis.hosts import FleetFacts

_CAUSES = {
    "failed": "Seatrial is missing in the Python that runs Ray there, or has another version",
    "died": "The host left the cluster, or its memory is full and Ray ended Seatrial on it",
    "unreachable": "Its daemons were stopped, or the network to it failed",
    "silent": "The host is overloaded or stopped, or a firewall drops the ports of Ray's workers",
}


class HostAbsentFigures(Figures, frozen=True, kw_only=True, tag="host_absent"):
    host: str
    how: str
    waited_s: float
    detail: str

    def text(self) -> FindingText:
        detail = f": {self.detail.rstrip('.')}" if self.detail else ""
        return FindingText(
            sentence=f"{self.host} does not take part ({self.how} after "
            f"{format_duration_s(self.waited_s)}){detail}.",
            cause=f"{_CAUSES[self.how]}.",
            next="Run `pip install 'seatrial[ray]'` there before `ray start`, and see "
            "docs/fleet.md for the ports.",
        )


@from_hosts(rank=1000, section="Hosts of a cluster")
def host_absent(facts: FleetFacts) -> list[Finding]:
    """Find hosts that Ray lists, and on which our actor does not run.

    Means:
        A study could not use this host.

    Decided:
        Ray lists the host, and our actor did not start or answer there. Critical.

    Do:
        Install the same version of Seatrial on every host, and open the ports of Ray's workers.
    """
    return [
        Finding(
            severity="critical",
            cells=[],
            figures=HostAbsentFigures(
                host=each.name, how=each.how, waited_s=each.waited_s, detail=each.detail
            ),
        )
        for each in facts.absent
    ]
