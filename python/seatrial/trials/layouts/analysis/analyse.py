"""What the samples on a run's layouts say, as one."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.stats.model import CellSummary
from seatrial.trials.layouts.analysis.accounting import accounting
from seatrial.trials.layouts.analysis.best import best_layouts
from seatrial.trials.layouts.analysis.drawn import drawn_figures
from seatrial.trials.layouts.analysis.model import LayoutAnalysis
from seatrial.trials.layouts.analysis.ratios import LayoutCells, layout_ratios
from seatrial.trials.layouts.analysis.recovery import limit_tables, recoveries
from seatrial.trials.layouts.analysis.samples import variants_of
from seatrial.trials.layouts.analysis.sweep import sweeps


def analyse_layouts(cells: Sequence[CellSummary]) -> LayoutAnalysis | None:
    """Return what is particular to a run's layouts; None where it has none.

    Args:
        cells: All cells of the run, in the order of the plan.
    """
    own = [summary for summary in cells if any(sample.layout for sample in summary.samples)]
    variants = variants_of(own)
    if not variants:
        return None
    measured = LayoutCells(own)
    series, broken = sweeps(own), recoveries(own)
    return LayoutAnalysis(
        variants=variants,
        accounting=accounting(own),
        sweeps=series,
        ratios=layout_ratios(measured),
        best=best_layouts(measured),
        recoveries=broken,
        limits=limit_tables(broken),
        figures=drawn_figures(own, series),
    )
