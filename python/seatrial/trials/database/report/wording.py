"""Cells and figures of a database in words: labels of rows, shares, readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

import msgspec

from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.figures.naming import identity_by
from seatrial.report.table import NO_FIGURE, doubt_text
from seatrial.stats.facts import fact_name
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    UNKNOWN,
    capitalized,
    digits_allowed,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_interval,
    format_iops,
    format_plural,
    format_rate_bytes,
    format_share,
    format_size,
    half_width_of,
)
from seatrial.study.cell import Cell, FactorValue
from seatrial.trials.database.analysis.cache_sweep import is_of_sweep
from seatrial.trials.database.analysis.crashes import is_crash_trial
from seatrial.trials.database.analysis.model import (
    CacheSweep,
    DatabaseAnalysis,
    DatabaseCell,
    database_of,
)
from seatrial.trials.database.study.workloads import DatabaseSpec, is_of_database, spec_of
from seatrial.trials.replay.analysis.model import is_replay

WAIT_NAMES: Final = {
    "cpu": "CPU",
    "io": "I/O",
    "lwlock": "LWLock",
    "lock": "lock",
    "client": "client",
    "ipc": "other process",
    "timeout": "timeout",
    "buffer_pin": "buffer pin",
    "other": "other",
}
"""PostgreSQL's classes of wait events, and CPU time, in the order of all charts and tables."""

FIGURE_NAMES: Final = {
    "cpu_user_share": "CPU, user",
    "cpu_system_share": "CPU, system",
    "cpu_iowait_share": "CPU, iowait",
    "cpu_steal_share": "CPU, steal",
    "server_cpu_cores": "cores used, server",
    "client_cpu_cores": "cores used, client",
    "seatrial_cpu_cores": "cores used, Seatrial",
    "others_cpu_cores": "cores used, other processes",
    "server_delay_cores": "server processes waiting for a CPU",
    "device_read_per_s": "device, reads",
    "device_write_per_s": "device, writes",
    "device_read_bytes_per_s": "device, read throughput",
    "device_write_bytes_per_s": "device, write throughput",
    "device_read_latency_ms": "device, read latency",
    "device_write_latency_ms": "device, write latency",
    "device_flush_latency_ms": "device, flush latency",
    "device_flush_per_s": "device, flushes",
    "device_busy_share": "device, busy",
    "wal_bytes_per_s": "WAL written",
    "wal_sync_latency_ms": "WAL sync latency",
    "checkpoints": "checkpoints per round",
}
"""The most important columns of a database cell, in reading order."""

_OTHER_NAMES: Final = {
    "cpu_idle_share": "CPU, idle",
    "client_delay_cores": "client processes waiting for a CPU",
    "psi_cpu_some_share": "CPU pressure (PSI some)",
    "psi_io_some_share": "I/O pressure (PSI some)",
    "psi_io_full_share": "I/O pressure (PSI full)",
    "psi_memory_some_share": "memory pressure (PSI some)",
    "device_queue_mean": "device, queue depth",
    "wal_fpi_per_s": "WAL full-page images",
}
"""Names of some other columns; the rest are named after their keys."""

_SERVER_IO_PREFIX: Final = "io_"
"""Prefix of the columns from the server's view pg_stat_io."""

_HEADERS: Final = {
    "threads": "Clients",
    "rate": "Rate",
    "memory_limit_bytes": "Memory limit",
    "read_only": "Read only",
}
_SCALES: Final = ("target", "scale", "devices", "file", "threads")
_FIXED: Final = ("workload", "operation", "block_size_bytes", "depth")
_PLAIN: Final = ("target", "scale", "devices", "file", "processes", "script", "protocol", "start",
                 "history_hours", "batch_rows", "trace", "speed", "pace", "order")  # fmt: skip


def database_cells(summary: Summary) -> list[CellSummary]:
    """Return the cells of a run that were measured on a database, in their order."""
    return [part for part in summary.cells if is_of_database(part.cell)]


def analysed(summary: Summary) -> dict[str, DatabaseCell]:
    """Return the analysis of each database cell, by the cell's key.

    Crash trials are left out: where their time goes is of no interest.
    """
    analysis = database_of(summary) or DatabaseAnalysis(cells=[], sweeps=[])
    return {part.cell.key: part for part in analysis.cells if not is_crash_trial(part.cell)}


