"""Forecast of a real cache device, made before it is added.

The load is simulated in a closed loop on a virtual clock (``crates/model``): the same clients, a
memory as large as what the ARC holds, a feed as that of ZFS, disks with their
measured or limited rate. No predicted figure is an input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.lazy import np
from seatrial.results.cache import CacheForecast
from seatrial.trials.cache.study.workload import PoolSpec
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEED: Final = "zfs-fuse"
"""The feed of the daemon that runs the pool."""
POLICY: Final = "arc-pinned"
"""The ARC of zfs-fuse."""
ARC_DATA_SHARE: Final = 0.88
"""Share of data in the ARC if it was not measured; the rest is headers (zfs-fuse 0.7)."""
POINTER_BYTES: Final = 128
"""Metadata of a record: its block pointer, which stays in the ARC."""
_REQUESTS: Final = 2_000_000
_WARM_TURNS: Final = 3.0
"""Turnovers of memory until it is warm."""
_WARM_S_MAX: Final = 600.0


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements before the cache device is added.

    Attributes:
        reads_per_s: Reads of the clients.
        disk_reads_per_s: Reads that the disks served.
        arc_data_bytes: Data and metadata in the ARC.
        ceiling_per_s: Reads of the clients while the disks were not limited.
    """

    reads_per_s: float
    disk_reads_per_s: float
    arc_data_bytes: float
    ceiling_per_s: float


def forecast_with_device(
    spec: PoolSpec, threads: int, before: Baseline, made_at_s: float, seed: int
) -> CacheForecast:
    """Return the warm-up of a cache device, from the moment at which it is added.

    Args:
        spec: The pool.
        threads: Clients.
        before: What was measured without the device.
        made_at_s: Current time from the start of the sample (s).
        seed: Seed of the simulated reads.
    """
    data_bytes = before.arc_data_bytes - spec.records * POINTER_BYTES
    memory_bytes = max(data_bytes, spec.record_bytes)
    disk_per_s = max(before.disk_reads_per_s, 1.0)
    warm_s = min(_WARM_S_MAX, _WARM_TURNS * memory_bytes / spec.record_bytes / disk_per_s)
    disk = (spec.disks, [round(spec.disks / disk_per_s * NS_PER_S)], False)
    ceiling_per_s = before.ceiling_per_s
    if not spec.disk_reads_per_s:
        # Nothing but the path limited the baseline: it says more of it than a few seconds before.
        disk, ceiling_per_s = (0, [0], False), before.reads_per_s
    rows = _simulate(
        spec,
        threads,
        memory_blocks=int(memory_bytes // spec.record_bytes),
        ceiling_per_s=ceiling_per_s,
        disk=disk,
        warm_s=warm_s,
        length_s=spec.watched_s,
        seed=seed,
    )
    assumed = {
        "baseline_reads_per_s": before.reads_per_s,
        "disk_reads_per_s": before.disk_reads_per_s,
        "ceiling_per_s": ceiling_per_s,
        "memory_bytes": memory_bytes,
        "working_set_bytes": float(spec.working_set_bytes),
        "device_bytes": float(spec.cache_bytes),
    }
    method = f"simulated: {threads} clients, {POLICY}, feed {FEED}"
    return _forecast(spec, method, made_at_s, assumed, rows)


def forecast_without_device(
    spec: PoolSpec, threads: int, ceiling_per_s: float, seed: int
) -> CacheForecast | None:
    """Return the forecast for memory alone; None if disks are not limited.

    Args:
        spec: The pool.
        threads: Clients.
        ceiling_per_s: Reads of the clients while the disks are not limited.
        seed: Seed of the simulated reads.
    """
    if not spec.disk_reads_per_s:
        return None
    data_bytes = ARC_DATA_SHARE * spec.arc_bytes - spec.records * POINTER_BYTES
    memory_bytes = max(data_bytes, spec.record_bytes)
    total_per_s = float(spec.disks * spec.disk_reads_per_s)
    disk = (spec.disks, [round(NS_PER_S / spec.disk_reads_per_s)], True)
    if spec.pool == "raid-z":
        # A record is on all disks but one.
        total_per_s = spec.disk_reads_per_s * spec.disks / (spec.disks - 1)
        disk = (1, [round(NS_PER_S / total_per_s)], False)
    memory_blocks = int(memory_bytes // spec.record_bytes)
    rows = _simulate(
        spec,
        threads,
        memory_blocks=memory_blocks,
        ceiling_per_s=ceiling_per_s,
        disk=disk,
        warm_s=0.0,
        length_s=spec.baseline_s + spec.watched_s,
        seed=seed,
        has_device=False,
    )
    assumed = {
        "disk_reads_per_s": total_per_s,
        "ceiling_per_s": ceiling_per_s,
        "memory_bytes": memory_bytes,
        "working_set_bytes": float(spec.working_set_bytes),
    }
    return _forecast(spec, f"simulated: {threads} clients, {POLICY}", -1.0, assumed, rows)


def random_records(spec: PoolSpec, seed: int) -> NDArray[np.uint64]:
    """Return the records that the simulated clients read, in order."""
    random = np.random.default_rng(seed)
    if spec.pattern != "zipf":
        return random.integers(0, spec.records, _REQUESTS, dtype=np.uint64)
    weights = np.arange(1, spec.records + 1, dtype=np.float64) ** -spec.theta
    sums = np.cumsum(weights)
    records: NDArray[np.uint64] = np.searchsorted(sums, random.random(_REQUESTS) * sums[-1]).astype(
        np.uint64
    )
    return records


def _simulate(
    spec: PoolSpec,
    threads: int,
    *,
    memory_blocks: int,
    ceiling_per_s: float,
    disk: tuple[int, list[int], bool],
    warm_s: float,
    length_s: float,
    seed: int,
    has_device: bool = True,
) -> list[_core.CacheSlice]:
    """Return the simulated seconds from the moment at which the device is added."""
    warm = round(warm_s)
    headers = {each.name: each.header_bytes for each in _core.cache_devices()}
    setting = _core.CacheSetting(
        policy=POLICY,
        memory_blocks=max(1, memory_blocks),
        block_bytes=spec.record_bytes,
        path=(1, [round(NS_PER_S / max(ceiling_per_s, 1.0))], False),
        device=(0, [0], False),
        disk=disk,
        end_ns=(warm + max(1, round(length_s))) * NS_PER_S,
        slice_ns=NS_PER_S,
        seed=seed,
        clients=threads,
        admission=FEED if has_device else None,
        device_blocks=spec.cache_bytes // spec.record_bytes if has_device else 0,
        device_at_ns=warm * NS_PER_S,
        header_bytes=headers[FEED] if has_device else 0,
    )
    return _core.CacheAccesses(random_records(spec, seed).data).simulate(setting)[warm:]


def _forecast(
    spec: PoolSpec,
    method: str,
    made_at_s: float,
    assumed: dict[str, float],
    rows: list[_core.CacheSlice],
) -> CacheForecast:
    reads = [each.memory_hits + each.device_hits + each.disk_reads for each in rows]
    return CacheForecast(
        law=method,
        made_at_s=made_at_s,
        assumed=assumed,
        reads_per_s=[float(each) for each in reads],
        memory_share=[r.memory_hits / max(1, n) for r, n in zip(rows, reads, strict=True)],
        device_share=[r.device_hits / max(1, n) for r, n in zip(rows, reads, strict=True)],
        fill_bytes=[float(each.device_blocks * spec.record_bytes) for each in rows],
    )
