"""The reference string of a server's buffers, from what it read and wrote of its disk.

With small buffers and direct I/O most accesses of a page are requests. The others find their page
in the buffers, as it is used several times in a row, or always, as the root of an index is. A page
that even the smallest buffers hold is held by larger ones, too, so these accesses are hits at every
size: the server counts them, and only the requests have to be simulated. That a page was used
several times is not known to the simulation; with usage counts of 5 or 1 alike for all pages,
PostgreSQL's clock sweep decides the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seatrial import _core
from seatrial.trials.watch.analysis.activity import OPERATIONS
from seatrial.trials.watch.analysis.load.blocks import SALTS
from seatrial.units import SECTOR_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seatrial.trials.watch.recording import Recording

PAGE_BYTES: Final = 8192
LINUX_PAGE_BYTES: Final = 4096
MISS: Final = 1
WRITE_BACK: Final = 2
ACCESSES_MAX: Final = 4_000_000
"""Of more accesses, samples of the pages are simulated."""
_READ: Final = OPERATIONS.index("read")
_WRITE: Final = OPERATIONS.index("write")
NOT_BUFFERED: Final = frozenset(
    {"WAL", "transaction status", "temporary files", "other programs", "statistics", "server log"}
)
"""What a recording assigns to no table or index, or what does not pass through shared buffers."""


@dataclass(frozen=True, eq=False)
class References:
    """Accesses of pages, in order.

    Attributes:
        names: Tables and indexes.
        pages: Page of each access, by any number; shape (accesses,), as all.
        relation: Its place in ``names``.
        open_file: Number of the process and relation, which each reads a file in order or not.
        is_new: Whether its page was made by it, which is no hit and no miss.
        changes: Whether the page was changed before it left.
        is_counted: Whether it belongs to the part that is counted, after the warm-up.
    """

    names: tuple[str, ...]
    pages: NDArray[np.uint64]
    relation: NDArray[np.int32]
    open_file: NDArray[np.uint32]
    is_new: NDArray[np.bool_]
    changes: NDArray[np.bool_]
    is_counted: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Simulated:
    """What buffers of a size would do in the counted part, by table and index.

    Attributes:
        misses: Pages read; shape (names,).
        write_backs: Changed pages that leave.
        deviation_share: Standard deviation of all misses over the samples of pages, as a share; 0
            where all pages are simulated.
    """

    misses: NDArray[np.float64]
    write_backs: NDArray[np.float64]
    deviation_share: float = 0.0


def references_of(recording: Recording, counted_ns: tuple[int, int]) -> References | None:
    """Return the reference string of a recording; None without a read of a table or index.

    Args:
        recording: With the relation of each request, until all changed pages are written.
        counted_ns: Begin and end of what is counted, from the beginning of the recording.
    """
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    names = recording.about.relations
    buffered = np.array([name not in NOT_BUFFERED for name in names], dtype=np.bool_)
    own = (recording.relation >= 0) & (recording.length_bytes > 0)
    own &= (recording.operation == _READ) | (recording.operation == _WRITE)
    own[own] &= buffered[recording.relation[own]]
    if not (own & (recording.operation == _READ)).any():
        return None
    counts = np.maximum(1, recording.length_bytes[own] // PAGE_BYTES)
    at = np.repeat(np.flatnonzero(own), counts)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    # A page need not begin at a multiple of its size on the device.
    place_bytes = recording.offset_bytes[at] + nth * PAGE_BYTES
    pages = (place_bytes // SECTOR_BYTES).astype(np.uint64)
    pages |= recording.device[at].astype(np.uint64) << np.uint64(48)
    keeps, is_new, changes = _kept(pages, recording.operation[at] == _WRITE)
    at = at[keeps]
    arrived_ns = recording.arrived_ns[at]
    readers = recording.process[at].astype(np.int64) * len(names) + recording.relation[at]
    _, open_file = np.unique(readers, return_inverse=True)
    return References(
        names=names,
        pages=pages[keeps],
        relation=recording.relation[at],
        open_file=open_file.astype(np.uint32),
        is_new=is_new[keeps],
        changes=changes[keeps],
        is_counted=(arrived_ns >= counted_ns[0]) & (arrived_ns < counted_ns[1]),
    )


def _kept(
    pages: NDArray[np.uint64], is_write: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which events are accesses, which of these make their page, and which change it.

    A page that is written before it was ever read was made; a later write says only that an
    access before it changed the page.
    """
    import numpy as np  # noqa: PLC0415 - takes 0.1 s

    order = np.argsort(pages, kind="stable")
    sorted_pages, sorted_writes = pages[order], is_write[order]
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = sorted_pages[1:] != sorted_pages[:-1]
    keeps = np.empty(len(order), dtype=np.bool_)
    keeps[order] = ~sorted_writes | begins
    is_new = np.empty(len(order), dtype=np.bool_)
    is_new[order] = sorted_writes & begins
    followed = np.zeros(len(order), dtype=np.bool_)
    followed[:-1] = sorted_writes[1:] & ~begins[1:]
    changes = np.empty(len(order), dtype=np.bool_)
    changes[order] = followed | (sorted_writes & begins)
    return keeps, is_new, changes


