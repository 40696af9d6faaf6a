"""A run as CSV: one row for each cell and operation kind, every figure in a column of its own.

The rates and their intervals are the cell's; requests and percentiles are those of the row's
operation. An empty field is a figure that is not known: an interval of a cell that was measured
once, a percentile that too few requests completed for. Cells of a database have columns of their
own at the end: ``reported_...`` are the driver's own totals, the arithmetic mean of the rounds.
Cells on layouts have ``layout_...``, the array as built, and ``device_...``, the work of its drives
per request. Replays have ``replay_...``, whose counts are those of one round and add up. A figure
whose rounds differ by more than twice is their median, ``_low`` and ``_high`` are the smallest and
the largest, and a column ``_over`` contains ``range``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from seatrial.findings.model import Summary
from seatrial.stats.cell_estimates import PERCENTS
from seatrial.stats.model import AtLeast, CellSummary, Estimate
from seatrial.topic import topics

Field = str | int | float | bool | None


def interval_columns(name: str, estimate: Estimate) -> dict[str, Field]:
    """Return a figure and its ends in columns of their own.

    If rounds scatter, the ends are the range, and an additional column ``<name>_over`` says so.
    """
    shown = estimate.shown
    columns: dict[str, Field] = {
        name: shown.value,
        f"{name}_low": shown.low,
        f"{name}_high": shown.high,
    }
    return columns | ({f"{name}_over": shown.over} if shown.over == "range" else {})


LATENCIES = ("mean", *PERCENTS, "max")


def render(summary: Summary) -> str:
    """Return the table with a line of headings; lines end with a line feed."""
    columns_of = [topic.columns(summary) for topic in topics()]
    rows = []
    for part in summary.cells:
        own: dict[str, Field] = {}
        for columns_by_cell in columns_of:
            own |= columns_by_cell.get(part.cell.key, {})
        rows += [row | own for row in _rows(summary.run.id, part)]
    # The factors of all cells, so that every row has every column.
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rows(run_id: str, summary: CellSummary) -> Iterator[dict[str, Field]]:
    kinds = dict.fromkeys(kind for sample in summary.samples for kind in sample.operations)
    for kind in kinds or [summary.cell.operation]:
        yield {
            "run_id": run_id,
            "cell_key": summary.cell.key,
            "kind": summary.cell.kind,
            **_factors(summary),
            "rounds": summary.iops.rounds,
            **interval_columns("completed_per_s", summary.iops),
            **interval_columns("transferred_bytes_per_s", summary.bandwidth),
            "blank": summary.blank,
            "request": kind,
            **_counts(summary, kind),
            **_latencies(summary.latency.get(kind, {})),
            **_bounds(summary.latency_at_least.get(kind, {})),
        }


def _factors(summary: CellSummary) -> Mapping[str, Field]:
    """Return the fixed factors by name, and those of the workload as ``factor_<name>``."""
    own = summary.cell.factors
    fixed = {name: value for name, value in summary.cell.identity().items() if name not in own}
    return fixed | {f"factor_{name}": value for name, value in own.items()}


def _counts(summary: CellSummary, kind: str) -> dict[str, Field]:
    results = [part.operations[kind] for part in summary.samples if kind in part.operations]
    return {
        "completed": sum(result.completed for result in results),
        "failed": sum(result.failed for result in results),
        "transferred_bytes": sum(result.transferred_bytes for result in results),
    }


def _bounds(bounds: dict[str, AtLeast]) -> dict[str, Field]:
    """Return the lower bound (ns) of each unknown percentile; empty without any."""
    return {
        f"{name}_ns_at_least".replace(".", "_"): bounds[name].value if name in bounds else None
        for name in PERCENTS
    }


def _latencies(latency: dict[str, Estimate]) -> dict[str, Field]:
    """Return each figure of the response time in ns, empty if it is not known.

    ``latency_over`` says which figures were ``reported`` by another tool.
    """
    is_reported = any(estimate.over == "reported" for estimate in latency.values())
    fields: dict[str, Field] = {"latency_over": "reported" if is_reported else ""}
    for name in LATENCIES:
        estimate = latency.get(name)
        column = f"{name}_ns".replace(".", "_")
        if estimate is None:
            fields |= {column: None, f"{column}_low": None, f"{column}_high": None}
        else:
            fields |= interval_columns(column, estimate)
    return fields
