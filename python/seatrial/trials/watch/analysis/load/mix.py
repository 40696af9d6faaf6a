"""The mix of requests: operations, sizes and latencies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Count, one_of
from seatrial.stats.cell_estimates import entries_needed
from seatrial.trials.watch.analysis.activity import OPERATIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

SIZES_MAX: Final = 16
PERCENTS: Final = (50.0, 90.0, 99.0, 99.9, 100.0)


class SizeShare(msgspec.Struct, frozen=True):
    """Requests of one length.

    Attributes:
        length_bytes: Their length.
        requests: Number of requests.
    """

    length_bytes: Count
    requests: Count


class OperationShare(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one operation.

    Attributes:
        operation: The operation.
        requests: Number of requests.
        failed: Number of failed requests.
        transferred_bytes: Bytes that they read, write, discard or zero.
        sync: Number of requests that a process waits for; null where that is unknown.
        length_bytes: Percentiles of their lengths (p10, p50, p90).
        sizes: The most frequent lengths, at most 16, the most frequent first.
        other_sizes: Requests of other lengths.
        latency_ns: Percentiles of the time from arrival to completion (p50, p90, p99, p99.9, p100);
            empty where that is unknown, and without percentiles for which there are too few
            requests. If only the time at the device is known, these are its percentiles.
    """

    operation: Annotated[str, one_of(*OPERATIONS)]
    requests: Count
    failed: Count
    transferred_bytes: Count
    sync: Count | None
    length_bytes: dict[str, Count]
    sizes: list[SizeShare]
    other_sizes: Count
    latency_ns: dict[str, Count]


def mix_of(recording: Recording) -> list[OperationShare]:
    """Return the requests by operation, the most requests first."""
    found = list(_operations(recording))
    return sorted(found, key=lambda each: -each.requests)


def _operations(recording: Recording) -> Iterator[OperationShare]:
    latency_ns = latencies_ns(recording)
    for name in OPERATIONS:
        own = recording.is_operation(name)
        requests = int(own.sum())
        if not requests:
            continue
        lengths, counts = np.unique(recording.length_bytes[own], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:SIZES_MAX]
        sizes = [SizeShare(int(lengths[i]), int(counts[i])) for i in order]
        sync = recording.is_sync[own]
        yield OperationShare(
            operation=name,
            requests=requests,
            failed=int(recording.failed[own].sum()),
            transferred_bytes=int(recording.length_bytes[own].sum()),
            sync=int((sync == 1).sum()) if recording.about.knows_sync else None,
            length_bytes=_percentiles_bytes(lengths, counts),
            sizes=sizes,
            other_sizes=requests - sum(each.requests for each in sizes),
            latency_ns=percentiles_ns(latency_ns[own & (latency_ns >= 0)]),
        )


def _percentiles_bytes(lengths: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[str, int]:
    shares = np.cumsum(counts) / counts.sum()
    indices = np.searchsorted(shares, [0.1 - 1e-12, 0.5 - 1e-12, 0.9 - 1e-12])
    return {name: int(lengths[at]) for name, at in zip(("p10", "p50", "p90"), indices, strict=True)}


def latencies_ns(recording: Recording) -> NDArray[np.int64]:
    """Return the time of each request from arrival to completion; -1 where that is unknown.

    An unknown queue time counts as 0: the result is then the time at the device.
    """
    queue_ns = np.maximum(recording.queue_ns, 0)
    return np.where(recording.device_ns >= 0, recording.device_ns + queue_ns, -1)


def percentiles_ns(times_ns: NDArray[np.int64]) -> dict[str, int]:
    """Return percentiles by name; ``p100`` is the largest value.

    A percentile is absent if there are too few values for it: ten must be above it.
    """
    known = [each for each in PERCENTS if each == 100 or len(times_ns) >= entries_needed(each)]
    if not len(times_ns):
        return {}
    indices = [max(0, int(np.ceil(len(times_ns) * each / 100)) - 1) for each in known]
    ordered = np.partition(times_ns, indices)
    return {f"p{percent:g}": int(ordered[at]) for percent, at in zip(known, indices, strict=True)}
