"""What one recorded replay says of every size of shared buffers, and how far a check was off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from seatrial.published import Amount, Count, one_of
from seatrial.stats.estimate import t_of
from seatrial.trials.cache.analysis.closed_loop import Storage, operations_per_s, scaled_to
from seatrial.trials.cache.analysis.references import PAGE_BYTES, Buffers, References, Simulated
from seatrial.units import MIB

POINTS: Final = 16
RELATIONS_MAX: Final = 12
FITS_POINTS: Final = 0.01
"""A table fits where no larger size serves so much more of its accesses."""
_PARTS_MIN: Final = 3
_STEEP: Final = (2 / 3, 1 / 3)
"""Sizes that are checked leave so much of what can be saved."""


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What shared buffers of a size would do.

    Attributes:
        buffers_bytes: Their size.
        hit_share: Share of the page accesses that they serve.
        hit_low: Lower end of what the recording leaves open, as it does not have the accesses that
            the smallest buffers served; and of the 95 % interval over samples of the pages, if any.
        hit_high: Upper end.
        reads_per_operation: Pages read for a transaction or statement.
        per_s: Transactions or statements a second.
        per_s_low: Lower end of the 95 % interval.
        per_s_high: Upper end.
    """

    buffers_bytes: Count
    hit_share: Amount
    hit_low: Amount
    hit_high: Amount
    reads_per_operation: Amount
    per_s: Amount
    per_s_low: Amount
    per_s_high: Amount


class RelationCurve(msgspec.Struct, frozen=True, kw_only=True):
    """What shared buffers of each size of the curve would serve of a table or index.

    Attributes:
        name: Its name.
        size_bytes: Its size.
        accesses: Accesses of its pages, as the server counted them.
        hit_shares: Share of them that is served, by size of the buffers as in the curve.
        fits_bytes: Size from which on hardly more is served; null if the largest still gains.
    """

    name: str
    size_bytes: Count
    accesses: Count
    hit_shares: list[Amount]
    fits_bytes: Count | None


class MemoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What the page cache of the system would serve behind the present shared buffers.

    Attributes:
        memory_bytes: Its size.
        served_share: Share of the reads of the shared buffers, by what was read ahead included.
    """

    memory_bytes: Count
    served_share: Amount


class SweepCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A size that was really run.

    Attributes:
        buffers_bytes: The size.
        predicted_hit_share: As predicted before.
        measured_hit_share: As the server counted.
        hit_error_points: Predicted less measured, in percentage points.
        predicted_reads_per_operation: Pages read for a transaction or statement.
        measured_reads_per_operation: As the server counted.
        predicted_per_s: Transactions or statements a second.
        predicted_low: Lower end of its 95 % interval.
        predicted_high: Upper end.
        measured_per_s: As measured.
        measured_low: Lower end of the 95 % interval over parts of the replay; null if it was too
            short for parts.
        measured_high: Upper end.
        rate_error_share: Predicted over measured, less 1.
    """

    buffers_bytes: Count
    predicted_hit_share: Amount
    measured_hit_share: Amount
    hit_error_points: float
    predicted_reads_per_operation: Amount
    measured_reads_per_operation: Amount
    predicted_per_s: Amount
    predicted_low: Amount
    predicted_high: Amount
    measured_per_s: Amount
    measured_low: Amount | None
    measured_high: Amount | None
    rate_error_share: float


class CacheSweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one recorded replay says of every size.

    Attributes:
        load: What was played.
        server: Its name and version.
        unit: What operations are.
        operations: Those that were counted, after the warm-up.
        seconds: How long they took with the smallest buffers.
        sessions: That played at once, on average.
        smallest_bytes: The smallest buffers, which were recorded.
        present_bytes: The present size, which is marked.
        accesses: Page accesses, as the server counted them.
        data_bytes: Size of the tables and indexes.
        method: ``exact``, or ``sampled`` by a hash of the pages' numbers.
        read_ms: Mean wait for a page in the recorded replay.
        reads_ms_per_operation: Wait for pages per operation.
        writes_ms_per_operation: Wait for changed pages that make room.
        other_ms_per_operation: The rest: processor time, commits, locks.
        processor_ms_per_operation: Processor time of server and clients, part of the rest.
        scan_share: Share of the reads through the ring of a large scan, which is not simulated.
        lost_share: Share of the pages that the server read and the recording does not have.
        storage_reads_per_s: What the storage serves of random page reads at most.
        curve: By size.
        relations: Those with the most reads, the most first.
        behind: The page cache behind the present buffers, by size.
        read_ahead_bytes: Most that it reads ahead of a file; 0 where samples are simulated.
        checks: Sizes that were really run.
    """

    load: str
    server: str
    unit: Annotated[str, one_of("transactions", "statements")]
    operations: Count
    seconds: Amount
    sessions: Amount
    smallest_bytes: Count
    present_bytes: Count
    accesses: Count
    data_bytes: Count
    method: Annotated[str, one_of("exact", "sampled")]
    read_ms: Amount
    reads_ms_per_operation: Amount
    writes_ms_per_operation: Amount
    other_ms_per_operation: Amount
    processor_ms_per_operation: Amount
    scan_share: Amount
    lost_share: Amount
    storage_reads_per_s: Amount
    curve: list[SweepPoint]
    relations: list[RelationCurve]
    behind: list[MemoryPoint]
    read_ahead_bytes: Count
    checks: list[SweepCheck] = []


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What the recorded replay measured besides its requests.

    Attributes:
        operations: Counted.
        seconds: How long they took.
        sessions: At once.
        hits: Pages found in shared buffers.
        reads: Pages read.
        read_s: Wait for these, of all sessions.
        writes: Changed pages written to make room.
        write_s: Wait for these.
        cpu_s: Processor time of server and clients.
        rates_per_s: Operations a second in parts.
        storage_per_s: Random page reads a second that the storage serves alone, for one client and
            for more and more of them.
        variation: Variance of the time of one of these for one client, over the square of its mean.
    """

    operations: int
    seconds: float
    sessions: float
    hits: int
    reads: int
    read_s: float
    writes: int
    write_s: float
    cpu_s: float
    rates_per_s: Sequence[float]
    storage_per_s: Sequence[float]
    variation: float

    @property
    def cycle_s(self) -> float:
        """Time of an operation of a session."""
        return self.sessions * self.seconds / self.operations

    @property
    def rest_s(self) -> float:
        """Time of an operation without waits for pages; at least a hundredth of it."""
        waits_s = (self.read_s + self.write_s) / self.operations
        return max(self.cycle_s - waits_s, self.cycle_s / 100)


