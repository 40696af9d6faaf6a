"""What databases of a trial take: space, bytes written, time. Assumed, and said to be.

Unlike the engine, a server cannot be told to write no more than so many bytes. What is assumed here
was measured with PostgreSQL 15.20 and 18.6 (initdb, ``pgbench -i`` of scale 10 and 100, tpcb-like
with 10 clients) and rounded up; tests/study/test_database_cost.py says by how much.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.database import DatabaseSpec, LoadSpec, is_of_database, spec_of

ASSUMED_BYTES_PER_S: Final = 250_000_000
"""At which storage is filled, loaded, and copied on; and the most that a server writes."""
CLUSTER_BYTES: Final = 80_000_000
"""A server without data: its own tables, and the first segments of its log."""
SCALE_BYTES: Final = 16_000_000
"""pgbench's tables with their indexes, for each unit of scale."""
SCALE_LOG_BYTES: Final = 14_000_000
"""What loading them writes to the log besides."""
TELEMETRY_ROW_BYTES: Final = 100
"""A row with its share of the index."""
TELEMETRY_ROW_LOG_BYTES: Final = 100
LOG_KEPT_BYTES_MAX: Final = 1_100_000_000
"""What stays of the log, recycled: ``max_wal_size`` is 1 GB unless it is set."""
TRANSACTION_BYTES: Final = 20_000
"""Log with a whole page, and that page written back."""
START_S: Final = 1.5
"""Starting a server and stopping it again, with the checkpoint that this takes."""
MAKE_S: Final = 2.0
"""Making an empty server by initdb."""

ASSUMED_WRITES: Final = "of a database it is assumed that it writes 250 MB/s at most"

READ_ONLY_SCRIPTS: Final = ("select-only",)


def database_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return those of the cells that a database serves."""
    return [cell for cell in cells if is_of_database(cell.spec)]


def data_bytes(load: LoadSpec) -> int:
    """Return the size of one loaded database on disk, without what every server has.

    What a file of SQL loads is not known before it is; its own size stands in for it.
    """
    if load.kind == "pgbench":
        return load.scale * SCALE_BYTES
    if load.kind == "telemetry":
        return _rows(load) * TELEMETRY_ROW_BYTES
    return _size_bytes(load.file)


def _log_bytes(load: LoadSpec) -> int:
    if load.kind == "pgbench":
        return load.scale * SCALE_LOG_BYTES
    if load.kind == "telemetry":
        return _rows(load) * TELEMETRY_ROW_LOG_BYTES
    return _size_bytes(load.file)


def _rows(load: LoadSpec) -> int:
    """Return the rows of the telemetry: one a device and minute."""
    return load.devices * load.history_hours * 60


def _size_bytes(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def template_bytes(spec: DatabaseSpec) -> int:
    """Return the size of a loaded server: every process's database, and what is kept of the log."""
    log_bytes = min(_log_bytes(spec.load) * spec.processes, LOG_KEPT_BYTES_MAX)
    return CLUSTER_BYTES + data_bytes(spec.load) * spec.processes + log_bytes


def load_write_bytes(spec: DatabaseSpec) -> int:
    """Return what loading a server writes: the data, and all of the log."""
    return CLUSTER_BYTES + (data_bytes(spec.load) + _log_bytes(spec.load)) * spec.processes


def templates(cells: Iterable[Cell]) -> list[DatabaseSpec]:
    """Return the cells' loads that differ, each of which is made once and kept."""
    different: dict[tuple[str, LoadSpec, int], DatabaseSpec] = {}
    for cell in database_cells(cells):
        spec = spec_of(cell.spec)
        different.setdefault((cell.target, spec.load, spec.processes), spec)
    return list(different.values())


def space_bytes(cells: Iterable[Cell]) -> int:
    """Return the space that the databases of one target take: all templates and one copy."""
    kept = [template_bytes(spec) for spec in templates(cells)]
    return sum(kept) + max(kept) + LOG_KEPT_BYTES_MAX if kept else 0


def preparing_write_bytes(cells: Iterable[Cell]) -> int:
    """Return what is written before the first round."""
    return sum(load_write_bytes(spec) for spec in templates(cells))


def preparing_s(cells: Iterable[Cell]) -> float:
    """Return how long making and loading the templates is assumed to take."""
    return sum(MAKE_S + load_write_bytes(spec) / ASSUMED_BYTES_PER_S for spec in templates(cells))


def sample_s(cell: Cell) -> float:
    """Return how long a sample of a database takes with all that belongs to it."""
    spec = spec_of(cell.spec)
    copied_s = _copied_bytes(spec) / ASSUMED_BYTES_PER_S
    read_bytes = template_bytes(spec) if spec.start == "prewarmed" else 0
    own_s = float(cell.spec["limit"]["duration_s"])
    return own_s + copied_s + read_bytes / ASSUMED_BYTES_PER_S + START_S


def sample_write_bytes(cell: Cell) -> int:
    """Return the most that a sample of a database is assumed to write, its copy included."""
    spec = spec_of(cell.spec)
    if spec.script in READ_ONLY_SCRIPTS:
        return _copied_bytes(spec)
    per_s = float(ASSUMED_BYTES_PER_S)
    if spec.rate_per_s is not None:
        transaction_bytes = TRANSACTION_BYTES + spec.batch_rows * 2 * TELEMETRY_ROW_BYTES
        per_s = min(per_s, spec.rate_per_s * spec.processes * transaction_bytes)
    return _copied_bytes(spec) + round(per_s * float(cell.spec["limit"]["duration_s"]))


def _copied_bytes(spec: DatabaseSpec) -> int:
    return 0 if spec.clone == "reuse" else template_bytes(spec)
