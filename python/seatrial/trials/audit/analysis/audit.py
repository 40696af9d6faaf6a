"""The audit of tables: which model fits, its parameters, and the cells that it does not explain.

Without a model, gaps are found by order: larger blocks never have more requests per second, nor
fewer bytes per second; more threads, or more requests in flight per thread, never have fewer
requests per second. A cell that is slower than two neighbours allow is an outlier. In trials on
tables with injected slowdowns this finds two thirds of those of 1.3x, with 7 to 17 % false alarms,
while a model finds nearly all with none (docs/method.md). The order is used only if no model fits.

With one block size a model has one curve: the rate over the requests in flight. A deviation is as
often an error of the model as of a cell, for example with a hard disk that sorts its queue. So the
deviation of a cell counts only as far as it also deviates from the cells with the same number in
flight or, if there are none, from the line between those with fewer and with more.

Before the cells, a file of known size was written in known time. Reads that follow wait until the
write cache has drained. If a cell of ``T`` seconds reached a share ``r`` of its expected rate,
requests waited for ``T * (1 - r)``. The fill drained from its beginning to the end of that wait:
``drained = size / (time of the fill + sum of the waits)``. If ``T`` is unknown, it is the whole
number of seconds for which the drain rate comes closest to the rate of the largest writes of the
same target.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.results.model import Run
from seatrial.stats.wording import format_duration_s, format_plural, format_share
from seatrial.trials.audit.analysis.gaps import (
    SUB_PAGE_FACTOR,
    find_gaps,
    gap_limit_log,
    named_points,
)
from seatrial.trials.audit.analysis.interpretations import interpret, is_contradicted
from seatrial.trials.audit.analysis.model import CellTable, Gap, TableAudit, TablePoint
from seatrial.trials.audit.analysis.predict import limits_of, predictions
from seatrial.trials.audit.analysis.tables import is_large_enough, known_points, tables_of
from seatrial.trials.audit.queueing.fit import MAD_TO_DEVIATION
from seatrial.trials.audit.queueing.forms import PAGE_BYTES
from seatrial.trials.audit.queueing.phrases import parameters_of
from seatrial.units import MIB

if TYPE_CHECKING:
    from seatrial.stats.model import CellSummary
    from seatrial.trials.audit.analysis.interpretations import Interpretation
    from seatrial.trials.audit.queueing.fit import ModelChoice


OUTLIER_SHARE_MAX: Final = 0.25
LOWER_BOUNDS_MIN: Final = 2


def expected_at_least(table: CellTable) -> dict[str, float]:
    """Return the minimum expected rate of each cell, by key, in requests per second.

    This is the second highest minimum set by its neighbours, since a single one may be an outlier
    itself. Cells with fewer than two such neighbours have none.

    Args:
        table: Any table.
    """
    points = known_points(table)
    expected = {}
    for point in points:
        bounds = sorted(_lower_bounds(point, points), reverse=True)
        if len(bounds) >= LOWER_BOUNDS_MIN:
            expected[point.key] = bounds[LOWER_BOUNDS_MIN - 1]
    return expected


def is_judgeable(outlier_count: int, table: CellTable) -> bool:
    """Return whether there are few enough outliers to consider the other cells normal."""
    points = known_points(table)
    return outlier_count <= OUTLIER_SHARE_MAX * len(points)


def order_scatter_log(table: CellTable) -> float:
    """Return the typical shortfall of cells against their expectation, in logarithms.

    It is 0 if most cells meet it, and so large without order that nothing is an outlier.
    """
    expected = expected_at_least(table)
    short = [
        max(0.0, math.log(expected[point.key] / point.iops.value))
        for point in known_points(table)
        if point.iops and point.key in expected
    ]
    return MAD_TO_DEVIATION * statistics.median(short) if short else 0.0


def _lower_bounds(point: TablePoint, points: list[TablePoint]) -> list[float]:
    """Return the lower bounds of a cell's rate by the other cells."""
    bounds = []
    for other in points:
        if other.key == point.key or other.iops is None:
            continue
        if other.threads > point.threads or other.depth > point.depth:
            continue
        if other.block_size_bytes > point.block_size_bytes < PAGE_BYTES:
            bounds.append(other.iops.value / SUB_PAGE_FACTOR)
        elif other.block_size_bytes >= point.block_size_bytes:
            bounds.append(other.iops.value)
        else:
            bounds.append(other.iops.value * other.block_size_bytes / point.block_size_bytes)
    return bounds


