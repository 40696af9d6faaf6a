"""Block requests of an interval, summed by any of their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.grouping import grouped

if TYPE_CHECKING:
    from seatrial._core import Histogram


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and events that were lost since the start.

    Attributes:
        unmatched: Completions of requests that were issued before the start, or that could not be
            distinguished from another one.
        uncounted: Requests for which the kernel's tables had no space.
        unrecorded: Requests that were counted but not recorded individually.
        missed: Events that the kernel did not deliver.
        unseen_bytes: Bytes that the disks transferred by their own counters in excess of the
            counted ones; requests in flight distort it temporarily.
        counted_bytes: The counted ones, of all processes; 0 where that is unknown.
    """

    unmatched: int = 0
    uncounted: int = 0
    unrecorded: int = 0
    missed: int = 0
    unseen_bytes: int = 0
    counted_bytes: int = 0

    @property
    def unseen_share(self) -> float:
        """Share of the bytes that were not seen; 1 where the counted bytes are unknown."""
        return self.unseen_bytes / max(1, self.counted_bytes + self.unseen_bytes)


class RequestGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Requests with equal values of some attributes.

    Attributes:
        disk: Name of the disk in the kernel.
        operation: ``read``, ``write``, ``flush``, ``discard`` or ``other``.
        is_sync: Whether a process waits for them; None where that is unknown.
        length_bytes_min: Lower end of their size class: each is less than twice as long; 0 without
            data; None if several classes are summed.
        pid: Process that issued them; 0 where that is unknown or there are several.
        process: Its name; empty where that is unknown.
        relation: Table, index or other part of a database; empty where that is not requested.
        client: Role of the process in a measurement, such as the load engine; empty where that is
            unknown or nothing is measured.
        requests: Completed requests, including failed ones.
        failed: Failed requests.
        transferred_bytes: Bytes transferred.
        device_ns_sum: Sum of their times at the device, including those in the queue where only the
            sum of both is known.
        queued: Requests whose time in the queue is known.
        queue_ns_sum: Sum of these times.
        device: Times at the device; None where only the mean is known.
        queue: Times in the queue.
    """

    disk: str
    operation: str
    is_sync: bool | None = None
    length_bytes_min: int | None = None
    pid: int = 0
    process: str = ""
    relation: str = ""
    client: str = ""
    requests: int
    failed: int = 0
    transferred_bytes: int
    device_ns_sum: int
    queued: int = 0
    queue_ns_sum: int = 0
    device: Histogram | None = None
    queue: Histogram | None = None

    def merged(self, other: RequestGroup) -> RequestGroup:
        """Return the sum of both, with the attributes of this one."""
        return msgspec.structs.replace(
            self,
            requests=self.requests + other.requests,
            failed=self.failed + other.failed,
            transferred_bytes=self.transferred_bytes + other.transferred_bytes,
            device_ns_sum=self.device_ns_sum + other.device_ns_sum,
            queued=self.queued + other.queued,
            queue_ns_sum=self.queue_ns_sum + other.queue_ns_sum,
            device=_both(self.device, other.device),
            queue=_both(self.queue, other.queue),
        )


def _both(one: Histogram | None, other: Histogram | None) -> Histogram | None:
    return one.merged(other) if one is not None and other is not None else None


Readings = Mapping[str, Mapping[str, float]]
"""Values by panel and name. ``pressure``: shares of the time; ``group_bytes`` and
``group_requests``: per second, of the observed control group; ``run_rate`` (per second) and
``run_p99`` (ns): figures of the current test; ``server_requests``, ``server_buffers``: per second;
``server_ns``: their time in ns per second; ``server_wal``: bytes per second; ``server_waits``:
sessions at one time."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that completed in an interval.

    Attributes:
        seconds: Its length.
        groups: The completed requests, unordered.
        lost: Losses since the start of the observation.
        ended_at: Its end, as Unix time in seconds; 0 where that is unknown.
        readings: Other readings.
    """

    seconds: float
    groups: list[RequestGroup]
    lost: Losses
    ended_at: float = 0.0
    readings: Readings = {}

    def merged(self, other: Interval) -> Interval:
        """Return both as one; ``other`` is the later one."""
        return Interval(
            seconds=self.seconds + other.seconds,
            groups=broken_down([*self.groups, *other.groups], _KEPT),
            lost=other.lost,
            ended_at=other.ended_at,
        )


OPERATIONS: Final = tuple(_core.WATCHED_OPERATIONS)
TRANSFERS: Final = ("read", "write")
"""Operations that transfer data, to or from an address."""
NOT_MAPPED: Final = "not mapped"
"""The relation of requests to a block that belongs to no known file."""

OTHER_PROGRAMS: Final = "other programs"
"""The relation of such requests that were issued by a process other than the server's."""
BREAKDOWNS: Final[tuple[str, ...]] = (
    *("disk", "operation", "is_sync", "length_bytes_min", "pid", "process", "relation", "client"),
)
"""All attributes by which requests can be broken down."""

_KEPT: Final = tuple(each for each in BREAKDOWNS if each != "pid")
"""Attributes kept in a sum of intervals: processes of one name are merged."""
_UNNAMED: Final[Mapping[str, object]] = {
    "is_sync": None,
    "length_bytes_min": None,
    "pid": 0,
    "process": "",
    "relation": "",
    "client": "",
    "disk": "",
    "operation": "",
}


def broken_down(groups: Iterable[RequestGroup], by: Sequence[str]) -> list[RequestGroup]:
    """Return the sums of requests with equal values of the given attributes, most bytes first."""
    found = grouped(groups, lambda each: tuple(getattr(each, name) for name in by))
    others = {name: value for name, value in _UNNAMED.items() if name not in by}
    sums = [
        msgspec.structs.replace(reduce(RequestGroup.merged, own), **others)
        for own in found.values()
    ]
    return sorted(sums, key=_weight, reverse=True)


def _weight(group: RequestGroup) -> tuple[int, int]:
    return group.transferred_bytes, group.requests


def size_class_bytes(length_bytes: int) -> int:
    """Return the largest power of two that is at most a length; 0 for 0."""
    return 1 << (length_bytes.bit_length() - 1) if length_bytes else 0
