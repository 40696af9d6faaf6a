"""What the tables say: each audit's sentence, its gaps, its model in words, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.report.figures.naming import grouped
from seatrial.report.markup import Markup, element, join, unbroken
from seatrial.report.sections.tables import plain_table
from seatrial.trials.audit.analysis.model import TableAudit
from seatrial.trials.audit.report.overlay import gap_text
from seatrial.trials.audit.report.tables import audit_name, cells_table, parameters_table

HEADING: Final = "What the tables say"


def audits_section(audits: Sequence[TableAudit], *, every_cell: bool = True) -> Markup:
    """Return what each audited table says; nothing at all where none was.

    Without ``every_cell`` the tables hold the cells in gaps only, and say so.
    """
    if not audits:
        return Markup("")
    by_chart = grouped(audits, lambda audit: (audit.table.target, audit.table.workload))
    parts = [part for members in by_chart.values() for part in _of_one_chart(members, every_cell)]
    return element(
        "section", element("h2", HEADING), *parts, id="audits", aria_label=HEADING, class_="audits"
    )


def _of_one_chart(audits: Sequence[TableAudit], every_cell: bool) -> list[Markup]:
    """Return the audits of one chart; their gaps are numbered on, as they are in the chart."""
    parts = []
    number = 1
    for audit in audits:
        parts.append(_audit(audit, number, every_cell))
        number += len(audit.gaps)
    return parts


def _audit(audit: TableAudit, first_gap: int, every_cell: bool) -> Markup:
    reported = [parameter.sentence for parameter in audit.parameters if parameter.sentence]
    gaps = (element("li", gap_text(gap)) for gap in audit.gaps)
    return element(
        "section",
        element("h3", audit_name(audit)),
        element("p", unbroken(audit.sentence)),
        element("ul", *(element("li", unbroken(sentence)) for sentence in reported))
        if reported
        else "",
        element("p", "Gaps, with the numbers of the charts", class_="lead") if audit.gaps else "",
        element("ol", *gaps, class_="gaps", start=first_gap) if audit.gaps else "",
        *(element("p", limit, class_="lead") for limit in audit.limits),
        _folded("Parameters of the model", plain_table(parameters_table(audit), captioned=False))
        if audit.parameters
        else "",
        _cells(audit, every_cell),
    )


def _cells(audit: TableAudit, every_cell: bool) -> Markup:
    """Return what each cell is against its model, or each that is in a gap."""
    table = cells_table(audit, gaps_only=not every_cell)
    made = _folded("Model and gaps, cell by cell", plain_table(table, captioned=False))
    if every_cell:
        return made
    reported = element(
        "p",
        "Only the cells in gaps are shown, as all would make this page too large; ",
        element("code", "seatrial audit --json"),
        " writes all.",
    )
    return join([reported, made]) if table.rows else reported


def _folded(heading: str, content: Markup) -> Markup:
    return element("details", element("summary", heading), content)
