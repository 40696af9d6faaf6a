"""Arrays as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from seatrial.topic import Command, DocumentPart, Topic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.findings.verdict import Overview
    from seatrial.machine.undo_result import Undoer
    from seatrial.measure.stage import AnyStage, StageRequest
    from seatrial.report.exports.csv_table import Field
    from seatrial.report.part import Detail, PagePart
    from seatrial.report.table import Table
    from seatrial.stats.model import CellSummary
    from seatrial.topic import AnalysisInput
    from seatrial.trials.layouts.analysis.model import LayoutAnalysis

# ruff: noqa: PLC0415 - every command imports all topics, and most commands use none of this


class LayoutsTopic(Topic):
    """Layouts: arrays that are built, measured, tested with faults and removed."""

    name = "layouts"
    charts_first = True
    key_charts = ("layout-", "failure-")
    commands = MappingProxyType(
        {
            "lab": Command(
                "Run a study of arrays in a virtual machine, without root or hardware.",
                "seatrial.trials.layouts.commands.lab:command",
            ),
            "layout": Command(
                "Show, build and destroy the layouts (arrays) of a study.",
                "seatrial.trials.layouts.commands.layout:command",
            ),
        }
    )

    def stage(self, request: StageRequest) -> AnyStage | None:
        """Return a stage that builds the layouts of a plan; None if it has none."""
        if not request.plan.study.layouts:
            return None
        from seatrial.trials.layouts.measure.stage import LayoutStage

        return LayoutStage(request)

    def undoers(self) -> Mapping[str, Undoer]:
        """Return the undoers of all backends, and those of the lab's virtual machines."""
        from seatrial.lab.undoing import LAB_UNDOERS
        from seatrial.trials.layouts.build import registry
        from seatrial.trials.layouts.build.mapper import MAPPER_UNDOERS

        return {**LAB_UNDOERS, **MAPPER_UNDOERS, **registry.undoers()}

    def target_noun(self, summary: CellSummary) -> str:
        """Return ``layout`` for a cell that was measured on one."""
        from seatrial.trials.layouts.report.phrases import is_of_layout

        return "layout" if is_of_layout(summary) else ""

    def tables(self, summary: Summary) -> list[Table]:
        """Return the layouts as built, their device I/O and their failures."""
        from seatrial.trials.layouts.report.tables import layout_tables

        return list(layout_tables(summary))

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on a run's layouts."""
        from seatrial.trials.layouts.report.section import layout_part

        return layout_part(summary, detail)

    def compared_targets(self, summary: Summary) -> str:
        """Return ``layouts`` where the run has some: the analysis says which differ."""
        from seatrial.trials.layouts.analysis.model import layouts_of

        return "layouts" if layouts_of(summary) else ""

    def best_targets(self, summary: Summary) -> list[str]:
        """Return the layouts that are the fastest for some use."""
        from seatrial.trials.layouts.analysis.model import layouts_of

        return [each.target for each in analysis.best] if (analysis := layouts_of(summary)) else []

    def columns(self, summary: Summary) -> dict[str, dict[str, Field]]:
        """Return the columns on the array, its device I/O and its failure."""
        from seatrial.trials.layouts.report.section import layout_columns

        return layout_columns(summary)

    def markdown(self, summary: Summary) -> list[str]:
        """Return sentences on saturation and misalignment."""
        from seatrial.report.exports.markdown import sentences_part
        from seatrial.trials.layouts.report.phrases import layout_sentences

        return sentences_part("Layouts", layout_sentences(summary))

    def overview(
        self, cells: Sequence[CellSummary], analyses: Mapping[str, Any]
    ) -> Overview | None:
        """Return the fastest layout for each use, and the effects of failures."""
        from seatrial.trials.layouts.analysis.overview import overview

        layouts = analyses.get(self.name)
        return overview(cells, layouts) if layouts else None

    def verdict_line(self, summary: Summary) -> str:
        """Return which layout is best for the first use, or the effects of the worst failure."""
        from seatrial.trials.layouts.analysis.overview import verdict_line

        return verdict_line(summary)

    def kinds_covered(self, analyses: Mapping[str, Any]) -> Collection[str]:
        """Return the kinds of findings on failures that the verdict already contains."""
        layouts = analyses.get(self.name)
        covered = ("data_lost", "rebuild_dips", "redundancy_window")
        return covered if layouts and layouts.recoveries else ()

    def document_part(self) -> DocumentPart:
        """Return the topic's part of the document of a run."""
        from seatrial.trials.layouts.analysis.model import LayoutAnalysis, layouts_of

        return DocumentPart(
            "layouts",
            LayoutAnalysis | None,
            "The analysis of a run's layouts; None if it has none.",
            layouts_of,
        )

    def analyse(self, measured: AnalysisInput) -> LayoutAnalysis | None:
        """Return the analysis of a run's layouts."""
        from seatrial.trials.layouts.analysis.ratios import analyse_layouts

        return analyse_layouts(measured.cells, measured.run.fingerprint_before.other_targets)


TOPIC = LayoutsTopic()
