"""Statistics of the benches: medians over rounds, their exact intervals, and bars.

The unit is the round. What is compared was measured in the same round, so a ratio is taken inside
each round and the median of these ratios is what a bench states.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from seatrial.stats.model import Estimate

CONFIDENCE: Final = 0.95


def median_estimate(values: Sequence[float], unit: str) -> Estimate:
    """Return the median of one value per round with its interval of at least 95 %.

    The interval's ends are order statistics: how many rounds lie below the true median is
    binomial, whatever the distribution (W. J. Conover, Practical Nonparametric Statistics,
    confidence interval for a quantile). A bootstrap was not taken because it covers too seldom
    with few rounds (docs/method.md).

    Args:
        values: One per round, at least one, in ``unit``.
        unit: As in :class:`Estimate`.

    Returns:
        The median; without an interval below six rounds, for which there is none of 95 %.

    Raises:
        ValueError: When there is no value.
    """
    ordered = sorted(values)
    rank = _lower_rank(len(ordered))
    return Estimate(
        value=statistics.median(ordered),
        low=ordered[rank - 1] if rank else None,
        high=ordered[-rank] if rank else None,
        rounds=len(ordered),
        unit=unit,
    )


def _lower_rank(rounds: int) -> int:
    """Return the largest rank, from 1, whose value is still an end of a 95 % interval; else 0."""
    rank = 0
    below_share = 0.0
    while True:
        below_share += math.comb(rounds, rank) / 2**rounds
        if 1 - 2 * below_share < CONFIDENCE:
            return rank
        rank += 1


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return the median of ``above / below`` taken round by round (unit ``ratio``).

    Raises:
        ValueError: When the two are of different length or there is no round.
        ZeroDivisionError: When a round's ``below`` is 0.
    """
    return median_estimate([a / b for a, b in zip(above, below, strict=True)], "ratio")


def pooled_ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Estimate:
    """Return the median over rounds of the geometric mean of the ratios of several pairs.

    Args:
        pairs: For each target ``(above, below)``, one value per round, all of equal length.

    Raises:
        ValueError: When the lengths differ or there is no round.
    """
    by_target = [[a / b for a, b in zip(above, below, strict=True)] for above, below in pairs]
    by_round = zip(*by_target, strict=True)
    return median_estimate([statistics.geometric_mean(ratios) for ratios in by_round], "ratio")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What a figure may be at most.

    Attributes:
        what: The figure, in words.
        most: The most that it may be, in the estimate's unit.
        estimate: What was measured.
        digits: Digits after the point with which it is reported.
    """

    what: str
    most: float
    estimate: Estimate
    digits: int = 2

    @property
    def verdict(self) -> str:
        """Return ``met`` or ``missed``, and whether the whole interval says so."""
        estimate = self.estimate
        word = "met" if estimate.value <= self.most else "missed"
        if estimate.low is None or estimate.high is None:
            return word if estimate.rounds == 1 else f"{word} (too few rounds for an interval)"
        is_significant = estimate.high <= self.most or estimate.low > self.most
        return word if is_significant else f"{word} by the median; the interval reaches across"


def reported(estimate: Estimate, digits: int) -> str:
    """Return a figure and its interval, such as ``0.71 (0.66 to 0.78)``, without its unit."""
    value = f"{estimate.value:,.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({estimate.low:,.{digits}f} to {estimate.high:,.{digits}f})"
