"""Predicts caches for a recorded load: curves by size, and tiers at the recorded times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial import _core
from seatrial.published import Amount, Count, one_of
from seatrial.trials.cache.analysis.accesses import Accesses, accesses_of
from seatrial.trials.cache.analysis.clients import ClosedLoop, closed_loop
from seatrial.trials.cache.analysis.curves import (
    BEST,
    PolicyCurve,
    curve_of,
    curve_sizes_bytes,
    merged_curves,
)
from seatrial.trials.cache.analysis.money import CacheCost, MemoryOnlyCache, Prices, costs_of
from seatrial.trials.cache.analysis.simulations import Runner, Simulation, on_this_machine
from seatrial.trials.cache.analysis.tiers import (
    CacheConfiguration,
    CacheTiers,
    ServiceTimes,
    quantile_times,
    tiers_of,
)
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.analysis.load.mix import latencies_ns
from seatrial.trials.watch.recording import TIME

if TYPE_CHECKING:
    from seatrial.trials.watch.recording import Recording

_LRU: Final = "lru"
_HALVINGS: Final = 4


class CachePrediction(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted effect of caches on a recorded load.

    Attributes:
        method: ``exact``, or ``sampled`` by a hash of the blocks' numbers.
        sampled_share: Share of the blocks in each sample; 1 where it is exact.
        block_bytes: Unit of caching.
        accesses: Accesses of reads and writes to blocks.
        reads: Accesses of reads.
        unique_bytes: Size of all blocks that are accessed.
        seconds: Length of the recording.
        repeated_share: Share of the reads whose block was accessed before: the upper limit of any
            cache.
        policy: Policy of memory.
        device_kind: Kind of the cache device.
        curves: For the policy, for LRU and for the best possible one.
        tiers: For each size of memory and of the device; empty where times are made up.
        costs: Cost of the tiers with a known price.
        tariff: Prices and their origin.
        knows_disk_times: Whether the recording has the times that reads took.
        knows_device_times: Whether read times of the cache device are given.
        stream_bytes_max: Length from which the cache device leaves sequential streams to the
            storage; null if it has no such rule.
        stream_share: Share of the reads that are part of such a stream.
        clients: Clients that send the load, each of which waits for its reads; null where
            requests come at their recorded times.
        other_ns: Think time of such a client between two block accesses (ns).
    """

    method: Annotated[str, one_of("exact", "sampled")]
    sampled_share: Amount
    block_bytes: Count
    accesses: Count
    reads: Count
    unique_bytes: Count
    seconds: Amount
    repeated_share: Amount
    policy: str
    device_kind: str
    curves: list[PolicyCurve]
    tiers: list[CacheTiers]
    costs: list[CacheCost]
    tariff: Prices
    knows_disk_times: bool
    knows_device_times: bool
    stream_bytes_max: Count | None = None
    stream_share: Amount = 0.0
    clients: Count | None = None
    other_ns: Amount | None = None


class PredictionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a prediction.

    Attributes:
        memory_bytes: Sizes of memory; empty for some that fit the load.
        device_bytes: Sizes of the cache device; 0 is none.
        policy: Policy of memory.
        device_kind: Kind of the cache device.
        block_bytes: Unit of caching.
        device_ns: Sample of read latencies of the cache device; empty if unknown.
        tariff: The prices.
        clients: Clients that sent the load, each of which waits for its reads; None for the
            recorded times.
        device_servers: Reads that the cache device serves at once; 0 for no limit.
    """

    memory_bytes: Sequence[int]
    device_bytes: Sequence[int]
    policy: str
    device_kind: str
    block_bytes: int
    device_ns: Sequence[int] = ()
    tariff: Prices = Prices()
    clients: int | None = None
    device_servers: int = 0


def predict(
    recording: Recording, request: PredictionRequest, run: Runner = on_this_machine
) -> CachePrediction | None:
    """Predict caches for a recorded load; None if it has no read.

    Args:
        recording: The load.
        request: The parameters.
        run: Runs the simulations.

    Raises:
        TooFewClientsError: if so few clients cannot have sent the load.
        ValueError: if there is no such policy or kind of device, or times that clients need are
            unknown.
    """
    accesses = accesses_of(recording, request.block_bytes)
    if accesses is None:
        return None
    memory_bytes = list(request.memory_bytes) or default_sizes_bytes(accesses.unique_bytes)
    sizes = curve_sizes_bytes(accesses, [each for each in memory_bytes if each])
    policies = list(dict.fromkeys((request.policy, _LRU, BEST)))
    endless = curve_of(accesses, _LRU, [accesses.unique_bytes * 2]).points[0].share
    seconds = length_s(recording)
    is_read = recording.is_operation("read")
    known_ns = latencies_ns(recording)[is_read]
    times = ServiceTimes(
        disk_ns=quantile_times(known_ns[known_ns >= 0]),
        device_ns=quantile_times(list(request.device_ns)),
    )

    loop = _loop(accesses, request, times, int(is_read.sum()), seconds)

    def tiers_with(memory: int, device: int) -> Simulation:
        configuration = CacheConfiguration(
            policy=request.policy,
            kind=request.device_kind,
            memory_bytes=memory,
            device_bytes=device,
        )
        return tiers_of, (configuration, times, seconds, loop)

    devices = () if TIME in recording.about.made_up else request.device_bytes or (0,)
    pairs = [tiers_with(memory, device) for memory in memory_bytes for device in devices]
    points = [(curve_of, (policy, part)) for policy in policies for part in _parts(policy, sizes)]
    # Simulations of tiers take longest and go first.
    found = run(accesses, [*pairs, *points])
    tiers: list[CacheTiers] = found[: len(pairs)]
    curves = merged_curves(found[len(pairs) :])

    def disk_share(size_bytes: int) -> float:
        function, arguments = tiers_with(size_bytes, 0)
        share: float = function(accesses, *arguments).disk_share
        return share

    alone = MemoryOnlyCache(sizes, disk_share)
    kinds = {each.name: each.stream_bytes_max for each in _core.cache_devices()}
    stream_bytes_max = kinds.get(request.device_kind)
    reads_per_s = int(is_read.sum()) / seconds if seconds else 0.0
    return CachePrediction(
        method="exact" if accesses.share >= 1 else "sampled",
        sampled_share=accesses.share,
        block_bytes=accesses.block_bytes,
        accesses=accesses.accesses,
        reads=accesses.reads,
        unique_bytes=accesses.unique_bytes,
        seconds=seconds,
        repeated_share=endless,
        policy=request.policy,
        device_kind=request.device_kind,
        curves=curves,
        tiers=tiers,
        costs=costs_of(tiers, alone, reads_per_s, request.tariff),
        tariff=request.tariff,
        knows_disk_times=bool(times.disk_ns),
        knows_device_times=bool(times.device_ns),
        stream_bytes_max=stream_bytes_max,
        stream_share=accesses.stream_share(stream_bytes_max) if stream_bytes_max else 0.0,
        clients=request.clients,
        other_ns=loop.think_ns if loop else None,
    )


def _loop(
    accesses: Accesses, request: PredictionRequest, times: ServiceTimes, reads: int, seconds: float
) -> ClosedLoop | None:
    """Return the clients of a prediction; None where requests come at their recorded times."""
    if request.clients is None:
        return None
    if not times.disk_ns or not seconds:
        raise ValueError("the recording has no read latencies")
    if any(request.device_bytes) and not times.device_ns:
        raise ValueError("the read latency of the SSD is unknown")
    return closed_loop(
        clients=request.clients,
        accesses_per_s=accesses.accesses / seconds,
        read_share=accesses.reads / accesses.accesses,
        accesses_per_read=accesses.reads / reads,
        read_ns_mean=sum(times.disk_ns) / len(times.disk_ns),
        device_servers=request.device_servers,
    )


def _parts(policy: str, sizes_bytes: list[int]) -> list[list[int]]:
    """Return groups of sizes to simulate together: LRU needs one pass for all sizes."""
    return [sizes_bytes] if policy == _LRU else [[each] for each in sizes_bytes]


def default_sizes_bytes(unique_bytes: int) -> list[int]:
    """Return powers of two up to the first with room for all blocks."""
    largest = 1 << max(12, (unique_bytes - 1).bit_length())
    return [largest >> halved for halved in range(_HALVINGS, -1, -1)]
