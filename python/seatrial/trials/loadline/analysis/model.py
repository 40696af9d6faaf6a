"""The load line: latency against offered load, and the highest load within a limit."""

from __future__ import annotations

from typing import Literal

import msgspec

from seatrial.stats.cell_estimates import PERCENTS, entries_needed
from seatrial.stats.estimate import AtLeast, Estimate
from seatrial.stats.model import AnalysedRun
from seatrial.trials.loadline.study import SHARE_OF_BUDGET_MAX, Loadline, parse_latency_ns

Break = Literal["none", "knee", "cliff", "stalls", "service", "undecided"]
"""How the limit is exceeded: by no rate tried, at a knee, at a cliff, because of stalls, by the
service time of a single request at any rate, or undecided: no rate significantly exceeds the limit,
or none significantly meets it."""


class LoadStep(msgspec.Struct, frozen=True, kw_only=True):
    """One offered rate.

    Attributes:
        cell: Key of the cell.
        offered_per_s: Requests per second that the schedule offered.
        completed_per_s: Requests per second that completed.
        response: By percentile name, response time from the intended start, in ns; a percentile
            is absent if it is unknown (too few requests, or too many never completed).
        response_at_least: By percentile name, the lower bound (ns) of a response time that is
            absent because requests were skipped or never completed.
        service: Like ``response``, from the actual start.
        above: Share of the offered requests that took longer than the limit, failed, were skipped
            as too late or never completed (unit ``ratio``), without the start of each sample;
            estimated from all rates together, since it does not decrease with the rate.
        late_share: Share of the offered requests that were skipped as too late or never completed.
        stalls: Stalls over all rounds.
        holds: Whether the percentile significantly meets (True) or exceeds (False) the limit; None
            while its interval includes the limit.
    """

    cell: str
    offered_per_s: float
    completed_per_s: Estimate
    response: dict[str, Estimate]
    service: dict[str, Estimate]
    above: Estimate
    late_share: float
    stalls: int
    holds: bool | None
    response_at_least: dict[str, AtLeast] = {}


class LoadLine(msgspec.Struct, frozen=True, kw_only=True):
    """Latency against load.

    Attributes:
        target: Label of the target.
        workload: Name of the workload.
        percentile: Name of the percentile that is limited, such as ``p99``.
        limit_ns: Its limit.
        cell: Key of the initial closed loop; every step's key begins with it.
        steps: By offered rate, ascending.
        sustained: The sustained rate (``IOPS``): where the percentile crosses the limit, between
            the highest rate that significantly meets it and the lowest that significantly exceeds
            it, which are the ends of the interval. Value and lower end are capped at the completed
            rate while requests queue. ``high`` is None, and ``value`` the lower end, if no rate
            significantly exceeded the limit, or the load generator was the bottleneck; None if no
            rate significantly meets it.
        broken_per_s: The lowest rate that significantly exceeds the limit; None if none does.
        closed_loop: Rate of the initial closed loop, for scale; None if it was not measured.
        breaks: How the limit is exceeded above the sustained rate.
        knee_per_s: Where the percentile begins to rise; None if it does not, or if undecided.
        generator: Why the load generator, not the target, was the bottleneck; empty if it was not.
        sentence: The answer in one sentence.
        cause: How the limit is exceeded, in words, with figures.
    """

    target: str
    workload: str
    percentile: str
    limit_ns: int
    cell: str
    steps: list[LoadStep]
    sustained: Estimate | None
    closed_loop: Estimate | None
    breaks: Break
    broken_per_s: float | None = None
    knee_per_s: float | None = None
    generator: str = ""
    sentence: str
    cause: str


def load_lines_of(analysed: AnalysedRun) -> list[LoadLine]:
    """Return the load lines of a run."""
    found: list[LoadLine] = analysed.analyses.get("loadline", [])
    return found


REQUESTS_SPARE_FACTOR = 1.3
"""Samples are longer than the percentile needs by this factor, since arrivals are random."""
LIMITS_IN_A_SAMPLE = 20
"""A backlog needs time to grow to the limit: an overload of 5 % takes 20 times the limit."""


class LatencyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The latency target of one load line.

    Attributes:
        percentile: Name of the limited percentile, such as ``p99``.
        limit_ns: Its limit.
        sample_s: Minimum duration of a sample.
        budget_s: Maximum duration of the load line.
        seed: Seed of the order of repeated rates.
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
        """Requests that a sample needs for the percentile."""
        return entries_needed(PERCENTS[self.percentile])

    @property
    def sample_s_max(self) -> float:
        """The longest sample: a sixth of the budget, since the limit takes many samples."""
        return max(self.sample_s, self.budget_s * SHARE_OF_BUDGET_MAX)

    @property
    def floor_per_s(self) -> float:
        """The lowest rate at which the longest sample has enough requests."""
        return self.requests_needed * REQUESTS_SPARE_FACTOR / self.sample_s_max

    def sample_s_at(self, rate_per_s: float) -> float:
        """Return the duration of a sample at a rate."""
        for_requests_s = self.requests_needed * REQUESTS_SPARE_FACTOR / rate_per_s
        for_backlog_s = LIMITS_IN_A_SAMPLE * self.limit_ns / 1e9
        wanted_s = max(self.sample_s, for_requests_s, for_backlog_s)
        return round(min(wanted_s, self.sample_s_max), 2)


def latency_target_of(workload: Loadline, seed: int) -> LatencyTarget:
    """Return the latency target of a workload.

    Args:
        workload: Workload of a validated study.
        seed: Seed of the study.
    """
    return LatencyTarget(
        percentile=workload.percentile,
        limit_ns=parse_latency_ns(workload.limit),
        sample_s=workload.duration_s,
        budget_s=workload.budget_s,
        seed=seed,
    )
