"""Predictions of cells from an audited table, and the limits of these predictions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, cast

from seatrial.errors import UsageError
from seatrial.lazy import np
from seatrial.stats.estimate import t_of
from seatrial.stats.wording import format_size
from seatrial.trials.audit.analysis.model import CellTable, Form, Prediction, TableAudit
from seatrial.trials.audit.analysis.tables import known_points, observations_of
from seatrial.trials.audit.queueing.fit import fit
from seatrial.trials.audit.queueing.forms import Variant
from seatrial.units import SECTOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seatrial.trials.audit.analysis.model import TablePoint
    from seatrial.trials.audit.queueing.fit import Fit
    from seatrial.trials.audit.queueing.forms import Array, FormName

EXTRAPOLATION_FACTOR_MAX: Final = 64
EXTRAPOLATION_DEVIATION_LOG: Final[dict[str, float]] = {
    "read": 0.10,
    "locked_write": 0.13,
    "parity_write": 0.25,
}
"""Deviation outside of the measured block sizes, from the article's tables (method.md)."""

USUAL_DEVIATION_LOG: Final[dict[str, float]] = {
    "read": 0.022,
    "locked_write": 0.08,
    "parity_write": 0.17,
}
"""Root mean square error of single cells on the article's tables, without gaps."""
USUAL_CELLS: Final = 4
"""Weight of the usual deviation, in spare cells of the table."""
SPARE_CELLS_MIN: Final = 3


def fit_of(audit: TableAudit) -> Fit:
    """Return the fit of an audit's model to the cells that it rests on.

    Args:
        audit: Audit of a table whose model fits.
    """
    names = tuple(parameter.name for parameter in audit.parameters)
    variant = Variant(cast("FormName", audit.form), names)  # the model fits, so it is not "none"
    rests_on = [point.key in audit.rests_on for point in known_points(audit.table)]
    return fit(variant, observations_of(audit.table).subset(np.array(rests_on)))


def predict(
    audit: TableAudit,
    block_size_bytes: int,
    concurrency: int,
    threads: int | None = None,
    *,
    fitted: Fit | None = None,
) -> Prediction:
    """Return the predicted rate of a new measurement of one cell, with its 95 % interval.

    Args:
        audit: Audit of a table whose model fits.
        block_size_bytes: Size of one request.
        concurrency: Requests in flight: threads times depth.
        threads: Number of threads; None if not given.
        fitted: `fit_of` the audit, if many cells are predicted.

    Raises:
        UsageError: if no model fits, or if the model is known to fail this far from the
            measured cells.
    """
    if refusal := next(_refusals(audit, block_size_bytes, concurrency, threads), ""):
        raise UsageError(
            seen=(f"No prediction for {format_size(block_size_bytes)} at {concurrency} in flight"),
            cause=refusal,
            next_step="Measure it: seatrial io TARGET --block-size SIZE --threads N",
        )
    cells = [(float(block_size_bytes), float(concurrency), float(threads or concurrency))]
    return predictions(
        fitted or fit_of(audit), audit.table, cells, outlier_keys=outlier_keys_of(audit)
    )[0]


def predictions(
    fitted: Fit,
    table: CellTable,
    cells: Sequence[tuple[float, float, float]],
    *,
    outlier_keys: frozenset[str] = frozenset(),
) -> list[Prediction]:
    """Return predictions of cells given as block size in bytes, concurrency and threads.

    The interval includes the uncertainty of the parameters and the scatter of single cells around
    the model, without gaps. With few cells the scatter is poorly known and is moderated towards
    the usual deviation: G. K. Smyth, "Linear models and empirical Bayes methods", Statistical
    Applications in Genetics and Molecular Biology 3 (2004), section 4.
    """
    size_bytes = np.array([cell[0] for cell in cells])
    concurrency = np.array([cell[1] for cell in cells])
    threads = np.array([cell[2] for cell in cells])
    points = known_points(table)
    sound = np.array([point.key not in outlier_keys for point in points])
    residual_log = residuals_log(fitted, points)[sound]
    own_log, freedom = _scatter_log(fitted, residual_log, rounds_deviation_log(points))
    measured = [point.block_size_bytes for point in points]
    outside = (size_bytes < min(measured)) | (size_bytes > max(measured))
    added_log = np.where(outside, EXTRAPOLATION_DEVIATION_LOG[fitted.variant.form], 0.0)
    doubt_log = fitted.prediction_deviation_log(size_bytes, concurrency, threads)
    half_log = t_of(freedom) * np.sqrt(doubt_log**2 + own_log**2 + added_log**2)
    rates = fitted.predicted_per_s(size_bytes, concurrency, threads)
    return [
        Prediction(iops=float(rate), low=float(rate / factor), high=float(rate * factor))
        for rate, factor in zip(rates, np.exp(np.minimum(half_log, 50.0)), strict=True)
    ]


