"""The audit of tables: which equation holds, what it says, and which cells it does not explain."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.results.model import Run
from seatrial.stats.wording import format_duration_s, format_plural, format_share
from seatrial.trials.audit.analysis import monotone
from seatrial.trials.audit.analysis.gaps import find_gaps, gap_limit_log, named_points
from seatrial.trials.audit.analysis.model import CellTable, Gap, Prediction, TableAudit
from seatrial.trials.audit.analysis.one_size import confirmed_by_neighbours
from seatrial.trials.audit.analysis.predict import limits_of, predictions
from seatrial.trials.audit.analysis.tables import is_large_enough, known_points, tables_of
from seatrial.trials.audit.analysis.transient import MIB, Drain, Fill, fill_of, implied_drain

if TYPE_CHECKING:
    from seatrial.stats.model import CellSummary
    from seatrial.trials.audit.analysis.readings import Reading
    from seatrial.trials.audit.queueing.choose import Choice

HOLDS_SHARE_MAX: Final = 0.30
HOLDS_SCALE_LOG_MAX: Final = 0.30
FAR_CELLS_SHARE_MAX: Final = 0.30
FAR_BY_ORDER_SHARE_MAX: Final = 0.60
FACTOR_JUDGED_MAX: Final = 100.0
FORM_WORDS: Final = {
    "read": "closed queue: a host, a link and what is in flight",
    "locked_write": "one lock: one request at a time",
    "parity_write": "parity: partial stripes cost, full stripes do not",
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
        bound_bytes_per_s: What its path can carry at most; None where that is not known.

    Raises:
        ValueError: when there are fewer points.
    """
    from seatrial.trials.audit.analysis.readings import read_table  # noqa: PLC0415

    reading = read_table(table)
    reported = _by_model(table, reading, bound_bytes_per_s) if _holds(reading) else None
    return reported or _by_monotony(table, reading, bound_bytes_per_s)


def rounds_share_median(table: CellTable) -> float | None:
    """Return by how much two rounds of one cell differ, typically; None when measured once."""
    differences = [
        abs(later / earlier - 1)
        for point in known_points(table)
        for earlier, later in zip(point.rounds_per_s, point.rounds_per_s[1:], strict=False)
        if earlier > 0
    ]
    return statistics.median(differences) if differences else None


def _holds(reading: Reading) -> bool:
    """Tell whether a model describes a table: most cells closely, and few of them not at all.

    Cells whose oddness order confirms may be more.
    """
    choice, scale_log = reading.choice, reading.scale_log
    far, unconfirmed = reading.far_low | reading.far_high, reading.unconfirmed
    return (
        choice.held_out_share_median <= HOLDS_SHARE_MAX
        and scale_log <= HOLDS_SCALE_LOG_MAX
        and int(unconfirmed.sum()) <= FAR_CELLS_SHARE_MAX * len(far)
        and int(far.sum()) <= FAR_BY_ORDER_SHARE_MAX * len(far)
    )


def _by_model(
    table: CellTable, reading: Reading, bound_bytes_per_s: float | None
) -> TableAudit | None:
    """Return what the model of a table says; None where cells that it calls sound contradict it."""
    from seatrial.trials.audit.analysis.readings import is_contradicted  # noqa: PLC0415
    from seatrial.trials.audit.queueing.words import parameters_of  # noqa: PLC0415

    fitted = reading.choice.fit
    cells = [
        (float(p.block_size_bytes), float(p.concurrency), float(p.threads)) for p in table.points
    ]
    expected = {
        point.key: reported.iops
        for point, reported in zip(table.points, predictions(fitted, table, cells), strict=True)
    }
    judged = confirmed_by_neighbours(table, expected)
    gaps = find_gaps(table, judged, reading.scale_log, bound_bytes_per_s=bound_bytes_per_s)
    odd = frozenset(key for gap in gaps if gap.kind != "bound_broken" for key in gap.keys)
    if is_contradicted(reading, table, odd):
        return None
    reported = predictions(fitted, table, cells, odd_keys=odd)
    errors = _errors_share(table, expected, odd)
    rounds_share = rounds_share_median(table)
    return TableAudit(
        table=table,
        form=fitted.variant.form,
        holds=True,
        sentence=_holds_sentence(fitted.variant.form, errors, reading.choice, rounds_share),
        parameters=parameters_of(fitted, table.operation),
        predictions=dict(zip((p.key for p in table.points), reported, strict=True)),
        error_share_median=_quantile(errors, 0.5),
        error_share_p90=_quantile(errors, 0.9),
        held_out_share_median=reading.choice.held_out_share_median,
        scale_log=reading.scale_log,
        rounds_share_median=rounds_share,
        gaps=[_with_rival(table, gap, reading) for gap in gaps],
        limits=limits_of(fitted.variant.form, known_points(table)),
        rests_on=[
            point.key
            for point, is_used in zip(known_points(table), reading.rests_on, strict=True)
            if is_used
        ],
    )


