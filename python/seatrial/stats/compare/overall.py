"""All common cells together: the geometric mean ratio, with the round as the unit.

The cells of one round share that round's drift, so that a hundred cells of three rounds are
three observations of the drift, not three hundred. Residuals are therefore summed over the cells
of a round before they are squared: the cluster-robust variance of Liang and Zeger (1986,
Longitudinal data analysis using generalized linear models), the round being the cluster. Where
every cell has every round this is exactly the t interval of the per-round means of the
logarithms. Where cells stopped at different rounds, a sum of squares that are not alike stands
in its place; what it is too small by, and its degrees of freedom, are those that it would have
if rounds were alike (Bell and McCaffrey 2002, Bias reduction in standard errors for linear
regression with multi-stage samples).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.ratio import Contrast, Part, logarithms

Logs = Mapping[int, float]


def overall_contrast(
    cells: Sequence[tuple[Rounds, Rounds]], *, paired: bool
) -> tuple[Contrast, int] | None:
    """Return B over A as the geometric mean over cells, and how many cells it is of.

    Cells with a round of 0, which has no logarithm, are left out; cells measured once are left
    out where others were measured more often. None where no cell is left.

    Args:
        cells: Both sides of one figure, for each cell.
        paired: Whether both sides of a round were measured close to each other.
    """
    logs = [
        (logarithms(a.values), logarithms(b.values))
        for a, b in cells
        if min(*a.values.values(), *b.values.values()) > 0
    ]
    if not logs:
        return None
    resolution = statistics.fmean(a.resolution_share + b.resolution_share for a, b in cells)
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
    parts: tuple[Part, ...],
    resolution: float,
    cells: Sequence[Logs],
    *,
    paired: bool,
) -> Contrast:
    rounds = len({number for cell in cells for number in cell})
    return Contrast(
        log_ratio=mean, parts=parts, resolution=resolution, rounds=rounds, paired=paired
    )


def _of_rounds(cells: Sequence[Logs]) -> tuple[float, Part]:
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
    return statistics.fmean(means), Part(squares * too_small * (freedom + 1), freedom + 1)


def _of_squares(cells: Mapping[frozenset[int], int]) -> tuple[float, float]:
    """Return by what the sum of squares is too small, and its degrees of freedom.

    Once as if all scatter were that of the rounds, once as if it were all of the cells; the
    more careful answer of the two counts.

    Args:
        cells: How many cells were measured in just these rounds.
    """
    import numpy as np  # noqa: PLC0415  (0.1 s to import; only an analysis pays)

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
