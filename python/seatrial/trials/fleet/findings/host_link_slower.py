"""Finding ``host_link_slower``: one host's network is slower than that of the others."""

from __future__ import annotations

import statistics

from seatrial.findings.rule import from_hosts
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_rate_bytes
from seatrial.trials.fleet.analysis.hosts import FleetFacts

SHARE_MIN = 0.5
HOSTS_MIN = 3


class HostLinkSlowerFigures(Figures, frozen=True, kw_only=True, tag="host_link_slower"):
    host: str
    bytes_per_s: float
    bytes_per_s_p50: float
    obstacle: str

    def text(self) -> FindingText:
        if self.obstacle:
            return FindingText(
                sentence=f"{self.host} has no connection to the first host: {self.obstacle}.",
                cause="A firewall drops connections between the hosts on free ports.",
                next="Open the ports above 1024 between the hosts (docs/fleet.md).",
            )
        return FindingText(
            sentence=f"The link of {self.host} carried {format_rate_bytes(self.bytes_per_s)}, "
            f"and that of the median host {format_rate_bytes(self.bytes_per_s_p50)}.",
            cause="Its link has a lower speed, is shared, or loses packets.",
            next="Compare `ethtool` and `ip -s link` on both hosts.",
        )


@from_hosts(rank=1030, section="Hosts of a cluster")
def host_link_slower(facts: FleetFacts) -> list[Finding]:
    """Find hosts with a slower link than the others.

    Means:
        This host's network would limit it before the storage does.

    Decided:
        One connection of 0.5 s to the first host carried less than half of the median of at least
        three hosts: warning. No connection at all: critical.

    Do:
        Compare the speed and the errors of its interface with those of another host.
    """
    measured = {h.name: h.to_head.bytes_per_s for h in facts.hosts if h.to_head}
    p50 = statistics.median(measured.values()) if measured else 0.0
    found = []
    for host in facts.hosts:
        rate = measured.get(host.name, 0.0)
        is_slow = len(measured) >= HOSTS_MIN and 0 < rate < SHARE_MIN * p50
        if is_slow or host.obstacle:
            figures = HostLinkSlowerFigures(
                host=host.name, bytes_per_s=rate, bytes_per_s_p50=p50, obstacle=host.obstacle
            )
            severity = "critical" if host.obstacle else "warning"
            found.append(Finding(severity=severity, cells=[], figures=figures))
    return found
