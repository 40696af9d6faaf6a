"""Finding ``predicted``: cells of an adaptive matrix that were not measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from seatrial.findings.context import Context
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_duration_s, format_plural, format_share
from seatrial.trials.audit.analysis.model import TableAudit, TablePoint, audits_of
from seatrial.trials.audit.analysis.tables import identity_of
from seatrial.trials.audit.study import spent_and_full_s


@from_samples(rank=540, section="Validity of the figures", holds_in_lab=False)
def predicted(context: Context) -> list[Finding]:
    """Report for each table of an adaptive matrix how many cells were predicted.

    Means:
        Some tests of an adaptive matrix were not measured but predicted by a model of the others.

    Decided:
        By `adaptive = true`. Note, with the half width of the widest 95 % interval and the time
        saved; warning if the budget ended before a model fitted, so that the other tests are
        unknown. A gap among tests that were not measured is not detected.

    Do:
        Set `adaptive = false` if a gap would matter.
    """
    return [
        _finding(context, audit, left_out)
        for audit in audits_of(context)
        if (left_out := [point for point in audit.table.points if not point.measured])
    ]


class PredictedFigures(Figures, frozen=True, kw_only=True, tag="predicted"):
    measured_count: int
    predicted_count: int
    half_width_share_max: float | None
    spent_s: float
    full_s: float
    table_workload: Annotated[str, HIDDEN]
    table_operation: Annotated[str, HIDDEN]
    table_target: Annotated[str, HIDDEN]
    left_out_count: Annotated[int, HIDDEN]
    table_points: Annotated[list[TablePoint], HIDDEN]

    def text(self) -> FindingText:
        known = (
            "no model fits, so they are unknown"
            if self.half_width_share_max is None
            else f"the model predicts them within {format_share(self.half_width_share_max)}"
        )
        return FindingText(
            sentence=(
                f"{self.table_workload}, {self.table_operation}s on {self.table_target}: "
                f"{self.left_out_count} of {format_plural(len(self.table_points), 'test')} were "
                f"not measured; {known}. This took {format_duration_s(self.spent_s)} instead of "
                f"{format_duration_s(self.full_s)}."
            ),
            cause=(
                "The matrix is adaptive: tests were run only until the others could be predicted. "
                "A gap among the predicted ones is not detected."
            ),
            next="If a gap would matter, run all tests: adaptive = false.",
        )


def _finding(context: Context, audit: TableAudit, left_out: Sequence[TablePoint]) -> Finding:
    table = audit.table
    measured_count = len(table.points) - len(left_out)
    spent_s, full_s = _times_s(context, audit)
    widest_share = _widest_share(audit, left_out)
    return Finding(
        severity="note" if widest_share is not None else "warning",
        cells=[identity_of(table, point) for point in left_out],
        figures=PredictedFigures(
            measured_count=measured_count,
            predicted_count=len(left_out) if widest_share is not None else 0,
            half_width_share_max=widest_share,
            spent_s=spent_s,
            full_s=full_s,
            table_workload=table.workload,
            table_operation=table.operation,
            table_target=table.target,
            left_out_count=len(left_out),
            table_points=table.points,
        ),
    )


def _times_s(context: Context, audit: TableAudit) -> tuple[float, float]:
    keys = {point.key for point in audit.table.points if point.measured}
    samples = [sample for sample in context.samples if sample.cell.key in keys]
    return spent_and_full_s(samples, len(keys), len(audit.table.points))


def _widest_share(audit: TableAudit, left_out: Sequence[TablePoint]) -> float | None:
    """Return the widest half width relative to its figure; None if nothing is predicted."""
    predictions = (audit.predictions.get(point.key) for point in left_out)
    return max((each.half_width_share for each in predictions if each), default=None)