def confirmed_by_neighbours(
    table: CellTable, predicted_per_s: Mapping[str, float]
) -> dict[str, float]:
    """Return the expected rate of each cell: the model's, or its neighbours' if closer.

    Args:
        table: The table; with several block sizes the model's is used.
        predicted_per_s: The model's prediction, by key.
    """
    if len({point.block_size_bytes for point in table.points}) > 1:
        return dict(predicted_per_s)
    points, at_least = known_points(table), expected_at_least(table)
    expected = dict(predicted_per_s)
    for point in points:
        predicted = predicted_per_s.get(point.key)
        if predicted is None or point.iops is None:
            continue
        observed, is_slow = point.iops.value, point.iops.value < predicted
        neighbours_per_s = _rate_by_neighbours_per_s(point, points, is_slow=is_slow)
        if is_slow:
            neighbours_per_s = max(neighbours_per_s, at_least.get(point.key, 0.0))
            expected[point.key] = max(observed, min(predicted, neighbours_per_s))
        else:
            expected[point.key] = min(observed, max(predicted, neighbours_per_s))
    return expected


def _rate_by_neighbours_per_s(
    point: TablePoint, points: Sequence[TablePoint], *, is_slow: bool
) -> float:
    """Return a cell's rate by its neighbours; at the ends of a table the limit of an outlier.

    A rate grows with the requests in flight, at most in proportion.
    """
    levels: dict[int, list[float]] = {}
    for other in points:
        if other.key != point.key and other.iops:
            levels.setdefault(other.concurrency, []).append(other.iops.value)
    rates = {level: statistics.median(values) for level, values in levels.items()}
    own = point.concurrency
    if own in rates:
        return rates[own]
    below = max((level for level in rates if level < own), default=None)
    above = min((level for level in rates if level > own), default=None)
    if below is not None and above is not None:
        share = math.log(own / below) / math.log(above / below)
        return math.exp((1 - share) * math.log(rates[below]) + share * math.log(rates[above]))
    other_end = below or above or own
    in_proportion = is_slow == (below is None)
    return rates.get(other_end, 0.0) * (own / other_end if in_proportion else 1.0)


CELL_TIME_S_MAX: Final = 600.0
CELL_TIME_SHARE_MAX: Final = 0.1


@dataclass(frozen=True)
class Fill:
    """The fill before the first cell.

    Attributes:
        size_bytes: Bytes written.
        duration_s: Duration.
    """

    size_bytes: float
    duration_s: float


@dataclass(frozen=True)
class Drain:
    """The drain of the write cache that a start transient implies.

    Attributes:
        mib_per_s: Drain rate of the cache.
        waited_s: How long requests waited after the fill.
        cell_s: Duration of a cell.
        is_cell_time_inferred: Whether ``cell_s`` was inferred from the largest writes.
    """

    mib_per_s: float
    waited_s: float
    cell_s: float
    is_cell_time_inferred: bool


def fill_of(cells: Sequence[CellSummary], target: str) -> Fill | None:
    """Return the first fill of a target, before its tables were measured; None if unknown."""
    samples = [
        sample
        for summary in cells
        if summary.cell.kind == "fill" and summary.cell.target == target
        for sample in summary.samples
        if sample.round == min(each.round for each in summary.samples)
    ]
    size_bytes = sum(
        part.transferred_bytes for sample in samples for part in sample.operations.values()
    )
    duration_s = sum(sample.duration_s for sample in samples)
    return Fill(size_bytes, duration_s) if size_bytes and duration_s > 0 else None


