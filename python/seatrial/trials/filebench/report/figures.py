"""Charts of workloads of files: operations per second and p99 by flowop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial.report.figures.axes import bar_axis, blank_notes, interval_note
from seatrial.report.figures.model import Figure, Point, Row, View
from seatrial.stats.model import CellSummary, Estimate
from seatrial.stats.wording import format_estimate
from seatrial.trials.filebench.analysis.flowops import rates_of
from seatrial.trials.filebench.report.tables import FILEBENCH, cell_name, own_cells

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

_TOPIC = "File workloads"
_PERCENTILE = "p99"


def figures_of(summary: Summary, cells_max: int) -> list[Figure]:
    """Return rates and latencies by flowop, each with a view for each cell.

    Args:
        summary: The run.
        cells_max: How many cells may be drawn.
    """
    cells = own_cells(summary)
    drawn = [cell for cell in cells if not cell.blank][:cells_max]
    rates = [_view(cell, drawn, _rates(cell), _RATES) for cell in drawn]
    times = [_view(cell, drawn, _times(cell), _TIMES) for cell in drawn if _times(cell)]
    return [
        Figure(
            id=f"{FILEBENCH}-{name}",
            kind="bars",
            topic=_TOPIC,
            notes=[interval_note(drawn, "whiskers"), *blank_notes(cells)],
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
    how: tuple[str, str, str, str],
) -> View:
    name, axis_name, unit, most = how
    label = cell_name(cell, cells)
    if len({each.cell.target for each in cells}) > 1:
        label = f"{cell.cell.target}: {label}"
    top = max(estimates, key=lambda flowop: estimates[flowop].value)
    slowest = f"{most} {top}, {format_estimate(estimates[top])}"
    said = f"{format_estimate(cell.iops)} in all" if name == "operations" else slowest
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
        title=f"{label}: {said}",
        rows=rows,
        axis=bar_axis(axis_name, unit, list(estimates.values())),
    )
