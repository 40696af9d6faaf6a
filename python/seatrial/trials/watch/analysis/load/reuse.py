"""Reuse: how many other blocks are touched before a block is touched again.

The reuse distance of an access is the number of different blocks since the last one to the same
block. A cache of so many blocks that drops the least recently used one serves exactly the accesses
with a smaller distance, so the distribution is the hit ratio by size of cache.

Small inputs are computed exactly. Of large ones, blocks are sampled by a hash of their number, and
distances scaled up (SHARDS). Four samples with hashes of their own give the error.

Sources: R. Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9
(2), 1970; C. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial.published import Amount, Count, one_of
from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.analysis.load.sequential import TRANSFERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

BLOCK_BYTES: Final = 4096
_BLOCKS_MIN: Final = 32
EXACT_ACCESSES_MAX: Final = 2_000_000
SAMPLED_ACCESSES: Final = 150_000
"""About so many accesses are in each sample."""
SAMPLES: Final = 4
_T_95: Final = 3.182
"""Student's t for 95 % and three degrees of freedom."""
_ACCESSES_MAX: Final = 200_000_000
_CHUNK_ACCESSES: Final = 4_000_000
POINTS: Final = 40
HOTTEST: Final = (0.01, 0.1, 0.2)
_SALTS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
_HASH_BITS: Final = 32


class HitRatio(msgspec.Struct, frozen=True, kw_only=True):
    """The hit ratio of a cache that drops the least recently used block.

    Attributes:
        cache_bytes: Its size.
        share: Share of the accesses that it serves; the first access to a block is none.
        low: Lower end of the 95 % interval over four samples; the same where it is exact.
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
        sampled_share: Share of the blocks in each sample; 1 where it is exact.
        block_bytes: Size of a block; each request accesses all blocks that it touches.
        accesses: How many there are.
        repeated_share: Share of accesses to a block that was accessed before.
        hit_ratios: By size of cache, the smallest first.
        hottest: Share of the accesses that go to the most accessed 1 %, 10 % and 20 % of the
            blocks that are touched.
    """

    method: Annotated[str, one_of("exact", "sampled")]
    sampled_share: Amount
    block_bytes: Count
    accesses: Count
    repeated_share: Amount
    hit_ratios: list[HitRatio]
    hottest: dict[str, Amount]


def reuse_of(recording: Recording) -> Reuse | None:
    """Return how blocks are reused; None of a recording without reads and writes."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    own = np.isin(recording.operation, [OPERATIONS.index(name) for name in TRANSFERS])
    own &= recording.length_bytes > 0
    if not own.any():
        return None
    begins, lengths = recording.offset_bytes[own], recording.length_bytes[own]
    block_bytes = BLOCK_BYTES
    while True:
        firsts = begins // block_bytes
        counts = (begins + lengths - 1) // block_bytes - firsts + 1
        accesses = int(counts.sum())
        if accesses <= _ACCESSES_MAX:
            break
        block_bytes *= 4
    # Blocks of two devices are never the same: each device has numbers of its own.
    firsts = firsts + recording.device[own].astype(np.int64) * int((firsts + counts).max())
    is_exact = accesses <= EXACT_ACCESSES_MAX
    sampled_share = 1.0 if is_exact else SAMPLED_ACCESSES / accesses
    samples = [
        _blocks(firsts, counts, sampled_share, salt)
        for salt in (_SALTS[:1] if is_exact else _SALTS)
    ]
    return _reuse([each for each in samples if len(each)], sampled_share, block_bytes, accesses)


def _blocks(
    firsts: NDArray[np.int64], counts: NDArray[np.int64], sampled_share: float, salt: int
) -> NDArray[np.int64]:
    """Return the blocks that are accessed in order, of those that are in the sample."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    found = []
    for begin, behind in _chunks(counts):
        own = counts[begin:behind]
        starts = np.cumsum(own) - own
        blocks = np.repeat(firsts[begin:behind] - starts, own) + np.arange(int(own.sum()))
        found.append(
            blocks if sampled_share >= 1 else blocks[_is_sampled(blocks, sampled_share, salt)]
        )
    return np.concatenate(found)


