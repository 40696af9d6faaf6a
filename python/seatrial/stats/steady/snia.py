"""SNIA's rule of steady state: the last five rounds neither spread nor lean.

SNIA, Solid State Storage Performance Test Specification (PTS) 2.0.2, 2020, definition of steady
state: over a window of five rounds the largest value less the smallest is at most 20 % of the
mean, and the line of least squares through them moves by at most 10 % of the mean.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from seatrial.stats.steady.model import RuleResult
from seatrial.stats.wording import format_share

WINDOW_ROUNDS = 5
RANGE_SHARE_MAX = 0.2
LINE_SHARE_MAX = 0.1
_ROUNDING_SHARE = 1e-9  # a window exactly on a limit keeps the rule, whatever the last bit says


def snia(values: Sequence[float], times_s: Sequence[float] | None = None) -> RuleResult:
    """Return what SNIA's rule says of a series: whether its last five values keep it.

    The line is fitted over the numbers of the rounds, as the specification has it, so that
    unequal pauses between rounds do not matter.

    Args:
        values: One figure per round, in order of time, none negative: rates or latencies.
        times_s: When each of them was known, from the start; only ``met_at_s`` rests on them.

    Raises:
        ValueError: When a value is negative or not finite, or the times are not as many.
    """
    check_series(values, times_s)
    first = next((end for end in range(WINDOW_ROUNDS, len(values) + 1) if _kept(values, end)), None)
    enough = len(values) >= WINDOW_ROUNDS
    last = values[-WINDOW_ROUNDS:] if enough else []
    met = enough and _kept(values, len(values))
    spread, lean = (range_share(last), line_share(last)) if enough else (None, None)
    return RuleResult(
        rule="snia",
        met=met,
        met_at_s=times_s[first - 1] if first and times_s else None,
        met_after=first,
        window=len(last),
        range_share=spread,
        line_share=lean,
        sentence=_sentence(met, spread, lean, len(values)),
    )


def check_series(values: Sequence[float], times_s: Sequence[float] | None) -> None:
    """Raise ValueError when a value is negative or not finite, or the times are not as many."""
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError("a series must be finite and not negative")
    if times_s is not None and len(times_s) != len(values):
        raise ValueError(f"{len(values)} values, but {len(times_s)} times")


def range_share(window: Sequence[float]) -> float | None:
    """Return the largest value less the smallest over the mean; None where the mean is 0."""
    mean = statistics.fmean(window)
    return (max(window) - min(window)) / mean if mean > 0 else None


def line_share(window: Sequence[float]) -> float | None:
    """Return by how much the fitted line moves over a window, over its mean; never negative.

    None where the mean is 0, or where one value makes no line.
    """
    mean = statistics.fmean(window)
    if mean <= 0 or len(window) < 2:
        return None
    slope = statistics.linear_regression(range(len(window)), window).slope
    return abs(slope) * (len(window) - 1) / mean


def _kept(values: Sequence[float], end: int) -> bool:
    """Tell whether the five values before a place keep the rule; five zeros are no state."""
    window = values[end - WINDOW_ROUNDS : end]
    spread, lean = range_share(window), line_share(window)
    return (
        spread is not None
        and lean is not None
        and spread <= RANGE_SHARE_MAX + _ROUNDING_SHARE
        and lean <= LINE_SHARE_MAX + _ROUNDING_SHARE
    )


def _sentence(met: bool, spread: float | None, lean: float | None, rounds: int) -> str:
    if rounds < WINDOW_ROUNDS:
        return f"SNIA's rule takes {WINDOW_ROUNDS} rounds; there are {rounds}."
    if spread is None or lean is None:
        return f"SNIA's rule is not met: nothing completed in the last {WINDOW_ROUNDS} rounds."
    return (
        f"SNIA's rule is {'met' if met else 'not met'}: the last {WINDOW_ROUNDS} rounds spread "
        f"over {format_share(spread)} of their mean (at most {format_share(RANGE_SHARE_MAX)}), "
        f"and their line moves by {format_share(lean)} (at most {format_share(LINE_SHARE_MAX)})."
    )
