"""The estimate: a figure with its doubt. Pure data."""

from __future__ import annotations

import msgspec


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its doubt.

    Attributes:
        value: Median or mean over rounds, as the estimator says.
        low: Lower end of the 95 % interval; None when measured once.
        high: Upper end of the 95 % interval; None when measured once.
        rounds: How many rounds it rests on.
        unit: ``IOPS``, ``B/s``, ``ns``, ``commits/s``, ``ratio``, ``count``.
    """

    value: float
    low: float | None
    high: float | None
    rounds: int
    unit: str

    @property
    def half_width_share(self) -> float | None:
        """Half of the interval's width over the value; None when measured once."""
        if self.low is None or self.high is None or self.value == 0:
            return None
        return (self.high - self.low) / 2 / abs(self.value)
