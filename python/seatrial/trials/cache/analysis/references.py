"""The reference string of a server's buffers, from the requests to its disk.

With small buffers and direct I/O most accesses of a page are requests. The others find their page
in the buffers, as it is used several times in a row, or always, like the root of an index. Larger
buffers also contain the pages of the smallest ones, so these accesses are hits at every size: the
server counts them, and only the requests have to be simulated. The simulation does not know that a
page was used several times; PostgreSQL's clock sweep decides the same if all pages have the same
usage count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial import _core
from seatrial.lazy import np
from seatrial.trials.watch.analysis.activity import TRANSFERS
from seatrial.trials.watch.analysis.load.blocks import SALTS
from seatrial.units import SECTOR_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

PAGE_BYTES: Final = 8192
LINUX_PAGE_BYTES: Final = 4096
MISS: Final = 1
WRITE_BACK: Final = 2
ACCESSES_MAX: Final = 4_000_000
"""With more accesses, samples of the pages are simulated."""
NOT_BUFFERED: Final = frozenset(
    {"WAL", "transaction status", "temporary files", "other programs", "statistics", "server log"}
)
"""Names in a recording that are not a table or index, or do not pass through shared buffers."""


@dataclass(frozen=True, eq=False)
class ReferenceString:
    """Accesses of pages, in order.

    Attributes:
        names: Tables and indexes.
        pages: Page number of each access; shape (accesses,), as all.
        relation: Index of its relation in ``names``.
        open_file: Number of its pair of process and relation, for read-ahead.
        is_new: Whether the access created the page, so that it is neither hit nor miss.
        changes: Whether the page was dirty when it left.
        is_counted: Whether it is after the warm-up.
    """

    names: tuple[str, ...]
    pages: NDArray[np.uint64]
    relation: NDArray[np.int32]
    open_file: NDArray[np.uint32]
    is_new: NDArray[np.bool_]
    changes: NDArray[np.bool_]
    is_counted: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SimulatedBuffers:
    """Simulated results of buffers of a size in the counted part, by table and index.

    Attributes:
        misses: Pages read; shape (names,).
        write_backs: Dirty pages that leave.
        deviation_share: Standard deviation of all misses over the samples of pages, as a share; 0
            where all pages are simulated.
    """

    misses: NDArray[np.float64]
    write_backs: NDArray[np.float64]
    deviation_share: float = 0.0


def references_of(recording: Recording, counted_ns: tuple[int, int]) -> ReferenceString | None:
    """Return the reference string of a recording; None without a read of a table or index.

    Args:
        recording: With the relation of each request, until all changed pages are written.
        counted_ns: Begin and end of the counted part, from the beginning of the recording.
    """
    names = recording.about.relations
    buffered = np.array([name not in NOT_BUFFERED for name in names], dtype=np.bool_)
    own = (recording.relation >= 0) & (recording.length_bytes > 0)
    own &= recording.is_operation(*TRANSFERS)
    own[own] &= buffered[recording.relation[own]]
    if not (own & recording.is_operation("read")).any():
        return None
    counts = np.maximum(1, recording.length_bytes[own] // PAGE_BYTES)
    event = np.repeat(np.flatnonzero(own), counts)
    page_number = np.arange(len(event)) - np.repeat(np.cumsum(counts) - counts, counts)
    # A page need not begin at a multiple of its size on the device.
    page_offset_bytes = recording.offset_bytes[event] + page_number * PAGE_BYTES
    pages = (page_offset_bytes // SECTOR_BYTES).astype(np.uint64)
    pages |= recording.device[event].astype(np.uint64) << np.uint64(48)
    is_access, is_new, changes = _classified(pages, recording.is_operation("write")[event])
    event = event[is_access]
    arrived_ns = recording.arrived_ns[event]
    readers = recording.process[event].astype(np.int64) * len(names) + recording.relation[event]
    _, open_file = np.unique(readers, return_inverse=True)
    return ReferenceString(
        names=names,
        pages=pages[is_access],
        relation=recording.relation[event],
        open_file=open_file.astype(np.uint32),
        is_new=is_new[is_access],
        changes=changes[is_access],
        is_counted=(arrived_ns >= counted_ns[0]) & (arrived_ns < counted_ns[1]),
    )


def _classified(
    pages: NDArray[np.uint64], is_write: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which events are accesses, which of them create their page, and which change it.

    A page that is written before it was ever read was created. A later write shows only that an
    earlier access changed the page.
    """
    order = np.argsort(pages, kind="stable")
    sorted_pages, sorted_writes = pages[order], is_write[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = sorted_pages[1:] != sorted_pages[:-1]
    is_access = np.empty(len(order), dtype=np.bool_)
    is_access[order] = ~sorted_writes | begins
    is_new = np.empty(len(order), dtype=np.bool_)
    is_new[order] = sorted_writes & begins
    followed = np.zeros(len(order), dtype=np.bool_)
    followed[:-1] = sorted_writes[1:] & ~begins[1:]
    changes = np.empty(len(order), dtype=np.bool_)
    changes[order] = followed | (sorted_writes & begins)
    return is_access, is_new, changes


class BufferSimulator:
    """Simulates buffers of any size for a reference string."""

    def __init__(self, references: ReferenceString) -> None:
        """Store the accesses, or samples of their pages if there are too many."""
        self._references = references
        accesses = len(references.pages)
        self.share = min(1.0, ACCESSES_MAX / accesses)
        all_pages = np.ones(accesses, dtype=np.bool_)
        self._samples = [all_pages] if self.share == 1.0 else [self._sample(salt) for salt in SALTS]
        self._accesses = [
            _core.CacheAccesses(references.pages[each].data) for each in self._samples
        ]

    def _sample(self, salt: int) -> NDArray[np.bool_]:
        pages = np.ascontiguousarray(self._references.pages)
        return np.frombuffer(_core.sampled_accesses(pages.data, self.share, salt), dtype=np.bool_)

    def of_size(self, size_bytes: int, policy: str = "postgresql") -> SimulatedBuffers:
        """Simulate buffers of a size; a few pages of a sample give no reliable result."""
        return self._totals([self._outcomes(number, size_bytes, policy)
                             for number in range(len(self._samples))])  # fmt: skip

    def behind(
        self, size_bytes: int, memory_bytes: int, read_ahead_bytes: int = 0
    ) -> SimulatedBuffers:
        """Simulate reads of a page cache behind buffers of a size; return those of the disk.

        Writes are not simulated. A page that is read ahead is not a miss. Samples of the pages have
        no neighbours, so that nothing is read ahead there.

        Args:
            size_bytes: Size of the buffers.
            memory_bytes: Size of the page cache.
            read_ahead_bytes: Highest read-ahead of a file.
        """
        window_pages = read_ahead_bytes // LINUX_PAGE_BYTES if self.share == 1.0 else 0
        found = []
        for number, in_sample in enumerate(self._samples):
            outcome = self._outcomes(number, size_bytes, "postgresql")
            is_read = (outcome & MISS != 0) & ~self._references.is_new[in_sample]
            event = np.flatnonzero(in_sample)[is_read]
            first = self._references.pages[event] // np.uint64(LINUX_PAGE_BYTES // SECTOR_BYTES)
            cache = _core.PageCache(max(1, round(memory_bytes * self.share / LINUX_PAGE_BYTES)),
                                    window_pages)  # fmt: skip
            read = cache.read(
                first.data, self._references.open_file[event].data, PAGE_BYTES // LINUX_PAGE_BYTES
            )
            outcomes = np.zeros(len(outcome), dtype=np.uint8)
            outcomes[is_read] = np.frombuffer(read, dtype=np.uint8) * MISS
            found.append(outcomes)
        return self._totals(found)

    def _capacity_blocks(self, size_bytes: int) -> int:
        return max(1, round(size_bytes / PAGE_BYTES * self.share))

    def _outcomes(self, number: int, size_bytes: int, policy: str) -> NDArray[np.uint8]:
        changes = self._references.changes[self._samples[number]].astype(np.uint8)
        outcome = self._accesses[number].outcomes(
            policy, self._capacity_blocks(size_bytes), PAGE_BYTES, changes=changes.data
        )
        return np.frombuffer(outcome, dtype=np.uint8)

    def _totals(self, samples: list[NDArray[np.uint8]]) -> SimulatedBuffers:
        references = self._references
        misses, write_backs = [], []
        for in_sample, outcome in zip(self._samples, samples, strict=True):
            counted, relation = references.is_counted[in_sample], references.relation[in_sample]
            is_miss = (outcome & MISS != 0) & counted & ~references.is_new[in_sample]
            names = len(references.names)
            misses.append(np.bincount(relation[is_miss], minlength=names) / self.share)
            leaves = (outcome & WRITE_BACK != 0) & counted
            write_backs.append(np.bincount(relation[leaves], minlength=names) / self.share)
        totals = np.array([each.sum() for each in misses])
        deviation = float(totals.std(ddof=1) / max(1.0, totals.mean())) if len(totals) > 1 else 0.0
        return SimulatedBuffers(np.mean(misses, axis=0), np.mean(write_backs, axis=0), deviation)

    @property
    def reads(self) -> int:
        """Misses of the smallest buffers in the counted part."""
        found = self._references
        return int((found.is_counted & ~found.is_new).sum())
