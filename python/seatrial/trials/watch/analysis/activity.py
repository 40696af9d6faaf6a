"""Block requests of an interval, summed up by whatever is requested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core

if TYPE_CHECKING:
    from seatrial._core import Histogram


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """What was not seen since the start.

    Attributes:
        unmatched: Completions of requests that were issued before the start, or that could not be
            distinguished from another one.
        uncounted: Requests for which the kernel's tables had no room.
        unrecorded: Requests that are counted, but were not read one by one.
        missed: Events that the kernel did not hand over.
        unseen_bytes: What the disks transferred by their own counters beyond what was counted;
            requests that are in flight make it too large or too small for a moment.
    """

    unmatched: int = 0
    uncounted: int = 0
    unrecorded: int = 0
    missed: int = 0
    unseen_bytes: int = 0


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Requests alike in what they are broken down by.

    Attributes:
        disk: Its name in the kernel.
        operation: ``read``, ``write``, ``flush``, ``discard`` or ``other``.
        is_sync: Whether a process waits for them; None where that is unknown.
        length_bytes_min: They are at least so long, and less than twice as long; 0 without data;
            None where requests of several lengths are together.
        pid: Process that sent them; 0 where that is unknown or they are of several.
        process: Its name; empty where that is unknown.
        relation: Table, index or other part of a database; empty where that is not requested.
        client: Whose process it is in a measurement, such as its load engine; empty where that is
            unknown or nothing is measured.
        requests: Completed requests.
        failed: Requests that failed, which are among them.
        transferred_bytes: Their bytes.
        device_ns_sum: Sum of their times at the device; with those in the queue where only their
            sum is known.
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

    def merged(self, other: Group) -> Group:
        """Return the sum of both, named as this one."""
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
``group_requests``: per second, of the control group that is watched; ``run_rate`` (per second) and
``run_p99`` (ns): figures of the test that is measured; ``server_requests``,
``server_buffers``: per second; ``server_ns``: ns of them per second; ``server_wal``: bytes per
second; ``server_waits``: sessions at one moment."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """What completed in an interval.

    Attributes:
        seconds: Its length.
        groups: What completed, in no order.
        lost: What was not seen since the start of the watch.
        ended_at: Its end, as Unix time in seconds; 0 where that is unknown.
        readings: What was read besides.
    """

    seconds: float
    groups: list[Group]
    lost: Lost
    ended_at: float = 0.0
    readings: Readings = {}

    def merged(self, other: Interval) -> Interval:
        """Return both as one; ``other`` is the later one."""
        whole = [*self.groups, *other.groups]
        seconds = self.seconds + other.seconds
        return Interval(
            seconds=seconds,
            groups=broken_down(whole, _KEPT),
            lost=other.lost,
            ended_at=other.ended_at,
        )


OPERATIONS: Final = tuple(_core.WATCHED_OPERATIONS)
NOT_MAPPED: Final = "not mapped"
"""The relation of requests to a place that is no known file's."""
OTHER_PROGRAMS: Final = "other programs"
"""The same, sent by a process that is not the server's."""
BREAKDOWNS: Final[tuple[str, ...]] = (
    *("disk", "operation", "is_sync", "length_bytes_min", "pid", "process", "relation", "client"),
)
"""All that requests can be broken down by."""
_KEPT: Final = tuple(each for each in BREAKDOWNS if each != "pid")
"""What a sum of intervals is divided by: processes of one name are one, however many there were."""
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


def broken_down(groups: Iterable[Group], by: Sequence[str]) -> list[Group]:
    """Return the sums of requests that are alike in the given attributes, the most bytes first."""
    found: dict[tuple[object, ...], list[Group]] = {}
    for each in groups:
        found.setdefault(tuple(getattr(each, name) for name in by), []).append(each)
    others = {name: value for name, value in _UNNAMED.items() if name not in by}
    sums = [msgspec.structs.replace(reduce(Group.merged, own), **others) for own in found.values()]
    return sorted(sums, key=_weight, reverse=True)


def _weight(group: Group) -> tuple[int, int]:
    return group.transferred_bytes, group.requests


def size_class_bytes(length_bytes: int) -> int:
    """Return the highest power of two that a length reaches; 0 for none."""
    return 1 << (length_bytes.bit_length() - 1) if length_bytes else 0
