"""From rounds to figures with doubt: the unit is the round, never the interval or the latency.

A round's figure is that of its running phase (running.py). Intervals are Student-t on the
logarithms of the rounds, so the value is the geometric mean of the rounds; one round alone has
the interval that its own timeline gives (within_round.py), and says so. Where rounds differ by more
than twice no one figure stands for them: the median and the range are shown instead. A bootstrap
over rounds was tried first and dropped: with 3 to 8 rounds its 95 % interval holds the truth in 72
to 88 % of cases, percentile or BCa alike, and it is no better with 30 (docs/method.md has the
table; tests/stats/test_coverage.py computes it afresh).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from seatrial._core import Histogram
from seatrial.results.model import Sample
from seatrial.stats.at_least import at_least_of_rounds, percentile_ns_min, unanswered
from seatrial.stats.estimate import HISTOGRAM_RESOLUTION_SHARE, AtLeast, Estimate, Range, Spread
from seatrial.stats.running import Running, response_histogram, running
from seatrial.stats.student import spread_correction, t_of, variance
from seatrial.stats.within_round import with_bandwidth, with_latency, with_rate
from seatrial.stats.wording import DATABASE_OPERATIONS, STATEMENT
from seatrial.topic import topic_of

ROUNDS_MIN_SETTLED = 3
ENTRIES_BEYOND_PERCENTILE_MIN = 10
SCATTER_RATIO_MIN = 2.0
"""The largest round over the smallest: beyond it the rounds are no repeats of one another."""
_WITHOUT_SCATTER = ("ratio", "share", "count")
"""Units of what follows from two figures, or is small by nature, so that its factor says little."""
FOREIGN_RESOLUTION_SHARE = 1 / 128  # half of a bin's width in fio's JSON+
PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
_EXP_ARGUMENT_MAX = 700.0  # exp(709.8) is the largest that a double holds


def t_quantile(rounds: int) -> float:
    """Return Student's t that 95 % of means of so many rounds (at least 2) stay within."""
    return t_of(rounds - 1)


def estimate_of_rounds(
    values: Sequence[float], unit: str, *, resolution_share: float = 0.0
) -> Estimate:
    """Return the figure of a cell from one value per round.

    The value is the geometric mean with the t interval of the logarithms; where a round measured
    0, which has no logarithm, the plain mean with the plain t interval, cut off at 0. Of rounds
    that differ by more than twice the value is the median, and their range is told.

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
    scatter = _scatter(values, unit)
    if scatter:
        value = statistics.median(values)
        low, high = min(low, value), max(high, value)
    return Estimate(
        value=value,
        low=max(0.0, min(low, value * (1 - resolution_share))),
        high=max(high, value * (1 + resolution_share)),
        rounds=rounds,
        unit=unit,
        scatter=scatter,
    )


def _scatter(values: Sequence[float], unit: str) -> Range | None:
    """Return the range of rounds that differ by more than twice; None of others."""
    low, high = min(values), max(values)
    differs = high > SCATTER_RATIO_MIN * low and unit not in _WITHOUT_SCATTER
    return Range(low, high) if differs else None


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
    return t_quantile(len(values)) * math.sqrt(variance(values) / len(values))


def counted(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples that an estimate rests on, in order of rounds.

    A sample cut short counts only where the cell has no complete one.
    """
    ordered = sorted(samples, key=lambda sample: (sample.round, sample.position))
    return [sample for sample in ordered if sample.status == "complete"] or ordered


def rate_estimate(samples: Sequence[Sample], phases: Sequence[Running] | None = None) -> Estimate:
    """Return completed requests per second (``IOPS``; ``commits/s``; ``tps`` on a database).

    Args:
        samples: One a round, at least one.
        phases: Their running phases, where the caller has them already.
    """
    phases = phases_of(samples) if phases is None else phases
    estimate = estimate_of_rounds(
        [phase.completed_per_s for phase in phases],
        rate_unit(samples[0]),
        resolution_share=_count_resolution_share(phases),
    )
    return with_rate(estimate, samples[0], phases[0]) if len(samples) == 1 else estimate


def bandwidth_estimate(
    samples: Sequence[Sample], phases: Sequence[Running] | None = None
) -> Estimate:
    """Return bytes moved by completed requests per second (``B/s``); arguments as the rate's."""
    phases = phases_of(samples) if phases is None else phases
    estimate = estimate_of_rounds(
        [phase.transferred_bytes_per_s for phase in phases],
        "B/s",
        resolution_share=_count_resolution_share(phases),
    )
    return with_bandwidth(estimate, samples[0], phases[0]) if len(samples) == 1 else estimate


