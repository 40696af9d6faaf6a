"""An interval as the page gets it: short, and still divisible by all that requests differ in.

Latencies are counted in rows of a sixteenth of a doubling: row ``r`` covers ``2 ** (r / 16)`` ns up
to the same of ``r + 1``, which is 4.4 %. Whatever the page shows is a sum of these counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.trials.watch.analysis.activity import (
    Group,
    Interval,
    Lost,
    Readings,
    broken_down,
)

if TYPE_CHECKING:
    from seatrial._core import Histogram
    from seatrial.trials.watch.analysis.headroom import Headroom

ROWS_PER_DOUBLING: Final = 16
GROUPS_MAX: Final = 400
"""Groups of an interval; what comes after them is summed up by disk, operation and client."""
OTHERS: Final = "others"
"""Process and relation of what is summed up."""
_BY: Final = ("disk", "operation", "is_sync", "length_bytes_min", "process", "relation", "client")


class CompactGroup(msgspec.Struct, frozen=True, array_like=True):
    """Requests that are alike; texts are places in the interval's list of names.

    Attributes:
        disk: Its name.
        operation: What they did.
        sync: 1 if a process waits for them, 0 if not, -1 where that is unknown.
        length_bytes_min: At least so long, and less than twice as long; -1 where that is unknown.
        process: Name of the process.
        relation: Table, index or other part of a database.
        client: Whose process it is in a measurement.
        requests: Completed requests.
        failed: Those that failed.
        transferred_bytes: Their bytes.
        device_ns_sum: Sum of the times at the device.
        queued: Requests whose time in the queue is known.
        queue_ns_sum: Sum of these times.
        max_ns: The longest time at the device; 0 where that is unknown.
        rows: Rows and counts of the times at the device in turn; empty where only the sum is known.
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
    """What completed in an interval.

    Attributes:
        at: Its end, as Unix time in seconds.
        seconds: Its length.
        names: All texts of its groups.
        groups: What completed.
        lost: What was not seen since the start of the watch.
        in_flight: Mean of the requests in flight, by disk.
        cost: Share of one processor that this program used, in the interval.
        readings: What was read besides.
        headroom: The load of each disk on its load line, in a sentence each.
    """

    at: float
    seconds: float
    names: list[str]
    groups: list[CompactGroup]
    lost: Lost
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
    """Return an interval as the page gets it.

    Args:
        interval: What completed.
        in_flight: Mean of the requests in flight, by disk.
        cost: Share of one processor that this program used.
        headroom: Of the disks.
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


def bounded(groups: Sequence[Group]) -> list[Group]:
    """Return at most ``GROUPS_MAX`` groups and the sums of the others; no request is left out."""
    first, rest = groups[:GROUPS_MAX], groups[GROUPS_MAX:]
    sums = broken_down(rest, ("disk", "operation", "client"))
    named = [msgspec.structs.replace(each, process=OTHERS, relation=OTHERS) for each in sums]
    return [*first, *named]


def _group(group: Group, names: dict[str, int]) -> CompactGroup:
    def place(text: str) -> int:
        return names.setdefault(text, len(names))

    return CompactGroup(
        disk=place(group.disk),
        operation=place(group.operation),
        sync=-1 if group.is_sync is None else int(group.is_sync),
        length_bytes_min=-1 if group.length_bytes_min is None else group.length_bytes_min,
        process=place(group.process),
        relation=place(group.relation),
        client=place(group.client),
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
