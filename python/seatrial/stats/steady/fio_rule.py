"""fio's rules of steady state (``ss=``): no value far from the mean, or a line that hardly leans.

fio, HOWTO, options ``steadystate``, ``steadystate_duration``: a window of ``ss_dur`` seconds with
one value a second slides over the job. ``iops:10%`` is met when every value of the window is
nearer to its mean than 10 % of it; ``iops_slope:0.1%`` when the line of least squares through the
window moves by less than 0.1 % of the mean from one value to the next (``bw`` and ``lat`` alike).
Both limits are exclusive, as in fio's steadystate.c.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from seatrial.stats.steady.model import RuleResult
from seatrial.stats.steady.snia import check_series, line_share, range_share
from seatrial.stats.wording import format_share

DEVIATION_LIMIT_SHARE = 0.1
SLOPE_LIMIT_SHARE = 0.01
WINDOW_VALUES = 10
"""Defaults, as fio has none: those of its examples/steadystate.fio (``iops:10%``,
``bw_slope:1%``) over the shorter of its two durations, ten seconds."""


def fio_deviation(
    values: Sequence[float],
    times_s: Sequence[float] | None = None,
    *,
    limit_share: float = DEVIATION_LIMIT_SHARE,
    window: int = WINDOW_VALUES,
) -> RuleResult:
    """Return what fio's ``ss=iops:10%`` says of one value a second.

    Args:
        values: One figure a second (fio's ``ss_interval``), none negative.
        times_s: When each was known, from the start; only ``met_at_s`` rests on them.
        limit_share: The limit as a share of the mean.
        window: How many values fio's ``ss_dur`` spans, at least 2.

    Raises:
        ValueError: When a value is negative or not finite, the times are not as many, or the
            window has fewer than two values.
    """
    return _judge(
        "fio_deviation", values, times_s, deviation_share, limit_share=limit_share, window=window
    )


def fio_slope(
    values: Sequence[float],
    times_s: Sequence[float] | None = None,
    *,
    limit_share: float = SLOPE_LIMIT_SHARE,
    window: int = WINDOW_VALUES,
) -> RuleResult:
    """Return what fio's ``ss=iops_slope:1%`` says of one value a second.

    Arguments and errors are those of :func:`fio_deviation`; the limit is what the line may move
    by from one value to the next, as a share of the mean.
    """
    return _judge("fio_slope", values, times_s, slope_share, limit_share=limit_share, window=window)


def deviation_share(window: Sequence[float]) -> float | None:
    """Return the largest distance of a value from the mean, over the mean; None where that is 0."""
    mean = statistics.fmean(window)
    return max(abs(value - mean) for value in window) / mean if mean > 0 else None


def slope_share(window: Sequence[float]) -> float | None:
    """Return what the fitted line moves by from value to value, over the mean; None where it is 0.

    Raises:
        ValueError: When the window has fewer than two values.
    """
    if len(window) < 2:
        raise ValueError("a line takes at least two values")
    moved = line_share(window)
    return None if moved is None else moved / (len(window) - 1)


def _judge(
    rule: str,
    values: Sequence[float],
    times_s: Sequence[float] | None,
    criterion: Callable[[Sequence[float]], float | None],
    *,
    limit_share: float,
    window: int,
) -> RuleResult:
    """Return what a rule says of the last window, and when the first window kept it."""
    check_series(values, times_s)
    if window < 2:
        raise ValueError(f"fio's rules take at least two values, not {window}")

    def is_kept(end: int) -> bool:
        share = criterion(values[end - window : end])
        return share is not None and share < limit_share

    first = next((end for end in range(window, len(values) + 1) if is_kept(end)), None)
    enough = len(values) >= window
    last = values[-window:] if enough else []
    met = enough and is_kept(len(values))
    return RuleResult(
        rule=rule,
        met=met,
        met_at_s=times_s[first - 1] if first and times_s else None,
        met_after=first,
        window=len(last),
        range_share=range_share(last) if enough else None,
        line_share=line_share(last) if enough else None,
        sentence=_sentence(rule, met, criterion(last) if enough else None, limit_share, window),
    )


def _sentence(rule: str, met: bool, share: float | None, limit_share: float, window: int) -> str:
    option = "ss=iops" if rule == "fio_deviation" else "ss=iops_slope"
    name = f"fio's rule {option}:{limit_share * 100:g}%"
    if share is None:
        return f"{name} cannot be met: the last {window} values are not there, or are all 0."
    what = (
        f"the farthest of the last {window} values is {format_share(share)} from their mean"
        if rule == "fio_deviation"
        else f"the line through the last {window} values moves by {format_share(share)} a value"
    )
    return f"{name} is {'met' if met else 'not met'}: {what}."
