"""Finding ``reads_from_cache``: a storage benchmark whose reads were served from memory."""

from __future__ import annotations

import math
from typing import Annotated, Final

from seatrial.findings.context import AffectedCells, Context, memory_for_cache_bytes
from seatrial.findings.rule import from_samples
from seatrial.published import HIDDEN
from seatrial.stats.model import Figures, Finding, FindingText
from seatrial.stats.wording import format_share, format_size
from seatrial.trials.database.analysis.cache_sweep import setting_bytes
from seatrial.trials.database.analysis.model import DatabaseCell, database_of, specification
from seatrial.trials.database.study.cost import memory_limit_min_bytes, memory_limit_text

DEVICE_SHARE_MAX: Final = 0.01
"""Of the blocks that queries read; a read from a device takes about a hundred times as long as one
from memory, so 1 % of the reads takes as much time as all the others."""
HARDLY_SHARE: Final = 0.001
LARGER_FACTOR: Final = 2
"""At most half of the blocks of a database of twice the memory fit into it."""
LIMIT_FACTOR: Final = 4
_DEFAULT_BUFFERS: Final = "128MB"
"""PostgreSQL's own shared_buffers."""


class ReadsFromCacheFigures(Figures, frozen=True, kw_only=True, tag="reads_from_cache"):
    cells_count: int
    device_share_max: float
    database_bytes_max: int
    memory_bytes: float | None
    concerned: Annotated[AffectedCells, HIDDEN]
    scale: Annotated[int, HIDDEN]
    limit_min_bytes: Annotated[int, HIDDEN]

    def text(self) -> FindingText:
        sizes = f" (database: {format_size(self.database_bytes_max)}"
        if self.memory_bytes:
            sizes += f", memory: {format_size(int(self.memory_bytes))}"
        sizes += ")"
        return FindingText(
            sentence=(
                f"{self.concerned}: {_few(self.device_share_max)} of the blocks that queries "
                "read came from the device, the rest from memory"
                f"{sizes if self.database_bytes_max else ''}. The result says nothing about the "
                "device's reads."
            ),
            cause=(
                "Shared buffers and the page cache hold the whole working set. This is common in "
                "production, but it does not test a device's reads."
            ),
            next=_next(
                self.scale, self.database_bytes_max, self.memory_bytes, self.limit_min_bytes
            ),
        )


@from_samples(rank=620, section="Databases", sees_replays=True)
def reads_from_cache(context: Context) -> list[Finding]:
    """Find cells in which less than 1 % of the blocks was read from the device.

    Means:
        Almost no block that queries read came from the device: the test measures commits or the
        CPU, but not the device's reads.

    Decided:
        Less than 1 % of all blocks read, hits in shared buffers included. Note.

    Do:
        To test the device's reads, use the memory limit, the scale or the script that it names.
    """
    analysis = database_of(context)
    parts = [
        part
        for part in (analysis.cells if analysis else [])
        if part.reads is not None and part.reads.device.value < DEVICE_SHARE_MAX
    ]
    if not parts:
        return []
    keys = {part.cell.key for part in parts}
    concerned = [summary for summary in context.cells if summary.cell.key in keys]
    largest = max(parts, key=lambda part: part.database_bytes)
    spec = specification(largest.cell)
    scale = spec.load.scale if spec else 0
    memory_bytes = max((_memory_bytes(context, part) for part in parts), default=0) or None
    shares = [part.reads.device.value for part in parts if part.reads is not None]
    size_bytes, worst_share = largest.database_bytes, max(shares)
    return [
        Finding(
            severity="note",
            cells=[summary.cell.identity() for summary in concerned],
            figures=ReadsFromCacheFigures(
                cells_count=len(parts),
                device_share_max=worst_share,
                database_bytes_max=size_bytes,
                memory_bytes=memory_bytes,
                concerned=context.affected_cells(concerned),
                scale=scale,
                limit_min_bytes=max(_limit_min_bytes(part) for part in parts),
            ),
        )
    ]


def _memory_bytes(context: Context, part: DatabaseCell) -> int:
    """Return the memory that a cell's server and page cache could use; 0 if unknown."""
    spec = specification(part.cell)
    limits = (memory_for_cache_bytes(context.before), spec.memory_limit_bytes if spec else None)
    return min((limit for limit in limits if limit), default=0)


def _limit_min_bytes(part: DatabaseCell) -> int:
    spec = specification(part.cell)
    buffers_bytes = setting_bytes(part.settings.get("shared_buffers", _DEFAULT_BUFFERS)) or 0
    return memory_limit_min_bytes(buffers_bytes, spec.clients * spec.processes if spec else 0)


def _few(share: float) -> str:
    return "almost none" if share < HARDLY_SHARE else f"at most {format_share(share)}"


def _next(scale: float, size_bytes: int, memory_bytes: float | None, limit_min_bytes: int) -> str:
    """Return what makes reads reach the device: a memory limit, a scale, or another script."""
    if memory_bytes and size_bytes >= LARGER_FACTOR * memory_bytes:
        return (
            "The database is larger than memory, but few of its blocks are read: measure a "
            "workload that reads more of them, such as the script select-only."
        )
    ways = []
    limit_bytes = max(limit_min_bytes, size_bytes // LIMIT_FACTOR)
    if limit_bytes < min(size_bytes, memory_bytes or size_bytes):
        ways.append(f"a memory limit of {memory_limit_text(limit_bytes)} for this database")
    if scale and size_bytes and memory_bytes:
        needed = scale * LARGER_FACTOR * memory_bytes / size_bytes
        digits = 10 ** max(0, math.floor(math.log10(needed)) - 1)
        ways.append(f"a scale of about {math.ceil(needed / digits) * digits:,}")
    if not ways:
        return "Measure a database of twice the memory size, or set a memory limit."
    return f"To test the device's reads, measure with {' or '.join(ways)}."