def label_names(cells: Sequence[CellSummary]) -> list[str]:
    """Return the factors that label a row: scale and clients always, others if they vary."""
    identities = [known_factors(part.cell) for part in cells]
    names = dict.fromkeys(name for identity in identities for name in identity)
    varying = [
        name
        for name in names
        if name not in _FIXED and len({identity.get(name) for identity in identities}) > 1
    ]
    always = [name for name in ("scale", "threads") if name in names]
    return sorted(dict.fromkeys([*varying, *always]), key=_label_order)


def _label_order(name: str) -> tuple[int, str]:
    """Return a sort key: target first, then its size, clients, all others."""
    return (_SCALES.index(name), "") if name in _SCALES else (len(_SCALES), name)


def label_headers(names: Iterable[str]) -> list[str]:
    """Return the headings of the label columns."""
    return [_HEADERS.get(name, _heading(name)) for name in names]


def _heading(name: str) -> str:
    """Return a factor as a heading; a setting of the server keeps its own name."""
    return capitalized(name.replace("_", " ")) if name in _PLAIN else name


def label_texts(part: CellSummary, names: Iterable[str]) -> list[str]:
    """Return the label texts of a row; a dash if a cell has no such factor."""
    identity = known_factors(part.cell)
    return [_factor_text(name, identity.get(name)) for name in names]