class Buffers:
    """Simulates buffers of any size for a reference string."""

    def __init__(self, references: References) -> None:
        """Take the accesses, or samples of their pages if there are too many."""
        import numpy as np  # noqa: PLC0415 - takes 0.1 s

        self._references = references
        accesses = len(references.pages)
        self.share = min(1.0, ACCESSES_MAX / accesses)
        whole = np.ones(accesses, dtype=np.bool_)
        self._samples = [whole] if self.share == 1.0 else [self._sample(salt) for salt in SALTS]
        self._accesses = [
            _core.CacheAccesses(references.pages[each].data) for each in self._samples
        ]

    def _sample(self, salt: int) -> NDArray[np.bool_]:
        import numpy as np  # noqa: PLC0415 - takes 0.1 s

        pages = np.ascontiguousarray(self._references.pages)
        return np.frombuffer(_core.sampled_accesses(pages.data, self.share, salt), dtype=np.bool_)

    def of_size(self, size_bytes: int, policy: str = "postgresql") -> Simulated:
        """Return what buffers of a size do; below a few pages of a sample nothing is certain."""
        return self._summed([self._came(number, size_bytes, policy)
                             for number in range(len(self._samples))])  # fmt: skip

    def behind(self, size_bytes: int, memory_bytes: int, read_ahead_bytes: int = 0) -> Simulated:
        """Return what a page cache of ``memory_bytes`` behind buffers of a size leaves to the disk.

        What leaves the buffers changed passes through it, too, which is not simulated: only reads.
        A page that is read ahead is no miss. Samples of the pages have no neighbours, so that there
        nothing is read ahead.

        Args:
            size_bytes: Size of the buffers.
            memory_bytes: Size of the page cache.
            read_ahead_bytes: Most that is read ahead of a file.
        """
        import numpy as np  # noqa: PLC0415 - takes 0.1 s

        window_pages = read_ahead_bytes // LINUX_PAGE_BYTES if self.share == 1.0 else 0
        found = []
        for number, taken in enumerate(self._samples):
            came = self._came(number, size_bytes, "postgresql")
            is_read = (came & MISS != 0) & ~self._references.is_new[taken]
            at = np.flatnonzero(taken)[is_read]
            first = self._references.pages[at] // np.uint64(LINUX_PAGE_BYTES // SECTOR_BYTES)
            cache = _core.PageCache(max(1, round(memory_bytes * self.share / LINUX_PAGE_BYTES)),
                                    window_pages)  # fmt: skip
            read = cache.read(
                first.data, self._references.open_file[at].data, PAGE_BYTES // LINUX_PAGE_BYTES
            )
            both = np.zeros(len(came), dtype=np.uint8)
            both[is_read] = np.frombuffer(read, dtype=np.uint8) * MISS
            found.append(both)
        return self._summed(found)

    def _capacity_blocks(self, size_bytes: int) -> int:
        return max(1, round(size_bytes / PAGE_BYTES * self.share))

    def _came(self, number: int, size_bytes: int, policy: str) -> NDArray[np.uint8]:
        import numpy as np  # noqa: PLC0415 - takes 0.1 s

        changes = self._references.changes[self._samples[number]].astype(np.uint8)
        came = self._accesses[number].outcomes(
            policy, self._capacity_blocks(size_bytes), PAGE_BYTES, changes=changes.data
        )
        return np.frombuffer(came, dtype=np.uint8)

    def _summed(self, samples: list[NDArray[np.uint8]]) -> Simulated:
        import numpy as np  # noqa: PLC0415 - takes 0.1 s

        references = self._references
        misses, write_backs = [], []
        for taken, came in zip(self._samples, samples, strict=True):
            counted, relation = references.is_counted[taken], references.relation[taken]
            is_miss = (came & MISS != 0) & counted & ~references.is_new[taken]
            names = len(references.names)
            misses.append(np.bincount(relation[is_miss], minlength=names) / self.share)
            leaves = (came & WRITE_BACK != 0) & counted
            write_backs.append(np.bincount(relation[leaves], minlength=names) / self.share)
        totals = np.array([each.sum() for each in misses])
        deviation = float(totals.std(ddof=1) / max(1.0, totals.mean())) if len(totals) > 1 else 0.0
        return Simulated(np.mean(misses, axis=0), np.mean(write_backs, axis=0), deviation)

    @property
    def reads(self) -> int:
        """Requests for a page in the counted part: what the smallest buffers missed."""
        found = self._references
        return int((found.is_counted & ~found.is_new).sum())
