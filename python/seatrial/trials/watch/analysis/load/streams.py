"""The streams that a load consists of: requests of one kind, with their own arrivals.

A database's requests come from parts that know little of each other. Who commits writes the log and
waits for it, so that one such write follows another. Background writers send bursts of pages, and
the kernel bursts of large requests. So reads and writes are divided by whether a process waits for
them: those by whether it has one in flight at a time, the others by size. Each stream either has
one request in flight at a time, a pause after each (a closed loop with a think time), or arrives in
bursts at random times.

Source: D. Ferrari, "On the foundations of artificial workload design", SIGMETRICS 1984, for streams
by component.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.analysis.load.mix import latencies_ns
from seatrial.trials.watch.analysis.load.sequential import TRANSFERS, predecessors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

LARGE_BYTES: Final = 64 << 10
"""Larger requests that nobody waits for are a stream of their own: what the kernel has merged."""
SIZES_MAX: Final = 16
BURST_GAP_NS: Final = 1_000_000
"""Requests belong to one burst while the gap between them is no longer."""
GROUP_GAP_NS: Final = 50_000
"""And to one group of it; a storage drains meanwhile."""
BURSTS_MAX: Final = 16
"""So many bursts stand for all."""
GROUPS_MAX: Final = 32
"""So many groups of a burst are kept, those with the longest pauses between them."""
ALONE_SHARE_MIN: Final = 0.9
"""So many requests begin when the one before has ended, where each follows another."""
_SECTOR_BYTES: Final = 512
_MET_MIN: Final = 2.0


class Group(NamedTuple):
    """Requests of a burst that follow each other closely.

    Attributes:
        requests: How many.
        spacing_s: Mean time between two of them.
        pause_s: Time from the last of them to the next group; 0 after the last group.
    """

    requests: int
    spacing_s: float
    pause_s: float


class Burst(msgspec.Struct, frozen=True):
    """A recorded burst, and for how many it stands.

    Attributes:
        count: Bursts of about its size.
        groups: What it consists of.
    """

    count: int
    groups: list[Group]

    @property
    def requests(self) -> int:
        """Its requests."""
        return sum(each.requests for each in self.groups)


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one kind and how they come.

    Attributes:
        operation: ``read`` or ``write``.
        is_waited_for: Whether a process waits for them; None where that is unknown.
        is_large: Whether all are larger than 64 KiB; only what nobody waits for is divided so.
        requests: How many there are.
        sizes_bytes: Sizes and how many requests have each; of more than 16 sizes the means of 16
            groups of about equal number.
        sequential: How many begin where one of the 16 before ended.
        in_flight_max: Most of them at once; 0 where latencies are unknown.
        pause_s: Mean pause between the end of one, or of its flush, and the next, where one follows
            another; None where they come by themselves.
        bursts: Those that they come in where none waits for another; none where each comes by
            itself.
        flushes: Flushes that belong to them.
    """

    operation: str
    is_waited_for: bool | None
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
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    length = recording.length_bytes
    found = []
    for name in TRANSFERS:
        own = (recording.operation == OPERATIONS.index(name)) & (length >= _SECTOR_BYTES)
        for waited in np.unique(recording.is_sync[own]):
            alike = own & (recording.is_sync == waited)
            if waited == 1:
                alone = _of_processes_with_one_in_flight(recording, alike)
                parts = [alike & alone, alike & ~alone]
            else:
                parts = [alike & (length <= LARGE_BYTES), alike & (length > LARGE_BYTES)]
            for members in parts:
                if members.any():
                    found.append(_stream(recording, name, int(waited), members))
    return sorted(found, key=lambda each: -each.requests)


