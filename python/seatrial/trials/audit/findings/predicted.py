"""Finding ``predicted``: cells of an adaptive matrix that nobody measured."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.context import NS_PER_S, Context
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_duration_s, format_plural, format_share
from seatrial.trials.audit.analysis.model import TableAudit, TablePoint, audits_of
from seatrial.trials.audit.analysis.tables import identity_of

GUARD_COUNTER = "guard_ns"


@from_samples(rank=540, section="Whose number is it?", holds_in_lab=False)
def predicted(context: Context) -> list[Finding]:
    """Tell, of each table of an adaptive matrix, what was measured and how the rest is known.

    Means:
        Cells of an adaptive matrix were not measured; a model of those that were says what they do.

    Decided:
        By `adaptive = true`. Note, with half of the widest 95 % interval and the time that was
        saved; warning where the budget ended before any model held, so that the rest is not known.
        A gap among cells that nobody measured is not seen.

    Do:
        `adaptive = false` where a gap would matter.
    """
    return [
        _finding(context, audit, left_out)
        for audit in audits_of(context)
        if (left_out := [point for point in audit.table.points if not point.measured])
    ]


def _finding(context: Context, audit: TableAudit, left_out: Sequence[TablePoint]) -> Finding:
    table = audit.table
    measured_count = len(table.points) - len(left_out)
    spent_s, full_s = _times_s(context, audit)
    widest_share = _widest_share(audit, left_out)
    known = (
        "no model holds, so that they are not known"
        if widest_share is None
        else f"the model puts them within {format_share(widest_share)}"
    )
    return Finding(
        kind="predicted",
        severity="note" if widest_share is not None else "warning",
        cells=[identity_of(table, point) for point in left_out],
        sentence=(
            f"{table.workload}, {table.operation}s on {table.target}: "
            f"{format_plural(len(left_out), 'cell')} of {len(table.points)} were not measured; "
            f"{known}. {format_duration_s(spent_s)} instead of {format_duration_s(full_s)}."
        ),
        cause=(
            "The matrix is adaptive: cells were measured only until the others could be predicted. "
            "A gap among these is not seen."
        ),
        evidence={
            "measured_count": measured_count,
            "predicted_count": len(left_out) if widest_share is not None else 0,
            "half_width_share_max": widest_share,
            "spent_s": spent_s,
            "full_s": full_s,
        },
        next="Measure all cells where a gap would matter: adaptive = false.",
    )


def _times_s(context: Context, audit: TableAudit) -> tuple[float, float]:
    """Return what the measured cells took, their guard included, and what all would have taken."""
    keys = {point.key for point in audit.table.points if point.measured}
    samples = [sample for sample in context.samples if sample.cell.key in keys]
    cells_s = sum(sample.duration_s for sample in samples)
    guard_s = sum(sample.counters.get(GUARD_COUNTER, 0.0) for sample in samples) / NS_PER_S
    return cells_s + guard_s, cells_s * len(audit.table.points) / max(1, len(keys))


def _widest_share(audit: TableAudit, left_out: Sequence[TablePoint]) -> float | None:
    """Return half of the widest interval over its figure; None where nothing is predicted."""
    reported = [
        audit.predictions[point.key] for point in left_out if point.key in audit.predictions
    ]
    return max(((each.high - each.low) / 2 / each.iops for each in reported), default=None)
