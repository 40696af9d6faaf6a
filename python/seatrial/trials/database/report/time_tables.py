"""Tables of where the time goes, where reads come from, and what was loaded.

With few cells each cell is a column and every figure has its interval. With many cells each cell is
a row, and the figures have no more digits than their intervals allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.table import NO_FIGURE, Table
from seatrial.results.model import DatabaseRecord
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    capitalized,
    format_count,
    format_duration_s,
    format_iops,
    format_rate_bytes,
    format_share,
)
from seatrial.trials.database.analysis.model import DatabaseCell
from seatrial.trials.database.report.wording import (
    FIGURE_NAMES,
    WAIT_NAMES,
    analysed,
    cell_phrase,
    database_cells,
    database_spec,
    figure_name,
    figure_text,
    figure_value,
    interval_text,
    is_zero,
    label_headers,
    label_names,
    label_texts,
    load_text,
    size_text,
    waits_of,
)
from seatrial.trials.replay.analysis.model import is_replay

FEW_CELLS_MAX: Final = 2
_WAITS_NAMED: Final = 2
_SETTING_SHOWN_MAX: Final = 60

_COPIES: Final = {
    "reflink": "reflink",
    "copy": "file copy",
    "template": "template database",
    "reuse": "reused data",
}

_TIME_COLUMNS: Final = (
    ("cpu_user_share", "user"),
    ("cpu_system_share", "system"),
    ("cpu_iowait_share", "iowait"),
    ("server_cpu_cores", "cores"),
)
_DEVICE_COLUMNS: Final = (
    ("device_read_per_s", "reads/s"),
    ("device_write_per_s", "writes/s"),
    ("device_read_bytes_per_s", "MB/s read"),
    ("device_write_bytes_per_s", "MB/s written"),
    ("device_busy_share", "busy"),
    ("wal_bytes_per_s", "WAL MB/s"),
    ("checkpoints", "checkpoints"),
)
"""Columns of a row for each cell: the figure and its heading."""


def time_tables(summary: Summary) -> list[Table]:
    """Return the tables of time, read sources, loaded data and server settings."""
    by_key = analysed(summary)
    cells = [part for part in database_cells(summary) if part.cell.key in by_key]
    if not cells:
        return []
    by_workload = grouped(cells, lambda part: part.cell.workload)
    several = len(by_workload) > 1
    found = []
    for workload, members in by_workload.items():
        tables = _tables_of_workload(members, by_key)
        found += [_named(table, workload) if several else table for table in tables]
    return [
        *found,
        *(table for table in (_loads(cells, by_key), _settings(cells, by_key)) if table.rows),
    ]


def _named(table: Table, workload: str) -> Table:
    """Return a table with the workload in its title."""
    return msgspec.structs.replace(
        table, id=f"{table.id}-{workload}", title=f"{table.title}, {workload}"
    )


def _tables_of_workload(
    cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]
) -> list[Table]:
    """Return the tables of time and read sources for one workload's cells."""
    measured = [
        part for part in cells if by_key[part.cell.key].columns or by_key[part.cell.key].waits
    ]
    found = []
    if 0 < len(measured) <= FEW_CELLS_MAX:
        found.append(_column_per_cell(measured, by_key))
    elif measured:
        found += [_time_row_per_cell(measured, by_key), _device_row_per_cell(measured, by_key)]
    with_reads = [part for part in cells if by_key[part.cell.key].reads]
    return [*found, *([_reads(with_reads, by_key)] if with_reads else [])]


def facts(cell: DatabaseCell) -> list[tuple[str, str, str]]:
    """Return the most important figures of a cell's time: name, figure, interval."""
    rows = [("bound by", cell.verdict.bound, NO_FIGURE)]
    rows += [
        (f"active clients' time: {WAIT_NAMES.get(name, name)}", format_share(share), NO_FIGURE)
        for name, share in waits_of(cell)
    ]
    rows += [_fact(name, cell.columns[name]) for name in FIGURE_NAMES if name in cell.columns]
    if cell.client_cpu_share is not None:
        rows.append(("core used by the client", format_share(cell.client_cpu_share), "largest"))
    if cell.ceiling_per_s is not None:
        unit = "statements/s" if is_replay(cell.cell) else "tps"
        rows.append(
            ("client with a null server", f"{format_iops(cell.ceiling_per_s)} {unit}", "once")
        )
    return rows


def _fact(name: str, estimate: Estimate) -> tuple[str, str, str]:
    return figure_name(name), figure_value(name, estimate), interval_text(name, estimate)


