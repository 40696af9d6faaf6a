"""Finding ``reads_from_cache``: a trial of storage whose reads never reached it."""

from __future__ import annotations

import math
from typing import Final

from seatrial.findings.context import Context, memory_for_cache_bytes
from seatrial.findings.rule import from_samples
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_share, format_size
from seatrial.trials.database.analysis.model import DatabaseCell, database_of
from seatrial.trials.database.analysis.samples import specification

DEVICE_SHARE_MAX: Final = 0.01
"""Of the blocks that queries read; a read from a device costs about a hundred times one from
memory, so that a hundredth of them already weighs as much as all the others."""
HARDLY_SHARE: Final = 0.001
LARGER_FACTOR: Final = 2
"""A database twice as large as memory finds at most half of its blocks there."""
LIMIT_FACTOR: Final = 4


@from_samples(rank=620, section="Of a database", sees_replays=True)
def reads_from_cache(context: Context) -> list[Finding]:
    """Find cells of which less than one block in a hundred was read from the device.

    Means:
        Hardly any block that queries read came from the device: the cell is a trial of commits, or
        of the processor, and none of the device's reads.

    Decided:
        Less than 1 % of the blocks, of those that shared buffers had, too. Note.

    Do:
        If the device's reads are meant: the memory limit or the scale that the finding names.
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
    memory_bytes = memory_for_cache_bytes(context.before)
    shares = [part.reads.device.value for part in parts if part.reads is not None]
    sizes = f"; the database has {format_size(largest.database_bytes)}"
    if memory_bytes:
        sizes += f", memory {format_size(int(memory_bytes))}"
    return [
        Finding(
            kind="reads_from_cache",
            severity="note",
            cells=[summary.cell.identity() for summary in concerned],
            sentence=(
                f"{context.of_cells(concerned)}: {_few(max(shares))} of the blocks that queries "
                "read came from the device, the rest from memory"
                f"{sizes if largest.database_bytes else ''}. What is said of the storage here is "
                "said of its commits."
            ),
            cause=(
                "Shared buffers and the page cache hold all that the workload asks for. That is "
                "how many databases live; it is no trial of a device's reads."
            ),
            evidence={
                "cells_count": len(parts),
                "device_share_max": max(shares),
                "database_bytes_max": largest.database_bytes,
                "memory_bytes": memory_bytes,
            },
            next=_next(largest, memory_bytes),
        )
    ]


def _few(share: float) -> str:
    return "hardly any" if share < HARDLY_SHARE else f"at most {format_share(share)}"


def _next(largest: DatabaseCell, memory_bytes: float | None) -> str:
    """Return what makes the reads the device's: a memory limit, or a scale."""
    spec, size_bytes = specification(largest.cell), largest.database_bytes
    ways = []
    if size_bytes:
        limit_bytes = max(1 << 26, size_bytes // LIMIT_FACTOR)
        ways.append(f"a memory limit of {format_size(limit_bytes)} for this database")
    if spec and spec.load.scale and size_bytes and memory_bytes:
        needed = spec.load.scale * LARGER_FACTOR * memory_bytes / size_bytes
        digits = 10 ** max(0, math.floor(math.log10(needed)) - 1)
        ways.append(f"a scale of about {math.ceil(needed / digits) * digits:,}")
    if not ways:
        return "Measure a database of twice the memory, or set a memory limit."
    return f"To try the device's reads, measure with {' or '.join(ways)}."
