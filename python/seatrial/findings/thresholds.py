"""Evaluates the thresholds of a study: every selected cell must meet its threshold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from seatrial.findings.context import has_stall_watch, stalls_dropped_of, stalls_of
from seatrial.findings.model import Summary, ThresholdResult
from seatrial.stats.cell_estimates import PERCENTS, entries_needed, unanswered
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_estimate,
    format_value,
)
from seatrial.study.thresholds import Threshold
from seatrial.topic import topic_of, topics

STALLS: Final = ("stalls", "stall_max")


def evaluate(thresholds: Iterable[Threshold], summary: Summary) -> list[ThresholdResult]:
    """Return one result for each threshold, in their order.

    A threshold is not met if it selects no cell or if a selected cell does not have the quantity
    (no such operation, too few requests for a percentile, nothing completed); the result gives
    the reason.
    """
    return [_evaluate(threshold, summary) for threshold in thresholds]


def _evaluate(threshold: Threshold, summary: Summary) -> ThresholdResult:
    is_own = any(threshold.quantity in topic.own_quantities for topic in topics())
    figures = {
        cell.cell.key: topic_of(cell.cell).own_estimate(threshold.quantity, cell, summary.analyses)
        if is_own
        else figure_of(cell, threshold.quantity)
        for cell in summary.cells
        if threshold.selects(cell.cell)
    }
    selected = [cell for cell in summary.cells if figures.get(cell.cell.key) is not None]
    if not selected:
        names = sorted({cell.cell.workload for cell in summary.cells})
        reason = f"it selects no test; workloads measured: {', '.join(names) or 'none'}"
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
        sentence=f"{threshold.name} {threshold.condition}: not shown, {reason}.",
    )


def _judged(
    threshold: Threshold, judged: Sequence[tuple[CellSummary, Estimate]]
) -> ThresholdResult:
    lower_is_worse = threshold.comparison.startswith(">")
    pick = min if lower_is_worse else max
    failed = [
        (cell, figure)
        for cell, figure in judged
        if not threshold.holds(figure.value) and not _is_doubtful(threshold, figure)
    ]
    cell, worst = pick(failed or judged, key=lambda one: one[1].value)
    met = threshold.holds(worst.value)
    # A limit that every cell meets is in doubt if any of them may meet it by chance.
    in_doubt = [
        one.cell
        for one, figure in judged
        if (met or one is cell) and _is_doubtful(threshold, figure)
    ]
    where = "" if cell.cell in in_doubt or not in_doubt else f" in {format_cell(in_doubt[0])}"
    doubt = f", but the interval{where} includes the limit" if in_doubt else ""
    answer = "met" if met else "not met"
    if not met and in_doubt and worst.is_lower_bound:
        answer, doubt = "not shown", ""
    return ThresholdResult(
        threshold=threshold,
        met=met,
        doubtful=bool(in_doubt),
        worst=worst,
        cell=cell.cell.key,
        sentence=(
            f"{threshold.name} {threshold.condition}: {answer}, "
            f"{_reported(threshold, worst)} in {format_cell(cell.cell)}{doubt}."
        ),
    )


def _is_doubtful(threshold: Threshold, figure: Estimate) -> bool:
    """Return whether the interval of a cell's figure includes the limit."""
    high = math.inf if figure.is_lower_bound else figure.high
    ends = (figure.low, high, figure.shown.low, figure.shown.high)
    met = threshold.holds(figure.value)
    return any(end is not None and threshold.holds(end) != met for end in ends)


def _reported(threshold: Threshold, figure: Estimate) -> str:
    if figure.unit == "count":
        return f"{format_count(round(figure.value))} {threshold.quantity}"
    if threshold.quantity == "stall_max":
        return f"longest stall {format_value(figure, [threshold])}"
    return format_estimate(figure, [threshold])


def figure_of(summary: CellSummary, quantity: str, *, of_target: bool = False) -> Estimate | str:
    """Return a cell's figure in base units, or the reason for its absence.

    Args:
        summary: The cell.
        quantity: A quantity of thresholds.
        of_target: Whether stalls of the load generator itself are left out.
    """
    if quantity in STALLS and not has_stall_watch(summary.samples):
        return "stalls unknown: they were not watched for"
    stalls_ns = [
        stall.length_s * 1e9
        for stall in (stalls_of(summary) if quantity in STALLS else [])
        if not (of_target and stall.is_of_generator)
    ]
    if quantity == "stalls":
        return _exact(len(stalls_ns) + stalls_dropped_of(summary), "count", summary)
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
    """Return a count over all rounds, which has no interval."""
    rounds = max(summary.iops.rounds, 1)
    return Estimate(value=value, low=None, high=None, rounds=rounds, unit=unit)


def _latency(summary: CellSummary, quantity: str) -> Estimate | str:
    """Return the highest response time of this percentile over the kinds of operation."""
    completed: Counter[str] = Counter()
    if any(map(unanswered, summary.samples)):  # a kind of which none ended has no result
        due = [access for access in summary.cell.parsed.accesses if access.weight > 0]
        completed.update({access.operation: 0 for access in due})
    for sample in summary.samples:
        completed.update({kind: part.completed for kind, part in sample.operations.items()})
    if never := [kind for kind in sorted(completed) if not completed[kind]]:
        return f"no {never[0]} completed"
    if not completed or any(quantity not in summary.latency.get(kind, {}) for kind in completed):
        figures = [each for known in summary.latency.values() for each in known.values()]
        if quantity not in PERCENTS or any(each.over == "reported" for each in figures):
            return f"no {quantity} response time available"
        needed = format_count(entries_needed(PERCENTS[quantity]))
        return (
            f"too few requests completed for {quantity}: it takes {needed} of each kind in "
            "every round, with almost none left in flight; measure for longer"
        )
    return max((figures[quantity] for figures in summary.latency.values()), key=lambda e: e.value)
