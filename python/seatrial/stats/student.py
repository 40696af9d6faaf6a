"""Student's t: how far a mean of few values may lie from the truth."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

CONFIDENCE = 0.95


@functools.cache
def t_of(degrees: float) -> float:
    """Return Student's t that 95 % of means stay within; ``degrees`` of freedom are above 0."""
    from scipy.special import stdtrit  # noqa: PLC0415  (0.3 s to import; only an analysis pays)

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


@functools.cache
def spread_correction(values: int) -> float:
    """Return the true spread over the median spread of so many normal values, at least 2."""
    from scipy.special import chdtri  # noqa: PLC0415

    return math.sqrt((values - 1) / float(chdtri(values - 1, 0.5)))


def variance(values: Iterable[float]) -> float:
    """Return the variance of at least two values, as of a sample of a population.

    ``statistics.variance`` is exact to the last bit and thirty times slower.
    """
    listed = list(values)
    mean = math.fsum(listed) / len(listed)
    return math.fsum((value - mean) ** 2 for value in listed) / (len(listed) - 1)
