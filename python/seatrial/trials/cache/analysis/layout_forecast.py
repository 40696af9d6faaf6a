"""Forecast of a Linux cache device in front of an array, made before it is added.

Uniform random reads of a closed loop are simulated (``crates/model``): bcache caches each block
that is read, dm-cache what its policy smq promotes.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.lazy import np
from seatrial.results.cache import CacheForecast
from seatrial.units import NS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS: Final = ("bcache", "dm-cache")
"""Kinds that reads warm."""
SIMULATIONS: Final = 4
"""Simulations that are averaged, as smq depends on the blocks that it promotes first."""
_REQUESTS: Final = 2_000_000


class LayoutBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """Facts before a cache device is added.

    Attributes:
        threads: Clients, each with one read in flight.
        record_bytes: Size of a read.
        granule_bytes: Unit of caching.
        working_set_bytes: Size of the working set.
        cache_bytes: Capacity of the cache.
        array_bytes: Size of the array.
        reads_per_s: Reads without it.
        ceiling_per_s: Reads a second of a few blocks that are cached.
        length_s: Length of the sample.
    """

    threads: int
    record_bytes: int
    granule_bytes: int
    working_set_bytes: int
    cache_bytes: int
    array_bytes: int
    reads_per_s: float
    ceiling_per_s: float
    length_s: float

    @property
    def path_s(self) -> float:
        """Time of a read that the cache serves, of the one processor that all share."""
        return 1.0 / max(self.ceiling_per_s, self.reads_per_s, 1.0)

    @property
    def array_s(self) -> float:
        """Additional time of a read that the array serves."""
        return max(self.threads / max(self.reads_per_s, 1.0) - self.path_s, 0.0)

    @property
    def block_bytes(self) -> int:
        """Unit of caching, at least a read."""
        return max(self.record_bytes, self.granule_bytes)


def forecast_of_layout(
    kind: str, before: LayoutBaseline, made_at_s: float, seed: int
) -> CacheForecast | None:
    """Return the warm-up of a cache device; None of a kind that reads do not warm.

    Args:
        kind: Such as ``bcache``.
        before: Facts before.
        made_at_s: Now, from the start of the sample (s).
        seed: Seed of the simulated reads.
    """
    if kind not in KINDS:
        return None
    simulated = [_simulated(kind, before, seed + number) for number in range(SIMULATIONS)]
    rows = [tuple(map(fmean, zip(*each, strict=True))) for each in zip(*simulated, strict=True)]
    return CacheForecast(
        law=f"simulated: {before.threads} clients, {kind}",
        made_at_s=made_at_s,
        assumed={
            "baseline_reads_per_s": before.reads_per_s,
            "ceiling_per_s": before.ceiling_per_s,
            "working_set_bytes": float(before.working_set_bytes),
            "device_bytes": float(before.cache_bytes),
        },
        reads_per_s=[reads for reads, _, _ in rows],
        memory_share=[0.0] * len(rows),
        device_share=[share for _, share, _ in rows],
        fill_bytes=[fill for _, _, fill in rows],
    )


_Row = tuple[float, float, float]
"""Reads per second, share that the device serves, and data on it (bytes)."""


def _simulated(kind: str, before: LayoutBaseline, seed: int) -> list[_Row]:
    block_bytes = before.block_bytes
    setting = _core.CacheSetting(
        policy="lru",
        memory_blocks=0,
        block_bytes=block_bytes,
        path=(1, [round(before.path_s * NS_PER_S)], False),
        device=(0, [0], False),
        disk=(0, [round(before.array_s * NS_PER_S)], False),
        end_ns=max(1, round(before.length_s)) * NS_PER_S,
        slice_ns=NS_PER_S,
        seed=seed,
        clients=before.threads,
        admission=kind,
        device_blocks=before.cache_bytes // block_bytes,
        storage_blocks=before.array_bytes // block_bytes,
        device_at_ns=0,
    )
    records = _random_blocks(before.working_set_bytes // block_bytes, seed)
    found = []
    for each in _core.CacheAccesses(records.data).simulate(setting):
        reads = each.memory_hits + each.device_hits + each.disk_reads
        fill_bytes = float(each.device_blocks * block_bytes)
        found.append((float(reads), each.device_hits / max(1, reads), fill_bytes))
    return found


def _random_blocks(blocks: int, seed: int) -> NDArray[np.uint64]:
    return np.random.default_rng(seed).integers(0, blocks, _REQUESTS, dtype=np.uint64)
