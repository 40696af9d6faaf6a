"""Estimates of a cell from its rounds: the unit is the round, never the interval or the latency.

A round's figure is that of its running phase (running.py). Intervals are Student-t on the
logarithms of the rounds, so the value is the geometric mean of the rounds; a single round has the
interval of its own timeline, and is marked so. Where rounds differ by more than a factor of two no
single figure represents them: the median and the range are shown instead. A bootstrap over rounds
was rejected: with 3 to 8 rounds its 95 % interval covers the true value in 72 to 88 % of cases,
percentile or BCa alike, and 30 rounds do not improve it (docs/method.md has the table;
tests/stats/test_coverage.py computes it).

A request that was skipped or never ended has no response time, but it has waited for a known
minimum time. With these times in place of the response times, a percentile is at most the true one.

The interval of a single round is a block bootstrap over the slices of its timeline, which accounts
for autocorrelation. It shows whether the sample was long enough for its own noise, but not how
rounds vary, so it is not used to compare, to stop or to refuse anything (docs/method.md).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from seatrial._core import Histogram
from seatrial.lazy import np
from seatrial.results.model import Sample
from seatrial.stats.estimate import (
    EXP_ARGUMENT_MAX,
    HISTOGRAM_RESOLUTION_SHARE,
    AtLeast,
    Estimate,
    Range,
    Spread,
    half_width_of_mean,
    spread_correction,
    t_of,
    variance,
)
from seatrial.stats.running import RunningPhase, response_histogram, running
from seatrial.stats.timeline import (
    SLICES_MIN,
    is_long_enough,
    series_of,
    slice_counts,
    slice_sums,
    whole_slices,
)
from seatrial.stats.wording import DATABASE_OPERATIONS, STATEMENT
from seatrial.study.hosts import loading_hosts
from seatrial.topic import topic_of
from seatrial.units import NS_PER_S

_OWN_ENGINES = ("psync", "io_uring")


def unanswered(sample: Sample) -> int:
    """Return how many requests of a round were skipped as too late or never ended."""
    return sample.outcome.late_skipped + sample.outcome.in_flight_at_end


def at_least_of_rounds(rounds_ns: Sequence[float | None]) -> AtLeast | None:
    """Return the lower bound of a cell's percentile from one value or lower bound (ns) per round.

    It is the geometric mean, as the percentile itself is. None if a round has no bound.
    """
    known_ns = [value_ns for value_ns in rounds_ns if value_ns is not None and value_ns > 0]
    if not known_ns or len(known_ns) < len(rounds_ns):
        return None
    mean_ns = math.exp(sum(math.log(value_ns) for value_ns in known_ns) / len(known_ns))
    return AtLeast(value=mean_ns, rounds=len(known_ns), unit="ns")


def percentile_ns_min(
    histogram: Histogram, percent: float, sample: Sample, completed: int
) -> int | None:
    """Return the lower bound of a percentile of a round's response times; None without one.

    Skipped requests are attributed to the kinds in proportion, because kinds are drawn at random;
    the kinds of requests in flight are unknown, so these count as if they had not waited.

    Args:
        histogram: Response times (ns) of the completed requests of interest.
        percent: Above 0, below 100.
        sample: The round.
        completed: Requests of all kinds that completed, in the same phase.
    """
    if not unanswered(sample) or not histogram.count or sample.engine not in _OWN_ENGINES:
        return None
    skipped_waiting = _skipped_waiting(sample)
    in_flight = sample.outcome.in_flight_at_end if len(sample.operations) == 1 else 0
    in_flight_ns = _in_flight_wait_ns_min(sample)
    lows_ns, _, counts = histogram.buckets()

    def waiting(wait_ns: int) -> float:
        ended = sum(n for low_ns, n in zip(lows_ns, counts, strict=True) if low_ns >= wait_ns)
        still = in_flight if wait_ns <= in_flight_ns else 0
        return ended * completed / histogram.count + skipped_waiting(wait_ns) + still

    slower = math.floor((1 - percent / 100) * (completed + unanswered(sample)) + 1e-9) + 1
    low_ns = 0
    high_ns = 1 + max(histogram.max_ns, in_flight_ns, round(sample.duration_s * NS_PER_S))
    while high_ns - low_ns > 1:
        middle_ns = (low_ns + high_ns) // 2
        is_reached = waiting(middle_ns) >= slower
        low_ns, high_ns = (middle_ns, high_ns) if is_reached else (low_ns, middle_ns)
    return low_ns or None


def _skipped_waiting(sample: Sample) -> Callable[[int], float]:
    """Return how many of the skipped requests certainly waited for a time (ns) or longer.

    Each worker skips the last requests of its schedule. So those that waited less are at most those
    due in that time: by the rate, and one group more on each host; in a Poisson process by the rate
    and four standard deviations, and 6 more, which it exceeds in less than 1 case of 1,000
    (Bernstein's inequality). Of batches of geometric sizes, the variance is 2 n - 1 times as large,
    and a sum exceeds that by another 14 n as rarely, since each ends with a chance of 1 / n a
    request.
    """
    skipped = sample.outcome.late_skipped
    arrival = sample.cell.parsed.arrival
    # Each host has the whole rate, in groups of its own.
    hosts = loading_hosts(sample.cell)
    rate_per_s = (arrival.rate_per_s or 0.0) * hosts
    burst = arrival.burst or 1
    is_random = arrival.kind in ("poisson", "batches")
    group = 14 * burst if arrival.kind == "batches" else 6 if is_random else burst * hosts
    dispersion = 2 * burst - 1

    def waiting(wait_ns: int) -> float:
        due = wait_ns / NS_PER_S * rate_per_s
        due += group + (4 * math.sqrt(due * dispersion) if is_random else 0)
        return max(0.0, skipped - due) if rate_per_s > 0 else 0.0

    return waiting


def _in_flight_wait_ns_min(sample: Sample) -> int:
    """Return the minimum wait (ns) of each request in flight at the end.

    Each was started before the time limit, and the oldest no earlier than the sample: so each has
    waited for as long as the oldest has beyond the limit. It also outlasted the last completion.
    """
    limit_s = sample.cell.parsed.limit.duration_s
    if limit_s is None:
        return 0
    limit_ns = round(limit_s * NS_PER_S)
    last_end_ns = round(sample.duration_s * NS_PER_S)
    return max(0, sample.oldest_in_flight_ns - limit_ns, last_end_ns - limit_ns)


if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def with_rate(estimate: Estimate, sample: Sample, phase: RunningPhase) -> Estimate:
    """Return a rate measured once with the interval of its timeline, where possible."""
    if not _is_known(sample, phase):
        return estimate
    return _with_mean(estimate, _grouped(slice_counts(sample), sample, phase))


def with_bandwidth(estimate: Estimate, sample: Sample, phase: RunningPhase) -> Estimate:
    """Return a bandwidth measured once with the interval of its timeline."""
    if not _is_known(sample, phase):
        return estimate
    moved = slice_sums(sample, lambda part: float(part.transferred_bytes))
    return _with_mean(estimate, _grouped(moved, sample, phase))


def with_latency(
    figures: dict[str, Estimate], sample: Sample, kind: str, phase: RunningPhase
) -> dict[str, Estimate]:
    """Return response times measured once with the intervals of their timeline.

    A percentile's interval is Woodruff's (1952): the interval of the share of requests below it,
    with the block bootstrap's error, converted back through the same counts.
    """
    if not figures or not _is_known(sample, phase):
        return figures
    entries = _Entries(sample, kind, phase)
    if entries.count == 0 or entries.count != entries.histogram.count:
        return figures
    return {name: entries.with_interval(name, estimate) for name, estimate in figures.items()}


class _Entries:
    """The response times of one kind in a running phase, by slice."""

    def __init__(self, sample: Sample, kind: str, phase: RunningPhase) -> None:
        self._sample, self._completed = sample, phase.completed
        self.histogram = response_histogram(sample, kind, phase)
        self.slices = whole_slices(sample) - phase.from_slice
        indexes, lower_ns, counts = [], [], []
        for part in sample.timeline.slices:
            if part.operation == kind and part.index >= phase.from_slice:
                lower, _, held = Histogram.decode(part.response).buckets()
                # Completions after the last whole slice are added to it.
                index = min(part.index - phase.from_slice, self.slices - 1)
                indexes += [index] * len(held)
                lower_ns += lower
                counts += held
        self.indexes = np.array(indexes, dtype=np.int64)
        self.lower_ns = np.array(lower_ns, dtype=float)
        self.counts = np.array(counts, dtype=float)
        self.count = int(self.counts.sum())
        self.by_slice = self._summed(self.counts)

    def _summed(self, weights: Array) -> Array:
        return np.bincount(self.indexes, weights=weights, minlength=self.slices).astype(float)

    def with_interval(self, name: str, estimate: Estimate) -> Estimate:
        """Return a percentile or the mean with its interval; a maximum is unchanged."""
        if name == "max":
            return estimate
        if name == "mean":
            return self._mean(estimate)
        below = self._summed(self.counts * (self.lower_ns <= estimate.value))
        half = half_width_of_mean(below - below.sum() / self.count * self.by_slice)
        if half is None:
            return estimate
        half /= self.by_slice.mean()
        # The share below is that at the upper edge of the bucket: the percentile is within it.
        share = PERCENTS[name] / 100 * share_with_unended(self._sample, self._completed)
        low_ns = self.histogram.percentile_ns(100 * max(share - half, 1 / self.count))
        high_ns = self.histogram.percentile_ns(100 * min(share + half, 1.0))
        # Both ends are read from buckets too, and the true one may be at the edge of its bucket.
        return _ranging(
            estimate,
            min(low_ns, estimate.value) * (1 - HISTOGRAM_RESOLUTION_SHARE),
            max(high_ns, estimate.value) * (1 + HISTOGRAM_RESOLUTION_SHARE),
        )

    def _mean(self, estimate: Estimate) -> Estimate:
        """Return the mean with its interval, by the residuals of a ratio estimator."""
        departing = self._summed(self.counts * (self.lower_ns - estimate.value))
        half = half_width_of_mean(departing - departing.mean())
        if half is None:
            return estimate
        return _by_factor(estimate, half / self.by_slice.mean())


def _is_known(sample: Sample, phase: RunningPhase) -> bool:
    """Return whether a running phase has enough slices for an interval."""
    return is_long_enough(sample) and whole_slices(sample) - phase.from_slice >= SLICES_MIN


def _grouped(values: Array, sample: Sample, phase: RunningPhase) -> Array:
    """Return sums over the steps of the sample's series, from its running phase on."""
    group = series_of(sample).slices_per_step
    own = values[phase.from_slice :]
    steps = len(own) // group
    if steps < SLICES_MIN:
        return own
    sums: Array = own[: steps * group].reshape(steps, group).sum(axis=1)
    return sums


def _with_mean(estimate: Estimate, values: Array) -> Estimate:
    """Return an estimate with the interval of the mean of values that are proportional to it."""
    mean = float(values.mean())
    half = half_width_of_mean(values)
    if half is None or mean <= 0:
        return estimate
    return _by_factor(estimate, estimate.value * half / mean)


def _by_factor(estimate: Estimate, half_width: float) -> Estimate:
    """Return an interval by a factor, so that it cannot extend below zero."""
    if estimate.value <= 0:
        return estimate
    factor = math.exp(half_width / estimate.value)
    return _ranging(estimate, estimate.value / factor, estimate.value * factor)


def _ranging(estimate: Estimate, low: float, high: float) -> Estimate:
    return msgspec.structs.replace(estimate, low=low, high=high, over="timeline")


ROUNDS_MIN_SETTLED = 3
ENTRIES_BEYOND_PERCENTILE_MIN = 10
SCATTER_RATIO_MIN = 2.0
"""The largest round over the smallest: beyond it the rounds are not repeats of one another."""
_WITHOUT_SCATTER = ("ratio", "share", "count")
"""Units of figures that are derived or naturally small, whose factor means little."""
FOREIGN_RESOLUTION_SHARE = 1 / 128  # half of a bin's width in fio's JSON+
PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


def estimate_of_rounds(
    values: Sequence[float], unit: str, *, resolution_share: float = 0.0
) -> Estimate:
    """Return the figure of a cell from one value per round.

    The value is the geometric mean with the t interval of the logarithms; where a round measured
    0, which has no logarithm, the arithmetic mean with the plain t interval, cut off at 0. If
    rounds differ by more than a factor of two, the value is the median, with their range.

    Args:
        values: One per round, at least one, none negative, in ``unit``.
        unit: As in :class:`Estimate`.
        resolution_share: Half of the resolution of a value, as a share of it; the interval is never
                narrower, because equal values do not prove an exact value.

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
    """Return the range of rounds that differ by more than a factor of two, else None."""
    low, high = min(values), max(values)
    differs = high > SCATTER_RATIO_MIN * low and unit not in _WITHOUT_SCATTER
    return Range(low, high) if differs else None


def _geometric(values: Sequence[float]) -> tuple[float, float, float]:
    """Return geometric mean, low and high of values above 0."""
    logarithms = [math.log(value) for value in values]
    center = statistics.fmean(logarithms)
    half = _half_width(logarithms)
    low, high = math.exp(center - half), math.exp(min(center + half, EXP_ARGUMENT_MAX))
    # Rounding must not push the mean of equal rounds across a threshold.
    return min(max(math.exp(center), min(values)), max(values)), low, high


def _arithmetic(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean, low and high of values that include 0."""
    center, half = statistics.fmean(values), _half_width(values)
    return center, center - half, center + half


def _half_width(values: Sequence[float]) -> float:
    """Return half of the width of the mean's t interval."""
    return t_of(len(values) - 1) * math.sqrt(variance(values) / len(values))


def counted(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples that an estimate uses, in order of rounds.

    An incomplete sample counts only where the cell has no complete one.
    """
    ordered = sorted(samples, key=lambda sample: (sample.round, sample.position))
    return [sample for sample in ordered if sample.status == "complete"] or ordered


def rate_estimate(
    samples: Sequence[Sample], phases: Sequence[RunningPhase] | None = None
) -> Estimate:
    """Return completed requests per second (``IOPS``; ``commits/s``; ``tps`` on a database).

    Args:
        samples: One a round, at least one.
        phases: Their running phases, where the caller has them already.
    """
    phases = phases_of(samples) if phases is None else phases
    estimate = estimate_of_rounds(
        [phase.completed_per_s for phase in phases],
        rate_unit(samples[0]),
        resolution_share=count_resolution_share(phases),
    )
    return with_rate(estimate, samples[0], phases[0]) if len(samples) == 1 else estimate


def bandwidth_estimate(
    samples: Sequence[Sample], phases: Sequence[RunningPhase] | None = None
) -> Estimate:
    """Return bytes transferred per second (``B/s``); arguments as the rate's."""
    phases = phases_of(samples) if phases is None else phases
    estimate = estimate_of_rounds(
        [phase.transferred_bytes_per_s for phase in phases],
        "B/s",
        resolution_share=count_resolution_share(phases),
    )
    return with_bandwidth(estimate, samples[0], phases[0]) if len(samples) == 1 else estimate


def rate_spread(samples: Sequence[Sample], phases: Sequence[RunningPhase]) -> Spread | None:
    """Return the distribution of the rates of the rounds; None when measured once."""
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


def phases_of(samples: Sequence[Sample]) -> list[RunningPhase]:
    """Return the running phase of each sample."""
    return [running(sample) for sample in samples]


def rate_unit(sample: Sample) -> str:
    """Return the unit of a cell's rate: ``commits/s``, ``tps`` on a database, else ``IOPS``.

    A replay has ``statements/s``: its transactions are those of the capture.
    """
    if own := topic_of(sample.cell).rate_unit:
        return own
    if sample.cell.operation == STATEMENT:
        return "statements/s"
    if sample.cell.operation in DATABASE_OPERATIONS:
        return "tps"
    return "commits/s" if sample.cell.operation == "commit" else "IOPS"


def count_resolution_share(phases: Sequence[RunningPhase]) -> float:
    """Return half a request relative to a round: the resolution of a rate from counts."""
    completed_mean = statistics.fmean(phase.requests for phase in phases)
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
    """Return how many requests a round needs for a percentile: ten of them above it."""
    return round(ENTRIES_BEYOND_PERCENTILE_MIN / (1 - percent / 100))


def known_percentiles(histogram: Histogram) -> dict[str, float]:
    """Return the percentiles (ns) with enough entries, by names such as ``p99_9``."""
    return {
        name.replace(".", "_"): float(histogram.percentile_ns(percent))
        for name, percent in PERCENTS.items()
        if histogram.count >= entries_needed(percent)
    }


def latency_estimates(
    samples: Sequence[Sample], phases: Sequence[RunningPhase] | None = None
) -> dict[str, dict[str, Estimate]]:
    """Return response times (ns) by operation kind and name, as ``CellSummary.latency`` has them.

    A percentile is computed from each round's full counts and estimated over the rounds; it is
    absent if any round had too few requests. ``max`` is the largest of all rounds, including
    start-up phases, and has no interval: a maximum grows with the time of observation.
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
    phases: Sequence[RunningPhase],
) -> dict[str, dict[str, AtLeast]]:
    """Return lower bounds (ns) of the percentiles that are unknown because of unanswered requests.

    Args:
        latency: The known percentiles, as :func:`latency_estimates` returns them.
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
    """Return the lower bounds (ns) of the unknown percentiles, by name.

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
    """Return a round's percentile (ns), or its lower bound; None if neither is known.

    With unanswered requests it is the bound: a percentile of the others assumes that all unanswered
    ones were slower, which is not certain for those that were due last.
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
    kind: str, samples: Sequence[Sample], phases: Sequence[RunningPhase]
) -> dict[str, Estimate]:
    """Return one kind's figures; percentiles and mean only if known in every round."""
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
    """Return a round's mean: for an imported one as reported, as its bins are less exact."""
    reported_ns = sample.operations[kind].reported_ns.get("mean")
    is_whole = histogram.count == sample.operations[kind].response_histogram().count
    return reported_ns if reported_ns is not None and is_whole else histogram.mean_ns


def _reported(reported: Sequence[dict[str, float]]) -> dict[str, Estimate]:
    """Return the response times reported by another tool, if the same in every round.

    Percentiles of rounds cannot be combined without the requests: the percentile of all is between
    the smallest and the largest of the rounds.
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
    histogram: Histogram, percent: float, sample: Sample, phase: RunningPhase | None = None
) -> int | None:
    """Return the percentile of a round's response times; None when it is not known.

    Args:
        histogram: Response times (ns) of the running phase.
        percent: Above 0, at most 100.
        sample: The round.
        phase: Its running phase; by default all requests of the round, without syncs.
    """
    requests = sample.outcome.completed - sample.completed_syncs
    completed = requests if phase is None else phase.completed
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

    Requests that never ended, or were skipped as too late, count as slower than all completed ones:
    otherwise a target that froze would look better.
    """
    return (completed + unanswered(sample)) / completed


def _largest_ns(sample: Sample, kind: str) -> int:
    """Return a round's largest response time; a request that never ended counts with its age.

    With several kinds its kind is unknown; the cell's stall reports it then.
    """
    if kind not in sample.operations:
        return 0
    is_only_kind = len(sample.operations) == 1
    largest_ns = sample.operations[kind].response_histogram().max_ns
    return max(largest_ns, sample.oldest_in_flight_ns if is_only_kind else 0)


def settled(samples: Sequence[Sample], precision_share: float) -> bool:
    """Return whether a cell needs no further round: its rate's interval is within the precision.

    Fewer than three rounds never settle a cell: with two, chance agreement stops so often that the
    intervals at the stop under-cover (docs/method.md has the figures).
    """
    complete = [sample for sample in samples if sample.status == "complete"]
    if len(complete) < ROUNDS_MIN_SETTLED:
        return False
    share = rate_estimate(complete).half_width_share
    return share is not None and share <= precision_share


def rounds_needed(estimate: Estimate, precision_share: float) -> int | None:
    """Return how many rounds the requested precision needs if they vary as those measured.

    It is reached with this number in half of the cases or more (docs/method.md): the spread of few
    rounds is mostly too small, and is corrected to its median.

    None when unknown: measured once, or more than 1,000.
    """
    low, high = estimate.low, estimate.high
    if low is None or high is None or estimate.value == 0:
        return None
    if estimate.rounds < 2 or precision_share <= 0:
        return None
    # Over few rounds the interval of the logarithms is wide, and its exponential far wider. An
    # arithmetic one, with a round of 0, is cut off at its lower end.
    half, wanted = high / estimate.value - 1, precision_share
    if low > 0:
        half, wanted = math.log(high / low) / 2, math.asinh(precision_share)
    spread = half * math.sqrt(estimate.rounds) / t_of(estimate.rounds - 1)
    spread *= spread_correction(estimate.rounds)
    for rounds in range(ROUNDS_MIN_SETTLED, 1001):
        if t_of(rounds - 1) * spread / math.sqrt(rounds) <= wanted:
            return rounds
    return None
