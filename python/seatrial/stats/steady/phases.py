"""The states of a rate: fresh, transition, steady, left.

Pure functions on a series of rates and their times, for the timeline of a sample and the rounds of
a run alike. Levels are bounded by change points (change_points.py). The lasting level is the
longest one that does not significantly move by more than a tenth, the limit of SNIA's rule for its
line; earlier levels are ``fresh`` or ``transition``, later ones have ``left`` it. Only significant
changes make a state.

SNIA, Solid State Storage Performance Test Specification (PTS) 2.0.2, 2020, definition of steady
state: over a window of five rounds the largest value less the smallest is at most 20 % of the
mean, and the line of least squares through them moves by at most 10 % of the mean.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import msgspec

from seatrial.lazy import np
from seatrial.stats.estimate import Estimate, half_width_of_mean
from seatrial.stats.steady.change_points import change_points, confident_move, logarithms
from seatrial.stats.timeline import SLICES_MIN, median
from seatrial.stats.wording import format_share

State = Literal["fresh", "transition", "steady", "left"]
"""``fresh``: faster than later, before the first change; ``transition``: changing;
``steady``: at its lasting level; ``left``: no longer at a level that was steady."""


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one rule of steady state.

    Attributes:
        rule: ``snia``, ``fio_deviation`` or ``fio_slope``.
        met: Whether the last window satisfies it.
        met_at_s: When a window first satisfied it, from the start, even if a later one does not;
            None where none did, or without times.
        met_after: How many values had been seen by then; None where no window satisfied it.
        window: Number of values of the last window; 0 where there were too few for one.
        range_share: Largest less smallest value of the last window over their mean.
        line_share: Move of the fitted line over the last window, over the mean.
        sentence: The rule and its result, with figures.
    """

    rule: str
    met: bool
    met_at_s: float | None
    met_after: int | None = None
    window: int
    range_share: float | None
    line_share: float | None
    sentence: str


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time at one level.

    Attributes:
        state: The state.
        start_s: From the start of the series.
        end_s: From the start of the series.
        rate: Requests per second, with an interval that accounts for autocorrelation.
    """

    state: State
    start_s: float
    end_s: float
    rate: Estimate


class SteadyState(msgspec.Struct, frozen=True, kw_only=True):
    """One operation kind of one cell over time, or of one cell over many rounds.

    Attributes:
        cell: Key of the cell.
        operation: ``read``, ``write`` ...: reads and writes are judged separately.
        over: Whether time is within one sample (``timeline``) or over rounds (``rounds``).
        round: The round whose timeline it is; None over rounds.
        rules: Result of each rule.
        phases: In order of time, at least one.
        sentence: The phases in words, with times and rates.
    """

    cell: str
    operation: str
    over: Literal["timeline", "rounds"]
    round: int | None
    rules: list[RuleResult]
    phases: list[Phase]
    sentence: str


WINDOW_ROUNDS = 5
RANGE_SHARE_MAX = 0.2
LINE_SHARE_MAX = 0.1
_ROUNDING_SHARE = 1e-9  # a window exactly at a limit satisfies the rule despite rounding


def snia(values: Sequence[float], times_s: Sequence[float] | None = None) -> RuleResult:
    """Apply SNIA's rule to a series: whether its last five values satisfy it.

    The line is fitted over the numbers of the rounds, as the specification has it, so that
    unequal pauses between rounds do not matter.

    Args:
        values: One figure per round, in order of time, none negative: rates or latencies.
        times_s: When each of them was known, from the start; used for ``met_at_s`` only.

    Raises:
        ValueError: When a value is negative or not finite, or the number of times differs.
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
        sentence=_snia_sentence(met, spread, lean, len(values)),
    )


def check_series(values: Sequence[float], times_s: Sequence[float] | None) -> None:
    """Raise ValueError when a value is negative or not finite, or the number of times differs."""
    if not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError("a series must be finite and not negative")
    if times_s is not None and len(times_s) != len(values):
        raise ValueError(f"{len(values)} values, but {len(times_s)} times")


def range_share(window: Sequence[float]) -> float | None:
    """Return the largest value less the smallest over the mean; None where the mean is 0."""
    mean = statistics.fmean(window)
    return (max(window) - min(window)) / mean if mean > 0 else None


