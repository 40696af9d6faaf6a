"""How a load line breaks: by a knee, at a cliff, by stalls, or because of the load generator."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seatrial.results.model import Sample
from seatrial.stats.wording import format_duration_ns, format_share
from seatrial.trials.loadline.analysis.latency_target import LatencyTarget
from seatrial.trials.loadline.analysis.limit_counts import LimitCounts
from seatrial.trials.loadline.analysis.measured import MeasuredStep
from seatrial.trials.loadline.analysis.model import Break

CLIFF_RATIO = 1.2
"""What is fine and broken within one small step."""
CLIFF_SHARE = 0.25
"""Fine is a percentile of at most a quarter of the limit,"""
FLOOR_FACTOR = 3.0
"""and of at most three times what it is at the lowest rate: a queue announces itself."""
NEAR_RATIO = 1.1
QUIET_SHARE_MIN = 0.2
"""Stalls are only blamed where this share of the time, at least, was free of them."""
NULL_LIMIT_SHARE_MAX = 0.7
BUSY_SHARE_MAX = 0.5


def how_it_breaks(
    steps: Sequence[MeasuredStep],
    breaking: Sequence[MeasuredStep],
    latency_target: LatencyTarget,
    *,
    is_decided: bool,
) -> Break:
    """Return how the limit is broken.

    Args:
        steps: All rates, rising.
        breaking: The rates that seem to break, rising.
        latency_target: What must hold.
        is_decided: Whether one rate surely holds and another surely breaks.
    """
    if not breaking:
        return "none"
    if all(step.judged.holds is not False for step in steps):
        return "undecided"
    near_per_s = breaking[0].judged.rate_per_s * NEAR_RATIO
    near = [step for step in breaking if step.judged.rate_per_s <= near_per_s]
    if _only_by_stalls(near, latency_target):
        return "stalls"
    if breaking[0] is steps[0] and _is_slow_alone(steps[0], latency_target):
        return "service"
    if not is_decided:
        return "undecided"
    return "cliff" if cliff(steps, latency_target) else "knee"


def cliff(
    steps: Sequence[MeasuredStep], latency_target: LatencyTarget
) -> tuple[MeasuredStep, MeasuredStep] | None:
    """Return the rates between which it breaks at once; None where it does not.

    Args:
        steps: All rates, rising.
        latency_target: What must hold.
    """
    place = next((n for n, step in enumerate(steps) if step.judged.holds is False), 0)
    held = next((step for step in reversed(steps[:place]) if step.judged.holds), None)
    if held is None:
        return None
    broken = steps[place]
    held_ns, floor_ns = (
        held.percentile(latency_target.percentile),
        steps[0].percentile(latency_target.percentile),
    )
    if held_ns is None or floor_ns is None:
        return None
    is_near = broken.judged.rate_per_s <= CLIFF_RATIO * held.judged.rate_per_s
    is_grown = broken.judged.above.value <= latency_target.allowed_share
    is_fine = held_ns <= min(CLIFF_SHARE * latency_target.limit_ns, FLOOR_FACTOR * floor_ns)
    return (held, broken) if is_near and is_fine and not is_grown else None


def _is_slow_alone(lowest: MeasuredStep, latency_target: LatencyTarget) -> bool:
    """Tell whether the target takes too long for a request that hardly waited for another."""
    service = lowest.step.service.get(latency_target.percentile)
    return service is not None and service.value > latency_target.limit_ns


def _only_by_stalls(steps: Sequence[MeasuredStep], latency_target: LatencyTarget) -> bool:
    """Tell whether the requests outside of stalls, and of what they left to do, keep the limit."""
    if not any(step.step.stalls for step in steps):
        return False
    requests = above = quiet = clusters = 0
    for step in steps:
        for sample, part in zip(step.samples, step.limit_counts, strict=True):
            above_limit = _above_limit(sample, part, latency_target)
            clusters += len(above_limit)
            for place, is_above in enumerate(above_limit):
                if not is_above:
                    quiet += 1
                    requests += part.requests[place]
                    above += part.above[place]
    enough = quiet >= QUIET_SHARE_MIN * clusters and requests > 0
    return enough and above / requests <= latency_target.allowed_share


def _above_limit(sample: Sample, part: LimitCounts, latency_target: LatencyTarget) -> list[bool]:
    """Tell of each cluster whether a stall touched it, or its backlog was not worked off yet."""
    spans = [
        (
            math.floor((stall.start_s - part.begins_s) / part.cluster_s),
            math.floor((stall.start_s + stall.length_s - part.begins_s) / part.cluster_s),
        )
        for stall in sample.stalls
    ]
    above_limit = []
    recovering = any(first < 0 for first, _ in spans)
    for place, (slow, count) in enumerate(zip(part.above, part.requests, strict=True)):
        touched = any(first <= place <= last for first, last in spans)
        recovering = touched or (recovering and slow > latency_target.allowed_share * count)
        above_limit.append(recovering)
    return above_limit


def generator_limit(broken: MeasuredStep | None, latency_target: LatencyTarget) -> str:
    """Return why the load generator was the limit at the lowest rate that breaks; else nothing.

    Args:
        broken: The step; None where none breaks.
        latency_target: What must hold.
    """
    if broken is None:
        return ""
    if _stood_still_itself(broken):
        return (
            "The stalls are the machine's that measured, not the target's: its threads did not run"
        )
    null_share = max((_null_limit_share(sample) for sample in broken.samples), default=0.0)
    if null_share > NULL_LIMIT_SHARE_MAX:
        return (
            f"The load generator was at {format_share(null_share)} of what it can do without a "
            "target, so the target may sustain more"
        )
    return _started_late(broken, latency_target)


def _stood_still_itself(broken: MeasuredStep) -> bool:
    """Tell whether most of the time in stalls was the load generator's own."""
    stalls = [stall for sample in broken.samples for stall in sample.stalls]
    own_s = sum(stall.length_s for stall in stalls if stall.is_of_generator)
    return own_s * 2 > sum(stall.length_s for stall in stalls)


def _null_limit_share(sample: Sample) -> float:
    limit_per_s = sample.counters.get("null_limit_per_s", 0.0)
    return sample.completed_per_s / limit_per_s if limit_per_s > 0 else 0.0


def _started_late(broken: MeasuredStep, latency_target: LatencyTarget) -> str:
    """Say that requests began late though few were in flight: the generator, not the target."""
    service = broken.step.service.get(latency_target.percentile)
    if service is None or service.value > latency_target.limit_ns or broken.step.stalls:
        return ""
    cell = broken.samples[0].cell
    busy_share = max(_in_flight_mean(sample) for sample in broken.samples)
    busy_share /= cell.threads * cell.depth
    if busy_share > BUSY_SHARE_MAX:
        return ""
    return (
        f"Requests began late though {format_share(1 - busy_share)} of the places in flight were "
        f"free and the target took {format_duration_ns(service.value)} "
        f"({latency_target.percentile}) for one: the load generator, "
        "or the processor time that it got, was the limit, and the "
        "target may sustain more"
    )


def _in_flight_mean(sample: Sample) -> float:
    """Return how many requests were in flight on average, by Little's law."""
    if sample.duration_s <= 0:
        return 0.0
    total_ns = sum(
        times.mean_ns * times.count
        for times in (part.service_histogram() for part in sample.operations.values())
    )
    return total_ns / 1e9 / sample.duration_s
