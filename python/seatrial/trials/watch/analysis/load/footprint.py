"""Footprint: the number of distinct bytes accessed, in total and in windows of time.

The working set of a window consists of the bytes accessed in it at least once.

Source: P. Denning, "The Working Set Model for Program Behavior", CACM 11 (5), 1968.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount, Count
from seatrial.trials.watch.analysis.activity import TRANSFERS
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.recording import TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

WINDOWS_S: Final = (1.0, 10.0, 60.0, 600.0, 3600.0)
"""Lengths of windows, each of which is used if the recording has at least three of them."""
_WINDOWS_MIN: Final = 3
CHART_WINDOWS: Final = 60


class WorkingSet(msgspec.Struct, frozen=True, kw_only=True):
    """Working sets of windows of one length.

    Attributes:
        window_s: The length.
        windows: Number of windows.
        mean_bytes: Mean working set.
        max_bytes: Largest working set.
    """

    window_s: float
    windows: Count
    mean_bytes: Amount
    max_bytes: Count


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """Distinct bytes that are read and written.

    Attributes:
        read_bytes: Distinct bytes that are read.
        written_bytes: Distinct bytes that are written.
        unique_bytes: Distinct bytes that are read or written.
        span_bytes: From the lowest byte to the highest, summed over the devices.
        working_sets: By length of the window, the shortest first; empty if times are synthetic.
        window_s: Length of the windows of the next two.
        over_time_bytes: Working set of each window.
        so_far_bytes: Distinct bytes from the start of the recording to the end of each window.
    """

    read_bytes: Count
    written_bytes: Count
    unique_bytes: Count
    span_bytes: Count
    working_sets: list[WorkingSet]
    window_s: float
    over_time_bytes: list[int]
    so_far_bytes: list[int]


def footprint_of(recording: Recording) -> Footprint:
    """Return the exact footprint of reads and writes."""
    own = recording.is_transfer
    begins, ends, span_bytes = _on_one_line(recording, own)
    arrived_s = recording.arrived_ns[own] / 1e9
    seconds = length_s(recording)
    window_s = seconds / CHART_WINDOWS
    numbers = np.minimum((arrived_s / window_s).astype(np.int64), CHART_WINDOWS - 1)
    so_far_bytes = _so_far(begins, ends, numbers)
    order = np.argsort(begins, kind="stable")
    begins, ends, arrived_s = begins[order], ends[order], arrived_s[order]
    numbers = numbers[order]
    one_group = np.zeros(len(begins), dtype=np.int64)
    by_operation = [
        int(unique_bytes(begins[mask], ends[mask], one_group[mask], 1)[0])
        for mask in (recording.is_operation(name)[own][order] for name in TRANSFERS)
    ]
    over_time = unique_bytes(begins, ends, numbers, CHART_WINDOWS)
    return Footprint(
        read_bytes=by_operation[0],
        written_bytes=by_operation[1],
        unique_bytes=so_far_bytes[-1],
        span_bytes=span_bytes,
        working_sets=[
            _working_set(begins, ends, arrived_s, each_s, int(seconds / each_s))
            for each_s in WINDOWS_S
            if seconds / each_s >= _WINDOWS_MIN and TIME not in recording.about.made_up
        ],
        window_s=window_s,
        over_time_bytes=[int(each) for each in over_time],
        so_far_bytes=so_far_bytes,
    )


def _on_one_line(
    recording: Recording, own: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return begins and ends of requests in one address space of all devices, and its size.

    A device occupies only its accessed span, so that sums do not overflow with fewer than a few
    thousand devices of a petabyte.
    """
    begins = recording.offset_bytes[own].copy()
    lengths = recording.length_bytes[own]
    devices = recording.device[own]
    count = int(devices.max()) + 1 if len(devices) else 0
    low = np.full(count, np.iinfo(np.int64).max)
    high = np.zeros(count, dtype=np.int64)
    np.minimum.at(low, devices, begins)
    np.maximum.at(high, devices, begins + lengths)
    spans = np.where(high > 0, high - np.minimum(low, high), 0)
    before = np.concatenate(([0], np.cumsum(spans)[:-1])) if count else spans
    begins += (before - np.where(high > 0, low, 0))[devices]
    return begins, begins + lengths, int(spans.sum())


def unique_bytes(
    begins: NDArray[np.int64], ends: NDArray[np.int64], groups: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return the number of distinct bytes that the ranges of each group cover.

    Args:
        begins: First bytes in ascending order; shape (ranges,), as the next two.
        ends: Exclusive ends.
        groups: Numbers of the groups, below ``count``.
        count: Number of groups.

    Returns:
        Bytes by group; shape (count,).
    """
    if not len(begins):
        return np.zeros(count, dtype=np.int64)
    if count > 1:
        # numpy sorts 16-bit numbers by radix sort.
        narrow = groups.astype(np.uint16) if count <= 1 << 16 else groups
        order = np.argsort(narrow, kind="stable")
        begins, ends, groups = begins[order], ends[order], groups[order]
    firsts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    covered = np.empty(len(ends), dtype=np.int64)
    for first, end in zip(firsts, [*firsts[1:], len(ends)], strict=True):
        np.maximum.accumulate(ends[first:end], out=covered[first:end])
    before = np.concatenate(([np.iinfo(np.int64).min], covered[:-1]))
    before[firsts] = np.iinfo(np.int64).min
    added = np.maximum(0, ends - np.maximum(begins, before))
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, groups[firsts], np.add.reduceat(added, firsts))
    return sums


def _working_set(
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    arrived_s: NDArray[np.float64],
    window_s: float,
    windows: int,
) -> WorkingSet:
    """Return the working sets of complete windows; later requests are ignored."""
    numbers = (arrived_s / window_s).astype(np.int64)
    mask = numbers < windows
    found = unique_bytes(begins[mask], ends[mask], numbers[mask], windows)
    return WorkingSet(
        window_s=window_s,
        windows=windows,
        mean_bytes=float(found.mean()),
        max_bytes=int(found.max()),
    )


def _so_far(
    begins: NDArray[np.int64], ends: NDArray[np.int64], numbers: NDArray[np.int64]
) -> list[int]:
    """Return the distinct bytes up to the end of each window."""
    if not len(begins):
        return [0] * CHART_WINDOWS
    found, kept_begins, kept_ends = [], begins[:0], ends[:0]
    for window in range(CHART_WINDOWS):
        first, end = np.searchsorted(numbers, [window, window + 1])
        kept_begins, kept_ends = _union(
            np.concatenate((kept_begins, begins[first:end])),
            np.concatenate((kept_ends, ends[first:end])),
        )
        found.append(int((kept_ends - kept_begins).sum()))
    return found


def _union(
    begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the union of ranges as disjoint ranges, in order."""
    if not len(begins):
        return begins, ends
    order = np.argsort(begins, kind="stable")
    begins, highest = begins[order], np.maximum.accumulate(ends[order])
    apart = np.concatenate(([True], begins[1:] > highest[:-1]))
    firsts = np.flatnonzero(apart)
    return begins[firsts], highest[np.concatenate((firsts[1:] - 1, [len(begins) - 1]))]
