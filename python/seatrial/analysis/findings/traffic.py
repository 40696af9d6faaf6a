"""What a cell asked for against what the device moved, and what its links can carry."""

from __future__ import annotations

from typing import Any

from seatrial.analysis.findings.context import lookup, number
from seatrial.analysis.model import CellSummary
from seatrial.results.model import Sample

SATA_BYTES_PER_S_PER_GB_S = 1e8
"""8b/10b: ten bits on the wire for a byte (Serial ATA Revision 3.5, section 7.3)."""
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


def links_bytes_per_s(devices: list[dict[str, Any]]) -> float | None:
    """Return the most that the links of devices carry one way, added up; None when unknown.

    Devices behind one PCIe link (disks on one controller) share it, so it counts once. The sum
    is an upper bound for any layout: no array moves more than all its links.
    """
    shares: dict[str, float] = {}
    for device in devices:
        sata_gb_s = number(device, "sata_link_gb_s")
        pcie_bytes_per_s = number(device, "pcie", "narrowest", "bandwidth_now_bytes_per_s")
        if sata_gb_s:
            shares[f"sata {device.get('name')}"] = sata_gb_s * SATA_BYTES_PER_S_PER_GB_S
        elif pcie_bytes_per_s:
            shares[f"pcie {lookup(device, 'pcie', 'narrowest', 'address')}"] = pcie_bytes_per_s
        else:
            return None
    return sum(shares.values()) if shares else None
