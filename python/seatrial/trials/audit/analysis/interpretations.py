"""Interpretations of a table whose cells contradict each other: which cells its model is fitted to.

A fit follows the majority of cells. If most of a plateau has collapsed, it follows the collapse,
and the rest of the plateau become outliers. So a table whose cells contradict each other by order
(``gaps.py``) is fitted to several subsets without contradictions: without the cells that fall short
of others (the upper envelope), without those that demand too much, without the fewest. Each fit
then includes cells that agree with it and excludes those that do not (concentration steps: P. J.
Rousseeuw and K. Van Driessen, "Computing LTS Regression for Large Data Sets", Data Mining and
Knowledge Discovery 12 (2006)).

The interpretations are compared by what they leave unexplained: the scatter of the cells of the
fit, and the events that explain the outliers. Successive cells are one event. A cell that is too
slow is more likely than one that is too fast, unless it was measured first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.lazy import np
from seatrial.trials.audit.analysis.gaps import (
    connected_groups,
    contradictions_log,
    fewest_contradicting,
    gap_limit_log,
)
from seatrial.trials.audit.analysis.model import CellTable, TablePoint
from seatrial.trials.audit.analysis.predict import residuals_log
from seatrial.trials.audit.analysis.tables import known_points, observations_of
from seatrial.trials.audit.queueing.fit import (
    MAD_TO_DEVIATION,
    ModelChoice,
    choose,
    cross_validated,
    fit,
    usable_variants,
)

if TYPE_CHECKING:
    from numpy import bool_
    from numpy.typing import NDArray

    from seatrial.trials.audit.queueing.forms import Array, Observations, Variant

    Mask = NDArray[bool_]

CONTRADICTION_LOG_MIN: Final = math.log(1.5)
CONTRADICTION_SCALES: Final = 6.0
LIMITS_LOG: Final = (math.log(1.3), math.log(2.0))
KEPT_CELLS_MIN: Final = 5
SPARE_CELLS_MIN: Final = 2
STEPS: Final = 3
NAMES_MAX: Final = 4
SCALE_LEAST_LOG: Final = 0.02
SCALE_MOST_LOG: Final = 0.2

MILD_COST: Final = 0.5
"""For a cell that is neither close to the model nor far from it."""
FREE_COST: Final = 1.8
"""For a cell that is far off by a factor of its own: anything up to a hundred."""
OUTLIER_CELL_COST: Final = 0.7
FACTOR_COST: Final = 2.0
SLOW_EVENT_COST: Final = 3.0
FAST_FIRST_COST: Final = 2.0
FAST_EVENT_COST: Final = 8.0
FAST_CELL_COST: Final = 2.0
SAME_FACTOR_CELLS_MIN: Final = 3
BETTER_COST: Final = 6.0
OPEN_COST: Final = 12.0
OPEN_OUTLIER_SHARE_MAX: Final = 0.5


@dataclass(frozen=True)
class Interpretation:
    """One interpretation of a table.

    Attributes:
        choice: The equation, fitted to the cells of the fit.
        rests_on: Mask of these cells among the cells with a figure.
        residual_log: Logarithm of observed over predicted, of all cells with a figure.
        scale_log: Scatter of the cells of the fit.
        cost: What is unexplained, as a negative log likelihood.
        unconfirmed: Cells far off that no normal cell contradicts.
        rival: Another interpretation that explains nearly as much; None if absent.
    """

    choice: ModelChoice
    rests_on: Mask
    residual_log: Array
    scale_log: float
    cost: float
    unconfirmed: Mask
    rival: Interpretation | None = None

    @property
    def far_low(self) -> Mask:
        """Cells that are far below."""
        return self.residual_log < -gap_limit_log(self.scale_log)

    @property
    def far_high(self) -> Mask:
        """Cells that are far above."""
        return self.residual_log > gap_limit_log(self.scale_log)


def interpret(table: CellTable) -> Interpretation:
    """Return the likeliest interpretation of a table: of all cells, unless they contradict.

    Args:
        table: At least two points with a figure.

    Raises:
        ValueError: when there are fewer.
    """
    points, observed = known_points(table), observations_of(table)
    everything = np.ones(len(observed), dtype=bool)
    full = _interpretation(points, choose(observed), everything)
    short_log = contradictions_log(points)
    if not _has_contradictions(full, short_log):
        return full
    tried = _concentrated_fits(points, observed, short_log, full)
    supported = [each for each in tried if _is_supported(each, short_log)]
    best = min(supported, key=lambda each: each.cost, default=full)
    if best.cost > full.cost - BETTER_COST:
        return _with_rival(full, supported)
    rests_on = observed.subset(best.rests_on)
    choices = [cross_validated(best.choice.fit), choose(rests_on)]
    final = min(
        (_interpretation(points, c, best.rests_on) for c in choices),
        key=lambda each: each.cost,
    )
    return _with_rival(final, [full, *supported])


def _has_contradictions(full: Interpretation, short_log: Array) -> bool:
    """Return whether contradictions remain that slow cells do not explain."""
    limit_log = max(CONTRADICTION_LOG_MIN, CONTRADICTION_SCALES * _local_scale_log(full))
    if short_log.max() <= limit_log:
        return False
    near = ~(full.far_low | full.far_high)
    left_log = float(short_log[np.ix_(near, near)].max(initial=-math.inf))
    return left_log > limit_log or bool(full.far_high.any())


def is_contradicted(interpretation: Interpretation, table: CellTable, outlier: Set[str]) -> bool:
    """Return whether normal cells contradict each other by more than their scatter.

    Args:
        interpretation: Interpretation of the table.
        table: The table.
        outlier: Keys of the cells that are gaps.
    """
    points = known_points(table)
    sound = np.array([point.key not in outlier for point in points])
    short_log = contradictions_log(points)[np.ix_(sound, sound)]
    return float(short_log.max(initial=0.0)) > _limit_log(_local_scale_log(interpretation))


def _limit_log(scale_log: float) -> float:
    return max(math.log(2.0), CONTRADICTION_SCALES * scale_log)


def _local_scale_log(interpretation: Interpretation) -> float:
    """Return the deviation of cells from their neighbours: a wrong model deviates smoothly."""
    observed, residual = (
        interpretation.choice.fit.observed,
        interpretation.residual_log[interpretation.rests_on],
    )
    order = np.lexsort((observed.size_bytes, observed.threads, observed.concurrency))
    steps = np.abs(np.diff(residual[order]))
    return MAD_TO_DEVIATION * float(np.median(steps)) / math.sqrt(2) if len(steps) else 0.0


def _concentrated_fits(
    points: Sequence[TablePoint], observed: Observations, short_log: Array, full: Interpretation
) -> list[Interpretation]:
    """Return the interpretations that result from the subsets."""
    found: dict[bytes, Interpretation] = {}
    for subset in _subsets(short_log, full):
        for variant in _variants(observed.subset(subset), full.choice.fit.variant):
            interpretation = _concentrate(points, observed, variant, subset)
            if interpretation is None:
                continue
            key = interpretation.rests_on.tobytes()
            if key not in found or interpretation.cost < found[key].cost:
                found[key] = interpretation
    return list(found.values())


def _subsets(short_log: Array, full: Interpretation) -> Iterator[Mask]:
    """Yield initial subsets: without contradictions, or on one side of the model."""
    yielded: set[bytes] = set()
    by_demand = np.sort(short_log, axis=1)
    subsets = [full.residual_log > -LIMITS_LOG[0], full.residual_log < LIMITS_LOG[0]]
    for limit_log in LIMITS_LOG:
        subsets += [
            by_demand[:, -1] <= limit_log,
            by_demand[:, -2] <= limit_log,
            short_log.max(axis=0) <= limit_log,
            fewest_contradicting(short_log, limit_log),
        ]
    for subset in subsets:
        if subset.sum() >= KEPT_CELLS_MIN and subset.tobytes() not in yielded:
            yielded.add(subset.tobytes())
            yield subset


def _variants(observed: Observations, full: Variant) -> list[Variant]:
    """Return the equations to try: the chosen one, and all simple ones."""
    usable = usable_variants(observed)
    return [each for each in usable if len(each.names) <= NAMES_MAX or each == full]


def _concentrate(
    points: Sequence[TablePoint], observed: Observations, variant: Variant, subset: Mask
) -> Interpretation | None:
    interpretation = None
    for _ in range(STEPS):
        if subset.sum() < max(KEPT_CELLS_MIN, len(variant.names) + SPARE_CELLS_MIN):
            return None
        fitted = fit(variant, observed.subset(subset))
        choice = ModelChoice(fitted, np.zeros(0))
        interpretation = _interpretation(points, choice, subset)
        agreeing = ~(interpretation.far_low | interpretation.far_high)
        if (agreeing == subset).all():
            break
        subset = agreeing
    return interpretation


def _interpretation(
    points: Sequence[TablePoint], choice: ModelChoice, rests_on: Mask
) -> Interpretation:
    fitted = choice.fit
    residual = residuals_log(fitted, points)
    scale_log = fitted.scale_log
    if not rests_on.all():
        spare = max(1, int(rests_on.sum()) - len(fitted.variant.names))
        scale_log *= math.sqrt(rests_on.sum() / spare)
    cost = _cost(points, residual, scale_log) + 0.5 * len(fitted.variant.names) * math.log(
        len(points)
    )
    return Interpretation(
        choice=choice,
        rests_on=np.asarray(rests_on),
        residual_log=residual,
        scale_log=scale_log,
        cost=cost,
        unconfirmed=_unconfirmed(points, residual, gap_limit_log(scale_log)),
    )


def _unconfirmed(points: Sequence[TablePoint], residual_log: Array, limit_log: float) -> Mask:
    short_log = contradictions_log(points)
    near = np.abs(residual_log) <= limit_log
    too_slow = (short_log[:, near] > CONTRADICTION_LOG_MIN).any(axis=1)
    too_fast = (short_log[near] > CONTRADICTION_LOG_MIN).any(axis=0)
    confirmed = np.where(residual_log < 0, too_slow, too_fast)
    unconfirmed: Mask = ~near & ~confirmed
    return unconfirmed


def _cost(points: Sequence[TablePoint], residual_log: Array, scale_log: float) -> float:
    """Return what a fit leaves unexplained: scatter, and the events that explain outliers."""
    scale, limit_log = max(scale_log, SCALE_LEAST_LOG), gap_limit_log(scale_log)
    near = np.abs(residual_log) <= limit_log
    scatter = (
        residual_log[near] ** 2 / (2 * scale**2) + math.log(scale) + 0.5 * math.log(2 * math.pi)
    )
    cost = float(np.minimum(scatter, MILD_COST).sum())
    far = dict(zip((p.key for p in points), residual_log, strict=True))
    low = [point for point in points if far[point.key] < -limit_log]
    high = [point for point in points if far[point.key] > limit_log]
    first = _first_positions(points, len(high))
    first_fast = [point for point in high if point.position in first]
    later = [point for point in high if point.position not in first]
    for group in connected_groups(points, low):
        cost += SLOW_EVENT_COST + _cells_cost(far, group, scale)
    for group in [first_fast] if first_fast else []:
        cost += FAST_FIRST_COST + FAST_CELL_COST * len(group) + _cells_cost(far, group, scale)
    for group in connected_groups(points, later):
        cost += FAST_EVENT_COST + FAST_CELL_COST * len(group) + _cells_cost(far, group, scale)
    return cost


def _cells_cost(far: Mapping[str, float], group: Sequence[TablePoint], scale_log: float) -> float:
    """Return the cost of one event's cells: less if all are off by the same factor."""
    cell_cost = FREE_COST
    factors_log = [far[point.key] for point in group]
    if len(group) >= SAME_FACTOR_CELLS_MIN:
        deviation = max(scale_log, float(np.std(factors_log)))
        cell_cost = min(cell_cost, math.log(deviation) + 0.5 * math.log(2 * math.pi) + 0.5)
    return (cell_cost + OUTLIER_CELL_COST) * len(group) + (cell_cost < FREE_COST) * FACTOR_COST


