"""fio's latencies as ours: bins to a histogram, or what fio printed where there are none.

fio counts ``slat`` to the submission, ``clat`` from there to the completion, and ``lat`` over
both. Our response time is ``lat``; fio has bins of it only with ``lat_percentiles=1``, so ``clat``
stands in elsewhere. A bin is known by the middle of its bucket, 1.6 % wide (FIO_IO_U_PLAT_BITS 6),
and so are percentiles; smallest, largest and mean fio tells exactly, and they are kept so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial._core import Histogram
from seatrial.importers.building import NO_LATENCIES
from seatrial.importers.fio.document import Direction, Latency
from seatrial.results.model import OperationResult

COUNT_MAX: Final = 2**62
"""More requests than this in one histogram are a damaged file's."""


class Taken(msgspec.Struct, frozen=True):
    """The latency that was taken over.

    Attributes:
        name: ``lat_ns`` or ``clat_ns``; empty where fio measured none.
        latency: It.
        mean_ns_by_name: Means of all three, by name, of those that were measured.
    """

    name: str
    latency: Latency
    mean_ns_by_name: dict[str, float]


def taken(direction: Direction) -> Taken:
    """Return the latency of a direction that says most: bins, else percentiles, else a mean."""
    known = {
        name: latency
        for name in ("lat_ns", "clat_ns")
        if (latency := getattr(direction, name)).count
    }
    means = {
        name: getattr(direction, name).mean
        for name in ("slat_ns", "clat_ns", "lat_ns")
        if getattr(direction, name).count
    }
    for part in ("bins", "percentile", "count"):
        for name, latency in known.items():
            if getattr(latency, part):
                return Taken(name, latency, means)
    return Taken("", Latency(), means)


def merged(latencies: Sequence[Latency]) -> Latency:
    """Return the latency of several threads together; percentiles only out of bins."""
    known = [latency for latency in latencies if latency.count]
    if len(known) == 1:
        return known[0]
    count = sum(latency.count for latency in known)
    bins: Counter[str] = Counter()
    for latency in known:
        bins.update(latency.bins)
    return Latency(
        min=min((latency.min for latency in known), default=0.0),
        max=max((latency.max for latency in known), default=0.0),
        mean=sum(part.mean * part.count for part in known) / count if count else 0.0,
        count=count,
        bins=dict(bins) if all(latency.bins for latency in known) else {},
    )


def merged_directions(directions: Sequence[Direction]) -> Direction:
    """Return one direction of several threads that ran at the same time."""
    return Direction(
        io_bytes=sum(part.io_bytes for part in directions),
        counted_ios=None
        if all(part.counted_ios is None for part in directions)
        else sum(part.total_ios for part in directions),
        runtime_ms=max(part.runtime_ms for part in directions),
        slat_ns=merged([part.slat_ns for part in directions]),
        clat_ns=merged([part.clat_ns for part in directions]),
        lat_ns=merged([part.lat_ns for part in directions]),
    )


def result_of(completed: int, moved_bytes: int, latency: Latency) -> OperationResult:
    """Return what became of one kind of request.

    Args:
        completed: Requests.
        moved_bytes: Bytes that they moved.
        latency: What fio tells of their times.
    """
    histogram = histogram_of(latency)
    return OperationResult(
        completed=completed,
        failed=0,
        transferred_bytes=moved_bytes,
        response=histogram.encode() if histogram else NO_LATENCIES,
        reported_ns=_reported_ns(latency),
    )


def histogram_of(latency: Latency) -> Histogram | None:
    """Return fio's bins as a histogram with fio's exact extremes; None without bins."""
    low_ns, high_ns = round(latency.min), round(latency.max)
    counts: Counter[int] = Counter()
    for middle, count in latency.bins.items():
        # The middle of the outermost buckets may lie beyond what was seen.
        counts[min(max(int(middle), low_ns), max(low_ns, high_ns))] += count
    known = sorted(value_ns for value_ns, count in counts.items() if count)
    if not known or counts.total() > COUNT_MAX:
        return None
    _make_exact(counts, known[-1], high_ns)
    if counts.total() > 1:
        _make_exact(counts, known[0], low_ns)
    values_ns = sorted(counts)
    return Histogram.from_counts(values_ns, [counts[value_ns] for value_ns in values_ns])


def _make_exact(counts: Counter[int], middle_ns: int, exact_ns: int) -> None:
    """Put one request of an outermost bin where fio says that it was."""
    counts[middle_ns] -= 1
    counts[exact_ns] += 1


def _reported_ns(latency: Latency) -> dict[str, float]:
    """Return mean and extremes by name, and the percentiles that fio printed."""
    if not latency.count:
        return {}
    reported = {"mean": latency.mean, "min": latency.min, "max": latency.max}
    if not latency.bins:
        reported |= {f"p{float(percent):g}": ns for percent, ns in latency.percentile.items()}
    return reported