def facts_table(cell: DatabaseCell) -> Table:
    """Return the most important figures of one cell's time as a table."""
    return _facts_table(cell, "Where the time goes", facts(cell))


def others_table(cell: DatabaseCell) -> Table:
    """Return all other readings of one cell that are not zero."""
    names = [name for name in cell.columns if name not in FIGURE_NAMES]
    rows = [_fact(name, cell.columns[name]) for name in names if not is_zero(cell.columns[name])]
    return _facts_table(cell, "All other readings", rows)


def absent_readings(cell: DatabaseCell) -> list[str]:
    """Return the names of all other readings that are zero in every round."""
    return [
        figure_name(name)
        for name, estimate in cell.columns.items()
        if name not in FIGURE_NAMES and is_zero(estimate)
    ]


def _facts_table(cell: DatabaseCell, title: str, rows: Sequence[tuple[str, str, str]]) -> Table:
    return Table(
        id=f"database-{title.lower().replace(' ', '-')}-{cell.cell.key}",
        title=title,
        labels=1,
        headers=["Figure", "Mean", "95 % CI"],
        rows=[list(row) for row in rows],
    )


def events_table(cell: DatabaseCell) -> Table:
    """Return the most frequent wait events of one cell, by the server's names."""
    return Table(
        id=f"database-events-{cell.cell.key}",
        title="Wait events (sampled)",
        labels=1,
        headers=["Wait event", "Share"],
        rows=[
            [name.replace(":", ": "), format_share(share)]
            for name, share in sorted(cell.wait_events.items(), key=lambda pair: -pair[1])
        ],
    )


def rivals_table(cell: DatabaseCell) -> Table:
    """Return the alternative explanations for one cell, with the figures that test them."""
    return Table(
        id=f"database-rivals-{cell.cell.key}",
        title="Alternative explanations",
        labels=1,
        headers=["Alternative", "Measured", "Limit", "Excluded"],
        rows=[
            [
                capitalized(rival.sentence.partition(" (")[0]),
                NO_FIGURE if rival.value is None else format_share(rival.value),
                format_share(rival.allowed_max),
                "yes" if rival.is_excluded else "no",
            ]
            for rival in cell.verdict.rivals
        ],
    )


