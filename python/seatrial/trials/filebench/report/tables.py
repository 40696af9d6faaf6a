"""Tables of workloads of files: rates and latencies by flowop, and what threads waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial.report.figures.naming import name_by, varying
from seatrial.report.table import NO_FIGURE, Table, doubt_text, latency_text, rate_text
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_count, format_duration_ns, format_share
from seatrial.trials.filebench.analysis.flowops import rates_of, waits_of

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

FILEBENCH = "filebench"
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
    """Return what threads waited for, besides their requests; nothing where they did not."""
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
            title="File workloads: limits, semaphores, pauses and use of the processor by flowop",
            labels=3,
            headers=["Target", "Workload", "Flowop", "Times", "Mean", "Share of thread time"],
            rows=rows,
        )
    ]