def rate_spread(samples: Sequence[Sample], phases: Sequence[Running]) -> Spread | None:
    """Return how the rates of the rounds lie; None when measured once."""
    if len(samples) < 2:
        return None
    rates = [phase.completed_per_s for phase in phases]
    median = statistics.median(rates)
    distance = statistics.median(abs(rate - median) for rate in rates)
    return Spread(
        median=median,
        mean=statistics.fmean(rates),
        low=min(rates),
        high=max(rates),
        mad_share=distance / median if median > 0 else None,
        rounds=len(rates),
        unit=rate_unit(samples[0]),
    )


def phases_of(samples: Sequence[Sample]) -> list[Running]:
    """Return the running phase of each sample."""
    return [running(sample) for sample in samples]


def rate_unit(sample: Sample) -> str:
    """Return the unit of a cell's rate: ``commits/s``, ``tps`` on a database, else ``IOPS``.

    A replay has statements, ``statements/s``: its transactions are those of the capture.
    """
    if own := topic_of(sample.cell).rate_unit:
        return own
    if sample.cell.operation == STATEMENT:
        return "statements/s"
    if sample.cell.operation in DATABASE_OPERATIONS:
        return "tps"
    return "commits/s" if sample.cell.operation == "commit" else "IOPS"


def _count_resolution_share(phases: Sequence[Running]) -> float:
    """Return what half a request is to a round: a count cannot tell a rate more exactly."""
    completed_mean = statistics.fmean(phase.completed for phase in phases)
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


def latency_estimates(
    samples: Sequence[Sample], phases: Sequence[Running] | None = None
) -> dict[str, dict[str, Estimate]]:
    """Return response times (ns) by operation kind and name, as ``CellSummary.latency`` has them.

    A percentile is read from each round's full counts and estimated over the rounds; it is
    absent when any round had too few requests to know it. ``max`` is the largest of all rounds,
    start-up phases included, and has no interval: a maximum grows with the time that one looks.
    """
    phases = phases_of(samples) if phases is None else phases
    kinds = dict.fromkeys(kind for sample in samples for kind in sample.operations)
    found = {}
    for kind in kinds:
        figures = _latency_of_kind(kind, samples, phases)
        if len(samples) == 1:
            figures = with_latency(figures, samples[0], kind, phases[0])
        if figures:
            found[kind] = figures
    return found


def latency_at_least(
    latency: Mapping[str, Mapping[str, Estimate]],
    samples: Sequence[Sample],
    phases: Sequence[Running],
) -> dict[str, dict[str, AtLeast]]:
    """Return lower bounds (ns) of the percentiles that unanswered requests leave unknown.

    Args:
        latency: What is known, as :func:`latency_estimates` returns it.
        samples: One a round, at least one.
        phases: Their running phases.
    """
    if not any(unanswered(sample) for sample in samples):
        return {}
    kinds = dict.fromkeys(kind for sample in samples for kind in sample.operations)
    completed = [phase.completed for phase in phases]
    found = {}
    for kind in kinds:
        histograms = [
            response_histogram(sample, kind, phase)
            for sample, phase in zip(samples, phases, strict=True)
        ]
        if bounds := percentiles_at_least(latency.get(kind, {}), histograms, samples, completed):
            found[kind] = bounds
    return found


def percentiles_at_least(
    known: Mapping[str, Estimate],
    histograms: Sequence[Histogram],
    samples: Sequence[Sample],
    completed: Sequence[int],
) -> dict[str, AtLeast]:
    """Return by name the lower bounds (ns) of those percentiles that are not known.

    Args:
        known: The percentiles that need no bound.
        histograms: Response times (ns), one a round.
        samples: The rounds.
        completed: Requests of all kinds that completed in what the histograms cover.
    """
    found = {}
    for name in PERCENTS.keys() - known.keys():
        rounds_ns = [
            _percentile_or_bound_ns(histogram, PERCENTS[name], sample, count)
            for histogram, sample, count in zip(histograms, samples, completed, strict=True)
        ]
        if (bound := at_least_of_rounds(rounds_ns)) is not None:
            found[name] = bound
    return {name: found[name] for name in PERCENTS if name in found}


def _percentile_or_bound_ns(
    histogram: Histogram, percent: float, sample: Sample, completed: int
) -> int | None:
    """Return a round's percentile (ns), or what it is at least; None where neither is known.

    Where some requests were not answered it is the bound: a percentile of the others supposes that
    they were all slower, which is not certain of those that were due last.
    """
    if not unanswered(sample):
        return _percentile_ns(histogram, percent, sample, completed)
    if histogram.count == 0:
        return None
    entries = histogram.count * share_with_unended(sample, completed)
    if entries < entries_needed(percent):
        return None
    return percentile_ns_min(histogram, percent, sample, completed)