def implied_drain(
    table: CellTable,
    gap: Gap,
    predicted_per_s: Mapping[str, float],
    fill: Fill,
    *,
    writes: CellTable | None = None,
    cell_s: float | None = None,
) -> Drain | None:
    """Return the drain that a start transient implies; None if it cannot be determined.

    Args:
        table: The table with the start transient.
        gap: The start transient.
        predicted_per_s: Expected rate of each cell, by key.
        fill: The fill before it.
        writes: Writes of the same target, from which to infer the duration of a cell.
        cell_s: The duration of a cell, if the user knows it; otherwise that of the samples.
    """
    points = [point for point in table.points if point.key in gap.keys]
    first_per_s = {point.key: next(iter(point.rounds_per_s), 0.0) for point in points}
    lost_cells = sum(1 - min(1.0, rate / predicted_per_s[key]) for key, rate in first_per_s.items())
    known = [point.duration_s for point in points if point.duration_s]
    cell_s = cell_s or (statistics.fmean(known) if known else None)
    is_inferred = cell_s is None
    if cell_s is None and writes is not None:
        cell_s = _cell_time_s(writes, lost_cells, fill)
    if cell_s is None or lost_cells <= 0:
        return None
    waited_s = cell_s * lost_cells
    return Drain(
        mib_per_s=fill.size_bytes / (fill.duration_s + waited_s) / MIB,
        waited_s=waited_s,
        cell_s=cell_s,
        is_cell_time_inferred=is_inferred,
    )


def _cell_time_s(writes: CellTable, lost_cells: float, fill: Fill) -> float | None:
    """Return the duration of a cell, in whole seconds, from the rate of the largest writes.

    None if no whole number comes close: then the explanation does not fit.
    """
    points = known_points(writes)
    if not points or lost_cells <= 0:
        return None
    largest = max(point.block_size_bytes for point in points)
    paces = [
        point.iops.value * largest
        for point in points
        if point.iops and point.block_size_bytes == largest
    ]
    drained_s = fill.size_bytes / statistics.median(paces)
    exact_s = (drained_s - fill.duration_s) / lost_cells
    cell_s = float(round(exact_s))
    fits = 1 <= cell_s <= CELL_TIME_S_MAX and abs(exact_s / cell_s - 1) <= CELL_TIME_SHARE_MAX
    return cell_s if fits else None


HOLDS_SHARE_MAX: Final = 0.30
HOLDS_SCALE_LOG_MAX: Final = 0.30
FAR_CELLS_SHARE_MAX: Final = 0.30
FAR_BY_ORDER_SHARE_MAX: Final = 0.60
FACTOR_JUDGED_MAX: Final = 100.0
FORM_WORDS: Final = {
    "read": "closed queue: host, link and requests in flight",
    "locked_write": "one lock: one request at a time",
    "parity_write": "parity: cost of partial stripes",
}


def audit_tables(run: Run, cells: Sequence[CellSummary]) -> list[TableAudit]:
    """Return the audit of each table of a run that has at least 7 figures.

    Args:
        run: The run.
        cells: Its cells, in any order.
    """
    tables = [table for table in tables_of(run, cells) if is_large_enough(table)]
    audits = [audit_table(table) for table in tables]
    return [_with_drain(audit, tables, fill_of(cells, audit.table.target)) for audit in audits]


def audit_table(table: CellTable, *, bound_bytes_per_s: float | None = None) -> TableAudit:
    """Return the audit of one table.

    Args:
        table: At least two points with a figure.
        bound_bytes_per_s: Maximum bandwidth of its path; None if unknown.

    Raises:
        ValueError: if there are fewer points.
    """
    interpretation = interpret(table)
    reported = (
        _by_model(table, interpretation, bound_bytes_per_s) if _holds(interpretation) else None
    )
    return reported or _by_monotony(table, interpretation, bound_bytes_per_s)


def rounds_share_median(table: CellTable) -> float | None:
    """Return the median difference between two rounds of one cell; None if measured once."""
    differences = [
        abs(later / earlier - 1)
        for point in known_points(table)
        for earlier, later in zip(point.rounds_per_s, point.rounds_per_s[1:], strict=False)
        if earlier > 0
    ]
    return statistics.median(differences) if differences else None


