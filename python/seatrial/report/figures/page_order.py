"""All charts of a report, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from seatrial.findings.model import Summary
from seatrial.report.figures.addresses import address_figures
from seatrial.report.figures.bars import four_figures, mix_figures, whole_file_figures
from seatrial.report.figures.heatmap import COLUMNS_MAX, heat_figures
from seatrial.report.figures.latency import commit_figures, matrix_latency, other_latency
from seatrial.report.figures.model import Figure
from seatrial.report.figures.naming import grouped
from seatrial.report.figures.rates import matrix_figures, sequential_figures
from seatrial.report.figures.steady import steady_figures
from seatrial.stats.fastest import Served, served_by_caches
from seatrial.stats.model import CellSummary
from seatrial.stats.steady.model import SteadyState
from seatrial.trials.audit.analysis.model import TableAudit
from seatrial.trials.loadline.report.figure import load_line_figures

_AFTER = (
    address_figures,
    four_figures,
    mix_figures,
    whole_file_figures,
    other_latency,
)


def figures_of_run(summary: Summary, heat_views_max: int = COLUMNS_MAX) -> list[Figure]:
    """Return the charts of a run, in the page's order; none is ever empty.

    Args:
        summary: The run.
        heat_views_max: How many cells may have their latency over time drawn.
    """
    return [
        *load_line_figures(summary.load_lines),
        *figures_of(
            summary.cells,
            heat_views_max,
            summary.audits,
            summary.steady,
            served_by_caches(summary.findings),
        ),
    ]


def charted_part(summary: Summary, cells_max: int) -> Summary:
    """Return a run with so many of its targets as have charts: all, if its cells are that few.

    Those that are fastest at something come first, then the others in their order.

    Args:
        summary: The run.
        cells_max: How many cells may be drawn; one target is, however many it has.
    """
    if len(summary.cells) <= cells_max:
        return summary
    by_target = grouped(summary.cells, lambda part: part.cell.target)
    best = [each.target for each in summary.layouts.best] if summary.layouts else []
    order = [target for target in dict.fromkeys([*best, *by_target]) if target in by_target]
    kept: set[str] = set()
    count = 0
    for target in order:
        count += len(by_target[target])
        if kept and count > cells_max:
            break
        kept.add(target)
    cells = [part for part in summary.cells if part.cell.target in kept]
    return msgspec.structs.replace(summary, cells=cells)


def left_out(summary: Summary, charted: Summary) -> str:
    """Return which targets of a run have charts, as a sentence; empty where all have."""
    targets = dict.fromkeys(part.cell.target for part in summary.cells)
    drawn = dict.fromkeys(part.cell.target for part in charted.cells)
    if len(drawn) == len(targets):
        return ""
    return (
        f"Charts of all {len(targets)} targets would make this page too large: these are of "
        f"{', '.join(drawn)}. The tables have all of them."
    )


def figures_of(
    cells: Sequence[CellSummary],
    heat_views_max: int = COLUMNS_MAX,
    audits: Sequence[TableAudit] = (),
    steady: Sequence[SteadyState] = (),
    served: Served = (),
) -> list[Figure]:
    """Return the charts that these cells give, in the page's order; none is ever empty.

    Args:
        cells: The cells.
        heat_views_max: How many cells may have their latency over time drawn.
        audits: Of the tables among the cells.
        steady: Of the cells that were measured for long enough to tell.
        served: What a cache served, by identity; no title tells it as the device's.
    """
    return [
        *matrix_figures(cells, audits, served),
        *matrix_latency(cells),
        *steady_figures(steady, cells),
        *heat_figures(cells, views_max=heat_views_max),
        *commit_figures(cells),
        *sequential_figures(cells, served),
        *(figure for make in _AFTER for figure in make(cells)),
    ]
