"""The latency target of a load line: which share may be slow, how long a sample must last."""

from __future__ import annotations

import msgspec

from seatrial.stats.estimates import PERCENTS, entries_needed
from seatrial.trials.loadline.study import Loadline, parse_latency_ns

REQUESTS_SPARE_FACTOR = 1.3
"""A sample is so much longer than the percentile needs, for arrivals come at random."""
LIMITS_IN_A_SAMPLE = 20
"""A backlog must have the time to grow to the limit: 5 % too much does so in 20 limits."""
SHARE_OF_BUDGET_MAX = 1 / 6


class LatencyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The latency target of one load line.

    Attributes:
        percentile: Name of the limited percentile, such as ``p99``.
        limit_ns: Its limit.
        sample_s: Shortest sample.
        budget_s: What the whole load line may take.
        seed: Of the order in which rates are measured again.
    """

    percentile: str
    limit_ns: int
    sample_s: float
    budget_s: float
    seed: int

    @property
    def allowed_share(self) -> float:
        """Share of the requests that may be slower than the limit, such as 0.01 for p99."""
        return 1 - PERCENTS[self.percentile] / 100

    @property
    def requests_needed(self) -> int:
        """How many requests a sample needs so that the percentile is known."""
        return entries_needed(PERCENTS[self.percentile])

    @property
    def sample_s_max(self) -> float:
        """The longest sample: a sixth of the budget, for the boundary takes many."""
        return max(self.sample_s, self.budget_s * SHARE_OF_BUDGET_MAX)

    @property
    def floor_per_s(self) -> float:
        """The lowest rate at which the longest sample has the requests that are needed."""
        return self.requests_needed * REQUESTS_SPARE_FACTOR / self.sample_s_max

    def sample_s_at(self, rate_per_s: float) -> float:
        """Return how long a sample at a rate lasts."""
        for_requests_s = self.requests_needed * REQUESTS_SPARE_FACTOR / rate_per_s
        for_backlog_s = LIMITS_IN_A_SAMPLE * self.limit_ns / 1e9
        wanted_s = max(self.sample_s, for_requests_s, for_backlog_s)
        return round(min(wanted_s, self.sample_s_max), 2)


def latency_target_of(workload: Loadline, seed: int) -> LatencyTarget:
    """Return the latency target of a workload.

    Args:
        workload: Of a study that was checked.
        seed: The study's.
    """
    return LatencyTarget(
        percentile=workload.percentile,
        limit_ns=parse_latency_ns(workload.limit),
        sample_s=workload.duration_s,
        budget_s=workload.budget_s,
        seed=seed,
    )
