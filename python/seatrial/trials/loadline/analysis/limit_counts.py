"""What the requests of one sample did against a limit, along its timeline."""

from __future__ import annotations

import math
from collections import defaultdict

import msgspec

from seatrial._core import Histogram
from seatrial.results.model import Sample

CLUSTERS_WANTED = 20
WARM_UP_SHARE = 0.1
"""Of a sample, at its beginning: what a queue takes to fill as it is at other times."""


class LimitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One sample against a limit, in clusters of neighbouring slices of its timeline.

    Its beginning is not counted: a sample begins with an empty queue, which is too good.

    Attributes:
        requests: Requests that ended in each cluster; those that never did, in the last.
        above: How many of them took longer than the limit, failed, or never ended.
        mean_ns: Mean response time of those that ended in each cluster; NaN where none did.
        schedule_s: How long requests came, of what is counted.
        cluster_s: Length of a cluster.
        begins_s: Where the first cluster begins, from the sample's start.
    """

    requests: tuple[int, ...]
    above: tuple[int, ...]
    mean_ns: tuple[float, ...]
    schedule_s: float
    cluster_s: float
    begins_s: float = 0.0

    @property
    def requests_total(self) -> int:
        """All requests of the sample."""
        return sum(self.requests)

    @property
    def above_total(self) -> int:
        """Those that broke the limit."""
        return sum(self.above)

    @property
    def above_share(self) -> float:
        """Share of the requests that broke the limit; 1 where there was none at all."""
        return self.above_total / self.requests_total if self.requests_total else 1.0


def count_against_limit(sample: Sample, limit_ns: int) -> LimitCounts:
    """Return the counts of a sample.

    Neighbouring slices are put together until about twenty clusters are left, so that what one
    queue does to the next request mostly stays within a cluster.
    """
    slice_ns = sample.timeline.slice_ns
    schedule_s = float(sample.cell.spec["limit"]["duration_s"])
    skipped = math.floor(schedule_s * WARM_UP_SHARE * 1e9 / slice_ns + 1e-9)
    slices = max(1, math.ceil(sample.duration_s * 1e9 / slice_ns) - skipped)
    together = max(1, slices // CLUSTERS_WANTED)
    merged: dict[int, Histogram] = defaultdict(lambda: Histogram.of([]))
    for part in sample.timeline.slices:
        if part.index >= skipped:
            place = (part.index - skipped) // together
            merged[place] = merged[place].merged(Histogram.decode(part.response))
    count = max(math.ceil(slices / together), 1 + max(merged, default=0))
    parts = [merged[place] for place in range(count)]
    requests = [part.count for part in parts]
    above = [above_limit(part, limit_ns) for part in parts]
    outcome = sample.outcome
    unanswered = outcome.failed + outcome.late_skipped + outcome.in_flight_at_end
    requests[-1] += unanswered
    above[-1] += unanswered
    return LimitCounts(
        requests=tuple(requests),
        above=tuple(above),
        mean_ns=tuple(part.mean_ns if part.count else math.nan for part in parts),
        schedule_s=schedule_s - skipped * slice_ns / 1e9,
        cluster_s=together * slice_ns / 1e9,
        begins_s=skipped * slice_ns / 1e9,
    )


def above_limit(times: Histogram, limit_ns: int) -> int:
    """Return how many entries are above a limit.

    A bucket counts by its middle, as percentiles are read.
    """
    lows_ns, highs_ns, counts = times.buckets()
    return sum(
        count
        for low_ns, high_ns, count in zip(lows_ns, highs_ns, counts, strict=True)
        if (low_ns + high_ns) / 2 > limit_ns
    )
