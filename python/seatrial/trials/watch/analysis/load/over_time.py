"""A recording over time: rates by operation, and distributions of latencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from seatrial.lazy import np
from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.analysis.load.mix import latencies_ns

if TYPE_CHECKING:
    from seatrial.trials.watch.recording import Recording

WINDOWS: Final = 120
ROWS_PER_DOUBLING: Final = 4


class Rates(NamedTuple):
    """Rates in windows of one length.

    Attributes:
        window_s: Length of a window.
        requests_per_s: By operation, for each window.
        bytes_per_s: Likewise; 0 for discards and zeroing, which transfer nothing.
    """

    window_s: float
    requests_per_s: dict[str, list[float]]
    bytes_per_s: dict[str, list[float]]


class HeatWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of the requests that arrive in one window.

    Attributes:
        index: Index of the window, which begins at ``index * window_s``.
        p50_ns: Their median.
        p99_ns: Their 99th percentile.
        max_ns: The longest.
        first_row: Row of the first entry of ``counts``; row ``r`` begins at
            ``2 ** (r / ROWS_PER_DOUBLING)`` ns.
        counts: Requests by row.
    """

    index: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    first_row: int
    counts: list[int]


def rates_of(recording: Recording) -> Rates:
    """Return the rates of the operations that occur."""
    window_s = length_s(recording) / WINDOWS
    numbers = np.minimum(recording.arrived_ns / 1e9 / window_s, WINDOWS - 1).astype(np.int64)
    lengths_bytes = recording.length_bytes * recording.is_transfer
    requests: dict[str, list[float]] = {}
    transferred: dict[str, list[float]] = {}
    for name in OPERATIONS:
        own = recording.is_operation(name)
        if not own.any():
            continue
        counts = np.bincount(numbers[own], minlength=WINDOWS)
        sums = np.bincount(numbers[own], weights=lengths_bytes[own], minlength=WINDOWS)
        requests[name] = [float(each) for each in counts / window_s]
        transferred[name] = [float(each) for each in sums / window_s]
    return Rates(window_s, requests, transferred)


def heat_of(recording: Recording) -> tuple[float, list[HeatWindow]]:
    """Return the length of a window, and the latencies of each window that has some."""
    window_s = length_s(recording) / WINDOWS
    latency_ns = latencies_ns(recording)
    known = latency_ns >= 0
    arrived_ns, latency_ns = recording.arrived_ns[known], latency_ns[known]
    edges = np.searchsorted(arrived_ns, np.arange(1, WINDOWS) * window_s * 1e9)
    found = []
    for index, own in enumerate(np.split(latency_ns, edges)):
        if not len(own):
            continue
        rows = np.floor(np.log2(np.maximum(own, 1)) * ROWS_PER_DOUBLING).astype(np.int64)
        p50_ns, p99_ns, max_ns = np.percentile(own, [50, 99, 100], method="inverted_cdf")
        first_row = int(rows.min())
        counts = [int(each) for each in np.bincount(rows - first_row)]
        found.append(
            HeatWindow(
                index=index,
                p50_ns=int(p50_ns),
                p99_ns=int(p99_ns),
                max_ns=int(max_ns),
                first_row=first_row,
                counts=counts,
            )
        )
    return window_s, found
