"""Simulates memory and a cache device in front of the recorded storage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.lazy import np
from seatrial.published import Amount, Count
from seatrial.trials.cache.analysis.clients import ClosedLoop, slices_of_one_pass
from seatrial.trials.watch.analysis.load.blocks import mean_and_bounds
from seatrial.units import DAY_S, NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.cache.analysis.accesses import Accesses, BlockSample

SLICES: Final = 200
"""Time slices of the recording that the simulation reports."""
LEVELS: Final = (0.5, 0.9, 0.99)
"""Shares of the hits of a warm cache at which the time is reported."""
_LAST_SHARE: Final = 0.2
"""Share of the reads, at the end, for which caches are assumed to be warm."""
_STEADY_POINTS: Final = 0.02
_STEADY_SHARE: Final = 0.1
"""Caches are warm if the hit share of the last reads exceeds that of as many before by at most so
many points, and at most by that share of it."""
_SMOOTHED: Final = 9
_ARCS: Final = ("arc", "arc-pinned")
_L2ARC: Final = "l2arc-2.3"
_BCACHE: Final = "bcache"
_TIMES_MAX: Final = 4096
"""Quantiles of measured times that service times are drawn from."""
_ENTRIES_ABOVE_P99_MIN: Final = 1000


class ServiceTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of service times of reads (ns).

    Attributes:
        disk_ns: Times of the recorded storage; empty if unknown.
        device_ns: Times of the cache device; empty if not measured.
    """

    disk_ns: list[int]
    device_ns: list[int]


class CacheTiers(msgspec.Struct, frozen=True, kw_only=True):
    """Results of memory and a cache device of some sizes for a recorded load.

    Attributes:
        memory_bytes: Size of the memory.
        device_bytes: Size of the cache device; 0 for none.
        header_bytes: Memory used at the end by headers of blocks that only the device contains.
        memory_share: Share that memory serves of the last fifth of the reads.
        device_share: Share that the device serves.
        disk_share: Share that the recorded storage serves, with the ends of its 95 % interval.
        disk_share_low: Lower end.
        disk_share_high: Upper end.
        read_ns_mean: Mean response time of reads; null where service times are unknown.
        read_ns_mean_low: Lower end of its 95 % interval over the samples.
        read_ns_mean_high: Upper end.
        read_ns_p99: Its 99th percentile; null also below 1,000 reads.
        device_written_bytes_per_day: Bytes written to the device at the recorded rate.
        warm_s: Time until the hit share was 50, 90 and 99 % of that of the warm cache; null if the
            cache was not warm at the end of the recording.
        is_warm: Whether it was warm at the end.
        reads_per_s: Reads a second of the clients in the last fifth; null if requests come at
            their recorded times.
    """

    memory_bytes: Count
    device_bytes: Count
    header_bytes: Count
    memory_share: Amount
    device_share: Amount
    disk_share: Amount
    disk_share_low: Amount
    disk_share_high: Amount
    read_ns_mean: Amount | None
    read_ns_mean_low: Amount | None
    read_ns_mean_high: Amount | None
    read_ns_p99: Amount | None
    device_written_bytes_per_day: Amount
    warm_s: dict[str, float | None]
    is_warm: bool
    reads_per_s: Amount | None = None


class CacheConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Caches of some sizes.

    Attributes:
        policy: Policy of memory.
        kind: Kind of the cache device.
        memory_bytes: Size of memory.
        device_bytes: Size of the device.
    """

    policy: str
    kind: str
    memory_bytes: int
    device_bytes: int


def feeding_policies() -> list[str]:
    """Return the policies of memory from which a cache device can be fed."""
    return [name for name, _, has_order in _core.cache_policies() if has_order]


def fed_devices() -> list[str]:
    """Return the kinds of cache devices that are fed from memory."""
    return [each.name for each in _core.cache_devices() if each.is_fed]


def default_device(policy: str) -> str:
    """Return the kind of cache device that goes with a policy of memory."""
    return _L2ARC if policy in _ARCS else _BCACHE


def tiers_of(
    accesses: Accesses,
    configuration: CacheConfiguration,
    times: ServiceTimes,
    length_s: float,
    loop: ClosedLoop | None = None,
) -> CacheTiers:
    """Simulate caches of some sizes for a load, at its recorded times or from clients.

    The recorded storage keeps its recorded times: less load does not make it faster.

    Args:
        accesses: The load.
        configuration: The caches.
        times: Service times; with clients, those of all tiers are needed.
        length_s: Length of the recording.
        loop: Clients in a closed loop; None for the recorded times.

    Raises:
        ValueError: if there is no such policy or kind of device.
    """
    parts = [
        _simulated_sample(accesses, each, configuration, times, length_s=length_s, loop=loop)
        for each in accesses.samples
    ]
    found = [each.served for each in parts]
    length_s = sum(each.length_s for each in parts) / len(parts)
    served = sum(found[1:], start=found[0])
    begin = _slice_at(served, 1 - _LAST_SHARE)
    reads = max(1, round(served[begin:, :3].sum()))
    shares, ends = _shares(served[begin:]), [_shares(each[begin:]) for each in found]
    disk_share, low, high = mean_and_bounds([float(each[2]) for each in ends])
    # A block of a sample represents several.
    all_bytes = accesses.block_bytes / accesses.share / len(found)
    written, header_bytes = (float(served[-1, column]) * all_bytes for column in (3, 4))
    warm_s, is_warm = _warm_up(served, length_s)
    knows_times = bool(times.disk_ns) and (not shares[1] or bool(times.device_ns))
    means_ns = [_mean_ns(each, times) for each in ends]
    p99_ns = _p99_ns(shares, times) if knows_times else None
    reads_per_s = None
    if loop is not None:
        # What a sample lacks are hits.
        hit_ns = 0.0 if configuration.memory_bytes else _mean_ns(np.array([0, 1, 0]), times)
        means_ns, p99_ns = _response_ns(parts, begin, accesses.share, loop, hit_ns)
        last_s = length_s * (len(served) - begin) / len(served)
        lacking = (reads - _simulated_reads(parts, begin)) / len(parts) / accesses.share
        waited_ns = loop.think_ns + hit_ns / loop.accesses_per_read
        last_s += lacking * waited_ns / loop.clients / NS_PER_S
        reads_per_s = reads / len(parts) / accesses.share / loop.accesses_per_read / last_s
    mean_ns, mean_ns_low, mean_ns_high = (
        mean_and_bounds(means_ns, high_max=math.inf) if knows_times else (None, None, None)
    )
    return CacheTiers(
        memory_bytes=configuration.memory_bytes,
        device_bytes=configuration.device_bytes,
        header_bytes=round(min(header_bytes, configuration.memory_bytes)),
        memory_share=float(shares[0]),
        device_share=float(shares[1]),
        disk_share=disk_share,
        disk_share_low=low,
        disk_share_high=high,
        read_ns_mean=mean_ns,
        read_ns_mean_low=mean_ns_low,
        read_ns_mean_high=mean_ns_high,
        read_ns_p99=p99_ns if reads >= _ENTRIES_ABOVE_P99_MIN else None,
        device_written_bytes_per_day=written / max(length_s, 1e-9) * DAY_S,
        warm_s=warm_s,
        is_warm=is_warm,
        reads_per_s=reads_per_s,
    )


def _header_bytes(configuration: CacheConfiguration) -> int:
    """Return the memory of the header of a block that only the device contains.

    Raises:
        ValueError: if there is no such kind of device.
    """
    headers = {each.name: each.header_bytes for each in _core.cache_devices()}
    if configuration.kind not in headers:
        raise ValueError(f"there is no cache device of kind {configuration.kind!r}")
    return headers[configuration.kind]


def _memory_blocks(accesses: Accesses, configuration: CacheConfiguration) -> int:
    """Return the capacity of memory in blocks, without headers."""
    return (
        max(1, accesses.blocks_in(configuration.memory_bytes)) if configuration.memory_bytes else 0
    )


@dataclass(frozen=True, eq=False)
class _SampleResult:
    """Results of the caches for one sample of the blocks.

    Attributes:
        slices: Counts in each slice of time.
        served: For each slice, reads by memory, device and disk, corrected for a sample; blocks
            written up to its end, and those without room in memory.
        length_s: Duration.
    """

    slices: Sequence[_core.CacheSlice]
    served: NDArray[np.float64]
    length_s: float


def _simulated_sample(
    accesses: Accesses,
    sample: BlockSample,
    configuration: CacheConfiguration,
    times: ServiceTimes,
    *,
    length_s: float,
    loop: ClosedLoop | None,
) -> _SampleResult:
    # An access of a sample represents several, one after the other, and one block of a read
    # takes a part of its time.
    stretch = 1.0 if loop is None else 1 / accesses.share / loop.accesses_per_read

    def station(servers: int, times_ns: Sequence[int]) -> tuple[int, list[int], bool]:
        return servers, [round(each * stretch) for each in times_ns] or [0], False

    def simulated(end_ns: int) -> Sequence[_core.CacheSlice]:
        think_ns = 0 if loop is None else round(loop.think_ns / accesses.share)
        described = _core.CacheSetting(
            policy=configuration.policy,
            memory_blocks=_memory_blocks(accesses, configuration),
            # A block of a sample represents several, also in the rate of a feed.
            block_bytes=max(1, round(accesses.block_bytes / accesses.share)),
            path=(0, [think_ns], False),
            device=station(loop.device_servers if loop else 0, times.device_ns),
            disk=station(0, times.disk_ns),
            end_ns=end_ns,
            slice_ns=-(-end_ns // SLICES),
            seed=sample.seed,
            clients=loop.clients if loop else None,
            at_ns=None if loop else sample.at_ns.data,
            admission=configuration.kind if configuration.device_bytes else None,
            device_blocks=accesses.blocks_in(configuration.device_bytes),
            header_bytes=_header_bytes(configuration) / accesses.share,
        )
        return sample.caches.simulate(described)

    end_ns = max(SLICES, round(length_s * NS_PER_S) + 1)
    if loop is None:
        slices = simulated(end_ns)
    else:
        slices, end_ns = slices_of_one_pass(simulated, len(sample.caches), end_ns)
    rows = [
        (
            each.memory_hits,
            each.device_hits,
            each.disk_reads,
            each.device_written_blocks,
            each.header_blocks,
        )
        for each in slices
    ]
    length_s = length_s if loop is None else end_ns / NS_PER_S
    served = np.array(rows, dtype=np.float64)
    # Without any cache, nothing hits.
    hits = 0 if configuration.memory_bytes else 1
    if accesses.share < 1 and (configuration.memory_bytes or configuration.device_bytes):
        served[:, hits] += _missing_reads(accesses, sample, served)
    return _SampleResult(slices, served, length_s)


def _missing_reads(
    accesses: Accesses, sample: BlockSample, served: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the reads in each slice that a sample lacks; negative for too many.

    As in curves (SHARDS-adj): a sample with too few reads has too few of the hottest blocks, whose
    reads are hits.
    """
    of_sample = np.cumsum(served[:, :3].sum(axis=1))
    of_all = sample.reads_until[sample.writes == 0]
    # Its last read is followed by reads of other blocks alone.
    of_all = np.concatenate(([0], of_all[:-1], [accesses.reads]))
    passes, rest = np.divmod(of_sample, len(of_all) - 1)
    expected = (passes * accesses.reads + of_all[rest.astype(np.int64)]) * accesses.share
    missing: NDArray[np.float64] = np.diff(expected - of_sample, prepend=0)
    return missing


