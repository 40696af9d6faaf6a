"""``[hosts]``: a study that several hosts measure together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from seatrial.study.cell import Cell
from seatrial.study.problems import ConstraintError

HOSTS_MAX: Final = 256
LOST_FACTOR: Final = "lost_hosts"
"""Factor of the cell of a sample without all of its hosts: it is another cell."""
FACTOR: Final = "hosts"
"""Factor of a cell: how many hosts load the target at once."""

HostCount = Annotated[int, Meta(ge=1, le=HOSTS_MAX)]


class Hosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hosts that load a target together.

    Attributes:
        counts: Numbers of hosts, a factor.
        files: ``shared``: all hosts use the same trial file on a file system that each of them has
            mounted at the target's path. ``own``: each has its own file at that path, so that hosts
            are compared.
        on_loss: What happens when a host dies or falls silent. ``stop``: the others are stopped and
            the run ends. ``continue``: they finish the sample, and tests that need no more hosts
            than are left go on.
    """

    counts: Annotated[list[HostCount], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: [1, 2, 4]
    )
    files: Literal["shared", "own"] = "shared"
    on_loss: Literal["stop", "continue"] = "stop"


def on_hosts(cells: Iterable[Cell], hosts: Hosts | None) -> Iterator[Cell]:
    """Yield each cell once for every number of hosts; as they are without ``[hosts]``."""
    for cell in cells:
        if hosts is None:
            yield cell
            continue
        for count in hosts.counts:
            yield msgspec.structs.replace(
                cell, key=f"{cell.key}/{count}hosts", factors={**cell.factors, FACTOR: count}
            )


def hosts_of(cell: Cell) -> int:
    """Return how many hosts measure a cell together; 0 for a cell of one machine alone."""
    return int(cell.factors.get(FACTOR, 0))


def loading_hosts(cell: Cell) -> int:
    """Return how many hosts, or machines, loaded the target: without those that were lost."""
    return max(1, hosts_of(cell) - int(cell.factors.get(LOST_FACTOR, 0)))


def check_hosts(hosts: Hosts | None) -> Iterator[ConstraintError]:
    """Yield what is wrong with the numbers of hosts."""
    counts = hosts.counts if hosts else []
    if len({*counts}) < len(counts):
        twice = next(count for count in counts if counts.count(count) > 1)
        yield ConstraintError(f"holds {twice} twice", "List each number once", "hosts", "counts")


def cell_without(cell: Cell, lost: int) -> Cell:
    """Return the cell of a sample from which hosts are missing: another one than of all hosts."""
    if not lost:
        return cell
    return msgspec.structs.replace(
        cell, key=f"{cell.key}/{lost}lost", factors={**cell.factors, LOST_FACTOR: lost}
    )