def _holds(interpretation: Interpretation) -> bool:
    """Return whether a model fits a table: most cells closely, with few outliers.

    More outliers are allowed if the order of the table confirms them.
    """
    choice, scale_log = interpretation.choice, interpretation.scale_log
    far, unconfirmed = interpretation.far_low | interpretation.far_high, interpretation.unconfirmed
    return (
        choice.held_out_share_median <= HOLDS_SHARE_MAX
        and scale_log <= HOLDS_SCALE_LOG_MAX
        and int(unconfirmed.sum()) <= FAR_CELLS_SHARE_MAX * len(far)
        and int(far.sum()) <= FAR_BY_ORDER_SHARE_MAX * len(far)
    )


def _by_model(
    table: CellTable, interpretation: Interpretation, bound_bytes_per_s: float | None
) -> TableAudit | None:
    """Return the audit by the model; None if cells that are not outliers contradict it."""
    fitted = interpretation.choice.fit
    cells = [
        (float(p.block_size_bytes), float(p.concurrency), float(p.threads)) for p in table.points
    ]
    expected = {
        point.key: predicted.iops
        for point, predicted in zip(table.points, predictions(fitted, table, cells), strict=True)
    }
    confirmed = confirmed_by_neighbours(table, expected)
    gaps = find_gaps(
        table, confirmed, interpretation.scale_log, bound_bytes_per_s=bound_bytes_per_s
    )
    outlier = frozenset(key for gap in gaps if gap.kind != "bound_broken" for key in gap.keys)
    if is_contradicted(interpretation, table, outlier):
        return None
    predicted = predictions(fitted, table, cells, outlier_keys=outlier)
    errors = _errors_share(table, expected, outlier)
    rounds_share = rounds_share_median(table)
    return TableAudit(
        table=table,
        form=fitted.variant.form,
        holds=True,
        sentence=_holds_sentence(fitted.variant.form, errors, interpretation.choice, rounds_share),
        parameters=parameters_of(fitted, table.operation),
        predictions=dict(zip((p.key for p in table.points), predicted, strict=True)),
        error_share_median=_quantile(errors, 0.5),
        error_share_p90=_quantile(errors, 0.9),
        held_out_share_median=interpretation.choice.held_out_share_median,
        scale_log=interpretation.scale_log,
        rounds_share_median=rounds_share,
        gaps=[_with_rival(table, gap, interpretation) for gap in gaps],
        limits=limits_of(fitted.variant.form, known_points(table)),
        rests_on=[
            point.key
            for point, is_used in zip(known_points(table), interpretation.rests_on, strict=True)
            if is_used
        ],
    )


def _with_rival(table: CellTable, gap: Gap, interpretation: Interpretation) -> Gap:
    """Add another interpretation of the table to a gap, if it explains as much."""
    rival, points = interpretation.rival, known_points(table)
    if rival is None or gap.kind not in ("too_fast", "collapse", "noise"):
        return gap
    is_fast = gap.kind == "too_fast"
    swapped = (
        rival.far_low & ~interpretation.far_low
        if is_fast
        else rival.far_high & ~interpretation.far_high
    )
    still = rival.far_high if is_fast else rival.far_low
    mine = [still[i] for i, point in enumerate(points) if point.key in gap.keys]
    others = [point for i, point in enumerate(points) if swapped[i]]
    if not others or all(mine):
        return gap
    return msgspec.structs.replace(
        gap,
        cause=(
            f"{gap.cause} Or {'it is' if len(gap.keys) == 1 else 'they are'} correct, and "
            f"{named_points(others)} {'is' if len(others) == 1 else 'are'} too "
            f"{'slow' if is_fast else 'fast'}: this table alone cannot show which."
        ),
    )


