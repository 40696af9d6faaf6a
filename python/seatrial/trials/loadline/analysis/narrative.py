"""A load line in words: what is sustained, and how it breaks."""

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
from seatrial.trials.loadline.analysis.breaks import cliff
from seatrial.trials.loadline.analysis.knee import Hinge
from seatrial.trials.loadline.analysis.latency_target import LatencyTarget
from seatrial.trials.loadline.analysis.measured import MeasuredStep
from seatrial.trials.loadline.analysis.model import Break


@dataclass(frozen=True)
class Outcome:
    """All that is told of a load line.

    Attributes:
        latency_target: What had to hold.
        steps: Every rate, rising.
        holding: The highest rate that holds below the lowest that breaks.
        breaking: The rates that break, rising.
        closed: What the closed loop reached.
        sustained: The answer.
        broken_per_s: The lowest rate that surely breaks.
        breaks: How it breaks.
        knee: Where the percentile leaves its floor.
        generator: Why the load generator was the limit.
    """

    latency_target: LatencyTarget
    steps: Sequence[MeasuredStep]
    holding: MeasuredStep | None
    breaking: Sequence[MeasuredStep]
    closed: Estimate | None
    sustained: Estimate | None
    broken_per_s: float | None
    breaks: Break
    knee: Hinge | None
    generator: str

    @property
    def condition(self) -> str:
        """What had to hold, such as ``p99 <= 5 ms``."""
        return f"{self.latency_target.percentile} <= {limit_text(self.latency_target)}"


def limit_text(latency_target: LatencyTarget) -> str:
    """Return the limit with all of its digits, such as ``5 ms`` or ``1,500 µs``."""
    return exact_duration(latency_target.limit_ns)


def exact_duration(value_ns: int) -> str:
    """Return a duration that was given, not measured: in the largest unit that leaves it whole."""
    for unit, scale in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if value_ns % scale == 0:
            return f"{value_ns // scale:,} {unit}"
    return f"{value_ns:,} ns"


def sentence(outcome: Outcome) -> str:
    """Return the answer in one sentence."""
    if not outcome.steps:
        return "No rate was measured, so what it sustains is not known."
    if outcome.sustained is None:
        return _none_sustained(outcome)
    reported = _sustained_text(outcome, outcome.sustained)
    return f"Within {outcome.condition} it sustains {reported}{_of_closed(outcome)}."


def _sustained_text(outcome: Outcome, sustained: Estimate) -> str:
    """Return ``12.4k IOPS (12.1k to 12.9k)``, or what it sustains at least."""
    low = _rate(sustained.low or sustained.value)
    if sustained.high is not None:
        return f"{format_value(sustained)} ({low} to {_rate(sustained.high)})"
    if outcome.breaking:
        return f"at least {low} IOPS (no higher rate broke it for sure)"
    return f"at least {low} IOPS, with no rate tried that breaks it"


def _rate(per_s: float) -> str:
    """Return an offered rate with the three digits that it has."""
    return format_iops(per_s, per_s / 100)


def _of_closed(outcome: Outcome) -> str:
    closed, sustained = outcome.closed, outcome.sustained
    if closed is None or sustained is None or closed.value <= 0:
        return ""
    share = format_share(sustained.value / closed.value)
    return f", {share} of what a closed loop reaches ({format_value(closed)})"


def _none_sustained(outcome: Outcome) -> str:
    lowest = outcome.steps[0]
    at = f"{_rate(lowest.judged.rate_per_s)} IOPS"
    if lowest.judged.holds is False:
        return (
            f"No rate that was measured holds {outcome.condition}: even at {at} "
            f"{_reached(lowest, outcome.latency_target)}."
        )
    reported = (
        f"Whether {outcome.condition} holds at {at}, the lowest rate measured, or at any other is "
        "not known with confidence"
    )
    if outcome.broken_per_s is None:
        return f"{reported}."
    return f"{reported}; at {_rate(outcome.broken_per_s)} IOPS it is surely broken."


