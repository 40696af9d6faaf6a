"""Bytes that a cell requested, compared with the bytes that the device transferred."""

from __future__ import annotations

from seatrial.findings.context import median_over_samples
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary

DEVICE_SHARE_MIN = 0.5
"""The least share of the requested bytes that the device must transfer, so that it was measured."""
REQUESTED_BYTES_MIN = 16 << 20
"""Below 16 MiB, read-ahead and metadata dominate what the device transfers."""


def is_direct(summary: CellSummary) -> bool:
    """Return whether the cell bypassed the page cache; true if the cell does not say."""
    return summary.cell.parsed.target.direct


def span_bytes(summary: CellSummary) -> int | None:
    """Return the size of the address range that the cell accesses; None if it does not say."""
    spec = summary.cell.parsed
    sizes = (spec.range.length_bytes, spec.target.size_bytes)
    return min((size for size in sizes if size), default=None)


def writes_are_flushed(summary: CellSummary) -> bool:
    """Return whether the cell's writes reach the device before they complete."""
    spec = summary.cell.parsed
    return spec.target.dsync or spec.sync_every > 0 or summary.cell.operation == "commit"


def requested_read_bytes(sample: Sample) -> int:
    """Return the bytes that completed reads and copies read from the target."""
    return _moved_bytes(sample, "read", "copy")


def requested_write_bytes(sample: Sample) -> int:
    """Return the bytes that completed writes, commits and copies wrote to the target."""
    return _moved_bytes(sample, "write", "commit", "copy")


def _moved_bytes(sample: Sample, *kinds: str) -> int:
    return sum(
        sample.operations[kind].transferred_bytes for kind in kinds if kind in sample.operations
    )


def device_share(sample: Sample, counter: str, requested_bytes: int) -> float | None:
    """Return the bytes that the device counted, over the bytes requested.

    None if the device has no such counter or too few bytes were requested.
    """
    moved_bytes = sample.counters.get(counter)
    if moved_bytes is None or requested_bytes < REQUESTED_BYTES_MIN:
        return None
    return moved_bytes / requested_bytes


def device_read_share(summary: CellSummary) -> float | None:
    """Return the bytes that the device read over those requested, the median of the rounds."""
    return median_over_samples(
        summary.samples,
        lambda sample: device_share(sample, "device_read_bytes", requested_read_bytes(sample)),
    )
