"""A load over time: requests and bytes per second, by slot."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from seatrial.errors import UsageError
from seatrial.lazy import np
from seatrial.trials.watch.analysis.activity import TRANSFERS
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.analysis.load.sequential import sequentiality_of
from seatrial.trials.watch.recording import ADDRESS, TIME
from seatrial.units import DAY_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seatrial.catalogue.volumes import Bucket
    from seatrial.trials.watch.recording import Recording

SLOT_S: Final = 60.0
SLOTS_MIN: Final = 10
"""A shorter recording has shorter slots,"""
SLOT_S_MIN: Final = 1.0
"""but none below a second: limits count per second, and Linux's throttle serves them in bursts."""
SLICE_S: Final = 0.01
"""Time slice of limits (assumed: no provider states it)."""
DAY_SLOT_S: Final = 30.0
SLOTS_MAX: Final = 3000
"""Slots of a load that is simulated once: a longer one has longer slots."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit of storage that a load has to keep.

    Attributes:
        subject: What has the limit, such as ``instance r7i.large``.
        quantity: ``IOPS`` or ``throughput``.
        per_s: Rate without burst credits.
        bucket: Its burst; None without one.
        operation: ``read`` or ``write`` if only these count; empty for both.
        unit_bytes: Size that counts as one request; 0 for any size.
        merges: Whether sequential requests are merged into units; bytes then count in units, too.
        writes_cost: Cost of a write in reads, or of a byte written in bytes read; 1 except for
            local disks and arrays.
        reads_share: Share of the reads that reach it; below 1 behind a cache.
        slice_s: Length of its time slices: the amount of a slice may be used at once, and the
            next request waits for the next slice.
    """

    subject: str
    quantity: str
    per_s: float
    bucket: Bucket | None = None
    operation: str = ""
    unit_bytes: int = 0
    merges: bool = False
    writes_cost: float = 1.0
    reads_share: float = 1.0
    slice_s: float = SLICE_S


@dataclass(frozen=True, kw_only=True)
class Demand:
    """A load by slot, all slots of one length; it repeats after the last one.

    Attributes:
        origin: ``recorded``, ``measured`` or ``typed``, and of what.
        slot_s: Length of a slot (s).
        reads_per_s: Shape (slots,), as all.
        writes_per_s: See above.
        read_bytes_per_s: See above.
        write_bytes_per_s: See above.
        reads_random_share: Share of the reads that do not continue an earlier one.
        writes_random_share: Likewise.
    """

    origin: str
    slot_s: float
    reads_per_s: NDArray[np.float64]
    writes_per_s: NDArray[np.float64]
    read_bytes_per_s: NDArray[np.float64]
    write_bytes_per_s: NDArray[np.float64]
    reads_random_share: float = 1.0
    writes_random_share: float = 1.0

    @property
    def seconds(self) -> float:
        """Its length (s), after which it repeats."""
        return self.slot_s * len(self.reads_per_s)

    @property
    def requests_per_s(self) -> NDArray[np.float64]:
        """Reads and writes, by slot."""
        return self.reads_per_s + self.writes_per_s

    @property
    def bytes_per_s(self) -> NDArray[np.float64]:
        """Bytes read and written, by slot."""
        return self.read_bytes_per_s + self.write_bytes_per_s

    @property
    def mean_write_bytes(self) -> float:
        """Mean size of a write; 0 without any."""
        writes = float(self.writes_per_s.sum())
        return float(self.write_bytes_per_s.sum()) / writes if writes else 0.0

    def counted_by(self, limit: Limit) -> NDArray[np.float64]:
        """Return the load that a limit counts, by slot: less behind a cache, more on an array.

        A request above ``unit_bytes`` counts once for each of them.
        """
        if limit.quantity == "throughput" and not limit.merges:
            reads, writes = self.read_bytes_per_s, self.write_bytes_per_s
        else:
            reads, writes = self.reads_per_s, self.writes_per_s
            if limit.merges:
                reads = reads * self.reads_random_share
                writes = writes * self.writes_random_share
            if limit.unit_bytes:
                reads = np.maximum(reads, self.read_bytes_per_s / limit.unit_bytes)
                writes = np.maximum(writes, self.write_bytes_per_s / limit.unit_bytes)
            if limit.quantity == "throughput":
                reads, writes = reads * limit.unit_bytes, writes * limit.unit_bytes
        if limit.operation == "read":
            return reads * limit.reads_share
        if limit.operation == "write":
            return writes * limit.writes_cost
        return reads * limit.reads_share + writes * limit.writes_cost

    def stretched(self, factor: float, origin: str) -> Demand:
        """Return the same requests spread over a longer time."""
        slower = self._mapped(lambda per_s: per_s / factor, self.slot_s * factor)
        return replace(slower, origin=origin)

    def in_slots_of(self, slot_s: float) -> Demand:
        """Return the load in equal slots of at least this length, each the mean of its time."""
        count = max(1, int(self.seconds / slot_s + 1e-9))
        if count >= len(self.reads_per_s):
            return self
        return self._mapped(lambda per_s: means_in_slots(per_s, count), self.seconds / count)

    def for_simulation(self) -> tuple[Demand, Demand]:
        """Return the load in fine slots, once, and in coarser ones repeated for at least a day.

        The first shows peaks that exceed a burst, the second how long credits last.
        """
        fine = self.in_slots_of(self.seconds / SLOTS_MAX)
        coarse = self.in_slots_of(DAY_SLOT_S)
        # Of a load shorter than a slot, only the mean counts over a day.
        slot_s = max(coarse.slot_s, DAY_SLOT_S)
        times = math.ceil(DAY_S / (slot_s * len(coarse.reads_per_s)))
        return fine, coarse._mapped(lambda per_s: np.tile(per_s, times), slot_s)

    def _mapped(
        self, function: Callable[[NDArray[np.float64]], NDArray[np.float64]], slot_s: float
    ) -> Demand:
        return replace(
            self,
            slot_s=slot_s,
            reads_per_s=function(self.reads_per_s),
            writes_per_s=function(self.writes_per_s),
            read_bytes_per_s=function(self.read_bytes_per_s),
            write_bytes_per_s=function(self.write_bytes_per_s),
        )


