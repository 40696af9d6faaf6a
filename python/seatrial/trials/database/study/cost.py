"""Estimated costs of databases: space, bytes written, time.

A server has no limit of bytes written, unlike the engine. These estimates
were measured with PostgreSQL 15.20 and 18.6 (initdb, ``pgbench -i`` of scale 10 and 100, tpcb-like
with 10 clients) and rounded up, as stated in tests/trials/database/study/test_database_cost.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from seatrial.study.cell import Cell
from seatrial.study.hosts import hosts_of
from seatrial.study.layouts.cost import ASSUMED_BYTES_PER_S
from seatrial.study.schema import Study
from seatrial.study.units import format_seconds
from seatrial.study.values import many
from seatrial.trials.database.study.workloads import (
    MAX,
    Batch,
    DatabaseSpec,
    LoadSpec,
    Replay,
    is_of_database,
    spec_of,
)
from seatrial.trials.replay.study.cells import ASSUMED_STATEMENTS_PER_S
from seatrial.trials.replay.study.trace_facts import trace_facts

CLUSTER_BYTES: Final = 40 << 20
"""A server without data."""
SCALE_BYTES: Final = 15 << 20
"""pgbench's tables with their indexes, for each unit of scale: 100,000 accounts."""
TELEMETRY_ROW_BYTES: Final = 140
"""A row and its entries in two indexes: measured at 1,000 devices and 24 hours."""
LEDGER_SCALE_BYTES: Final = 17 << 20
"""The two tables of a crash trial with their indexes, for each unit of scale."""
SQL_GROWTH: Final = 6.0
"""Maximum growth factor of a SQL file when loaded: tables, indexes and WAL."""
ARCHIVE_GROWTH: Final = 20.0
"""The same for an archive of pg_dump, which is compressed."""
LOG_BYTES_MIN: Final = 128 << 20
LOG_BYTES_MAX: Final = 1 << 30
"""Maximum size of the WAL, which is recycled: PostgreSQL's default max_wal_size."""
GROWTH_SHARE: Final = 0.1
"""Growth of the data in a sample, as a share."""
TRANSACTION_BYTES: Final = 20_000
"""WAL with a full-page image, and the page itself."""
SERVER_MEMORY_BYTES: Final = 32 << 20
"""Memory of the server's own processes besides shared memory; measured with 15 and 18."""
CLIENT_MEMORY_BYTES: Final = 2 << 20
"""Memory of each connection's process with small queries."""
START_S: Final = 1.5
"""Starting and stopping a server, with its checkpoint."""
INITDB_S: Final = 2.0
"""Creating an empty cluster by initdb."""

ASSUMED_WRITES: Final = "databases are assumed to write at most 250 MB/s"

KEPT_COPIES: Final = ("reuse", "template")
"""Methods of cloning that keep a copy of each load."""
READ_ONLY_SCRIPTS: Final = ("select-only",)


def database_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return the database cells."""
    return [cell for cell in cells if is_of_database(cell)]


def history_rows(load: LoadSpec) -> int:
    """Return the rows of telemetry before the first sample: one per device and minute."""
    return load.devices * load.history_hours * 60


def data_bytes(load: LoadSpec) -> int:
    """Return the estimated size of one loaded database, without that of an empty server.

    0 for a SQL file that does not exist (in a study of another machine).
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
    """Return the estimated size of a loaded server: empty cluster, data, WAL and growth."""
    own_bytes = processes * data_bytes(load)
    log_bytes = min(LOG_BYTES_MAX, own_bytes) + LOG_BYTES_MIN
    return CLUSTER_BYTES + own_bytes + log_bytes + int(GROWTH_SHARE * own_bytes)


