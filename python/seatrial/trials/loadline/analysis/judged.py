"""What is known of each offered rate, from its rounds and from those of the other rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from seatrial.stats.estimate import Estimate
from seatrial.trials.loadline.analysis.growth import grows
from seatrial.trials.loadline.analysis.latency_target import LatencyTarget
from seatrial.trials.loadline.analysis.limit_counts import LimitCounts
from seatrial.trials.loadline.analysis.pooled import above_shares

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
    """Tell what most rounds say, so that one freeze does not end the search; of a tie the sum."""
    within = sum(part.above_share <= latency_target.allowed_share for part in limit_counts)
    if within * 2 == len(limit_counts):
        return above.value <= latency_target.allowed_share
    return within * 2 > len(limit_counts)
