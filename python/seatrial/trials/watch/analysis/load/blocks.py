"""The blocks that requests access, in order: the input of a simulated cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial import _core
from seatrial.lazy import np

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        for begin, end in self._chunks():
            own = self.counts[begin:end]
            starts = np.cumsum(own) - own
            first = np.repeat(self.firsts[begin:end] - starts, own)
            found = (first + np.arange(int(own.sum()))).astype(np.uint64)
            of_request = np.repeat(self.requests[begin:end], own)
            if share < 1.0:
                mask = _core.sampled_accesses(found.data, share, salt)
                is_sampled = np.frombuffer(mask, dtype=np.bool_)
                found, of_request = found[is_sampled], of_request[is_sampled]
            blocks.append(found)
            requests.append(of_request)
        return np.concatenate(blocks), np.concatenate(requests)

    def _chunks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of requests with a bounded number of accesses."""
        sums = np.cumsum(self.counts)
        begin = 0
        while begin < len(self.counts):
            before = int(sums[begin - 1]) if begin else 0
            end = int(np.searchsorted(sums, before + _CHUNK_ACCESSES))
            end = min(max(end, begin + 1), len(self.counts))
            yield begin, end
            begin = end


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
