"""Tables of workloads of files: rates and latencies by flowop, and what threads waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial.report.figures.axes import bar_axis, blank_notes, interval_note
from seatrial.report.figures.model import Figure, Point, Row, View
from seatrial.report.figures.naming import name_by, varying
from seatrial.report.table import NO_FIGURE, Table, doubt_text, latency_text, rate_text
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_count, format_duration_ns, format_estimate, format_share
from seatrial.trials.filebench.analysis import rates_of, waits_of
from seatrial.trials.filebench.study import FILEBENCH

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

_PERCENTILES = ("p50", "p99", "max")


def own_cells(summary: Summary) -> list[CellSummary]:
    """Return the cells of workloads of files."""
    return [each for each in summary.cells if each.cell.kind == FILEBENCH]


def cell_name(summary: CellSummary, cells: Sequence[CellSummary]) -> str:
    """Return a cell's personality, and the factors that differ among the cells."""
    factors = varying(cells, leave_out=("workload", "target", "threads", "personality"))
    personality = str(summary.cell.factors.get("personality", summary.cell.workload))
    return ", ".join(filter(None, [personality, name_by(summary, factors)]))


def flowop_table(summary: Summary, target: str, workload: str) -> Table | None:
    """Return rates and latencies by flowop of a workload on a target."""
    cells = [
        each
        for each in own_cells(summary)
        if (each.cell.target, each.cell.workload) == (target, workload) and not each.blank
    ]
    if not cells:
        return None
    rows = []
    for cell in cells:
        name = cell_name(cell, cells)
        rows.append(
            [
                name,
                "all flowops",
                rate_text(cell.iops),
                doubt_text(cell.iops),
                rate_text(cell.bandwidth) if cell.bandwidth.value else NO_FIGURE,
                *([NO_FIGURE] * len(_PERCENTILES)),
                format_count(cell.failed) if cell.failed else NO_FIGURE,
            ]
        )
        rows += [[name, *row] for row in _rows(cell)]
    label = "File workloads" if workload == FILEBENCH else f"File workloads ({workload})"
    return Table(
        id=f"{FILEBENCH}-{target}-{workload}",
        title=f"{label} by flowop, {target}",
        labels=2,
        headers=["Workload", "Flowop", "Operations/s", "±", "MB/s", *_PERCENTILES, "Failed"],
        rows=rows,
    )


def _rows(cell: CellSummary) -> list[list[str]]:
    rows = []
    for flowop in rates_of(cell):
        times = cell.latency.get(flowop.name, {})
        bounds = cell.latency_at_least.get(flowop.name)
        rows.append(
            [
                flowop.name,
                rate_text(flowop.rate),
                doubt_text(flowop.rate),
                rate_text(flowop.bandwidth) if flowop.bandwidth else NO_FIGURE,
                *(
                    latency_text(times, name, bounds)
                    if name in times or (bounds and name in bounds)
                    else NO_FIGURE
                    for name in _PERCENTILES
                ),
                format_count(flowop.failed) if flowop.failed else NO_FIGURE,
            ]
        )
    return rows


def wait_tables(summary: Summary) -> list[Table]:
    """Return what threads waited for, besides their requests."""
    cells = own_cells(summary)
    rows = [
        [
            cell.cell.target,
            cell_name(cell, cells),
            wait.name,
            format_count(wait.waits),
            format_duration_ns(wait.wait_ns_mean),
            format_share(wait.thread_share),
        ]
        for cell in cells
        for wait in waits_of(cell)
    ]
    if not rows:
        return []
    return [
        Table(
            id=f"{FILEBENCH}-waits",
            title="File workloads: limits, semaphores, pauses and CPU use by flowop",
            labels=3,
            headers=["Target", "Workload", "Flowop", "Times", "Mean", "Share of thread time"],
            rows=rows,
        )
    ]


_TOPIC = "File workloads"
_PERCENTILE = "p99"


def figures_of(summary: Summary, cells_max: int) -> list[Figure]:
    """Return rates and latencies by flowop, each with a view for each cell.

    Args:
        summary: The run.
        cells_max: Maximum number of cells in a chart.
    """
    cells = own_cells(summary)
    shown = [cell for cell in cells if not cell.blank][:cells_max]
    rates = [_view(cell, shown, _rates(cell), _RATES) for cell in shown]
    times = [_view(cell, shown, _times(cell), _TIMES) for cell in shown if _times(cell)]
    return [
        Figure(
            id=f"{FILEBENCH}-{name}",
            kind="bars",
            topic=_TOPIC,
            notes=[interval_note(shown, "whiskers"), *blank_notes(cells)],
            views=views,
            table=f"table-{FILEBENCH}",
        )
        for name, views in (("rates", rates), ("latency", times))
        if views
    ]


_RATES = ("operations", "Operations per second", "operations/s", "")
_TIMES = ("latency", f"Response time, {_PERCENTILE}", "ns", "slowest is")


def _rates(cell: CellSummary) -> dict[str, Estimate]:
    return {flowop.name: flowop.rate for flowop in rates_of(cell) if flowop.rate.value}


def _times(cell: CellSummary) -> dict[str, Estimate]:
    return {
        name: times[_PERCENTILE]
        for name, times in cell.latency.items()
        if _PERCENTILE in times and name in cell.samples[0].operations
    }


def _view(
    cell: CellSummary,
    cells: Sequence[CellSummary],
    estimates: dict[str, Estimate],
    quantity: tuple[str, str, str, str],
) -> View:
    name, axis_name, unit, most = quantity
    label = cell_name(cell, cells)
    if len({each.cell.target for each in cells}) > 1:
        label = f"{cell.cell.target}: {label}"
    top = max(estimates, key=lambda flowop: estimates[flowop].value)
    slowest = f"{most} {top}, {format_estimate(estimates[top])}"
    result = f"{format_estimate(cell.iops)} in all" if name == "operations" else slowest
    rows = [
        Row(
            label=flowop,
            points={name: Point.of(0, estimate)},
            remark=format_estimate(estimate),
        )
        for flowop, estimate in estimates.items()
    ]
    return View(
        label=label,
        title=f"{label}: {result}",
        rows=rows,
        axis=bar_axis(axis_name, unit, list(estimates.values())),
    )
