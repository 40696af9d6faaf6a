"""Bounds on the hit ratio of other sizes, from the counters of a running server.

A larger cache serves at least as much, and with unequal access frequencies each further byte gains
no more than those before it (the curve is concave). So the present hit ratio bounds that of every
other size from both sides. A load that scans more than its cache breaks the second assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.published import Amount, Count

_FACTORS: Final = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)


class BoundPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds for a size of shared buffers.

    Attributes:
        buffers_bytes: Their size.
        hit_low: Least share of the accesses.
        hit_high: Largest.
    """

    buffers_bytes: Count
    hit_low: Amount
    hit_high: Amount


class BoundRelation(msgspec.Struct, frozen=True, kw_only=True):
    """A table or index of a running server.

    Attributes:
        name: Its name.
        size_bytes: Its size.
        buffered_bytes: Bytes of it in shared buffers; null without pg_buffercache.
        accesses: Accesses while it was sampled.
        hit_share: Share of them served by shared buffers.
    """

    name: str
    size_bytes: Count
    buffered_bytes: Count | None
    accesses: Count
    hit_share: Amount


class CacheBound(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds from the present size.

    Attributes:
        server: Its name and version.
        seconds: Length of the observation.
        present_bytes: Size of its shared buffers.
        data_bytes: Size of the tables and indexes of the database.
        accesses: Page accesses in that time.
        hit_share: Share of them served by shared buffers.
        reads_per_s: Pages that came from the page cache or the storage; null if a transaction was
            open for more than a tenth of the time.
        open_s: Age of the oldest transaction that was open when the observation began or ended: its
            accesses are counted at its end. 0 if there was none.
        read_wait_share: Share of the time of active sessions that was a wait for these; null if the
            server does not time them (track_io_timing).
        gain_ratio_max: Upper limit of the speed-up if no page had to be read; null if unknown, as
            reads_per_s.
        points: By size.
        relations: Those with the most reads, the most first.
    """

    server: str
    seconds: Amount
    present_bytes: Count
    data_bytes: Count
    accesses: Count
    hit_share: Amount
    reads_per_s: Amount | None
    open_s: Amount
    read_wait_share: Amount | None
    gain_ratio_max: Amount | None
    points: list[BoundPoint]
    relations: list[BoundRelation]


def bound_points(present_bytes: int, hit_share: float, data_bytes: int) -> list[BoundPoint]:
    """Return bounds by size: from an eighth of the present size to eight times as much.

    Buffers with room for all data miss first accesses only, so no larger size is listed.
    """
    found = []
    for factor in _FACTORS:
        size = round(present_bytes * factor)
        if factor > 1 and size > 2 * data_bytes:
            break
        scaled = min(1.0, hit_share * factor)
        low, high = sorted((scaled, hit_share))
        found.append(BoundPoint(buffers_bytes=size, hit_low=low, hit_high=high))
    return found


def gain_ratio_max(read_wait_share: float | None) -> float | None:
    """Return the speed-up without waits for pages (Amdahl, 1967).

    None if the share is unknown, or all time was such a wait.
    """
    if read_wait_share is None or read_wait_share >= 1:
        return None
    return 1 / (1 - read_wait_share)


def present_relations(
    grown: Sequence[tuple[str, int, int, int]], buffered: dict[str, int] | None, count: int
) -> list[BoundRelation]:
    """Return the relations with the most reads.

    Args:
        grown: Name, size in bytes, accesses and hits of each while it was sampled.
        buffered: Bytes of each in shared buffers; None if unknown.
        count: Highest number of relations.
    """
    order = sorted(grown, key=lambda each: each[3] - each[2])
    return [
        BoundRelation(
            name=name,
            size_bytes=size_bytes,
            buffered_bytes=None if buffered is None else buffered.get(name, 0),
            accesses=accesses,
            hit_share=hits / accesses,
        )
        for name, size_bytes, accesses, hits in order[:count]
        if accesses
    ]
