"""The tables of a run's databases: rates as in the article of 2010, with intervals and latencies.

The terminal, the Markdown export and the page show these. Where the time goes is in time_tables.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.grouping import grouped
from seatrial.report.table import NO_FIGURE, Table, doubt_text, latency_text, rate_text, table_width
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import (
    format_count,
    format_duration_s,
    format_share,
    format_size,
    format_value,
)
from seatrial.trials.database.analysis.crashes import KIND as CRASH
from seatrial.trials.database.analysis.crashes import CrashOutcome, crash_outcome
from seatrial.trials.database.analysis.model import CacheSweep, batch_length
from seatrial.trials.database.report.time_tables import time_tables
from seatrial.trials.database.report.wording import (
    by_workload,
    cell_phrase,
    database_cells,
    database_spec,
    label_headers,
    label_names,
    label_texts,
    seconds_interval_text,
    seconds_text,
    sweep_text,
    sweeps_of,
)

_FAILURES: Final = {
    "none": "server killed",
    "honest": "power cut",
    "lying": "power cut, no flush",
}


def crash_tables(workload: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return the results of crash trials, and each of their crashes.

    Args:
        workload: Name.
        cells: At least one cell of kind ``crash``.
    """
    return [_trials(workload, cells), _crashes(workload, cells)]


def _trials(workload: str, cells: Sequence[CellSummary]) -> Table:
    """Return a row per trial: number of crashes, and whether durability held."""
    return Table(
        id=f"database-crash-{workload}",
        title="Crash trial: transactions acknowledged and found after recovery",
        labels=2,
        headers=["Target", "Failure", "Crashes", "Acknowledged", "Lost", "Partial", "Wrong",
                 "Recovery", "Durability"],
        rows=[[*_labels(part), *_trial_texts(part.samples)] for part in cells],
    )  # fmt: skip


def _trial_texts(samples: Sequence[Sample]) -> list[str]:
    outcome = crash_outcome(samples)
    counts = (
        outcome.crashes,
        outcome.acknowledged,
        outcome.lost,
        outcome.half,
        outcome.unsent + outcome.altered,
    )
    return [*map(format_count, counts), _recovery(samples), _durability(outcome)]


def _labels(part: CellSummary) -> list[str]:
    kind = str(part.cell.factors.get("power_cut", "none"))
    scale = f", scale {part.cell.factors['scale']}" if "scale" in part.cell.factors else ""
    return [part.cell.target, _FAILURES.get(kind, kind) + scale]


def _recovery(samples: Sequence[Sample]) -> str:
    """Return the mean recovery time of the crashes with its interval."""
    lengths_s = [
        sample.counters["crash_recovery_s"]
        for sample in samples
        if sample.counters.get("crash_came_back") and "crash_recovery_s" in sample.counters
    ]
    if not lengths_s:
        return NO_FIGURE
    mean = estimate_of_rounds(lengths_s, "s")
    return latency_text({"mean": _nanoseconds(mean)}, "mean")


def _nanoseconds(mean_s: Estimate) -> Estimate:
    return mean_s.scaled(1e9, "ns")


def _durability(outcome: CrashOutcome) -> str:
    """Return whether durability and atomicity held in these crashes."""
    return "held" if outcome.is_ok else "violated"


def _crashes(workload: str, cells: Sequence[CellSummary]) -> Table:
    """Return a row for each crash."""
    return Table(
        id=f"database-crashes-{workload}",
        title="Each crash",
        labels=3,
        headers=["Target", "Failure", "Round", "After", "Acknowledged", "In flight",
                 "In flight, found", "Lost", "Partial", "Unsent", "Altered", "Recovery"],
        rows=[
            [*_labels(part), str(sample.round + 1), *_crash_texts(sample)]
            for part in cells
            for sample in part.samples
        ],
    )  # fmt: skip


