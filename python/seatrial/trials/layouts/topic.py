"""Arrays as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.machine.undoer import Undoer
    from seatrial.measure.stage import AnyStage, StageRequest
    from seatrial.report.exports.csv_row import Field
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.stats.model import CellSummary
    from seatrial.topic import Measured
    from seatrial.trials.layouts.analysis.model import LayoutAnalysis

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class LayoutsTopic(Topic):
    """Arrays: built, measured, broken and taken apart."""

    name = "layouts"

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return a stage that builds the layouts of a plan; None where it has none."""
        from seatrial.trials.layouts.measure.stage import LayoutStage

        if not request.plan.study.layouts:
            return None
        return LayoutStage(
            request.plan,
            request.run_id,
            request.journal,
            destroy=request.destroy,
            target_state=request.target_state,
            report_target=request.report_target,
        )

    def undoers(self) -> Mapping[str, Undoer]:
        """Return how arrays are taken apart, by every backend, and the lab's machines ended."""
        from seatrial.lab.undoing import LAB_UNDOERS
        from seatrial.trials.layouts.build import registry
        from seatrial.trials.layouts.build.mapper import MAPPER_UNDOERS

        return {**LAB_UNDOERS, **MAPPER_UNDOERS, **registry.undoers()}

    def target_noun(self, summary: CellSummary) -> str:
        """Return ``layout`` of a cell that was measured on one."""
        from seatrial.trials.layouts.report.words import is_of_layout

        return "layout" if is_of_layout(summary) else ""

    def tables(self, summary: Summary) -> list[Table]:
        """Return the layouts as built, their drives' work, their failures."""
        from seatrial.trials.layouts.report.tables import layout_tables

        return list(layout_tables(summary))

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on a run's layouts."""
        from seatrial.trials.layouts.report.section import layout_part

        return layout_part(summary, detail)

    def best_targets(self, summary: Summary) -> list[str]:
        """Return the layouts that are best at something."""
        from seatrial.trials.layouts.analysis.model import layouts_of

        return [each.target for each in analysis.best] if (analysis := layouts_of(summary)) else []

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return the array, its drives' work and its failure."""
        from seatrial.trials.layouts.report.csv import layout_columns

        return layout_columns(summary)

    def markdown(self, summary: Summary) -> list[str]:
        """Return which layout is best for what, and what failures did."""
        from seatrial.report.exports.markdown import sentences_part
        from seatrial.trials.layouts.report.words import layout_sentences

        return sentences_part("Layouts", layout_sentences(summary))

    def analyse(self, measured: Measured) -> LayoutAnalysis | None:
        """Return what is particular to a run's layouts."""
        from seatrial.trials.layouts.analysis.analyse import analyse_layouts

        return analyse_layouts(measured.cells)


TOPIC = LayoutsTopic()
