"""What a sample of block I/O takes."""

from __future__ import annotations

from seatrial.study.cell import Cell
from seatrial.study.estimate import OVERHEAD_S
from seatrial.study.layouts.cost import ASSUMED_BYTES_PER_S
from seatrial.study.plan import writes


def sample_s(cell: Cell) -> float:
    """Return the seconds that one sample of a cell is expected to take."""
    duration_s = float(cell.spec["limit"]["duration_s"])
    if cell.kind == "fill":
        duration_s = min(duration_s, cell.spec["limit"]["bytes"] / ASSUMED_BYTES_PER_S)
    return duration_s + OVERHEAD_S


def sample_write_bytes(cell: Cell) -> int:
    """Return the most bytes that one sample of a cell writes to storage."""
    if not writes(cell) or cell.spec["target"]["kind"] != "file":
        return 0
    return int(cell.spec["limit"]["bytes"])
