"""Verdicts on offered rates, each from its own rounds and those of the other rates.

A search looks at its samples after each of them and measures where the share is near the allowed
one: 95 % intervals for a single look at one rate would be wrong far more often. Here the evidence
against a share is a likelihood ratio, averaged over the alternatives. Strong evidence of this kind
is rare however often one looks, and whatever one measures next because of it (Ramdas,
Grünwald, Vovk and Shafer, 2023, "Game-theoretic statistics and safe anytime-valid inference",
Statistical Science 38). Rates share evidence: a lower rate meets the limit if a higher one
does.

Slow requests come in bunches, so the number of bunches counts.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from seatrial._core import Histogram
from seatrial.lazy import np
from seatrial.results.model import Sample
from seatrial.stats.estimate import Estimate
from seatrial.trials.loadline.analysis.model import LatencyTarget

CLUSTERS_WANTED = 20
WARM_UP_SHARE = 0.1
"""Share of a sample that is not counted, until the queue is in its steady state."""


class LimitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One sample against a limit, in clusters of neighbouring slices of its timeline.

    Its beginning is not counted, as a sample begins with an empty queue.

    Attributes:
        requests: Requests that ended in each cluster; those without an end are in the last.
        above: Those that took longer than the limit, failed, or never ended.
        mean_ns: Mean response time by cluster; NaN if none ended.
        schedule_s: Counted part of the schedule.
        cluster_s: Length of a cluster.
        begins_s: Start of the first cluster, from the sample's start.
    """

    requests: tuple[int, ...]
    above: tuple[int, ...]
    mean_ns: tuple[float, ...]
    schedule_s: float
    cluster_s: float
    begins_s: float = 0.0

    @property
    def requests_total(self) -> int:
        """All requests of the sample."""
        return sum(self.requests)

    @property
    def above_total(self) -> int:
        """Those that broke the limit."""
        return sum(self.above)

    @property
    def above_share(self) -> float:
        """Share of the requests that broke the limit; 1 without any request."""
        return self.above_total / self.requests_total if self.requests_total else 1.0


def scheduled_s(sample: Sample) -> float:
    """Return the duration of the schedule (s), which a limit of bytes may have shortened."""
    return min(sample.cell.parsed.duration_s, sample.duration_s)


