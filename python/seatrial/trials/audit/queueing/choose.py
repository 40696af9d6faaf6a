"""Which equation a table follows: the one that best predicts cells that it has not seen.

Nothing is chosen by the name of the operation. Of those that are as good as the best within the
doubt of the comparison, the one with the fewest parameters is taken (the one-standard-error rule:
L. Breiman et al., "Classification and Regression Trees", 1984, section 3.4.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial.trials.audit.queueing.fit import Fit, errors_share, fit, refit
from seatrial.trials.audit.queueing.forms import PAGE_BYTES, VARIANTS, Observed, Variant

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

FOLDS: Final = 5
SEED: Final = 20090220
HELD_OUT_CELLS_MIN: Final = 14
LOCK_SPREAD_RATIO_MIN: Final = 4.0
ERROR_LOG_MAX: Final = math.log(1.5)
THREADS_GAIN_LOG_MIN: Final = math.log(1.25)
THREADS_PAIRS_MIN: Final = 2


@dataclass(frozen=True)
class Choice:
    """The chosen fit and how well its equation does.

    Attributes:
        fit: Fitted to all cells.
        held_out_log: Logarithm of observed over predicted for each cell, by a fit that had not
            seen it.
    """

    fit: Fit
    held_out_log: Array

    @property
    def held_out_share_median(self) -> float:
        """Median relative error of cells that the fit had not seen."""
        import numpy as np  # noqa: PLC0415

        return float(np.median(errors_share(self.held_out_log)))


def choose(observed: Observed) -> Choice:
    """Return the equation that a table follows best, fitted.

    Args:
        observed: At least two cells.

    Raises:
        ValueError: when there are fewer.
    """
    if len(observed) < 2:
        raise ValueError("a model needs at least two cells")
    fits = [fit(variant, observed) for variant in usable_variants(observed)]
    return _of_small_table(fits) if len(observed) < HELD_OUT_CELLS_MIN else _of_table(fits)


def judged(fitted: Fit) -> Choice:
    """Return a fit with how well its equation predicts cells that it has not seen."""
    count = len(fitted.observed)
    folds = FOLDS if count >= HELD_OUT_CELLS_MIN else count
    return Choice(fitted, _held_out_log(fitted, folds=folds))


def usable_variants(observed: Observed) -> list[Variant]:
    """Return the variants that the cells could tell apart, the fewest parameters first."""
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
    """Tell whether an equation leaves out what bytes cost."""
    return not {"link_mib_per_s", "full_stripe_mib_per_s"} & set(variant.names)


def threads_matter(observed: Observed) -> bool:
    """Tell whether as many requests in flight do more where more threads keep them in flight.

    At least two pairs of cells must say so, and more of them than say the opposite; a thread that
    waits for each request (depth 1) says nothing against it.
    """
    import numpy as np  # noqa: PLC0415

    alike = (observed.size_bytes[:, np.newaxis] == observed.size_bytes) & (
        observed.concurrency[:, np.newaxis] == observed.concurrency
    )
    pairs = alike & (observed.threads[:, np.newaxis] > observed.threads)
    rate_log = np.log(observed.rate_per_s)
    gain_log = (rate_log[:, np.newaxis] - rate_log)[pairs]
    for_it = int((gain_log >= THREADS_GAIN_LOG_MIN).sum())
    is_deep = (observed.concurrency > observed.threads)[np.nonzero(pairs)[0]]
    against = int((is_deep & (gain_log <= -THREADS_GAIN_LOG_MIN)).sum())
    return for_it >= THREADS_PAIRS_MIN and for_it > against


def _of_small_table(fits: Sequence[Fit]) -> Choice:
    """Choose the form by holding out one cell at a time, and all of it that the cells allow.

    With hardly more cells than parameters, a cell that alone determines a parameter is never
    predicted well without it: held-out errors tell the forms apart, not their variants. The weak
    pull to the seeds holds what the cells leave open.
    """
    held_out = [_held_out_log(fitted, folds=len(fitted.observed)) for fitted in fits]
    best = min(range(len(fits)), key=lambda index: _capped(held_out[index]).mean())
    of_form = [i for i in range(len(fits)) if fits[i].variant.form == fits[best].variant.form]
    chosen = max(of_form, key=lambda i: (len(fits[i].variant.names), -fits[i].scale_log))
    return Choice(fits[chosen], held_out[chosen])


def _of_table(fits: Sequence[Fit]) -> Choice:
    """Hold out a fifth of the cells five times; skip what is already worse on cells it has seen."""
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
            continue  # cells with as many in flight differ: no simpler form can tell them apart
        if _as_good(errors[index], errors[best]):
            return Choice(fits[index], held_out[index])
    return Choice(fits[best], held_out[best])


def _held_out_log(fitted: Fit, *, folds: int) -> Array:
    import numpy as np  # noqa: PLC0415

    observed = fitted.observed
    fold = np.random.default_rng(SEED).permutation(len(observed)) % folds
    held_out = np.zeros(len(observed))
    for number in range(folds):
        unseen = fold == number
        seen_fit = refit(fitted, observed.taken(~unseen))
        cells = observed.taken(unseen)
        predicted = seen_fit.predicted_per_s(cells.size_bytes, cells.concurrency, cells.threads)
        held_out[unseen] = np.log(cells.rate_per_s / predicted)
    return held_out


def _capped(residual_log: Array) -> Array:
    """Return absolute errors, none above what a gap begins at: gaps must not choose the model."""
    import numpy as np  # noqa: PLC0415

    return np.minimum(np.abs(residual_log), ERROR_LOG_MAX)


def _as_good(errors: Array, errors_of_best: Array) -> bool:
    """Tell whether errors are above the best's by no more than the doubt of the difference."""
    difference = errors - errors_of_best
    return float(difference.mean()) <= float(difference.std(ddof=1)) / math.sqrt(len(difference))
