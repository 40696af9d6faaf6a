"""The load lines of a run, from its stored samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from seatrial.results.model import Sample
from seatrial.stats.estimate import Estimate
from seatrial.study.schema import Study
from seatrial.trials.loadline.analysis.knee import generator_limit, hinge, how_it_breaks
from seatrial.trials.loadline.analysis.measured_steps import (
    MeasuredStep,
    closed_loop,
    measured_steps,
    offered_per_s,
)
from seatrial.trials.loadline.analysis.model import LatencyTarget, LoadLine, latency_target_of
from seatrial.trials.loadline.analysis.narrative import Outcome, cause, sentence
from seatrial.trials.loadline.analysis.rate_verdicts import RateVerdict, bracket, scheduled_s
from seatrial.trials.loadline.study import LIMITS_TO_FILL, LOADLINE, Loadline, template_key

SHORT_SHARE = 0.97
"""Below this completed share of the offered requests, requests queued to the end."""


class RateBounds(NamedTuple):
    """Upper bounds of the sustained rate.

    Attributes:
        done_per_s: Rate of completions while requests queue.
        reported_per_s: The highest rate that samples can prove: near the capacity a queue fills
            so slowly that at least half of a sample is within the limit.
    """

    done_per_s: float
    reported_per_s: float


def rate_bounds(samples: Sequence[Sample], latency_target: LatencyTarget) -> RateBounds:
    """Return the upper bounds of the sustained rate; infinite if unknown.

    They are the higher of the rates in the second half of the closed loop and of the overloaded
    samples, since some targets are slower under overload. In a short sample, burst credit, a cache
    or an empty queue can hide that a rate is not sustained.

    Args:
        samples: Samples of one load line.
        latency_target: The percentile and its limit.
    """
    closed, short = [], []
    for sample in samples:
        completed_per_s = _of_second_half_per_s(sample)
        rate_per_s = offered_per_s(sample)
        if completed_per_s is None:
            continue
        if rate_per_s is None:
            closed.append(completed_per_s)
        elif completed_per_s < SHORT_SHARE * rate_per_s:
            short.append(completed_per_s)
    done_per_s = max((statistics.median(each) for each in (closed, short) if each), default=0.0)
    if done_per_s == 0:
        return RateBounds(math.inf, math.inf)
    fills_share = (
        LIMITS_TO_FILL * latency_target.limit_ns / 1e9 / latency_target.sample_s_at(done_per_s)
    )
    return RateBounds(done_per_s, done_per_s * (1 - fills_share))


def _of_second_half_per_s(sample: Sample) -> float | None:
    slice_s = sample.timeline.slice_ns / 1e9
    end = math.floor(scheduled_s(sample) / slice_s + 1e-9)
    begin = end // 2
    if end - begin < 1 or not sample.timeline.slices:
        return None
    completed = sum(
        part.completed
        for part in sample.timeline.slices
        if begin <= part.index < end and part.operation != sample.unrated_kind
    )
    return completed / ((end - begin) * slice_s)


CROSSING_FACTOR_MAX = 100.0
"""A share of 0 is replaced by the allowed share over this factor."""


def load_lines(study: Study, samples: Sequence[Sample]) -> list[LoadLine]:
    """Return the load lines of a run, in the order of the study.

    Args:
        study: The run's study, with percentile and limit of each.
        samples: All samples of the run.
    """
    found = []
    for workload in study.workloads:
        if isinstance(workload, Loadline):
            latency_target = latency_target_of(workload, study.seed)
            own: dict[str, list[Sample]] = {}
            for sample in samples:
                if sample.cell.kind == LOADLINE and sample.cell.workload == workload.label:
                    own.setdefault(template_key(sample.cell), []).append(sample)
            found += [load_line(key, part, latency_target) for key, part in own.items()]
    return found


def load_line(key: str, samples: Sequence[Sample], latency_target: LatencyTarget) -> LoadLine:
    """Return one load line.

    Args:
        key: Key of the closed loop.
        samples: Samples of the closed loop and of each rate, at least one.
        latency_target: The percentile and its limit.
    """
    steps = measured_steps(samples, latency_target)
    breaking = [step for step in steps if not step.verdict.seems_met]
    closed = closed_loop(samples)
    confident_breaks = [step.verdict.rate_per_s for step in steps if step.verdict.holds is False]
    broken_per_s = min(confident_breaks, default=None)
    sustained = _sustained(
        [step.verdict for step in steps],
        broken_per_s,
        rate_bounds(samples, latency_target),
        latency_target,
    )
    is_decided = sustained is not None and broken_per_s is not None
    generator = generator_limit(breaking[0] if breaking else None, latency_target)
    if sustained is not None and generator:
        sustained = msgspec.structs.replace(
            sustained, value=sustained.low or sustained.value, high=None
        )
    knee = hinge(_points(steps, latency_target)) if is_decided else None
    outcome = Outcome(
        latency_target=latency_target,
        steps=steps,
        breaking=breaking,
        closed=closed,
        sustained=sustained,
        broken_per_s=broken_per_s,
        breaks=how_it_breaks(steps, breaking, latency_target, is_decided=is_decided),
        knee=knee,
        generator=generator,
    )
    return LoadLine(
        target=samples[0].cell.target,
        workload=samples[0].cell.workload,
        percentile=latency_target.percentile,
        limit_ns=latency_target.limit_ns,
        cell=key,
        steps=[step.step for step in steps],
        sustained=outcome.sustained,
        broken_per_s=outcome.broken_per_s,
        closed_loop=closed,
        breaks=outcome.breaks,
        knee_per_s=knee.rate_per_s if knee else None,
        generator=outcome.generator,
        sentence=sentence(outcome),
        cause=cause(outcome),
    )


def _sustained(
    steps: Sequence[RateVerdict],
    high: float | None,
    bounds: RateBounds,
    latency_target: LatencyTarget,
) -> Estimate | None:
    """Return the sustained rate, with the significant rates on either side as its interval.

    The value is where the percentile seems to cross the limit, capped at the rate of completions
    while requests queue. Without an upper end it is the lower one, all that is proven.
    """
    holding, broken = bracket(steps)
    confident = [step for step in steps if step.holds and (high is None or step.rate_per_s < high)]
    if not confident or holding is None or bounds.reported_per_s <= 0:
        return None
    low = min(confident[-1].rate_per_s, bounds.reported_per_s)
    value = low
    if high is not None:
        value = holding.rate_per_s
        if broken is not None:
            value = _crossing_per_s(holding, broken, latency_target)
        value = min(max(min(value, bounds.done_per_s), low), high)
    return Estimate(
        value=value,
        low=low,
        high=high,
        rounds=confident[-1].rounds,
        unit="IOPS",
    )


def _crossing_per_s(
    holding: RateVerdict, broken: RateVerdict, latency_target: LatencyTarget
) -> float:
    """Return the rate at which the share crosses the allowed share, interpolated by logarithms."""
    allowed = math.log(latency_target.allowed_share)
    shares = [
        math.log(max(step.above.value, latency_target.allowed_share / CROSSING_FACTOR_MAX))
        for step in (holding, broken)
    ]
    part = (allowed - shares[0]) / (shares[1] - shares[0]) if shares[1] > shares[0] else 0.5
    part = min(1.0, max(0.0, part))
    return float(holding.rate_per_s * (broken.rate_per_s / holding.rate_per_s) ** part)


def _points(
    steps: Sequence[MeasuredStep], latency_target: LatencyTarget
) -> list[tuple[float, float]]:
    """Return the rates with a known percentile, up to the first that exceeds the limit."""
    points = []
    for step in steps:
        percentile_ns = step.percentile(latency_target.percentile)
        if percentile_ns is not None:
            points.append((step.verdict.rate_per_s, percentile_ns))
        if not step.verdict.seems_met:
            break
    return points
