"""What a cache device of Linux in front of an array will do, predicted before it is added.

Uniform random reads of a closed loop. bcache is simulated (``crates/model``), as it caches each
block that is read. dm-cache has no policy in the simulator: of smq, while there is room, only what
one can derive of uniform reads is used. Its hotspot queue has 64 levels of the same size, and a
read promotes its chunk if its hotspot block is in the upper half of them: every second miss.

Source: drivers/md/dm-cache-policy-smq.c of Linux 6.1 (``update_promote_levels``,
``q_set_targets_subrange_``, ``should_promote``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from seatrial import _core
from seatrial.results.cache import CacheForecast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROMOTED_SHARE: Final = 0.5
"""Of the misses of uniform reads, those that smq promotes while there is room."""
_DRAWN: Final = 2_000_000
_NS_PER_S: Final = 1_000_000_000
_STEPS_PER_S: Final = 100


class BeforeCache(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before a cache device is added.

    Attributes:
        threads: Clients, each with one read in flight.
        record_bytes: Size of a read.
        granule_bytes: What is cached as a whole.
        working_set_bytes: What is read.
        cache_bytes: What the cache holds.
        reads_per_s: Reads without it.
        ceiling_per_s: Reads of a few blocks that it has.
        length_s: How long the sample lasts.
    """

    threads: int
    record_bytes: int
    granule_bytes: int
    working_set_bytes: int
    cache_bytes: int
    reads_per_s: float
    ceiling_per_s: float
    length_s: float

    @property
    def path_s(self) -> float:
        """What a read takes that the cache serves, of the one processor that all share."""
        return 1.0 / max(self.ceiling_per_s, self.reads_per_s, 1.0)

    @property
    def array_s(self) -> float:
        """What the array adds to a read, as long as each client waits for one."""
        return max(self.threads / max(self.reads_per_s, 1.0) - self.path_s, 0.0)

    @property
    def block_bytes(self) -> int:
        """What is cached as a whole, at least a read."""
        return max(self.record_bytes, self.granule_bytes)


def forecast_of_layout(
    kind: str, before: BeforeCache, made_at_s: float, seed: int
) -> CacheForecast | None:
    """Return the warm-up of a cache device; None of a kind that reads do not warm.

    Args:
        kind: Such as ``bcache``.
        before: What is known.
        made_at_s: Now, from the start of the sample (s).
        seed: Of what the simulated clients read.
    """
    if kind == "bcache":
        rows = _simulated(before, seed)
        law = f"simulated: {before.threads} clients, {kind}"
    elif kind == "dm-cache":
        rows = _by_law(before)
        law = f"law: {before.threads} clients, smq promotes every second miss while there is room"
    else:
        return None
    return CacheForecast(
        law=law,
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


def _simulated(before: BeforeCache, seed: int) -> list[_Row]:
    block_bytes = before.block_bytes
    setting = _core.CacheSetting(
        policy="lru",
        memory_blocks=0,
        block_bytes=block_bytes,
        path=(1, [round(before.path_s * _NS_PER_S)], False),
        device=(0, [0], False),
        disk=(0, [round(before.array_s * _NS_PER_S)], False),
        end_ns=max(1, round(before.length_s)) * _NS_PER_S,
        slice_ns=_NS_PER_S,
        seed=seed,
        clients=before.threads,
        admission="bcache",
        device_blocks=before.cache_bytes // block_bytes,
        device_at_ns=0,
    )
    drawn = _drawn(before.working_set_bytes // block_bytes, seed)
    found = []
    for each in _core.CacheAccesses(drawn.data).simulate(setting):
        reads = each.memory_hits + each.device_hits + each.disk_reads
        fill_bytes = float(each.device_blocks * block_bytes)
        found.append((float(reads), each.device_hits / max(1, reads), fill_bytes))
    return found


def _drawn(blocks: int, seed: int) -> NDArray[np.uint64]:
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    return np.random.default_rng(seed).integers(0, blocks, _DRAWN, dtype=np.uint64)


def _by_law(before: BeforeCache) -> list[_Row]:
    """Return the expected course of a cache that promotes a share of the misses."""
    blocks = before.working_set_bytes / before.block_bytes
    room = min(blocks, before.cache_bytes / before.block_bytes)
    held, found = 0.0, []
    for _second in range(max(1, round(before.length_s))):
        reads = hits = 0.0
        for _step in range(_STEPS_PER_S):
            share = held / blocks
            loop_s = (1 - share) * before.array_s + before.path_s
            per_s = min(before.threads / loop_s, 1.0 / before.path_s)
            reads += per_s / _STEPS_PER_S
            hits += per_s * share / _STEPS_PER_S
            held = min(room, held + PROMOTED_SHARE * per_s * (1 - share) / _STEPS_PER_S)
        found.append((reads, hits / reads, held * before.block_bytes))
    return found
