"""The estimate: a figure with its doubt. Pure data."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

import msgspec

from seatrial.published import HIDDEN, Positive, one_of

HISTOGRAM_RESOLUTION_SHARE = 1 / 256
"""Half of a bucket's width, as a share of what is in it (docs/engine.md)."""


UNITS: Final = (
    *("IOPS", "commits/s", "B/s", "ns", "ratio", "count", "tps", "statements/s", "1/s", "share"),
    *("cores", "s", "ms", "exponent"),
)
"""What an estimate is a figure of."""


class Range(msgspec.Struct, frozen=True):
    """The smallest and the largest of the rounds."""

    low: float
    high: float


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its doubt.

    Attributes:
        value: Median or mean over rounds, as the estimator says.
        low: Lower end of the 95 % interval, which judgements rest on; None where there is none.
        high: Upper end of the 95 % interval; None where there is none.
        rounds: How many rounds it rests on.
        unit: Of value and interval.
        over: What the interval is drawn from: ``rounds``, or the ``timeline`` of the one round that
            was measured. The latter says how well that round knows its own figure and nothing of
            how rounds differ, so it is no ground to compare or to stop on. A figure that is
            ``reported`` was computed by another tool from requests that are not known here: of
            several rounds ``value`` is the largest (of means the mean), ``low`` and ``high`` are
            the smallest and the largest of them, and there is no interval. A ``range`` is how a
            figure with ``scatter`` is shown: no interval either.
        scatter: Of rounds that differ by more than twice, which no one figure stands for: readers
            are shown these ends and the median, which ``value`` then is, in place of an interval.
    """

    value: float
    low: float | None
    high: float | None
    rounds: Positive
    unit: Annotated[str, one_of(*UNITS)]
    over: Literal["rounds", "timeline", "reported", "range"] = "rounds"
    scatter: Annotated[Range | None, HIDDEN] = None

    @property
    def half_width_share(self) -> float | None:
        """Half of the interval's width over the value; None where there is no interval."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)

    @property
    def shown(self) -> Estimate:
        """The figure as readers are shown it: with its range where its rounds scatter."""
        if self.scatter is None:
            return self
        low, high = self.scatter.low, self.scatter.high
        return msgspec.structs.replace(self, low=low, high=high, over="range", scatter=None)

    def scaled(self, factor: float, unit: str) -> Estimate:
        """Return so many times the figure, in another unit."""

        def times(value: float | None) -> float | None:
            return None if value is None else value * factor

        scatter = self.scatter and Range(self.scatter.low * factor, self.scatter.high * factor)
        return msgspec.structs.replace(
            self,
            value=self.value * factor,
            low=times(self.low),
            high=times(self.high),
            unit=unit,
            scatter=scatter,
        )

    def inverse(self, numerator: float, unit: str) -> Estimate:
        """Return ``numerator`` over the figure, which is not 0; over an end of 0 there is none."""

        def over(value: float | None) -> float | None:
            return numerator / value if value else None

        scatter = self.scatter and Range(
            numerator / self.scatter.high, over(self.scatter.low) or math.inf
        )
        return msgspec.structs.replace(
            self,
            value=numerator / self.value,
            low=over(self.high),
            high=over(self.low),
            unit=unit,
            scatter=scatter,
        )


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