def means_in_slots(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the means of values in fewer slots, all of one length; the mean stays what it was."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    edges = np.linspace(0, len(values), count + 1)
    return np.diff(np.interp(edges, np.arange(len(sums)), sums)) * (count / len(values))


def slot_length_s(seconds: float) -> float:
    """Return the length of slots: a minute, or a tenth of a short load, at least 1 s (s)."""
    return min(SLOT_S, max(SLOT_S_MIN, seconds / SLOTS_MIN))


def demand_of_recording(recording: Recording, name: str) -> Demand:
    """Return the load of a recording, all devices together.

    Raises:
        UsageError: when it has no times, or no reads and writes.
    """
    seconds = length_s(recording)
    if TIME in recording.about.made_up or not recording.is_operation(*TRANSFERS).any():
        raise UsageError(
            seen=f"{name} has no reads and writes over time",
            cause="A load over time is needed, as credits are spent and earned over time",
            next_step="Record one: `seatrial watch --record FILE`",
        )
    slots = max(1, math.ceil(seconds / slot_length_s(seconds) - 1e-9))
    # All slots are of one length, so that none is only partly recorded.
    slot_s = seconds / slots
    slot_of = np.minimum((recording.arrived_ns / 1e9 / slot_s).astype(np.int64), slots - 1)

    def per_s(operation: str, weights: NDArray[np.int64] | None) -> NDArray[np.float64]:
        is_operation = recording.is_operation(operation)
        weight = None if weights is None else weights[is_operation]
        return np.bincount(slot_of[is_operation], weight, slots)[:slots] / slot_s

    flushes_per_s = int(recording.is_operation("flush").sum()) / seconds
    without = f", without {flushes_per_s:,.0f} flushes per second" if flushes_per_s >= 1 else ""
    is_known = ADDRESS not in recording.about.made_up
    random_share = {
        each.operation: 1 - each.sequential / each.requests
        for each in (sequentiality_of(recording) if is_known else ())
    }
    return Demand(
        origin=f"recorded, {name}{without}",
        slot_s=slot_s,
        reads_per_s=per_s("read", None),
        writes_per_s=per_s("write", None),
        read_bytes_per_s=per_s("read", recording.length_bytes),
        write_bytes_per_s=per_s("write", recording.length_bytes),
        reads_random_share=random_share.get("read", 1.0),
        writes_random_share=random_share.get("write", 1.0),
    )


def constant_demand(
    origin: str, reads_per_s: float, writes_per_s: float, size_bytes: float
) -> Demand:
    """Return a load that does not change, of requests of one size, for a day."""
    slots = int(DAY_S / SLOT_S)
    reads, writes = np.full(slots, float(reads_per_s)), np.full(slots, float(writes_per_s))
    return Demand(
        origin=origin,
        slot_s=SLOT_S,
        reads_per_s=reads,
        writes_per_s=writes,
        read_bytes_per_s=reads * size_bytes,
        write_bytes_per_s=writes * size_bytes,
    )
