"""The order in which a reader expects cells where no plan tells it."""

from __future__ import annotations

from seatrial.study.cell import Cell

OPERATIONS = ("read", "write", "mixed", "commit", "copy")


def natural_order(cell: Cell) -> tuple[object, ...]:
    """Return a key that sorts cells by workload and target, reads first, small blocks first."""
    known = cell.operation in OPERATIONS
    rank = OPERATIONS.index(cell.operation) if known else len(OPERATIONS)
    factors = tuple(
        (name, isinstance(value, str), value) for name, value in sorted(cell.factors.items())
    )
    size_bytes = cell.block_size_bytes
    return (cell.workload, cell.target, rank, size_bytes, cell.threads, cell.depth, factors)