def _of_processes_with_one_in_flight(
    recording: Recording, own: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which requests are of processes that have one of these in flight at a time.

    Sessions that commit do; a checkpointer, whose writes are waited for likewise, does not.
    """
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    latency_ns = latencies_ns(recording)
    found = np.zeros(len(own), dtype=bool)
    for process in np.unique(recording.process[own]):
        members = own & (recording.process == process)
        if are_alone(recording.arrived_ns[members], latency_ns[members]):
            found |= members
    return found


def _stream(recording: Recording, name: str, waited: int, own: NDArray[np.bool_]) -> Stream:
    lengths = recording.length_bytes[own]
    arrived_ns = recording.arrived_ns[own]
    latency_ns = latencies_ns(recording)[own]
    flushes = 0
    pause_s = None
    in_flight = _in_flight_max(arrived_ns, latency_ns)
    if waited == 1 and are_alone(arrived_ns, latency_ns):
        is_log = name == "write"
        flush = recording.operation == OPERATIONS.index("flush")
        flushes = int(flush.sum()) if is_log else 0
        busy_ns = int(latency_ns.sum())
        busy_ns += int(latencies_ns(recording)[flush].clip(0).sum()) if is_log else 0
        pause_s = max(0.0, length_s(recording) - busy_ns / 1e9) / len(lengths)
    return Stream(
        operation=name,
        is_waited_for=None if waited < 0 else waited == 1,
        is_large=waited != 1 and bool(lengths[0] > LARGE_BYTES),
        requests=len(lengths),
        sizes_bytes=grouped_sizes_bytes(lengths),
        sequential=_sequential(recording, own),
        in_flight_max=in_flight,
        pause_s=pause_s,
        bursts=bursts_of(arrived_ns) if pause_s is None else [],
        flushes=flushes,
    )


def are_alone(arrived_ns: NDArray[np.int64], latency_ns: NDArray[np.int64]) -> bool:
    """Return whether requests begin when those before them have ended."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    if len(arrived_ns) < 2 or (latency_ns < 0).any():
        return False
    ends_ns = np.maximum.accumulate(arrived_ns + latency_ns)
    return float((arrived_ns[1:] >= ends_ns[:-1]).mean()) >= ALONE_SHARE_MIN


def _in_flight_max(arrived_ns: NDArray[np.int64], latency_ns: NDArray[np.int64]) -> int:
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    if (latency_ns < 0).any():
        return 0
    ended = np.searchsorted(np.sort(arrived_ns + latency_ns), arrived_ns, side="right")
    return int((np.arange(1, len(arrived_ns) + 1) - ended).max())


def bursts_of(arrived_ns: NDArray[np.int64]) -> list[Burst]:
    """Return recorded bursts that stand for all, the smallest first; none where there are none.

    Bursts end where a gap is longer than 1 ms. They are sorted by size and divided into parts of
    about as many requests each, of each of which the burst in the middle is taken: a bootstrap of
    blocks, stratified by their length. The order of bursts is not kept.

    Source: H. Kuensch, "The jackknife and the bootstrap for general stationary observations",
    Annals of Statistics 17 (3), 1989, for drawing blocks in place of single observations.

    Args:
        arrived_ns: When the requests arrived, in order; shape (requests,), at least one.
    """
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    ends = np.append(np.flatnonzero(np.diff(arrived_ns) > BURST_GAP_NS) + 1, len(arrived_ns))
    begins = np.append(0, ends[:-1])
    sizes = ends - begins
    # A request finds E(n^2) / E(n) requests in its burst.
    if float((sizes.astype(np.float64) ** 2).sum() / sizes.sum()) < _MET_MIN:
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


def _groups(arrived_ns: NDArray[np.int64]) -> list[Group]:
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    gaps_ns = np.diff(arrived_ns)
    longest = np.argsort(-gaps_ns, kind="stable")[: GROUPS_MAX - 1]
    cuts = np.sort(longest[gaps_ns[longest] > GROUP_GAP_NS])
    begins, ends = np.append(0, cuts + 1), np.append(cuts, len(gaps_ns))
    pauses_ns = np.append(gaps_ns[cuts], 0)
    return [
        Group(
            requests=int(end - begin + 1),
            spacing_s=float(arrived_ns[end] - arrived_ns[begin]) / max(1, end - begin) / 1e9,
            pause_s=float(pause_ns) / 1e9,
        )
        for begin, end, pause_ns in zip(begins, ends, pauses_ns, strict=True)
    ]


def grouped_sizes_bytes(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return at most 16 sizes in whole sectors and their numbers, with about the mean of all."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    values, counts = np.unique(lengths, return_counts=True)
    unit = 4096 if (values % 4096 == 0).all() else _SECTOR_BYTES
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
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    begins = recording.offset_bytes[own]
    device = recording.device[own].astype(np.int64)
    first = predecessors(device, begins, begins + recording.length_bytes[own])
    return int((first != np.arange(len(first))).sum())