def _column_per_cell(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> Table:
    """Return a table with a column per cell, with every figure's interval."""
    columns = [dict(_facts_with_intervals(by_key[part.cell.key])) for part in cells]
    names = _in_order(columns)
    labels = label_names(cells)
    return Table(
        id="database-time",
        title="Where the time goes",
        labels=1,
        headers=["Figure", *(cell_phrase(part, labels) or part.cell.workload for part in cells)],
        rows=[
            [capitalized(name), *(column.get(name, NO_FIGURE) for column in columns)]
            for name in names
        ],
    )


def _in_order(columns: Sequence[dict[str, str]]) -> list[str]:
    """Return the names of all columns, merged in their order."""
    names: list[str] = []
    for column in columns:
        index = 0
        for name in column:
            if name not in names:
                names.insert(index, name)
            index = names.index(name) + 1
    return names


def _facts_with_intervals(cell: DatabaseCell) -> list[tuple[str, str]]:
    return [
        (name, figure if doubt in (NO_FIGURE, "largest", "once") else f"{figure} ({doubt})")
        for name, figure, doubt in facts(cell)
    ]


def _time_row_per_cell(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> Table:
    """Return a row per cell: its bound, the CPU, and the clients' waits."""
    names = label_names(cells)
    return Table(
        id="database-time",
        title="Where the time goes",
        labels=len(names),
        headers=[*label_headers(names), "Bound by", *(name for _, name in _TIME_COLUMNS),
                 "Active clients' time"],
        rows=[
            [
                *label_texts(part, names),
                by_key[part.cell.key].verdict.bound,
                *_columns(by_key[part.cell.key], [name for name, _ in _TIME_COLUMNS]),
                _longest_waits(by_key[part.cell.key]),
            ]
            for part in cells
        ],
    )  # fmt: skip


def _device_row_per_cell(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> Table:
    """Return a row per cell: the device, WAL, checkpoints and the client's CPU."""
    names = label_names(cells)
    return Table(
        id="database-device",
        title="Device, WAL, checkpoints and client CPU",
        labels=len(names),
        headers=[*label_headers(names), *(name for _, name in _DEVICE_COLUMNS), "client core"],
        rows=[
            [
                *label_texts(part, names),
                *_columns(by_key[part.cell.key], [name for name, _ in _DEVICE_COLUMNS]),
                _share_or_none(by_key[part.cell.key].client_cpu_share),
            ]
            for part in cells
        ],
    )


def _share_or_none(share: float | None) -> str:
    return NO_FIGURE if share is None else format_share(share)


def _columns(cell: DatabaseCell, names: Sequence[str]) -> list[str]:
    """Return figures without their units, which are in the headings."""
    return [
        _without_unit(name, cell.columns[name]) if name in cell.columns else NO_FIGURE
        for name in names
    ]


def _without_unit(name: str, estimate: Estimate) -> str:
    if name.endswith("_share"):
        return format_share(estimate.value)
    # A rate below 1 MB/s keeps its own unit, as in all tables.
    return figure_value(name, estimate).removesuffix(" MB/s").removesuffix(" per second")


def _longest_waits(cell: DatabaseCell) -> str:
    """Return the most frequent waits of active clients: ``I/O 86 %, LWLock 9 %``."""
    ordered = sorted(waits_of(cell), key=lambda pair: -pair[1])[:_WAITS_NAMED]
    waits = [f"{WAIT_NAMES.get(name, name)} {format_share(share)}" for name, share in ordered]
    return ", ".join(waits) or NO_FIGURE


def _reads(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> Table:
    names = label_names(cells)
    rows = []
    for part in cells:
        reads = by_key[part.cell.key].reads
        if reads is None:
            continue
        sources = (reads.shared_buffers, reads.page_cache, reads.device)
        texts = [figure_text("_share", source) for source in sources]
        rows.append([*label_texts(part, names), *texts, format_count(reads.blocks)])
    return Table(
        id="database-reads",
        title="Read sources",
        labels=len(names),
        headers=[*label_headers(names), "Shared buffers", "Page cache", "Device", "Blocks"],
        rows=rows,
    )


def _loads(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> Table:
    """Return what was loaded, one row for all cells that share it."""
    known = [part for part in cells if part.cell.parsed.database is not None]
    by_load = grouped(known, lambda p: (p.cell.target, load_text(database_spec(p.cell))))
    return Table(
        id="database-load",
        title="Databases",
        labels=2,
        headers=["Target", "Contents", "On disk", "Load time", "MB/s", "Rows", "Copy per sample"],
        rows=[[*labels, *_load_texts(members, by_key)] for labels, members in by_load.items()],
    )


def _load_texts(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> list[str]:
    """Return size, time and rate of loading, rows, and how each sample got its copy."""
    cell = by_key[cells[0].cell.key]
    records = [s.database for part in cells for s in part.samples if s.database]
    loaded = NO_FIGURE if cell.loaded_s is None else format_duration_s(cell.loaded_s)
    per_s = cell.load_bytes_per_s
    rows = max((record.loaded_rows for record in records), default=0)
    return [
        size_text(cell.database_bytes),
        loaded,
        NO_FIGURE if per_s is None else format_rate_bytes(per_s).removesuffix(" MB/s"),
        format_count(rows) if rows else NO_FIGURE,
        _copied(records),
    ]


def _copied(records: Sequence[DatabaseRecord]) -> str:
    """Return how samples got their data, and the median time for it."""
    methods = dict.fromkeys(record.cloned for record in records if record.cloned)
    times_s = sorted(record.cloned_s for record in records if record.cloned)
    if not methods:
        return NO_FIGURE
    names = " or ".join(_COPIES.get(method, method) for method in methods)
    median_s = times_s[len(times_s) // 2]
    return f"{names}, {format_duration_s(median_s)}" if median_s else names


def _settings(cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]) -> Table:
    """Return server, start state and all non-default settings."""
    by_name: dict[str, dict[str, None]] = {}
    for part in cells:
        cell = by_key[part.cell.key]
        own = {"server": cell.server, "start state": cell.start_state.replace("_", " ")}
        # For an imported log neither server nor start state is known.
        known = {name: value for name, value in own.items() if value}
        for name, value in (known | dict(sorted(cell.settings.items()))).items():
            by_name.setdefault(name, {})[value or "''"] = None
    return Table(
        id="database-settings",
        title="Server, start state and non-default settings",
        labels=2,
        headers=["Setting", "Value"],
        rows=[[name, _shortened(" | ".join(values))] for name, values in by_name.items()],
    )


def _shortened(text: str) -> str:
    """Return a text that fits a terminal; the results file has the full text."""
    return text if len(text) <= _SETTING_SHOWN_MAX else f"{text[: _SETTING_SHOWN_MAX - 1]}…"
