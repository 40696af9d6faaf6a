"""The running phase of a sample: the rest after a significant start-up phase, if any.

uFLIP (Bouganim, Jonsson and Bonnet, CIDR 2009, "uFLIP: Understanding flash I/O patterns", section
4) found that the first requests of a pattern may cost far less or more than all later ones, and
that a mean over both describes neither. So the start-up phase is excluded by a rule that is fixed
before anything is measured (docs/method.md, "Start-up and running phase"), figures are of the
running phase, and the finding ``start_up_phase`` reports what was excluded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from seatrial._core import Histogram
from seatrial.results.model import Sample, merged_histogram
from seatrial.stats.model import is_broken
from seatrial.stats.steady.change_points import (
    CHANCE_MAX,
    STRETCH_MIN,
    change_points,
    likeliest_change,
    logarithms,
)
from seatrial.stats.steady.phases import levels_of
from seatrial.stats.timeline import (
    SLICES_MIN,
    is_long_enough,
    median,
    series_of,
    slice_counts,
    whole_slices,
)
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

RATIO_MIN = 1.2
START_UP_SHARE_MAX = 0.5


@dataclass(frozen=True)
class RunningPhase:
    """The part of a sample that figures are computed from.

    Attributes:
        from_s: Beginning of the running phase, from the sample's start; 0 without an exclusion.
        duration_s: Its length.
        completed: Requests of all kinds completed in it.
        completed_syncs: Those of them that are syncs of ``sync_every``; no rate counts them.
        transferred_bytes: Bytes that they transferred.
        start_up_ratio: Rate of the start-up phase over that of the running phase; 1 without an
            exclusion.
        from_slice: The first slice of the timeline that belongs to it.
    """

    from_s: float
    duration_s: float
    completed: int
    transferred_bytes: int
    start_up_ratio: float
    from_slice: int
    completed_syncs: int = 0

    @property
    def requests(self) -> int:
        """Completed requests, without the syncs of ``sync_every``."""
        return self.completed - self.completed_syncs

    @property
    def completed_per_s(self) -> float:
        """Completed requests per second, without the syncs of ``sync_every``."""
        return self.requests / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def transferred_bytes_per_s(self) -> float:
        """Bytes transferred by completed requests of all kinds per second."""
        return self.transferred_bytes / self.duration_s if self.duration_s > 0 else 0.0


def running(sample: Sample) -> RunningPhase:
    """Return the running phase of a sample; all of it without a significant start-up phase.

    Nothing is excluded under a schedule: the load is fixed, so a slow start is a wait of requests.
    Nor where a fault was injected into an array: what came before it is not a start-up. Nor for a
    replay, whose length is fixed and whose start has different requests. Nor while a cache fills,
    which is what such a sample is about.
    """
    if _counts_whole(sample):
        return _whole(sample)
    series = series_of(sample)
    steps = start_up_steps(series.rates)
    return _from_slice(sample, steps * series.slices_per_step)


def running_from(sample: Sample, from_s: float) -> RunningPhase:
    """Return a sample from a moment on, to the next end of a slice; for paired samples.

    Its own running phase where that begins later, where less than half would remain, or where the
    timeline is insufficient.
    """
    own = running(sample)
    if own.from_s >= from_s or _counts_whole(sample):
        return own
    first = math.ceil(from_s * NS_PER_S / sample.timeline.slice_ns - 1e-6)
    return own if first > START_UP_SHARE_MAX * whole_slices(sample) else _from_slice(sample, first)


def phases_alike(samples: Sequence[Sample], own: Sequence[RunningPhase]) -> list[RunningPhase]:
    """Return the phases in which samples are compared: all from one moment on, or all whole.

    The moment is the end of the longest start-up phase. If any sample cannot begin there, nothing
    is excluded: the difference between a start-up phase and the rest would appear as one of sides.

    Args:
        samples: Those of all sides, at least one.
        own: The running phase of each.
    """
    from_s = max(phase.from_s for phase in own)
    if from_s == 0:
        return list(own)
    found = [running_from(sample, from_s) for sample in samples]
    can_begin = all(phase.from_s > from_s - 1e-6 for phase in found)
    return found if can_begin else [_whole(sample) for sample in samples]


def _from_slice(sample: Sample, first: int) -> RunningPhase:
    """Return the rest of a sample from a slice of its timeline on."""
    if first == 0:
        return _whole(sample)
    from_s = first * sample.timeline.slice_ns / NS_PER_S
    parts = [part for part in sample.timeline.slices if part.index >= first]
    until_s = sample.duration_s
    if any(part.index * sample.timeline.slice_ns >= until_s * NS_PER_S for part in parts):
        # Client processes that began one after the other also end so: such a sample has the length
        # of each of them, and only whole slices have a known duration.
        until = whole_slices(sample)
        parts = [part for part in parts if part.index < until]
        until_s = until * sample.timeline.slice_ns / NS_PER_S
    duration_s = until_s - from_s
    completed = sum(part.completed for part in parts)
    completed_syncs = sum(part.completed for part in parts if part.operation == sample.unrated_kind)
    requests = completed - completed_syncs
    before = slice_counts(sample)[:first].sum()
    start_up_per_s = float(before) / from_s
    return RunningPhase(
        from_s=from_s,
        duration_s=duration_s,
        completed=completed,
        transferred_bytes=sum(part.transferred_bytes for part in parts),
        start_up_ratio=start_up_per_s * duration_s / requests if requests else math.inf,
        from_slice=first,
        completed_syncs=completed_syncs,
    )


def running_per_s(sample: Sample) -> float:
    """Return completed requests per second in the running phase, without syncs."""
    return running(sample).completed_per_s


def response_histogram(sample: Sample, kind: str, phase: RunningPhase) -> Histogram:
    """Return the response times (ns) of one kind of request in a running phase; empty if none."""
    if kind not in sample.operations:
        return Histogram.of([])
    if phase.from_slice == 0:
        return sample.operations[kind].response_histogram()
    return merged_histogram(
        Histogram.decode(part.response)
        for part in sample.timeline.slices
        if part.index >= phase.from_slice and part.operation == kind
    )


def start_up_steps(rates: Array) -> int:
    """Return how many of equally long steps are a start-up phase; 0 without a significant one.

    A start-up phase is a stretch at the beginning, at most half of all, whose rate differs from
    that of the rest by a ratio of at least 1.2 (of the medians) and by more than autocorrelated
    noise does in 1 % of the cases. The rest must be at one level: a rate that keeps falling, or
    goes up and down, has no running phase, and a stretch that recurs is no start-up. A freeze is
    never excluded: a start-up phase ends before the first step in which nothing completed.

    Args:
        rates: Completed requests per second in each step, at least 20 of them.
    """
    present = rates > 0  # a freeze is not a level: levels are computed from the rest
    if present.sum() < SLICES_MIN:
        return 0
    values = logarithms(rates[present])
    longest = int(present[: math.floor(len(rates) * START_UP_SHARE_MAX)].sum())
    end = 0
    while steps := _first_level_end(values[end:], longest - end):
        end += steps
    if end == 0 or _first_level_end(values[end:], None) or not _differ(values[:end], values[end:]):
        return 0
    until_freeze = len(rates) if present.all() else int((~present).argmax())
    end = min(end, until_freeze)
    if end < STRETCH_MIN or not _is_one_level(rates[end:]) or _recurs(rates, end):
        return 0
    return end


def _first_level_end(values: Array, index_max: int | None) -> int:
    """Return the significant boundary of two levels that differ enough; 0 without one."""
    change = likeliest_change(values, index_max)
    if change is None or change.chance > CHANCE_MAX:
        return 0
    return change.index if _differ(values[: change.index], values[change.index :]) else 0


def _is_one_level(rates: Array) -> bool:
    """Return whether no two levels of a stretch differ enough to matter.

    Only one change is sought above. A rate that goes up and down has several, and a first stretch
    that recurs is not a start-up phase.
    """
    levels_per_s = [level.rate_per_s for level in levels_of(rates) if level.rate_per_s > 0]
    return max(levels_per_s, default=0.0) < RATIO_MIN * min(levels_per_s, default=math.inf)


def _recurs(rates: Array, end: int) -> bool:
    """Return whether the rest has a stretch that is more like the beginning than like the rest.

    Such stretches may be too short to be a level, as those of a drive that collects garbage for a
    second every few seconds. A freeze is not one.
    """
    rest = rates[end:][rates[end:] > 0]
    usual_per_s = median(rest)
    departing = math.log(median(rates[:end]) / usual_per_s)
    bounds = [0, *change_points(logarithms(rest)), len(rest)]
    levels_per_s = [median(rest[first:last]) for first, last in pairwise(bounds)]
    halfway = departing**2 / 2
    return any(math.log(each / usual_per_s) * departing > halfway for each in levels_per_s)


def _differ(before: Array, after: Array) -> bool:
    """Return whether two stretches' median logarithms differ by a ratio of 1.2 or more."""
    return abs(median(before) - median(after)) >= math.log(RATIO_MIN)


def _counts_whole(sample: Sample) -> bool:
    is_filling = sample.cache is not None and sample.cache.is_filling
    is_start_known = is_long_enough(sample) and _is_closed_loop(sample)
    return is_filling or not is_start_known or is_broken(sample)


def _is_closed_loop(sample: Sample) -> bool:
    """Return whether a request waits for the last one; False if unknown."""
    if sample.replay is not None:
        return False
    return sample.cell.parsed.arrival.is_closed


def _whole(sample: Sample) -> RunningPhase:
    return RunningPhase(
        from_s=0.0,
        duration_s=sample.duration_s,
        completed=sample.outcome.completed,
        transferred_bytes=sum(part.transferred_bytes for part in sample.operations.values()),
        start_up_ratio=1.0,
        from_slice=0,
        completed_syncs=sample.completed_syncs,
    )
