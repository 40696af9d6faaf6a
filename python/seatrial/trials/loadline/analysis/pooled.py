"""What all rates together say of the slow share at each, which does not fall as the rate rises.

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
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial.stats.estimate import Estimate
from seatrial.trials.loadline.analysis.latency_target import LatencyTarget
from seatrial.trials.loadline.analysis.limit_counts import LimitCounts

if TYPE_CHECKING:
    import numpy as np

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

    untold, reported = (SHARE_MIN, 1.0) if is_high else (1.0, SHARE_MIN)
    near, far = np.full(len(offered), math.log(untold)), np.full(len(offered), math.log(reported))
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
    from scipy.special import logsumexp  # noqa: PLC0415

    ratios = (np.arange(ALTERNATIVES) + 0.5) / ALTERNATIVES
    ratios = ratios if is_high else 1 / ratios
    expected = offered * share[:, np.newaxis]
    each = slow[..., np.newaxis] * np.log(ratios) - expected[..., np.newaxis] * (ratios - 1)
    most = np.max(logsumexp(each, axis=2), axis=1)
    return np.asarray(most) - math.log(ALTERNATIVES)
