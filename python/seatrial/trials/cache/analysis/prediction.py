"""What caches would do for a recorded load: curves by size, and tiers at the recorded times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial import _core
from seatrial.published import Amount, Count, one_of
from seatrial.trials.cache.analysis.accesses import Accesses, accesses_of
from seatrial.trials.cache.analysis.clients import Loop, loop_of
from seatrial.trials.cache.analysis.curves import (
    BEST,
    PolicyCurve,
    curve_of,
    curve_sizes_bytes,
    joined,
)
from seatrial.trials.cache.analysis.money import CacheCost, MemoryAlone, Tariff, costs_of
from seatrial.trials.cache.analysis.simulations import Runner, Simulation, on_this_machine
from seatrial.trials.cache.analysis.tiers import CacheTiers, Setting, Times, drawn_times, tiers_of
from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.analysis.load.arrivals import length_s
from seatrial.trials.watch.analysis.load.mix import latencies_ns
from seatrial.trials.watch.recording import TIME

if TYPE_CHECKING:
    from seatrial.trials.watch.recording import Recording

_READ: Final = OPERATIONS.index("read")
_LRU: Final = "lru"
_HALVINGS: Final = 4


class CachePrediction(msgspec.Struct, frozen=True, kw_only=True):
    """What caches would do for a recorded load.

    Attributes:
        method: ``exact``, or ``sampled`` by a hash of the blocks' numbers.
        sampled_share: Share of the blocks in each sample; 1 where it is exact.
        block_bytes: What a cache holds or drops as a whole.
        accesses: Accesses of reads and writes to blocks.
        reads: Those of reads.
        unique_bytes: Size of all blocks that are accessed.
        seconds: Length of the recording.
        repeated_share: Share of the reads whose block was accessed before: the most that any
            cache serves of this recording.
        policy: Of memory.
        device_kind: Of the cache device.
        curves: For the policy, for LRU and for the best possible one.
        tiers: For each size of memory and of the device; empty where times are made up.
        costs: Of those whose price is known.
        tariff: Prices and their origin.
        knows_disk_times: Whether the recording has the times that reads took.
        knows_device_times: Whether those of the cache device are given.
        stream_bytes_max: How long the sequential streams are that the kind of cache device leaves
            to the storage; null where it has no such rule.
        stream_share: Share of the reads that are part of such a stream.
        clients: Clients that send the load, each of which waits for its reads; null where
            requests come at their recorded times.
        other_ns: Time between two accesses in which such a client waits for no read (ns).
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
    tariff: Tariff
    knows_disk_times: bool
    knows_device_times: bool
    stream_bytes_max: Count | None = None
    stream_share: Amount = 0.0
    clients: Count | None = None
    other_ns: Amount | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a prediction is requested for.

    Attributes:
        memory_bytes: Sizes of memory; empty for some that fit the load.
        device_bytes: Sizes of the cache device; 0 is none.
        policy: Of memory.
        device_kind: Of the cache device.
        block_bytes: What a cache holds or drops as a whole.
        device_ns: Read latencies of the cache device, each as likely; empty if unknown.
        tariff: Prices.
        clients: Clients that sent the load, each of which waits for its reads; None for the
            recorded times.
        device_servers: How many reads the cache device serves at once; 0 for all that come.
    """

    memory_bytes: Sequence[int]
    device_bytes: Sequence[int]
    policy: str
    device_kind: str
    block_bytes: int
    device_ns: Sequence[int] = ()
    tariff: Tariff = Tariff()
    clients: int | None = None
    device_servers: int = 0


def predict(
    recording: Recording, wanted: Wanted, run: Runner = on_this_machine
) -> CachePrediction | None:
    """Return what caches would do for a recorded load; None of one without a read.

    Args:
        recording: The load.
        wanted: What is asked.
        run: Runs the simulations.

    Raises:
        TooFewClientsError: if so few clients cannot have sent the load.
        ValueError: if there is no such policy or kind of device, or times that clients need are
            unknown.
    """
    accesses = accesses_of(recording, wanted.block_bytes)
    if accesses is None:
        return None
    memory_bytes = list(wanted.memory_bytes) or usual_sizes_bytes(accesses.unique_bytes)
    sizes = curve_sizes_bytes(accesses, [each for each in memory_bytes if each])
    policies = list(dict.fromkeys((wanted.policy, _LRU, BEST)))
    endless = curve_of(accesses, _LRU, [accesses.unique_bytes * 2]).points[0].share
    seconds = length_s(recording)
    is_read = recording.operation == _READ
    known_ns = latencies_ns(recording)[is_read]
    times = Times(
        disk_ns=drawn_times(known_ns[known_ns >= 0]), device_ns=drawn_times(list(wanted.device_ns))
    )

    loop = _loop(accesses, wanted, times, int(is_read.sum()), seconds)

    def tiers_with(memory: int, device: int) -> Simulation:
        setting = Setting(
            policy=wanted.policy,
            kind=wanted.device_kind,
            memory_bytes=memory,
            device_bytes=device,
        )
        return tiers_of, (setting, times, seconds, loop)

    devices = () if TIME in recording.about.made_up else wanted.device_bytes or (0,)
    pairs = [tiers_with(memory, device) for memory in memory_bytes for device in devices]
    points = [(curve_of, (policy, part)) for policy in policies for part in _parts(policy, sizes)]
    # Those of tiers take longest: they come first.
    found = run(accesses, [*pairs, *points])
    tiers: list[CacheTiers] = found[: len(pairs)]
    curves = joined(found[len(pairs) :])

    def disk_share(size_bytes: int) -> float:
        function, arguments = tiers_with(size_bytes, 0)
        share: float = function(accesses, *arguments).disk_share
        return share

    alone = MemoryAlone(sizes, disk_share)
    kinds = {each.name: each.stream_bytes_max for each in _core.cache_devices()}
    stream_bytes_max = kinds.get(wanted.device_kind)
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
        policy=wanted.policy,
        device_kind=wanted.device_kind,
        curves=curves,
        tiers=tiers,
        costs=costs_of(tiers, alone, reads_per_s, wanted.tariff),
        tariff=wanted.tariff,
        knows_disk_times=bool(times.disk_ns),
        knows_device_times=bool(times.device_ns),
        stream_bytes_max=stream_bytes_max,
        stream_share=accesses.stream_share(stream_bytes_max) if stream_bytes_max else 0.0,
        clients=wanted.clients,
        other_ns=loop.other_ns if loop else None,
    )


def _loop(
    accesses: Accesses, wanted: Wanted, times: Times, reads: int, seconds: float
) -> Loop | None:
    """Return the clients of a prediction; None where requests come at their recorded times."""
    if wanted.clients is None:
        return None
    if not times.disk_ns or not seconds:
        raise ValueError("the recording does not know how long reads took")
    if any(wanted.device_bytes) and not times.device_ns:
        raise ValueError("it is unknown how long the SSD takes")
    return loop_of(
        clients=wanted.clients,
        accesses_per_s=accesses.accesses / seconds,
        read_share=accesses.reads / accesses.accesses,
        accesses_per_read=accesses.reads / reads,
        read_ns_mean=sum(times.disk_ns) / len(times.disk_ns),
        device_servers=wanted.device_servers,
    )


def _parts(policy: str, sizes_bytes: list[int]) -> list[list[int]]:
    """Return the sizes that are simulated at once: of LRU all, in one pass; else each alone."""
    return [sizes_bytes] if policy == _LRU else [[each] for each in sizes_bytes]


def usual_sizes_bytes(unique_bytes: int) -> list[int]:
    """Return powers of two up to the one that has room for all blocks."""
    largest = 1 << max(12, (unique_bytes - 1).bit_length())
    return [largest >> halved for halved in range(_HALVINGS, -1, -1)]
