"""The blocks that requests access, in order: the input of a simulated cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial import _core
from seatrial.lazy import np
from seatrial.stats.estimate import t_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

BLOCK_BYTES: Final = 4096
_ACCESSES_MAX: Final = 200_000_000
_CHUNK_ACCESSES: Final = 4_000_000
SALTS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
"""Salts of the hashes, one for each sample of blocks."""


@dataclass(frozen=True, eq=False)
class BlockAccesses:
    """Accesses to blocks: each read or write accesses all blocks that it overlaps.

    Attributes:
        block_bytes: Size of a block.
        requests: Indices of the requests that access blocks; shape (requests,), as the next two.
        firsts: The first block of each; block numbers of different devices are distinct.
        counts: Number of blocks of each.
    """

    block_bytes: int
    requests: NDArray[np.int64]
    firsts: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def accesses(self) -> int:
        """Number of accesses."""
        return int(self.counts.sum())

    def sampled(
        self, share: float = 1.0, salt: int = SALTS[0]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return accesses in order: their blocks, and the request of each.

        Args:
            share: Share of the blocks, which are sampled by a hash of their numbers.
            salt: Salt of the hash, which determines the sample.
        """
        blocks, requests = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for found, of_request in self._chunks():
            is_sampled: NDArray[np.bool_] | slice = slice(None)
            if share < 1.0:
                mask = _core.sampled_accesses(found.data, share, salt)
                is_sampled = np.frombuffer(mask, dtype=np.bool_)
            blocks.append(found[is_sampled])
            requests.append(of_request[is_sampled])
        return np.concatenate(blocks), np.concatenate(requests)

    def counts_by_block(self) -> NDArray[np.int64]:
        """Return the number of accesses to each block that is accessed; shape (blocks,)."""
        known, pending = _no_counts(), [_no_counts()]
        for found, _ in self._chunks():
            pending.append(np.unique(found, return_counts=True))
            # Merged when there are twice as many: not all blocks are sorted in each chunk.
            if sum(len(blocks) for blocks, _ in pending) > len(known[0]):
                known, pending = _merged([known, *pending]), []
        return _merged([known, *pending])[1]

    def _chunks(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        """Yield blocks and requests of a bounded number of accesses at a time, in order."""
        sums = np.cumsum(self.counts)
        begin = 0
        while begin < len(self.counts):
            before = int(sums[begin - 1]) if begin else 0
            end = int(np.searchsorted(sums, before + _CHUNK_ACCESSES))
            end = min(max(end, begin + 1), len(self.counts))
            own = self.counts[begin:end]
            starts = np.cumsum(own) - own
            first = np.repeat(self.firsts[begin:end] - starts, own)
            found = (first + np.arange(int(own.sum()))).astype(np.uint64)
            yield found, np.repeat(self.requests[begin:end], own)
            begin = end


def _no_counts() -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    return np.empty(0, np.uint64), np.empty(0, np.int64)


def _merged(
    parts: list[tuple[NDArray[np.uint64], NDArray[np.int64]]],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return blocks, each once, with the sums of their counts."""
    blocks, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(blocks, kind="stable")
    blocks, counts = blocks[order], counts[order]
    firsts = np.flatnonzero(np.concatenate((blocks[:1] == blocks[:1], blocks[1:] != blocks[:-1])))
    return blocks[firsts], np.add.reduceat(counts, firsts) if len(firsts) else counts


def mean_and_bounds(
    values: Sequence[float], *, high_max: float = 1.0
) -> tuple[float, float, float]:
    """Return the mean over samples with its 95 % interval; one value has none.

    Args:
        values: A value of each sample, at least 0.
        high_max: The most that one can be: 1 for a share.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, mean, mean
    half = t_of(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return mean, max(0.0, mean - half), min(high_max, mean + half)


def block_accesses(recording: Recording, block_bytes: int = BLOCK_BYTES) -> BlockAccesses | None:
    """Return the accesses of reads and writes; None for a recording without them.

    The block size is quadrupled until there are at most 200 million accesses.
    """
    own = recording.is_transfer
    if not own.any():
        return None
    begins, lengths = recording.offset_bytes[own], recording.length_bytes[own]
    while True:
        firsts = begins // block_bytes
        counts = (begins + lengths - 1) // block_bytes - firsts + 1
        if int(counts.sum()) <= _ACCESSES_MAX:
            break
        block_bytes *= 4
    firsts = firsts + recording.device[own].astype(np.int64) * int((firsts + counts).max())
    return BlockAccesses(block_bytes, np.flatnonzero(own), firsts, counts)