def count_against_limit(sample: Sample, limit_ns: int) -> LimitCounts:
    """Return the counts of a sample, without its syncs.

    Neighbouring slices are merged into about twenty clusters, so that correlation between requests
    mostly stays within a cluster.
    """
    slice_ns = sample.timeline.slice_ns
    schedule_s = scheduled_s(sample)
    skipped = math.floor(schedule_s * WARM_UP_SHARE * 1e9 / slice_ns + 1e-9)
    slices = max(1, math.ceil(sample.duration_s * 1e9 / slice_ns) - skipped)
    per_cluster = max(1, slices // CLUSTERS_WANTED)
    merged: dict[int, Histogram] = defaultdict(lambda: Histogram.of([]))
    for part in sample.timeline.slices:
        if part.index >= skipped and part.operation != sample.unrated_kind:
            cluster = (part.index - skipped) // per_cluster
            merged[cluster] = merged[cluster].merged(Histogram.decode(part.response))
    count = max(math.ceil(slices / per_cluster), 1 + max(merged, default=0))
    parts = [merged[cluster] for cluster in range(count)]
    requests = [part.count for part in parts]
    above = [above_limit(part, limit_ns) for part in parts]
    outcome = sample.outcome
    unanswered = outcome.failed + outcome.late_skipped + outcome.in_flight_at_end
    requests[-1] += unanswered
    above[-1] += unanswered
    return LimitCounts(
        requests=tuple(requests),
        above=tuple(above),
        mean_ns=tuple(part.mean_ns if part.count else math.nan for part in parts),
        schedule_s=schedule_s - skipped * slice_ns / 1e9,
        cluster_s=per_cluster * slice_ns / 1e9,
        begins_s=skipped * slice_ns / 1e9,
    )


def above_limit(times: Histogram, limit_ns: int) -> int:
    """Return how many entries are above a limit.

    A bucket counts by its middle, as percentiles are read.
    """
    lows_ns, highs_ns, counts = times.buckets()
    return sum(
        count
        for low_ns, high_ns, count in zip(lows_ns, highs_ns, counts, strict=True)
        if (low_ns + high_ns) / 2 > limit_ns
    )


SUSTAINED_S = 60.0
"""A sustained rate holds for a minute, even if a sample is shorter."""
CLUSTERS_MIN = 8
RANK_CORRELATION_MIN = 0.7
CHANCE_MAX = 0.001
"""Fewer clusters need a higher correlation: ten reach 0.7 by chance in 1 % of the samples."""


def grows(limit_counts: Sequence[LimitCounts], limit_ns: int) -> bool:
    """Return whether the mean response time rises in most rounds so as to break the limit.

    A queue near its capacity fluctuates; a backlog rises throughout. So the ranks of the means must
    follow time (Spearman at least 0.7, and by chance in at most 0.1 % of cases), and the line
    fitted through them must reach the limit within a minute.
    """
    return sum(_grows(part, limit_ns) for part in limit_counts) * 2 > len(limit_counts)


@lru_cache(maxsize=512)  # a search reads all samples after each one
def _grows(part: LimitCounts, limit_ns: int) -> bool:
    from scipy.stats import spearmanr  # noqa: PLC0415

    # After the end of the schedule the backlog only shrinks.
    clusters = min(math.floor(part.schedule_s / part.cluster_s + 1e-9), len(part.mean_ns))
    means_ns = np.array(part.mean_ns[:clusters])
    times_s = (np.arange(clusters) + 0.5) * part.cluster_s
    is_known_mean = np.isfinite(means_ns)
    means_ns, times_s = means_ns[is_known_mean], times_s[is_known_mean]
    if len(means_ns) < CLUSTERS_MIN or np.ptp(means_ns) == 0:
        return False
    correlation = spearmanr(times_s, means_ns, alternative="greater")
    if correlation.statistic < RANK_CORRELATION_MIN or correlation.pvalue > CHANCE_MAX:
        return False
    slope, start_ns = np.polyfit(times_s, means_ns, 1)
    return bool(start_ns + slope * SUSTAINED_S > limit_ns)


EVIDENCE_MIN = math.log(5)
"""Evidence that decides: calibrated on some simulated devices, and verified on others."""
ALTERNATIVES = 32
HALVINGS = 24
SHARE_MIN = 1e-6
RARE_S = 4.0
"""Without other information, all allowed slow requests may come at once every 4 s,"""
BUNCH_S_MAX = 0.04
"""but not for longer than this,"""
BUNCH_LIMITS = 0.5
"""and for at least half the limit, as a queue that reached it takes time to drain."""
NEAR_FACTOR = 3.0
"""Bunches are measured at rates whose share is at most this multiple of the allowed one."""
BUNCHES_ENOUGH = 10
"""After this many, their size counts as known;"""
KNOWN_FACTOR = 4.0
"""others are then assumed to be shorter by this factor."""
PARTS = (1, 2, 4, 8, 20)
"""Numbers of parts of a sample, for the dispersion of its slow requests."""


def above_shares(
    rates_per_s: Sequence[float],
    limit_counts: Sequence[Sequence[LimitCounts]],
    latency_target: LatencyTarget,
) -> list[Estimate]:
    """Return the share of the requests that broke the limit (unit ``ratio``) at each rate.

    The value rises with the rate: if a higher rate has a lower share, both get their mean. If
    rates contradict each other significantly, the interval includes the result of each.

    Args:
        rates_per_s: Rates, ascending.
        limit_counts: Counts of each rate by round, at least one.
        latency_target: The percentile and its limit.
    """
    if not rates_per_s:
        return []
    requests = np.array(
        [sum(part.requests_total for part in own) for own in limit_counts], dtype=float
    )
    above = np.array([sum(part.above_total for part in own) for own in limit_counts], dtype=float)
    fitted = _isotonic(above, requests)
    bunches = _bunches(np.array(rates_per_s, dtype=float), fitted, limit_counts, latency_target)
    offered, slow = requests / bunches, above / bunches
    highs = _interval_ends(_range_sums(offered), _range_sums(slow), is_high=True)
    lows = _interval_ends(_range_sums(offered[::-1]), _range_sums(slow[::-1]), is_high=False)[::-1]
    highs = np.minimum.accumulate(highs[::-1])[::-1]
    lows = np.maximum.accumulate(lows)
    lows, highs = np.minimum(lows, highs), np.maximum(lows, highs)
    values = np.clip(fitted, lows, highs)
    ends = zip(values.tolist(), lows.tolist(), highs.tolist(), limit_counts, strict=True)
    return [
        Estimate(value=value, low=low, high=high, rounds=len(own), unit="ratio")
        for value, low, high, own in ends
    ]


def _isotonic(above: np.ndarray, requests: np.ndarray) -> np.ndarray:
    """Return the isotonic regression of the shares; 1 if nothing was offered."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    weights = np.maximum(requests, 1)
    shares = np.where(requests > 0, above / weights, 1.0)
    return np.asarray(isotonic_regression(shares, weights=weights).x)


def _bunches(
    rates: np.ndarray,
    fitted: np.ndarray,
    limit_counts: Sequence[Sequence[LimitCounts]],
    latency_target: LatencyTarget,
) -> np.ndarray:
    """Return the size of bunches of slow requests at each rate, at least 1.

    It is measured from the lowest share on until there were enough of them, as bunches grow with
    the share, with its root in a queue. At higher shares all of a sample are one bunch.
    """
    near_share = min(0.5, NEAR_FACTOR * latency_target.allowed_share)
    near = np.flatnonzero((fitted > 0) & (fitted <= near_share))
    bunch_size, above_total, is_known = 1.0, 0, False
    for last in near.tolist():
        grown = max(1.0, fitted[last] / latency_target.allowed_share)
        dispersion = _index_of_dispersion(fitted[: last + 1], limit_counts[: last + 1])
        bunch_size = max(bunch_size, dispersion / math.sqrt(grown))
        above_total += sum(part.above_total for part in limit_counts[last])
        is_known = above_total >= BUNCHES_ENOUGH * bunch_size
        if is_known:
            break
    bunch_s = min(BUNCH_S_MAX, latency_target.allowed_share * RARE_S)
    bunch_s = max(bunch_s, BUNCH_LIMITS * latency_target.limit_ns / 1e9) / (
        KNOWN_FACTOR if is_known else 1
    )
    single_bunch = [  # a freeze, or a queue that never emptied
        1.0 if cluster in near else sum(part.above_total for part in own) / len(own)
        for cluster, own in enumerate(limit_counts)
    ]
    return np.maximum(np.maximum(bunch_size, single_bunch), rates * bunch_s)


def _index_of_dispersion(
    fitted: np.ndarray, limit_counts: Sequence[Sequence[LimitCounts]]
) -> float:
    """Return the index of dispersion of slow requests: variance over mean.

    It is the highest over parts of all lengths from a cluster to a sample.
    """
    squares: dict[int, float] = dict.fromkeys(PARTS, 0.0)
    counts: Counter[int] = Counter()
    expected = 0.0
    for share, rounds in zip(fitted.tolist(), limit_counts, strict=True):
        for part in rounds:
            expected += share * part.requests_total
            deviations = np.array(part.above) - share * np.array(part.requests)
            for parts in PARTS:
                per_cluster = math.ceil(len(deviations) / parts)
                sums = np.add.reduceat(deviations, np.arange(0, len(deviations), per_cluster))
                squares[parts] += float(np.sum(sums**2))
                counts[parts] += len(sums)
    if expected == 0:
        return 1.0
    levels = len(set(fitted.tolist()))
    return max(
        squares[parts] / expected * counts[parts] / max(1, counts[parts] - levels)
        for parts in PARTS
    )


def _range_sums(log_ratios: np.ndarray) -> np.ndarray:
    """Return the sums over each range of rates: [from, to]; 0 for an empty range."""
    return np.array(np.cumsum(np.triu(np.tile(log_ratios, (len(log_ratios), 1))), axis=1))


def _interval_ends(offered: np.ndarray, slow: np.ndarray, *, is_high: bool) -> np.ndarray:
    """Return the end of the interval: the share beyond which the evidence suffices."""
    other, reported = (SHARE_MIN, 1.0) if is_high else (1.0, SHARE_MIN)
    near, far = np.full(len(offered), math.log(other)), np.full(len(offered), math.log(reported))
    is_reported = _evidence(offered, slow, np.exp(far), is_high=is_high) >= EVIDENCE_MIN
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        is_enough = _evidence(offered, slow, np.exp(middle), is_high=is_high) >= EVIDENCE_MIN
        near, far = np.where(is_enough, near, middle), np.where(is_enough, middle, far)
    return np.where(is_reported, np.exp(far), 1.0 if is_high else 0.0)


def _evidence(
    offered: np.ndarray, slow: np.ndarray, share: np.ndarray, *, is_high: bool
) -> np.ndarray:
    """Return the logarithm of the evidence that the share of each rate is below, or above, one.

    Counts are taken as Poisson, which is wider than binomial. The likelihood ratio is averaged over
    evenly spaced alternatives; the highest of all pools of rates counts.
    """
    ratios = (np.arange(ALTERNATIVES) + 0.5) / ALTERNATIVES
    ratios = ratios if is_high else 1 / ratios
    expected = offered * share[:, np.newaxis]
    evidence_log = slow[..., np.newaxis] * np.log(ratios) - expected[..., np.newaxis] * (ratios - 1)
    # The largest term is taken out, so that no power overflows; scipy's logsumexp takes four times
    # as long for arrays as small as these.
    largest_log = evidence_log.max(axis=2)
    sums = np.exp(evidence_log - largest_log[..., np.newaxis]).sum(axis=2)
    return np.asarray(np.max(largest_log + np.log(sums), axis=1)) - math.log(ALTERNATIVES)


GROWING_ROUNDS_MIN = 2


class RateVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on an offered rate.

    Attributes:
        rate_per_s: The rate.
        rounds: Number of measurements.
        above: Share of the requests that broke the limit, estimated from all rates.
        grows: Whether a backlog grows.
        holds: Whether the percentile significantly meets the limit; None while the interval of
            the share includes the allowed one, and if a backlog grew in the only round, as load
            of the machine may also rise.
        seems_met: Whether most rounds meet it.
    """

    rate_per_s: float
    rounds: int
    above: Estimate
    grows: bool
    holds: bool | None
    seems_met: bool


def bracket(steps: Sequence[RateVerdict]) -> tuple[RateVerdict | None, RateVerdict | None]:
    """Return the rates around the limit: the highest that seems to meet it, the lowest above.

    Either is None if absent.
    """
    broken = next((step for step in steps if not step.seems_met), None)
    holding = [step for step in steps if broken is None or step.rate_per_s < broken.rate_per_s]
    return (holding[-1] if holding else None), broken


def judge_rates(
    limit_counts: Iterable[tuple[float, LimitCounts]], latency_target: LatencyTarget
) -> list[RateVerdict]:
    """Return the verdict on each rate, ascending.

    Args:
        limit_counts: Rate and counts of every scheduled sample.
        latency_target: The percentile and its limit.
    """
    by_rate: dict[float, list[LimitCounts]] = defaultdict(list)
    for rate_per_s, part in limit_counts:
        by_rate[rate_per_s].append(part)
    rates_per_s = sorted(by_rate)
    shares = above_shares(rates_per_s, [by_rate[rate] for rate in rates_per_s], latency_target)
    return [
        _rate_verdict(rate_per_s, by_rate[rate_per_s], above, latency_target)
        for rate_per_s, above in zip(rates_per_s, shares, strict=True)
    ]


def _rate_verdict(
    rate_per_s: float,
    limit_counts: Sequence[LimitCounts],
    above: Estimate,
    latency_target: LatencyTarget,
) -> RateVerdict:
    is_growing = grows(limit_counts, latency_target.limit_ns)
    return RateVerdict(
        rate_per_s=rate_per_s,
        rounds=len(limit_counts),
        above=above,
        grows=is_growing,
        holds=_holds(above, is_growing, limit_counts, latency_target),
        seems_met=not is_growing and _seems_met(above, limit_counts, latency_target),
    )


def _holds(
    above: Estimate,
    is_growing: bool,
    limit_counts: Sequence[LimitCounts],
    latency_target: LatencyTarget,
) -> bool | None:
    if (above.low or 0.0) > latency_target.allowed_share:
        return False
    if is_growing:
        return False if len(limit_counts) >= GROWING_ROUNDS_MIN else None
    return True if above.high is not None and above.high <= latency_target.allowed_share else None


def _seems_met(
    above: Estimate, limit_counts: Sequence[LimitCounts], latency_target: LatencyTarget
) -> bool:
    """Return the majority of the rounds, so that one freeze does not end the search.

    The sum decides a tie.
    """
    within = sum(part.above_share <= latency_target.allowed_share for part in limit_counts)
    if within * 2 == len(limit_counts):
        return above.value <= latency_target.allowed_share
    return within * 2 > len(limit_counts)
