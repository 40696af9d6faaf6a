"""The states that a rate goes through: fresh, transition, steady, left.

Pure functions on a series of rates and their times, so that the timeline of a sample and the
rounds of a run are judged alike. Levels come from change points (change_points.py). The lasting
level is the longest one that does not surely move by more than a tenth, which is what SNIA's rule
allows its line; what comes before it is ``fresh`` or ``transition``, what comes after it at
another level has ``left`` it. Noise alone makes no state: whatever is told here is sure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from seatrial.stats.block_bootstrap import half_width_of_mean
from seatrial.stats.estimate import Estimate
from seatrial.stats.steady.change_points import change_points, logarithms, sure_move
from seatrial.stats.steady.model import Phase, State
from seatrial.stats.steady.snia import LINE_SHARE_MAX, WINDOW_ROUNDS, line_share
from seatrial.stats.timeline import SLICES_MIN, median

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

RATIO_MIN = 1.1
"""Levels nearer than a tenth are one state: SNIA's rule lets a steady rate lean by as much."""
STATE_SHARE_MIN = 0.05
STATE_VALUES_MIN = 5
STEADY_SHARE_MIN = 1 / 3
SMOOTH_FACTOR = 5.0


@dataclass(frozen=True)
class Level:
    """A stretch of a series at one level: values ``start`` to ``end``, the last excluded."""

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
        unit: Of the rates.

    Raises:
        ValueError: When there are fewer than two values, or the times are not as many.
    """
    import numpy as np  # noqa: PLC0415

    if len(rates_per_s) < 2 or len(times_s) != len(rates_per_s):
        raise ValueError(f"{len(rates_per_s)} rates and {len(times_s)} times make no series")
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
    """Return the levels of a series: what lies between its change points, the small ones merged.

    A stretch too short to be a state, or one in which mostly nothing completed, is a freeze or an
    outlier and no state where it lies between two stretches of one level; neighbours less than a
    tenth apart are one level.
    """
    bounds = [0, *change_points(logarithms(values)), len(values)]
    levels = [_level(values, start, end) for start, end in pairwise(bounds)]
    shortest = max(STATE_VALUES_MIN, math.ceil(STATE_SHARE_MIN * len(values)))
    while len(levels) > 1:
        place = _to_merge(levels, shortest)
        if place is None:
            break
        first, last = place
        merged = _level(values, levels[first].start, levels[last].end)
        levels[first : last + 1] = [merged]
    return levels


def _to_merge(levels: Sequence[Level], shortest: int) -> tuple[int, int] | None:
    """Return first and last of the levels to make one of, the clearest case first."""
    for place in range(1, len(levels) - 1):
        before, own, after = levels[place - 1 : place + 2]
        is_no_state = own.end - own.start < shortest or own.rate_per_s == 0
        if is_no_state and is_same_level(before.rate_per_s, after.rate_per_s):
            return place - 1, place + 1
    for place in range(len(levels) - 1):
        if is_same_level(levels[place].rate_per_s, levels[place + 1].rate_per_s):
            return place, place + 1
    return None


def is_same_level(one_per_s: float, other_per_s: float) -> bool:
    """Tell whether two rates are less than a tenth apart."""
    return max(one_per_s, other_per_s) <= RATIO_MIN * min(one_per_s, other_per_s)


def is_steady(values: Array) -> bool:
    """Tell whether a stretch keeps its level: no sure move of its line by more than a tenth.

    The noise about the line is taken as correlated, and a smooth decline looks like little else:
    so a stretch that goes one way all along is not steady either.
    """
    return not goes_one_way(values) and sure_move(logarithms(values)) <= math.log(RATIO_MIN)


def goes_one_way(values: Array) -> bool:
    """Tell whether a stretch of at least 20 values only falls, or only rises, and smoothly so.

    Its fifths, which stand for the five rounds of SNIA's rule, all go the same way and lean by
    more than the rule's tenth, five times as far as the values scatter about a bent line. Of
    noise that is hardly ever so, but for 5 % of the cases of 20 values correlated at 0.9.
    """
    import numpy as np  # noqa: PLC0415

    if len(values) < SLICES_MIN:
        return False
    fifths = [float(part.mean()) for part in np.array_split(values, WINDOW_ROUNDS)]
    steps = np.diff(fifths)
    lean = line_share(fifths)
    one_way = bool((steps < 0).all() or (steps > 0).all())
    if not one_way or min(fifths) <= 0 or lean is None or lean <= LINE_SHARE_MAX:
        return False
    heights, places = logarithms(values), np.arange(len(values))
    bent = np.polyval(np.polyfit(places, heights, 2), places)
    moved = abs(math.log(fifths[-1] / fifths[0]))
    return moved > SMOOTH_FACTOR * float((heights - bent).std())


def _level(values: Array, start: int, end: int) -> Level:
    """Return a stretch as a level: its median, which a freeze does not move."""
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
    for place, level in enumerate(levels):
        if at_level[place]:
            found.append("steady")
        elif place > reached:
            found.append("left")
        else:
            is_fresh = place == 0 and level.rate_per_s > lasting.rate_per_s
            found.append("fresh" if is_fresh else "transition")
    return found


def _lasting(values: Array, levels: Sequence[Level]) -> Level | None:
    """Return the longest level that is steady, the later one of equals; None where none is."""
    fewest = max(STATE_VALUES_MIN, math.ceil(STEADY_SHARE_MIN * len(values)))
    able = [
        level
        for level in levels
        if level.end - level.start >= fewest and is_steady(values[level.start : level.end])
    ]
    return max(able, key=lambda level: (level.end - level.start, level.start), default=None)


def _runs(levels: Sequence[Level], states: Sequence[State]) -> list[tuple[int, int, State]]:
    """Return first value, last value and state, neighbours of one state as one."""
    runs: list[tuple[int, int, State]] = []
    for level, state in zip(levels, states, strict=True):
        if runs and runs[-1][2] == state:
            runs[-1] = (runs[-1][0], level.end, state)
        else:
            runs.append((level.start, level.end, state))
    return runs


def _rate(values: Array, unit: str) -> Estimate:
    """Return the mean rate of a stretch with an interval that pays for autocorrelation."""
    mean = float(values.mean())
    half = half_width_of_mean(values)
    if half is None or mean <= 0:
        return Estimate(value=mean, low=None, high=None, rounds=1, unit=unit)
    factor = math.exp(half / mean)
    return Estimate(
        value=mean, low=mean / factor, high=mean * factor, rounds=1, unit=unit, over="timeline"
    )