def _latency_of_kind(
    kind: str, samples: Sequence[Sample], phases: Sequence[Running]
) -> dict[str, Estimate]:
    """Return one kind's figures; percentiles and mean only where every round knows them."""
    reported = [
        sample.operations[kind].reported_ns for sample in samples if kind in sample.operations
    ]
    histograms = [
        response_histogram(sample, kind, phase)
        for sample, phase in zip(samples, phases, strict=True)
    ]
    if any(reported) and not any(histogram.count for histogram in histograms):
        return _reported(reported) if len(reported) == len(samples) else {}
    resolution_share = FOREIGN_RESOLUTION_SHARE if any(reported) else HISTOGRAM_RESOLUTION_SHARE
    figures = {}
    for name, percent in PERCENTS.items():
        rounds_ns = [
            percentile_ns(histogram, percent, sample, phase)
            for histogram, sample, phase in zip(histograms, samples, phases, strict=True)
        ]
        known_ns = [value_ns for value_ns in rounds_ns if value_ns is not None]
        if len(known_ns) == len(samples):
            figures[name] = estimate_of_rounds(known_ns, "ns", resolution_share=resolution_share)
    if all(histogram.count for histogram in histograms):
        means_ns = [
            _mean_ns(h, sample, kind) for h, sample in zip(histograms, samples, strict=True)
        ]
        figures["mean"] = estimate_of_rounds(means_ns, "ns")
    largest_ns = max(_largest_ns(sample, kind) for sample in samples)
    if largest_ns:
        figures["max"] = Estimate(
            value=largest_ns, low=None, high=None, rounds=len(samples), unit="ns"
        )
    return figures


def _mean_ns(histogram: Histogram, sample: Sample, kind: str) -> float:
    """Return a round's mean: of a foreign one as told, for its bins know it less exactly."""
    reported_ns = sample.operations[kind].reported_ns.get("mean")
    is_whole = histogram.count == sample.operations[kind].response_histogram().count
    return reported_ns if reported_ns is not None and is_whole else histogram.mean_ns


def _reported(reported: Sequence[dict[str, float]]) -> dict[str, Estimate]:
    """Return what another tool reports of its response times, the same figures of every round.

    Percentiles of rounds cannot be put together without the requests behind them: the percentile
    of all lies somewhere between the smallest and the largest of the rounds.
    """
    figures = {}
    for name in (*PERCENTS, "mean", "max"):
        values = [round_ns[name] for round_ns in reported if name in round_ns]
        if len(values) == len(reported):
            low, high = min(values), max(values)
            figures[name] = Estimate(
                value=sum(values) / len(values) if name == "mean" else high,
                low=None if low == high or name == "max" else low,
                high=None if low == high or name == "max" else high,
                rounds=len(values),
                unit="ns",
                over="reported",
            )
    return figures


def percentile_ns(
    histogram: Histogram, percent: float, sample: Sample, phase: Running | None = None
) -> int | None:
    """Return what ``percent`` of a round's requests did not exceed; None when it is not known.

    Args:
        histogram: Response times (ns) of the running phase.
        percent: Above 0, at most 100.
        sample: The round.
        phase: Its running phase; all of it by default.
    """
    completed = sample.outcome.completed if phase is None else phase.completed
    return _percentile_ns(histogram, percent, sample, completed)


def _percentile_ns(
    histogram: Histogram, percent: float, sample: Sample, completed: int
) -> int | None:
    if histogram.count < entries_needed(percent):
        return None
    percent_of_completed = percent * share_with_unended(sample, completed)
    return histogram.percentile_ns(percent_of_completed) if percent_of_completed <= 100 else None


def share_with_unended(sample: Sample, completed: int) -> float:
    """Return all requests that count over those that completed, at least 1.

    Requests that never ended, or were skipped as too late to start, count as slower than all
    that completed: a percentile of the survivors would praise the target that froze.
    """
    return (completed + unanswered(sample)) / completed


def _largest_ns(sample: Sample, kind: str) -> int:
    """Return a round's largest response time; one that never ended counts with its age.

    Of several kinds it is not known which one never ended; the cell's stall tells of it then.
    """
    if kind not in sample.operations:
        return 0
    is_only_kind = len(sample.operations) == 1
    largest_ns = sample.operations[kind].response_histogram().max_ns
    return max(largest_ns, sample.oldest_in_flight_ns if is_only_kind else 0)


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

    So many reach it in about half of the cases or more (docs/method.md): the spread of few rounds
    is mostly too small, and is taken as large as it would have to be to be too small and too
    large equally often.

    None when it cannot be told: measured once, or more than ``rounds_max``.
    """
    share = estimate.half_width_share
    if share is None or estimate.rounds < 2 or precision_share <= 0:
        return None
    spread = share * math.sqrt(estimate.rounds) / t_quantile(estimate.rounds)
    spread *= spread_correction(estimate.rounds)
    for rounds in range(ROUNDS_MIN_SETTLED, rounds_max + 1):
        if t_quantile(rounds) * spread / math.sqrt(rounds) <= precision_share:
            return rounds
    return None