def _chunks(counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    sums = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        before = int(sums[begin - 1]) if begin else 0
        behind = int(np.searchsorted(sums, before + _CHUNK_ACCESSES))
        behind = min(max(behind, begin + 1), len(counts))
        yield begin, behind
        begin = behind


def _is_sampled(blocks: NDArray[np.int64], sampled_share: float, salt: int) -> NDArray[np.bool_]:
    """Return whether each block is in a sample, by the finalizer of SplitMix64."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    mixed = blocks.astype(np.uint64) + np.uint64(salt)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(64 - _HASH_BITS)) < np.uint64(sampled_share * (1 << _HASH_BITS))


def _reuse(
    samples: list[NDArray[np.int64]], sampled_share: float, block_bytes: int, accesses: int
) -> Reuse:
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    distances = [distances_of(each) for each in samples]
    largest = max((int(each.max(initial=0)) for each in distances), default=0) / sampled_share
    # A sample tells no sizes apart of which it has but a few blocks.
    smallest = 1.0 if sampled_share >= 1 else _BLOCKS_MIN / sampled_share
    spaced = np.geomspace(smallest, max(2 * smallest, largest + 1), POINTS)
    sizes = np.unique(spaced.astype(np.int64))
    expected = accesses * sampled_share
    curves = np.array([_curve(each, sizes, sampled_share, expected) for each in distances])
    mean = curves.mean(axis=0) if len(curves) else np.zeros(len(sizes))
    half = np.zeros(len(sizes))
    if len(curves) > 1:
        half = _T_95 * curves.std(axis=0, ddof=1) / np.sqrt(len(curves))
    repeated = [float((each >= 0).mean()) for each in distances]
    return Reuse(
        method="exact" if sampled_share >= 1 else "sampled",
        sampled_share=sampled_share,
        block_bytes=block_bytes,
        accesses=accesses,
        repeated_share=float(np.mean(repeated)) if repeated else 0.0,
        hit_ratios=[
            HitRatio(
                cache_bytes=int(size) * block_bytes,
                share=float(share),
                low=float(max(0.0, share - width)),
                high=float(min(1.0, share + width)),
            )
            for size, share, width in zip(sizes, mean, half, strict=True)
        ],
        hottest=_hottest(samples),
    )


def _curve(
    distances: NDArray[np.int64], sizes: NDArray[np.int64], sampled_share: float, expected: float
) -> NDArray[np.float64]:
    """Return the hit ratio of each size, with the correction of SHARDS for hot blocks.

    A sample with more accesses than expected has too many of hot blocks, which hit in the smallest
    cache: the surplus is taken from there (SHARDS-adj).
    """
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    ordered = np.sort(distances[distances >= 0]) / sampled_share
    hits = np.searchsorted(ordered, sizes, side="left").astype(np.float64)
    if sampled_share >= 1:
        return hits / len(distances)
    found: NDArray[np.float64] = np.clip((hits + expected - len(distances)) / expected, 0, 1)
    return found


def distances_of(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the reuse distance of each access, -1 of first ones; exact.

    The different blocks since the last access to the same one are those whose own last access lies
    before it: so many earlier accesses have a smaller last access. They are counted by sorting
    from pairs up, in place of a tree.

    Args:
        blocks: That are accessed, in order; shape (accesses,).
    """
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    count = len(blocks)
    order = np.argsort(blocks, kind="stable")
    same = blocks[order[1:]] == blocks[order[:-1]]
    last = np.full(count, -1, dtype=np.int64)
    last[order[1:][same]] = order[:-1][same]
    # Accesses j < i with last[j] <= last[i], less those up to last[i], for whom that always holds.
    distances = _smaller_before(last) - last - 1
    distances[last < 0] = -1
    return distances


def _smaller_before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many values before each one are at most as large; -1 is of no interest.

    Values are ranked, and blocks of a power of two are merged: of each right half, every value gets
    the number of those in the left half that are at most as large.
    """
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    count = len(values)
    ranks = np.empty(count, dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(count)
    found = np.zeros(count, dtype=np.int64)
    # In order of rank; a stable partition by a bit of the place keeps that order in each block.
    places = np.argsort(ranks)
    bits = max(1, (count - 1).bit_length())
    for bit in range(bits - 1, -1, -1):
        is_right = (places >> bit) & 1
        block = places >> (bit + 1)
        lefts = np.cumsum(1 - is_right)
        firsts = np.concatenate(([True], block[1:] != block[:-1]))
        before = np.maximum.accumulate(np.where(firsts, lefts - (1 - is_right), 0))
        right = is_right == 1
        found[places[right]] += (lefts - before)[right]
        keys = places >> bit
        places = places[np.argsort(keys, kind="stable")]
    return found


def _hottest(samples: list[NDArray[np.int64]]) -> dict[str, float]:
    """Return the share of the accesses to the most accessed blocks of those touched."""
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    shares: dict[str, list[float]] = {f"{share:.0%}": [] for share in HOTTEST}
    for blocks in samples:
        _, counts = np.unique(blocks, return_counts=True)
        sums = np.cumsum(np.sort(counts)[::-1])
        for share in HOTTEST:
            place = max(1, round(share * len(sums))) - 1
            shares[f"{share:.0%}"].append(float(sums[place] / sums[-1]))
    return {name: float(np.mean(found)) for name, found in shares.items() if found}