def space_bytes(specs: Iterable[DatabaseSpec]) -> int:
    """Return the estimated space of the databases of one directory: each load, and its copies.

    One copy exists at a time for samples; some are kept for the next sample.
    """
    all_specs = list(specs)
    loads = {
        (load, spec.processes) for spec in all_specs for load in (spec.load, spec.load.unmigrated)
    }
    kept_copies = {(spec.load, spec.processes) for spec in all_specs if spec.clone in KEPT_COPIES}
    temporary = {(spec.load, spec.processes) for spec in all_specs if spec.clone not in KEPT_COPIES}
    kept_bytes = sum(cluster_bytes(*template) for template in (*loads, *kept_copies))
    return kept_bytes + max((cluster_bytes(*template) for template in temporary), default=0)


def load_write_bytes(spec: DatabaseSpec) -> int:
    """Return the bytes written once: the data, as much WAL, and a copy that is reused."""
    reused_bytes = cluster_bytes(spec.load, spec.processes) if spec.clone == "reuse" else 0
    return CLUSTER_BYTES + 2 * data_bytes(spec.load) * spec.processes + reused_bytes


def memory_limit_min_bytes(buffers_bytes: int, clients: int) -> int:
    """Return the smallest memory limit in which a server with these shared buffers fits."""
    return buffers_bytes + SERVER_MEMORY_BYTES + clients * CLIENT_MEMORY_BYTES


def memory_limit_text(limit_bytes: int) -> str:
    """Return a memory limit to be typed: whole MiB, and no less than what is needed."""
    return f"{-(-limit_bytes >> 20)} MiB"


def templates(cells: Iterable[Cell]) -> list[DatabaseSpec]:
    """Return the distinct loads of the cells, each of which is created once and kept."""
    different: dict[tuple[str, LoadSpec, int], DatabaseSpec] = {}
    for cell in database_cells(cells):
        spec = spec_of(cell.spec)
        if spec.is_standing:
            continue
        different.setdefault((cell.target, spec.load, spec.processes), spec)
    return list(different.values())


def preparation_write_bytes(cells: Iterable[Cell]) -> int:
    """Return the bytes written before the first round."""
    return sum(load_write_bytes(spec) for spec in templates(cells))


def preparation_s(cells: Iterable[Cell]) -> float:
    """Return the estimated time to create and load the templates."""
    return sum(INITDB_S + load_write_bytes(spec) / ASSUMED_BYTES_PER_S for spec in templates(cells))


def sample_s(cell: Cell) -> float:
    """Return the estimated time of a sample, including copy and server start."""
    spec = spec_of(cell.spec)
    if spec.is_standing:
        return _lasts_s(cell)
    copied_s = _copy_bytes(spec) / ASSUMED_BYTES_PER_S
    read_bytes = data_bytes(spec.load) * spec.processes if spec.start == "prewarmed" else 0
    return _lasts_s(cell) + copied_s + read_bytes / ASSUMED_BYTES_PER_S + START_S


def sample_write_bytes(cell: Cell) -> int:
    """Return the estimated maximum of bytes that a sample writes, including its copy."""
    spec = spec_of(cell.spec)
    if spec.script in READ_ONLY_SCRIPTS or (spec.replay and spec.replay.read_only):
        return _copy_bytes(spec)
    if spec.replay:
        return _copy_bytes(spec) + spec.replay.statements * TRANSACTION_BYTES
    per_s = float(ASSUMED_BYTES_PER_S)
    if spec.rate_per_s is not None:
        transaction_bytes = TRANSACTION_BYTES + spec.batch_rows * 2 * TELEMETRY_ROW_BYTES
        loads = spec.processes * max(1, hosts_of(cell))
        per_s = min(per_s, spec.rate_per_s * loads * transaction_bytes)
    return _copy_bytes(spec) + round(per_s * _lasts_s(cell))


def _lasts_s(cell: Cell) -> float:
    """Return the duration of the load: pgbench supports whole seconds only."""
    requested_s = cell.parsed.duration_s
    return (
        requested_s if cell.kind in ("batch", "replay") else float(max(1, math.ceil(requested_s)))
    )


def _copy_bytes(spec: DatabaseSpec) -> int:
    # A crash trial continues with the data of previous crashes.
    continues = spec.clone == "reuse" or spec.load.kind == "ledger" or spec.is_standing
    return 0 if continues else cluster_bytes(spec.load, spec.processes)


