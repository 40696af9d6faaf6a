"""One capture against another: what each knows of its own means from how it went.

A capture's slices of time resemble their neighbours, so their number says nothing; the circular
block bootstrap pays for that (seatrial.stats.block_bootstrap). A mean time is a ratio of two
sums, time over calls: its error is that of what departs from it, slice by slice (the linearised
ratio estimator of survey sampling; Cochran 1977, Sampling Techniques, chapter 6).

What comes of it is the doubt **within** the captures. How two captures of the same thing differ
it cannot know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from seatrial.stats.block_bootstrap import VALUES_MIN, half_width_of_mean
from seatrial.stats.estimate import Estimate
from seatrial.trials.replay.compare.entered import CallTimeline, Entrant, Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

CALLS_MIN = 20
"""A query with fewer calls says nothing of its own scatter."""
SLICES_WITH_CALLS_MIN = 10
"""Nor does one whose calls are in a few slices, as of a burst: its mean is that burst's."""
UNTOLD_MAX = 0.05
"""Of the time, or of the queries, that may be of queries that say nothing of their own scatter,
where an interval of all together is told: such a query seems to have no scatter at all."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Means of one capture, in seconds, and half widths of their logarithms' intervals.

    Attributes:
        mean_s: By key.
        half: By key; absent where the capture does not tell, as of few calls.
        overall_s: Time of all queries, each as often as before.
        overall_half: None where the capture does not tell.
        geometric_log: Mean of the logarithms of the means.
        geometric_half: None where the capture does not tell.
    """

    mean_s: dict[str, float]
    half: dict[str, float]
    overall_s: float
    overall_half: float | None
    geometric_log: float
    geometric_half: float | None


def known(side: Entrant, keys: Sequence[str], weights: Mapping[str, float]) -> Known:
    """Return what one capture knows.

    Args:
        side: With one unit.
        keys: Queries that both sides have, each with time and calls.
        weights: How often each counts in the average query, of those that it has.
    """
    unit = side.units[0]
    mean_s = {key: unit.measured[key].mean_s for key in keys}
    half, overall_half, geometric_half = {}, None, None
    if unit.timeline is not None and unit.timeline.slices >= VALUES_MIN:
        departing = _departing(unit.timeline, mean_s)
        half = {
            key: found
            for key, values in departing.items()
            if _is_often(unit, key) and (found := half_width_of_mean(values)) is not None
        }
        shares = _shares(mean_s, weights)
        alike = dict.fromkeys(weights, 1 / max(1, len(weights)))
        overall_half, geometric_half = (
            half_width_of_mean(_weighted(departing, each)) if _is_reported(each, half) else None
            for each in (shares, alike)
        )
    return Known(
        mean_s=mean_s,
        half=half,
        overall_s=math.fsum(weight * mean_s[key] for key, weight in weights.items()),
        overall_half=overall_half,
        geometric_log=math.fsum(math.log(mean_s[key]) for key in weights) / max(1, len(weights)),
        geometric_half=geometric_half,
    )


def once_estimate(log_ratio: float, *halves: float | None) -> Estimate:
    """Return a ratio of what was measured once, with the doubt within the two captures."""
    value = math.exp(log_ratio)
    if any(half is None for half in halves):
        return Estimate(value=value, low=None, high=None, rounds=1, unit="ratio")
    both = math.hypot(*(half or 0.0 for half in halves))
    low, high = math.exp(log_ratio - both), math.exp(min(log_ratio + both, 700.0))
    return Estimate(value=value, low=low, high=high, rounds=1, unit="ratio", over="timeline")


def _is_often(unit: Unit, key: str) -> bool:
    """Tell whether a query has enough calls, in enough slices of the capture's timeline."""
    slices = len(unit.timeline.calls.get(key, {})) if unit.timeline else 0
    return unit.measured[key].calls >= CALLS_MIN and slices >= SLICES_WITH_CALLS_MIN


def _is_reported(shares: Mapping[str, float], half: Mapping[str, float]) -> bool:
    """Tell whether those that know their own scatter have nearly all of the weight."""
    untold = math.fsum(share for key, share in shares.items() if key not in half)
    return bool(half) and untold <= UNTOLD_MAX


def _departing(timeline: CallTimeline, mean_s: Mapping[str, float]) -> dict[str, Array]:
    """Return for each query what departs from its mean, slice by slice, as shares of the mean."""
    import numpy as np  # noqa: PLC0415  (0.1 s to import; only an analysis pays)

    found = {}
    for key, mean in mean_s.items():
        calls, total_s = np.zeros(timeline.slices), np.zeros(timeline.slices)
        for values, reported in ((calls, timeline.calls), (total_s, timeline.total_s)):
            own = reported.get(key, {})
            values[list(own.keys())] = list(own.values())
        expected = calls.mean() * mean
        if expected > 0:
            found[key] = (total_s - mean * calls) / expected
    return found


def _shares(mean_s: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    times_s = {key: weight * mean_s[key] for key, weight in weights.items()}
    whole_s = math.fsum(times_s.values())
    return {key: time_s / whole_s for key, time_s in times_s.items()}


def _weighted(departing: Mapping[str, Array], shares: Mapping[str, float]) -> Array:
    import numpy as np  # noqa: PLC0415

    summed = np.zeros(len(next(iter(departing.values()))))
    for key, share in shares.items():
        if key in departing:
            summed += share * departing[key]
    return summed
