"""The running phase of a sample: what is left when a start-up phase, if there surely was one, ends.

uFLIP (Bouganim, Jonsson and Bonnet, CIDR 2009, "uFLIP: Understanding flash I/O patterns", section
4) found that the first requests of a pattern may cost far less or more than all later ones, and
that a mean over both tells of neither. So the start-up phase is divided off by a rule that is
fixed before anything is measured (docs/method.md, "Start-up and running phase"), figures rest on
the running phase, and what was left out is told by the finding ``start_up_phase``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from seatrial._core import Histogram
from seatrial.results.model import Sample
from seatrial.stats.broken import is_broken
from seatrial.stats.steady.change_points import CHANCE_MAX, STRETCH_MIN, best_split, logarithms
from seatrial.stats.steady.phases import levels_of
from seatrial.stats.timeline import (
    NS_PER_S,
    SLICES_MIN,
    is_long_enough,
    median,
    series_of,
    whole_slices,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

RATIO_MIN = 1.2
START_UP_SHARE_MAX = 0.5


@dataclass(frozen=True)
class Running:
    """What a sample's figures rest on.

    Attributes:
        from_s: Where the running phase begins, from the sample's start; 0 where nothing is cut.
        duration_s: Its length.
        completed: Requests that ended well in it, of all kinds.
        transferred_bytes: Bytes that they moved.
        start_up_ratio: Rate of the start-up phase over that of the running phase; 1 where nothing
            is cut.
        from_slice: The first slice of the timeline that belongs to it.
    """

    from_s: float
    duration_s: float
    completed: int
    transferred_bytes: int
    start_up_ratio: float
    from_slice: int

    @property
    def completed_per_s(self) -> float:
        """Completed requests of all kinds per second."""
        return self.completed / self.duration_s if self.duration_s > 0 else 0.0

    @property
    def transferred_bytes_per_s(self) -> float:
        """Bytes moved by completed requests of all kinds per second."""
        return self.transferred_bytes / self.duration_s if self.duration_s > 0 else 0.0


def running(sample: Sample) -> Running:
    """Return the running phase of a sample; all of it where there surely was no start-up phase.

    Under a schedule nothing is cut: how much is asked is given, so a slow start is a wait that
    somebody had. Nor where an array was broken meanwhile: what came before that is no start-up.
    Nor of a replay, which is as long as what was captured: its start asks for something else.
    """
    if not is_long_enough(sample) or not _is_closed_loop(sample) or is_broken(sample):
        return _whole(sample)
    series = series_of(sample)
    steps = start_up_steps(series.rates)
    return _from_slice(sample, steps * series.slices_per_step)


def running_from(sample: Sample, from_s: float) -> Running:
    """Return a sample from a moment on, to the next end of a slice; for samples side by side.

    Its own running phase where that begins later, and where less than half would be left, or
    the timeline cannot tell.
    """
    own = running(sample)
    is_whole = not is_long_enough(sample) or not _is_closed_loop(sample) or is_broken(sample)
    if own.from_s >= from_s or is_whole:
        return own
    first = math.ceil(from_s * NS_PER_S / sample.timeline.slice_ns - 1e-6)
    return own if first > START_UP_SHARE_MAX * whole_slices(sample) else _from_slice(sample, first)


def _from_slice(sample: Sample, first: int) -> Running:
    """Return what is left of a sample from a slice of its timeline on."""
    if first == 0:
        return _whole(sample)
    from_s = first * sample.timeline.slice_ns / NS_PER_S
    parts = [part for part in sample.timeline.slices if part.index >= first]
    until_s = sample.duration_s
    if any(part.index * sample.timeline.slice_ns >= until_s * NS_PER_S for part in parts):
        # Client processes that began one after the other end so, too: of such a sample, whose
        # length is that of each of them, only slices within it have a time to be divided by.
        until = whole_slices(sample)
        parts = [part for part in parts if part.index < until]
        until_s = until * sample.timeline.slice_ns / NS_PER_S
    duration_s = until_s - from_s
    completed = sum(part.completed for part in parts)
    before = sum(part.completed for part in sample.timeline.slices if part.index < first)
    start_up_per_s = before / from_s
    return Running(
        from_s=from_s,
        duration_s=duration_s,
        completed=completed,
        transferred_bytes=sum(part.transferred_bytes for part in parts),
        start_up_ratio=start_up_per_s * duration_s / completed if completed else math.inf,
        from_slice=first,
    )


def running_per_s(sample: Sample) -> float:
    """Return completed requests of all kinds per second in the running phase."""
    return running(sample).completed_per_s


def response_histogram(sample: Sample, kind: str, phase: Running) -> Histogram:
    """Return the response times (ns) of one kind of request in a running phase; empty if none."""
    if kind not in sample.operations:
        return Histogram.of([])
    if phase.from_slice == 0:
        return sample.operations[kind].response_histogram()
    parts = [
        Histogram.decode(part.response)
        for part in sample.timeline.slices
        if part.index >= phase.from_slice and part.operation == kind
    ]
    return reduce(lambda merged, part: merged.merged(part), parts, Histogram.of([]))


def start_up_steps(rates: Array) -> int:
    """Return how many of equally long steps are a start-up phase; 0 where none surely is.

    A start-up phase is a stretch at the beginning, at most half of all, whose rate differs from
    that of the rest by a ratio of at least 1.2 (of the medians) and by more than autocorrelated
    noise makes in 1 % of the cases. The rest must be at one level: a rate that keeps falling, or
    that goes up and down, has no running phase. A freeze is never cut off: a start-up phase ends
    before the first step in which nothing completed.

    Args:
        rates: Completed requests per second in each step, at least 20 of them.
    """
    present = rates > 0  # a freeze is no level: levels are judged on what lies around it
    if present.sum() < SLICES_MIN:
        return 0
    values = logarithms(rates[present])
    longest = int(present[: math.floor(len(rates) * START_UP_SHARE_MAX)].sum())
    end = 0
    while place := _sure_split(values[end:], longest - end):
        end += place
    if end == 0 or _sure_split(values[end:], None) or not _differ(values[:end], values[end:]):
        return 0
    until_freeze = len(rates) if present.all() else int((~present).argmax())
    end = min(end, until_freeze)
    return end if end >= STRETCH_MIN and _is_one_level(rates[end:]) else 0


def _sure_split(values: Array, place_max: int | None) -> int:
    """Return where two levels surely meet that differ enough to matter; 0 where none do."""
    split = best_split(values, place_max)
    if split is None or split.chance > CHANCE_MAX:
        return 0
    return split.place if _differ(values[: split.place], values[split.place :]) else 0


def _is_one_level(rates: Array) -> bool:
    """Tell whether no two levels of a stretch differ enough to matter.

    One change alone is sought above. A rate that goes up and down has several, and a first
    stretch that comes again is no start-up phase.
    """
    levels_per_s = [level.rate_per_s for level in levels_of(rates) if level.rate_per_s > 0]
    return max(levels_per_s, default=0.0) < RATIO_MIN * min(levels_per_s, default=math.inf)


def _differ(before: Array, after: Array) -> bool:
    """Tell whether the medians of two stretches of logarithms differ by a ratio of 1.2 or more."""
    return abs(median(before) - median(after)) >= math.log(RATIO_MIN)


def _is_closed_loop(sample: Sample) -> bool:
    """Tell whether the next request waits for the last; where it is not known, as if it did not."""
    if sample.replay is not None:
        return False
    arrival = sample.cell.spec.get("arrival")
    return isinstance(arrival, dict) and arrival.get("kind") == "closed"


def _whole(sample: Sample) -> Running:
    return Running(
        from_s=0.0,
        duration_s=sample.duration_s,
        completed=sample.outcome.completed,
        transferred_bytes=sum(part.transferred_bytes for part in sample.operations.values()),
        start_up_ratio=1.0,
        from_slice=0,
    )
