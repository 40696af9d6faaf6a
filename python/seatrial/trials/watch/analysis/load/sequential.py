"""Sequentiality: which requests begin where an earlier one ended, and how long such runs are.

A request is sequential if it begins where one of the previous 16 requests of the same device,
operation and, if known, process ended. So interleaved streams are recognised as sequential. A run
is a request with those that follow it sequentially.

Source: the windowed seek distance of I. Ahmad, "Easy and Efficient Disk I/O Workload
Characterization in VMware ESX Server", IISWC 2007, whose window has 16 requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount, Count, one_of
from seatrial.trials.watch.analysis.activity import TRANSFERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

WINDOW: Final = 16
"""Number of previous requests with which a request is compared."""


class Sequentiality(msgspec.Struct, frozen=True, kw_only=True):
    """How sequential the requests of one operation are.

    Attributes:
        operation: ``read`` or ``write``.
        requests: Number of requests.
        sequential: Number of those that begin where one of the previous 16 ended.
        sequential_bytes: Bytes of the sequential requests.
        runs: Number of runs; a single request is a run as well.
        run_bytes_mean: Mean length of a run.
        run_bytes: Percentiles of the run length, weighted by bytes (p50, p90): half of all bytes
            are in runs of at least the median.
    """

    operation: Annotated[str, one_of(*TRANSFERS)]
    requests: Count
    sequential: Count
    sequential_bytes: Count
    runs: Count
    run_bytes_mean: Amount
    run_bytes: dict[str, Count]


def sequentiality_of(recording: Recording) -> list[Sequentiality]:
    """Return the sequentiality of reads and writes, without operations that do not occur."""
    found = []
    for name in TRANSFERS:
        own = recording.is_operation(name) & recording.is_transfer
        if own.any():
            found.append(_of(recording, name, own))
    return found


def _of(recording: Recording, name: str, own: NDArray[np.bool_]) -> Sequentiality:
    groups = _groups(recording, own)
    order = np.argsort(groups, kind="stable")
    begins = recording.offset_bytes[own][order]
    lengths = recording.length_bytes[own][order]
    first = predecessors(groups[order], begins, begins + lengths)
    is_sequential = first != np.arange(len(first))
    runs_bytes = np.bincount(_roots(first), weights=lengths)
    runs_bytes = np.sort(runs_bytes[runs_bytes > 0])
    shares = np.cumsum(runs_bytes) / runs_bytes.sum()
    indices = np.searchsorted(shares, [0.5, 0.9])
    return Sequentiality(
        operation=name,
        requests=len(first),
        sequential=int(is_sequential.sum()),
        sequential_bytes=int(lengths[is_sequential].sum()),
        runs=len(runs_bytes),
        run_bytes_mean=float(runs_bytes.mean()),
        run_bytes={
            label: int(runs_bytes[min(at, len(runs_bytes) - 1)])
            for label, at in zip(("p50", "p90"), indices, strict=True)
        },
    )


def _groups(recording: Recording, own: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a number for device and process of each request."""
    process = recording.process[own].astype(np.int64)
    return recording.device[own].astype(np.int64) << 32 | process + 1


def predecessors(
    groups: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each request the nearest predecessor in its group, or its own index.

    Args:
        groups: Groups of the requests, in order; shape (requests,), as the next two.
        begins: First bytes.
        ends: Exclusive ends.
    """
    found = np.arange(len(groups))
    for lag in range(min(WINDOW, len(groups) - 1), 0, -1):
        follows = (begins[lag:] == ends[:-lag]) & (groups[lag:] == groups[:-lag])
        at = np.flatnonzero(follows)
        found[at + lag] = at
    return found


def _roots(first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first request of each request's run, by doubling the steps."""
    roots = first
    while True:
        further = roots[roots]
        if np.array_equal(further, roots):
            return roots
        roots = further