def _crash_texts(sample: Sample) -> list[str]:
    outcome = crash_outcome([sample])
    kept = round(sample.counters.get("crash_in_flight_kept", 0.0))
    counts = (
        *(outcome.acknowledged, outcome.in_flight, kept),
        *(outcome.lost, outcome.half, outcome.unsent, outcome.altered),
    )
    recovery_s = sample.counters.get("crash_recovery_s", 0.0)
    recovered = bool(sample.counters.get("crash_came_back"))
    return [
        format_duration_s(sample.duration_s),
        *map(format_count, counts),
        format_duration_s(recovery_s) if recovered and recovery_s else "failed",
    ]


WIDTH_MAX: Final = 100
"""Columns of a terminal that a table should not exceed."""

PERCENTILES: Final = ("p50", "p99", "p99.9", "max")
_LESS_INFORMATIVE: Final = (
    *("p99.9", "Skipped", "Blocks", "MB/s written", "MB/s read", "checkpoints", "p99", "p50"),
    *("In flight, found", "In flight"),
)
"""Columns that a narrow table leaves out, the least informative first."""

_ALL_LATENCIES: Final = ("p50", "p90", "p99", "p99.9", "max", "mean")
_KIND_PERCENTILES: Final = ("p50", "p99")
_REPEATS_SHOWN_MAX: Final = 20


def database_tables(summary: Summary) -> list[Table]:
    """Return the tables of a run's databases, narrowed to a terminal; empty without databases."""
    cells = database_cells(summary)
    if not cells:
        return []
    found = [*rate_tables(cells), *sweep_tables(summary), *time_tables(summary)]
    return [narrowed(table) for table in found]


def rate_tables(cells: Sequence[CellSummary]) -> list[Table]:
    """Return the tables of results: transactions, telemetry, batches and crash trials."""
    table_functions: tuple[tuple[str, Callable[[str, Sequence[CellSummary]], list[Table]]], ...] = (
        ("pgbench", _transactions),
        ("telemetry", _telemetry),
        ("batch", _batches),
        (CRASH, crash_tables),
    )
    found = []
    for kind, make in table_functions:
        workloads = by_workload(cells, kind)
        for workload, members in workloads.items():
            found += make(workload, members)
    return found


def narrowed(table: Table, less_informative: Sequence[str] = _LESS_INFORMATIVE) -> Table:
    """Return a table without its least informative columns, as far as the width requires.

    Args:
        table: The table.
        less_informative: Headings of columns that a narrow page leaves out, the least informative
            first.
    """
    for name in less_informative:
        if table_width(table) <= WIDTH_MAX:
            break
        table = _without(table, name)
    return table


def _without(table: Table, header: str) -> Table:
    if header not in table.headers[table.labels :]:
        return table
    index = table.headers.index(header, table.labels)

    def cut(texts: list[str]) -> list[str]:
        return [*texts[:index], *texts[index + 1 :]]

    return Table(
        id=table.id,
        title=table.title,
        labels=table.labels,
        headers=cut(table.headers),
        rows=[cut(row) for row in table.rows],
    )


