"""What the samples on a run's layouts say, as one."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.analysis.layouts.accounting import accounting
from seatrial.analysis.layouts.best import best_layouts
from seatrial.analysis.layouts.drawn import drawn_figures
from seatrial.analysis.layouts.model import LayoutAnalysis
from seatrial.analysis.layouts.ratios import Measured, layout_ratios
from seatrial.analysis.layouts.recovery import limit_tables, recoveries
from seatrial.analysis.layouts.samples import variants_of
from seatrial.analysis.layouts.sweep import sweeps
from seatrial.analysis.model import CellSummary


def analyse_layouts(cells: Sequence[CellSummary]) -> LayoutAnalysis | None:
    """Return what is particular to a run's layouts; None where it has none.

    Args:
        cells: All cells of the run, in the order of the plan.
    """
    own = [summary for summary in cells if any(sample.layout for sample in summary.samples)]
    variants = variants_of(own)
    if not variants:
        return None
    measured = Measured(own)
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
