"""A load line in words: the sustained rate, and how the limit is exceeded beyond it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import (
    format_count,
    format_duration_ns,
    format_duration_s,
    format_iops,
    format_plural,
    format_share,
    format_value,
)
from seatrial.trials.loadline.analysis.knee import Hinge, cliff
from seatrial.trials.loadline.analysis.measured_steps import MeasuredStep
from seatrial.trials.loadline.analysis.model import Break, LatencyTarget


@dataclass(frozen=True)
class Outcome:
    """Everything that the sentences on a load line are made from.

    Attributes:
        latency_target: The percentile and its limit.
        steps: All rates, ascending.
        breaking: The rates that exceed the limit, ascending.
        closed: Rate of the closed loop.
        sustained: The sustained rate.
        broken_per_s: The lowest rate that significantly exceeds the limit.
        breaks: How the limit is exceeded.
        knee: Where the percentile begins to rise.
        generator: Why the load generator was the bottleneck; empty if it was not.
    """

    latency_target: LatencyTarget
    steps: Sequence[MeasuredStep]
    breaking: Sequence[MeasuredStep]
    closed: Estimate | None
    sustained: Estimate | None
    broken_per_s: float | None
    breaks: Break
    knee: Hinge | None
    generator: str

    @property
    def condition(self) -> str:
        """The condition, such as ``p99 <= 5 ms``."""
        return f"{self.latency_target.percentile} <= {limit_text(self.latency_target)}"


def limit_text(latency_target: LatencyTarget) -> str:
    """Return the limit with all of its digits, such as ``5 ms`` or ``1,500 µs``."""
    return exact_duration(latency_target.limit_ns)


def exact_duration(value_ns: int) -> str:
    """Return an exact duration in the largest unit that needs no fraction."""
    for unit, scale in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if value_ns % scale == 0:
            return f"{value_ns // scale:,} {unit}"
    return f"{value_ns:,} ns"


def sentence(outcome: Outcome) -> str:
    """Return the answer in one sentence."""
    if not outcome.steps:
        return "The sustained rate is unknown: no rate was measured."
    if outcome.sustained is None:
        return _none_sustained(outcome)
    text = _sustained_text(outcome, outcome.sustained)
    return f"Sustains {text} within {outcome.condition}{_of_closed(outcome)}."


def _sustained_text(outcome: Outcome, sustained: Estimate) -> str:
    """Return ``12.4k IOPS (12.1k to 12.9k)``, or a lower bound of the sustained rate."""
    rate = format_value(sustained)
    if sustained.high is not None:
        return f"{rate} ({_rate(sustained.low or sustained.value)} to {_rate(sustained.high)})"
    if outcome.generator:
        return f"{rate} (beyond it the load generator was the bottleneck)"
    if outcome.breaking:
        return f"{rate} (no higher rate significantly exceeded it)"
    return f"{rate} (no rate tried exceeded it)"


def _rate(per_s: float) -> str:
    """Return an offered rate with three digits."""
    return format_iops(per_s, per_s / 100)


def _of_closed(outcome: Outcome) -> str:
    closed, sustained = outcome.closed, outcome.sustained
    if closed is None or sustained is None or closed.value <= 0:
        return ""
    share = format_share(sustained.value / closed.value)
    return f": {share} of the closed-loop rate ({format_value(closed)})"


def _none_sustained(outcome: Outcome) -> str:
    lowest = outcome.steps[0]
    at = f"{_rate(lowest.verdict.rate_per_s)} IOPS"
    if lowest.verdict.holds is False:
        return (
            f"No measured rate meets {outcome.condition}: even at {at} "
            f"{_reached(lowest, outcome.latency_target)}."
        )
    text = (
        f"Undecided: no measured rate significantly meets {outcome.condition}, not even the lowest "
        f"({at})"
    )
    if outcome.broken_per_s is None:
        return f"{text}."
    return f"{text}; {_rate(outcome.broken_per_s)} IOPS significantly exceeds it."


def _reached(step: MeasuredStep, latency_target: LatencyTarget) -> str:
    """Return ``p99 is 8.1 ms``, or the share of slow requests if the percentile is unknown."""
    value = step.step.response.get(latency_target.percentile)
    if value is not None:
        return f"{latency_target.percentile} is {format_value(value)}"
    return f"{format_share(step.step.above.value)} of requests took longer or never completed"


def cause(outcome: Outcome) -> str:
    """Return how the limit is exceeded, in words and with figures."""
    if not outcome.steps:
        return ""
    return _CAUSES[outcome.breaks](outcome)


def _of_none(outcome: Outcome) -> str:
    highest = outcome.steps[-1]
    return (
        f"No rate exceeded the limit: at {_rate(highest.verdict.rate_per_s)} IOPS "
        f"{_reached(highest, outcome.latency_target)}."
    )


def _of_undecided(outcome: Outcome) -> str:
    """Return the share above the limit at the lowest rate that may exceed it."""
    near = outcome.breaking[0].step
    above, allowed = near.above, format_share(outcome.latency_target.allowed_share)
    text = f"At {_rate(near.offered_per_s)} IOPS {format_share(above.value)} of requests"
    if above.low is not None and above.high is not None:
        text += f" ({format_share(above.low)} to {format_share(above.high)})"
    return (
        f"{text} took longer than {limit_text(outcome.latency_target)} ({allowed} allowed): "
        "too few groups of slow requests occurred to decide at which rate the limit is exceeded. "
        "Use a longer --budget."
    )


def _of_knee(outcome: Outcome) -> str:
    broken = outcome.breaking[0]
    at = f"{_rate(broken.verdict.rate_per_s)} IOPS {_reached(broken, outcome.latency_target)}"
    if broken.verdict.grows:
        at += ", still growing at the end"
    if outcome.generator:
        return f"At {at}."
    if outcome.knee is None:
        return f"Requests queue: at {at}."
    floor, knee = format_duration_ns(outcome.knee.floor_ns), format_iops(outcome.knee.rate_per_s)
    return (
        f"{outcome.latency_target.percentile} is about {floor} up to {knee} IOPS and rises above, "
        f"as requests queue; at {at}."
    )


def _of_cliff(outcome: Outcome) -> str:
    ends = cliff(outcome.steps, outcome.latency_target) or (outcome.steps[0], outcome.breaking[0])
    before, after = (
        f"at {_rate(step.verdict.rate_per_s)} IOPS {_reached(step, outcome.latency_target)}"
        for step in ends
    )
    return (
        f"The limit is exceeded abruptly: {before}, {after}. This is not queueing, but a rate "
        "limit, or exhausted burst credit or cache."
    )


def _of_service(outcome: Outcome) -> str:
    lowest = outcome.steps[0]
    service = lowest.step.service[outcome.latency_target.percentile]
    return (
        "A single request takes longer than the limit: "
        f"{outcome.latency_target.percentile} from the actual start is "
        f"{format_value(service)} at {_rate(lowest.verdict.rate_per_s)} IOPS."
    )


def _of_stalls(outcome: Outcome) -> str:
    broken = outcome.breaking[0]
    stalls = [
        stall for step in outcome.breaking for sample in step.samples for stall in sample.stalls
    ]
    longest = format_duration_s(max((stall.length_s for stall in stalls), default=0.0))
    service = broken.step.service.get("p50")
    usual = f" (p50 service time {format_value(service)})" if service else ""
    seen = format_plural(len(stalls), "stall")
    samples = format_count(sum(len(step.samples) for step in outcome.breaking))
    return (
        f"The limit is exceeded because of stalls, not load: {seen} in {samples} samples, the "
        f"longest {longest}{usual}. All requests that arrived during a stall had to wait."
    )


_CAUSES: dict[Break, Callable[[Outcome], str]] = {
    "none": _of_none,
    "knee": _of_knee,
    "cliff": _of_cliff,
    "stalls": _of_stalls,
    "service": _of_service,
    "undecided": _of_undecided,
}
