"""The streams of a load: requests of one kind, with their own arrivals.

A database's requests come from largely independent sources. Committing sessions write the log and
wait for it, so that these writes follow each other. Background writers send bursts of pages, and
the kernel bursts of large requests. So reads and writes are divided by whether a process waits for
them; those it waits for by whether the process has only one in flight, the others by size. A stream
is either a closed loop with a think time, one request in flight at a time, or it arrives in bursts
at random times.

Source: D. Ferrari, "On the foundations of artificial workload design", SIGMETRICS 1984, for streams
by component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from seatrial.lazy import np
from seatrial.trials.watch.analysis.activity import TRANSFERS
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.analysis.load.mix import latencies_ns
from seatrial.trials.watch.analysis.load.sequential import predecessors
from seatrial.units import SECTOR_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

LARGE_BYTES: Final = 64 << 10
"""Larger background requests, which the kernel has merged, are a separate stream."""

SIZES_MAX: Final = 16
BURST_GAP_NS: Final = 1_000_000
"""Maximum gap between requests of one burst."""

GROUP_GAP_NS: Final = 50_000
"""Maximum gap between requests of one group of a burst; the queue drains in longer gaps."""

BURSTS_MAX: Final = 16
"""Maximum number of representative bursts."""

GROUPS_MAX: Final = 32
"""Maximum number of groups of a burst, separated by its longest pauses."""

SERIAL_SHARE_MIN: Final = 0.9
"""Minimum share of requests that begin after the previous one has ended, in a serial stream."""

_BURST_SIZE_MIN: Final = 2.0


class BurstGroup(NamedTuple):
    """Requests of a burst that follow each other closely.

    Attributes:
        requests: Number of requests.
        spacing_s: Mean time between two of them.
        pause_s: Time from the last of them to the next group; 0 after the last group.
    """

    requests: int
    spacing_s: float
    pause_s: float


class Burst(msgspec.Struct, frozen=True):
    """A recorded burst that represents others.

    Attributes:
        count: Number of bursts of about its size.
        groups: Its groups of requests.
    """

    count: int
    groups: list[BurstGroup]

    @property
    def requests(self) -> int:
        """Number of its requests."""
        return sum(each.requests for each in self.groups)


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one kind, and their arrivals.

    Attributes:
        operation: ``read`` or ``write``.
        is_sync: Whether a process waits for them; None where that is unknown.
        is_large: Whether all are larger than 64 KiB; only background requests are divided by this.
        requests: Number of requests.
        sizes_bytes: Sizes and the number of requests of each; if there are more than 16 sizes, the
            means of 16 groups of about equal number.
        sequential: Number of those that begin where one of the previous 16 ended.
        in_flight_max: Maximum number in flight; 0 where latencies are unknown.
        pause_s: Mean think time from the end of a request, or of its flush, to the next one; None
            if the stream is not serial.
        bursts: Representative bursts of a stream that is not serial; empty if requests arrive
            individually.
        flushes: Number of their flushes.
    """

    operation: str
    is_sync: bool | None
    is_large: bool
    requests: int
    sizes_bytes: list[tuple[int, int]]
    sequential: int
    in_flight_max: int
    pause_s: float | None
    bursts: list[Burst]
    flushes: int


def streams_of(recording: Recording) -> list[Stream]:
    """Return the streams of reads and writes, the most requests first."""
    length = recording.length_bytes
    found = []
    for name in TRANSFERS:
        own = recording.is_operation(name) & (length >= SECTOR_BYTES)
        for sync in np.unique(recording.is_sync[own]):
            of_sync = own & (recording.is_sync == sync)
            if sync == 1:
                serial = _of_serial_processes(recording, of_sync)
                parts = [of_sync & serial, of_sync & ~serial]
            else:
                parts = [of_sync & (length <= LARGE_BYTES), of_sync & (length > LARGE_BYTES)]
            for members in parts:
                if members.any():
                    found.append(_stream(recording, name, int(sync), members))
    return sorted(found, key=lambda each: -each.requests)


