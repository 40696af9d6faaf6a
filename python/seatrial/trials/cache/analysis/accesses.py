"""The block accesses of a recording for simulated caches: all of them, or samples of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from seatrial import _core
from seatrial.lazy import np
from seatrial.trials.watch.analysis.load.blocks import SALTS, block_accesses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

EXACT_ACCESSES_MAX: Final = 3_000_000
"""With more accesses, samples of the blocks are simulated."""
SAMPLED_ACCESSES: Final = 500_000
"""Approximate accesses in each sample."""
_DEVICE_BITS: Final = 48
"""Bits of an offset: a device has fewer than 2 to the power of 48 bytes."""


@dataclass(frozen=True, eq=False)
class BlockSample:
    """Accesses to all blocks, or to a sample of them.

    Attributes:
        blocks: The block of each access; shape (accesses,), as the next.
        writes: Whether each is a write, 0 or 1.
        streams_bytes: Length of the sequential stream up to the end of its request.
        at_ns: Arrival times.
        reads_until: Reads of all blocks, sampled or not, up to the end of its request.
        seed: Seed of its simulation.
    """

    blocks: NDArray[np.uint64]
    writes: NDArray[np.uint8]
    streams_bytes: NDArray[np.uint32]
    at_ns: NDArray[np.uint64]
    reads_until: NDArray[np.uint32]
    seed: int

    @cached_property
    def caches(self) -> _core.CacheAccesses:
        """The accesses for simulated caches."""
        return _core.CacheAccesses(
            self.blocks.data, writes=self.writes.data, streams_bytes=self.streams_bytes.data
        )

    def __getstate__(self) -> dict[str, object]:
        """Return the pickled state, without the simulator."""
        return {name: value for name, value in vars(self).items() if name != "caches"}


@dataclass(frozen=True, eq=False)
class Accesses:
    """The accesses of a recording.

    Attributes:
        block_bytes: Size of a block.
        accesses: Accesses to all blocks.
        reads: Reads among them.
        distinct: How many different blocks there are, estimated where samples are taken.
        share: Share of the blocks in each sample; 1 where there is one of all blocks.
        samples: One of all blocks, or several.
    """

    block_bytes: int
    accesses: int
    reads: int
    distinct: int
    share: float
    samples: list[BlockSample]

    @property
    def unique_bytes(self) -> int:
        """Size of all blocks that are accessed."""
        return self.distinct * self.block_bytes

    def blocks_in(self, size_bytes: int) -> int:
        """Return the capacity of a cache in blocks of a sample."""
        return round(size_bytes / self.block_bytes * self.share)

    def stream_share(self, stream_bytes_min: int) -> float:
        """Return the share of reads in sequential streams of at least this length."""
        reads = sum(each.caches.reads for each in self.samples)
        of_streams = sum(
            int(((each.streams_bytes >= stream_bytes_min) & (each.writes == 0)).sum())
            for each in self.samples
        )
        return of_streams / reads


def accesses_of(recording: Recording, block_bytes: int) -> Accesses | None:
    """Return the accesses of a recording; None without a read.

    Args:
        recording: The requests.
        block_bytes: Unit of caching.
    """
    found = block_accesses(recording, block_bytes)
    if found is None:
        return None
    is_write = recording.is_operation("write")[found.requests]
    reads = int(found.counts[~is_write].sum())
    if not reads:
        return None
    is_exact = found.accesses <= EXACT_ACCESSES_MAX
    share = 1.0 if is_exact else SAMPLED_ACCESSES / found.accesses
    streams_bytes = _streams_bytes(recording)
    reads_until = np.zeros(recording.requests, np.uint32)
    reads_until[found.requests] = np.cumsum(np.where(is_write, 0, found.counts))
    samples = []
    for seed, salt in enumerate(SALTS[:1] if is_exact else SALTS):
        blocks, requests = found.sampled(share, salt)
        writes = recording.is_operation("write")[requests].astype(np.uint8)
        at_ns = recording.arrived_ns[requests].astype(np.uint64)
        sample = BlockSample(
            blocks, writes, streams_bytes[requests], at_ns, reads_until[requests], seed
        )
        if sample.caches.reads:
            samples.append(sample)
    if not samples:
        return None
    distinct = sum(each.caches.different for each in samples) / len(samples) / share
    return Accesses(found.block_bytes, found.accesses, reads, round(distinct), share, samples)


def _streams_bytes(recording: Recording) -> NDArray[np.uint32]:
    """Return the length of the sequential stream up to each request; shape (requests,)."""
    found = np.zeros(len(recording.operation), np.uint32)
    own = recording.is_transfer
    begins_bytes = recording.device[own].astype(np.uint64) << np.uint64(_DEVICE_BITS)
    begins_bytes += recording.offset_bytes[own].astype(np.uint64)
    found[own] = np.frombuffer(
        _core.stream_bytes(
            begins_bytes.data,
            recording.length_bytes[own].astype(np.uint64).data,
            recording.arrived_ns[own].astype(np.uint64).data,
            recording.process[own].astype(np.int64).data,
        ),
        dtype=np.uint32,
    )
    return found