def _reached(step: MeasuredStep, latency_target: LatencyTarget) -> str:
    """Return ``p99 is 8.1 ms``, or how many were too slow where the percentile is not known."""
    value = step.step.response.get(latency_target.percentile)
    if value is not None:
        return f"{latency_target.percentile} is {format_value(value)}"
    return f"{format_share(step.step.above.value)} of the requests took longer or never ended"


def cause(outcome: Outcome) -> str:
    """Return how it breaks, in words and with figures."""
    if not outcome.steps:
        return ""
    return _TELLERS[outcome.breaks](outcome)


def _of_none(outcome: Outcome) -> str:
    highest = outcome.steps[-1]
    return (
        f"It did not break: at {_rate(highest.judged.rate_per_s)} IOPS "
        f"{_reached(highest, outcome.latency_target)}."
    )


def _of_undecided(outcome: Outcome) -> str:
    """Say which share was above the limit where it seems to break: too little to decide."""
    near = outcome.breaking[0].step
    above, allowed = near.above, format_share(outcome.latency_target.allowed_share)
    reported = f"At {_rate(near.offered_per_s)} IOPS {format_share(above.value)} of the requests"
    if above.low is not None and above.high is not None:
        reported += f" ({format_share(above.low)} to {format_share(above.high)})"
    return (
        f"{reported} took longer than {limit_text(outcome.latency_target)}, and {allowed} may: "
        "too few bunches of slow requests came in this time "
        "to tell where it breaks, or how. A longer --budget "
        "tells more."
    )


def _of_knee(outcome: Outcome) -> str:
    broken = outcome.breaking[0]
    at = f"{_rate(broken.judged.rate_per_s)} IOPS {_reached(broken, outcome.latency_target)}"
    if broken.judged.grows:
        at += ", and it grew all the while"
    if outcome.generator:
        return f"At {at}."
    if outcome.knee is None:
        return f"Requests queue behind each other: at {at}."
    floor, knee = format_duration_ns(outcome.knee.floor_ns), format_iops(outcome.knee.rate_per_s)
    return (
        f"{outcome.latency_target.percentile} is about {floor} up to {knee} IOPS and rises from "
        f"there, as requests queue behind each other; at {at}."
    )


def _of_cliff(outcome: Outcome) -> str:
    ends = cliff(outcome.steps, outcome.latency_target) or (outcome.steps[0], outcome.breaking[0])
    before, after = (
        f"at {_rate(step.judged.rate_per_s)} IOPS {_reached(step, outcome.latency_target)}"
        for step in ends
    )
    return (
        f"It breaks at once: {before}, {after}. A bound is reached there that no queue announces: "
        "a rate limit, or a credit or a cache that is used up."
    )


def _of_service(outcome: Outcome) -> str:
    lowest = outcome.steps[0]
    service = lowest.step.service[outcome.latency_target.percentile]
    return (
        "The target takes longer for a single request: "
        f"{outcome.latency_target.percentile} from its actual start is "
        f"{format_value(service)} at {_rate(lowest.judged.rate_per_s)} IOPS."
    )


def _of_stalls(outcome: Outcome) -> str:
    broken = outcome.breaking[0]
    stalls = [
        stall for step in outcome.breaking for sample in step.samples for stall in sample.stalls
    ]
    longest = format_duration_s(max((stall.length_s for stall in stalls), default=0.0))
    service = broken.step.service.get("p50")
    usual = f"; else it takes {format_value(service)} for one (p50)" if service else ""
    seen = format_plural(len(stalls), "stall")
    samples = format_count(sum(len(step.samples) for step in outcome.breaking))
    return (
        f"It is broken by freezes, not by load: {seen} in {samples} samples, the longest of "
        f"{longest}{usual}. Every request that came meanwhile waited."
    )


_TELLERS: dict[Break, Callable[[Outcome], str]] = {
    "none": _of_none,
    "knee": _of_knee,
    "cliff": _of_cliff,
    "stalls": _of_stalls,
    "service": _of_service,
    "undecided": _of_undecided,
}
