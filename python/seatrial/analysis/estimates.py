"""From rounds to figures with doubt: the unit is the round, never the interval or the latency.

Intervals are Student-t on the logarithms of the rounds, so the value is the geometric mean of
the rounds. A bootstrap over rounds was tried first and dropped: with 3 to 8 rounds its 95 %
interval holds the truth in 72 to 88 % of cases, percentile or BCa alike, and it is no better
with 30 (docs/method.md has the table; tests/analysis/test_coverage.py computes it afresh).
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence

from seatrial._core import Histogram
from seatrial.analysis.model import Estimate
from seatrial.results.model import Sample

CONFIDENCE = 0.95
ROUNDS_MIN_SETTLED = 3
ENTRIES_BEYOND_PERCENTILE_MIN = 10
HISTOGRAM_RESOLUTION_SHARE = 1 / 256  # half of a bucket's width, docs/engine.md
PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
_EXP_ARGUMENT_MAX = 700.0  # exp(709.8) is the largest that a double holds


@functools.cache
def t_quantile(rounds: int) -> float:
    """Return Student's t that 95 % of means of so many rounds (at least 2) stay within."""
    from scipy.special import stdtrit  # noqa: PLC0415  (0.3 s to import; only an analysis pays)

    return float(stdtrit(rounds - 1, (1 + CONFIDENCE) / 2))


def estimate_of_rounds(
    values: Sequence[float], unit: str, *, resolution_share: float = 0.0
) -> Estimate:
    """Return the figure of a cell from one value per round.

    The value is the geometric mean with the t interval of the logarithms; where a round measured
    0, which has no logarithm, the plain mean with the plain t interval, cut off at 0.

    Args:
        values: One per round, at least one, none negative, in ``unit``.
        unit: As in :class:`Estimate`.
        resolution_share: Half of the step in which a value can be read, as a share of it; the
            interval is never narrower, because equal readings do not prove an exact value.

    Raises:
        ValueError: When there is no value, or one is negative or not finite.
    """
    if not values or not all(math.isfinite(value) and value >= 0 for value in values):
        raise ValueError(f"rounds must be finite and not negative, at least one; got {values!r}")
    rounds = len(values)
    if rounds == 1:
        return Estimate(value=values[0], low=None, high=None, rounds=1, unit=unit)
    if min(values) > 0:
        value, low, high = _geometric(values)
    else:
        value, low, high = _arithmetic(values)
    return Estimate(
        value=value,
        low=max(0.0, min(low, value * (1 - resolution_share))),
        high=max(high, value * (1 + resolution_share)),
        rounds=rounds,
        unit=unit,
    )


def _geometric(values: Sequence[float]) -> tuple[float, float, float]:
    """Return geometric mean, low and high of values above 0."""
    logarithms = [math.log(value) for value in values]
    center = statistics.fmean(logarithms)
    half = _half_width(logarithms)
    low, high = math.exp(center - half), math.exp(min(center + half, _EXP_ARGUMENT_MAX))
    # Rounding must not push the mean of equal rounds across a threshold that they stand on.
    return min(max(math.exp(center), min(values)), max(values)), low, high


