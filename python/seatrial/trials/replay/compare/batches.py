"""Batches, such as a nightly script, by what a shell's ``time`` printed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec

from seatrial.stats.compare.figures import Rounds
from seatrial.stats.compare.ratio import contrast, p_value
from seatrial.trials.replay.compare.captures import once_estimate
from seatrial.trials.replay.compare.fdr import LEVEL
from seatrial.trials.replay.compare.floors import usual
from seatrial.trials.replay.compare.model import Basis, Batch
from seatrial.trials.replay.compare.settled import Judging

RESOLUTION_S = 0.01
"""POSIX's ``time -p`` prints hundredths of a second."""


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a batch ran.

    Attributes:
        real_s: From its start to its end.
        user_s: Its own processor time in user mode, without the server's; None where not told.
        failed: Whether it ended with an exit code other than 0.
    """

    real_s: float
    user_s: float | None = None
    failed: bool = False


def compare_batch(
    name: str, before: Sequence[Timed], after: Sequence[Timed], *, margin_share: float
) -> Batch:
    """Return a batch before and after, each timed at least once.

    Several times of each side are several runs, one after the other as a rule.

    Args:
        name: What the user calls it.
        before: The times it ran before, each above 0 s.
        after: The times it ran after.
        margin_share: A difference of less is no difference.
    """
    basis: Basis = "once" if min(len(before), len(after)) < 2 else "in_sequence"
    floor = usual(basis, min(each.real_s for each in (*before, *after)))
    judging = Judging(basis=basis, margin_share=margin_share, floor=floor)
    of_after, of_before = _rounds(after), _rounds(before)
    of = contrast(of_after, of_before, paired=False) if basis != "once" else None
    if of is None:
        log_ratio = _log_mean(before) - _log_mean(after)
        settled = judging.of_once(once_estimate(log_ratio, None))
    else:
        p = p_value(of)
        settled = judging.of_rounds(of, p_value=p, p_adjusted=p, alpha=LEVEL)
    return Batch(
        name=name,
        before_s=[each.real_s for each in before],
        after_s=[each.real_s for each in after],
        user_before_s=_user_s(before),
        user_after_s=_user_s(after),
        speed_up=settled.speed_up,
        answer=settled.answer,
        p_value=settled.p_value,
        floor=floor,
        warnings=_warnings(before, after),
    )


def _rounds(times: Sequence[Timed]) -> Rounds:
    values = {number: each.real_s for number, each in enumerate(times)}
    shortest_s = min(values.values())
    return Rounds(values=values, unit="s", resolution_share=min(1.0, RESOLUTION_S / 2 / shortest_s))


def _log_mean(times: Sequence[Timed]) -> float:
    return statistics.fmean(math.log(each.real_s) for each in times)


def _user_s(times: Sequence[Timed]) -> float | None:
    known = [each.user_s for each in times if each.user_s is not None]
    return statistics.fmean(known) if known else None


def _warnings(before: Sequence[Timed], after: Sequence[Timed]) -> list[str]:
    failed = [sum(each.failed for each in side) for side in (before, after)]
    return [
        f"{count} of {len(side)} times {when} it ended with an error: what fails early is fast."
        for count, side, when in zip(failed, (before, after), ("before", "after"), strict=True)
        if count
    ]
