"""What databases of a trial take: space, bytes written, time. Assumed, and said to be.

Unlike the engine, a server cannot be told to write no more than so many bytes. What is assumed here
was measured with PostgreSQL 15.20 and 18.6 (initdb, ``pgbench -i`` of scale 10 and 100, tpcb-like
with 10 clients) and rounded up; tests/trials/database/study/test_database_cost.py says by how much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.layouts.cost import ASSUMED_BYTES_PER_S
from seatrial.trials.database.study.workloads import DatabaseSpec, LoadSpec, is_of_database, spec_of

CLUSTER_BYTES: Final = 40 << 20
"""A server without data."""
SCALE_BYTES: Final = 15 << 20
"""pgbench's tables with their indexes, for each unit of scale: 100,000 accounts."""
TELEMETRY_ROW_BYTES: Final = 140
"""A row and its entries in two indexes: measured at 1,000 devices and 24 hours."""
LEDGER_SCALE_BYTES: Final = 17 << 20
"""The two tables of a crash trial with their indexes, for each unit of scale."""
SQL_GROWTH: Final = 6.0
"""A file of SQL grows by at most so much, as tables, indexes and log of it, when it is loaded."""
ARCHIVE_GROWTH: Final = 20.0
"""An archive of pg_dump, which is compressed, by at most so much."""
LOG_BYTES_MIN: Final = 128 << 20
LOG_BYTES_MAX: Final = 1 << 30
"""What stays of the log, recycled: PostgreSQL's max_wal_size, unless a study sets it."""
GROWTH_SHARE: Final = 0.1
"""Of the data, what a sample adds."""
TRANSACTION_BYTES: Final = 20_000
"""Log with a whole page, and that page written back."""
START_S: Final = 1.5
"""Starting a server and stopping it again, with the checkpoint that this takes."""
MAKE_S: Final = 2.0
"""Making an empty server by initdb."""

ASSUMED_WRITES: Final = "of a database it is assumed that it writes 250 MB/s at most"

COPIES_STAY: Final = ("reuse", "template")
"""Ways to clone after which a copy of each load stays."""
READ_ONLY_SCRIPTS: Final = ("select-only",)


def database_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return those of the cells that a database serves."""
    return [cell for cell in cells if is_of_database(cell)]


def history_rows(load: LoadSpec) -> int:
    """Return the rows of the telemetry before the first sample: one a device and minute."""
    return load.devices * load.history_hours * 60


def data_bytes(load: LoadSpec) -> int:
    """Return about how large one loaded database is, without what every server has.

    Of a file of SQL that is not there (a study of another machine) nothing is known: 0.
    """
    if load.kind == "pgbench":
        return load.scale * SCALE_BYTES
    if load.kind == "ledger":
        return load.scale * LEDGER_SCALE_BYTES
    if load.kind == "telemetry":
        return history_rows(load) * TELEMETRY_ROW_BYTES
    growth = ARCHIVE_GROWTH if load.kind == "archive" else SQL_GROWTH
    try:
        return int(_size_bytes(Path(load.file)) * growth) if load.file else 0
    except OSError:
        return 0


def _size_bytes(path: Path) -> int:
    """Return the size of a file, or of the files in a folder."""
    if not path.is_dir():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.iterdir() if each.is_file())


def cluster_bytes(load: LoadSpec, processes: int) -> int:
    """Return about what a loaded server takes: its own, the data, its log, and what is added."""
    own_bytes = processes * data_bytes(load)
    log_bytes = min(LOG_BYTES_MAX, own_bytes) + LOG_BYTES_MIN
    return CLUSTER_BYTES + own_bytes + log_bytes + int(GROWTH_SHARE * own_bytes)


def space_bytes(specs: Iterable[DatabaseSpec]) -> int:
    """Return about what the databases of one directory take: each load once, and its copies.

    Of the copies that samples work on there is one at a time; some stay for the next sample.
    """
    all_specs = list(specs)
    loads = {
        (load, spec.processes) for spec in all_specs for load in (spec.load, spec.load.unmigrated)
    }
    staying = {(spec.load, spec.processes) for spec in all_specs if spec.clone in COPIES_STAY}
    passing = {(spec.load, spec.processes) for spec in all_specs if spec.clone not in COPIES_STAY}
    kept_bytes = sum(cluster_bytes(*each) for each in (*loads, *staying))
    return kept_bytes + max((cluster_bytes(*each) for each in passing), default=0)


def load_write_bytes(spec: DatabaseSpec) -> int:
    """Return what is written once: the data, as much again to the log, a copy that is reused."""
    reused_bytes = cluster_bytes(spec.load, spec.processes) if spec.clone == "reuse" else 0
    return CLUSTER_BYTES + 2 * data_bytes(spec.load) * spec.processes + reused_bytes


def templates(cells: Iterable[Cell]) -> list[DatabaseSpec]:
    """Return the cells' loads that differ, each of which is made once and kept."""
    different: dict[tuple[str, LoadSpec, int], DatabaseSpec] = {}
    for cell in database_cells(cells):
        spec = spec_of(cell.spec)
        if spec.is_standing:
            continue
        different.setdefault((cell.target, spec.load, spec.processes), spec)
    return list(different.values())


def preparing_write_bytes(cells: Iterable[Cell]) -> int:
    """Return what is written before the first round."""
    return sum(load_write_bytes(spec) for spec in templates(cells))


def preparing_s(cells: Iterable[Cell]) -> float:
    """Return how long making and loading the templates is assumed to take."""
    return sum(MAKE_S + load_write_bytes(spec) / ASSUMED_BYTES_PER_S for spec in templates(cells))


def sample_s(cell: Cell) -> float:
    """Return how long a sample of a database takes with all that belongs to it."""
    spec = spec_of(cell.spec)
    if spec.is_standing:
        return _lasts_s(cell)
    copied_s = _copied_bytes(spec) / ASSUMED_BYTES_PER_S
    read_bytes = data_bytes(spec.load) * spec.processes if spec.start == "prewarmed" else 0
    return _lasts_s(cell) + copied_s + read_bytes / ASSUMED_BYTES_PER_S + START_S


def sample_write_bytes(cell: Cell) -> int:
    """Return the most that a sample of a database is assumed to write, its copy included."""
    spec = spec_of(cell.spec)
    if spec.script in READ_ONLY_SCRIPTS or (spec.replay and spec.replay.read_only):
        return _copied_bytes(spec)
    if spec.replay:
        return _copied_bytes(spec) + spec.replay.statements * TRANSACTION_BYTES
    per_s = float(ASSUMED_BYTES_PER_S)
    if spec.rate_per_s is not None:
        transaction_bytes = TRANSACTION_BYTES + spec.batch_rows * 2 * TELEMETRY_ROW_BYTES
        per_s = min(per_s, spec.rate_per_s * spec.processes * transaction_bytes)
    return _copied_bytes(spec) + round(per_s * _lasts_s(cell))


def _lasts_s(cell: Cell) -> float:
    """Return how long a sample is driven: pgbench knows whole seconds only."""
    asked_s = float(cell.spec["limit"]["duration_s"])
    return asked_s if cell.kind in ("batch", "replay") else float(max(1, math.ceil(asked_s)))


def _copied_bytes(spec: DatabaseSpec) -> int:
    # A crash trial goes on with what the crashes before have left.
    goes_on = spec.clone == "reuse" or spec.load.kind == "ledger" or spec.is_standing
    return 0 if goes_on else cluster_bytes(spec.load, spec.processes)
