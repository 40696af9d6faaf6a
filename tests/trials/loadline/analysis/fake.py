"""A device that is a formula: what share of its requests is slow at a rate."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from seatrial.trials.loadline.analysis.decider import next_step
from seatrial.trials.loadline.analysis.model import LatencyTarget
from seatrial.trials.loadline.analysis.rate_verdicts import LimitCounts, RateVerdict, judge_rates
from seatrial.trials.loadline.study import RateStep, SearchEnd

MS_NS = 1_000_000
CLUSTERS = 20


def latency_target_of(percentile="p99", limit_ns=5 * MS_NS, *, sample_s=2.0, budget_s=90.0, seed=1):
    return LatencyTarget(
        percentile=percentile,
        limit_ns=limit_ns,
        sample_s=sample_s,
        budget_s=budget_s,
        seed=seed,
    )


def tally_of(share, requests=20_000, *, means_ns=None, sample_s=2.0, draw=None):
    """A sample in which a share of the requests is slow, in each cluster with luck of its own."""
    each = requests // CLUSTERS
    slow = [charted(share, each, draw) for _ in range(CLUSTERS)]
    return LimitCounts(
        requests=(each,) * CLUSTERS,
        above=tuple(slow),
        mean_ns=tuple(means_ns or [MS_NS] * CLUSTERS),
        schedule_s=sample_s,
        cluster_s=sample_s / CLUSTERS,
    )


def charted(share, count, draw=None):
    """How many of a count are slow; exactly the share of them where nothing is drawn."""
    if draw is None or share in (0.0, 1.0):
        return round(share * count)
    wide = math.sqrt(count * share * (1 - share))
    return min(count, max(0, round(draw.gauss(count * share, wide))))


class Sought:
    """A search on a fake device to its end: what was offered, and what is known then."""

    def __init__(
        self,
        slow_share: Callable[[float, int], float],
        closed_per_s: float,
        latency_target: LatencyTarget,
        *,
        steps_max: int = 100,
        luck: int | None = None,
        rises_at: int = 0,
    ) -> None:
        draw = None if luck is None else random.Random(luck)
        self.offers: list[RateStep] = []
        scheduled: list[tuple[float, LimitCounts]] = []
        overloaded = False
        for _ in range(steps_max):
            verdicts = judge_rates(scheduled, latency_target)
            step = next_step(verdicts, closed_per_s, latency_target, after_overload=overloaded)
            if isinstance(step, SearchEnd):
                self.reason, self.verdicts = step.reason, verdicts
                return
            self.offers.append(step)
            share = slow_share(step.rate_per_s, len(self.offers))
            requests = round(step.rate_per_s * step.sample_s)
            # Within the limit, and on its way to it: as a backlog does, or by accident.
            means_ns = (
                range(MS_NS, 2 * MS_NS, MS_NS // CLUSTERS) if len(self.offers) == rises_at else None
            )
            part = tally_of(share, requests, means_ns=means_ns, sample_s=step.sample_s, draw=draw)
            scheduled.append((step.rate_per_s, part))
            overloaded = part.above_share > latency_target.allowed_share
        raise AssertionError(f"it did not end within {steps_max} steps")

    @property
    def rates_per_s(self) -> list[float]:
        return [offer.rate_per_s for offer in self.offers]

    def sure(self, *, holds: bool) -> list[RateVerdict]:
        return [step for step in self.verdicts if step.holds is holds]
