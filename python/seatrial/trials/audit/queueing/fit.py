"""Robust least squares of a form on the logarithms of a table's rates.

Parameters are fitted as logarithms, so that they stay above 0 and an interval is a factor. A weak
regularisation towards the seeds (changing a parameter by a factor of e costs as much as a residual
of 0.3 %) bounds parameters that the table does not determine; such a parameter has no interval.

The name of the operation is not used for the choice. Of the variants that are as good as the best
within the uncertainty of the comparison, the one with the fewest parameters is chosen (the
one-standard-error rule: L. Breiman et al., "Classification and Regression Trees", 1984, section
3.4.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from seatrial.lazy import np
from seatrial.stats.estimate import t_of
from seatrial.trials.audit.queueing.forms import (
    PAGE_BYTES,
    PARAMETERS,
    VARIANTS,
    Observations,
    Variant,
)

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

Loss = Literal["soft_l1", "cauchy"]

PULL_LOG: Final = 0.003
SCALE_FIRST_LOG: Final = 0.1
SCALE_LEAST_LOG: Final = 0.003
MAD_TO_DEVIATION: Final = 1.4826
GAPPY_SCALE_LOG: Final = 0.1
GAPPY_GAIN: Final = 0.5
GAPPY_CELLS_MIN: Final = 4
INTERVAL_FACTOR_MAX: Final = 3.0
AT_BOUND_LOG: Final = 0.01
_STEP_LOG: Final = 1e-5
_EVALUATIONS_MAX: Final = 40
_COARSE_SHARE: Final = 1e-3
_FINE_SHARE: Final = 1e-4


@dataclass(frozen=True)
class Fit:
    """A variant fitted to a table.

    Attributes:
        variant: The equation and its parameters.
        observed: The cells of the fit.
        values: Parameters by name.
        loss: Loss function of the residuals.
        scale_log: 1.4826 times the median absolute residual of the logarithms.
        residual_log: Logarithm of observed over predicted, for each cell of ``observed``.
        covariance_log: Covariance matrix of the parameters' logarithms, in the order of
            ``variant.names``.
    """

    variant: Variant
    observed: Observations
    values: dict[str, float]
    loss: Loss
    scale_log: float
    residual_log: Array
    covariance_log: Array

    def predicted_per_s(
        self, size_bytes: Array, concurrency: Array, threads: Array | None = None
    ) -> Array:
        """Return requests per second for cells, measured or not; by default with depth 1."""
        exact = {name: np.float64(value) for name, value in self.values.items()}
        return self.variant.rate_per_s(
            exact,  # type: ignore[arg-type]
            size_bytes,
            concurrency,
            threads,
        )

    def sensitivity_log(self, size_bytes: Array, concurrency: Array, threads: Array) -> Array:
        """Return the derivatives of each cell's log rate (row) by each log parameter."""
        return _rates_log(self.variant, self._theta(), (size_bytes, concurrency, threads))[1]

    def prediction_deviation_log(
        self, size_bytes: Array, concurrency: Array, threads: Array
    ) -> Array:
        """Return the standard deviation of a log prediction due to that of the parameters."""
        jacobian = self.sensitivity_log(size_bytes, concurrency, threads)
        variance: Array = np.einsum("ci,ij,cj->c", jacobian, self.covariance_log, jacobian)
        return np.sqrt(variance)

    def ends(self, name: str) -> tuple[float, float] | None:
        """Return the ends of a 95 % interval; None where the table does not determine it."""
        index = self.variant.names.index(name)
        half_log = self.quantile() * math.sqrt(self.covariance_log[index, index])
        value, spec = self.values[name], PARAMETERS[name]
        room_log = min(math.log(value / spec.lowest), math.log(spec.highest / value))
        if half_log > math.log(INTERVAL_FACTOR_MAX) or room_log < AT_BOUND_LOG:
            return None
        return value * math.exp(-half_log), value * math.exp(half_log)

    def quantile(self) -> float:
        """Return Student's t with the number of cells beyond one for each parameter."""
        return t_of(max(2, len(self.observed) - len(self.variant.names)))

    def _theta(self) -> Array:
        return np.log([self.values[name] for name in self.variant.names])


