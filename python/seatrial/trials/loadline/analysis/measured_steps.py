"""The samples of one load line by kind: the closed loop, and the rounds of each rate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial._core import Histogram
from seatrial.results.model import Sample, merged_histogram
from seatrial.stats.cell_estimates import (
    PERCENTS,
    counted,
    estimate_of_rounds,
    percentile_ns,
    percentiles_at_least,
    rate_estimate,
)
from seatrial.stats.estimate import HISTOGRAM_RESOLUTION_SHARE, Estimate
from seatrial.trials.loadline.analysis.model import LatencyTarget, LoadStep
from seatrial.trials.loadline.analysis.rate_verdicts import (
    LimitCounts,
    RateVerdict,
    count_against_limit,
    judge_rates,
)


@dataclass(frozen=True)
class MeasuredStep:
    """One offered rate with its measurements.

    Attributes:
        samples: One sample of each round.
        limit_counts: Counts of each sample, in the same order.
        verdict: The verdict on the rate.
        step: The step as reported.
    """

    samples: Sequence[Sample]
    limit_counts: Sequence[LimitCounts]
    verdict: RateVerdict
    step: LoadStep

    def percentile(self, name: str) -> float | None:
        """Return a percentile of the response times in ns; None where it is not known."""
        return self.step.response[name].value if name in self.step.response else None


def offered_per_s(sample: Sample) -> float | None:
    """Return the offered rate (requests per second) of a sample; None in a closed loop."""
    rate = sample.cell.parsed.arrival.rate_per_s
    return None if rate is None else float(rate)


def closed_loop(samples: Sequence[Sample]) -> Estimate | None:
    """Return the rate of the closed loop; None if it was not measured."""
    closed = [sample for sample in samples if offered_per_s(sample) is None]
    return rate_estimate(counted(closed)) if closed else None


def measured_steps(samples: Sequence[Sample], latency_target: LatencyTarget) -> list[MeasuredStep]:
    """Return each rate of a load line, rising."""
    by_rate: dict[float, list[Sample]] = defaultdict(list)
    for sample in samples:
        rate_per_s = offered_per_s(sample)
        if rate_per_s is not None:
            by_rate[rate_per_s].append(sample)
    measured = {rate_per_s: counted(own) for rate_per_s, own in sorted(by_rate.items())}
    limit_counts = {
        rate_per_s: [count_against_limit(sample, latency_target.limit_ns) for sample in own]
        for rate_per_s, own in measured.items()
    }
    verdicts = judge_rates(
        ((rate_per_s, part) for rate_per_s, own in limit_counts.items() for part in own),
        latency_target,
    )
    return [
        _measured(own, limit_counts[each.rate_per_s], each)
        for own, each in zip(measured.values(), verdicts, strict=True)
    ]


def _measured(
    own: Sequence[Sample], limit_counts: Sequence[LimitCounts], verdict: RateVerdict
) -> MeasuredStep:
    offered = sum(sample.offered_requests for sample in own)
    missed = sum(s.outcome.late_skipped + s.outcome.in_flight_at_end for s in own)
    times = [_merged(sample, of_response=True) for sample in own]
    response = _percentiles(own, times)
    step = LoadStep(
        cell=own[0].cell.key,
        offered_per_s=verdict.rate_per_s,
        completed_per_s=rate_estimate(own),
        response=response,
        response_at_least=percentiles_at_least(
            response, times, own, [s.outcome.completed - s.completed_syncs for s in own]
        ),
        service=_percentiles(own, [_merged(sample, of_response=False) for sample in own]),
        above=verdict.above,
        late_share=missed / offered if offered else 0.0,
        stalls=sum(len(sample.stalls) + sample.stalls_dropped for sample in own),
        holds=verdict.holds,
    )
    return MeasuredStep(samples=own, limit_counts=limit_counts, verdict=verdict, step=step)


def _merged(sample: Sample, *, of_response: bool) -> Histogram:
    """Return response or service times (ns) of all requests of a sample, without its syncs."""
    parts = [part for kind, part in sample.operations.items() if kind != sample.unrated_kind]
    return merged_histogram(
        part.response_histogram() if of_response else part.service_histogram() for part in parts
    )


def _percentiles(samples: Sequence[Sample], times: Sequence[Histogram]) -> dict[str, Estimate]:
    """Return the percentiles (ns) that every round knows, and the largest of all that ended."""
    figures = {}
    for name, percent in PERCENTS.items():
        rounds_ns = [percentile_ns(one, percent, s) for one, s in zip(times, samples, strict=True)]
        known_ns = [value_ns for value_ns in rounds_ns if value_ns is not None]
        if len(known_ns) == len(samples):
            figures[name] = estimate_of_rounds(
                known_ns, "ns", resolution_share=HISTOGRAM_RESOLUTION_SHARE
            )
    largest_ns = max(one.max_ns for one in times)
    if largest_ns:
        figures["max"] = Estimate(
            value=largest_ns, low=None, high=None, rounds=len(samples), unit="ns"
        )
    return figures
