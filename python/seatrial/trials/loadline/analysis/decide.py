"""Which rate a load line measures next: pure functions of what was measured so far."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from seatrial.stats.wording import format_iops
from seatrial.trials.loadline.analysis.judged import Judged
from seatrial.trials.loadline.analysis.latency_target import LatencyTarget
from seatrial.trials.loadline.study import SAMPLES_MAX, Done, NextStep, Offer

FIRST_SHARE = 1 / 8
"""The first rate, as a share of what a closed loop reaches."""
RISE_FACTOR = 1.5
FALL_FACTOR = 4.0
CEILING_FACTOR = 8.0
"""Rates end at so many times the closed loop, which cannot have missed more."""
NARROW_RATIO = 1.04
GENTLE_RATIO = 1.12
GENTLE_FACTOR = 5.0
"""Gentle is a line that has a rate whose share is so many times what is allowed, or less of it."""
RUNG_RATIOS = (1.0, 1.06, 1.15, 1.35, 1.8)
"""How far from the boundary rates are measured, until one there is known."""
SAME_RUNG_RATIO = 1.03
ROUNDS_WANTED = 3
ROUNDS_MAX = 10
CLEAR_FACTOR = 4.0
"""A rate with this part of the allowed share, or so many times it, is worth more rounds."""
DIGITS = 3
REST_S_MAX = 1.0


def next_step(
    steps: Sequence[Judged],
    closed_per_s: float,
    latency_target: LatencyTarget,
    *,
    after_overload: bool = False,
) -> NextStep:
    """Return the next rate, or that it is enough.

    Rates rise by half from an eighth of what a closed loop reaches until one breaks, or fall by
    four until one holds; the span between is halved until it is narrow; then rates on either side
    are measured again, in random order, ever farther from it, until one holds and one breaks with
    confidence.

    Args:
        steps: What is known of each rate measured so far, rising.
        closed_per_s: What the closed loop reached.
        latency_target: What must hold.
        after_overload: Whether the sample before this step broke the limit.
    """
    if closed_per_s <= 0:
        return Done(reason="Nothing completed in the closed loop, so there is no load to seek.")
    if sum(step.rounds for step in steps) >= SAMPLES_MAX:
        return Done(reason=f"It ended after {SAMPLES_MAX} samples.")
    found = _search(steps, closed_per_s, latency_target)
    if isinstance(found, Done):
        return found
    sample_s = latency_target.sample_s_at(found)
    rest_s = min(REST_S_MAX, sample_s / 2) if after_overload else 0.0
    return Offer(rate_per_s=found, sample_s=sample_s, rest_s=rest_s)


def bracket(steps: Sequence[Judged]) -> tuple[Judged | None, Judged | None]:
    """Return the highest rate that seems to hold below the lowest that seems to break, and that.

    Either is None where there is none.
    """
    broken = next((step for step in steps if not step.leans), None)
    holding = [step for step in steps if broken is None or step.rate_per_s < broken.rate_per_s]
    return (holding[-1] if holding else None), broken


def _search(
    steps: Sequence[Judged], closed_per_s: float, latency_target: LatencyTarget
) -> float | Done:
    if not steps:
        return _rounded(max(latency_target.floor_per_s, closed_per_s * FIRST_SHARE))
    holding, broken = bracket(steps)
    if broken is not None and broken.grows and broken.holds is None:
        # All that follows is sought below it, so it must be no accident.
        return broken.rate_per_s
    if holding is None:
        return _lower(steps[0], latency_target)
    if broken is None:
        return _higher(steps[-1], closed_per_s)
    if broken.rate_per_s / holding.rate_per_s > _narrow_ratio(holding, broken, latency_target):
        return _rounded(math.sqrt(holding.rate_per_s * broken.rate_per_s))
    return _settle(steps, holding, broken, latency_target)


def _narrow_ratio(holding: Judged, broken: Judged, latency_target: LatencyTarget) -> float:
    """Return how close the ends must be: where the share rises slowly, close ones tell nothing."""
    ratios = [step.above.value / latency_target.allowed_share for step in (holding, broken)]
    is_gentle = any(1 / GENTLE_FACTOR <= ratio <= GENTLE_FACTOR for ratio in ratios)
    return GENTLE_RATIO if is_gentle else NARROW_RATIO


def _lower(lowest: Judged, latency_target: LatencyTarget) -> float | Done:
    """Go on below the lowest rate, which broke; at the floor, make sure of it."""
    floor_per_s = _rounded(latency_target.floor_per_s)
    if lowest.rate_per_s > floor_per_s:
        return _rounded(max(floor_per_s, lowest.rate_per_s / FALL_FACTOR))
    sure = lowest.holds is False and lowest.rounds >= 2
    if sure or lowest.rounds >= ROUNDS_MAX:
        reported = format_iops(lowest.rate_per_s)
        return Done(
            reason=f"Even {reported} requests/s break the limit, and fewer cannot be judged."
        )
    return lowest.rate_per_s


def _higher(highest: Judged, closed_per_s: float) -> float | Done:
    """Go on above the highest rate, which held; at the ceiling, make sure of it."""
    if highest.rate_per_s < closed_per_s * CEILING_FACTOR:
        return _rounded(highest.rate_per_s * RISE_FACTOR)
    if (highest.holds and highest.rounds >= ROUNDS_WANTED) or highest.rounds >= ROUNDS_MAX:
        return Done(reason=f"Even {format_iops(highest.rate_per_s)} requests/s keep the limit.")
    return highest.rate_per_s


def _settle(
    steps: Sequence[Judged], holding: Judged, broken: Judged, latency_target: LatencyTarget
) -> float | Done:
    """Measure on either side of the boundary, ever farther from it, until each is known."""
    below = [step for step in reversed(steps) if step.rate_per_s <= holding.rate_per_s]
    above = [step for step in steps if step.rate_per_s >= broken.rate_per_s]
    found = [
        _next_on_side(below, latency_target, falls=True),
        _next_on_side(above, latency_target, falls=False),
    ]
    rounds = {step.rate_per_s: step.rounds for step in steps}
    due = [rate for rate in found if rate is not None and rate >= latency_target.floor_per_s]
    if not due:
        low, high = format_iops(holding.rate_per_s), format_iops(broken.rate_per_s)
        return Done(reason=f"The rates around {low} to {high}/s were measured in rounds.")
    fewest = min(rounds.get(rate, 0) for rate in due)
    choices = [rate for rate in due if rounds.get(rate, 0) == fewest]
    measured = sum(rounds.values())
    return random.Random(f"load line {latency_target.seed} {measured}").choice(choices)


def _next_on_side(
    side: Sequence[Judged], latency_target: LatencyTarget, *, falls: bool
) -> float | None:
    """Return the rate nearest to the boundary that needs another round; None where all is known.

    Args:
        side: The rates on one side of the boundary, the nearest first.
        latency_target: What must hold.
        falls: Whether they are below it, so that what there is to know is that one holds.
    """
    for rung in RUNG_RATIOS:
        wanted_per_s = side[0].rate_per_s * (1 / rung if falls else rung)
        near = min(side, key=lambda step: abs(math.log(step.rate_per_s / wanted_per_s)))
        if abs(math.log(near.rate_per_s / wanted_per_s)) > math.log(SAME_RUNG_RATIO):
            return _rounded(wanted_per_s)
        if near.holds is falls and (rung > 1 or near.rounds >= ROUNDS_WANTED):
            return None
        ratio = near.above.value / latency_target.allowed_share
        is_clear = ratio <= 1 / CLEAR_FACTOR if falls else ratio >= CLEAR_FACTOR
        if near.rounds < (ROUNDS_MAX if is_clear else ROUNDS_WANTED):
            return near.rate_per_s
    return None


def _rounded(rate_per_s: float) -> float:
    """Return a rate with three digits: it is part of a cell's key, and no rate is exacter."""
    return float(f"{rate_per_s:.{DIGITS - 1}e}")
