"""Hosts of a cluster: their clocks and links, and what a sample keeps of each of them."""

from __future__ import annotations

import msgspec


class ClockOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far another host's clocks are ahead of ours, at one moment.

    Attributes:
        offset_ns: Its monotonic clock minus ours.
        bound_ns: The most by which that may be wrong: half of the shortest round trip.
        wall_offset_ns: Its time of day minus ours; as exact.
        round_trip_ns_p50: Of all round trips.
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


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """What a host sees at a path or an address.

    Attributes:
        place: The path or address, as given.
        obstacle: Why it cannot be used, as a phrase; empty where it can.
        source: What is mounted there, such as ``server:/export`` or ``/dev/sda1``; empty for an
            address.
        filesystem: Type of the file system; empty for an address.
        mount_options: As mounted.
        is_writable: Whether files can be created there.
        connect_ns: How long an address took to accept a connection; 0 for a path.
    """

    place: str
    obstacle: str = ""
    source: str = ""
    filesystem: str = ""
    mount_options: list[str] = []
    is_writable: bool = False
    connect_ns: int = 0
