"""The charts of a run's block I/O, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.findings.model import Summary
from seatrial.report.figures.addresses import address_figures
from seatrial.report.figures.bars import four_figures, mix_figures, whole_file_figures
from seatrial.report.figures.heatmap import COLUMNS_MAX, heat_figures
from seatrial.report.figures.latency import commit_figures, matrix_latency, other_latency
from seatrial.report.figures.model import Figure
from seatrial.report.figures.steady import steady_figures
from seatrial.stats.fastest import Served, served_by_caches
from seatrial.stats.model import CellSummary
from seatrial.stats.steady.model import SteadyState
from seatrial.trials.audit.analysis.model import TableAudit, audits_of
from seatrial.trials.io.report.rates import matrix_figures, sequential_figures

_AFTER = (
    address_figures,
    four_figures,
    mix_figures,
    whole_file_figures,
    other_latency,
)


def figures_of_run(summary: Summary, heat_views_max: int = COLUMNS_MAX) -> list[Figure]:
    """Return the charts of a run's block I/O, in the page's order; none is ever empty.

    Args:
        summary: The run.
        heat_views_max: How many cells may have their latency over time drawn.
    """
    return figures_of(
        summary.cells,
        heat_views_max,
        audits_of(summary),
        summary.steady,
        served_by_caches(summary.findings),
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
