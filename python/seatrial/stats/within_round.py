"""The interval of a figure that was measured once: how well its one round knows it.

It rests on the slices of the round's timeline by a block bootstrap, so that autocorrelation is
paid for. It tells a reader whether the sample was long enough for its own noise. It knows nothing
of how rounds differ, so nothing is compared, settled or refused on it (docs/method.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from seatrial._core import Histogram
from seatrial.results.model import Sample
from seatrial.stats.block_bootstrap import half_width_of_mean
from seatrial.stats.estimate import HISTOGRAM_RESOLUTION_SHARE, Estimate
from seatrial.stats.running import Running, response_histogram
from seatrial.stats.timeline import (
    SLICES_MIN,
    is_long_enough,
    series_of,
    slice_counts,
    slice_sums,
    whole_slices,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def with_rate(estimate: Estimate, sample: Sample, phase: Running) -> Estimate:
    """Return a rate measured once with the interval that its timeline gives, where it can."""
    if not _is_known(sample, phase):
        return estimate
    return _with_mean(estimate, _grouped(slice_counts(sample), sample, phase))


def with_bandwidth(estimate: Estimate, sample: Sample, phase: Running) -> Estimate:
    """Return a bandwidth measured once with the interval that its timeline gives."""
    if not _is_known(sample, phase):
        return estimate
    moved = slice_sums(sample, lambda part: float(part.transferred_bytes))
    return _with_mean(estimate, _grouped(moved, sample, phase))


def with_latency(
    figures: dict[str, Estimate], sample: Sample, kind: str, phase: Running
) -> dict[str, Estimate]:
    """Return response times measured once with the intervals that their timeline gives.

    A percentile's interval is Woodruff's (1952): that of the share of requests below it, with
    the block bootstrap's error, read back through the same counts.
    """
    if not figures or not _is_known(sample, phase):
        return figures
    entries = _Entries(sample, kind, phase)
    if entries.count == 0 or entries.count != entries.histogram.count:
        return figures
    return {name: entries.with_interval(name, estimate) for name, estimate in figures.items()}


class _Entries:
    """The response times of one kind in a running phase, by slice."""

    def __init__(self, sample: Sample, kind: str, phase: Running) -> None:
        import numpy as np  # noqa: PLC0415

        self.histogram = response_histogram(sample, kind, phase)
        self.slices = whole_slices(sample) - phase.from_slice
        places, lower_ns, counts = [], [], []
        for part in sample.timeline.slices:
            if part.operation == kind and part.index >= phase.from_slice:
                lower, _, held = Histogram.decode(part.response).buckets()
                # What ended after the last whole slice belongs to it.
                place = min(part.index - phase.from_slice, self.slices - 1)
                places += [place] * len(held)
                lower_ns += lower
                counts += held
        self.places = np.array(places, dtype=np.int64)
        self.lower_ns = np.array(lower_ns, dtype=float)
        self.counts = np.array(counts, dtype=float)
        self.count = int(self.counts.sum())
        self.by_slice = self._summed(self.counts)

    def _summed(self, weights: Array) -> Array:
        import numpy as np  # noqa: PLC0415

        return np.bincount(self.places, weights=weights, minlength=self.slices).astype(float)

    def with_interval(self, name: str, estimate: Estimate) -> Estimate:
        """Return a percentile or the mean with its interval; a maximum as it is."""
        if name == "max":
            return estimate
        if name == "mean":
            return self._mean(estimate)
        below = self._summed(self.counts * (self.lower_ns <= estimate.value))
        share = below.sum() / self.count
        half = half_width_of_mean(below - share * self.by_slice)
        if half is None:
            return estimate
        half /= self.by_slice.mean()
        low_ns = self.histogram.percentile_ns(100 * max(share - half, 1 / self.count))
        high_ns = self.histogram.percentile_ns(100 * min(share + half, 1.0))
        # A percentile cannot be read more exactly than its bucket, however often it is the same.
        unread_ns = estimate.value * HISTOGRAM_RESOLUTION_SHARE
        return _ranging(
            estimate,
            min(low_ns, estimate.value - unread_ns),
            max(high_ns, estimate.value + unread_ns),
        )

    def _mean(self, estimate: Estimate) -> Estimate:
        """Return the mean with its interval: of a ratio, that of what departs from it."""
        departing = self._summed(self.counts * (self.lower_ns - estimate.value))
        half = half_width_of_mean(departing - departing.mean())
        if half is None:
            return estimate
        return _around(estimate, half / self.by_slice.mean())


def _is_known(sample: Sample, phase: Running) -> bool:
    """Tell whether a running phase has enough slices for an interval."""
    return is_long_enough(sample) and whole_slices(sample) - phase.from_slice >= SLICES_MIN


def _grouped(values: Array, sample: Sample, phase: Running) -> Array:
    """Return sums over the steps of the sample's series, from its running phase on."""
    group = series_of(sample).slices_per_step
    own = values[phase.from_slice :]
    steps = len(own) // group
    if steps < SLICES_MIN:
        return own
    sums: Array = own[: steps * group].reshape(steps, group).sum(axis=1)
    return sums


def _with_mean(estimate: Estimate, values: Array) -> Estimate:
    """Return an estimate with the interval of the mean of values that are proportional to it."""
    mean = float(values.mean())
    half = half_width_of_mean(values)
    if half is None or mean <= 0:
        return estimate
    return _around(estimate, estimate.value * half / mean)


def _around(estimate: Estimate, half_width: float) -> Estimate:
    """Return an interval by a factor, so that it cannot go below zero."""
    if estimate.value <= 0:
        return estimate
    factor = math.exp(half_width / estimate.value)
    return _ranging(estimate, estimate.value / factor, estimate.value * factor)


def _ranging(estimate: Estimate, low: float, high: float) -> Estimate:
    return msgspec.structs.replace(estimate, low=low, high=high, over="timeline")
