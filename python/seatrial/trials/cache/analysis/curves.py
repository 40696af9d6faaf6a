"""The share of reads that a cache serves, by its size and by its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial import _core
from seatrial.lazy import np
from seatrial.published import Amount, Count
from seatrial.trials.cache.analysis.accesses import Accesses
from seatrial.trials.watch.analysis.load.blocks import mean_and_bounds

POINTS: Final = 20
BEST: Final = "belady"
"""The optimal policy."""
_LRU: Final = "lru"
_BLOCKS_MIN: Final = 64
"""Smallest simulated cache, in blocks of a sample."""


class CachePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Share of reads that a cache of a size serves.

    Attributes:
        cache_bytes: Its size.
        share: Share of the reads that it serves; the first read of a block is a miss.
        low: Lower end of the 95 % interval over the samples; equals the share without samples.
        high: Upper end.
    """

    cache_bytes: Count
    share: Amount
    low: Amount
    high: Amount


class PolicyCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The curve of a policy.

    Attributes:
        policy: Its name.
        points: By size, the smallest first.
    """

    policy: str
    points: list[CachePoint]


def curve_sizes_bytes(accesses: Accesses, requested_bytes: Sequence[int]) -> list[int]:
    """Return the cache sizes of a curve (bytes): requested ones, and others up to all blocks."""
    smallest = accesses.block_bytes
    if accesses.share < 1:
        smallest = round(_BLOCKS_MIN * accesses.block_bytes / accesses.share)
    largest = max(2 * smallest, accesses.unique_bytes, *requested_bytes, 0)
    spaced = np.geomspace(smallest, largest, POINTS) // accesses.block_bytes
    sizes = {int(each) * accesses.block_bytes for each in spaced}
    return sorted(sizes | {each for each in requested_bytes if each >= smallest})


def curve_of(accesses: Accesses, policy: str, sizes_bytes: Sequence[int]) -> PolicyCurve:
    """Return the curve of a policy.

    Raises:
        ValueError: if there is no such policy.
    """
    shares = [_shares(accesses, each.caches, policy, sizes_bytes) for each in accesses.samples]
    points = [
        CachePoint(cache_bytes=size, share=mean, low=low, high=high)
        for size, own in zip(sizes_bytes, zip(*shares, strict=True), strict=True)
        for mean, low, high in [mean_and_bounds(own)]
    ]
    return PolicyCurve(policy=policy, points=points)


def merged_curves(curves: Sequence[PolicyCurve]) -> list[PolicyCurve]:
    """Return the curve of each policy from its parts in order of size."""
    points: dict[str, list[CachePoint]] = {}
    for curve in curves:
        points.setdefault(curve.policy, []).extend(curve.points)
    return [PolicyCurve(policy=policy, points=own) for policy, own in points.items()]


def _shares(
    accesses: Accesses, caches: _core.CacheAccesses, policy: str, sizes_bytes: Sequence[int]
) -> list[float]:
    if policy == _LRU:
        sizes = [size // accesses.block_bytes for size in sizes_bytes]
        return caches.lru_hit_ratios(sizes, share=accesses.share, all_reads=accesses.reads)
    capacities_blocks = [max(1, accesses.blocks_in(size)) for size in sizes_bytes]
    hits = caches.hits(policy, capacities_blocks, accesses.block_bytes)
    # As for LRU: a sample with too many reads has too many of the hottest blocks, which hit.
    expected = accesses.reads * accesses.share
    surplus = caches.reads - expected
    return [min(1.0, max(0.0, (each - surplus) / expected)) for each in hits]


def policies() -> dict[str, str]:
    """Return descriptions of policies by name."""
    return {name: text for name, text, _ in _core.cache_policies()}
