"""The ratio of two sides of one cell: logarithms of the rounds, paired t or Welch's t.

scipy.stats has both tests (``ttest_rel``, ``ttest_ind(equal_var=False)``), at half a millisecond
a call; a comparison of thousands of cells uses the same formulas on scipy's distribution, and
tests/stats/compare/test_ratio.py holds them against scipy.stats.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

import msgspec

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.estimate import Estimate
from seatrial.stats.student import variance

EXP_ARGUMENT_MAX = 700.0
"""exp(709.8) is the largest that a double holds."""


class Part(msgspec.Struct, frozen=True):
    """What makes a mean of logarithms uncertain: the variance of one round, and their number.

    The number need not be whole: rounds that bear unequal weight count for less.
    """

    variance: float
    rounds: float


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """The logarithm of B over A, with all that its doubt is made of.

    Attributes:
        log_ratio: Mean of ln(B / A).
        parts: One where rounds are paired, two where they are not; none if measured once.
        resolution: Half of the step in which the logarithm can be read.
        rounds: On how many rounds it rests, those of the side that has fewer.
        paired: Whether it is of rounds one by one.
    """

    log_ratio: float
    parts: tuple[Part, ...]
    resolution: float
    rounds: int
    paired: bool

    @property
    def standard_error(self) -> float:
        """Of the logarithm; 0 when measured once."""
        return math.sqrt(sum(part.variance / part.rounds for part in self.parts))

    @property
    def degrees(self) -> float:
        """Degrees of freedom, by Welch (1947) and Satterthwaite (1946) where there are two."""
        shares = [(part.variance / part.rounds, part.rounds - 1) for part in self.parts]
        of_parts = sum(share**2 / freedom for share, freedom in shares)
        if of_parts == 0:
            return sum(freedom for _, freedom in shares)
        return sum(share for share, _ in shares) ** 2 / of_parts


def contrast(a: Rounds, b: Rounds, *, paired: bool) -> Contrast | None:
    """Return B over A for one figure of one cell; None where a round measured 0.

    Where rounds are to be paired, those that both sides have count, if there are two; else all.

    Args:
        a: The measure.
        b: What is judged.
        paired: Whether both sides of a round were measured close to each other.
    """
    if min(a.values.values()) <= 0 or min(b.values.values()) <= 0:
        return None
    resolution = a.resolution_share + b.resolution_share
    log_a, log_b = logarithms(a.values), logarithms(b.values)
    common = log_a.keys() & log_b.keys()
    if paired and len(common) > 1:
        steps = [log_b[number] - log_a[number] for number in sorted(common)]
        read = _reading_variance(a) + _reading_variance(b)
        return Contrast(
            log_ratio=statistics.fmean(steps),
            parts=(Part(max(variance(steps), read), len(steps)),),
            resolution=resolution,
            rounds=len(steps),
            paired=True,
        )
    parts = [
        Part(max(variance(logs.values()), _reading_variance(side)), len(logs))
        for logs, side in ((log_a, a), (log_b, b))
        if len(logs) > 1
    ]
    return Contrast(
        log_ratio=statistics.fmean(log_b.values()) - statistics.fmean(log_a.values()),
        parts=tuple(parts) if len(parts) > 1 else (),
        resolution=resolution,
        rounds=min(len(log_a), len(log_b)),
        paired=False,
    )


def logarithms(values: Mapping[int, float]) -> dict[int, float]:
    """Return the logarithms of values above 0, by the same keys."""
    return {number: math.log(value) for number, value in values.items()}


def _reading_variance(side: Rounds) -> float:
    """Return the least variance of a round: readings in steps are never sharper than a step.

    Equal readings prove nothing finer. The variance of an even distribution over a step is a
    twelfth of its square (Sheppard's correction).
    """
    return (2 * side.resolution_share) ** 2 / 12


def p_value(of: Contrast) -> float | None:
    """Return how likely so large a ratio is between equal sides; None when measured once.

    A ratio below what can be read is as likely as any: 1.
    """
    if not of.parts:
        return None
    if abs(of.log_ratio) <= of.resolution:
        return 1.0
    if of.standard_error == 0:
        return 0.0
    from scipy.special import stdtr  # noqa: PLC0415  (0.3 s to import; only an analysis pays)

    return float(2 * stdtr(of.degrees, -abs(of.log_ratio) / of.standard_error))


def half_width(of: Contrast, alpha: float) -> float | None:
    """Return half of the width of the logarithm's interval of level 1 - alpha; None if once.

    Never less than what can be read.
    """
    if not of.parts:
        return None
    from scipy.special import stdtrit  # noqa: PLC0415

    return max(float(stdtrit(of.degrees, 1 - alpha / 2)) * of.standard_error, of.resolution)


def ratio_estimate(of: Contrast, alpha: float) -> Estimate:
    """Return the ratio with its interval of level 1 - alpha."""
    half = half_width(of, alpha)
    return Estimate(
        value=_exp(of.log_ratio),
        low=None if half is None else _exp(of.log_ratio - half),
        high=None if half is None else _exp(of.log_ratio + half),
        rounds=of.rounds,
        unit="ratio",
    )


def _exp(logarithm: float) -> float:
    return math.exp(min(logarithm, EXP_ARGUMENT_MAX))
