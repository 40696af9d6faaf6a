"""The estimate: a figure with its doubt. Pure data."""

from __future__ import annotations

from typing import Literal

import msgspec

HISTOGRAM_RESOLUTION_SHARE = 1 / 256
"""Half of a bucket's width, as a share of what is in it (docs/engine.md)."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its doubt.

    Attributes:
        value: Median or mean over rounds, as the estimator says.
        low: Lower end of the 95 % interval; None where there is none.
        high: Upper end of the 95 % interval; None where there is none.
        rounds: How many rounds it rests on.
        unit: ``IOPS``, ``B/s``, ``ns``, ``commits/s``, ``tps``, ``statements/s``,
            ``ratio``, ``count``.
        over: What the interval is drawn from: ``rounds``, or the ``timeline`` of the one round that
            was measured. The latter says how well that round knows its own figure and nothing of
            how rounds differ, so it is no ground to compare or to stop on. A figure that is
            ``reported`` was computed by another tool from requests that are not known here: of
            several rounds ``value`` is the largest (of means the mean), ``low`` and ``high`` are
            the smallest and the largest of them, and there is no interval.
    """

    value: float
    low: float | None
    high: float | None
    rounds: int
    unit: str
    over: Literal["rounds", "timeline", "reported"] = "rounds"

    @property
    def half_width_share(self) -> float | None:
        """Half of the interval's width over the value; None where there is no interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)


class AtLeast(msgspec.Struct, frozen=True, kw_only=True):
    """A lower bound of a figure that is not known: no value, so never averaged or compared.

    Attributes:
        value: The figure is this or larger.
        rounds: How many rounds it rests on.
        unit: As in :class:`Estimate`.
    """

    value: float
    rounds: int
    unit: str


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How the rounds of a figure lie, without a law that they would follow.

    Attributes:
        median: Of the rounds.
        mean: Their arithmetic mean, as published tables have it ("the mean of 10 runs"); an
            estimate's own value is the geometric mean.
        low: The smallest round.
        high: The largest round.
        mad_share: Median of the distances from the median, over the median; None where that is 0.
        rounds: How many there are.
        unit: As in :class:`Estimate`.
    """

    median: float
    mean: float
    low: float
    high: float
    mad_share: float | None
    rounds: int
    unit: str
