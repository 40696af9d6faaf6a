"""Predicts every size of shared buffers from one recorded replay, and compares with checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from seatrial.lazy import np
from seatrial.published import Amount, Count, one_of
from seatrial.stats.cell_estimates import estimate_of_rounds
from seatrial.stats.estimate import t_of
from seatrial.trials.cache.analysis.closed_loop import Storage, calibrated, operations_per_s
from seatrial.trials.cache.analysis.references import (
    PAGE_BYTES,
    BufferSimulator,
    ReferenceString,
    SimulatedBuffers,
)
from seatrial.units import MIB

POINTS: Final = 16
RELATIONS_MAX: Final = 12
FITS_POINTS: Final = 0.01
"""A table fits if no larger size serves this much more of its accesses."""
_PARTS_MIN: Final = 3
_STEEP: Final = (2 / 3, 1 / 3)
"""Share of the avoidable reads that remains at the sizes that are checked."""


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction for a size of shared buffers.

    Attributes:
        buffers_bytes: Their size.
        hit_share: Share of the page accesses that they serve.
        hit_low: Lower end, as accesses that the smallest buffers served are not recorded; with the
            95 % interval over samples of the pages, if any.
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
    """Prediction for a table or index by size of shared buffers.

    Attributes:
        name: Its name.
        size_bytes: Its size.
        accesses: Accesses of its pages, as the server counted them.
        hit_shares: Share of them that is served, by size of the buffers as in the curve.
        fits_bytes: Size beyond which little more is served; null if the largest still gains.
    """

    name: str
    size_bytes: Count
    accesses: Count
    hit_shares: list[Amount]
    fits_bytes: Count | None


class MemoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction for a page cache behind the present shared buffers.

    Attributes:
        memory_bytes: Its size.
        served_share: Share of the reads of the shared buffers that it serves, read-ahead included.
    """

    memory_bytes: Count
    served_share: Amount


class SweepCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction and measurement of a size that was run.

    Attributes:
        buffers_bytes: The size.
        predicted_hit_share: Hit share as predicted before.
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
    """Results of a sweep from one recorded replay.

    Attributes:
        load: Name of the load.
        server: Its name and version.
        unit: Unit of operations.
        operations: Operations after the warm-up.
        seconds: Their time with the smallest buffers.
        sessions: Concurrent sessions, on average.
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
        storage_reads_per_s: Highest rate of random page reads of the storage.
        curve: By size.
        relations: Those with the most reads, the most first.
        behind: The page cache behind the present buffers, by size.
        read_ahead_bytes: Its highest read-ahead of a file; 0 if samples are simulated.
        checks: Sizes that were run.
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
class ReplayMeasurement:
    """Measurements of the recorded replay other than its requests.

    Attributes:
        operations: Counted operations.
        seconds: Their duration.
        sessions: Concurrent sessions.
        hits: Pages found in shared buffers.
        reads: Pages read.
        read_s: Wait for these, of all sessions.
        writes: Changed pages written to make room.
        write_s: Wait for these.
        cpu_s: Processor time of server and clients.
        rates_per_s: Operations a second in parts.
        storage_per_s: Random page reads a second of the storage by itself, by growing number of
            clients.
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

    def __init__(
        self, references: ReferenceString, measurement: ReplayMeasurement, smallest_bytes: int
    ) -> None:
        """Simulate the recorded size, the base of all others.

        Args:
            references: The reference string.
            measurement: What was measured besides.
            smallest_bytes: Size of the recorded buffers.
        """
        self.buffers = BufferSimulator(references)
        self.measurement = measurement
        storage = Storage(
            alone_per_s=measurement.storage_per_s[0],
            most_per_s=max(measurement.storage_per_s),
            variation=measurement.variation,
        )
        reads = measurement.reads / measurement.operations
        delay_s = measurement.rest_s + measurement.write_s / measurement.operations
        measured_per_s = measurement.operations / measurement.seconds
        self._storage = calibrated(
            storage, reads, delay_s, max(1.0, measurement.sessions), measured_per_s
        )
        # Requests that the recording lacks are assumed to be distributed like the others.
        self._missing = measurement.reads / max(1, self.buffers.reads)
        self._smallest_bytes = smallest_bytes
        recorded = self.buffers.of_size(smallest_bytes)
        # Sessions write the recorded share of the dirty pages that leave.
        self._own_share = measurement.writes / max(1.0, float(recorded.write_backs.sum()))

    def of_size(self, buffers_bytes: int) -> SimulatedBuffers:
        """Simulate buffers of a size: the middle of the possible results.

        Hits of the smallest buffers are not recorded, so a page seems older by up to as many
        accesses as these buffers have pages. A cache that is larger by that number compensates
        for all of it, one of the size itself for nothing.
        """
        return self.buffers.of_size(buffers_bytes + self._unseen_bytes(buffers_bytes) // 2)

    def point(self, buffers_bytes: int) -> SweepPoint:
        """Return the prediction for a size of shared buffers."""
        measurement = self.measurement
        accesses = max(1, measurement.hits + measurement.reads)
        most = self.buffers.of_size(buffers_bytes + self._unseen_bytes(buffers_bytes))
        found = [self.of_size(buffers_bytes), self.buffers.of_size(buffers_bytes), most]
        misses = [float(each.misses.sum()) * self._missing for each in found]
        wide = self._half_share(found[0]) * misses[0]
        misses = [misses[0], misses[1] + wide, max(0.0, misses[2] - wide)]
        shares = [_clamped(1 - each / accesses) for each in misses]
        rates = [self._per_s(count, each) for count, each in zip(misses, found, strict=True)]
        low, high = self._scatter_ratios()
        return SweepPoint(
            buffers_bytes=buffers_bytes,
            hit_share=shares[0],
            hit_low=shares[1],
            hit_high=shares[2],
            reads_per_operation=misses[0] / measurement.operations,
            per_s=rates[0],
            per_s_low=min(rates) * low,
            per_s_high=max(rates) * high,
        )

    def _unseen_bytes(self, buffers_bytes: int) -> int:
        """Return the most by which a simulated cache has to be larger (bytes)."""
        return max(0, min(self._smallest_bytes, buffers_bytes - self._smallest_bytes))

    def _per_s(self, misses: float, found: SimulatedBuffers) -> float:
        measurement = self.measurement
        write_s = measurement.write_s / max(1, measurement.writes)
        write_backs = float(found.write_backs.sum()) * self._own_share
        delay_s = measurement.rest_s + write_s * write_backs / measurement.operations
        reads = max(0.0, misses) / measurement.operations
        return operations_per_s(self._storage, reads, delay_s, max(1.0, measurement.sessions))

    def _half_share(self, found: SimulatedBuffers) -> float:
        return t_of(3) * found.deviation_share / 2

    def _scatter_ratios(self) -> tuple[float, float]:
        """Return the ends of the 95 % interval of the recorded rate, as ratios to it."""
        return interval_per_s(self.measurement.rates_per_s, 1.0) or (1.0, 1.0)


def interval_per_s(rates_per_s: Sequence[float], whole: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a rate from those of its parts; None of fewer than three.

    It has the ratios of the interval of the parts to their mean; see `estimate_of_rounds`.
    """
    if len(rates_per_s) < _PARTS_MIN:
        return None
    parts = estimate_of_rounds(rates_per_s, "per_s")
    if parts.low is None or parts.high is None or not parts.value:
        return None
    return whole * parts.low / parts.value, whole * parts.high / parts.value


def sizes_bytes(smallest_bytes: int, data_bytes: int, requested: Sequence[int]) -> list[int]:
    """Return sizes of a curve: geometric steps up to all data, and the requested ones."""
    largest = max(data_bytes, 2 * smallest_bytes)
    spaced = np.geomspace(smallest_bytes, largest, POINTS)
    rounded = {rounded_bytes(float(each), smallest_bytes) for each in spaced}
    return sorted(
        rounded | {smallest_bytes} | {each for each in requested if each >= smallest_bytes}
    )


def rounded_bytes(size_bytes: float, smallest_bytes: int) -> int:
    """Return a size in whole MiB above 16 MiB, and in whole pages below."""
    step = MIB if size_bytes >= 16 * MIB else PAGE_BYTES
    return max(smallest_bytes, math.ceil(size_bytes / step) * step)


def steep_sizes_bytes(curve: Sequence[SweepPoint]) -> list[int]:
    """Return two sizes in the steep part: at two and one thirds of the avoidable reads."""
    first, last = curve[0].reads_per_operation, curve[-1].reads_per_operation
    found = []
    for share in _STEEP:
        requested = last + (first - last) * share
        found.append(
            next(
                (each.buffers_bytes for each in curve[1:] if each.reads_per_operation <= requested),
                curve[-1].buffers_bytes,
            )
        )
    return list(dict.fromkeys(found))


def relation_curves(
    references: ReferenceString,
    simulated: Sequence[tuple[int, SimulatedBuffers]],
    counted: dict[str, tuple[int, int, int]],
) -> list[RelationCurve]:
    """Return the curves of the relations with the most reads.

    Args:
        references: The reference string.
        simulated: Results of each size, the smallest first.
        counted: Accesses, reads and size in bytes of each relation, as the server counted them.
    """
    reads = simulated[0][1].misses
    order = sorted(range(len(references.names)), key=lambda index: -float(reads[index]))
    found = []
    for index in order[:RELATIONS_MAX]:
        name = references.names[index]
        if reads[index] <= 0 or name not in counted or name.startswith("pg_"):
            continue
        accesses, counted_reads, size_bytes = counted[name]
        if accesses <= 0:
            continue
        # The counters are of the whole replay, the simulation of its second half.
        scale = counted_reads / float(reads[index])
        shares = [
            _clamped(1 - float(each.misses[index]) * scale / accesses) for _, each in simulated
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
    enough_share = shares[-1] - FITS_POINTS
    at = next(index for index, share in enumerate(shares) if share >= enough_share)
    return None if at == len(sizes_bytes) - 1 else sizes_bytes[at]


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """Measurements of a size that was run.

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


def check_of(predicted: SweepPoint, measured: MeasuredRun) -> SweepCheck:
    """Compare a prediction with a measurement."""
    measured_hit = measured.hits / max(1, measured.hits + measured.reads)
    per_s = measured.per_s
    ends = interval_per_s(measured.rates_per_s, per_s)
    return SweepCheck(
        buffers_bytes=predicted.buffers_bytes,
        predicted_hit_share=predicted.hit_share,
        measured_hit_share=measured_hit,
        hit_error_points=100 * (predicted.hit_share - measured_hit),
        predicted_reads_per_operation=predicted.reads_per_operation,
        measured_reads_per_operation=measured.reads / measured.operations,
        predicted_per_s=predicted.per_s,
        predicted_low=predicted.per_s_low,
        predicted_high=predicted.per_s_high,
        measured_per_s=per_s,
        measured_low=ends[0] if ends else None,
        measured_high=ends[1] if ends else None,
        rate_error_share=predicted.per_s / per_s - 1,
    )


def page_cache_points(
    buffers: BufferSimulator, present_bytes: int, memory_bytes: Sequence[int], read_ahead_bytes: int
) -> list[MemoryPoint]:
    """Return the prediction for a page cache of each size behind the present buffers."""
    reads = max(1.0, float(buffers.of_size(present_bytes).misses.sum()))
    left = [buffers.behind(present_bytes, size, read_ahead_bytes) for size in memory_bytes]
    return [
        MemoryPoint(memory_bytes=size, served_share=_clamped(1 - float(each.misses.sum()) / reads))
        for size, each in zip(memory_bytes, left, strict=True)
    ]


def _clamped(share: float) -> float:
    return min(1.0, max(0.0, share))