class Predictor:
    """Predicts hit ratios and rates at any size from one recorded replay."""

    def __init__(self, references: References, basis: Basis, smallest_bytes: int) -> None:
        """Simulate the recorded size, which all others are compared with.

        Args:
            references: The reference string.
            basis: What was measured besides.
            smallest_bytes: Size of the recorded buffers.
        """
        self.buffers = Buffers(references)
        self.basis = basis
        storage = Storage(
            alone_per_s=basis.storage_per_s[0],
            most_per_s=max(basis.storage_per_s),
            variation=basis.variation,
        )
        reads = basis.reads / basis.operations
        delay_s = basis.rest_s + basis.write_s / basis.operations
        known_per_s = basis.operations / basis.seconds
        self._storage = scaled_to(storage, reads, delay_s, max(1.0, basis.sessions), known_per_s)
        # Requests that the recording does not have are spread like those that it has.
        self._missing = basis.reads / max(1, self.buffers.reads)
        self._smallest_bytes = smallest_bytes
        recorded = self.buffers.of_size(smallest_bytes)
        # Of the changed pages that leave, sessions write as large a share as when recorded.
        self._own_share = basis.writes / max(1.0, float(recorded.write_backs.sum()))

    def of_size(self, buffers_bytes: int) -> Simulated:
        """Return what buffers of a size do: the middle of what is possible.

        When a page was used last is not recorded where the smallest buffers still held it, so it
        seems older by up to as many accesses as these hold pages. A cache that is larger by them
        makes up for all of that, one of the size itself for nothing.
        """
        return self.buffers.of_size(buffers_bytes + self._unseen_bytes(buffers_bytes) // 2)

    def point(self, buffers_bytes: int) -> SweepPoint:
        """Return what shared buffers of a size would do."""
        basis = self.basis
        accesses = max(1, basis.hits + basis.reads)
        most = self.buffers.of_size(buffers_bytes + self._unseen_bytes(buffers_bytes))
        found = [self.of_size(buffers_bytes), self.buffers.of_size(buffers_bytes), most]
        misses = [float(each.misses.sum()) * self._missing for each in found]
        wide = self._half_share(found[0]) * misses[0]
        misses = [misses[0], misses[1] + wide, max(0.0, misses[2] - wide)]
        shares = [_within(1 - each / accesses) for each in misses]
        rates = [self._per_s(count, each) for count, each in zip(misses, found, strict=True)]
        noise = self._noise_share()
        return SweepPoint(
            buffers_bytes=buffers_bytes,
            hit_share=shares[0],
            hit_low=shares[1],
            hit_high=shares[2],
            reads_per_operation=misses[0] / basis.operations,
            per_s=rates[0],
            per_s_low=min(rates) * (1 - noise),
            per_s_high=max(rates) * (1 + noise),
        )

    def _unseen_bytes(self, buffers_bytes: int) -> int:
        """Return by how much a cache of a size may have to be larger, as the recording is."""
        return max(0, min(self._smallest_bytes, buffers_bytes - self._smallest_bytes))

    def _per_s(self, misses: float, found: Simulated) -> float:
        basis = self.basis
        write_s = basis.write_s / max(1, basis.writes)
        write_backs = float(found.write_backs.sum()) * self._own_share
        delay_s = basis.rest_s + write_s * write_backs / basis.operations
        reads = max(0.0, misses) / basis.operations
        return operations_per_s(self._storage, reads, delay_s, max(1.0, basis.sessions))

    def _half_share(self, found: Simulated) -> float:
        return t_of(3) * found.deviation_share / 2

    def _noise_share(self) -> float:
        """Return half the 95 % interval of the recorded rate, as a share of it."""
        known_per_s = self.basis.operations / self.basis.seconds
        ends = interval_per_s(self.basis.rates_per_s, known_per_s)
        return (ends[1] - known_per_s) / known_per_s if ends else 0.0


def interval_per_s(rates_per_s: Sequence[float], whole: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a rate from those of its parts; None of fewer than three."""
    if len(rates_per_s) < _PARTS_MIN:
        return None
    mean = math.fsum(rates_per_s) / len(rates_per_s)
    variance = math.fsum((each - mean) ** 2 for each in rates_per_s) / (len(rates_per_s) - 1)
    half = t_of(len(rates_per_s) - 1) * math.sqrt(variance / len(rates_per_s))
    return max(0.0, whole - half), whole + half


def sizes_bytes(smallest_bytes: int, data_bytes: int, wanted: Sequence[int]) -> list[int]:
    """Return sizes of a curve: evenly spaced by their ratio up to all data, and those wanted."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    largest = max(data_bytes, 2 * smallest_bytes)
    spaced = np.geomspace(smallest_bytes, largest, POINTS)
    rounded = {rounded_bytes(float(each), smallest_bytes) for each in spaced}
    return sorted(rounded | {smallest_bytes} | {each for each in wanted if each >= smallest_bytes})


def rounded_bytes(size_bytes: float, smallest_bytes: int) -> int:
    """Return a size in whole MiB above 16 MiB, and in whole pages below."""
    step = MIB if size_bytes >= 16 * MIB else PAGE_BYTES
    return max(smallest_bytes, math.ceil(size_bytes / step) * step)


def steep_sizes_bytes(curve: Sequence[SweepPoint]) -> list[int]:
    """Return two sizes in the steep part: they leave two and one thirds of what can be saved."""
    first, last = curve[0].reads_per_operation, curve[-1].reads_per_operation
    found = []
    for share in _STEEP:
        wanted = last + (first - last) * share
        found.append(
            next(
                (each.buffers_bytes for each in curve[1:] if each.reads_per_operation <= wanted),
                curve[-1].buffers_bytes,
            )
        )
    return list(dict.fromkeys(found))


def relation_curves(
    references: References,
    simulated: Sequence[tuple[int, Simulated]],
    known: dict[str, tuple[int, int, int]],
) -> list[RelationCurve]:
    """Return the curves of the relations with the most reads.

    Args:
        references: The reference string.
        simulated: What came of each size, the smallest first.
        known: Accesses, reads and size in bytes of each relation, as the server counted them.
    """
    reads = simulated[0][1].misses
    order = sorted(range(len(references.names)), key=lambda place: -float(reads[place]))
    found = []
    for place in order[:RELATIONS_MAX]:
        name = references.names[place]
        if reads[place] <= 0 or name not in known or name.startswith("pg_"):
            continue
        accesses, own_reads, size_bytes = known[name]
        if accesses <= 0:
            continue
        # The counters are of the whole replay, the simulation of its second half.
        scale = own_reads / float(reads[place])
        shares = [
            _within(1 - float(each.misses[place]) * scale / accesses) for _, each in simulated
        ]
        found.append(
            RelationCurve(
                name=name,
                size_bytes=size_bytes,
                accesses=accesses,
                hit_shares=shares,
                fits_bytes=_fits_bytes([size for size, _ in simulated], shares),
            )
        )
    return found


def _fits_bytes(sizes_bytes: Sequence[int], shares: Sequence[float]) -> int | None:
    enough = shares[-1] - FITS_POINTS
    at = next(place for place, share in enumerate(shares) if share >= enough)
    return None if at == len(sizes_bytes) - 1 else sizes_bytes[at]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was measured of a size that was really run.

    Attributes:
        hits: Pages found in shared buffers.
        reads: Pages read.
        operations: Transactions or statements.
        per_s: Their rate.
        rates_per_s: Rates of parts.
    """

    hits: int
    reads: int
    operations: int
    per_s: float
    rates_per_s: Sequence[float]


def check_of(predicted: SweepPoint, run: Run) -> SweepCheck:
    """Return how far a prediction was off."""
    measured_hit = run.hits / max(1, run.hits + run.reads)
    per_s = run.per_s
    ends = interval_per_s(run.rates_per_s, per_s)
    return SweepCheck(
        buffers_bytes=predicted.buffers_bytes,
        predicted_hit_share=predicted.hit_share,
        measured_hit_share=measured_hit,
        hit_error_points=100 * (predicted.hit_share - measured_hit),
        predicted_reads_per_operation=predicted.reads_per_operation,
        measured_reads_per_operation=run.reads / run.operations,
        predicted_per_s=predicted.per_s,
        predicted_low=predicted.per_s_low,
        predicted_high=predicted.per_s_high,
        measured_per_s=per_s,
        measured_low=ends[0] if ends else None,
        measured_high=ends[1] if ends else None,
        rate_error_share=predicted.per_s / per_s - 1,
    )


def behind_of(
    buffers: Buffers, present_bytes: int, memory_bytes: Sequence[int], read_ahead_bytes: int
) -> list[MemoryPoint]:
    """Return what a page cache of each size serves of the reads of the present buffers."""
    reads = max(1.0, float(buffers.of_size(present_bytes).misses.sum()))
    left = [buffers.behind(present_bytes, size, read_ahead_bytes) for size in memory_bytes]
    return [
        MemoryPoint(memory_bytes=size, served_share=_within(1 - float(each.misses.sum()) / reads))
        for size, each in zip(memory_bytes, left, strict=True)
    ]


def _within(share: float) -> float:
    return min(1.0, max(0.0, share))