def line_share(window: Sequence[float]) -> float | None:
    """Return the absolute move of the fitted line over a window, over its mean.

    None where the mean is 0, or for a single value.
    """
    mean = statistics.fmean(window)
    if mean <= 0 or len(window) < 2:
        return None
    slope = statistics.linear_regression(range(len(window)), window).slope
    return abs(slope) * (len(window) - 1) / mean


def _kept(values: Sequence[float], end: int) -> bool:
    """Return whether the five values before a position satisfy the rule; five zeros do not."""
    window = values[end - WINDOW_ROUNDS : end]
    spread, lean = range_share(window), line_share(window)
    return (
        spread is not None
        and lean is not None
        and spread <= RANGE_SHARE_MAX + _ROUNDING_SHARE
        and lean <= LINE_SHARE_MAX + _ROUNDING_SHARE
    )


def _snia_sentence(met: bool, spread: float | None, lean: float | None, rounds: int) -> str:
    if rounds < WINDOW_ROUNDS:
        return f"The SNIA criterion needs {WINDOW_ROUNDS} rounds; only {rounds} were measured."
    if spread is None or lean is None:
        return (
            f"The SNIA criterion is not met: nothing completed in the last {WINDOW_ROUNDS} rounds."
        )
    return (
        f"The SNIA criterion is {'met' if met else 'not met'}: the range of the last "
        f"{WINDOW_ROUNDS} rounds is {format_share(spread)} of their mean (at most "
        f"{format_share(RANGE_SHARE_MAX)}), and the linear fit changes by "
        f"{format_share(lean)} (at most {format_share(LINE_SHARE_MAX)})."
    )


if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

RATIO_MIN = 1.1
"""Levels closer than a tenth are one state: SNIA's rule allows a steady rate as much slope."""
STATE_SHARE_MIN = 0.05
STATE_VALUES_MIN = 5
STEADY_SHARE_MIN = 1 / 3
SMOOTH_FACTOR = 5.0


@dataclass(frozen=True)
class Level:
    """A stretch of a series at one level: values ``start`` to ``end``, exclusive."""

    start: int
    end: int
    rate_per_s: float


def phases(
    rates_per_s: Sequence[float], times_s: Sequence[float], unit: str = "IOPS"
) -> list[Phase]:
    """Return the states of a series in order of time, at least one.

    Args:
        rates_per_s: Requests per second, none negative, at least two, equally far apart.
        times_s: The end of each value, from the start of the series.
        unit: Unit of the rates.

    Raises:
        ValueError: When there are fewer than two values, or the number of times differs.
    """
    if len(rates_per_s) < 2 or len(times_s) != len(rates_per_s):
        raise ValueError(f"{len(rates_per_s)} rates do not match {len(times_s)} times")
    values = np.asarray(rates_per_s, dtype=float)
    levels = levels_of(values)
    states = _states(values, levels)
    edges_s = [max(0.0, 2 * times_s[0] - times_s[1]), *times_s]
    found: list[Phase] = []
    for first, last, state in _runs(levels, states):
        found.append(
            Phase(
                state=state,
                start_s=edges_s[first],
                end_s=edges_s[last],
                rate=_rate(values[first:last], unit),
            )
        )
    return found


def levels_of(values: Array) -> list[Level]:
    """Return the levels of a series: stretches between change points, with small ones merged.

    A stretch too short to be a state, or one in which mostly nothing completed, is a freeze or an
    outlier and not a state if it is between two stretches of one level; neighbours less than a
    tenth apart are one level.
    """
    bounds = [0, *change_points(logarithms(values)), len(values)]
    levels = [_level(values, start, end) for start, end in pairwise(bounds)]
    shortest = max(STATE_VALUES_MIN, math.ceil(STATE_SHARE_MIN * len(values)))
    while len(levels) > 1:
        index = _to_merge(levels, shortest)
        if index is None:
            break
        first, last = index
        merged = _level(values, levels[first].start, levels[last].end)
        levels[first : last + 1] = [merged]
    return levels


def _to_merge(levels: Sequence[Level], shortest: int) -> tuple[int, int] | None:
    """Return first and last of the levels to merge, the clearest case first."""
    for index in range(1, len(levels) - 1):
        before, own, after = levels[index - 1 : index + 2]
        is_no_state = own.end - own.start < shortest or own.rate_per_s == 0
        if is_no_state and is_same_level(before.rate_per_s, after.rate_per_s):
            return index - 1, index + 1
    for index in range(len(levels) - 1):
        if is_same_level(levels[index].rate_per_s, levels[index + 1].rate_per_s):
            return index, index + 1
    return None


