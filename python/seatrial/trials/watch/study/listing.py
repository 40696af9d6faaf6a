"""The requests of a recording as they are sent to another target.

The rule for offsets: the devices of a recording follow each other on the target, each as long as
its furthest request, rounded up to 1 MiB. If all of them fit, offsets within a device are kept.
Else they wrap: an offset is taken modulo the size of the target, and a request that would cross its
end is moved to just before it. Offsets and lengths are extended to whole logical blocks of the
target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.lazy import np
from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.analysis.load.mix import latencies_ns, percentiles_ns
from seatrial.trials.watch.recording import Recording, read
from seatrial.units import MIB

if TYPE_CHECKING:
    from numpy.typing import NDArray

SENT: Final = {"read": 0, "write": 1, "flush": 2}
"""Operations that are sent, and their numbers in the engine's list (docs/engine.md)."""
_NOT_SENT: Final = {"discard": "discards", "other": "zeroing and other requests"}
RECORD: Final = [
    ("due_ns", "<u8"),
    ("offset_bytes", "<u8"),
    ("length_bytes", "<u4"),
    ("others_max", "<u4"),
    ("operation", "u1"),
    ("padding", "V7"),
]
"""Fields of a record of the engine's list, as numpy has them."""
OTHERS_MAX: Final = _core.DEPTH_MAX - 1
"""Where concurrency is not limited by the recording."""
_DUE_STEPS_MAX: Final = 200
_DUE_STEP_S_MIN: Final = 0.1


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a replay.

    Attributes:
        speed: Recorded time over time of the replay; 0 for as fast as possible.
        device: The only device whose requests are sent; empty for all.
        size_bytes: Size of the target.
        block_bytes: Its logical block.
    """

    speed: float
    device: str = ""
    size_bytes: int
    block_bytes: int


class RecordedOperation(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded requests of an operation.

    Attributes:
        requests: Their number.
        transferred_bytes: Their bytes, as recorded.
        latency_ns: Percentiles of queue time and device time together, by name (``p50`` ...
            ``p99.9``, ``p100``); without those that need more requests.
    """

    requests: int
    transferred_bytes: int
    latency_ns: dict[str, int] = {}


class SentRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a recording that a replay sends.

    Attributes:
        operations: By operation (``read``, ``write``, ``sync``).
        span_s: Time from the first to the last request of the replay; 0 at full speed.
        recorded_span_s: The same, as recorded.
        length_bytes_max: Longest request.
        total_bytes: Bytes of all requests, extended to whole blocks.
        written_bytes: Those of writes among them.
        others_max: Most requests that are in flight when another is sent; by the recording if it
            has latencies.
        extent_bytes: End of the last device on a target that is large enough.
        wrapped: Requests with another offset, because the target is smaller.
        extended: Requests that were extended to whole blocks.
        left_out: Requests that are not sent, by reason.
        keeps_dependence: Whether each request waits for as many completions as in the recording.
        due_step_s: Length of a step of ``due_counts``; 0 at full speed.
        due_counts: How many requests are due by the end of each step.
    """

    operations: dict[str, RecordedOperation]
    span_s: float
    recorded_span_s: float
    length_bytes_max: int
    total_bytes: int
    written_bytes: int
    others_max: int
    extent_bytes: int
    wrapped: int
    extended: int
    left_out: dict[str, int]
    keeps_dependence: bool
    due_step_s: float
    due_counts: list[int]

    @property
    def requests(self) -> int:
        """How many requests are sent."""
        return sum(each.requests for each in self.operations.values())


@dataclass(frozen=True, eq=False)
class Listing:
    """The list for the engine, and its summary.

    Attributes:
        records: Structured array of :data:`RECORD`, shape (requests,), in the order of sending.
        sent: Summary of the requests.
    """

    records: NDArray[np.void]
    sent: SentRequests


def listing_of(path: Path, rules: Rules) -> Listing:
    """Return the list of a recording's requests.

    Raises:
        SeatrialError: where the recording cannot be read (:func:`recording.read`).
    """
    about = path.stat()
    return _listing(path, about.st_mtime_ns, about.st_size, rules)


@lru_cache(maxsize=2)
def _listing(path: Path, changed_ns: int, size_bytes: int, rules: Rules) -> Listing:
    del changed_ns, size_bytes  # a changed file is another one
    return requests_of(read(path), rules)


def requests_of(recording: Recording, rules: Rules) -> Listing:
    """Return the list of the requests of a recording."""
    kept, left_out = _chosen(recording, rules)
    start, end, extent_bytes = _extended(recording, kept, rules.block_bytes)
    lengths = end - start
    fits = lengths <= rules.size_bytes
    if not fits.all():
        left_out["longer than the target"] = int((~fits).sum())
        kept, start, lengths = kept[fits], start[fits], lengths[fits]
    offsets, wrapped = _fitted(start, lengths, extent_bytes, rules)
    arrived_ns = recording.arrived_ns[kept]
    arrived_ns = arrived_ns - (arrived_ns[0] if len(arrived_ns) else 0)
    operations = _operation_numbers(recording)[kept]
    others, keeps_dependence = _others(recording, kept, rules)
    records = np.zeros(len(kept), dtype=RECORD)
    records["due_ns"] = arrived_ns / rules.speed if rules.speed else 0
    records["offset_bytes"] = np.where(operations == SENT["flush"], 0, offsets)
    records["length_bytes"] = lengths
    records["others_max"] = others
    records["operation"] = operations
    whole = recording.offset_bytes[kept] % rules.block_bytes == 0
    whole &= recording.length_bytes[kept] % rules.block_bytes == 0
    span_s = float(records["due_ns"][-1] / 1e9) if len(kept) else 0.0
    step_s, due_counts = _due(records["due_ns"], span_s) if rules.speed else (0.0, [])
    sent = SentRequests(
        operations=_recorded(recording, kept, operations),
        span_s=span_s,
        recorded_span_s=float(arrived_ns[-1] / 1e9) if len(kept) else 0.0,
        length_bytes_max=int(lengths.max(initial=0)),
        total_bytes=int(lengths.sum()),
        written_bytes=int(lengths[operations == SENT["write"]].sum()),
        others_max=int(others.max(initial=0)) if keeps_dependence else OTHERS_MAX,
        extent_bytes=extent_bytes,
        wrapped=wrapped,
        extended=int((~whole & (operations != SENT["flush"])).sum()),
        left_out=left_out,
        keeps_dependence=keeps_dependence,
        due_step_s=step_s,
        due_counts=due_counts,
    )
    return Listing(records, sent)


def _chosen(recording: Recording, rules: Rules) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Return the indices of requests that are sent, and why others are not."""
    left_out: dict[str, int] = {}
    is_kept = np.ones(recording.requests, dtype=bool)
    if rules.device:
        known = [each.name for each in recording.about.devices]
        is_of_device = recording.device == (
            known.index(rules.device) if rules.device in known else -1
        )
        _leave_out(left_out, "of other devices", is_kept & ~is_of_device)
        is_kept &= is_of_device
    for name in OPERATIONS:
        if name not in SENT:
            is_other = is_kept & recording.is_operation(name)
            _leave_out(left_out, _NOT_SENT.get(name, name), is_other)
            is_kept &= ~is_other
    is_empty = (recording.length_bytes <= 0) & ~recording.is_operation("flush")
    _leave_out(left_out, "without data", is_kept & is_empty)
    return np.flatnonzero(is_kept & ~is_empty), left_out


def _leave_out(left_out: dict[str, int], reason: str, which: NDArray[np.bool_]) -> None:
    if count := int(which.sum()):
        left_out[reason] = count


