"""Which rate a load line measures next: pure functions of what was measured so far."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from seatrial.analysis.loadline.asked import Asked
from seatrial.analysis.loadline.judged import Judged
from seatrial.analysis.wording import format_iops
from seatrial.study.loadline import SAMPLES_MAX, Done, NextStep, Offer

FIRST_SHARE = 1 / 8
"""The first rate, as a share of what a closed loop reaches."""
RISE_FACTOR = 1.5
FALL_FACTOR = 4.0
CEILING_FACTOR = 8.0
"""Rates end at so many times the closed loop, which cannot have missed more."""
NARROW_RATIO = 1.03
NEIGHBOUR_RATIO = 1.04
FRAME_RATIO = 1.07
AROUND_RATIO = 1.1
ROUNDS_WANTED = 3
ROUNDS_PATIENT = 5
ROUNDS_MAX = 8
NEIGHBOURS = 2
DIGITS = 3
REST_S_MAX = 1.0


def next_step(
    steps: Sequence[Judged], closed_per_s: float, asked: Asked, *, after_overload: bool = False
) -> NextStep:
    """Return the next rate, or that it is enough.

    Rates rise by half from an eighth of what a closed loop reaches until one breaks, or fall by
    four until one holds; the span between is halved until it is narrow; then up to two rates on
    either side of it are measured again, in random order, until it is known with confidence.

    Args:
        steps: What is known of each rate measured so far, rising.
        closed_per_s: What the closed loop reached.
        asked: What must hold.
        after_overload: Whether the sample before this step broke the limit.
    """
    if closed_per_s <= 0:
        return Done(reason="Nothing completed in the closed loop, so there is no load to seek.")
    if sum(step.rounds for step in steps) >= SAMPLES_MAX:
        return Done(reason=f"It ended after {SAMPLES_MAX} samples.")
    found = _search(steps, closed_per_s, asked)
    if isinstance(found, Done):
        return found
    sample_s = asked.sample_s_at(found)
    rest_s = min(REST_S_MAX, sample_s / 2) if after_overload else 0.0
    return Offer(rate_per_s=found, sample_s=sample_s, rest_s=rest_s)


def bracket(steps: Sequence[Judged]) -> tuple[Judged | None, Judged | None]:
    """Return the highest rate that seems to hold below the lowest that seems to break, and that.

    Either is None where there is none.
    """
    broken = next((step for step in steps if not step.leans), None)
    holding = [step for step in steps if broken is None or step.rate_per_s < broken.rate_per_s]
    return (holding[-1] if holding else None), broken


def _search(steps: Sequence[Judged], closed_per_s: float, asked: Asked) -> float | Done:
    if not steps:
        return _rounded(max(asked.floor_per_s, closed_per_s * FIRST_SHARE))
    holding, broken = bracket(steps)
    if broken is not None and broken.grows and broken.holds is None:
        # All that follows is sought below it, so it must be no accident.
        return broken.rate_per_s
    if holding is None:
        return _lower(steps[0], asked)
    if broken is None:
        return _higher(steps[-1], closed_per_s)
    if broken.rate_per_s / holding.rate_per_s > NARROW_RATIO:
        return _rounded(math.sqrt(holding.rate_per_s * broken.rate_per_s))
    return _settle(steps, holding, broken, asked)


def _lower(lowest: Judged, asked: Asked) -> float | Done:
    """Go on below the lowest rate, which broke; at the floor, make sure of it."""
    floor_per_s = _rounded(asked.floor_per_s)
    if lowest.rate_per_s > floor_per_s:
        return _rounded(max(floor_per_s, lowest.rate_per_s / FALL_FACTOR))
    sure = lowest.holds is False and lowest.rounds >= 2
    if sure or lowest.rounds >= ROUNDS_MAX:
        told = format_iops(lowest.rate_per_s)
        return Done(reason=f"Even {told} requests/s break the limit, and fewer cannot be judged.")
    return lowest.rate_per_s


def _higher(highest: Judged, closed_per_s: float) -> float | Done:
    """Go on above the highest rate, which held; at the ceiling, make sure of it."""
    if highest.rate_per_s < closed_per_s * CEILING_FACTOR:
        return _rounded(highest.rate_per_s * RISE_FACTOR)
    if (highest.holds and highest.rounds >= ROUNDS_WANTED) or highest.rounds >= ROUNDS_MAX:
        return Done(reason=f"Even {format_iops(highest.rate_per_s)} requests/s keep the limit.")
    return highest.rate_per_s


def _settle(steps: Sequence[Judged], holding: Judged, broken: Judged, asked: Asked) -> float | Done:
    """Measure the rates around the boundary again until it is known, or cannot be."""
    lowest = holding.rate_per_s / AROUND_RATIO
    highest = broken.rate_per_s * AROUND_RATIO
    below = [s for s in steps if lowest <= s.rate_per_s <= holding.rate_per_s][-NEIGHBOURS:]
    above = [s for s in steps if broken.rate_per_s <= s.rate_per_s <= highest][:NEIGHBOURS]
    around = [*below, *above]
    due = [step for step in around if step.rounds < ROUNDS_WANTED]
    if not due and (between := _frame(steps, holding, broken)) is not None:
        return between
    if not due and not (holding.holds is True and broken.holds is False):
        is_framed = any(step.holds for step in below) and any(s.holds is False for s in above)
        patience = ROUNDS_PATIENT if is_framed else ROUNDS_MAX
        due = [step for step in around if step.holds is None and step.rounds < patience]
    if not due and not any(step.holds for step in steps):
        # Nothing near the boundary can be known for sure: perhaps what lies further below.
        due = [step for step in steps if step.leans and step.rounds < ROUNDS_MAX][-1:]
    if not due:
        low, high = format_iops(below[0].rate_per_s), format_iops(above[-1].rate_per_s)
        rounds = min(step.rounds for step in around)
        return Done(reason=f"Rates from {low} to {high}/s were measured {rounds} times or more.")
    fewest = min(step.rounds for step in due)
    choices = [step.rate_per_s for step in due if step.rounds == fewest]
    measured = sum(step.rounds for step in steps)
    return random.Random(f"load line {asked.seed} {measured}").choice(choices)


def _frame(steps: Sequence[Judged], holding: Judged, broken: Judged) -> float | None:
    """Return a rate beside an undecided end of the boundary that has no neighbour nearby.

    Else the interval would reach to wherever the search happened to pass.
    """
    rates_per_s = [step.rate_per_s for step in steps]
    if broken.holds is None:
        beyond = [rate for rate in rates_per_s if rate > broken.rate_per_s]
        if not beyond or beyond[0] / broken.rate_per_s > FRAME_RATIO:
            return _rounded(broken.rate_per_s * NEIGHBOUR_RATIO)
    if holding.holds is None:
        before = [rate for rate in rates_per_s if rate < holding.rate_per_s]
        if not before or holding.rate_per_s / before[-1] > FRAME_RATIO:
            return _rounded(holding.rate_per_s / NEIGHBOUR_RATIO)
    return None


def _rounded(rate_per_s: float) -> float:
    """Return a rate with three digits: it is part of a cell's key, and no rate is exacter."""
    return float(f"{rate_per_s:.{DIGITS - 1}e}")
