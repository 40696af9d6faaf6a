"""Finding ``hosts_differ``: the hosts of a cluster are not alike."""

from __future__ import annotations

from collections import Counter

from seatrial.findings.rule import from_hosts
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_size
from seatrial.trials.fleet.analysis.hosts import FleetFacts, HostFacts

MEMORY_UNIT_BYTES = 1 << 30
"""Memory is compared in GiB: firmware takes a part of it that differs."""


_NEXT = {
    "version of Seatrial": "Install the same version on every host: `pip install "
    "'seatrial[ray]'`, then start Ray again there.",
    "version of Python": "Start Ray on every host with the same Python.",
    "kernel": "Boot the same kernel on every host.",
}
"""What to do about software that differs; hardware remains as it is."""


class HostsDifferFigures(Figures, frozen=True, kw_only=True, tag="hosts_differ"):
    what: str
    values: dict[str, str]

    def text(self) -> FindingText:
        (usual, count), *_ = Counter(self.values.values()).most_common(1)
        has_usual = count > 1
        parts = [
            f"{host} has {value}"
            for host, value in self.values.items()
            if not (has_usual and value == usual)
        ]
        if has_usual:
            parts.append(f"the others have {usual}")
        return FindingText(
            sentence=f"The hosts differ in {self.what}: {'; '.join(parts)}.",
            cause="The hosts were not set up alike; why is not known from here.",
            next=_NEXT.get(
                self.what,
                "Compare only hosts that are alike, or take a difference between their rates as "
                "one of their processors and memory, too.",
            ),
        )


@from_hosts(rank=1010, section="Hosts of a cluster")
def hosts_differ(facts: FleetFacts) -> list[Finding]:
    """Find hosts with other versions, processors or memory than the rest.

    Means:
        The hosts are not alike, so a slower one need not be slow because of its storage.

    Decided:
        More than one value of the same fact among all hosts. Version of Seatrial: critical;
        kernel, processor, number of processors, memory (in GiB): warning; version of Python: note.

    Do:
        Make them alike, or leave out those that differ.
    """
    found = []
    for what, severity, value_of in _FACTS:
        values = {host.name: value_of(host) for host in facts.hosts}
        if len({*values.values()}) > 1:
            figures = HostsDifferFigures(what=what, values=values)
            found.append(Finding(severity=severity, cells=[], figures=figures))
    return found


def _memory(host: HostFacts) -> str:
    size_bytes = host.fingerprint.machine.memory_bytes or 0
    return format_size(round(size_bytes / MEMORY_UNIT_BYTES) * MEMORY_UNIT_BYTES)


_FACTS = (
    ("version of Seatrial", "critical", lambda host: host.seatrial),
    ("kernel", "warning", lambda host: host.fingerprint.machine.kernel or "unknown"),
    ("processor", "warning", lambda host: host.fingerprint.machine.cpu_model or "unknown"),
    ("number of processors", "warning", lambda host: str(host.cpus)),
    ("memory", "warning", _memory),
    ("version of Python", "note", lambda host: host.python),
)
