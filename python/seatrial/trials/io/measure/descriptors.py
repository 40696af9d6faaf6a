"""File descriptors that a cell of block I/O takes."""

from __future__ import annotations

from typing import Final

from seatrial import _core
from seatrial.measure.descriptors import DescriptorNeed
from seatrial.study.cell import Cell

_HAS_SEQUENCES: Final = ("commit", "copy")
"""Operations that no io_uring carries."""


def descriptors(cell: Cell) -> DescriptorNeed:
    """Return one for each thread that has a ring of io_uring."""
    return DescriptorNeed(
        here=cell.threads if _has_rings(cell) else 0,
        why=f"Each of its {cell.threads} threads has an io_uring of its own",
        takes_fewer="ask for fewer threads, or for --engine psync, whose threads need none",
    )


def _has_rings(cell: Cell) -> bool:
    """Tell whether each thread of a cell has a ring of io_uring, as the engine chooses."""
    engine = cell.spec.get("engine", "auto")
    if cell.spec["target"]["kind"] == "simulated" or cell.operation in _HAS_SEQUENCES:
        return False
    if engine == "auto":
        return cell.depth > 1 and not _core.io_uring_status()
    return bool(engine == "io_uring")
