"""Hosts of a cluster: their clocks and links, and what a sample keeps of each of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class ClockOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far another host's clocks are ahead of ours, at one moment.

    Attributes:
        offset_ns: Its monotonic clock minus ours.
        bound_ns: The most by which that may be wrong: half of the shortest round trip.
        wall_offset_ns: Its time of day minus ours; as exact.
        round_trip_ns_p50: Median of all round trips.
        round_trip_ns_min: The shortest one.
        read_at_ns: When it was read, by our monotonic clock.
    """

    offset_ns: int
    bound_ns: int
    wall_offset_ns: int
    round_trip_ns_p50: int
    round_trip_ns_min: int
    read_at_ns: int


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection carried.

    Attributes:
        bytes_per_s: Received by the other side.
        sent_bytes: In total.
    """

    bytes_per_s: float
    sent_bytes: int


class Reachability(msgspec.Struct, frozen=True, kw_only=True):
    """What a host sees at a path or an address.

    Attributes:
        target: The path or address, as given.
        obstacle: Why it cannot be used, as a phrase; empty if it can.
        source: What is mounted there, such as ``server:/export`` or ``/dev/sda1``; empty for an
            address.
        filesystem: Type of the file system; empty for an address.
        mount_options: As mounted.
        is_writable: Whether files can be created there.
        connect_ns: How long an address took to accept a connection; 0 for a path.
    """

    target: str
    obstacle: str = ""
    source: str = ""
    filesystem: str = ""
    mount_options: list[str] = []
    is_writable: bool = False
    connect_ns: int = 0


class HostRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one host in a sample.

    Attributes:
        name: The host.
        address: In the cluster's network.
        started_ns: When it started, after the first host that did, on the common axis. Before the
            agreed instant nothing counts.
        lateness_ns: How long after the agreed instant it started; negative where pgbench loaded the
            server before.
        ended_ns: When its sample ended, on the same axis.
        clock_before: Its clock against ours before the sample.
        clock_after: Afterwards; None if it could not be read any more.
        completed: Requests of its whole sample.
        failed: Requests of its whole sample that failed.
        window_completed: Requests that completed in the common window, without the syncs of
            ``sync_every``.
        window_bytes: Bytes that these transferred.
        responses: Response times in the common window by operation, as encoded histograms.
        completed_per_slice: Requests in each slice of the common window.
        cpu_share: Share of the host's processors that our part used.
        received_bytes_per_s: By the host's network interfaces, whoever caused it.
        sent_bytes_per_s: Likewise.
        mount: What it has mounted at the target's path: source, type, options.
    """

    name: str
    address: str
    started_ns: int
    lateness_ns: int
    ended_ns: int
    clock_before: ClockOffset
    clock_after: ClockOffset | None
    completed: int
    failed: int
    window_completed: int
    window_bytes: int
    responses: dict[str, bytes]
    completed_per_slice: list[int]
    cpu_share: float
    received_bytes_per_s: float
    sent_bytes_per_s: float
    mount: str = ""


class LostHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host that did not finish its part of a sample.

    Attributes:
        name: The host.
        how: ``died`` where its process or node ended, ``unreachable`` where Ray's connection
            broke, ``silent`` where its kernel answered no heartbeat or nothing came in time,
            ``failed`` where its part ended with an error.
        noticed_s: When that was noticed, after the agreed start.
        detail: Ray's words, or those of the error.
    """

    name: str
    how: str
    noticed_s: float
    detail: str = ""


def skew_bound_ns(hosts: Iterable[HostRecord]) -> int:
    """Return by how much two starts may be wrongly apart (ns): the two largest bounds of clocks."""
    bounds_ns = sorted(each.clock_before.bound_ns for each in hosts)
    return sum(bounds_ns[-2:]) if len(bounds_ns) > 1 else 0


class FleetRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a sample that several hosts measured together.

    The sample's figures are of the common window alone: from the latest start to the earliest end,
    in whole slices of the timeline.

    Attributes:
        hosts: The hosts whose parts are in the sample.
        lost: Hosts whose part is missing.
        planned_hosts: How many hosts were to take part.
        on_loss: The study's rule: ``stop`` or ``continue``.
        skew_ns: From the first start to the last one.
        skew_bound_ns: The most by which that may be wrong: the two largest bounds of clocks.
        unaligned_ns_max: The most by which slices that are added are apart.
        outside_completed: Requests that completed outside of the common window.
    """

    hosts: list[HostRecord]
    lost: list[LostHost] = []
    planned_hosts: int
    on_loss: str
    skew_ns: int
    skew_bound_ns: int
    unaligned_ns_max: int
    outside_completed: int

    @property
    def ends_run(self) -> bool:
        """Whether the run ends with this sample, because a host was lost."""
        return bool(self.lost) and self.on_loss == "stop"