def _factor_text(name: str, value: FactorValue | None) -> str:
    if value is None:
        return NO_FIGURE
    if name.endswith("_bytes") and isinstance(value, int):
        return format_size(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def known_factors(cell: Cell) -> dict[str, FactorValue]:
    """Return a cell's factors, including defaults that its key leaves out."""
    identity = cell.identity()
    if cell.parsed.database is None:
        return identity
    spec = database_spec(cell)
    usual: dict[str, FactorValue] = {"processes": spec.processes, "start": spec.start}
    if cell.kind == "pgbench":
        usual |= {"script": spec.script, "protocol": spec.protocol}
    return usual | identity


def database_spec(cell: Cell) -> DatabaseSpec:
    """Return a cell's specification.

    Raises:
        KeyError: when the cell is not of a database.
    """
    return spec_of(cell.spec)


def cell_phrase(part: CellSummary, names: Iterable[str]) -> str:
    """Return a cell's values of these factors in one line: ``hdd, scale 100, 10 clients``."""
    return identity_by(known_factors(part.cell), names)


def sweeps_of(summary: Summary) -> list[CacheSweep]:
    """Return the cache size sweeps of a run's databases.

    Those of replays are reported with the replays (trials/replay/report/caches.py).
    """
    sweeps = analysis.sweeps if (analysis := database_of(summary)) else []
    played = [part.cell for part in summary.cells if is_replay(part.cell)]
    return [sweep for sweep in sweeps if not any(is_of_sweep(cell, sweep) for cell in played)]


def sweep_text(sweep: CacheSweep, cells: Sequence[CellSummary]) -> str:
    """Return target and workload of a sweep, and what distinguishes it from other sweeps."""
    name = f"{sweep.target}, {sweep.workload}"
    cells_of_sweep = [part for part in cells if is_of_sweep(part.cell, sweep)]
    if not cells_of_sweep:
        return name
    alongside = [
        part
        for part in cells
        if (part.cell.target, part.cell.workload) == (sweep.target, sweep.workload)
    ]
    names = [name for name in label_names(alongside) if name != sweep.factor]
    return ": ".join(filter(None, [name, cell_phrase(cells_of_sweep[0], names)]))


def by_workload(cells: Iterable[CellSummary], kind: str) -> dict[str, list[CellSummary]]:
    """Return the cells of a kind by the names of their workloads."""
    return grouped([part for part in cells if part.cell.kind == kind], lambda p: p.cell.workload)


def is_zero(estimate: Estimate) -> bool:
    """Return whether a figure is zero in every round."""
    return estimate.value == 0 and not estimate.high


def figure_name(name: str) -> str:
    """Return the name of a column of a database cell, such as ``device, reads``."""
    if name.startswith(_SERVER_IO_PREFIX):
        return f"pg_stat_io, {fact_name(name.removeprefix(_SERVER_IO_PREFIX))}"
    return FIGURE_NAMES.get(name) or _OTHER_NAMES.get(name) or fact_name(name)


def load_text(spec: DatabaseSpec) -> str:
    """Return the contents of a cell's databases, such as ``2 x pgbench scale 1000``."""
    load = spec.load
    contents = {
        "pgbench": f"pgbench scale {load.scale}",
        "telemetry": f"{format_plural(load.devices, 'device')}, {load.history_hours} h",
        "sql": PurePath(load.file).name,
    }.get(load.kind, load.kind)
    return f"{spec.processes} x {contents}" if spec.processes > 1 else contents


def figure_value(name: str, estimate: Estimate) -> str:
    """Return a column's figure with its unit and no more digits than its interval allows."""
    value, half = estimate.value, half_width_of(estimate)
    if name.endswith("_share"):
        return _tenths(value) if _is_fine(estimate) else format_share(value)
    if name.endswith("_bytes_per_s"):
        return format_rate_bytes(value, half)
    if name.endswith("_per_s"):
        return f"{format_iops(value, half)} per second"
    if name.endswith("_ms"):
        return format_duration_ns(value * 1e6, None if half is None else half * 1e6)
    if name.endswith("_s"):
        return format_duration_s(value)
    return plain_number(value, half)


def figure_text(name: str, estimate: Estimate) -> str:
    """Return a column's figure with its interval: ``1,240 per second (± 3 %)``."""
    return f"{figure_value(name, estimate)} ({interval_text(name, estimate)})"


def interval_text(name: str, estimate: Estimate) -> str:
    """Return the interval of a figure: ``± 3 %``; of a share, whose ``± %`` misleads, both ends.

    If the interval is wider than the figure, only that is reported, as in all tables.
    """
    if estimate.low is None or estimate.high is None or estimate.over == "timeline":
        return doubt_text(estimate).strip("()")
    if estimate.low == estimate.high:
        return "in every round"
    if name.endswith("_share"):
        return _share_ends(estimate, estimate.low, min(estimate.high, 1.0))
    return doubt_text(_in_shown_unit(name, estimate))


def _in_shown_unit(name: str, estimate: Estimate) -> Estimate:
    """Return a figure in the unit in which it is shown, for the ends of its interval."""
    unit = "B/s" if name.endswith("_bytes_per_s") else ""
    if not name.endswith("_ms"):
        return msgspec.structs.replace(estimate, unit=unit)
    return estimate.scaled(1e6, "ns")


def _is_fine(share: Estimate) -> bool:
    """Return whether whole percents would hide the interval of a share."""
    if share.low is None or share.high is None or share.low == share.high:
        return False
    return format_share(share.low) == format_share(min(share.high, 1.0))


def _share_ends(share: Estimate, low: float, high: float) -> str:
    """Return the ends of a share's interval, with another digit if they would look alike."""
    first, last = (_tenths(end) if _is_fine(share) else format_share(end) for end in (low, high))
    return "± < 0.1 %" if first == last else f"{first.removesuffix(' %')} to {last}"


def _tenths(share: float) -> str:
    """Return a share in percent with one decimal, or ``< 0.1 %``."""
    return "< 0.1 %" if 0 < share < 0.0005 else f"{share * 100:.1f} %"


def plain_number(value: float, half: float | None) -> str:
    """Return a figure without a unit, such as ``1.6`` cores or ``3`` checkpoints."""
    if value == round(value):
        return format_count(round(value))
    digits = digits_allowed(value, half)
    return f"{value:.{digits}g}" if abs(value) < 1000 else format_iops(value, half)


def seconds_text(value_s: float) -> str:
    """Return a length of a batch: ``34 min 2 s``, ``2.1 s``."""
    return format_duration_s(value_s) if value_s else "0 s"


def seconds_interval(estimate: Estimate) -> str:
    """Return a batch's mean with its interval: ``34 min 2 s (33 to 35 min)``."""
    return f"{seconds_text(estimate.value)} ({seconds_interval_text(estimate)})"


def seconds_interval_text(estimate: Estimate) -> str:
    """Return the interval of a length: ``33 to 35 min``, ``1.9 s to 2.3 s``, or the rounds."""
    if estimate.low is None or estimate.high is None:
        return doubt_text(estimate).strip("()")
    if estimate.scatter:
        return format_interval(estimate.scaled(1e9, "ns"))
    low_s, high_s = max(estimate.low, 0.0), estimate.high
    if estimate.value >= 600 and high_s - low_s >= 60:
        low_min, high_min = int(low_s // 60), -int(-high_s // 60)
        return f"{low_min} to {high_min} min"
    return f"{seconds_text(low_s)} to {seconds_text(high_s)}"


def size_text(size_bytes: int) -> str:
    """Return a size on disk; ``unknown`` for 0."""
    return format_size(size_bytes) if size_bytes else UNKNOWN


def waits_of(cell: DatabaseCell) -> list[tuple[str, float]]:
    """Return the wait classes that were seen, in the order of all charts."""
    known = [*WAIT_NAMES, *(name for name in cell.waits if name not in WAIT_NAMES)]
    return [(name, cell.waits[name]) for name in known if cell.waits.get(name, 0.0) > 0]