def fit(variant: Variant, observed: Observations) -> Fit:
    """Return the best fit of a variant to a table.

    Residuals have a soft-L1 loss. If the scatter remains wide, the table may have gaps: then
    Cauchy's loss, which ignores distant cells, is used if it halves the scatter. With few cells for
    each parameter that would only select the cells that fit, so it is not tried.

    Args:
        variant: The equation and its parameters.
        observed: At least one cell.
    """
    clean = _fit_from_seeds(variant, observed, "soft_l1")
    is_ample = len(observed) >= GAPPY_CELLS_MIN * len(variant.names)
    if clean.scale_log <= GAPPY_SCALE_LOG or not is_ample:
        return clean
    gappy = _fit_from_seeds(variant, observed, "cauchy")
    return gappy if gappy.scale_log < GAPPY_GAIN * clean.scale_log else clean


def refit(fitted: Fit, observed: Observations) -> Fit:
    """Return the fit of the same variant to other cells of the same table, starting from it."""
    theta = _solve(
        fitted.variant,
        observed,
        fitted.loss,
        start=fitted._theta(),
        pulled_to=fitted._theta(),
        scale_log=max(fitted.scale_log, SCALE_LEAST_LOG),
        tolerance_share=_COARSE_SHARE,
    )[0]
    return _fit_at(fitted.variant, observed, fitted.loss, theta)


def _fit_from_seeds(variant: Variant, observed: Observations, loss: Loss) -> Fit:
    """Try every seed with a wide scale, then narrow the scale to the best one's residuals."""
    seeds = [
        np.log([seed[name] for name in variant.names])
        for seed in _distinct_seeds(variant, observed)
    ]
    tried = [
        _solve(
            variant,
            observed,
            loss,
            start=seed,
            pulled_to=seeds[0],
            scale_log=SCALE_FIRST_LOG,
            tolerance_share=_COARSE_SHARE,
        )
        for seed in seeds
    ]
    theta = min(tried, key=lambda solved: solved[1])[0]
    for _ in range(2):
        scale_log = max(_fit_at(variant, observed, loss, theta).scale_log, SCALE_LEAST_LOG)
        theta, _cost = _solve(
            variant, observed, loss, start=theta, pulled_to=seeds[0], scale_log=scale_log
        )
    return _fit_at(variant, observed, loss, theta)


def _distinct_seeds(variant: Variant, observed: Observations) -> list[dict[str, float]]:
    """Return the seeds that differ in the parameters of the variant."""
    distinct: list[dict[str, float]] = []
    for seed in variant.seeds(observed):
        if seed not in distinct:
            distinct.append(seed)
    return distinct


def _solve(
    variant: Variant,
    observed: Observations,
    loss: Loss,
    *,
    start: Array,
    pulled_to: Array,
    scale_log: float,
    tolerance_share: float = _FINE_SHARE,
) -> tuple[Array, float]:
    """Return the log parameters with the least cost, and that cost."""
    from scipy.optimize import least_squares  # noqa: PLC0415

    lowest = np.log([PARAMETERS[name].lowest for name in variant.names])
    highest = np.log([PARAMETERS[name].highest for name in variant.names])
    observed_log = np.log(observed.rate_per_s)
    cells = (observed.size_bytes, observed.concurrency, observed.threads)
    identity = PULL_LOG * np.eye(len(variant.names))

    jacobians: dict[bytes, Array] = {}

    def residuals(theta: Array) -> Array:
        # The derivatives come with the rates at little cost; the solver requests them next.
        rates, jacobian = _rates_log(variant, theta, cells)
        jacobians.clear()
        jacobians[theta.tobytes()] = np.vstack([jacobian, identity])
        return np.concatenate([rates - observed_log, PULL_LOG * (theta - pulled_to)])

    def jacobian(theta: Array) -> Array:
        if theta.tobytes() not in jacobians:
            residuals(theta)
        return jacobians[theta.tobytes()]

    found = least_squares(
        residuals,
        np.clip(start, lowest + 1e-6, highest - 1e-6),
        jacobian,
        bounds=(lowest, highest),
        loss=loss,
        f_scale=scale_log,
        ftol=tolerance_share,
        xtol=tolerance_share,
        gtol=tolerance_share,
        max_nfev=_EVALUATIONS_MAX,
    )
    return found.x, float(found.cost)