def _of_serial_processes(recording: Recording, own: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which requests are of processes that have one of these in flight at a time.

    This is true of committing sessions, but not of a checkpointer, which waits for many writes.
    """
    latency_ns = latencies_ns(recording)
    found = np.zeros(len(own), dtype=bool)
    for process in np.unique(recording.process[own]):
        members = own & (recording.process == process)
        if are_serial(recording.arrived_ns[members], latency_ns[members]):
            found |= members
    return found


def _stream(recording: Recording, name: str, sync: int, own: NDArray[np.bool_]) -> Stream:
    lengths = recording.length_bytes[own]
    arrived_ns = recording.arrived_ns[own]
    latency_ns = latencies_ns(recording)[own]
    flushes = 0
    pause_s = None
    in_flight = _in_flight_max(arrived_ns, latency_ns)
    if sync == 1 and are_serial(arrived_ns, latency_ns):
        is_log = name == "write"
        flush = recording.is_operation("flush")
        flushes = int(flush.sum()) if is_log else 0
        busy_ns = int(latency_ns.sum())
        busy_ns += int(latencies_ns(recording)[flush].clip(0).sum()) if is_log else 0
        pause_s = max(0.0, length_s(recording) - busy_ns / 1e9) / len(lengths)
    return Stream(
        operation=name,
        is_sync=None if sync < 0 else sync == 1,
        is_large=sync != 1 and bool(lengths[0] > LARGE_BYTES),
        requests=len(lengths),
        sizes_bytes=grouped_sizes_bytes(lengths),
        sequential=_sequential(recording, own),
        in_flight_max=in_flight,
        pause_s=pause_s,
        bursts=bursts_of(arrived_ns) if pause_s is None else [],
        flushes=flushes,
    )


def are_serial(arrived_ns: NDArray[np.int64], latency_ns: NDArray[np.int64]) -> bool:
    """Return whether requests begin after the previous ones have ended."""
    if len(arrived_ns) < 2 or (latency_ns < 0).any():
        return False
    ends_ns = np.maximum.accumulate(arrived_ns + latency_ns)
    return float((arrived_ns[1:] >= ends_ns[:-1]).mean()) >= SERIAL_SHARE_MIN


def _in_flight_max(arrived_ns: NDArray[np.int64], latency_ns: NDArray[np.int64]) -> int:
    if (latency_ns < 0).any():
        return 0
    ended = np.searchsorted(np.sort(arrived_ns + latency_ns), arrived_ns, side="right")
    return int((np.arange(1, len(arrived_ns) + 1) - ended).max())


def bursts_of(arrived_ns: NDArray[np.int64]) -> list[Burst]:
    """Return representative recorded bursts, the smallest first; empty without bursts.

    A gap of more than 1 ms separates bursts. They are sorted by size and divided into parts with
    about equal numbers of requests, and the middle burst of each part is chosen: a bootstrap of
    blocks, stratified by their length. The order of bursts is not preserved.

    Source: H. Kuensch, "The jackknife and the bootstrap for general stationary observations",
    Annals of Statistics 17 (3), 1989, for drawing blocks instead of single observations.

    Args:
        arrived_ns: Arrival times of the requests, in order; shape (requests,), at least one.
    """
    ends = np.append(np.flatnonzero(np.diff(arrived_ns) > BURST_GAP_NS) + 1, len(arrived_ns))
    begins = np.append(0, ends[:-1])
    sizes = ends - begins
    # The mean size of the burst of a request is E(n^2) / E(n).
    if float((sizes.astype(np.float64) ** 2).sum() / sizes.sum()) < _BURST_SIZE_MIN:
        return []
    order = np.argsort(sizes, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order] / 2
    part = np.minimum((before * BURSTS_MAX // sizes.sum()).astype(int), BURSTS_MAX - 1)
    found = []
    for number in np.unique(part):
        members = order[part == number]
        middle = members[len(members) // 2]
        groups = _groups(arrived_ns[begins[middle] : ends[middle]])
        found.append(Burst(len(members), groups))
    return found


def _groups(arrived_ns: NDArray[np.int64]) -> list[BurstGroup]:
    gaps_ns = np.diff(arrived_ns)
    longest = np.argsort(-gaps_ns, kind="stable")[: GROUPS_MAX - 1]
    cuts = np.sort(longest[gaps_ns[longest] > GROUP_GAP_NS])
    begins, ends = np.append(0, cuts + 1), np.append(cuts, len(gaps_ns))
    pauses_ns = np.append(gaps_ns[cuts], 0)
    return [
        BurstGroup(
            requests=int(end - begin + 1),
            spacing_s=float(arrived_ns[end] - arrived_ns[begin]) / max(1, end - begin) / 1e9,
            pause_s=float(pause_ns) / 1e9,
        )
        for begin, end, pause_ns in zip(begins, ends, pauses_ns, strict=True)
    ]


def grouped_sizes_bytes(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return at most 16 sizes in whole sectors and their numbers, with about the same mean."""
    values, counts = np.unique(lengths, return_counts=True)
    unit = 4096 if (values % 4096 == 0).all() else SECTOR_BYTES
    if len(values) > SIZES_MAX:
        groups = np.array_split(np.sort(lengths), SIZES_MAX)
        values = np.array([max(unit, round(group.mean() / unit) * unit) for group in groups])
        counts = np.array([len(group) for group in groups])
    found: dict[int, int] = {}
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        size = max(unit, value // unit * unit)
        found[size] = found.get(size, 0) + count
    return list(found.items())


def _sequential(recording: Recording, own: NDArray[np.bool_]) -> int:
    begins = recording.offset_bytes[own]
    device = recording.device[own].astype(np.int64)
    first = predecessors(device, begins, begins + recording.length_bytes[own])
    return int((first != np.arange(len(first))).sum())
