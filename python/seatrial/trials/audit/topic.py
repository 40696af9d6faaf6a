"""Audits as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from seatrial.topic import Command, DocumentPart, Topic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.measure.recorder import Strategy
    from seatrial.report.part import Detail, PagePart
    from seatrial.study.cell import Cell
    from seatrial.study.model import Plan, PlannedTarget
    from seatrial.study.schema import Study
    from seatrial.topic import AnalysisInput
    from seatrial.trials.audit.analysis.model import TableAudit

# ruff: noqa: PLC0415 - a topic is imported by every command, and most do not use it


class AuditTopic(Topic):
    """Audits: models of tables of block sizes and concurrency."""

    name = "audit"
    commands = MappingProxyType(
        {
            "audit": Command(
                "Fit models to the tables of a result; report limits and outliers.",
                "seatrial.trials.audit.commands:command",
                after="show",
            ),
        }
    )

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield a note on each matrix that measures only as many cells as needed for prediction."""
        from seatrial.trials.io.study.workloads import Matrix

        del targets, cells
        for each in study.workloads:
            if isinstance(each, Matrix) and each.adaptive:
                yield (
                    f"{each.label} is adaptive: as few of its tests are measured as predict the "
                    f"others within {100 * each.predicted_within:g} %"
                )

    def strategy(self, plan: Plan, before: Strategy) -> Strategy:
        """Return the strategy: rounds, with adaptive matrices and outliers measured again."""
        from seatrial.measure.rounds import interleaved
        from seatrial.stats.cell_estimates import settled
        from seatrial.trials.audit.analysis.guide import guide, outlier_keys
        from seatrial.trials.audit.measure import adaptive
        from seatrial.trials.audit.study import is_adaptive

        del before
        if is_adaptive(plan.study):
            return adaptive(settled, guide, outlier_keys)
        return interleaved(settled, outlier_keys)

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on the audited tables."""
        from seatrial.report.part import PagePart
        from seatrial.trials.audit.analysis.model import audits_of
        from seatrial.trials.audit.report.section import HEADING, audits_section

        section = audits_section(audits_of(summary), every_cell=detail.every_figure)
        return PagePart("audits", HEADING, section, [])

    def markdown(self, summary: Summary) -> list[str]:
        """Return each audit's sentence, parameters, gaps and limits."""
        from seatrial.trials.audit.report.section import audits_markdown

        return audits_markdown(summary)

    def document_part(self) -> DocumentPart:
        """Return the topic's part of a document."""
        from seatrial.trials.audit.analysis.model import TableAudit, audits_of

        return DocumentPart(
            "audits",
            list[TableAudit],
            (
                "Of each table of block sizes and concurrency that has enough tests: the model, "
                "its parameters and predictions, and the gaps."
            ),
            audits_of,
        )

    def analyse(self, measured: AnalysisInput) -> list[TableAudit] | None:
        """Return the audits of a run's tables, except cells with injected faults."""
        from seatrial.findings.context import Context
        from seatrial.trials.audit.analysis import audit_tables

        sound = Context(measured.run, measured.cells).without_faults.cells
        return audit_tables(measured.run, sound) or None


TOPIC = AuditTopic()
