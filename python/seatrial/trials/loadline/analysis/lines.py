"""The load lines of a run, made again from its stored samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seatrial.results.model import Sample
from seatrial.stats.estimate import Estimate
from seatrial.study.schema import Study
from seatrial.trials.loadline.analysis.breaks import generator_limit, how_it_breaks
from seatrial.trials.loadline.analysis.capacity import Most, most_known
from seatrial.trials.loadline.analysis.judged import Judged
from seatrial.trials.loadline.analysis.knee import hinge
from seatrial.trials.loadline.analysis.latency_target import LatencyTarget, latency_target_of
from seatrial.trials.loadline.analysis.measured import MeasuredStep, closed_loop, measured_steps
from seatrial.trials.loadline.analysis.model import LoadLine
from seatrial.trials.loadline.analysis.narrative import Outcome, cause, sentence
from seatrial.trials.loadline.study import LOADLINE, Loadline, template_key

CROSSING_FACTOR_MAX = 100.0
"""A share that is none is taken for this part of what is allowed."""


def load_lines(study: Study, samples: Sequence[Sample]) -> list[LoadLine]:
    """Return the load lines of a run, in the order of the study.

    Args:
        study: The run's study, which holds percentile and limit of each.
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
        key: Of the closed loop.
        samples: Of the closed loop and of each rate, at least one.
        latency_target: What must hold.
    """
    steps = measured_steps(samples, latency_target)
    holding, breaking = _divided(steps)
    closed = closed_loop(samples)
    sure_breaks = [step.judged.rate_per_s for step in steps if step.judged.holds is False]
    broken_per_s = min(sure_breaks, default=None)
    sustained = _sustained(
        steps,
        (holding, breaking),
        broken_per_s,
        most_known(samples, latency_target),
        latency_target,
    )
    is_decided = sustained is not None and broken_per_s is not None
    knee = hinge(_points(steps, latency_target)) if is_decided else None
    outcome = Outcome(
        latency_target=latency_target,
        steps=steps,
        holding=holding,
        breaking=breaking,
        closed=closed,
        sustained=sustained,
        broken_per_s=broken_per_s,
        breaks=how_it_breaks(steps, breaking, latency_target, is_decided=is_decided),
        knee=knee,
        generator=generator_limit(breaking[0] if breaking else None, latency_target),
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


def _divided(
    steps: Sequence[MeasuredStep],
) -> tuple[MeasuredStep | None, list[MeasuredStep]]:
    """Return the highest rate that seems to hold below the first that breaks, and those that do."""
    first = next((place for place, step in enumerate(steps) if not step.judged.leans), len(steps))
    breaking = [step for step in steps[first:] if not step.judged.leans]
    return (steps[first - 1] if first else None), breaking


def _sustained(
    steps: Sequence[MeasuredStep],
    divided: tuple[MeasuredStep | None, Sequence[MeasuredStep]],
    high: float | None,
    most: Most,
    latency_target: LatencyTarget,
) -> Estimate | None:
    """Return the most that is sustained: between what surely holds and what surely breaks.

    The value is where the percentile seems to cross the limit, but not above what gets done while
    requests queue.
    """
    holding, breaking = divided
    sure = [
        step
        for step in steps
        if step.judged.holds and (high is None or step.judged.rate_per_s < high)
    ]
    if not sure or holding is None:
        return None
    low = min(sure[-1].judged.rate_per_s, most.told_per_s)
    value = holding.judged.rate_per_s
    if breaking:
        value = _crossing_per_s(holding.judged, breaking[0].judged, latency_target)
    value = max(min(value, most.done_per_s), low)
    return Estimate(
        value=value if high is None else min(value, high),
        low=low,
        high=high,
        rounds=sure[-1].judged.rounds,
        unit="IOPS",
    )


def _crossing_per_s(holding: Judged, broken: Judged, latency_target: LatencyTarget) -> float:
    """Return where the share crosses what is allowed, between two rates, by its logarithm."""
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
    """Return the rates whose percentile is known, up to the first that is far beyond the limit."""
    points = []
    for step in steps:
        percentile_ns = step.percentile(latency_target.percentile)
        if percentile_ns is not None:
            points.append((step.judged.rate_per_s, percentile_ns))
        if not step.judged.leans:
            break
    return points