def _simulated_reads(parts: Sequence[_SampleResult], begin: int) -> int:
    return sum(
        each.memory_hits + each.device_hits + each.disk_reads
        for part in parts
        for each in part.slices[begin:]
    )


def _response_ns(
    parts: Sequence[_SampleResult], begin: int, share: float, loop: ClosedLoop, hit_ns: float
) -> tuple[list[float], float]:
    """Return mean response times of reads since a slice, of each sample, and their p99 (ns).

    The reads that a sample lacks take ``hit_ns`` each.
    """
    stretch = 1 / share / loop.accesses_per_read

    def own_ns(time_ns: float) -> float:
        return max(0.0, time_ns - loop.think_ns / share) / stretch

    whole, means_ns, reads = _core.Histogram.of([]), [], 0.0
    for part in parts:
        found = _core.Histogram.of([])
        for each in part.slices[begin:]:
            found = found.merged(each.latency)
        corrected = max(1.0, float(part.served[begin:, :3].sum()))
        sum_ns = own_ns(found.mean_ns) * found.count if found.count else 0.0
        means_ns.append(max(0.0, sum_ns + (corrected - found.count) * hit_ns) / corrected)
        reads += corrected
        whole = whole.merged(found)
    if not whole.count:
        return means_ns, 0.0
    return means_ns, own_ns(whole.percentile_ns(max(0.0, 100 - reads / whole.count)))


