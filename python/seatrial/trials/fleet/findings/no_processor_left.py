"""Finding ``no_processor_left``: a cluster may use every processor of a host."""

from __future__ import annotations

from seatrial.findings.rule import from_hosts
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.trials.fleet.analysis.hosts import FleetFacts


class NoProcessorLeftFigures(Figures, frozen=True, kw_only=True, tag="no_processor_left"):
    hosts: list[str]
    cpus: int

    def text(self) -> FindingText:
        return FindingText(
            sentence=f"Ray may use all {self.cpus} processors of {', '.join(self.hosts)}.",
            cause="`ray start` counts them all, and its daemons then wait for the load "
            "generator; it declares hosts dead if their daemons do not answer.",
            next=f"Start Ray there with --num-cpus={max(1, self.cpus - 1)}.",
        )


@from_hosts(rank=1040, section="Hosts of a cluster")
def no_processor_left(facts: FleetFacts) -> list[Finding]:
    """Find hosts of which Ray may use every processor.

    Means:
        No processor is reserved for Ray's own daemons, which answer for the host.

    Decided:
        Ray may use all processors of a host that has more than one. Note.

    Do:
        Keep one free with `ray start --num-cpus`.
    """
    by_count: dict[int, list[str]] = {}
    for host in facts.hosts:
        if 1 < host.cpus <= host.ray_cpus:
            by_count.setdefault(host.cpus, []).append(host.name)
    return [
        Finding(severity="note", cells=[], figures=NoProcessorLeftFigures(hosts=hosts, cpus=cpus))
        for cpus, hosts in by_count.items()
    ]
