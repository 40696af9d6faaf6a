"""What is known of each offered rate, from its rounds and from those of the other rates.

A search looks at its samples after each of them and seeks where the share is near what is allowed:
intervals made for one look at one rate, 95 % each, would be wrong far more often than that. Here
evidence against a share is a likelihood ratio, averaged over what the share may be instead. Of such
evidence much is rare however often one looks, and wherever one measures next because of it (Ramdas,
Grünwald, Vovk and Shafer, 2023, "Game-theoretic statistics and safe anytime-valid inference",
Statistical Science 38). Rates share it: what a higher rate keeps within, a lower one does.

Slow requests come in bunches, so that they count as many as there were bunches.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from seatrial._core import Histogram
from seatrial.results.model import Sample
from seatrial.stats.estimate import Estimate
from seatrial.trials.loadline.analysis.model import LatencyTarget

if TYPE_CHECKING:
    import numpy as np


CLUSTERS_WANTED = 20
WARM_UP_SHARE = 0.1
"""Of a sample, at its beginning: what a queue takes to fill as it is at other times."""


class LimitCounts(msgspec.Struct, frozen=True, kw_only=True):
    """One sample against a limit, in clusters of neighbouring slices of its timeline.

    Its beginning is not counted: a sample begins with an empty queue, which is too good.

    Attributes:
        requests: Requests that ended in each cluster; those that never did, in the last.
        above: How many of them took longer than the limit, failed, or never ended.
        mean_ns: Mean response time of those that ended in each cluster; NaN where none did.
        schedule_s: How long requests came, of what is counted.
        cluster_s: Length of a cluster.
        begins_s: Where the first cluster begins, from the sample's start.
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
        """Share of the requests that broke the limit; 1 where there was none at all."""
        return self.above_total / self.requests_total if self.requests_total else 1.0


def scheduled_s(sample: Sample) -> float:
    """Return for how many seconds requests came, less than planned if a limit of bytes ended it."""
    return min(sample.cell.parsed.duration_s, sample.duration_s)


