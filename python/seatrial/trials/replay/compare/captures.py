"""Comparison of two captures: uncertainty of means from the timeline of each.

A capture's time slices are autocorrelated, so their number is not the sample size; the circular
block bootstrap accounts for that (seatrial.stats.estimate). A mean time is a ratio of two sums,
time over calls: its error comes from the residuals of the slices (the linearised ratio estimator of
survey sampling; Cochran 1977, Sampling Techniques, chapter 6).

The result is the uncertainty **within** the captures. It does not include how two captures of the
same thing differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from seatrial.lazy import np
from seatrial.stats.estimate import VALUES_MIN, Estimate, half_width_of_mean
from seatrial.trials.replay.compare.model import CallTimeline, MeasuredSide, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

CALLS_MIN = 20
"""With fewer calls the variance of a query is unknown."""
SLICES_WITH_CALLS_MIN = 10
"""Likewise if its calls are in a few slices, as in a burst: its mean is that burst's."""
UNKNOWN_SHARE_MAX = 0.05
"""Share of the time, or of the queries, that may have unknown variance if an interval of the whole
is reported: such a query would seem to have no variance at all."""


class CaptureMeans(msgspec.Struct, frozen=True, kw_only=True):
    """Means of one capture, in seconds, and half widths of their logarithms' intervals.

    Attributes:
        mean_s: By key.
        half: By key; absent if unknown, as with few calls.
        overall_s: Time of all queries, each as often as before.
        overall_half: None if unknown.
        geometric_log: Mean of the logarithms of the means.
        geometric_half: None if unknown.
    """

    mean_s: dict[str, float]
    half: dict[str, float]
    overall_s: float
    overall_half: float | None
    geometric_log: float
    geometric_half: float | None


def capture_means(
    side: MeasuredSide, keys: Sequence[str], weights: Mapping[str, float]
) -> CaptureMeans:
    """Return the means of one capture with their uncertainty.

    Args:
        side: With one unit.
        keys: Queries that both sides have, each with time and calls.
        weights: How often each counts in the average query, of those that it has.
    """
    unit = side.units[0]
    mean_s = {key: unit.measured[key].mean_s for key in keys}
    half, overall_half, geometric_half = {}, None, None
    if unit.timeline is not None and unit.timeline.slices >= VALUES_MIN:
        residuals = _residuals(unit.timeline, mean_s)
        half = {
            key: found
            for key, values in residuals.items()
            if _has_enough_calls(unit, key) and (found := half_width_of_mean(values)) is not None
        }
        shares = _shares(mean_s, weights)
        equal_shares = dict.fromkeys(weights, 1 / max(1, len(weights)))
        overall_half, geometric_half = (
            half_width_of_mean(_weighted_residuals(residuals, each))
            if _is_mostly_known(each, half)
            else None
            for each in (shares, equal_shares)
        )
    return CaptureMeans(
        mean_s=mean_s,
        half=half,
        overall_s=math.fsum(weight * mean_s[key] for key, weight in weights.items()),
        overall_half=overall_half,
        geometric_log=math.fsum(math.log(mean_s[key]) for key in weights) / max(1, len(weights)),
        geometric_half=geometric_half,
    )


def once_estimate(log_ratio: float, *halves: float | None) -> Estimate:
    """Return a ratio of single measurements, with the uncertainty within the two captures."""
    value = math.exp(log_ratio)
    if any(half is None for half in halves):
        return Estimate(value=value, low=None, high=None, rounds=1, unit="ratio")
    both = math.hypot(*(half or 0.0 for half in halves))
    low, high = math.exp(log_ratio - both), math.exp(min(log_ratio + both, 700.0))
    return Estimate(value=value, low=low, high=high, rounds=1, unit="ratio", over="timeline")


def _has_enough_calls(unit: Unit, key: str) -> bool:
    """Return whether a query has enough calls, in enough slices of the capture's timeline."""
    slices = len(unit.timeline.calls.get(key, {})) if unit.timeline else 0
    return unit.measured[key].calls >= CALLS_MIN and slices >= SLICES_WITH_CALLS_MIN


def _is_mostly_known(shares: Mapping[str, float], half: Mapping[str, float]) -> bool:
    """Return whether queries of known variance have nearly all of the weight."""
    unknown_share = math.fsum(share for key, share in shares.items() if key not in half)
    return bool(half) and unknown_share <= UNKNOWN_SHARE_MAX


def _residuals(timeline: CallTimeline, mean_s: Mapping[str, float]) -> dict[str, Array]:
    """Return for each query the residuals from its mean by slice, as shares of the mean."""
    residuals = {}
    for key, mean in mean_s.items():
        calls, total_s = np.zeros(timeline.slices), np.zeros(timeline.slices)
        for values, sums in ((calls, timeline.calls), (total_s, timeline.total_s)):
            sums_of_query = sums.get(key, {})
            values[list(sums_of_query.keys())] = list(sums_of_query.values())
        expected = calls.mean() * mean
        if expected > 0:
            residuals[key] = (total_s - mean * calls) / expected
    return residuals


def _shares(mean_s: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    times_s = {key: weight * mean_s[key] for key, weight in weights.items()}
    whole_s = math.fsum(times_s.values())
    return {key: time_s / whole_s for key, time_s in times_s.items()}


def _weighted_residuals(residuals: Mapping[str, Array], shares: Mapping[str, float]) -> Array:
    summed_figures = np.zeros(len(next(iter(residuals.values()))))
    for key, share in shares.items():
        if key in residuals:
            summed_figures += share * residuals[key]
    return summed_figures