def _first_positions(points: Sequence[TablePoint], count: int) -> set[int]:
    return set(sorted(point.position for point in points)[:count])


def _is_supported(interpretation: Interpretation, short_log: Array) -> bool:
    """Return whether order contradicts the excluded cells, beyond the scatter.

    A wide scatter explains everything, and so nothing.
    """
    if interpretation.scale_log > SCALE_MOST_LOG:
        return False
    outlier = interpretation.far_low | interpretation.far_high
    if not outlier.any():
        return True
    limit_log = max(CONTRADICTION_LOG_MIN, CONTRADICTION_SCALES * interpretation.scale_log)
    return bool((short_log[outlier] > limit_log).any() or (short_log[:, outlier] > limit_log).any())


def _with_rival(interpretation: Interpretation, others: Sequence[Interpretation]) -> Interpretation:
    """Add the best interpretation with other outliers that explains as much."""
    rivals = [
        other
        for other in others
        if other.cost <= interpretation.cost + OPEN_COST
        and (other.far_low | other.far_high).mean() <= OPEN_OUTLIER_SHARE_MAX
        and (_swaps(other, interpretation) or _swaps(interpretation, other))
    ]
    rival = min(rivals, key=lambda each: each.cost, default=None)
    return dataclasses.replace(interpretation, rival=rival)


def _swaps(one: Interpretation, other: Interpretation) -> bool:
    """Return whether cells too slow for one interpretation are replaced by too fast ones."""
    is_slower = bool((one.far_low & ~other.far_low).any())
    return is_slower and bool((other.far_high & ~one.far_high).any())