def limits_of(form: Form, points: Sequence[TablePoint]) -> list[str]:
    """Return sentences on the range in which the model of a table is valid."""
    sizes = [point.block_size_bytes for point in points]
    flying = [point.concurrency for point in points]
    texts = [
        f"The model is valid for {min(flying)} to {max(flying)} requests in flight, the measured "
        "range."
    ]
    if len(set(sizes)) == 1:
        texts.append(f"It is valid for blocks of {format_size(sizes[0])} only.")
        return texts
    lowest = max(SECTOR_BYTES, min(sizes) // EXTRAPOLATION_FACTOR_MAX)
    if form == "parity_write":
        lowest = min(sizes)
        texts.append(
            "It does not extrapolate to smaller blocks: on the tables used for validation, the "
            "error of such predictions exceeded 50 %."
        )
    highest = format_size(max(sizes) * EXTRAPOLATION_FACTOR_MAX)
    texts.append(f"It is valid for blocks of {format_size(lowest)} to {highest}.")
    return texts


def outlier_keys_of(audit: TableAudit) -> frozenset[str]:
    """Return the keys of all cells that belong to a gap."""
    return frozenset(key for gap in audit.gaps for key in gap.keys)


def _refusals(
    audit: TableAudit, block_size_bytes: int, concurrency: int, threads: int | None
) -> Iterator[str]:
    """Yield the reasons why a cell cannot be predicted."""
    if not audit.holds:
        yield "No model fits this table, so there are no predictions"
    points = known_points(audit.table)
    sizes = [point.block_size_bytes for point in points]
    flying = [point.concurrency for point in points]
    if block_size_bytes < SECTOR_BYTES:
        yield "No drive supports requests below 512 B"
    if not min(flying) <= concurrency <= max(flying):
        yield (
            f"The table was measured with {min(flying)} to {max(flying)} requests in flight and "
            "cannot be extrapolated beyond"
        )
    if len(set(sizes)) == 1 and block_size_bytes != sizes[0]:
        yield (
            f"The table contains only blocks of {format_size(sizes[0])} and cannot predict other "
            "sizes"
        )
    if threads is None and any(parameter.name == "submit_us" for parameter in audit.parameters):
        yield (
            "In this table the number of threads limits the rate: 1 thread at depth 16 differs "
            "from 16 threads. Give both, such as 4x8 for 4 threads at depth 8"
        )
    if audit.form == "parity_write" and block_size_bytes < min(sizes):
        yield (
            "Parity writes had a median error of 63 % when extrapolated to smaller blocks; the "
            f"smallest measured here is {format_size(min(sizes))}"
        )
    distance = max(block_size_bytes / max(sizes), min(sizes) / block_size_bytes)
    if distance > EXTRAPOLATION_FACTOR_MAX:
        yield (
            f"The size is {math.floor(distance)} times beyond the measured sizes; the limit is "
            f"{EXTRAPOLATION_FACTOR_MAX} times"
        )


def rounds_deviation_log(points: Sequence[TablePoint]) -> float:
    """Return the standard error of a cell's mean due to the scatter of its rounds.

    In logarithms, pooled over the cells with several rounds, for a cell with their mean number of
    rounds; 0 if no cell was repeated.
    """
    logs = [
        np.log(point.rounds_per_s)
        for point in points
        if len(point.rounds_per_s) > 1 and min(point.rounds_per_s) > 0
    ]
    if not logs:
        return 0.0
    freedom = sum(len(log) - 1 for log in logs)
    variance = sum(float(np.sum((log - log.mean()) ** 2)) for log in logs) / freedom
    return math.sqrt(variance * len(logs) / sum(map(len, logs)))


def residuals_log(fitted: Fit, points: Sequence[TablePoint]) -> Array:
    """Return the logarithm of observed over predicted of cells, used in the fit or not."""
    predicted = fitted.predicted_per_s(
        np.array([float(point.block_size_bytes) for point in points]),
        np.array([float(point.concurrency) for point in points]),
        np.array([float(point.threads) for point in points]),
    )
    observed = np.array([point.iops.value for point in points if point.iops])
    residual_log: Array = np.log(observed / predicted)
    return residual_log


def _scatter_log(fitted: Fit, residual: Array, rounds_log: float) -> tuple[float, int]:
    """Return the deviation of cells outside gaps from the model, and its degrees of freedom.

    If a table with enough spare cells scatters more than usual, its own scatter is used. Otherwise
    at least the scatter of its rounds is expected, even if the measured cells agree by chance.
    """
    spare = max(0, len(residual) - len(fitted.variant.names))
    own = float(np.sum(residual**2)) if spare else 0.0
    usual = USUAL_DEVIATION_LOG[fitted.variant.form] ** 2 + rounds_log**2
    if spare >= SPARE_CELLS_MIN and own / spare > usual:
        return math.sqrt(own / spare), spare
    freedom = USUAL_CELLS + spare
    return math.sqrt((USUAL_CELLS * usual + own) / freedom), freedom
