"""What order alone says of the cells of a table: which of them contradict each other.

Larger blocks never give more requests per second, nor fewer bytes per second; more threads, or more
requests in flight for each, never give fewer requests per second. Threads and depth are not
exchanged for each other: one thread may be unable to submit what four can. Below a page larger
blocks may be twice as fast, as a drive reads or writes whole pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from seatrial.trials.audit.analysis.model import TablePoint
from seatrial.trials.audit.queueing.forms import PAGE_BYTES

if TYPE_CHECKING:
    from numpy import bool_, float64
    from numpy.typing import NDArray


SUB_PAGE_LOG: Final = math.log(2.0)


def contradictions_log(points: Sequence[TablePoint]) -> NDArray[float64]:
    """Return by how much each cell (row) falls short of what each other (column) demands.

    As logarithms; minus infinity where the other demands nothing. Of cells with several rounds the
    best round falls short of the worst of the other, so that the scatter of rounds contradicts
    nothing.

    Args:
        points: Cells that have a figure.
    """
    import numpy as np  # noqa: PLC0415

    best = np.log([max(_rates_per_s(point)) for point in points])
    worst = np.log([min(_rates_per_s(point)) for point in points])
    size, threads, depth = (
        np.array([getattr(point, name) for point in points])
        for name in ("block_size_bytes", "threads", "depth")
    )
    smaller_log = np.minimum(0.0, np.log(size) - np.log(size)[:, np.newaxis])
    short = worst + smaller_log - best[:, np.newaxis]
    demands = (threads <= threads[:, np.newaxis]) & (depth <= depth[:, np.newaxis])
    below_page = (size > size[:, np.newaxis]) & (size[:, np.newaxis] < PAGE_BYTES)
    short = np.where(below_page, short - SUB_PAGE_LOG, short)
    np.fill_diagonal(demands, val=False)
    reported: NDArray[float64] = np.where(demands, short, -np.inf)
    return reported


def fewest_contradicting(short_log: NDArray[float64], limit_log: float) -> NDArray[bool_]:
    """Return the cells that stay if those that contradict the most are left out, one by one."""
    import numpy as np  # noqa: PLC0415

    contradicts = (short_log > limit_log) | (short_log > limit_log).T
    kept = np.ones(len(contradicts), dtype=bool)
    while (counts := (contradicts & np.outer(kept, kept)).sum(axis=1)).any():
        kept[int(counts.argmax())] = False
    return kept


def places_of(points: Sequence[TablePoint]) -> dict[str, tuple[int, int, int]]:
    """Return where each cell stands among the block sizes, threads and depths, by its key."""
    sizes, threads, depths = (
        sorted({getattr(point, name) for point in points})
        for name in ("block_size_bytes", "threads", "depth")
    )
    return {
        point.key: (
            sizes.index(point.block_size_bytes),
            threads.index(point.threads),
            depths.index(point.depth),
        )
        for point in points
    }


def are_neighbours(one: Sequence[int], other: Sequence[int]) -> bool:
    """Tell whether two places of a table are no further apart than one step each way."""
    return all(abs(a - b) <= 1 for a, b in zip(one, other, strict=True))


def _rates_per_s(point: TablePoint) -> Sequence[float]:
    rates = [rate for rate in point.rounds_per_s if rate > 0]
    return rates or [point.iops.value if point.iops else 0.0]
