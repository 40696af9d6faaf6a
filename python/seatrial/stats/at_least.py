"""Lower bounds of percentiles that unanswered requests leave unknown.

A request that was skipped or never ended has no response time, but it has waited for a known time
at least. With these waits in place of the response times, a percentile is at most the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from seatrial._core import Histogram
from seatrial.results.model import Sample
from seatrial.stats.estimate import AtLeast

_OWN_ENGINES = ("psync", "io_uring")
_NS_PER_S = 1e9


def unanswered(sample: Sample) -> int:
    """Return how many requests of a round were skipped as too late or never ended."""
    return sample.outcome.late_skipped + sample.outcome.in_flight_at_end


def at_least_of_rounds(rounds_ns: Sequence[float | None]) -> AtLeast | None:
    """Return the lower bound of a cell's percentile from one value or lower bound (ns) per round.

    It is the geometric mean, as the percentile itself is. None where a round has no bound.
    """
    known_ns = [value_ns for value_ns in rounds_ns if value_ns is not None and value_ns > 0]
    if not known_ns or len(known_ns) < len(rounds_ns):
        return None
    mean_ns = math.exp(sum(math.log(value_ns) for value_ns in known_ns) / len(known_ns))
    return AtLeast(value=mean_ns, rounds=len(known_ns), unit="ns")


def percentile_ns_min(
    histogram: Histogram, percent: float, sample: Sample, completed: int
) -> int | None:
    """Return what a percentile of a round's response times is at least; None without a bound.

    Of several kinds of requests, each is taken to have its share of those that were skipped,
    because kinds are drawn at random; whose requests are in flight is not known, so that these
    count as if they had not waited.

    Args:
        histogram: Response times (ns) of the requests of interest that completed.
        percent: Above 0, below 100.
        sample: The round.
        completed: Requests of all kinds that completed, in the same phase.
    """
    if not unanswered(sample) or not histogram.count or sample.engine not in _OWN_ENGINES:
        return None
    skipped_waiting = _skipped_waiting(sample)
    in_flight = sample.outcome.in_flight_at_end if len(sample.operations) == 1 else 0
    in_flight_ns = _in_flight_wait_ns_min(sample)
    lows_ns, _, counts = histogram.buckets()

    def waiting(wait_ns: int) -> float:
        ended = sum(n for low_ns, n in zip(lows_ns, counts, strict=True) if low_ns >= wait_ns)
        still = in_flight if wait_ns <= in_flight_ns else 0
        return ended * completed / histogram.count + skipped_waiting(wait_ns) + still

    slower = math.floor((1 - percent / 100) * (completed + unanswered(sample)) + 1e-9) + 1
    low_ns = 0
    high_ns = 1 + max(histogram.max_ns, in_flight_ns, round(sample.duration_s * _NS_PER_S))
    while high_ns - low_ns > 1:
        middle_ns = (low_ns + high_ns) // 2
        is_reached = waiting(middle_ns) >= slower
        low_ns, high_ns = (middle_ns, high_ns) if is_reached else (low_ns, middle_ns)
    return low_ns or None


def _skipped_waiting(sample: Sample) -> Callable[[int], float]:
    """Return how many of the skipped requests surely waited for a time (ns) or longer.

    Each worker skips the last requests of its schedule. So those that waited less are at most all
    that were due in so long a time: by the rate, and one group more; of a Poisson process by the
    rate and four standard deviations, and 6 more, which it exceeds in less than 1 case of 1,000
    (Bernstein's inequality).
    """
    skipped = sample.outcome.late_skipped
    arrival = sample.cell.spec.get("arrival", {})
    rate_per_s = float(arrival.get("rate_per_s") or 0.0)
    is_random = arrival.get("kind") == "poisson"
    group = 6 if is_random else int(arrival.get("burst") or 1)

    def waiting(wait_ns: int) -> float:
        due = wait_ns / _NS_PER_S * rate_per_s
        due += group + (4 * math.sqrt(due) if is_random else 0)
        return max(0.0, skipped - due) if rate_per_s > 0 else 0.0

    return waiting


def _in_flight_wait_ns_min(sample: Sample) -> int:
    """Return for how long each request in flight at the end has waited at least (ns).

    Each was started before the time limit, and the oldest no earlier than the sample: so each has
    waited for what the oldest has waited beyond the limit. It outlasted the last that ended, too.
    """
    limit_s: float | None = sample.cell.spec.get("limit", {}).get("duration_s")
    if limit_s is None:
        return 0
    limit_ns = round(limit_s * _NS_PER_S)
    last_end_ns = round(sample.duration_s * _NS_PER_S)
    return max(0, sample.oldest_in_flight_ns - limit_ns, last_end_ns - limit_ns)
