"""Finding ``page_cache_served``: memory answered in place of the device."""

from __future__ import annotations

from seatrial.analysis.findings.context import (
    Context,
    identities,
    is_of_a_device,
    median_over_samples,
    memory_for_cache_bytes,
)
from seatrial.analysis.findings.traffic import (
    DEVICE_SHARE_MIN,
    asked_read_bytes,
    asked_write_bytes,
    device_share,
    is_direct,
    span_bytes,
    writes_are_flushed,
)
from seatrial.analysis.model import CellSummary, Finding
from seatrial.analysis.wording import format_share, format_size


def page_cache_served(context: Context) -> list[Finding]:
    """Find buffered cells that the page cache served.

    What the device moved decides, where it was counted; else, for reads, whether memory is larger
    than what was read from.
    """
    memory_bytes = memory_for_cache_bytes(context.before)
    buffered = [c for c in context.cells if is_of_a_device(c) and not is_direct(c)]
    found = [_reads(context, buffered, memory_bytes), _writes(context, buffered)]
    return [finding for finding in found if finding]


def _reads(
    context: Context, buffered: list[CellSummary], memory_bytes: float | None
) -> Finding | None:
    concerned = [c for c in buffered if _reads_were_cached(c, memory_bytes)]
    if not concerned:
        return None
    shares = [share for c in concerned if (share := _read_share(c)) is not None]
    span = max(span_bytes(c) or 0 for c in concerned)
    told = []
    if shares:
        told.append(f"the device delivered as little as {format_share(min(shares))} of the bytes")
    if span and memory_bytes:
        told.append(f"the file has {format_size(span)}, memory {format_size(int(memory_bytes))}")
    return Finding(
        kind="page_cache_served",
        severity="warning",
        cells=identities(concerned),
        sentence=f"Memory served the reads of {context.of_cells(concerned)}: {'; '.join(told)}.",
        cause=(
            "Buffered reads of a file that fits into memory come from the page cache after the "
            "first pass; the rate is that of copying memory."
        ),
        evidence={
            "device_read_share_min": min(shares) if shares else None,
            "span_bytes_max": span,
            "memory_bytes": memory_bytes,
            "cells_count": len(concerned),
        },
        next=(
            "For the device use direct = true, or a file of at least twice the memory; keep the "
            "cell only if the database too will find this data in memory."
        ),
    )


def _read_share(summary: CellSummary) -> float | None:
    return median_over_samples(
        summary.samples,
        lambda sample: device_share(sample, "device_read_bytes", asked_read_bytes(sample)),
    )


def _reads_were_cached(summary: CellSummary, memory_bytes: float | None) -> bool:
    if not any(asked_read_bytes(sample) for sample in summary.samples):
        return False
    share = _read_share(summary)
    if share is not None:
        return share < DEVICE_SHARE_MIN
    span = span_bytes(summary)
    return bool(span and memory_bytes and span < memory_bytes)


def _write_share(summary: CellSummary) -> float | None:
    return median_over_samples(
        summary.samples,
        lambda sample: device_share(sample, "device_write_bytes", asked_write_bytes(sample)),
    )


def _writes(context: Context, buffered: list[CellSummary]) -> Finding | None:
    shares = {c.cell.key: _write_share(c) for c in buffered if not writes_are_flushed(c)}
    concerned = [
        c
        for c in buffered
        if (share := shares.get(c.cell.key)) is not None and share < DEVICE_SHARE_MIN
    ]
    if not concerned:
        return None
    least = min(share for c in concerned if (share := shares[c.cell.key]) is not None)
    return Finding(
        kind="page_cache_served",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"Memory took the writes of {context.of_cells(concerned)}: as little as "
            f"{format_share(least)} of the bytes had reached the device when the sample ended."
        ),
        cause="Buffered writes without a sync end in the page cache; the kernel writes them later.",
        evidence={
            "device_write_share_min": least,
            "cells_count": len(concerned),
        },
        next="For the device use direct = true, or sync_every, or a file larger than memory.",
    )
