"""The ratio of two sides of one cell: logarithms of the rounds, paired t or Welch's t.

scipy.stats has both tests (``ttest_rel``, ``ttest_ind(equal_var=False)``), at half a millisecond
a call; a comparison of thousands of cells uses the same formulas on scipy's distribution, and
tests/stats/compare/test_ratio.py compares them with scipy.stats.

The error rate covers a whole comparison: over all cells, figures and sides compared at once, at
most one comparison in twenty of equal things reports any difference. Half of the 5 % is for the
overall ratios, half for the cells, each by Holm's method (1979, A simple sequentially rejective
multiple test procedure); a half whose hypotheses are all rejected passes its level to the other
(Bretz, Maurer, Brannath and Posch 2009, A graphical approach to sequentially rejective multiple
test procedures).

The cells of one round share that round's drift, so that a hundred cells of three rounds are three
observations of the drift, not three hundred. Residuals are therefore summed over the cells of a
round before they are squared: the cluster-robust variance of Liang and Zeger (1986, Longitudinal
data analysis using generalized linear models), with the round as cluster. Where every cell has
every round this is exactly the t interval of the per-round means of the logarithms. Where cells
stopped at different rounds, it is a sum of unequal squares; its bias and its degrees of freedom are
computed as if rounds were alike (Bell and McCaffrey 2002, Bias reduction in standard errors for
linear regression with multi-stage samples).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from seatrial.lazy import np
from seatrial.stats.compare.figures import Rounds
from seatrial.stats.estimate import EXP_ARGUMENT_MAX, Estimate, variance


class RoundVariance(msgspec.Struct, frozen=True):
    """The uncertainty of a mean of logarithms: the variance of one round, and their number.

    The number need not be an integer: rounds with unequal weight count for less.
    """

    variance: float
    rounds: float


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """The logarithm of B over A, with its uncertainty.

    Attributes:
        log_ratio: Mean of ln(B / A).
        parts: One where rounds are paired, two where they are not; none if measured once.
        resolution: Half of the resolution of the logarithm.
        rounds: Number of rounds, of the side with fewer.
        paired: Whether rounds were compared in pairs.
    """

    log_ratio: float
    parts: tuple[RoundVariance, ...]
    resolution: float
    rounds: int
    paired: bool

    @property
    def standard_error(self) -> float:
        """Standard error of the logarithm; 0 when measured once."""
        return math.sqrt(sum(part.variance / part.rounds for part in self.parts))

    @property
    def degrees(self) -> float:
        """Degrees of freedom, by Welch (1947) and Satterthwaite (1946) where there are two.

        If their numbers of rounds differ, those of the shorter one, which suffice for any two
        variances (Mickey and Brown 1966, Bounds on the distribution functions of the Behrens-Fisher
        statistic). Welch's rise to those of the longer side where few rounds agree by chance.
        """
        shares = [(part.variance / part.rounds, part.rounds - 1) for part in self.parts]
        fewest, most = (which(freedom for _, freedom in shares) for which in (min, max))
        if not math.isclose(fewest, most):
            return fewest
        of_parts = sum(share**2 / freedom for share, freedom in shares)
        if of_parts == 0:
            return sum(freedom for _, freedom in shares)
        return sum(share for share, _ in shares) ** 2 / of_parts


def contrast(a: Rounds, b: Rounds, *, paired: bool) -> Contrast | None:
    """Return B over A for one figure of one cell; None where a round measured 0.

    If paired, the rounds that both sides have are used, if there are two; otherwise all.

    Args:
        a: The baseline.
        b: The side compared with it.
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
            parts=(RoundVariance(max(variance(steps), read), len(steps)),),
            resolution=resolution,
            rounds=len(steps),
            paired=True,
        )
    parts = [
        RoundVariance(max(variance(logs.values()), _reading_variance(side)), len(logs))
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
    """Return the minimum variance of a round, from the resolution of its values.

    Equal values do not prove a smaller one. The variance of a uniform distribution over a step is a
    twelfth of its square (Sheppard's correction).
    """
    return (2 * side.resolution_share) ** 2 / 12


def p_value(of: Contrast) -> float | None:
    """Return the probability of such a ratio between equal sides; None when measured once.

    It is 1 for a ratio below the resolution.
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
    """Return half the width of the logarithm's interval of level 1 - alpha; None if measured once.

    Never less than the resolution.
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


ALPHA = 0.05


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values after Holm's adjustment, in the given order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for step, index in enumerate(order):
        largest = max(largest, (len(p_values) - step) * p_values[index])
        adjusted[index] = min(1.0, largest)
    return adjusted


class AdjustedTests(msgspec.Struct, frozen=True, kw_only=True):
    """The adjusted p values of one half, and the level of its intervals.

    Attributes:
        p_adjusted: In the given order; a value of at most 0.05 is a difference.
        alpha: An interval of level 1 - alpha excludes a ratio of 1 exactly where Holm's method
            finds a difference: the half's share of 5 % divided by the number of open questions.
    """

    p_adjusted: list[float]
    alpha: float


def judge(overall: Sequence[float], cells: Sequence[float]) -> tuple[AdjustedTests, AdjustedTests]:
    """Apply Holm's method to the overall ratios and to the cells.

    Args:
        overall: p values of the overall ratios; none where each is the ratio of its only cell.
        cells: p values of the cells.
    """
    holm_overall, holm_cells = holm(overall), holm(cells)
    return (
        _half(holm_overall, share=0.5 if cells else 1.0, other=holm_cells),
        _half(holm_cells, share=0.5 if overall else 1.0, other=holm_overall),
    )


def _half(own: Sequence[float], *, share: float, other: Sequence[float]) -> AdjustedTests:
    """Return a half at its share of the 5 %, or at all of it once the other half is rejected."""
    if share == 1:
        adjusted = list(own)
        alpha = ALPHA
    else:
        other_done = max((p / (1 - share) for p in other), default=0.0)
        adjusted = [min(1.0, p / share, max(other_done, p)) for p in own]
        alpha = ALPHA if other_done <= ALPHA else share * ALPHA
    still_open = sum(p > ALPHA for p in adjusted)
    return AdjustedTests(p_adjusted=adjusted, alpha=alpha / max(1, still_open))


Logs = Mapping[int, float]


def overall_contrast(
    cells: Sequence[tuple[Rounds, Rounds]], *, paired: bool
) -> tuple[Contrast, int] | None:
    """Return B over A as the geometric mean over cells, and the number of cells.

    Cells with a round of 0, which has no logarithm, are excluded; cells measured once are excluded
    where others were measured more often. None where no cell remains.

    Args:
        cells: Both sides of one figure, for each cell.
        paired: Whether both sides of a round were measured close to each other.
    """
    above_0 = [(a, b) for a, b in cells if min(*a.values.values(), *b.values.values()) > 0]
    if not above_0:
        return None
    logs = [(logarithms(a.values), logarithms(b.values)) for a, b in above_0]
    resolution = statistics.fmean(a.resolution_share + b.resolution_share for a, b in above_0)
    if paired:
        steps = [{r: b[r] - a[r] for r in sorted(a.keys() & b.keys())} for a, b in logs]
        repeated = [each for each in steps if len(each) > 1]
        if repeated:
            mean, part = _of_rounds(repeated)
            return _contrast(mean, (part,), resolution, repeated, paired=True), len(repeated)
    repeated_both = [each for each in logs if min(map(len, each)) > 1]
    used = repeated_both or logs
    sides = [[each[side] for each in used] for side in (0, 1)]
    if not repeated_both:
        means = [statistics.fmean(statistics.fmean(c.values()) for c in side) for side in sides]
        once = _contrast(means[1] - means[0], (), resolution, sides[0], paired=False)
        return once, len(used)
    (mean_a, part_a), (mean_b, part_b) = (_of_rounds(side) for side in sides)
    shorter = min(sides, key=lambda side: max(map(len, side)))
    found = _contrast(mean_b - mean_a, (part_a, part_b), resolution, shorter, paired=False)
    return found, len(used)


def _contrast(
    mean: float,
    parts: tuple[RoundVariance, ...],
    resolution: float,
    cells: Sequence[Logs],
    *,
    paired: bool,
) -> Contrast:
    rounds = len({number for cell in cells for number in cell})
    return Contrast(
        log_ratio=mean, parts=parts, resolution=resolution, rounds=rounds, paired=paired
    )


def _of_rounds(cells: Sequence[Logs]) -> tuple[float, RoundVariance]:
    """Return the mean over cells of their means, and its variance by rounds.

    Args:
        cells: For each cell its logarithms by round, at least two.
    """
    means = [statistics.fmean(cell.values()) for cell in cells]
    deviations: dict[int, float] = defaultdict(float)
    for cell, mean in zip(cells, means, strict=True):
        for number, value in cell.items():
            deviations[number] += (value - mean) / (len(cells) * len(cell))
    squares = math.fsum(deviation**2 for deviation in deviations.values())
    too_small, freedom = _of_squares(Counter(frozenset(cell) for cell in cells))
    return statistics.fmean(means), RoundVariance(squares * too_small * (freedom + 1), freedom + 1)


def _of_squares(cells: Mapping[frozenset[int], int]) -> tuple[float, float]:
    """Return the bias factor of the sum of squares, and its degrees of freedom.

    Computed as if all scatter were between rounds, and as if all were between cells; the more
    conservative of the two counts.

    Args:
        cells: How many cells were measured in exactly these rounds.
    """
    numbers = sorted(frozenset().union(*cells))
    count = sum(cells.values())
    size = (len(numbers), len(numbers))
    shares, of_drift, of_scatter = np.zeros(size[0]), np.zeros(size), np.zeros(size)
    mean_variance = 0.0
    for rounds, times in cells.items():
        inside = np.array([number in rounds for number in numbers], dtype=float)
        weight = 1 / (count * len(rounds))
        centred = np.diag(inside) - np.outer(inside, inside) / len(rounds)
        shares += times * weight * inside
        of_drift += times * weight * centred
        of_scatter += times * weight**2 * centred
        mean_variance += times * weight**2 * len(rounds)
    models = (
        (of_drift @ of_drift.T, float(shares @ shares)),
        (of_scatter, mean_variance),
    )
    return (
        max(variance / float(np.trace(covariance)) for covariance, variance in models),
        min(float(np.trace(covariance) ** 2 / np.sum(covariance**2)) for covariance, _ in models),
    )