def _by_monotony(
    table: CellTable, interpretation: Interpretation, bound_bytes_per_s: float | None
) -> TableAudit:
    expected = expected_at_least(table)
    scatter_log = order_scatter_log(table)
    gaps = find_gaps(table, expected, scatter_log, bound_bytes_per_s=bound_bytes_per_s)
    gaps = [gap for gap in gaps if gap.kind != "too_fast"]  # the expected rates are minima
    outlier = sum(len(gap.keys) for gap in gaps if gap.kind not in ("absent", "bound_broken"))
    if not is_judgeable(outlier, table):
        gaps = [gap for gap in gaps if gap.kind in ("absent", "bound_broken")]
    return TableAudit(
        table=table,
        form="none",
        holds=False,
        sentence=(
            "No model fits: the best one has a median cross-validation error of "
            f"{format_share(interpretation.choice.held_out_share_median)}, too many outliers, or "
            "tests that contradict it by order. "
            f"{_by_order_phrase(scatter_log)}"
        ),
        parameters=[],
        predictions={},
        error_share_median=None,
        error_share_p90=None,
        held_out_share_median=interpretation.choice.held_out_share_median,
        scale_log=None,
        rounds_share_median=rounds_share_median(table),
        gaps=gaps,
    )


def _by_order_phrase(scatter_log: float) -> str:
    factor = math.exp(gap_limit_log(scatter_log))
    if factor > FACTOR_JUDGED_MAX:
        return (
            "Gaps cannot be identified by order alone (larger blocks never have more IOPS nor less "
            "bandwidth; more requests in flight never have fewer IOPS), since too many tests "
            "contradict each other; there are no predictions."
        )
    return (
        "Gaps are tests that fall short by a factor of "
        f"{factor:.1f} by order alone (larger blocks never have more IOPS nor less bandwidth; more "
        "requests in flight never have fewer IOPS); this finds fewer gaps, and there are no "
        "predictions."
    )


def _errors_share(
    table: CellTable, expected: dict[str, float], outlier: frozenset[str]
) -> list[float]:
    return sorted(
        abs(expected[point.key] / point.iops.value - 1)
        for point in known_points(table)
        if point.iops and point.key not in outlier
    )


def _quantile(values: Sequence[float], share: float) -> float | None:
    return float(np.quantile(values, share)) if values else None


def _holds_sentence(
    form: str, errors: Sequence[float], choice: ModelChoice, rounds_share: float | None
) -> str:
    median, p90 = (_quantile(errors, share) or 0.0 for share in (0.5, 0.9))
    rounds = (
        "measured once, so the difference between rounds is unknown"
        if rounds_share is None
        else f"rounds of one test differ by {format_share(rounds_share)}"
    )
    return (
        f"Model fits ({FORM_WORDS[form]}): median error {format_share(median)} (p90 "
        f"{format_share(p90)}) over {format_plural(len(errors), 'test')}, "
        f"{format_share(choice.held_out_share_median)} in cross-validation; {rounds}."
    )


def _with_drain(audit: TableAudit, tables: Sequence[CellTable], fill: Fill | None) -> TableAudit:
    """Add the implied drain of the write cache to a start transient."""
    if fill is None or not audit.holds:
        return audit
    same_target = [t for t in tables if t.target == audit.table.target and t.operation == "write"]
    writes = same_target[0] if same_target else None
    expected = {key: reported.iops for key, reported in audit.predictions.items()}
    gaps = [_with_drain_cause(audit.table, gap, expected, fill, writes) for gap in audit.gaps]
    return msgspec.structs.replace(audit, gaps=gaps)


def _with_drain_cause(
    table: CellTable, gap: Gap, expected: dict[str, float], fill: Fill, writes: CellTable | None
) -> Gap:
    if gap.kind != "start_transient":
        return gap
    drain = implied_drain(table, gap, expected, fill, writes=writes)
    if drain is None:
        return gap
    return msgspec.structs.replace(
        gap,
        cause=f"{gap.cause} {_drain_phrase(drain, fill)}",
        drain_mib_per_s=drain.mib_per_s,
    )


def _drain_phrase(drain: Drain, fill: Fill) -> str:
    is_inferred = " (inferred from the largest writes)" if drain.is_cell_time_inferred else ""
    return (
        f"The implied drain rate of the {fill.size_bytes / MIB:,.0f} MiB written before is "
        f"{drain.mib_per_s:,.0f} MiB/s, with a wait of {format_duration_s(drain.waited_s)} in "
        f"tests of {format_duration_s(drain.cell_s)}{is_inferred}."
    )
