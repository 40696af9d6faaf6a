"""All charts of a report, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from seatrial.analysis.model import CellSummary
from seatrial.report.figures.addresses import address_figures
from seatrial.report.figures.bars import four_figures, mix_figures, whole_file_figures
from seatrial.report.figures.heatmap import COLUMNS_MAX, heat_figures
from seatrial.report.figures.latency import commit_figures, matrix_latency, other_latency
from seatrial.report.figures.model import Figure
from seatrial.report.figures.rates import matrix_figures, sequential_figures

_BEFORE = (matrix_figures, matrix_latency)
_AFTER = (
    commit_figures,
    sequential_figures,
    address_figures,
    four_figures,
    mix_figures,
    whole_file_figures,
    other_latency,
)


def figures_of(cells: Sequence[CellSummary], heat_views_max: int = COLUMNS_MAX) -> list[Figure]:
    """Return the charts that these cells give, in the page's order; none is ever empty.

    Args:
        cells: The cells.
        heat_views_max: How many cells may have their latency over time drawn.
    """
    heat = partial(heat_figures, views_max=heat_views_max)
    return [figure for make in (*_BEFORE, heat, *_AFTER) for figure in make(cells)]