OFF: Final = frozenset({"off", "false", "no", "0", "of", "f", "fa", "fal", "fals", "n"})
"""Spellings of ``off`` that PostgreSQL accepts, in lower case."""

_COSTS: Final = {
    "fsync": "a power failure may destroy the database, and the figures cannot be compared with "
    "those of a durable server",
    "full_page_writes": "safe only if the file system writes pages of 8 KiB atomically",
    "synchronous_commit": "a commit is acknowledged before it is durable, and a crash loses the "
    "most recent commits",
}
"""What is given up if a setting is off."""


def notes_on_databases(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield notes on the databases of a plan."""
    yield from _on_durability(study, cells)
    yield from _on_batches(study, cells)
    yield from _on_replays(study, cells)


def _on_durability(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each setting that gives up durability."""
    for workload in study.workloads:
        own = [cell for cell in cells if cell.workload == workload.label]
        specs = [spec_of(cell.spec) for cell in own if is_of_database(cell)]
        for name, cost in _COSTS.items():
            off = [spec for spec in specs if _value(spec.settings, name) in OFF]
            if off:
                some = "" if len(off) == len(specs) else f"{len(off)} of {len(specs)} tests of "
                yield f"{name} is off in {some}{workload.label}: {cost}"


def _value(settings: dict[str, str], name: str) -> str:
    """Return the value of a setting in lower case; names are not case-sensitive."""
    return next((value.lower() for key, value in settings.items() if key.lower() == name), "")


def _on_batches(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a note on each batch, whose duration is not known in advance."""
    for workload in study.workloads:
        if isinstance(workload, Batch) and any(c.workload == workload.label for c in cells):
            yield (
                f"The duration of {workload.label} is not known; the plan assumes its limit of "
                f"{format_seconds(workload.duration_s)}"
            )


def _on_replays(study: Study, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield notes on replays: unknown durations, and limitations of their traces."""
    for workload in study.workloads:
        if not isinstance(workload, Replay) or not any(c.workload == workload.label for c in cells):
            continue
        facts = trace_facts(workload.trace)
        if facts is None:
            yield f"{workload.label}: the trace {workload.trace} does not exist yet"
            continue
        if MAX in many(workload.speed):
            yield (
                f"{workload.label} runs until the end of the trace; the plan assumes "
                f"{ASSUMED_STATEMENTS_PER_S:,} statements per second"
            )
        if not facts.has_clock and set(many(workload.speed)) != {MAX}:
            yield (
                f"{workload.label}: the trace comes from SQL without times, so its statements have "
                "made-up times"
            )
        if _is_repeated(study, workload, cells):
            yield (
                f"{workload.label} is replayed more than once on a database that is not restored: "
                "each replay starts with the writes of the previous ones"
            )
        if _is_empty(workload, cells):
            yield (
                f"{workload.label} starts with an empty database, since nothing is loaded: set "
                "'prepare' to a dump of the captured database"
            )
        if facts.is_masked:
            yield (
                f"{workload.label}: the values in the trace are masked, so its statements find "
                "other rows than in the capture, or none"
            )


def _is_empty(workload: Replay, cells: Sequence[Cell]) -> bool:
    """Return whether a replay starts with an empty database: one of ours, without a load."""
    own = (spec_of(cell.spec) for cell in cells if cell.workload == workload.label)
    return not workload.loads and any(not spec.is_standing for spec in own)


def _is_repeated(study: Study, workload: Replay, cells: Sequence[Cell]) -> bool:
    """Return whether a replay with writes is repeated on an existing database."""
    own = [cell for cell in cells if cell.workload == workload.label]
    standing = [cell for cell in own if spec_of(cell.spec).is_standing]
    is_restored = bool(workload.restore) or workload.clone == "template"
    is_again = len(standing) * study.rounds.max > 1
    return bool(standing) and is_again and not workload.read_only and not is_restored