def is_same_level(one_per_s: float, other_per_s: float) -> bool:
    """Return whether two rates are less than a tenth apart."""
    return max(one_per_s, other_per_s) <= RATIO_MIN * min(one_per_s, other_per_s)


def is_steady(values: Array) -> bool:
    """Return whether a stretch keeps its level: no significant move of its line above a tenth.

    The noise about the line is modelled as correlated, and a smooth decline looks much like it: so
    a stretch that changes steadily in one direction is not steady either.
    """
    return not is_monotonic(values) and confident_move(logarithms(values)) <= math.log(RATIO_MIN)


def is_monotonic(values: Array) -> bool:
    """Return whether a stretch of at least 20 values only falls, or only rises, smoothly.

    Its fifths, which represent the five rounds of SNIA's rule, all change in one direction by more
    than the rule's tenth in total, five times the scatter about a bent line. Noise hardly ever does
    so, except in 5 % of the cases of 20 values with correlation 0.9.
    """
    if len(values) < SLICES_MIN:
        return False
    fifths = [float(part.mean()) for part in np.array_split(values, WINDOW_ROUNDS)]
    steps = np.diff(fifths)
    lean = line_share(fifths)
    one_way = bool((steps < 0).all() or (steps > 0).all())
    if not one_way or min(fifths) <= 0 or lean is None or lean <= LINE_SHARE_MAX:
        return False
    heights, indexes = logarithms(values), np.arange(len(values))
    bent = np.polyval(np.polyfit(indexes, heights, 2), indexes)
    moved = abs(math.log(fifths[-1] / fifths[0]))
    return moved > SMOOTH_FACTOR * float((heights - bent).std())


def _level(values: Array, start: int, end: int) -> Level:
    """Return a stretch as a level: its median, which a freeze does not affect."""
    return Level(start, end, median(values[start:end]))


def _states(values: Array, levels: Sequence[Level]) -> list[State]:
    """Return the state of each level."""
    lasting = _lasting(values, levels)
    if lasting is None:
        is_falling = len(levels) > 1 and levels[0].rate_per_s > levels[-1].rate_per_s
        first: State = "fresh" if is_falling else "transition"
        states: list[State] = [first]
        return states + ["transition" for _ in levels[1:]]
    at_level = [is_same_level(level.rate_per_s, lasting.rate_per_s) for level in levels]
    reached = at_level.index(True)
    found: list[State] = []
    for index, level in enumerate(levels):
        if at_level[index]:
            found.append("steady")
        elif index > reached:
            found.append("left")
        else:
            is_fresh = index == 0 and level.rate_per_s > lasting.rate_per_s
            found.append("fresh" if is_fresh else "transition")
    return found


def _lasting(values: Array, levels: Sequence[Level]) -> Level | None:
    """Return the longest steady level, the later one of equals, or None."""
    fewest = max(STATE_VALUES_MIN, math.ceil(STEADY_SHARE_MIN * len(values)))
    able = [
        level
        for level in levels
        if level.end - level.start >= fewest and is_steady(values[level.start : level.end])
    ]
    return max(able, key=lambda level: (level.end - level.start, level.start), default=None)


def _runs(levels: Sequence[Level], states: Sequence[State]) -> list[tuple[int, int, State]]:
    """Return first value, last value and state, with neighbours of one state merged."""
    runs: list[tuple[int, int, State]] = []
    for level, state in zip(levels, states, strict=True):
        if runs and runs[-1][2] == state:
            runs[-1] = (runs[-1][0], level.end, state)
        else:
            runs.append((level.start, level.end, state))
    return runs


def _rate(values: Array, unit: str) -> Estimate:
    """Return the mean rate of a stretch with an interval that accounts for autocorrelation."""
    mean = float(values.mean())
    half = half_width_of_mean(values)
    if half is None or mean <= 0:
        return Estimate(value=mean, low=None, high=None, rounds=1, unit=unit)
    factor = math.exp(half / mean)
    return Estimate(
        value=mean, low=mean / factor, high=mean * factor, rounds=1, unit=unit, over="timeline"
    )
