"""The decisions of one load line, from samples: what the measuring room is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seatrial.results.model import Sample
from seatrial.trials.loadline.analysis.decide import next_step
from seatrial.trials.loadline.analysis.judged import judge_all
from seatrial.trials.loadline.analysis.latency_target import latency_target_of
from seatrial.trials.loadline.analysis.limit_counts import LimitCounts, count_against_limit
from seatrial.trials.loadline.analysis.measured import closed_loop, offered_per_s
from seatrial.trials.loadline.study import Loadline, NextStep

Decide = Callable[[Sequence[Sample]], NextStep]
"""Tells from the samples of one load line, in the order of measurement, what comes next."""


def decider(workload: Loadline, seed: int) -> Decide:
    """Return the decisions of one load line.

    Args:
        workload: What is sought.
        seed: The study's.
    """
    latency_target = latency_target_of(workload, seed)
    limit_counts: dict[tuple[str, int], LimitCounts] = {}

    def decide(samples: Sequence[Sample]) -> NextStep:
        scheduled = []
        for sample in samples:
            rate_per_s = offered_per_s(sample)
            if rate_per_s is not None:
                place = (sample.cell.key, sample.round)
                if (
                    place not in limit_counts
                ):  # each is read once, though it is asked for every time
                    limit_counts[place] = count_against_limit(sample, latency_target.limit_ns)
                scheduled.append((rate_per_s, limit_counts[place]))
        closed = closed_loop(samples)
        last = scheduled[-1][1].above_share if scheduled else 0.0
        return next_step(
            judge_all(scheduled, latency_target),
            closed.value if closed else 0.0,
            latency_target,
            after_overload=last > latency_target.allowed_share,
        )

    return decide
