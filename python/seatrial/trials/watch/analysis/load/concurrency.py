"""Concurrency: how many requests are in flight, over time and as a new one finds it.

A request is in flight from its arrival until it completes. The mean over time is exact, by the sum
of all latencies divided by the length (Little's law); what arrivals find is counted at each of
them.

Source: J. Little, "A Proof for the Queuing Formula L = λW", Operations Research 9 (3), 1961.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.published import Amount, Count
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.analysis.load.mix import latencies_ns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

CHART_WINDOWS: Final = 120


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """Requests in flight.

    Attributes:
        known_share: Share of the requests whose latency is known; only these are counted.
        mean: Mean number in flight over time.
        found: Percentiles of the number in flight that a request finds when it arrives, without
            itself (p50, p99, p100).
        busy_share: Share of time with at least one request in flight.
        window_s: Length of the windows of the next one.
        over_time: Mean number in flight in each window.
    """

    known_share: Amount
    mean: Amount
    found: dict[str, Count]
    busy_share: Amount
    window_s: float
    over_time: list[float]


def concurrency_of(recording: Recording) -> Concurrency | None:
    """Return how many requests are in flight; None where no latency is known."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    latency_ns = latencies_ns(recording)
    known = latency_ns >= 0
    if not known.any():
        return None
    begins_ns = recording.arrived_ns[known]
    ends_ns = np.sort(begins_ns + latency_ns[known])
    found = np.arange(len(begins_ns)) - np.searchsorted(ends_ns, begins_ns, side="right")
    found = np.maximum(found, 0)
    seconds = max(length_s(recording), float(ends_ns[-1]) / 1e9)
    edges_ns = np.linspace(0, seconds * 1e9, CHART_WINDOWS + 1)
    window_s = seconds / CHART_WINDOWS
    in_flight_ns = np.diff(_passed_ns(begins_ns, edges_ns) - _passed_ns(ends_ns, edges_ns))
    places = np.percentile(found, [50, 99, 100], method="inverted_cdf")
    return Concurrency(
        known_share=float(known.mean()),
        mean=float(latency_ns[known].sum(dtype=np.float64)) / 1e9 / seconds,
        found=dict(zip(("p50", "p99", "p100"), map(int, places), strict=True)),
        busy_share=_busy_ns(begins_ns, begins_ns + latency_ns[known]) / 1e9 / seconds,
        window_s=window_s,
        over_time=[max(0.0, float(each)) for each in in_flight_ns / 1e9 / window_s],
    )


def _passed_ns(times_ns: NDArray[np.int64], edges_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each edge the sum of the time that has passed since all times before it."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    sums = np.concatenate(([0.0], np.cumsum(times_ns, dtype=np.float64)))
    before = np.searchsorted(times_ns, edges_ns)
    found: NDArray[np.float64] = before * edges_ns - sums[before]
    return found


def _busy_ns(begins_ns: NDArray[np.int64], ends_ns: NDArray[np.int64]) -> float:
    """Return the length of the union of the ranges, whose begins are in order."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    highest = np.maximum.accumulate(ends_ns)
    before = np.concatenate(([begins_ns[0]], highest[:-1]))
    return float(np.maximum(0, ends_ns - np.maximum(begins_ns, before)).sum())
