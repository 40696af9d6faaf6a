"""Robust least squares of a form on the logarithms of a table's rates.

Parameters are fitted as logarithms, so that they stay above 0 and an interval is a factor. A weak
pull towards the seeds (moving a parameter by a factor of e costs as much as a residual of 0.3 %)
keeps a parameter that the table says nothing of from running away; such a parameter has no
interval then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from seatrial.trials.audit.queueing.forms import PARAMETERS, Observed, Variant

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

Loss = Literal["soft_l1", "cauchy"]

CONFIDENCE: Final = 0.95
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
        observed: What it was fitted to.
        values: Parameters by name.
        loss: How residuals were weighed.
        scale_log: 1.4826 times the median absolute residual of the logarithms.
        residual_log: Logarithm of observed over predicted, for each cell of ``observed``.
        covariance_log: Of the parameters' logarithms, in the order of ``variant.names``.
    """

    variant: Variant
    observed: Observed
    values: dict[str, float]
    loss: Loss
    scale_log: float
    residual_log: Array
    covariance_log: Array

    def predicted_per_s(
        self, size_bytes: Array, concurrency: Array, threads: Array | None = None
    ) -> Array:
        """Return requests per second for cells, measured or not; by default a thread to each."""
        import numpy as np  # noqa: PLC0415

        exact = {name: np.float64(value) for name, value in self.values.items()}
        return self.variant.rate_per_s(
            exact,  # type: ignore[arg-type]
            size_bytes,
            concurrency,
            threads,
        )

    def sensitivity_log(self, size_bytes: Array, concurrency: Array, threads: Array) -> Array:
        """Return how the logarithm of each cell's rate (row) moves with that of each parameter."""
        return _rates_log(self.variant, self._theta(), (size_bytes, concurrency, threads))[1]

    def prediction_deviation_log(
        self, size_bytes: Array, concurrency: Array, threads: Array
    ) -> Array:
        """Return the standard deviation of a prediction's logarithm, from the parameters' own."""
        import numpy as np  # noqa: PLC0415

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
        """Return Student's t for the cells that are left beyond one for each parameter."""
        from scipy.special import stdtrit  # noqa: PLC0415

        spare = max(2, len(self.observed) - len(self.variant.names))
        return float(stdtrit(spare, (1 + CONFIDENCE) / 2))

    def _theta(self) -> Array:
        import numpy as np  # noqa: PLC0415

        return np.log([self.values[name] for name in self.variant.names])


def fit(variant: Variant, observed: Observed) -> Fit:
    """Return the best fit of a variant to a table.

    Residuals are weighed by soft-L1. Where that leaves a wide scatter, the table may be gappy:
    then Cauchy's weights, which let go of far cells wholly, are kept if they halve the scatter.
    With few cells for each parameter that would only pick the cells that fit, so it is not tried.

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


def refit(fitted: Fit, observed: Observed) -> Fit:
    """Return the fit of the same variant to other cells of the same table, started from it."""
    theta = _solve(
        fitted.variant,
        observed,
        fitted.loss,
        start=fitted._theta(),
        pulled_to=fitted._theta(),
        scale_log=max(fitted.scale_log, SCALE_LEAST_LOG),
        tolerance_share=_COARSE_SHARE,
    )[0]
    return _reported(fitted.variant, observed, fitted.loss, theta)


def _fit_from_seeds(variant: Variant, observed: Observed, loss: Loss) -> Fit:
    """Try every seed with a wide scale, then narrow the scale to what the best one leaves."""
    import numpy as np  # noqa: PLC0415

    seeds = [
        np.log([seed[name] for name in variant.names]) for seed in _different(variant, observed)
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
        scale_log = max(_reported(variant, observed, loss, theta).scale_log, SCALE_LEAST_LOG)
        theta, _cost = _solve(
            variant, observed, loss, start=theta, pulled_to=seeds[0], scale_log=scale_log
        )
    return _reported(variant, observed, loss, theta)


def _different(variant: Variant, observed: Observed) -> list[dict[str, float]]:
    """Return the seeds that differ in what the variant uses."""
    different: list[dict[str, float]] = []
    for seed in variant.seeds(observed):
        if seed not in different:
            different.append(seed)
    return different


def _solve(
    variant: Variant,
    observed: Observed,
    loss: Loss,
    *,
    start: Array,
    pulled_to: Array,
    scale_log: float,
    tolerance_share: float = _FINE_SHARE,
) -> tuple[Array, float]:
    """Return the parameters' logarithms at the least cost, and that cost."""
    import numpy as np  # noqa: PLC0415
    from scipy.optimize import least_squares  # noqa: PLC0415

    lowest = np.log([PARAMETERS[name].lowest for name in variant.names])
    highest = np.log([PARAMETERS[name].highest for name in variant.names])
    wanted = np.log(observed.rate_per_s)
    cells = (observed.size_bytes, observed.concurrency, observed.threads)
    identity = PULL_LOG * np.eye(len(variant.names))

    jacobians: dict[bytes, Array] = {}

    def residuals(theta: Array) -> Array:
        # The derivatives come with the rates at hardly any cost; the solver asks for them next.
        rates, jacobian = _rates_log(variant, theta, cells)
        jacobians.clear()
        jacobians[theta.tobytes()] = np.vstack([jacobian, identity])
        return np.concatenate([rates - wanted, PULL_LOG * (theta - pulled_to)])

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
    import numpy as np  # noqa: PLC0415

    thetas = np.vstack([theta, theta + _STEP_LOG * np.eye(len(theta))])
    columns = {
        name: np.exp(thetas[:, index, np.newaxis]) for index, name in enumerate(variant.names)
    }
    rates = np.log(variant.rate_per_s(columns, *(each[np.newaxis] for each in cells)))
    return rates[0], ((rates[1:] - rates[0]) / _STEP_LOG).T


def _reported(variant: Variant, observed: Observed, loss: Loss, theta: Array) -> Fit:
    import numpy as np  # noqa: PLC0415

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
    import numpy as np  # noqa: PLC0415

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
    """Return influence and its slope at residuals over the scale."""
    squared = 1 + ratio**2
    if loss == "soft_l1":
        return ratio / squared**0.5, squared**-1.5
    return ratio / squared, (1 - ratio**2) / squared**2


def errors_share(residual_log: Sequence[float] | Array) -> Array:
    """Return relative errors of the predictions, |predicted / observed - 1|."""
    import numpy as np  # noqa: PLC0415

    errors: Array = np.abs(np.expm1(-np.asarray(residual_log)))
    return errors
