"""The interval of a share whose requests resemble their neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from seatrial.analysis.estimate import Estimate
from seatrial.analysis.estimates import t_quantile
from seatrial.analysis.loadline.tally import Tally

TAIL_SHARE = 0.025  # of a 95 % interval, at each end
NORMAL_QUANTILE = 1.959964
ROUNDS_AS_CLUSTERS_MIN = 3

Cluster = tuple[int, int]
"""Requests, and how many of them broke the limit."""


def above_share(tallies: Sequence[Tally]) -> Estimate:
    """Return the share of the requests that broke the limit (unit ``ratio``), over all rounds.

    Requests behind each other in a queue are slow together, so that they know less than as many
    independent ones. Clusters of neighbours pay for that: the slices of the timelines, and from
    three rounds on the rounds, too; the wider of the two intervals counts. One round has an
    interval, from its timeline.

    Args:
        tallies: One a round, at least one.
    """
    slices = [
        cluster for part in tallies for cluster in zip(part.requests, part.above, strict=True)
    ]
    low, high = clustered_interval_share(slices)
    if len(tallies) >= ROUNDS_AS_CLUSTERS_MIN:
        rounds = [(part.requests_total, sum(part.above)) for part in tallies]
        rounds_low, rounds_high = clustered_interval_share(rounds)
        low, high = min(low, rounds_low), max(high, rounds_high)
    requests, above = _totals(slices)
    return Estimate(
        value=above / requests if requests else 1.0,
        low=low,
        high=high,
        rounds=len(tallies),
        unit="ratio",
    )


def clustered_interval_share(clusters: Sequence[Cluster]) -> tuple[float, float]:
    """Return the 95 % interval of a share that was counted in clusters.

    Korn and Graubard, 1998, "Confidence intervals for proportions with small expected number of
    positive counts estimated from survey data", Survey Methodology 24: the exact interval of
    Clopper and Pearson for as many requests as the clustered ones are worth. So no single slow
    request among few still leaves room for many, which a bootstrap of zeros would deny.
    """
    requests, above = _totals(clusters)
    if requests == 0:
        return 0.0, 1.0
    worth = requests / _design_effect(clusters)
    if len(clusters) > 1:
        worth *= (NORMAL_QUANTILE / t_quantile(len(clusters))) ** 2
    return _exact_interval_share(above / requests, min(worth, requests))


def _totals(clusters: Sequence[Cluster]) -> Cluster:
    return sum(part[0] for part in clusters), sum(part[1] for part in clusters)


def _design_effect(clusters: Sequence[Cluster]) -> float:
    """Return by what the variance is larger than that of independent requests, at least 1."""
    requests, above = _totals(clusters)
    share = above / requests
    independent = share * (1 - share) / requests
    if independent == 0 or len(clusters) < 2:
        return 1.0
    squares = sum((slow - share * count) ** 2 for count, slow in clusters)
    clustered = squares * len(clusters) / (len(clusters) - 1) / requests**2
    return max(1.0, clustered / independent)


def _exact_interval_share(share: float, worth: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson; ``worth`` need not be whole."""
    from scipy.special import betaincinv  # noqa: PLC0415 - only an analysis pays for scipy

    above = share * worth
    below = worth - above
    low = float(betaincinv(above, below + 1, TAIL_SHARE)) if above > 0 else 0.0
    high = float(betaincinv(above + 1, below, 1 - TAIL_SHARE)) if below > 0 else 1.0
    return (0.0 if math.isnan(low) else low), (1.0 if math.isnan(high) else high)
