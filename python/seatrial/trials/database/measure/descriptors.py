"""File descriptors that a cell of a database takes."""

from __future__ import annotations

from typing import Final

from seatrial.measure.descriptors import DescriptorNeed
from seatrial.study.cell import Cell
from seatrial.trials.database.study.workloads import spec_of

SPARE: Final = 12
"""The server's process, its observer's connections, those that a ceiling is found out by."""
SERVER_MIN: Final = 64
"""A PostgreSQL of our own, which inherits the bound, does not start with less: it keeps 48 free
and 10 in reserve (FD_MINFREE and NUM_RESERVED_FDS of its storage/file/fd.c)."""


def descriptors(cell: Cell) -> DescriptorNeed:
    """Return those of the clients' connections, and of a server of our own."""
    is_replay = cell.kind == "replay"
    return DescriptorNeed(
        here=_of_clients(cell) + SPARE,
        each_child=0 if spec_of(cell.spec).start == "as_is" else SERVER_MIN,
        why="Each session has a connection of its own"
        if is_replay
        else "Each client has a connection of its own, and a server its files",
        takes_fewer="play it over fewer --connections" if is_replay else "ask for fewer --clients",
    )


def _of_clients(cell: Cell) -> int:
    if cell.kind == "batch":
        return 0
    spec = spec_of(cell.spec)
    # Of a replay's ceiling both ends are here, the driver's and those of a server that does
    # nothing; and each connection of a crash trial is waited for by a descriptor of its own.
    ends = 2 if cell.kind in ("replay", "crash") else 1
    return ends * spec.clients * spec.processes
