"""Result of a check of the hosts of a cluster: pure data, which the rules read."""

from __future__ import annotations

from typing import Annotated

import msgspec

from seatrial.fingerprint import Fingerprint
from seatrial.published import AS_KEPT, Amount, Count, one_of
from seatrial.results.fleet import ClockOffset, Reachability, Throughput
from seatrial.stats.model import Finding


class HostFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One host.

    Attributes:
        name: Its own name, with its address where several have the same.
        address: In the cluster's network.
        is_head: Whether the cluster's own daemons run there.
        ray_cpus: Processors that the cluster may use there.
        seatrial: Version of Seatrial.
        python: Version of Python.
        load_per_cpu: Runnable tasks of the last minute for each processor.
        clock: Its clocks against those of the controlling machine; None if it did not answer.
        reached: State of each named path or address.
        to_head: Throughput to the first host; None on that host, or without a connection.
        obstacle: Why there is no connection to the first host; empty otherwise.
        fingerprint: Fingerprint of the machine, and of the first named path.
        findings: About this host alone.
    """

    name: str
    address: str
    is_head: bool
    ray_cpus: Amount
    seatrial: str
    python: str
    load_per_cpu: Amount
    clock: ClockOffset | None
    reached: list[Reachability]
    to_head: Throughput | None
    obstacle: str
    fingerprint: Annotated[Fingerprint, AS_KEPT]
    findings: list[Finding]

    @property
    def cpus(self) -> int:
        """Processors online; 0 if unknown."""
        return self.fingerprint.machine.cpus_online or 0


class HostAbsent(msgspec.Struct, frozen=True, kw_only=True):
    """A host in Ray's list on which our actor does not run.

    Attributes:
        name: Its name.
        how: ``died``, ``unreachable``, ``silent`` or ``failed``.
        waited_s: Waiting time until it was given up.
        detail: Message of Ray or of the error.
    """

    name: str
    how: Annotated[str, one_of("died", "unreachable", "silent", "failed")]
    waited_s: Amount
    detail: str


class FleetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts of a cluster.

    Attributes:
        address: Address of the head.
        ray: Version of Ray.
        hosts: The head first, then by address.
        absent: Hosts on which our actor does not run.
        connected_s: Duration of connecting.
        started_s: Duration of starting our actor on all hosts.
        listed_hosts_count: Number of hosts in Ray's list.
    """

    address: str
    ray: str
    hosts: list[HostFacts]
    absent: list[HostAbsent]
    connected_s: Amount
    started_s: Amount
    listed_hosts_count: Count
