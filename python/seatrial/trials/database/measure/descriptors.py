"""File descriptors that a cell of a database needs."""

from __future__ import annotations

from typing import Final

from seatrial.measure.descriptors import DescriptorNeed
from seatrial.study.cell import Cell
from seatrial.trials.database.study.workloads import spec_of

SPARE: Final = 12
"""For the server's process, the observer's connections, and measuring the ceiling."""
SERVER_MIN: Final = 64
"""Our own PostgreSQL, which inherits the limit, needs more to start: it keeps 48 free and 10 in
reserve (FD_MINFREE and NUM_RESERVED_FDS of its storage/file/fd.c)."""


def descriptors(cell: Cell) -> DescriptorNeed:
    """Return the number for the clients' connections and for our own server."""
    is_replay = cell.kind == "replay"
    return DescriptorNeed(
        here=_of_clients(cell) + SPARE,
        each_child=0 if spec_of(cell.spec).start == "as_is" else SERVER_MIN,
        why="Each session has a separate connection"
        if is_replay
        else "Each client has a separate connection, and a server opens files",
        takes_fewer="use fewer --connections" if is_replay else "use fewer --clients",
    )


def _of_clients(cell: Cell) -> int:
    if cell.kind == "batch":
        return 0
    spec = spec_of(cell.spec)
    # For a replay's ceiling both ends are here, the driver's and those of the null server; and each
    # connection of a crash trial has its own polling descriptor.
    ends = 2 if cell.kind in ("replay", "crash") else 1
    return ends * spec.clients * spec.processes
