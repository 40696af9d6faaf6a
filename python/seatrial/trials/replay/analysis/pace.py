"""A replay's pace: its rate compared with the capture, and the lag of its statements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from seatrial.results.model import Sample
from seatrial.results.replay import ReplayMoment, ReplayRecord
from seatrial.stats.cell_estimates import estimate_of_rounds, rate_estimate
from seatrial.stats.estimate import Estimate
from seatrial.study.cell import Cell
from seatrial.trials.replay.analysis.model import Lateness, has_clock, played, replays

GROWS_RATIO_MIN: Final = 2.0
GROWS_EXTRA_NS_MIN: Final = 10_000_000
"""A smaller growth of the lag is not a growing queue: a commit on a disk takes as long."""
KEPT_SHARE_MIN: Final = 0.95
"""Of the requested rate; below it, something else limited the rate."""
BEHIND_NS: Final = 10_000_000
"""With a larger median lag the replay was behind schedule most of the time."""
PARTS: Final = 3
SLICES_MIN: Final = 6
UNIT: Final = "statements/s"


def answered(record: ReplayRecord) -> int:
    """Return how many statements were answered, with a result or an error."""
    return record.total.sent - record.errors.unanswered


def to_be_sent(record: ReplayRecord) -> int:
    """Return how many statements were to be sent: all captured ones that were not skipped."""
    total = record.total
    return total.captured - total.skipped_count


def answered_per_s(samples: Sequence[Sample]) -> Estimate:
    """Return statements answered per second over whole samples, at least one with a record.

    If nothing failed, this is the cell's rate, whose interval one round can estimate.
    """
    records = replays(samples)
    if all(answered(record) == sample.outcome.completed for sample, record in records):
        return rate_estimate([sample for sample, _ in records])
    return estimate_of_rounds([_rate_per_s(sample, record) for sample, record in records], UNIT)


def captured_per_s(samples: Sequence[Sample]) -> float | None:
    """Return the capture's statements per second, of those to be sent; None if its time is unknown.

    If the replay was limited in time (until), the capture counts up to the end of the last
    statement that began until then.
    """
    rates = [
        to_be_sent(record) / length_s
        for sample, record in replays(samples)
        if (length_s := captured_length_s(sample, record)) > 0
    ]
    return max(rates, default=None) or None


def captured_length_s(sample: Sample, record: ReplayRecord) -> float:
    """Return the length of the part of the capture to be replayed; 0 if unknown."""
    if not has_clock(record):
        return 0.0
    until_s = played(sample.cell).get("until_s")
    if until_s and record.lag.sent_ns_last is None:  # an old file, with the length of the whole log
        return min(record.captured_s, float(until_s))
    return record.captured_s


def ratio_to_capture(samples: Sequence[Sample]) -> Estimate | None:
    """Return the replay's statements per second over the capture's (unit ``ratio``).

    None if the capture's time is unknown, or if a round ended early: part of a varying load does
    not represent the whole.
    """
    captured = captured_per_s(samples)
    if not captured or _ended_early(samples):
        return None
    rates = [_rate_per_s(sample, record) / captured for sample, record in replays(samples)]
    return estimate_of_rounds(rates, "ratio")


def delivered(samples: Sequence[Sample], speed: float | None) -> Estimate | None:
    """Return statements sent per second over the requested rate (unit ``ratio``).

    The answers do not count: a replay keeps its pace however long the last statement lasts. With
    think times they do: statements are then due after them, however late these are. None at maximum
    speed, and in the cases of :func:`ratio_to_capture`.
    """
    captured = captured_per_s(samples)
    if not captured or not speed or _ended_early(samples):
        return None
    requested = captured * speed
    shares = [
        _rate_per_s(sample, record) / requested
        if record.lag.due_ns_last is None  # in an old file
        or not record.lag.sent_ns_last
        or has_think_times(sample.cell)
        else record.lag.due_ns_last / record.lag.sent_ns_last
        for sample, record in replays(samples)
    ]
    return estimate_of_rounds(shares, "ratio")


def has_think_times(cell: Cell) -> bool:
    """Return whether a replay's statements are due after the answers before them."""
    return bool(played(cell).get("pace", "arrivals") != "arrivals")


def _ended_early(samples: Sequence[Sample]) -> bool:
    return any(record.total.not_reached for _, record in replays(samples))


def _rate_per_s(sample: Sample, record: ReplayRecord) -> float:
    return answered(record) / sample.duration_s if sample.duration_s > 0 else 0.0


def lateness(samples: Sequence[Sample]) -> Lateness | None:
    """Return the lag in the worst round; None if nothing was scheduled."""
    paced = [(sample, record) for sample, record in replays(samples) if record.lag.paced]
    if not paced:
        return None
    sample, record = max(paced, key=lambda pair: pair[1].lag.ns_p99)
    lag = record.lag
    first_ns, peak_ns = _thirds_ns(record.timeline)
    return Lateness(
        round=sample.round,
        due=lag.paced,
        within_1ms_share=lag.within_1ms / lag.paced,
        p50_ns=lag.ns_p50,
        p99_ns=lag.ns_p99,
        max_ns=lag.ns_max,
        first_ns=first_ns,
        peak_ns=peak_ns,
        grows=_grows(first_ns, peak_ns),
        late_by={
            "session": lag.late_by_session,
            "order": lag.late_by_order,
            "connections": lag.late_by_connections,
            "driver": lag.late_by_driver,
        },
        driver_p99_ns=lag.driver_ns_p99,
        driver_max_ns=lag.driver_ns_max,
    )


def keeps_pace(delivered: Estimate | None, late: Lateness | None) -> bool:
    """Return whether a replay met its requested rate without falling behind."""
    if delivered is None or late is None:
        return False
    in_time = not late.grows and late.p50_ns <= BEHIND_NS
    return delivered.value >= KEPT_SHARE_MIN and in_time


def _thirds_ns(timeline: Sequence[ReplayMoment]) -> tuple[float | None, float | None]:
    """Return the mean lag of the first third of the slices, and the longer of the other two."""
    lags_ns = [moment.lag_ns_mean for moment in timeline if moment.lag_ns_mean is not None]
    if len(lags_ns) < SLICES_MIN:
        return None, None
    third = len(lags_ns) // PARTS
    first, middle, last = lags_ns[:third], lags_ns[third:-third], lags_ns[-third:]
    peak_ns = max(math.fsum(part) / len(part) for part in (middle, last))
    return math.fsum(first) / third, peak_ns


def _grows(first_ns: float | None, peak_ns: float | None) -> bool:
    if first_ns is None or peak_ns is None:
        return False
    return peak_ns >= max(GROWS_RATIO_MIN * first_ns, first_ns + GROWS_EXTRA_NS_MIN)
