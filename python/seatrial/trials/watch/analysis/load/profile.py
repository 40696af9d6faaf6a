"""The characteristics of a recorded load, all together, and its concurrency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount, Count
from seatrial.trials.watch.analysis.load.arrivals import Arrivals, arrivals_of, length_s
from seatrial.trials.watch.analysis.load.footprint import Footprint, footprint_of
from seatrial.trials.watch.analysis.load.mix import (
    OperationShare,
    latencies_ns,
    mix_of,
    percentiles_ns,
)
from seatrial.trials.watch.analysis.load.reuse import Reuse, reuse_of
from seatrial.trials.watch.analysis.load.sequential import Sequentiality, sequentiality_of
from seatrial.trials.watch.recording import ADDRESS, TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording


class BreakdownRow(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one device, process or relation.

    Attributes:
        name: Name of the process, the relation or the device; empty where it is unknown.
        reads: Read requests.
        writes: Write requests.
        transferred_bytes: Bytes read and written.
        latency_ns_p99: 99th percentile from arrival to completion; null where it is unknown, or
            with fewer than 1,000 requests.
    """

    name: str
    reads: Count
    writes: Count
    transferred_bytes: Count
    latency_ns_p99: Count | None


class LoadProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The characteristics of a recorded load.

    Attributes:
        requests: Number of requests.
        seconds: Length of the recording.
        mix: By operation, the most requests first.
        sequentiality: For reads and for writes; empty if addresses are synthetic.
        arrivals: Rate and burstiness; null if times are synthetic.
        footprint: Distinct bytes, and working sets.
        reuse: Reuse of blocks; null without reads and writes.
        concurrency: Requests in flight; null where no latency is known.
        devices: By device, the most bytes first.
        processes: By process, the most bytes first; empty where it is unknown.
        relations: By relation, the most bytes first; empty where requests are not assigned.
    """

    requests: Count
    seconds: Amount
    mix: list[OperationShare]
    sequentiality: list[Sequentiality]
    arrivals: Arrivals | None
    footprint: Footprint
    reuse: Reuse | None
    concurrency: Concurrency | None
    devices: list[BreakdownRow]
    processes: list[BreakdownRow]
    relations: list[BreakdownRow]

    def share_of(self, operation: str) -> float:
        """Return the share of an operation in all requests."""
        return sum(e.requests for e in self.mix if e.operation == operation) / (self.requests or 1)


def load_of(recording: Recording) -> LoadProfile:
    """Return the characteristics of a recorded load."""
    about = recording.about
    return LoadProfile(
        requests=recording.requests,
        seconds=length_s(recording),
        mix=mix_of(recording),
        sequentiality=[] if ADDRESS in about.made_up else sequentiality_of(recording),
        arrivals=None if TIME in about.made_up else arrivals_of(recording),
        footprint=footprint_of(recording),
        reuse=reuse_of(recording),
        concurrency=concurrency_of(recording),
        devices=_sorted(_breakdown(recording, "device", [each.name for each in about.devices])),
        processes=_sorted(_breakdown(recording, "process", about.processes)),
        relations=_sorted(_breakdown(recording, "relation", about.relations)),
    )


def _sorted(rows: Iterator[BreakdownRow]) -> list[BreakdownRow]:
    return sorted(rows, key=lambda each: (-each.transferred_bytes, -each.reads - each.writes))


def _breakdown(
    recording: Recording, column: str, names: list[str] | tuple[str, ...]
) -> Iterator[BreakdownRow]:
    """Yield the requests by the values of a column; nothing if all are unknown."""
    if not names or not recording.requests:
        return
    indices = getattr(recording, column).astype(np.int64) + 1
    count = len(names) + 1
    reads = np.bincount(indices[recording.is_operation("read")], minlength=count)
    writes = np.bincount(indices[recording.is_operation("write")], minlength=count)
    # A discard has a length, too, but transfers nothing.
    lengths_bytes = recording.length_bytes * recording.is_transfer
    sums = np.bincount(indices, weights=lengths_bytes, minlength=count)
    latency_ns = latencies_ns(recording)
    order = np.argsort(indices, kind="stable")
    edges = np.searchsorted(indices[order], np.arange(count + 1))
    for index in range(count):
        own = latency_ns[order[edges[index] : edges[index + 1]]]
        if not len(own):
            continue
        yield BreakdownRow(
            name=names[index - 1] if index else "",
            reads=int(reads[index]),
            writes=int(writes[index]),
            transferred_bytes=int(sums[index]),
            latency_ns_p99=percentiles_ns(own[own >= 0]).get("p99"),
        )


CHART_WINDOWS: Final = 120


class Concurrency(msgspec.Struct, frozen=True, kw_only=True):
    """Requests in flight.

    Attributes:
        known_share: Share of the requests whose latency is known; only these are counted.
        mean: Mean number in flight over time.
        found: Percentiles of the number of other requests in flight when a request arrives (p50,
            p99, p100).
        busy_share: Share of time with at least one request in flight.
        window_s: Length of the windows of ``over_time``.
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
    percentiles = np.percentile(found, [50, 99, 100], method="inverted_cdf")
    return Concurrency(
        known_share=float(known.mean()),
        mean=float(latency_ns[known].sum(dtype=np.float64)) / 1e9 / seconds,
        found=dict(zip(("p50", "p99", "p100"), map(int, percentiles), strict=True)),
        busy_share=_busy_ns(begins_ns, begins_ns + latency_ns[known]) / 1e9 / seconds,
        window_s=window_s,
        over_time=[max(0.0, float(each)) for each in in_flight_ns / 1e9 / window_s],
    )


def _passed_ns(times_ns: NDArray[np.int64], edges_ns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each edge the sum of the durations from all earlier times to it."""
    sums = np.concatenate(([0.0], np.cumsum(times_ns, dtype=np.float64)))
    before = np.searchsorted(times_ns, edges_ns)
    found: NDArray[np.float64] = before * edges_ns - sums[before]
    return found


def _busy_ns(begins_ns: NDArray[np.int64], ends_ns: NDArray[np.int64]) -> float:
    """Return the length of the union of ranges, which are sorted by their begin."""
    highest = np.maximum.accumulate(ends_ns)
    before = np.concatenate(([begins_ns[0]], highest[:-1]))
    return float(np.maximum(0, ends_ns - np.maximum(begins_ns, before)).sum())
