"""Merges the samples of several hosts: counts over the common window, never percentiles.

The common window begins with the latest start and ends with the earliest end. Slices of the
timelines at the same time on the common axis are added; their starts differ as those of the hosts
do. Percentiles are computed from the sum. Addition is exact, so the order of the hosts does not
matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from seatrial import _core
from seatrial.grouping import grouped
from seatrial.results.model import OperationResult, Slice, Timeline


class HostSample(msgspec.Struct, frozen=True, kw_only=True):
    """The sample of one host.

    Attributes:
        name: The host.
        start_ns: Its start on the common axis, the monotonic clock of the controlling machine.
        end_ns: When it stopped starting requests, on the same axis.
        timeline: Its completions over time.
    """

    name: str
    start_ns: int
    end_ns: int
    timeline: Timeline


class WindowPart(msgspec.Struct, frozen=True, kw_only=True):
    """The share of one host in the common window.

    Attributes:
        completed: Requests by operation.
        transferred_bytes: Their bytes, by operation.
        responses: Their response times by operation.
        per_slice: Requests in each slice.
    """

    completed: dict[str, int]
    transferred_bytes: dict[str, int]
    responses: dict[str, _core.Histogram]
    per_slice: list[int]


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """The sum over hosts in the common window.

    Attributes:
        start_ns: The latest start.
        duration_ns: Length of the window: whole slices.
        operations: The sums by operation; failures are not counted here.
        timeline: The sums by slice.
        parts: Parts of each host, by name.
        unaligned_ns_max: Maximum difference of the starts of added slices.
    """

    start_ns: int
    duration_ns: int
    operations: dict[str, OperationResult]
    timeline: Timeline
    parts: dict[str, WindowPart]
    unaligned_ns_max: int


def merge(samples: Sequence[HostSample], unrated_kind: str = "") -> Merged:
    """Return the sum over hosts in their common window.

    Args:
        samples: Those of the hosts.
        unrated_kind: Kind of operation that the parts of hosts leave out: syncs of writes.

    Raises:
        ValueError: without a host.
    """
    if not samples:
        raise ValueError("there is nothing to merge")
    slice_ns = max(each.timeline.slice_ns for each in samples)
    start_ns = max(each.start_ns for each in samples)
    skips = {each.name: round((start_ns - each.start_ns) / slice_ns) for each in samples}
    count = min((e.end_ns - e.start_ns) // slice_ns - skips[e.name] for e in samples)
    count = max(count, 0)
    # Sorted by name, so that equal input in any order gives equal bytes.
    in_order = sorted(samples, key=lambda each: each.name)
    windows = {e.name: _window(e.timeline, slice_ns, skips[e.name], count) for e in in_order}
    slices = _add_slices([part for window in windows.values() for part in window])
    return Merged(
        start_ns=start_ns,
        duration_ns=count * slice_ns,
        operations=_operations(slices),
        timeline=Timeline(slice_ns=slice_ns, slices=slices),
        parts={
            name: _window_part([e for e in window if e.operation != unrated_kind], count)
            for name, window in windows.items()
        },
        unaligned_ns_max=max(
            abs(e.start_ns + skips[e.name] * slice_ns - start_ns) for e in samples
        ),
    )


def _window(timeline: Timeline, slice_ns: int, skip: int, count: int) -> list[Slice]:
    """Return the slices of a window, indexed from its start, of length ``slice_ns``."""
    factor = slice_ns // timeline.slice_ns
    moved = (
        msgspec.structs.replace(each, index=each.index // factor - skip) for each in timeline.slices
    )
    return _add_slices(each for each in moved if 0 <= each.index < count)


def _add_slices(slices: Iterable[Slice]) -> list[Slice]:
    """Add the slices of the same time and operation; in order."""
    same = grouped(slices, lambda each: (each.index, each.operation))
    return [_sum(same[key]) for key in sorted(same)]


def _sum(slices: Sequence[Slice]) -> Slice:
    if len(slices) == 1:
        return slices[0]
    return Slice(
        index=slices[0].index,
        operation=slices[0].operation,
        completed=sum(each.completed for each in slices),
        transferred_bytes=sum(each.transferred_bytes for each in slices),
        response=_histogram(slices).encode(),
    )


def _histogram(slices: Iterable[Slice]) -> _core.Histogram:
    total = _core.Histogram.of([])
    for each in slices:
        total = total.merged(_core.Histogram.decode(each.response))
    return total


def _by_operation(slices: Iterable[Slice]) -> Mapping[str, list[Slice]]:
    return grouped(slices, lambda each: each.operation)


def _operations(slices: Iterable[Slice]) -> dict[str, OperationResult]:
    return {
        operation: OperationResult(
            completed=sum(each.completed for each in operation_slices),
            failed=0,
            transferred_bytes=sum(each.transferred_bytes for each in operation_slices),
            response=_histogram(operation_slices).encode(),
        )
        for operation, operation_slices in sorted(_by_operation(slices).items())
    }


def _window_part(slices: Sequence[Slice], count: int) -> WindowPart:
    by_operation = _by_operation(slices)
    per_slice = Counter[int]()
    for each in slices:
        per_slice[each.index] += each.completed
    return WindowPart(
        completed={
            name: sum(e.completed for e in operation_slices)
            for name, operation_slices in by_operation.items()
        },
        transferred_bytes={
            name: sum(each.transferred_bytes for each in operation_slices)
            for name, operation_slices in by_operation.items()
        },
        responses={
            name: _histogram(operation_slices) for name, operation_slices in by_operation.items()
        },
        per_slice=[per_slice[index] for index in range(count)],
    )
