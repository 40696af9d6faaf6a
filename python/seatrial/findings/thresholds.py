"""Judges the thresholds of a study: every cell that one selects must keep it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from seatrial.findings.model import Summary, ThresholdResult
from seatrial.stats.estimates import PERCENTS, entries_needed
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_duration_s,
    format_estimate,
)
from seatrial.study.thresholds import Threshold
from seatrial.topic import topic_of, topics


def evaluate(thresholds: Iterable[Threshold], summary: Summary) -> list[ThresholdResult]:
    """Return one result for each threshold, in their order.

    A threshold that selects no cell, or whose quantity a selected cell does not know (no such
    operation, too few requests for a percentile, nothing completed), is not met, with the
    reason: what was not shown was not kept.
    """
    return [_evaluate(threshold, summary) for threshold in thresholds]


def _evaluate(threshold: Threshold, summary: Summary) -> ThresholdResult:
    is_own = any(threshold.quantity in topic.own_quantities for topic in topics())
    figures = {
        cell.cell.key: topic_of(cell.cell).figure(threshold.quantity, cell, summary.analyses)
        if is_own
        else _figure(cell, threshold.quantity)
        for cell in summary.cells
        if threshold.selects(cell.cell)
    }
    selected = [cell for cell in summary.cells if figures.get(cell.cell.key) is not None]
    if not selected:
        names = sorted({cell.cell.workload for cell in summary.cells})
        reason = f"no measured cell is selected; measured were {', '.join(names) or 'none'}"
        return _unjudged(threshold, reason, None)
    judged: list[tuple[CellSummary, Estimate]] = []
    for cell in selected:
        figure = figures[cell.cell.key]
        if isinstance(figure, str):
            return _unjudged(threshold, f"{format_cell(cell.cell)}: {figure}", cell)
        if figure is not None:
            judged.append((cell, figure))
    return _judged(threshold, judged)


def _unjudged(threshold: Threshold, reason: str, cell: CellSummary | None) -> ThresholdResult:
    return ThresholdResult(
        threshold=threshold,
        met=False,
        doubtful=False,
        worst=None,
        cell=cell.cell.key if cell else "",
        sentence=f"{threshold.name} {threshold.condition}: not met, {reason}.",
    )


def _judged(
    threshold: Threshold, judged: Sequence[tuple[CellSummary, Estimate]]
) -> ThresholdResult:
    lower_is_worse = threshold.comparison.startswith(">")
    pick = min if lower_is_worse else max
    cell, worst = pick(judged, key=lambda one: one[1].value)
    met = threshold.holds(worst.value)
    ends = (worst.low, worst.high, worst.shown.low, worst.shown.high)
    doubtful = any(end is not None and threshold.holds(end) != met for end in ends)
    doubt = ", but the interval reaches across the limit" if doubtful else ""
    return ThresholdResult(
        threshold=threshold,
        met=met,
        doubtful=doubtful,
        worst=worst,
        cell=cell.cell.key,
        sentence=(
            f"{threshold.name} {threshold.condition}: {'met' if met else 'not met'}, "
            f"{_reported(threshold.quantity, worst)} in {format_cell(cell.cell)}{doubt}."
        ),
    )


def _reported(quantity: str, figure: Estimate) -> str:
    if figure.unit == "count":
        return f"{format_count(round(figure.value))} {quantity}"
    if quantity == "stall_max":
        return f"longest stall {format_duration_s(figure.value / 1e9)}"
    return format_estimate(figure)


def _figure(summary: CellSummary, quantity: str) -> Estimate | str:
    """Return a cell's figure in the threshold's base unit, or why there is none."""
    stalls_ns = [stall.length_s * 1e9 for sample in summary.samples for stall in sample.stalls]
    if quantity == "stalls":
        dropped = sum(sample.stalls_dropped for sample in summary.samples)
        return _exact(len(stalls_ns) + dropped, "count", summary)
    if quantity == "stall_max":
        return _exact(max(stalls_ns, default=0.0), "ns", summary)
    if quantity == "errors":
        return _exact(sum(s.errors_count for s in summary.samples), "count", summary)
    return summary.blank or _measured(summary, quantity)


def _measured(summary: CellSummary, quantity: str) -> Estimate | str:
    if quantity == "iops":
        return summary.iops
    if quantity == "bandwidth":
        return summary.bandwidth
    return _latency(summary, quantity)


def _exact(value: float, unit: str, summary: CellSummary) -> Estimate:
    """Return what was counted over all rounds, which has no interval."""
    rounds = max(summary.iops.rounds, 1)
    return Estimate(value=value, low=None, high=None, rounds=rounds, unit=unit)


def _latency(summary: CellSummary, quantity: str) -> Estimate | str:
    """Return the worst operation kind's response time of a name."""
    missing = [kind for kind, figures in summary.latency.items() if quantity not in figures]
    if not summary.latency or missing:
        figures = [each for known in summary.latency.values() for each in known.values()]
        if quantity not in PERCENTS or any(each.over == "reported" for each in figures):
            return f"no {quantity} response time is known"
        needed = format_count(entries_needed(PERCENTS[quantity]))
        return (
            f"too few requests ended to know {quantity}, which takes {needed} of each kind in "
            "every round and hardly any left unended; measure for longer"
        )
    return max((figures[quantity] for figures in summary.latency.values()), key=lambda e: e.value)
