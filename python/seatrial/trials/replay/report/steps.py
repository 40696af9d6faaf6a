"""A replay's timeline in steps that a chart and a table can show, next to the capture's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from seatrial.results.replay import ReplayMoment, ReplayRecord
from seatrial.trials.replay.analysis.samples import has_clock

STEPS_MAX: Final = 120


class Step(NamedTuple):
    """A stretch of time, in s and ns.

    Attributes:
        start_s: Where it begins.
        end_s: Where it ends; the last one may be shorter than the others.
        answered_per_s: Statements answered.
        failed_per_s: Of these, by an error.
        captured_per_s: Statements of the capture that fall into it.
        lag_ns_mean: Of what was sent in it; None where nothing was due.
        lag_ns_max: The longest.
        response_ns_mean: Of what was answered in it; None where nothing was.
        sessions: Connected at its end.
    """

    start_s: float
    end_s: float
    answered_per_s: float
    failed_per_s: float
    captured_per_s: float
    lag_ns_mean: float | None
    lag_ns_max: float | None
    response_ns_mean: float | None
    sessions: int

    @property
    def middle_s(self) -> float:
        """Where its value is drawn."""
        return (self.start_s + self.end_s) / 2


def step_length_s(record: ReplayRecord) -> float:
    """Return the length of a step: a whole number of slices, at most STEPS_MAX steps."""
    return _slices_a_step(record) * record.timeline_slice_s


def _slices_a_step(record: ReplayRecord) -> int:
    return max(1, math.ceil(len(record.timeline) / STEPS_MAX))


def replayed_steps(record: ReplayRecord, duration_s: float) -> list[Step]:
    """Return the replay's own time in steps, up to its end."""
    return _steps(record, duration_s)


def captured_steps(record: ReplayRecord, speed: float | None) -> list[Step]:
    """Return the capture's time in steps: its own at maximum speed, else at the speed asked for.

    None where the capture has no times of its own.
    """
    if not has_clock(record):
        return []
    lasts_s = record.captured_s / speed if speed else record.captured_s
    steps = _steps(record, lasts_s)
    return steps if any(step.captured_per_s for step in steps) else []


def _steps(record: ReplayRecord, lasts_s: float) -> list[Step]:
    size = _slices_a_step(record)
    slice_s = record.timeline_slice_s
    count = min(len(record.timeline), max(1, math.ceil(lasts_s / slice_s - 1e-9)))
    return [
        _step(record.timeline[first : min(first + size, count)], first * slice_s,
              min(min(first + size, count) * slice_s, max(lasts_s, first * slice_s + 1e-3)))
        for first in range(0, count, size)
    ]  # fmt: skip


def _step(moments: Sequence[ReplayMoment], start_s: float, end_s: float) -> Step:
    length_s = end_s - start_s
    lags = [each.lag_ns_mean for each in moments if each.lag_ns_mean is not None]
    longest = [each.lag_ns_max for each in moments if each.lag_ns_max is not None]
    known = [
        (each.response_ns_mean, each.answered)
        for each in moments
        if each.response_ns_mean is not None and each.answered
    ]
    answered = sum(count for _, count in known)
    return Step(
        start_s=start_s,
        end_s=end_s,
        answered_per_s=sum(each.answered for each in moments) / length_s,
        failed_per_s=sum(each.failed for each in moments) / length_s,
        captured_per_s=sum(each.captured for each in moments) / length_s,
        lag_ns_mean=math.fsum(lags) / len(lags) if lags else None,
        lag_ns_max=max(longest, default=None),
        response_ns_mean=math.fsum(mean * n for mean, n in known) / answered if answered else None,
        sessions=moments[-1].sessions,
    )
