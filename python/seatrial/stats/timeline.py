"""The timeline of a sample as a series of equally long steps, including empty ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seatrial.lazy import np
from seatrial.results.model import Sample, Slice
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SLICES_MIN = 20
"""Fewer slices do not show changes within a sample."""
STEPS_MAX = 600
COMPLETIONS_MIN = 8.0


@dataclass(frozen=True)
class Series:
    """Completions over the time of one sample.

    Attributes:
        step_s: Length of each step; one slice of the timeline, or several.
        slices_per_step: How many slices of the timeline each step has.
        rates: Completed requests per second in each step, 0 where none completed; an array.
    """

    step_s: float
    slices_per_step: int
    rates: Array

    @property
    def times_s(self) -> list[float]:
        """The end of each step, from the start of the sample."""
        return [self.step_s * (index + 1) for index in range(len(self.rates))]


def whole_slices(sample: Sample) -> int:
    """Return the number of whole slices of a sample, without the last, incomplete one."""
    if sample.timeline.slice_ns <= 0:
        return 0
    return math.floor(sample.duration_s * NS_PER_S / sample.timeline.slice_ns + 1e-6)


def is_long_enough(sample: Sample) -> bool:
    """Return whether a timeline can show changes: 20 slices that include every completion.

    An imported log that averages, or lacks requests, is not sufficient.
    """
    slices = sample.timeline.slices
    return (
        whole_slices(sample) >= SLICES_MIN
        and bool(slices)
        and sum(part.completed for part in slices) == sample.outcome.completed
    )


def slice_counts(sample: Sample, operation: str | None = None) -> Array:
    """Return the completions in each whole slice of a sample, of one kind or of all."""
    return slice_sums(sample, lambda part: float(part.completed), operation)


def slice_sums(
    sample: Sample, figure: Callable[[Slice], float], operation: str | None = None
) -> Array:
    """Return the sum of a figure over each whole slice of a sample, of one kind or of all.

    Syncs of ``sync_every`` are left out of all, as of rates.
    """
    count = whole_slices(sample)
    unrated = sample.unrated_kind
    indexes, figures = [], []
    for part in sample.timeline.slices:
        is_wanted = part.operation == operation if operation else part.operation != unrated
        if part.index < count and is_wanted:
            indexes.append(part.index)
            figures.append(figure(part))
    return np.bincount(indexes, weights=figures, minlength=count).astype(float)


def series_of(sample: Sample, operation: str | None = None) -> Series:
    """Return the rates over the time of a sample, of one kind of request or of all.

    Slices are combined in equal groups until a step has 8 completions at the median, so that
    counting noise of a slow device is not mistaken for change, and until there are at most 600
    steps; but never to fewer than 20 steps.
    """
    counts = slice_counts(sample, operation)
    group = max(1, math.ceil(len(counts) / STEPS_MAX))
    typical = median(counts) or float(counts.mean())
    if typical > 0:
        group = max(group, math.ceil(COMPLETIONS_MIN / typical))
    group = min(group, max(1, len(counts) // SLICES_MIN))
    steps = len(counts) // group
    sums = counts[: steps * group].reshape(steps, group).sum(axis=1)
    step_s = group * sample.timeline.slice_ns / NS_PER_S
    return Series(step_s=step_s, slices_per_step=group, rates=sums / step_s)


def median(values: Array) -> float:
    """Return the median of a few values, ten times as fast as numpy's; 0 if empty."""
    count = len(values)
    if count == 0:
        return 0.0
    ordered = values.copy()
    ordered.sort()
    return float(ordered[(count - 1) // 2] + ordered[count // 2]) / 2