def _warm_up(served: NDArray[np.float64], length_s: float) -> tuple[dict[str, float | None], bool]:
    """Return when the caches reached shares of their warm hit share, and whether they were warm."""
    hits, reads = served[:, :2].sum(axis=1), served[:, :3].sum(axis=1)
    names = [f"{level:.0%}" for level in LEVELS]
    begin, end = (_slice_at(served, 1 - times * _LAST_SHARE) for times in (2, 1))
    final, before = _ratio(hits[end:], reads[end:]), _ratio(hits[begin:end], reads[begin:end])
    if not final or final - before > min(_STEADY_POINTS, _STEADY_SHARE * final):
        return dict.fromkeys(names), False
    window = np.ones(_SMOOTHED)
    ratio = np.convolve(hits, window, "same") / np.maximum(np.convolve(reads, window, "same"), 1)
    slice_s = length_s / len(served)
    found: dict[str, float | None] = {}
    for name, level in zip(names, LEVELS, strict=True):
        reached = ratio >= level * final
        found[name] = float(np.argmax(reached) + 1) * slice_s if reached.any() else None
    return found, True


def _slice_at(served: NDArray[np.float64], share: float) -> int:
    """Return the slice in which a share of the reads is exceeded."""
    sums = np.cumsum(served[:, :3].sum(axis=1))
    return int(np.searchsorted(sums, share * sums[-1], side="right"))


def _ratio(hits: NDArray[np.float64], reads: NDArray[np.float64]) -> float:
    return float(hits.sum() / reads.sum()) if reads.sum() else 0.0


def _shares(served: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares of the reads that memory, device and storage serve."""
    # A correction can exceed the hits of a sample.
    sums: NDArray[np.float64] = served[:, :3].sum(axis=0).clip(0)
    return sums / max(1.0, float(sums.sum()))


def _mean_ns(shares: NDArray[np.float64], times: ServiceTimes) -> float:
    """Return the mean response time; what memory serves takes no time."""
    tiers = ((shares[1], times.device_ns), (shares[2], times.disk_ns))
    return sum(float(share) * sum(own) / len(own) for share, own in tiers if own)


def _p99_ns(shares: NDArray[np.float64], times: ServiceTimes) -> float:
    """Return the 99th percentile of the response time over all tiers."""
    values, weights = [np.zeros(1)], [np.array([shares[0]])]
    for share, own_ns in ((shares[1], times.device_ns), (shares[2], times.disk_ns)):
        if share > 0:
            values.append(np.array(own_ns, dtype=np.float64))
            weights.append(np.full(len(own_ns), share / len(own_ns)))
    value, weight = np.concatenate(values), np.concatenate(weights)
    order = np.argsort(value)
    reached = np.searchsorted(np.cumsum(weight[order]), 0.99)
    return float(value[order][min(int(reached), len(value) - 1)])


def quantile_times(times_ns: Sequence[int] | NDArray[np.int64]) -> list[int]:
    """Return quantiles of times, evenly spaced, that stand for all of them."""
    if not len(times_ns):
        return []
    count = min(_TIMES_MAX, len(times_ns))
    probabilities = (np.arange(count) + 0.5) / count
    found: list[int] = np.quantile(np.asarray(times_ns), probabilities).astype(np.int64).tolist()
    return found
