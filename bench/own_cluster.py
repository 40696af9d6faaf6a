"""A PostgreSQL of a bench's own, on the checkout's disk, that is gone when the bench ends."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from results_page import ROOT, machine_lines

from seatrial.machine.undo_journal import UndoJournal
from seatrial.postgres.account import account_for
from seatrial.postgres.binaries import find_binaries
from seatrial.postgres.cluster import Cluster, create_cluster


@dataclass(frozen=True, kw_only=True)
class OwnCluster:
    """A new cluster, no server of which runs yet.

    Attributes:
        cluster: The cluster.
        folder: A folder for whatever else the bench writes.
        conditions: The machine and the versions, as Markdown items.
    """

    cluster: Cluster
    folder: Path
    conditions: list[str]


@contextlib.contextmanager
def own_cluster(bench: str) -> Iterator[OwnCluster]:
    """Create a cluster; remove it with its folder at the end.

    Args:
        bench: Name of the bench in the undo journal.

    Raises:
        SeatrialError: When there is no PostgreSQL, or it does not run here.
    """
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    conditions = machine_lines()
    binaries = find_binaries()
    conditions.append(f"- PostgreSQL {binaries.version_text} ({binaries.origin}) on that disk")
    with (
        tempfile.TemporaryDirectory(dir=cache) as name,
        UndoJournal(f"bench-{bench}-{os.getpid()}") as journal,
    ):
        folder = Path(name)
        data = folder / "data"
        cluster = create_cluster(data, binaries, account_for(data, binaries), journal)
        yield OwnCluster(cluster=cluster, folder=folder, conditions=conditions)
