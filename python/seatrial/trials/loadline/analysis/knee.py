"""The knee of a load line: a hinge in the logarithms of rate and latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from seatrial.findings.context import NULL_LIMIT_SHARE_MAX, null_limit_share, service_times
from seatrial.lazy import np
from seatrial.results.model import Sample
from seatrial.stats.wording import format_duration_ns, format_share
from seatrial.trials.io.findings.late_requests import EXPLAINED_SHARE_MIN
from seatrial.trials.loadline.analysis.measured_steps import MeasuredStep
from seatrial.trials.loadline.analysis.model import Break, LatencyTarget
from seatrial.trials.loadline.analysis.rate_verdicts import LimitCounts

POINTS_MIN = 4
CANDIDATES = 200
RISE_MIN = 2.0
"""There is no knee if the latency rises by less than this factor."""


class Hinge(NamedTuple):
    """The base latency, and the rate at which latency begins to rise.

    Attributes:
        rate_per_s: Rate at the knee.
        floor_ns: Latency below the knee.
    """

    rate_per_s: float
    floor_ns: float


def hinge(points: Sequence[tuple[float, float]]) -> Hinge | None:
    """Return the knee of a load line; None if there is none, or too few rates.

    A level line and a rising one that meet at the knee are fitted to the logarithms by least
    squares, for many positions of the knee; the rising part is a power of the rate. This is not a
    model of a queue, only the position of the bend.

    Args:
        points: Offered rate (per s) and latency (ns), ascending by rate.
    """
    if len(points) < POINTS_MIN:
        return None
    rates, latencies = np.log(np.array(points, dtype=float)).T
    best = (np.inf, 0.0, 0.0, 0.0)
    for knee in np.linspace(rates[0], rates[-1], CANDIDATES, endpoint=False):
        terms = np.stack([np.ones_like(rates), np.maximum(0.0, rates - knee)], axis=1)
        (floor, slope), *_ = np.linalg.lstsq(terms, latencies, rcond=None)
        error = float(np.sum((terms @ np.array([floor, slope]) - latencies) ** 2))
        if error < best[0]:
            best = (error, knee, floor, slope)
    _, knee, floor, slope = best
    if slope * (rates[-1] - knee) < np.log(RISE_MIN):
        return None
    return Hinge(rate_per_s=float(np.exp(knee)), floor_ns=float(np.exp(floor)))


CLIFF_RATIO = 1.2
"""Maximum ratio of rates at a cliff."""
CLIFF_SHARE = 0.25
"""Below a cliff, the percentile is at most this share of the limit,"""
FLOOR_FACTOR = 3.0
"""and at most this multiple of the percentile at the lowest rate; otherwise requests queue."""
NEAR_RATIO = 1.1
QUIET_SHARE_MIN = 0.2
"""Stalls are the cause only if at least this share of the time was free of them."""


def how_it_breaks(
    steps: Sequence[MeasuredStep],
    breaking: Sequence[MeasuredStep],
    latency_target: LatencyTarget,
    *,
    is_decided: bool,
) -> Break:
    """Return how the limit is exceeded.

    Args:
        steps: All rates, ascending.
        breaking: The rates that seem to exceed the limit, ascending.
        latency_target: The percentile and its limit.
        is_decided: Whether one rate significantly meets and another significantly exceeds it.
    """
    if not breaking:
        return "none"
    if all(step.verdict.holds is not False for step in steps):
        return "undecided"
    near_per_s = breaking[0].verdict.rate_per_s * NEAR_RATIO
    near = [step for step in breaking if step.verdict.rate_per_s <= near_per_s]
    if _only_by_stalls(near, latency_target):
        return "stalls"
    if breaking[0] is steps[0] and _service_exceeds_limit(steps[0], latency_target):
        return "service"
    if not is_decided:
        return "undecided"
    return "cliff" if cliff(steps, latency_target) else "knee"


def cliff(
    steps: Sequence[MeasuredStep], latency_target: LatencyTarget
) -> tuple[MeasuredStep, MeasuredStep] | None:
    """Return the rates below and above a cliff; None if there is none.

    Args:
        steps: All rates, ascending.
        latency_target: The percentile and its limit.
    """
    index = next((n for n, step in enumerate(steps) if step.verdict.holds is False), 0)
    holding = next((step for step in reversed(steps[:index]) if step.verdict.holds), None)
    if holding is None:
        return None
    broken = steps[index]
    holding_ns, floor_ns = (
        holding.percentile(latency_target.percentile),
        steps[0].percentile(latency_target.percentile),
    )
    if holding_ns is None or floor_ns is None:
        return None
    is_near = broken.verdict.rate_per_s <= CLIFF_RATIO * holding.verdict.rate_per_s
    is_grown = broken.verdict.above.value <= latency_target.allowed_share
    is_fine = holding_ns <= min(CLIFF_SHARE * latency_target.limit_ns, FLOOR_FACTOR * floor_ns)
    return (holding, broken) if is_near and is_fine and not is_grown else None


def _service_exceeds_limit(lowest: MeasuredStep, latency_target: LatencyTarget) -> bool:
    """Return whether a single request, from its actual start, exceeds the limit."""
    service = lowest.step.service.get(latency_target.percentile)
    return service is not None and service.value > latency_target.limit_ns


def _only_by_stalls(steps: Sequence[MeasuredStep], latency_target: LatencyTarget) -> bool:
    """Return whether the requests outside of stalls and their backlog meet the limit."""
    if not any(step.step.stalls for step in steps):
        return False
    requests = above = quiet = clusters = 0
    for step in steps:
        for sample, part in zip(step.samples, step.limit_counts, strict=True):
            above_limit = _above_limit(sample, part, latency_target)
            clusters += len(above_limit)
            for index, is_above in enumerate(above_limit):
                if not is_above:
                    quiet += 1
                    requests += part.requests[index]
                    above += part.above[index]
    enough = quiet >= QUIET_SHARE_MIN * clusters and requests > 0
    return enough and above / requests <= latency_target.allowed_share


def _above_limit(sample: Sample, part: LimitCounts, latency_target: LatencyTarget) -> list[bool]:
    """Return for each cluster whether it overlaps a stall or the backlog after one."""
    spans = [
        (
            math.floor((stall.start_s - part.begins_s) / part.cluster_s),
            math.floor((stall.start_s + stall.length_s - part.begins_s) / part.cluster_s),
        )
        for stall in sample.stalls
    ]
    above_limit = []
    recovering = any(first < 0 for first, _ in spans)
    for index, (slow, count) in enumerate(zip(part.above, part.requests, strict=True)):
        in_stall = any(first <= index <= last for first, last in spans)
        recovering = in_stall or (recovering and slow > latency_target.allowed_share * count)
        above_limit.append(recovering)
    return above_limit


def generator_limit(broken: MeasuredStep | None, latency_target: LatencyTarget) -> str:
    """Return why the load generator was the bottleneck at the lowest rate above the limit.

    Args:
        broken: The step; None if none exceeds the limit.
        latency_target: The percentile and its limit.
    """
    if broken is None:
        return ""
    if _generator_stalled(broken):
        return (
            "The stalls were caused by the measuring machine, not the target: its threads did not "
            "run"
        )
    null_share = max((null_limit_share(sample) or 0.0 for sample in broken.samples), default=0.0)
    if null_share > NULL_LIMIT_SHARE_MAX:
        return (
            f"The load generator reached {format_share(null_share)} of its maximum rate, so the "
            "target may sustain more"
        )
    return _started_late(broken, latency_target)


def _generator_stalled(broken: MeasuredStep) -> bool:
    """Return whether the load generator caused most of the stalled time."""
    stalls = [stall for sample in broken.samples for stall in sample.stalls]
    own_s = sum(stall.length_s for stall in stalls if stall.is_of_generator)
    return own_s * 2 > sum(stall.length_s for stall in stalls)


def _started_late(broken: MeasuredStep, latency_target: LatencyTarget) -> str:
    """Return that requests started late although few were in flight; empty if they did not.

    As for the finding ``late_requests``: a target delays a start only while all slots are in use.
    """
    response = broken.step.response.get(latency_target.percentile)
    service = broken.step.service.get(latency_target.percentile)
    if response is None or service is None or broken.step.stalls:
        return ""
    if not service.value <= latency_target.limit_ns < response.value:
        return ""  # a slow target, or a response time that only grows towards the limit
    cell = broken.samples[0].cell
    busy_share = max(_in_flight_mean(sample) for sample in broken.samples)
    busy_share /= cell.threads * cell.depth
    above_share = broken.verdict.above.value
    if busy_share >= EXPLAINED_SHARE_MIN * above_share:
        return ""
    return (
        f"{format_share(above_share)} of the requests exceeded the limit although only "
        f"{format_share(busy_share)} of the queue depth was in use and the "
        f"{latency_target.percentile} service time was {format_duration_ns(service.value)}: the "
        "load generator or its CPU time was the bottleneck, and the target may sustain more"
    )


def _in_flight_mean(sample: Sample) -> float:
    """Return how many requests were in flight on average, by Little's law."""
    if sample.duration_s <= 0:
        return 0.0
    times = service_times([sample])
    return times.mean_ns * times.count / 1e9 / sample.duration_s
