"""From how many on (requests in flight, drives ...) more of them give no more rate."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import estimate_of_rounds

NO_GAIN_RATIO: Final = 1.05
SERIES_MIN: Final = 3


@dataclass(frozen=True)
class Saturation:
    """Where a rate stops to grow.

    Attributes:
        count: From so many on there is no more.
        gain_before: Rate at ``count`` over that at the next lower count; None where it is the
            lowest.
        gain_beyond: The largest gain of any higher count over ``count``.
        most: The highest count that was measured.
    """

    count: int
    gain_before: Estimate | None
    gain_beyond: Estimate
    most: int


def saturation(
    rates_per_s: Mapping[int, Mapping[Hashable, float]], *, from_lowest: bool = False
) -> Saturation | None:
    """Return the lowest count beyond which nothing is gained; None where it cannot be told.

    The gain of one count over another is the geometric mean over the series that both have (block
    sizes, for instance), with its 95 % t interval. Nothing is gained when the whole interval is
    below 1.05, something when the whole of it is above. Where there is one series only, its rounds
    may stand for series.

    Args:
        rates_per_s: For each count, the rate of each series.
        from_lowest: Whether the lowest count may be the one that nothing is gained beyond.
    """
    counts = sorted(rates_per_s)
    for place in range(0 if from_lowest else 1, len(counts) - 1):
        before = (
            _gain(rates_per_s[counts[place - 1]], rates_per_s[counts[place]]) if place else None
        )
        beyond = [_gain(rates_per_s[counts[place]], rates_per_s[c]) for c in counts[place + 1 :]]
        if place and (before is None or before.low is None or before.low <= NO_GAIN_RATIO):
            continue
        known = [gain for gain in beyond if gain is not None and gain.high is not None]
        if len(known) == len(beyond) and _none_gains(known):
            return Saturation(
                count=counts[place],
                gain_before=before,
                gain_beyond=max(known, key=lambda gain: gain.value),
                most=counts[-1],
            )
    return None


def _none_gains(gains: Sequence[Estimate]) -> bool:
    return all(gain.high is not None and gain.high < NO_GAIN_RATIO for gain in gains)


def _gain(of: Mapping[Hashable, float], to: Mapping[Hashable, float]) -> Estimate | None:
    """Return how the rate changes from one count to another; None with fewer than 3 series."""
    ratios = [to[key] / of[key] for key in of if key in to and of[key] > 0]
    return estimate_of_rounds(ratios, "ratio") if len(ratios) >= SERIES_MIN else None