def _transactions(workload: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return the article's table, and a table of the client processes if there are several."""
    names = label_names(cells)
    has_skipped = any(s.outcome.late_skipped for part in cells for s in part.samples)
    table = Table(
        id=f"database-transactions-{workload}",
        title=_title("Transactions per second", workload, "pgbench"),
        labels=len(names),
        headers=[
            *label_headers(names),
            *("tps", "±", *PERCENTILES),
            *(["Skipped"] if has_skipped else []),
        ],
        rows=[
            [
                *label_texts(part, names),
                *_rate_texts(part, "transaction"),
                *([_skipped(part)] if has_skipped else []),
            ]
            for part in cells
        ],
    )
    return [table, *_processes(workload, cells)]


def _title(heading: str, workload: str, usual: str) -> str:
    return heading if workload == usual else f"{heading} ({workload})"


def _rate_texts(part: CellSummary, kind: str) -> list[str]:
    """Return rate, interval and latencies of a cell, or why there are none."""
    if part.blank:
        return ["0", part.blank, *[NO_FIGURE] * len(PERCENTILES)]
    latency = part.latency.get(kind, {})
    return [
        rate_text(part.iops),
        doubt_text(part.iops),
        *(latency_text(latency, name) for name in PERCENTILES),
    ]


def _skipped(part: CellSummary) -> str:
    """Return the share of scheduled transactions that were skipped because they were late."""
    offered = sum(sample.outcome.offered for sample in part.samples)
    skipped = sum(sample.outcome.late_skipped for sample in part.samples)
    return format_share(skipped / offered) if skipped else NO_FIGURE


def _processes(workload: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return each client process separately; the article of 2010 reported only its client 1."""
    several = [part for part in cells if _process_count(part) > 1]
    if not several:
        return []
    names = label_names(cells)
    rows = [
        [*label_texts(part, names), str(number), *_process_texts(part, number)]
        for part in several
        for number in range(1, _process_count(part) + 1)
    ]
    table = Table(
        id=f"database-processes-{workload}",
        title=_title("Each client process (separate databases)", workload, "pgbench"),
        labels=len(names) + 1,
        headers=[*label_headers(names), "Process", "tps", "±", "Mean latency", "±"],
        rows=rows,
    )
    return [table]


def _process_count(part: CellSummary) -> int:
    return database_spec(part.cell).processes if part.cell.parsed.database is not None else 1


def process_rate(part: CellSummary, number: int) -> Estimate | None:
    """Return the tps of one client process over the rounds; None if it was not reported.

    Args:
        part: A cell.
        number: Number of the process, from 1.
    """
    return _reported(part, f"tps_{number}", "tps")


def _process_texts(part: CellSummary, number: int) -> list[str]:
    rate = process_rate(part, number)
    mean_ms = _reported(part, f"latency_ms_mean_{number}", "ms")
    rates = [NO_FIGURE] * 2 if rate is None else [rate_text(rate), doubt_text(rate)]
    if mean_ms is None:
        return [*rates, NO_FIGURE, NO_FIGURE]
    mean = mean_ms.scaled(1e6, "ns")
    return [*rates, format_value(mean), doubt_text(mean)]


def _reported(part: CellSummary, name: str, unit: str) -> Estimate | None:
    """Return a figure that the driver reported in every round."""
    records = [sample.database for sample in counted(part.samples)]
    values = [record.reported[name] for record in records if record and name in record.reported]
    if not values or len(values) < len(records):
        return None
    return estimate_of_rounds(values, unit)


def _telemetry(workload: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return ingest and query separately: rows per minute, transactions per second, latencies."""
    names = label_names(cells)
    table = Table(
        id=f"database-telemetry-{workload}",
        title=_title("Telemetry: inserts and time-range queries", workload, "telemetry"),
        labels=len(names) + 1,
        headers=[*label_headers(names), "Kind", "Per second", "±", "Rows/min",
                 *_KIND_PERCENTILES, "max"],
        rows=[
            [*label_texts(part, names), *texts] for part in cells for texts in _kind_rows(part)
        ],
    )  # fmt: skip
    return [table]


def _kind_rows(part: CellSummary) -> list[list[str]]:
    if part.blank:
        return [["all", "0", part.blank, *[NO_FIGURE] * 4]]
    rows = []
    batch_rows = database_spec(part.cell).batch_rows if part.cell.parsed.database is not None else 0
    for kind, latency in part.latency.items():
        rate = kind_rate(counted(part.samples), kind)
        minute = rate.scaled(60.0 * batch_rows, "rows")
        rows.append(
            [
                kind,
                rate_text(rate),
                doubt_text(rate),
                rate_text(minute) if kind == "ingest" and batch_rows else NO_FIGURE,
                *(latency_text(latency, name) for name in (*_KIND_PERCENTILES, "max")),
            ]
        )
    return rows


def kind_rate(samples: Sequence[Sample], kind: str) -> Estimate:
    """Return transactions of one kind per second, over at least one round."""
    rates = [
        sample.operations[kind].completed / sample.duration_s if kind in sample.operations else 0.0
        for sample in samples
    ]
    return estimate_of_rounds(rates, "tps")


def latency_table(cells: Sequence[CellSummary]) -> Table:
    """Return every percentile and count of every kind of transaction of every cell."""
    rows = []
    for workload, members in grouped(cells, lambda part: part.cell.workload).items():
        names = label_names(members)
        for part in members:
            for kind, latency in part.latency.items() or {"": {}}.items():
                words = cell_phrase(part, names) or workload
                counted_texts = [part.completed, part.failed, len(part.samples)]
                rows.append(
                    [
                        workload,
                        words,
                        kind or part.cell.operation,
                        *(latency_text(latency, name) for name in _ALL_LATENCIES),
                        *(format_count(count) for count in counted_texts),
                    ]
                )
    return Table(
        id="database-latency",
        title="All latencies and counts",
        labels=3,
        headers=["Workload", "Test", "Kind", *_ALL_LATENCIES, "Completed", "Failed", "Rounds"],
        rows=rows,
    )


def _batches(workload: str, cells: Sequence[CellSummary]) -> list[Table]:
    """Return the elapsed time of a batch, and each of its repeats as ``time`` reports it."""
    names = label_names(cells)
    mean = Table(
        id=f"database-batch-{workload}",
        title=f"Batch {workload}: elapsed time",
        labels=len(names),
        headers=[*label_headers(names), "real", "95 %", "user", "sys", "Repeats"],
        rows=[[*label_texts(part, names), *_batch_texts(part)] for part in cells],
    )
    repeats = Table(
        id=f"database-repeats-{workload}",
        title=f"Batch {workload}: each repeat",
        labels=len(names) + 1,
        headers=[*label_headers(names), "Repeat", "real", "user", "sys"],
        rows=[
            [*label_texts(part, names), str(sample.round + 1), *_repeat_texts(sample)]
            for part in cells
            for sample in part.samples[:_REPEATS_SHOWN_MAX]
        ],
    )
    return [mean, repeats]


def _batch_texts(part: CellSummary) -> list[str]:
    if part.blank:
        return [part.blank, *[NO_FIGURE] * 4]
    real = batch_length(part.samples, "real")
    if real is None:
        return [NO_FIGURE] * 5
    others = (batch_length(part.samples, name) for name in ("user", "sys"))
    return [
        seconds_text(real.value),
        seconds_interval_text(real),
        *(NO_FIGURE if other is None else seconds_text(other.value) for other in others),
        str(real.rounds),
    ]


def _repeat_texts(sample: Sample) -> list[str]:
    lengths_s = sample.database.batch_s if sample.database else {}
    return [
        seconds_text(lengths_s[name]) if name in lengths_s else NO_FIGURE
        for name in ("real", "user", "sys")
    ]


def sweep_tables(summary: Summary) -> list[Table]:
    """Return each cache size sweep: the measured sizes and the prediction."""
    cells = database_cells(summary)
    return [
        _sweep_table(sweep, number, sweep_text(sweep, cells))
        for number, sweep in enumerate(sweeps_of(summary), start=1)
    ]


def _sweep_table(sweep: CacheSweep, number: int, words: str) -> Table:
    rows = [
        [format_size(size), "measured", *_time_texts(time)]
        for size, time in zip(sweep.sizes_bytes, sweep.time_s, strict=True)
    ]
    if sweep.predicted_per_s is not None:
        rows.append(
            [
                format_size(sweep.next_size_bytes),
                "predicted",
                *(NO_FIGURE, NO_FIGURE),
                rate_text(sweep.predicted_per_s),
                doubt_text(sweep.predicted_per_s),
            ]
        )
    return Table(
        id=f"database-sweep-{number}",
        title=f"Cache size ({sweep.factor}), {words}",
        labels=2,
        headers=["Size", "Figure", "Per transaction", "±", "tps", "±"],
        rows=rows,
    )


def _time_texts(time_s: Estimate) -> list[str]:
    nanoseconds = time_s.scaled(1e9, "ns")
    rate = inverse(time_s)
    return [
        format_value(nanoseconds),
        doubt_text(nanoseconds),
        rate_text(rate),
        doubt_text(rate),
    ]


def inverse(time_s: Estimate) -> Estimate:
    """Return transactions per second from the time of one, with its interval."""
    return time_s.inverse(1.0, "tps")