def _rates_log(
    variant: Variant, theta: Array, cells: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """Return the logarithms of the rates and their derivatives, from one vectorised call.

    Args:
        variant: The equation and its parameters.
        theta: The parameters' logarithms.
        cells: Block sizes, requests in flight, threads.
    """
    thetas = np.vstack([theta, theta + _STEP_LOG * np.eye(len(theta))])
    columns = {
        name: np.exp(thetas[:, index, np.newaxis]) for index, name in enumerate(variant.names)
    }
    rates = np.log(variant.rate_per_s(columns, *(each[np.newaxis] for each in cells)))
    return rates[0], ((rates[1:] - rates[0]) / _STEP_LOG).T


def _fit_at(variant: Variant, observed: Observations, loss: Loss, theta: Array) -> Fit:
    cells = (observed.size_bytes, observed.concurrency, observed.threads)
    rates, jacobian = _rates_log(variant, theta, cells)
    residual = np.log(observed.rate_per_s) - rates
    scale_log = MAD_TO_DEVIATION * float(np.median(np.abs(residual - np.median(residual))))
    return Fit(
        variant=variant,
        observed=observed,
        values={
            name: float(value) for name, value in zip(variant.names, np.exp(theta), strict=True)
        },
        loss=loss,
        scale_log=scale_log,
        residual_log=residual,
        covariance_log=_covariance_log(residual, jacobian, loss, scale_log),
    )


def _covariance_log(residual: Array, jacobian: Array, loss: Loss, scale_log: float) -> Array:
    """Return the covariance of an M-estimate.

    Source: P. J. Huber, "Robust Statistics", Wiley 1981, section 7.6: the mean square of the
    influence over the square of its mean slope, times the inverse of the normal matrix.
    """
    scale = max(scale_log, SCALE_LEAST_LOG)
    influence, slope = _influence(residual / scale, loss)
    cells, parameters = jacobian.shape
    spare = max(1, cells - parameters)
    mean_square = scale**2 * float(np.sum(influence**2)) / spare
    mean_slope = max(0.1, float(np.mean(slope)))
    normal = jacobian.T @ jacobian + PULL_LOG**2 * np.eye(parameters)
    factor = max(mean_square, SCALE_LEAST_LOG**2) / mean_slope**2
    covariance: Array = np.asarray(factor * np.linalg.inv(normal), dtype=np.float64)
    return covariance


def _influence(ratio: Array, loss: Loss) -> tuple[Array, Array]:
    """Return influence and its slope at residuals relative to the scale."""
    squared = 1 + ratio**2
    if loss == "soft_l1":
        return ratio / squared**0.5, squared**-1.5
    return ratio / squared, (1 - ratio**2) / squared**2


def errors_share(residual_log: Sequence[float] | Array) -> Array:
    """Return relative errors of the predictions, |predicted / observed - 1|."""
    errors: Array = np.abs(np.expm1(-np.asarray(residual_log)))
    return errors


FOLDS: Final = 5
SEED: Final = 20090220
HELD_OUT_CELLS_MIN: Final = 14
LOCK_SPREAD_RATIO_MIN: Final = 4.0
ERROR_LOG_MAX: Final = math.log(1.5)
THREADS_GAIN_LOG_MIN: Final = math.log(1.25)
THREADS_PAIRS_MIN: Final = 2


@dataclass(frozen=True)
class ModelChoice:
    """The chosen fit and its prediction error.

    Attributes:
        fit: Fitted to all cells.
        held_out_log: Logarithm of observed over predicted for each cell, by a fit without it.
    """

    fit: Fit
    held_out_log: Array

    @property
    def held_out_share_median(self) -> float:
        """Median relative error of cells excluded from the fit."""
        return float(np.median(errors_share(self.held_out_log)))


def choose(observed: Observations) -> ModelChoice:
    """Return the equation that fits a table best.

    Args:
        observed: At least two cells.

    Raises:
        ValueError: when there are fewer.
    """
    if len(observed) < 2:
        raise ValueError("a model needs at least two cells")
    fits = [fit(variant, observed) for variant in usable_variants(observed)]
    return _of_small_table(fits) if len(observed) < HELD_OUT_CELLS_MIN else _of_large_table(fits)


def cross_validated(fitted: Fit) -> ModelChoice:
    """Return a fit with its errors on cells excluded from it."""
    count = len(fitted.observed)
    folds = FOLDS if count >= HELD_OUT_CELLS_MIN else count
    return ModelChoice(fitted, _held_out_log(fitted, folds=folds))


def usable_variants(observed: Observations) -> list[Variant]:
    """Return the variants that the cells can distinguish, the fewest parameters first."""
    below_page = bool((observed.size_bytes < PAGE_BYTES).any())
    spread_ratio = observed.concurrency.max() / observed.concurrency.min()
    has_threads = threads_matter(observed)
    return [
        variant
        for variant in VARIANTS
        if len(variant.names) <= len(observed)
        and (below_page or "sub_page_us" not in variant.names)
        and (spread_ratio >= LOCK_SPREAD_RATIO_MIN or variant.form != "locked_write")
        and observed.is_of_one_size == _is_without_bytes(variant)
        and ("submit_us" not in variant.names or has_threads)
    ]


def _is_without_bytes(variant: Variant) -> bool:
    """Return whether an equation ignores the cost of bytes."""
    return not {"link_mib_per_s", "full_stripe_mib_per_s"} & set(variant.names)


def threads_matter(observed: Observations) -> bool:
    """Return whether equal numbers in flight do more with more threads.

    At least two pairs of cells must show it, and more than show the opposite; threads with depth 1
    are not a counterexample.
    """
    same_load = (observed.size_bytes[:, np.newaxis] == observed.size_bytes) & (
        observed.concurrency[:, np.newaxis] == observed.concurrency
    )
    pairs = same_load & (observed.threads[:, np.newaxis] > observed.threads)
    rate_log = np.log(observed.rate_per_s)
    gain_log = (rate_log[:, np.newaxis] - rate_log)[pairs]
    gaining = int((gain_log >= THREADS_GAIN_LOG_MIN).sum())
    is_deep = (observed.concurrency > observed.threads)[np.nonzero(pairs)[0]]
    losing = int((is_deep & (gain_log <= -THREADS_GAIN_LOG_MIN)).sum())
    return gaining >= THREADS_PAIRS_MIN and gaining > losing


def _of_small_table(fits: Sequence[Fit]) -> ModelChoice:
    """Choose the form by holding out one cell at a time, with all parameters that the cells allow.

    With hardly more cells than parameters, a cell that alone determines a parameter is never
    predicted well without it: held-out errors distinguish the forms, not their variants. The
    regularisation determines the rest.
    """
    held_out = [_held_out_log(fitted, folds=len(fitted.observed)) for fitted in fits]
    best = min(range(len(fits)), key=lambda index: _capped(held_out[index]).mean())
    same_form = [i for i in range(len(fits)) if fits[i].variant.form == fits[best].variant.form]
    chosen = max(same_form, key=lambda i: (len(fits[i].variant.names), -fits[i].scale_log))
    return ModelChoice(fits[chosen], held_out[chosen])


def _of_large_table(fits: Sequence[Fit]) -> ModelChoice:
    """Use five-fold cross-validation; skip variants that are worse already on cells of the fit."""
    errors: dict[int, Array] = {}
    held_out: dict[int, Array] = {}
    least = math.inf
    for index in sorted(range(len(fits)), key=lambda i: _capped(fits[i].residual_log).mean()):
        if _capped(fits[index].residual_log).mean() > least:
            break
        held_out[index] = _held_out_log(fits[index], folds=FOLDS)
        errors[index] = _capped(held_out[index])
        least = min(least, float(errors[index].mean()))
    best = min(errors, key=lambda index: errors[index].mean())
    for index in sorted(errors):  # by rising number of parameters, as the variants are
        if "submit_us" in fits[best].variant.names and "submit_us" not in fits[index].variant.names:
            continue  # cells with as many in flight differ: no simpler form can distinguish them
        if _as_good(errors[index], errors[best]):
            return ModelChoice(fits[index], held_out[index])
    return ModelChoice(fits[best], held_out[best])


def _held_out_log(fitted: Fit, *, folds: int) -> Array:
    observed = fitted.observed
    fold = np.random.default_rng(SEED).permutation(len(observed)) % folds
    held_out = np.zeros(len(observed))
    for number in range(folds):
        held_out_cells = fold == number
        fold_fit = refit(fitted, observed.subset(~held_out_cells))
        cells = observed.subset(held_out_cells)
        predicted = fold_fit.predicted_per_s(cells.size_bytes, cells.concurrency, cells.threads)
        held_out[held_out_cells] = np.log(cells.rate_per_s / predicted)
    return held_out


def _capped(residual_log: Array) -> Array:
    """Return absolute errors, capped at the limit of a gap: gaps must not choose the model."""
    return np.minimum(np.abs(residual_log), ERROR_LOG_MAX)


def _as_good(errors: Array, errors_of_best: Array) -> bool:
    """Return whether errors exceed the best's by no more than the uncertainty."""
    difference = errors - errors_of_best
    return float(difference.mean()) <= float(difference.std(ddof=1)) / math.sqrt(len(difference))