def count_against_limit(sample: Sample, limit_ns: int) -> LimitCounts:
    """Return the counts of a sample.

    Neighbouring slices are put together until about twenty clusters are left, so that what one
    queue does to the next request mostly stays within a cluster.
    """
    slice_ns = sample.timeline.slice_ns
    schedule_s = scheduled_s(sample)
    skipped = math.floor(schedule_s * WARM_UP_SHARE * 1e9 / slice_ns + 1e-9)
    slices = max(1, math.ceil(sample.duration_s * 1e9 / slice_ns) - skipped)
    together = max(1, slices // CLUSTERS_WANTED)
    merged: dict[int, Histogram] = defaultdict(lambda: Histogram.of([]))
    for part in sample.timeline.slices:
        if part.index >= skipped:
            place = (part.index - skipped) // together
            merged[place] = merged[place].merged(Histogram.decode(part.response))
    count = max(math.ceil(slices / together), 1 + max(merged, default=0))
    parts = [merged[place] for place in range(count)]
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
        cluster_s=together * slice_ns / 1e9,
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
"""What is sustained holds for a minute, though a sample is shorter."""
CLUSTERS_MIN = 8
RANK_CORRELATION_MIN = 0.7
CHANCE_MAX = 0.001
"""Of few clusters more must follow time: ten reach 0.7 by chance in 1 % of the samples."""


def grows(limit_counts: Sequence[LimitCounts], limit_ns: int) -> bool:
    """Return whether the mean response time rises in most rounds so as to break the limit.

    A queue near its capacity wavers; a backlog rises throughout. So the ranks of the means must
    follow time (Spearman at least 0.7, and by chance in at most 0.1 % of cases), and the line
    fitted through them must reach the limit within a minute.
    """
    return sum(_grows(part, limit_ns) for part in limit_counts) * 2 > len(limit_counts)


@lru_cache(maxsize=512)  # a search looks at each sample after each
def _grows(part: LimitCounts, limit_ns: int) -> bool:
    import numpy as np  # noqa: PLC0415 - only an analysis pays for numpy and scipy
    from scipy.stats import spearmanr  # noqa: PLC0415

    # What ends after the schedule did is the backlog's end, not its growth.
    clusters = min(math.floor(part.schedule_s / part.cluster_s + 1e-9), len(part.mean_ns))
    means_ns = np.array(part.mean_ns[:clusters])
    times_s = (np.arange(clusters) + 0.5) * part.cluster_s
    known = np.isfinite(means_ns)
    means_ns, times_s = means_ns[known], times_s[known]
    if len(means_ns) < CLUSTERS_MIN or np.ptp(means_ns) == 0:
        return False
    followed = spearmanr(times_s, means_ns, alternative="greater")
    if followed.statistic < RANK_CORRELATION_MIN or followed.pvalue > CHANCE_MAX:
        return False
    slope, start_ns = np.polyfit(times_s, means_ns, 1)
    return bool(start_ns + slope * SUSTAINED_S > limit_ns)


ENOUGH = math.log(5)
"""How much evidence decides: chosen on some simulated devices, and counted on others."""
ALTERNATIVES = 32
HALVINGS = 24
SHARE_MIN = 1e-6
RARE_S = 4.0
"""As long as nothing else is seen, all that is allowed to be slow may come at once every 4 s,"""
BUNCH_S_MAX = 0.04
"""but not for longer than this,"""
BUNCH_LIMITS = 0.5
"""nor for less than half a limit, for a queue that reached it takes time to drain."""
NEAR_FACTOR = 3.0
"""Bunches are measured where the share is at most so many times what is allowed."""
BUNCHES_ENOUGH = 10
"""Where so many were seen, they are known;"""
KNOWN_FACTOR = 4.0
"""those that were not seen are then taken to be so much shorter."""
PARTS = (1, 2, 4, 8, 20)
"""Of a sample, in which its slow requests are counted to learn how they vary."""


def above_shares(
    rates_per_s: Sequence[float],
    limit_counts: Sequence[Sequence[LimitCounts]],
    latency_target: LatencyTarget,
) -> list[Estimate]:
    """Return the share of the requests that broke the limit (unit ``ratio``) at each rate.

    The value rises with the rate: where a higher rate has a lower share, both have their mean.
    Where rates contradict each other for sure, the interval holds what each of them says.

    Args:
        rates_per_s: Rising.
        limit_counts: Of each rate, one a round, at least one.
        latency_target: What must hold.
    """
    import numpy as np  # noqa: PLC0415 - only an analysis pays for numpy

    if not rates_per_s:
        return []
    requests = np.array(
        [sum(part.requests_total for part in own) for own in limit_counts], dtype=float
    )
    above = np.array([sum(part.above_total for part in own) for own in limit_counts], dtype=float)
    fitted = _rising(above, requests)
    bunches = _bunches(np.array(rates_per_s, dtype=float), fitted, limit_counts, latency_target)
    offered, slow = requests / bunches, above / bunches
    highs = _ends(_sums(offered), _sums(slow), is_high=True)
    lows = _ends(_sums(offered[::-1]), _sums(slow[::-1]), is_high=False)[::-1]
    highs = np.minimum.accumulate(highs[::-1])[::-1]
    lows = np.maximum.accumulate(lows)
    lows, highs = np.minimum(lows, highs), np.maximum(lows, highs)
    values = np.clip(fitted, lows, highs)
    ends = zip(values.tolist(), lows.tolist(), highs.tolist(), limit_counts, strict=True)
    return [
        Estimate(value=value, low=low, high=high, rounds=len(own), unit="ratio")
        for value, low, high, own in ends
    ]


def _rising(above: np.ndarray, requests: np.ndarray) -> np.ndarray:
    """Return the shares that fit best among those that never fall; 1 where nothing was offered."""
    import numpy as np  # noqa: PLC0415
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
    """Return for each rate how many slow requests come together, at least 1.

    Measured over the rates at which enough of them came, from the lowest share on, for bunches
    grow with it, as its root in a queue; beyond, all of a sample are one bunch.
    """
    import numpy as np  # noqa: PLC0415

    near_share = min(0.5, NEAR_FACTOR * latency_target.allowed_share)
    near = np.flatnonzero((fitted > 0) & (fitted <= near_share))
    seen, above_total, is_known = 1.0, 0, False
    for last in near.tolist():
        grown = max(1.0, fitted[last] / latency_target.allowed_share)
        varies_by = _varies_by(fitted[: last + 1], limit_counts[: last + 1])
        seen = max(seen, varies_by / math.sqrt(grown))
        above_total += sum(part.above_total for part in limit_counts[last])
        is_known = above_total >= BUNCHES_ENOUGH * seen
        if is_known:
            break
    bunch_s = min(BUNCH_S_MAX, latency_target.allowed_share * RARE_S)
    bunch_s = max(bunch_s, BUNCH_LIMITS * latency_target.limit_ns / 1e9) / (
        KNOWN_FACTOR if is_known else 1
    )
    alone = [  # a freeze, or a queue that never emptied
        1.0 if place in near else sum(part.above_total for part in own) / len(own)
        for place, own in enumerate(limit_counts)
    ]
    return np.maximum(np.maximum(seen, alone), rates * bunch_s)


def _varies_by(fitted: np.ndarray, limit_counts: Sequence[Sequence[LimitCounts]]) -> float:
    """Return by what the number of slow requests varies more than that of independent ones.

    Variance over mean, in stretches of all lengths from a cluster to a sample; the most counts.
    """
    import numpy as np  # noqa: PLC0415

    squares: dict[int, float] = dict.fromkeys(PARTS, 0.0)
    counts: Counter[int] = Counter()
    expected = 0.0
    for share, rounds in zip(fitted.tolist(), limit_counts, strict=True):
        for part in rounds:
            expected += share * part.requests_total
            off = np.array(part.above) - share * np.array(part.requests)
            for parts in PARTS:
                together = math.ceil(len(off) / parts)
                sums = np.add.reduceat(off, np.arange(0, len(off), together))
                squares[parts] += float(np.sum(sums**2))
                counts[parts] += len(sums)
    if expected == 0:
        return 1.0
    levels = len(set(fitted.tolist()))
    return max(
        squares[parts] / expected * counts[parts] / max(1, counts[parts] - levels)
        for parts in PARTS
    )


def _sums(each: np.ndarray) -> np.ndarray:
    """Return the sums from each rate up to each rate from there on: [from, to]; else 0."""
    import numpy as np  # noqa: PLC0415

    return np.array(np.cumsum(np.triu(np.tile(each, (len(each), 1))), axis=1))


def _ends(offered: np.ndarray, slow: np.ndarray, *, is_high: bool) -> np.ndarray:
    """Return the share from which on, or down to which, evidence enough speaks against all."""
    import numpy as np  # noqa: PLC0415

    other, reported = (SHARE_MIN, 1.0) if is_high else (1.0, SHARE_MIN)
    near, far = np.full(len(offered), math.log(other)), np.full(len(offered), math.log(reported))
    is_reported = _evidence(offered, slow, np.exp(far), is_high=is_high) >= ENOUGH
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        is_enough = _evidence(offered, slow, np.exp(middle), is_high=is_high) >= ENOUGH
        near, far = np.where(is_enough, near, middle), np.where(is_enough, middle, far)
    return np.where(is_reported, np.exp(far), 1.0 if is_high else 0.0)


def _evidence(
    offered: np.ndarray, slow: np.ndarray, share: np.ndarray, *, is_high: bool
) -> np.ndarray:
    """Return the logarithm of the evidence that the share of each rate is below, or above, one.

    Of Poisson numbers, which vary more than those of yes and no. Averaged evenly over the parts of
    the share that may be, or of which it may be a part; the most of all rates it is pooled with.
    """
    import numpy as np  # noqa: PLC0415

    ratios = (np.arange(ALTERNATIVES) + 0.5) / ALTERNATIVES
    ratios = ratios if is_high else 1 / ratios
    expected = offered * share[:, np.newaxis]
    each_log = slow[..., np.newaxis] * np.log(ratios) - expected[..., np.newaxis] * (ratios - 1)
    # The largest term is taken out, so that no power overflows; scipy's logsumexp takes four times
    # as long for arrays as small as these.
    largest_log = each_log.max(axis=2)
    sums = np.exp(each_log - largest_log[..., np.newaxis]).sum(axis=2)
    return np.asarray(np.max(largest_log + np.log(sums), axis=1)) - math.log(ALTERNATIVES)


GROWING_ROUNDS_MIN = 2


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """One offered rate, judged.

    Attributes:
        rate_per_s: The rate.
        rounds: How often it was measured.
        above: Share of the requests that broke the limit, as all rates together tell it.
        grows: Whether a backlog grows.
        holds: Whether the percentile is within the limit with confidence; None while the
            interval of the share reaches across what is allowed, and where a backlog grew in the
            only round: what a busy machine adds rises now and then, too.
        leans: Whether it looks so, by most of its rounds.
    """

    rate_per_s: float
    rounds: int
    above: Estimate
    grows: bool
    holds: bool | None
    leans: bool


def judge_all(
    limit_counts: Iterable[tuple[float, LimitCounts]], latency_target: LatencyTarget
) -> list[Judged]:
    """Return what is known of each rate, rising.

    Args:
        limit_counts: Of every sample under a schedule: its rate, and its counts.
        latency_target: What must hold.
    """
    by_rate: dict[float, list[LimitCounts]] = defaultdict(list)
    for rate_per_s, part in limit_counts:
        by_rate[rate_per_s].append(part)
    rates_per_s = sorted(by_rate)
    shares = above_shares(rates_per_s, [by_rate[rate] for rate in rates_per_s], latency_target)
    return [
        _judged(rate_per_s, by_rate[rate_per_s], above, latency_target)
        for rate_per_s, above in zip(rates_per_s, shares, strict=True)
    ]


def _judged(
    rate_per_s: float,
    limit_counts: Sequence[LimitCounts],
    above: Estimate,
    latency_target: LatencyTarget,
) -> Judged:
    is_growing = grows(limit_counts, latency_target.limit_ns)
    return Judged(
        rate_per_s=rate_per_s,
        rounds=len(limit_counts),
        above=above,
        grows=is_growing,
        holds=_holds(above, is_growing, limit_counts, latency_target),
        leans=not is_growing and _leans(above, limit_counts, latency_target),
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


def _leans(
    above: Estimate, limit_counts: Sequence[LimitCounts], latency_target: LatencyTarget
) -> bool:
    """Return what most rounds say, so that one freeze does not end the search; of a tie the sum."""
    within = sum(part.above_share <= latency_target.allowed_share for part in limit_counts)
    if within * 2 == len(limit_counts):
        return above.value <= latency_target.allowed_share
    return within * 2 > len(limit_counts)
