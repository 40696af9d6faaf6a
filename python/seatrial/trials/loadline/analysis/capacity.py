"""What gets done while requests queue: no rate above it is sustained, however a sample looks.

A throttle's credit, a cache or an empty queue carries a short sample over more than can be done.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from seatrial.results.model import Sample
from seatrial.trials.loadline.analysis.latency_target import LatencyTarget
from seatrial.trials.loadline.analysis.measured import offered_per_s

SHORT_SHARE = 0.97
"""What completes less of what was offered had requests queue until its end."""
LIMITS_TO_FILL = 4.0


class Most(NamedTuple):
    """What bounds the rates that are sustained.

    Attributes:
        done_per_s: What completes while requests queue.
        told_per_s: The highest rate that samples can tell to be sustained: a queue fills to the
            limit as slowly as it drains from it, by the share of the capacity that is left. Of a
            rate so near the capacity that this takes half a sample or more, one shows nothing.
    """

    done_per_s: float
    told_per_s: float


def most_known(samples: Sequence[Sample], latency_target: LatencyTarget) -> Most:
    """Return what bounds the rates that are sustained; infinite where nothing tells.

    It is seen in the second half of the closed loop, and of the samples that were offered too
    much: whichever is more, for some targets do less when too much waits.

    Args:
        samples: Of one load line.
        latency_target: What must hold.
    """
    closed, short = [], []
    for sample in samples:
        completed_per_s = _of_second_half_per_s(sample)
        rate_per_s = offered_per_s(sample)
        if completed_per_s is None:
            continue
        if rate_per_s is None:
            closed.append(completed_per_s)
        elif completed_per_s < SHORT_SHARE * rate_per_s:
            short.append(completed_per_s)
    done_per_s = max((statistics.median(each) for each in (closed, short) if each), default=0.0)
    if done_per_s == 0:
        return Most(math.inf, math.inf)
    fills_share = (
        LIMITS_TO_FILL * latency_target.limit_ns / 1e9 / latency_target.sample_s_at(done_per_s)
    )
    return Most(done_per_s, done_per_s * (1 - fills_share))


def _of_second_half_per_s(sample: Sample) -> float | None:
    slice_s = sample.timeline.slice_ns / 1e9
    end = math.floor(float(sample.cell.spec["limit"]["duration_s"]) / slice_s + 1e-9)
    begin = end // 2
    if end - begin < 1 or not sample.timeline.slices:
        return None
    completed = sum(part.completed for part in sample.timeline.slices if begin <= part.index < end)
    return completed / ((end - begin) * slice_s)
