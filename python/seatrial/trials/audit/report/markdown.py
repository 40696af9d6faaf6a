"""Audits as Markdown."""

from __future__ import annotations

from seatrial.findings.model import Summary
from seatrial.report.exports.markdown import escape
from seatrial.trials.audit.analysis.model import TableAudit, audits_of
from seatrial.trials.audit.report.overlay import gap_text
from seatrial.trials.audit.report.tables import audit_name


def audits_markdown(summary: Summary) -> list[str]:
    """Return the part on what the tables say; nothing where none was audited."""
    if not audits_of(summary):
        return []
    return ["## What the tables say", "\n\n".join(_audit(each) for each in audits_of(summary))]


def _audit(audit: TableAudit) -> str:
    """Return an audit's sentence, its parameters in words, its gaps and its limits."""
    reported = [each.sentence for each in audit.parameters if each.sentence]
    reported += [gap_text(gap) for gap in audit.gaps]
    items = "\n".join(f"- {escape(each)}" for each in [*reported, *audit.limits])
    heading = f"**{escape(audit_name(audit))}**: {escape(audit.sentence)}"
    return f"{heading}\n\n{items}" if items else heading