def _operation_numbers(recording: Recording) -> NDArray[np.uint8]:
    """Return the engine's number of each request's operation; 255 if it is not sent."""
    numbers = [SENT.get(name, 255) for name in _core.WATCHED_OPERATIONS]
    return np.array(numbers, dtype=np.uint8)[recording.operation]


def _extended(
    recording: Recording, kept: NDArray[np.int64], block_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return start and end of each request in whole blocks, devices one after another."""
    offset, length = recording.offset_bytes[kept], recording.length_bytes[kept]
    is_flush = _operation_numbers(recording)[kept] == SENT["flush"]
    length = np.where(is_flush, 0, length)
    device = recording.device[kept]
    base = np.zeros(len(recording.about.devices) + 1, dtype=np.int64)
    for number in range(len(recording.about.devices)):
        own = (device == number) & ~is_flush
        furthest = int((offset + length)[own].max(initial=0))
        base[number + 1] = base[number] + -(-furthest // MIB) * MIB
    start = (base[device] + offset) // block_bytes * block_bytes
    end = -(-(base[device] + offset + length) // block_bytes) * block_bytes
    return start, np.where(is_flush, start, end), int(base[-1])


def _fitted(
    start: NDArray[np.int64], lengths: NDArray[np.int64], extent_bytes: int, rules: Rules
) -> tuple[NDArray[np.int64], int]:
    """Return the offset of each request on the target, and how many of them wrap."""
    size_bytes = rules.size_bytes // rules.block_bytes * rules.block_bytes
    if extent_bytes <= size_bytes:
        return start, 0
    offsets = np.minimum(start % max(size_bytes, rules.block_bytes), size_bytes - lengths)
    return offsets, int((offsets != start).sum())


def _others(
    recording: Recording, kept: NDArray[np.int64], rules: Rules
) -> tuple[NDArray[np.int64], bool]:
    """Return how many others may be in flight when each request is sent.

    At full speed a request waits for as many completions as there had been when it arrived, so that
    it still follows a completion that it depended on.
    """
    free = np.full(len(kept), OTHERS_MAX, dtype=np.int64)
    device_ns = recording.device_ns[kept]
    if rules.speed or not recording.about.knows_device or (device_ns < 0).any():
        return free, False
    arrived_ns = recording.arrived_ns[kept]
    ended_ns = arrived_ns + np.maximum(recording.queue_ns[kept], 0) + device_ns
    ended_before = np.searchsorted(np.sort(ended_ns), arrived_ns, side="right")
    in_flight = np.arange(len(kept)) - ended_before
    return np.clip(in_flight, 0, OTHERS_MAX), True


def _due(due_ns: NDArray[np.uint64], span_s: float) -> tuple[float, list[int]]:
    """Return the length of a step (s), and how many requests are due by the end of each."""
    steps = min(_DUE_STEPS_MAX, math.floor(span_s / _DUE_STEP_S_MIN) + 1)
    step_s = math.ceil(span_s / steps / _DUE_STEP_S_MIN + 1e-9) * _DUE_STEP_S_MIN
    ends_ns = step_s * 1e9 * np.arange(1, math.floor(span_s / step_s) + 2)
    return step_s, [int(each) for each in np.searchsorted(due_ns, ends_ns)]


def _recorded(
    recording: Recording, kept: NDArray[np.int64], operations: NDArray[np.uint8]
) -> dict[str, RecordedOperation]:
    """Return the recorded requests of each operation that is sent, by its name in a sample."""
    found = {}
    for name, number in (("read", 0), ("write", 1), ("sync", 2)):
        own = kept[operations == number]
        if not len(own):
            continue
        latency_ns = latencies_ns(recording)[own]
        is_known = recording.about.knows_device and bool((latency_ns >= 0).all())
        found[name] = RecordedOperation(
            requests=len(own),
            transferred_bytes=int(recording.length_bytes[own].sum()),
            latency_ns=percentiles_ns(latency_ns) if is_known else {},
        )
    return found
