"""Finding ``clock_not_comparable``: a host's clock cannot be read exactly enough."""

from __future__ import annotations

import statistics

from seatrial.findings.rule import from_hosts
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_ns
from seatrial.trials.fleet.analysis.hosts import FleetFacts

BOUND_NS_MAX = 2_500_000
"""Two hosts so far off start up to 5 ms apart, which is a finding in a study."""
WALL_NS_MAX = 1_000_000_000


class ClockNotComparableFigures(Figures, frozen=True, kw_only=True, tag="clock_not_comparable"):
    """Figures of ``clock_not_comparable``; ``host`` is empty for the machine of the command."""

    host: str
    bound_ns: int | None
    wall_offset_ns: int | None

    def text(self) -> FindingText:
        if self.bound_ns is None:
            return FindingText(
                sentence=f"The clock of {self.host} could not be read.",
                cause="A firewall drops connections between the hosts on free ports.",
                next="Open the ports above 1024 between the hosts (docs/fleet.md).",
            )
        if self.bound_ns > BOUND_NS_MAX:
            return FindingText(
                sentence=f"The clock of {self.host} is known only to within "
                f"{format_duration_ns(self.bound_ns)}, so starts may be up to "
                f"{format_duration_ns(2 * self.bound_ns)} apart.",
                cause="The network to it is slow, or the host is busy.",
                next="Use hosts of one network, and measure when they are idle.",
            )
        if not self.host:
            ahead = "behind" if (self.wall_offset_ns or 0) > 0 else "ahead of"
            return FindingText(
                sentence=f"The time of day of this machine is "
                f"{format_duration_ns(abs(self.wall_offset_ns or 0))} {ahead} that of all hosts.",
                cause="Likely this machine's clock is off, as the hosts agree with each other. "
                "Samples are not affected: they start by the monotonic clock.",
                next="Run chrony or systemd-timesyncd on this machine, so that its logs can be "
                "compared.",
            )
        ahead = "ahead of" if (self.wall_offset_ns or 0) > 0 else "behind"
        return FindingText(
            sentence=f"The time of day of {self.host} is "
            f"{format_duration_ns(abs(self.wall_offset_ns or 0))} {ahead} this machine's.",
            cause="It has no time service, or one that does not work. Samples are not affected: "
            "they start by the monotonic clock.",
            next="Run chrony or systemd-timesyncd there, so that its logs can be compared.",
        )


@from_hosts(rank=1020, section="Hosts of a cluster")
def clock_not_comparable(facts: FleetFacts) -> list[Finding]:
    """Find hosts whose clock is not known well enough for a common start.

    Source: Cristian, Probabilistic clock synchronization, 1989 (half of the shortest round trip
    bounds the error of an offset).

    Means:
        A host's clock is not known well enough. A study starts all hosts at one instant by their
        own clocks; an offset is known to half of the shortest of 100 round trips.

    Decided:
        The clock could not be read, or only to more than 2.5 ms: warning. The time of day is off by
        more than 1 s: note. If all hosts agree within 1 s, this machine is named instead.

    Do:
        Open the ports between the hosts; use hosts of one network; run a time service.
    """
    found = []
    walls_ns = [host.clock.wall_offset_ns for host in facts.hosts if host.clock]
    is_ours = (
        1 < len(walls_ns) == len(facts.hosts)
        and min(map(abs, walls_ns)) > WALL_NS_MAX
        and max(walls_ns) - min(walls_ns) <= WALL_NS_MAX
    )
    if is_ours:
        figures = ClockNotComparableFigures(
            host="", bound_ns=0, wall_offset_ns=int(statistics.median(walls_ns))
        )
        found.append(Finding(severity="note", cells=[], figures=figures))
    for host in facts.hosts:
        bound_ns = host.clock.bound_ns if host.clock else None
        wall_ns = host.clock.wall_offset_ns if host.clock else None
        is_uncertain = bound_ns is None or bound_ns > BOUND_NS_MAX
        if is_uncertain or (abs(wall_ns or 0) > WALL_NS_MAX and not is_ours):
            figures = ClockNotComparableFigures(
                host=host.name, bound_ns=bound_ns, wall_offset_ns=wall_ns
            )
            severity = "warning" if is_uncertain else "note"
            found.append(Finding(severity=severity, cells=[], figures=figures))
    return found
