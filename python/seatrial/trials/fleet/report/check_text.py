"""The hosts of a cluster as text: a verdict, two tables, findings."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.report.table import Table
from seatrial.stats.model import Finding
from seatrial.stats.wording import (
    format_duration_ns,
    format_plural,
    format_rate_bytes,
    format_size,
)
from seatrial.trials.fleet.analysis.hosts import FleetFacts, HostFacts

NOTHING = "–"


def verdict_line(facts: FleetFacts, findings: Sequence[Finding]) -> str:
    """Return in one line whether a study could run on the hosts."""
    grave = sum(each.severity != "note" for each in findings)
    hosts = format_plural(len(facts.hosts), "host")
    if facts.absent:
        hosts = f"{len(facts.hosts)} of {facts.listed_hosts_count} hosts"
    if grave:
        return f"{hosts}; {format_plural(grave, 'problem')} would distort results."
    return f"{hosts}, ready to measure."


def hosts_table(facts: FleetFacts) -> Table:
    """Return the properties of each host, with its clock and its link."""
    return Table(
        id="hosts",
        title="Hosts",
        labels=1,
        headers=[
            *("host", "address", "CPUs", "memory", "kernel", "load"),
            *("clock", "round trip", "to the first"),
        ],
        rows=[_row(host) for host in facts.hosts],
    )


def _row(host: HostFacts) -> list[str]:
    machine, clock = host.fingerprint.machine, host.clock
    return [
        host.name.partition(" (")[0] + (" head" if host.is_head else ""),
        host.address,
        f"{host.cpus} ({host.ray_cpus:.0f})",
        format_size(machine.memory_bytes) if machine.memory_bytes else NOTHING,
        machine.kernel or NOTHING,
        f"{host.load_per_cpu:.1f}",
        f"± {format_duration_ns(clock.bound_ns)}" if clock else NOTHING,
        format_duration_ns(clock.round_trip_ns_p50) if clock else NOTHING,
        format_rate_bytes(host.to_head.bytes_per_s) if host.to_head else host.obstacle or NOTHING,
    ]


def reach_table(facts: FleetFacts) -> Table | None:
    """Return whether each host can use each named path or address; None without any."""
    rows = [
        [each.target, host.name, *_seen(each.obstacle, each.source, each.filesystem), took]
        for host in facts.hosts
        for each in host.reached
        for took in [format_duration_ns(each.connect_ns) if each.connect_ns else NOTHING]
    ]
    headers = ["path or address", "host", "state", "mounted", "connected in"]
    if not rows:
        return None
    rows.sort(key=lambda row: row[0])
    return Table(id="places", title="Paths and addresses", labels=2, headers=headers, rows=rows)


def _seen(obstacle: str, source: str, filesystem: str) -> tuple[str, str]:
    return obstacle or "usable", f"{source} ({filesystem})" if source else NOTHING


def own_findings(facts: FleetFacts) -> list[tuple[list[str], Finding]]:
    """Return the findings of single hosts, each with the names of its hosts."""
    merged: list[tuple[list[str], Finding]] = []
    for host in facts.hosts:
        for each in host.findings:
            same = next((names for names, other in merged if other.sentence == each.sentence), None)
            if same is None:
                merged.append(([host.name], each))
            else:
                same.append(host.name)
    return merged
