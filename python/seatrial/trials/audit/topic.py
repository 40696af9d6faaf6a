"""Audits as a topic (seatrial.topic)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from seatrial.topic import Topic

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.report.part import Detail, PagePart
    from seatrial.study.cell import Cell
    from seatrial.study.model import PlannedTarget
    from seatrial.study.schema import Study
    from seatrial.topic import Measured
    from seatrial.trials.audit.analysis.model import TableAudit

# ruff: noqa: PLC0415 - a topic is imported by every command, and most need nothing of it


class AuditTopic(Topic):
    """Audits: what a table of block sizes and concurrency says of the storage under it."""

    name = "audit"

    def notes(
        self, study: Study, targets: Sequence[PlannedTarget], cells: Sequence[Cell]
    ) -> Iterator[str]:
        """Yield a note on each matrix of which as few cells are measured as predict the others."""
        from seatrial.trials.io.study.workloads import Matrix

        del targets, cells
        for each in study.workloads:
            if isinstance(each, Matrix) and each.adaptive:
                yield (
                    f"{each.label} is adaptive: as few of its cells are measured as predict the "
                    f"others within {100 * each.predicted_within:g} %"
                )

    def part(self, summary: Summary, detail: Detail) -> PagePart:
        """Return the section on what the tables say."""
        from seatrial.report.part import PagePart
        from seatrial.trials.audit.analysis.model import audits_of
        from seatrial.trials.audit.report.section import HEADING, audits_section

        section = audits_section(audits_of(summary), every_cell=detail.every_figure)
        return PagePart("audits", HEADING, section, [])

    def markdown(self, summary: Summary) -> list[str]:
        """Return each audit's sentence, parameters, gaps and limits."""
        from seatrial.trials.audit.report.markdown import audits_markdown

        return audits_markdown(summary)

    def analyse(self, measured: Measured) -> list[TableAudit] | None:
        """Return the audits of a run's tables, but for cells in which something was broken."""
        from seatrial.findings.context import Context
        from seatrial.trials.audit.analysis import audit_tables

        sound = Context(measured.run, measured.cells).sound.cells
        return audit_tables(measured.run, sound) or None


TOPIC = AuditTopic()
