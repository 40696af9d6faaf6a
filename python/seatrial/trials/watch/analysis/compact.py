"""The compact form of an interval for the live page, which can still be broken down.

Latencies are counted in rows, sixteen for each doubling: row ``r`` covers ``2 ** (r / 16)`` ns to
``2 ** ((r + 1) / 16)`` ns, which is 4.4 %. Everything on the page is a sum of these counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.trials.watch.analysis.activity import (
    Interval,
    Losses,
    Readings,
    RequestGroup,
    broken_down,
)

if TYPE_CHECKING:
    from seatrial._core import Histogram
    from seatrial.trials.watch.analysis.headroom import Headroom

ROWS_PER_DOUBLING: Final = 16
GROUPS_MAX: Final = 400
"""Maximum groups of an interval; further ones are summed by disk, operation and client."""

OTHERS: Final = "others"
"""Process and relation of the summed groups."""
_BY: Final = ("disk", "operation", "is_sync", "length_bytes_min", "process", "relation", "client")


class CompactGroup(msgspec.Struct, frozen=True, array_like=True):
    """A group of requests; texts are indices in the interval's list of names.

    Attributes:
        disk: Name of the disk.
        operation: The operation.
        sync: 1 if a process waits for them, 0 if not, -1 where that is unknown.
        length_bytes_min: Lower end of the size class; -1 where that is unknown.
        process: Name of the process.
        relation: Table, index or other part of a database.
        client: Role of the process in a measurement.
        requests: Completed requests.
        failed: Failed requests.
        transferred_bytes: Bytes transferred.
        device_ns_sum: Sum of the times at the device.
        queued: Requests whose time in the queue is known.
        queue_ns_sum: Sum of these times.
        max_ns: The longest time at the device; 0 where that is unknown.
        rows: Alternating rows and counts of the times at the device; empty where only the sum is
            known.
    """

    disk: int
    operation: int
    sync: int
    length_bytes_min: int
    process: int
    relation: int
    client: int
    requests: int
    failed: int
    transferred_bytes: int
    device_ns_sum: int
    queued: int
    queue_ns_sum: int
    max_ns: int
    rows: list[int]


class CompactInterval(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that completed in an interval.

    Attributes:
        at: Its end, as Unix time in seconds.
        seconds: Its length.
        names: All texts of its groups.
        groups: The completed requests.
        lost: Losses since the start of the observation.
        in_flight: Mean number of requests in flight, by disk.
        cost: Share of one processor that this program used in the interval.
        readings: Other readings.
        headroom: The load of each disk on its load line, as sentences.
    """

    at: float
    seconds: float
    names: list[str]
    groups: list[CompactGroup]
    lost: Losses
    in_flight: Mapping[str, float]
    cost: float
    readings: Readings
    headroom: list[str]


def compact(
    interval: Interval,
    in_flight: Mapping[str, float],
    cost: float,
    headroom: Iterable[Headroom] = (),
) -> CompactInterval:
    """Return the compact form of an interval.

    Args:
        interval: The interval.
        in_flight: Mean number of requests in flight, by disk.
        cost: Share of one processor that this program used.
        headroom: Headroom of the disks.
    """
    names: dict[str, int] = {}
    groups = [_group(each, names) for each in bounded(broken_down(interval.groups, _BY))]
    return CompactInterval(
        at=round(interval.ended_at, 3),
        seconds=round(interval.seconds, 4),
        names=list(names),
        groups=groups,
        lost=interval.lost,
        in_flight={name: round(mean, 2) for name, mean in in_flight.items()},
        cost=round(cost, 4),
        readings=interval.readings,
        headroom=[each.text for each in headroom],
    )


def bounded(groups: Sequence[RequestGroup]) -> list[RequestGroup]:
    """Return at most ``GROUPS_MAX`` groups and the sums of the others; all requests are counted."""
    first, rest = groups[:GROUPS_MAX], groups[GROUPS_MAX:]
    sums = broken_down(rest, ("disk", "operation", "client"))
    named = [msgspec.structs.replace(each, process=OTHERS, relation=OTHERS) for each in sums]
    return [*first, *named]


def _group(group: RequestGroup, names: dict[str, int]) -> CompactGroup:
    def index(text: str) -> int:
        return names.setdefault(text, len(names))

    return CompactGroup(
        disk=index(group.disk),
        operation=index(group.operation),
        sync=-1 if group.is_sync is None else int(group.is_sync),
        length_bytes_min=-1 if group.length_bytes_min is None else group.length_bytes_min,
        process=index(group.process),
        relation=index(group.relation),
        client=index(group.client),
        requests=group.requests,
        failed=group.failed,
        transferred_bytes=group.transferred_bytes,
        device_ns_sum=group.device_ns_sum,
        queued=group.queued,
        queue_ns_sum=group.queue_ns_sum,
        max_ns=group.device.max_ns if group.device is not None else 0,
        rows=_rows(group.device),
    )


def _rows(times: Histogram | None) -> list[int]:
    if times is None or not times.count:
        return []
    lowers, uppers, counts = times.buckets()
    found: dict[int, int] = {}
    for lower, upper, count in zip(lowers, uppers, counts, strict=True):
        row = _row((lower + upper) // 2)
        found[row] = found.get(row, 0) + count
    return [each for pair in found.items() for each in pair]


@lru_cache(maxsize=1 << 14)
def _row(time_ns: int) -> int:
    return math.floor(math.log2(max(1, time_ns)) * ROWS_PER_DOUBLING)
