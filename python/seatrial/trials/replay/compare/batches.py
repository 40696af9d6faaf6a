"""Comparison of a batch, timed before and after: several runs, usually one after the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.ratio import contrast, p_value
from seatrial.trials.replay.compare.captures import once_estimate
from seatrial.trials.replay.compare.false_discovery import LEVEL
from seatrial.trials.replay.compare.floors import usual_floor
from seatrial.trials.replay.compare.model import Basis, Batch
from seatrial.trials.replay.compare.verdict import Criteria

RESOLUTION_S = 0.01
"""POSIX's ``time -p`` prints hundredths of a second."""


class BatchRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a batch.

    Attributes:
        real_s: Elapsed time.
        user_s: Its CPU time in user mode, without the server's; None if unknown.
        failed: Whether it ended with an exit code other than 0.
    """

    real_s: float
    user_s: float | None = None
    failed: bool = False


def compare_batch(
    name: str, before: Sequence[BatchRun], after: Sequence[BatchRun], *, margin_share: float
) -> Batch:
    """Return a batch before and after, each timed at least once.

    Several times of a side are several runs, usually one after the other.

    Args:
        name: The user's name for it.
        before: Its runs before, each above 0 s.
        after: Its runs after.
        margin_share: A smaller difference does not count.
    """
    basis: Basis = "once" if min(len(before), len(after)) < 2 else "in_sequence"
    floor = usual_floor(basis, min(each.real_s for each in (*before, *after)))
    criteria = Criteria(basis=basis, margin_share=margin_share, floor=floor)
    of_after, of_before = _rounds(after), _rounds(before)
    of = contrast(of_after, of_before, paired=False) if basis != "once" else None
    if of is None:
        log_ratio = _log_mean(before) - _log_mean(after)
        conclusion = criteria.from_once(once_estimate(log_ratio, None))
    else:
        p = p_value(of)
        conclusion = criteria.from_rounds(of, p_value=p, p_adjusted=p, alpha=LEVEL)
    return Batch(
        name=name,
        before_s=[each.real_s for each in before],
        after_s=[each.real_s for each in after],
        user_before_s=_user_s(before),
        user_after_s=_user_s(after),
        speed_up=conclusion.speed_up,
        answer=conclusion.answer,
        p_value=conclusion.p_value,
        floor=floor,
        warnings=_warnings(before, after),
    )


def _rounds(times: Sequence[BatchRun]) -> Rounds:
    values = {number: each.real_s for number, each in enumerate(times)}
    shortest_s = min(values.values())
    return Rounds(values=values, unit="s", resolution_share=min(1.0, RESOLUTION_S / 2 / shortest_s))


def _log_mean(times: Sequence[BatchRun]) -> float:
    return statistics.fmean(math.log(time.real_s) for time in times)


def _user_s(times: Sequence[BatchRun]) -> float | None:
    times_s = [time.user_s for time in times if time.user_s is not None]
    return statistics.fmean(times_s) if times_s else None


def _warnings(before: Sequence[BatchRun], after: Sequence[BatchRun]) -> list[str]:
    failed = [sum(each.failed for each in side) for side in (before, after)]
    return [
        f"{count} of {len(side)} runs {when} ended with an error: failing early is fast."
        for count, side, when in zip(failed, (before, after), ("before", "after"), strict=True)
        if count
    ]