def _with_rival(table: CellTable, gap: Gap, reading: Reading) -> Gap:
    """Add to a gap that another reading of the table explains as much, where one does."""
    rival, points = reading.rival, known_points(table)
    if rival is None or gap.kind not in ("too_fast", "collapse", "noise"):
        return gap
    is_fast = gap.kind == "too_fast"
    swapped = rival.far_low & ~reading.far_low if is_fast else rival.far_high & ~reading.far_high
    still = rival.far_high if is_fast else rival.far_low
    mine = [still[i] for i, point in enumerate(points) if point.key in gap.keys]
    others = [point for i, point in enumerate(points) if swapped[i]]
    if not others or all(mine):
        return gap
    return msgspec.structs.replace(
        gap,
        cause=(
            f"{gap.cause} Or {'it is' if len(gap.keys) == 1 else 'they are'} sound, and "
            f"{named_points(others)} {'is' if len(others) == 1 else 'are'} too "
            f"{'slow' if is_fast else 'fast'}: this table alone does not tell which."
        ),
    )


def _by_monotony(table: CellTable, reading: Reading, bound_bytes_per_s: float | None) -> TableAudit:
    expected = monotone.expected_at_least(table)
    scatter_log = monotone.scatter_log(table)
    gaps = find_gaps(table, expected, scatter_log, bound_bytes_per_s=bound_bytes_per_s)
    gaps = [gap for gap in gaps if gap.kind != "too_fast"]  # more than at least is no fault
    odd = sum(len(gap.keys) for gap in gaps if gap.kind not in ("absent", "bound_broken"))
    if not monotone.is_judgeable(odd, table):
        gaps = [gap for gap in gaps if gap.kind in ("absent", "bound_broken")]
    return TableAudit(
        table=table,
        form="none",
        holds=False,
        sentence=(
            "No model holds: the best one misses cells that it has not seen by "
            f"{format_share(reading.choice.held_out_share_median)} (median), or many of them by "
            "far, or cells that it calls sound contradict each other by order. "
            f"{_by_order_words(scatter_log)}"
        ),
        parameters=[],
        predictions={},
        error_share_median=None,
        error_share_p90=None,
        held_out_share_median=reading.choice.held_out_share_median,
        scale_log=None,
        rounds_share_median=rounds_share_median(table),
        gaps=gaps,
    )


def _by_order_words(scatter_log: float) -> str:
    factor = math.exp(gap_limit_log(scatter_log))
    if factor > FACTOR_JUDGED_MAX:
        return (
            "Gaps are sought by order alone (larger blocks never give more requests per second nor "
            "fewer bytes, more in flight never less), but so many cells contradict each other that "
            "none is called odd; nothing is predicted."
        )
    return (
        "Gaps are sought by order alone (larger blocks never give more requests per second nor "
        "fewer bytes, more in flight never less), where a cell falls "
        f"{factor:.1f} times short; that finds fewer of them, and nothing is predicted."
    )


def _errors_share(table: CellTable, expected: dict[str, float], odd: frozenset[str]) -> list[float]:
    return sorted(
        abs(expected[point.key] / point.iops.value - 1)
        for point in known_points(table)
        if point.iops and point.key not in odd
    )


def _quantile(values: Sequence[float], share: float) -> float | None:
    import numpy as np  # noqa: PLC0415

    return float(np.quantile(values, share)) if values else None


def _holds_sentence(
    form: str, errors: Sequence[float], choice: Choice, rounds_share: float | None
) -> str:
    median, p90 = (_quantile(errors, share) or 0.0 for share in (0.5, 0.9))
    rounds = (
        "measured once, so how rounds differ is not known"
        if rounds_share is None
        else f"rounds of one cell differ by {format_share(rounds_share)}"
    )
    return (
        f"Model ({FORM_WORDS[form]}) holds: off by {format_share(median)} (median; 90 % of cells "
        f"within {format_share(p90)}) over {format_plural(len(errors), 'cell')}, by "
        f"{format_share(choice.held_out_share_median)} on cells that it had not seen; {rounds}."
    )


def _with_drain(audit: TableAudit, tables: Sequence[CellTable], fill: Fill | None) -> TableAudit:
    """Add to a start transient what it implies of the write cache."""
    if fill is None or not audit.holds:
        return audit
    same_target = [t for t in tables if t.target == audit.table.target and t.operation == "write"]
    writes = same_target[0] if same_target else None
    expected = {key: reported.iops for key, reported in audit.predictions.items()}
    gaps = [_explained(audit.table, gap, expected, fill, writes) for gap in audit.gaps]
    return msgspec.structs.replace(audit, gaps=gaps)


def _explained(
    table: CellTable, gap: Gap, expected: dict[str, float], fill: Fill, writes: CellTable | None
) -> Gap:
    if gap.kind != "start_transient":
        return gap
    drain = implied_drain(table, gap, expected, fill, writes=writes)
    if drain is None:
        return gap
    return msgspec.structs.replace(
        gap,
        cause=f"{gap.cause} {_drain_words(drain, fill)}",
        drain_mib_per_s=drain.mib_per_s,
    )


def _drain_words(drain: Drain, fill: Fill) -> str:
    inferred = " (inferred from the largest writes)" if drain.is_cell_time_inferred else ""
    return (
        f"The {fill.size_bytes / MIB:,.0f} MiB written before would have drained at "
        f"{drain.mib_per_s:,.0f} MiB/s, if requests waited for "
        f"{format_duration_s(drain.waited_s)} in cells of "
        f"{format_duration_s(drain.cell_s)}{inferred}."
    )


__all__ = ["Prediction", "audit_table", "audit_tables", "rounds_share_median"]
