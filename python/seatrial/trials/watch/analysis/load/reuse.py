"""Reuse: how many other blocks are accessed before a block is accessed again.

The reuse distance of an access is the number of distinct blocks since the last access to the same
block. An LRU cache of n blocks serves exactly the accesses with a distance below n, so the
distribution of distances is the hit ratio by cache size.

Small inputs are computed exactly. For large ones, blocks are sampled by a hash of their number, and
distances are scaled up (SHARDS). The error is estimated from four samples with different hashes.

Sources: R. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9
(2), 1970; C. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial import _core
from seatrial.lazy import np
from seatrial.published import Amount, Count, one_of
from seatrial.trials.watch.analysis.load.blocks import (
    SALTS,
    BlockAccesses,
    block_accesses,
    mean_and_bounds,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

_BLOCKS_MIN: Final = 32
EXACT_ACCESSES_MAX: Final = 4_000_000
SAMPLED_ACCESSES: Final = 150_000
"""Approximate number of accesses in each sample."""
POINTS: Final = 40
HOTTEST: Final = (0.01, 0.1, 0.2)
_ENDLESS: Final = 1 << 62
"""Size in blocks of a cache that never evicts one."""


class HitRatio(msgspec.Struct, frozen=True, kw_only=True):
    """The hit ratio of an LRU cache.

    Attributes:
        cache_bytes: Its size.
        share: Share of the accesses that are hits; the first access to a block is a miss.
        low: Lower end of the 95 % interval over four samples; equal to ``share`` if exact.
        high: Upper end.
    """

    cache_bytes: Count
    share: Amount
    low: Amount
    high: Amount


class Reuse(msgspec.Struct, frozen=True, kw_only=True):
    """How blocks are reused.

    Attributes:
        method: ``exact``, or ``sampled`` by hash of the block (SHARDS).
        sampled_share: Share of the blocks in each sample; 1 if exact.
        block_bytes: Size of a block; each request accesses all blocks that it overlaps.
        accesses: Number of accesses.
        repeated_share: Share of accesses to a block that was accessed before.
        hit_ratios: By cache size, the smallest first.
        hottest: Share of the accesses to the most accessed 1 %, 10 % and 20 % of the accessed
            blocks.
    """

    method: Annotated[str, one_of("exact", "sampled")]
    sampled_share: Amount
    block_bytes: Count
    accesses: Count
    repeated_share: Amount
    hit_ratios: list[HitRatio]
    hottest: dict[str, Amount]


def reuse_of(recording: Recording) -> Reuse | None:
    """Return how blocks are reused; None for a recording without reads and writes."""
    found = block_accesses(recording)
    if found is None:
        return None
    is_exact = found.accesses <= EXACT_ACCESSES_MAX
    sampled_share = 1.0 if is_exact else SAMPLED_ACCESSES / found.accesses
    samples = [
        blocks
        for salt in (SALTS[:1] if is_exact else SALTS)
        if len(blocks := found.sampled(sampled_share, salt)[0])
    ]
    return _reuse(samples, sampled_share, found)


def _reuse(samples: list[NDArray[np.uint64]], sampled_share: float, found: BlockAccesses) -> Reuse:
    caches = [_core.CacheAccesses(blocks.data) for blocks in samples]
    largest = max((each.different for each in caches), default=0) / sampled_share
    # A sample cannot resolve sizes of which it has only a few blocks.
    smallest = 1.0 if sampled_share >= 1 else _BLOCKS_MIN / sampled_share
    spaced = np.geomspace(smallest, max(2 * smallest, largest), POINTS)
    sizes = [*np.unique(spaced.astype(np.int64)).tolist(), _ENDLESS]
    curves = [
        each.lru_hit_ratios(sizes, share=sampled_share, all_reads=found.accesses) for each in caches
    ] or [[0.0] * len(sizes)]
    bounds = [mean_and_bounds(shares) for shares in zip(*curves, strict=True)]
    return Reuse(
        method="exact" if sampled_share >= 1 else "sampled",
        sampled_share=sampled_share,
        block_bytes=found.block_bytes,
        accesses=found.accesses,
        repeated_share=bounds[-1][0],
        hit_ratios=[
            HitRatio(cache_bytes=size * found.block_bytes, share=share, low=low, high=high)
            for size, (share, low, high) in zip(sizes[:-1], bounds[:-1], strict=True)
        ],
        hottest=_hottest(found),
    )


def _hottest(found: BlockAccesses) -> dict[str, float]:
    """Return the share of the accesses to the most accessed blocks, counted for all blocks.

    A sample of blocks has none or too many of the few blocks with most accesses.
    """
    sums = np.cumsum(np.sort(found.counts_by_block())[::-1])
    lasts = {share: max(1, round(share * len(sums))) - 1 for share in HOTTEST}
    return {f"{share:.0%}": float(sums[last] / sums[-1]) for share, last in lasts.items()}