def _arithmetic(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean, low and high of values of which some are 0."""
    center, half = statistics.fmean(values), _half_width(values)
    return center, center - half, center + half


def _half_width(values: Sequence[float]) -> float:
    """Return half of the width of the mean's t interval."""
    return t_quantile(len(values)) * statistics.stdev(values) / math.sqrt(len(values))


def counted(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples that an estimate rests on, in order of rounds.

    A sample cut short counts only where the cell has no complete one.
    """
    ordered = sorted(samples, key=lambda sample: (sample.round, sample.position))
    return [sample for sample in ordered if sample.status == "complete"] or ordered


def rate_estimate(samples: Sequence[Sample]) -> Estimate:
    """Return completed requests per second (``IOPS``; ``commits/s`` for commits)."""
    unit = "commits/s" if samples[0].cell.operation == "commit" else "IOPS"
    return estimate_of_rounds(
        [sample.completed_per_s for sample in samples],
        unit,
        resolution_share=_count_resolution_share(samples),
    )


def bandwidth_estimate(samples: Sequence[Sample]) -> Estimate:
    """Return bytes moved by completed requests per second (``B/s``)."""
    return estimate_of_rounds(
        [sample.transferred_bytes_per_s for sample in samples],
        "B/s",
        resolution_share=_count_resolution_share(samples),
    )


def _count_resolution_share(samples: Sequence[Sample]) -> float:
    """Return what half a request is to a round: a count cannot tell a rate more exactly."""
    completed_mean = statistics.fmean(sample.outcome.completed for sample in samples)
    return min(1.0, 0.5 / completed_mean) if completed_mean > 0 else 0.0


def paired_ratio(
    above: Sequence[Sample], below: Sequence[Sample], figure: Callable[[Sample], float]
) -> Estimate | None:
    """Return a figure of one cell over that of another, paired by round (unit ``ratio``).

    None when no round measured both with a figure above 0.
    """
    below_by_round = {sample.round: figure(sample) for sample in counted(below)}
    ratios = [
        figure(sample) / below_by_round[sample.round]
        for sample in counted(above)
        if below_by_round.get(sample.round, 0) > 0
    ]
    return estimate_of_rounds(ratios, "ratio") if ratios else None


def entries_needed(percent: float) -> int:
    """Return how many requests a round needs for a percentile: ten of them beyond it."""
    return round(ENTRIES_BEYOND_PERCENTILE_MIN / (1 - percent / 100))


def latency_estimates(samples: Sequence[Sample]) -> dict[str, dict[str, Estimate]]:
    """Return response times (ns) by operation kind and name, as ``CellSummary.latency`` has them.

    A percentile is read from each round's full counts and estimated over the rounds; it is
    absent when any round had too few requests to know it. ``max`` is the largest of all rounds
    and has no interval: a maximum grows with the time that one looks.
    """
    kinds = dict.fromkeys(kind for sample in samples for kind in sample.operations)
    return {kind: figures for kind in kinds if (figures := _latency_of_kind(kind, samples))}


def _latency_of_kind(kind: str, samples: Sequence[Sample]) -> dict[str, Estimate]:
    """Return one kind's figures; percentiles and mean only where every round knows them."""
    histograms = [
        sample.operations[kind].response_histogram()
        if kind in sample.operations
        else Histogram.of([])
        for sample in samples
    ]
    figures = {}
    for name, percent in PERCENTS.items():
        rounds_ns = [
            percentile_ns(histogram, percent, sample)
            for histogram, sample in zip(histograms, samples, strict=True)
        ]
        known_ns = [value_ns for value_ns in rounds_ns if value_ns is not None]
        if len(known_ns) == len(samples):
            figures[name] = estimate_of_rounds(
                known_ns, "ns", resolution_share=HISTOGRAM_RESOLUTION_SHARE
            )
    if all(histogram.count for histogram in histograms):
        figures["mean"] = estimate_of_rounds([h.mean_ns for h in histograms], "ns")
    largest_ns = max(map(_largest_ns, histograms, samples))
    if largest_ns:
        figures["max"] = Estimate(
            value=largest_ns, low=None, high=None, rounds=len(samples), unit="ns"
        )
    return figures


def percentile_ns(histogram: Histogram, percent: float, sample: Sample) -> int | None:
    """Return what ``percent`` of a round's requests did not exceed; None when it is not known.

    Requests that never ended, or were skipped as too late to start, count as slower than all
    that completed: a percentile of the survivors would praise the target that froze.
    """
    if histogram.count < entries_needed(percent):
        return None
    outcome = sample.outcome
    unended = outcome.late_skipped + outcome.in_flight_at_end
    percent_of_completed = percent * (outcome.completed + unended) / outcome.completed
    return histogram.percentile_ns(percent_of_completed) if percent_of_completed <= 100 else None


def _largest_ns(histogram: Histogram, sample: Sample) -> int:
    """Return a round's largest response time; one that never ended counts with its age.

    Of several kinds it is not known which one never ended; the cell's stall tells of it then.
    """
    is_only_kind = len(sample.operations) == 1
    return max(histogram.max_ns, sample.oldest_in_flight_ns if is_only_kind else 0)


def settled(samples: Sequence[Sample], precision_share: float) -> bool:
    """Tell whether a cell needs no further round: its rate's interval is within the asked share.

    Fewer than three rounds never settle a cell: with two, chance agreement stops so often that
    the intervals at the stop under-cover (docs/method.md has the figures).
    """
    complete = [sample for sample in samples if sample.status == "complete"]
    if len(complete) < ROUNDS_MIN_SETTLED:
        return False
    share = rate_estimate(complete).half_width_share
    return share is not None and share <= precision_share


def rounds_needed(estimate: Estimate, precision_share: float, rounds_max: int = 1000) -> int | None:
    """Return how many rounds the asked share would take if they spread as those measured.

    None when it cannot be told: measured once, or more than ``rounds_max``.
    """
    share = estimate.half_width_share
    if share is None or precision_share <= 0:
        return None
    spread = share * math.sqrt(estimate.rounds) / t_quantile(estimate.rounds)
    for rounds in range(ROUNDS_MIN_SETTLED, rounds_max + 1):
        if t_quantile(rounds) * spread / math.sqrt(rounds) <= precision_share:
            return rounds
    return None
