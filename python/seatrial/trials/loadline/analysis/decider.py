"""The decisions of one load line from its samples, as used by the measurement."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from seatrial.results.model import Sample
from seatrial.stats.wording import format_iops
from seatrial.trials.loadline.analysis.measured_steps import closed_loop, offered_per_s
from seatrial.trials.loadline.analysis.model import LatencyTarget, latency_target_of
from seatrial.trials.loadline.analysis.rate_verdicts import (
    LimitCounts,
    RateVerdict,
    bracket,
    count_against_limit,
    judge_rates,
)
from seatrial.trials.loadline.study import (
    SAMPLES_MAX,
    Decide,
    Loadline,
    NextStep,
    RateStep,
    SearchEnd,
)

FIRST_SHARE = 1 / 8
"""The first rate, as a share of the closed-loop rate."""
RISE_FACTOR = 1.5
FALL_FACTOR = 4.0
CEILING_FACTOR = 8.0
"""Maximum rate, as a multiple of the closed-loop rate, which cannot be further off."""
NARROW_RATIO = 1.04
GENTLE_RATIO = 1.12
GENTLE_FACTOR = 5.0
"""A line is gentle if the share of a rate is within this factor of the allowed share."""
RUNG_RATIOS = (1.0, 1.06, 1.15, 1.35, 1.8)
"""Distances from the limit at which rates are measured, until one is decided."""
SAME_RUNG_RATIO = 1.03
ROUNDS_WANTED = 3
ROUNDS_MAX = 10
CLEAR_FACTOR = 4.0
"""A rate whose share differs from the allowed one by this factor gets more rounds."""
DIGITS = 3
REST_S_MAX = 1.0


def next_step(
    steps: Sequence[RateVerdict],
    closed_per_s: float,
    latency_target: LatencyTarget,
    *,
    after_overload: bool = False,
) -> NextStep:
    """Return the next rate, or the end.

    Rates rise by half from an eighth of the closed-loop rate until one exceeds the limit, or fall
    by a factor of four until one meets it. The span between is bisected until it is narrow. Then
    rates on either side are repeated, in random order and with growing distance, until one
    significantly meets and one significantly exceeds the limit.

    Args:
        steps: All rates measured so far, ascending.
        closed_per_s: The closed-loop rate.
        latency_target: The percentile and its limit.
        after_overload: Whether the previous sample exceeded the limit.
    """
    if closed_per_s <= 0:
        return SearchEnd(
            reason="No request completed in the closed loop, so there is no load line."
        )
    if sum(step.rounds for step in steps) >= SAMPLES_MAX:
        return SearchEnd(reason=f"The limit of {SAMPLES_MAX} samples was reached.")
    rate_per_s = _search(steps, closed_per_s, latency_target)
    if isinstance(rate_per_s, SearchEnd):
        return rate_per_s
    sample_s = latency_target.sample_s_at(rate_per_s)
    rest_s = min(REST_S_MAX, sample_s / 2) if after_overload else 0.0
    return RateStep(rate_per_s=rate_per_s, sample_s=sample_s, rest_s=rest_s)


def _search(
    steps: Sequence[RateVerdict], closed_per_s: float, latency_target: LatencyTarget
) -> float | SearchEnd:
    if not steps:
        return _rounded(max(latency_target.floor_per_s, closed_per_s * FIRST_SHARE))
    holding, broken = bracket(steps)
    if broken is not None and broken.grows and broken.holds is None:
        # The search continues below it, so it must be confirmed first.
        return broken.rate_per_s
    if holding is None:
        return _lower(steps[0], latency_target)
    if broken is None:
        return _higher(steps[-1], closed_per_s)
    if broken.rate_per_s / holding.rate_per_s > _narrow_ratio(holding, broken, latency_target):
        return _rounded(math.sqrt(holding.rate_per_s * broken.rate_per_s))
    return _settle(steps, holding, broken, latency_target)


def _narrow_ratio(
    holding: RateVerdict, broken: RateVerdict, latency_target: LatencyTarget
) -> float:
    """Return how narrow the span must be; wider if the share rises slowly with the rate."""
    ratios = [step.above.value / latency_target.allowed_share for step in (holding, broken)]
    is_gentle = any(1 / GENTLE_FACTOR <= ratio <= GENTLE_FACTOR for ratio in ratios)
    return GENTLE_RATIO if is_gentle else NARROW_RATIO


def _lower(lowest: RateVerdict, latency_target: LatencyTarget) -> float | SearchEnd:
    """Continue below the lowest rate, which exceeds the limit; at the minimum, confirm it."""
    floor_per_s = _rounded(latency_target.floor_per_s)
    if lowest.rate_per_s > floor_per_s:
        return _rounded(max(floor_per_s, lowest.rate_per_s / FALL_FACTOR))
    confident = lowest.holds is False and lowest.rounds >= 2
    if confident or lowest.rounds >= ROUNDS_MAX:
        text = format_iops(lowest.rate_per_s)
        return SearchEnd(
            reason=f"Even {text} requests/s exceed the limit; lower rates cannot be judged."
        )
    return lowest.rate_per_s


def _higher(highest: RateVerdict, closed_per_s: float) -> float | SearchEnd:
    """Continue above the highest rate, which meets the limit; at the maximum, confirm it."""
    if highest.rate_per_s < closed_per_s * CEILING_FACTOR:
        return _rounded(highest.rate_per_s * RISE_FACTOR)
    if (highest.holds and highest.rounds >= ROUNDS_WANTED) or highest.rounds >= ROUNDS_MAX:
        return SearchEnd(
            reason=f"Even {format_iops(highest.rate_per_s)} requests/s meet the limit."
        )
    return highest.rate_per_s


def _settle(
    steps: Sequence[RateVerdict],
    holding: RateVerdict,
    broken: RateVerdict,
    latency_target: LatencyTarget,
) -> float | SearchEnd:
    """Measure on either side of the limit, with growing distance, until each side is decided."""
    below = [step for step in reversed(steps) if step.rate_per_s <= holding.rate_per_s]
    above = [step for step in steps if step.rate_per_s >= broken.rate_per_s]
    rate_per_s = [
        _next_on_side(below, latency_target, falls=True),
        _next_on_side(above, latency_target, falls=False),
    ]
    rounds = {step.rate_per_s: step.rounds for step in steps}
    floor_per_s = _rounded(latency_target.floor_per_s)
    due = [rate for rate in rate_per_s if rate is not None and rate >= floor_per_s]
    if not due:
        low, high = format_iops(holding.rate_per_s), format_iops(broken.rate_per_s)
        return SearchEnd(reason=f"The rates around {low} to {high}/s were measured repeatedly.")
    fewest = min(rounds.get(rate, 0) for rate in due)
    choices = [rate for rate in due if rounds.get(rate, 0) == fewest]
    measured = sum(rounds.values())
    return random.Random(f"load line {latency_target.seed} {measured}").choice(choices)


def _next_on_side(
    side: Sequence[RateVerdict], latency_target: LatencyTarget, *, falls: bool
) -> float | None:
    """Return the rate nearest to the limit that needs another round; None if none does.

    Args:
        side: The rates on one side of the limit, nearest first.
        latency_target: The percentile and its limit.
        falls: Whether they are below it, so that one has to meet the limit.
    """
    for rung in RUNG_RATIOS:
        candidate_per_s = side[0].rate_per_s * (1 / rung if falls else rung)
        near = min(side, key=lambda step: abs(math.log(step.rate_per_s / candidate_per_s)))
        if abs(math.log(near.rate_per_s / candidate_per_s)) > math.log(SAME_RUNG_RATIO):
            return _rounded(candidate_per_s)
        if near.holds is falls and (rung > 1 or near.rounds >= ROUNDS_WANTED):
            return None
        ratio = near.above.value / latency_target.allowed_share
        is_clear = ratio <= 1 / CLEAR_FACTOR if falls else ratio >= CLEAR_FACTOR
        if near.rounds < (ROUNDS_MAX if is_clear else ROUNDS_WANTED):
            return near.rate_per_s
    return None


def _rounded(rate_per_s: float) -> float:
    """Return a rate with three digits, which is part of a cell's key."""
    return float(f"{rate_per_s:.{DIGITS - 1}e}")


def decider(workload: Loadline, seed: int) -> Decide:
    """Return the decisions of one load line.

    Args:
        workload: The load line of a study.
        seed: Seed of the study.
    """
    latency_target = latency_target_of(workload, seed)
    limit_counts: dict[tuple[str, int], LimitCounts] = {}

    def decide(samples: Sequence[Sample]) -> NextStep:
        scheduled = []
        for sample in samples:
            rate_per_s = offered_per_s(sample)
            if rate_per_s is not None:
                key = (sample.cell.key, sample.round)
                if key not in limit_counts:
                    limit_counts[key] = count_against_limit(sample, latency_target.limit_ns)
                scheduled.append((rate_per_s, limit_counts[key]))
        closed = closed_loop(samples)
        last = scheduled[-1][1].above_share if scheduled else 0.0
        return next_step(
            judge_rates(scheduled, latency_target),
            closed.value if closed else 0.0,
            latency_target,
            after_overload=last > latency_target.allowed_share,
        )

    return decide
