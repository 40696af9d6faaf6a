"""Inspects the hosts of a cluster before a study; writes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.findings.registry import preflight
from seatrial.fleet.cluster import connect
from seatrial.fleet.group import Group, Host, HostLost
from seatrial.results.fleet import ClockOffset, Throughput
from seatrial.trials.fleet.analysis.hosts import FleetFacts, HostAbsent, HostFacts


def inspect_hosts(address: str, targets: Sequence[str]) -> FleetFacts:
    """Return the properties of the hosts of a cluster, and what each reaches.

    Args:
        address: Address of the head.
        targets: Paths and addresses that a study would use.

    Raises:
        ClusterError: when the cluster cannot be used, or our actor starts on no host.
    """
    began_s = time.monotonic()
    with connect(address) as cluster:
        connected_s = time.monotonic() - began_s
        nodes = cluster.nodes()
        with Group(cluster) as group:
            group.start_on_nodes(nodes)
            started_s = time.monotonic() - began_s - connected_s
            hosts, absent = _facts(group, targets)
        return FleetFacts(
            address=cluster.address,
            ray=cluster.ray.__version__,
            hosts=hosts,
            absent=absent,
            connected_s=connected_s,
            started_s=started_s,
            listed_hosts_count=len(nodes),
        )


def _facts(group: Group, targets: Sequence[str]) -> tuple[list[HostFacts], list[HostAbsent]]:
    path = next((target for target in targets if target.startswith("/")), None)
    loads = group.ask("load_per_cpu")
    clocks = group.clocks()
    reached = group.ask("reach", list(targets))
    prints = group.ask("fingerprint", path)
    links = _links(group)
    hosts, absent = [], list(group.missing)
    for host in group.hosts:
        answers = [found[host.name] for found in (loads, reached, prints)]
        lost = next((each for each in answers if isinstance(each, HostLost)), None)
        if lost is not None:
            absent.append(lost)
            continue
        hosts.append(_host_facts(host, answers, clocks, links))
    return hosts, [
        HostAbsent(name=each.host, how=each.how, waited_s=each.noticed_s, detail=each.detail)
        for each in absent
    ]


def _links(group: Group) -> Mapping[str, Throughput | str | HostLost]:
    """Measure the link of each host to the first one, one after another."""
    first, *others = group.hosts
    found: dict[str, Throughput | str | HostLost] = {}
    for host in others:
        found |= group.ask("throughput_to", first.node.address, first.port, hosts=[host])
    return found


def _host_facts(
    host: Host,
    answers: Sequence[Any],
    clocks: Mapping[str, ClockOffset | HostLost],
    links: Mapping[str, Throughput | str | HostLost],
) -> HostFacts:
    load_per_cpu, reached, fingerprint = answers
    clock, link = clocks[host.name], links.get(host.name)
    obstacle = link if isinstance(link, str) else ""
    if isinstance(link, HostLost):
        obstacle = link.detail or link.how
    return HostFacts(
        name=host.name,
        address=host.node.address,
        is_head=host.node.is_head,
        ray_cpus=host.node.cpus,
        seatrial=host.versions["seatrial"],
        python=host.versions["python"],
        load_per_cpu=load_per_cpu,
        clock=clock if isinstance(clock, ClockOffset) else None,
        reached=reached,
        to_head=link if isinstance(link, Throughput) else None,
        obstacle=obstacle,
        fingerprint=fingerprint,
        findings=preflight(fingerprint),
    )
