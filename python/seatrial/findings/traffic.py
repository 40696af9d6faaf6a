"""What a cell asked for against what the device moved."""

from __future__ import annotations

from seatrial.findings.context import lookup, number
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary

DEVICE_SHARE_MIN = 0.5
"""Of the bytes asked for, the least that the device must move for the number to be its own."""
ASKED_BYTES_MIN = 16 << 20
"""Below 16 MiB a sample proves nothing by what the device moved: read-ahead and metadata do."""


def is_direct(summary: CellSummary) -> bool:
    """Tell whether the cell went around the page cache; true where the cell does not say."""
    return lookup(summary.cell.spec, "target", "direct") is not False


def span_bytes(summary: CellSummary) -> int | None:
    """Return how many bytes of the target the cell touches at most; None when it does not say."""
    sizes = [
        size
        for path in (("range", "length_bytes"), ("target", "size_bytes"))
        if (size := number(summary.cell.spec, *path))
    ]
    return int(min(sizes)) if sizes else None


def writes_are_flushed(summary: CellSummary) -> bool:
    """Tell whether the cell's writes reach the device before they count as done."""
    spec = summary.cell.spec
    dsync = lookup(spec, "target", "dsync") is True
    return dsync or bool(number(spec, "sync_every")) or summary.cell.operation == "commit"


def asked_read_bytes(sample: Sample) -> int:
    """Return the bytes that completed reads and copies took from the target."""
    return _moved_bytes(sample, "read", "copy")


def asked_write_bytes(sample: Sample) -> int:
    """Return the bytes that completed writes, commits and copies gave to the target."""
    return _moved_bytes(sample, "write", "commit", "copy")


def _moved_bytes(sample: Sample, *kinds: str) -> int:
    return sum(
        sample.operations[kind].transferred_bytes for kind in kinds if kind in sample.operations
    )


def device_share(sample: Sample, counter: str, asked_bytes: int) -> float | None:
    """Return what the device moved by its own counter over what was asked for.

    None where the device has no such counter or too little was asked for to tell.
    """
    moved_bytes = sample.counters.get(counter)
    if moved_bytes is None or asked_bytes < ASKED_BYTES_MIN:
        return None
    return moved_bytes / asked_bytes
