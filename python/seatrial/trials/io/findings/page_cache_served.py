"""Finding ``page_cache_served``: memory answered in place of the device."""

from __future__ import annotations

from seatrial.findings.context import (
    Context,
    identities,
    is_of_a_device,
    median_over_samples,
    memory_for_cache_bytes,
)
from seatrial.findings.rule import from_samples
from seatrial.findings.traffic import (
    DEVICE_SHARE_MIN,
    asked_read_bytes,
    asked_write_bytes,
    device_share,
    is_direct,
    span_bytes,
    writes_are_flushed,
)
from seatrial.stats.model import CellSummary, Finding
from seatrial.stats.wording import format_estimate, format_rate_bytes, format_share, format_size
from seatrial.trials.io.bounds.path import Broken, busier_direction, outermost_below, path_bounds


@from_samples(rank=210, section="Whose number is it?", holds_in_lab=False)
def page_cache_served(context: Context) -> list[Finding]:
    """Find buffered cells that the page cache served.

    What the device moved decides, where it was counted; else whether the drives' links can carry
    the rate and, for reads, whether memory is larger than what was read from.

    Means:
        Buffered cells measured memory.

    Decided:
        By the device's own counters: it delivered less than half of the bytes read, or less than
        half of those written without a sync had reached it when the sample ended. Where it has no
        counters: the drives' links or the bus cannot carry the rate; for reads also, the file (or
        the part that the cell reads) is smaller than the memory that this process may use. Warning.

    Do:
        Use direct I/O, or a file of twice the memory. Keep the cell only if the database will find
        that data in memory too.
    """
    buffered = [c for c in context.cells if is_of_a_device(c) and not is_direct(c)]
    found = [_reads(context, buffered), _writes(context, buffered)]
    return [finding for finding in found if finding]


def _above_path(context: Context, summary: CellSummary) -> Broken | None:
    """Return the link or bus that a buffered cell's rate is above."""
    bounds = path_bounds(context.before_of(summary))
    return outermost_below(busier_direction(summary), bounds)


def _path_sentences(context: Context, concerned: list[CellSummary]) -> list[str]:
    """Return the fastest of the cells that their path cannot carry, as a phrase; or nothing."""
    above = [broken for c in concerned if (broken := _above_path(context, c))]
    if not above:
        return []
    bound, rate = max(above, key=lambda broken: broken.rate.value)
    limit = format_rate_bytes(bound.bytes_per_s, 0)
    return [f"{format_estimate(rate)} where {bound.words} at {limit}"]


def _reads(context: Context, buffered: list[CellSummary]) -> Finding | None:
    memory_bytes = memory_for_cache_bytes(context.before)
    concerned = [c for c in buffered if _reads_were_cached(context, c, memory_bytes)]
    if not concerned:
        return None
    shares = [share for c in concerned if (share := _read_share(c)) is not None]
    span = max(span_bytes(c) or 0 for c in concerned)
    reported = _path_sentences(context, concerned)
    if shares:
        reported.append(
            f"the device delivered as little as {format_share(min(shares))} of the bytes"
        )
    if span and memory_bytes:
        reported.append(
            f"the file has {format_size(span)}, memory {format_size(int(memory_bytes))}"
        )
    return Finding(
        kind="page_cache_served",
        severity="warning",
        cells=identities(concerned),
        sentence=(
            f"Memory served the reads of {context.of_cells(concerned)}: {'; '.join(reported)}."
        ),
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


def _reads_were_cached(context: Context, summary: CellSummary, memory_bytes: float | None) -> bool:
    if not any(asked_read_bytes(sample) for sample in summary.samples):
        return False
    share = _read_share(summary)
    if share is not None:
        return share < DEVICE_SHARE_MIN
    span = span_bytes(summary)
    fits = bool(span and memory_bytes and span < memory_bytes)
    return fits or _above_path(context, summary) is not None


def _write_share(summary: CellSummary) -> float | None:
    return median_over_samples(
        summary.samples,
        lambda sample: device_share(sample, "device_write_bytes", asked_write_bytes(sample)),
    )


def _writes_were_cached(context: Context, summary: CellSummary) -> bool:
    if writes_are_flushed(summary) or not any(map(asked_write_bytes, summary.samples)):
        return False
    share = _write_share(summary)
    if share is not None:
        return share < DEVICE_SHARE_MIN
    return _above_path(context, summary) is not None


def _writes(context: Context, buffered: list[CellSummary]) -> Finding | None:
    concerned = [c for c in buffered if _writes_were_cached(context, c)]
    if not concerned:
        return None
    shares = [share for c in concerned if (share := _write_share(c)) is not None]
    reported = _path_sentences(context, concerned)
    if shares:
        least = format_share(min(shares))
        reported.append(f"as little as {least} of the bytes had reached the device at the end")
    return Finding(
        kind="page_cache_served",
        severity="warning",
        cells=identities(concerned),
        sentence=f"Memory took the writes of {context.of_cells(concerned)}: {'; '.join(reported)}.",
        cause="Buffered writes without a sync end in the page cache; the kernel writes them later.",
        evidence={
            "device_write_share_min": min(shares) if shares else None,
            "cells_count": len(concerned),
        },
        next="For the device use direct = true, or sync_every, or a file larger than memory.",
    )
