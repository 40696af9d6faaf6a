"""A run as Markdown: verdict, findings and the plain tables, for an issue or a wiki page."""

from __future__ import annotations

import re

from seatrial.findings.model import Summary, ThresholdResult
from seatrial.report.lab import lab_notice
from seatrial.report.table import Table
from seatrial.report.tables import informative, tables
from seatrial.results.model import Run
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_duration_s, moment
from seatrial.topic import topics

_MARKS = re.compile(r"([\\`*_{}\[\]<>|#~])")


def render(summary: Summary) -> str:
    """Return the run as one Markdown text; all texts are escaped."""
    parts = [
        f"# {escape(summary.run.label or summary.run.study_name)}",
        f"> {notice}" if (notice := lab_notice(summary.run)) else "",
        escape(summary.verdict),
        _facts(summary.run),
    ]
    if summary.findings:
        parts += ["## Findings", "\n".join(_finding(finding) for finding in summary.findings)]
    if summary.thresholds:
        parts += ["## Thresholds", "\n".join(_threshold(each) for each in summary.thresholds)]
    for topic in topics():
        parts += topic.markdown(summary)
    parts += sentences_part(
        "Steady state", [state.sentence for state in informative(summary.steady)]
    )
    for table in tables(summary):
        parts += [f"## {escape(table.title)}", as_markdown(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def sentences_part(title: str, sentences: list[str]) -> list[str]:
    """Return a part with a heading and a list of sentences; empty without sentences."""
    if not sentences:
        return []
    return [f"## {title}", "\n".join(f"- {escape(each)}" for each in sentences)]


def as_markdown(table: Table) -> str:
    """Return one table; headings of groups precede the headings of their columns."""
    groups = [group.title for group in table.groups for _ in range(group.columns)]
    headers = [
        f"{group} {header}".strip()
        for group, header in zip(groups or [""] * len(table.headers), table.headers, strict=True)
    ]
    figures = len(headers) - table.labels
    lines = [headers, ["---"] * table.labels + ["---:"] * figures, *table.rows]
    return "\n".join(row(texts, ruled=index == 1) for index, texts in enumerate(lines))


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def row(texts: list[str], *, ruled: bool = False) -> str:
    """Return one row of a table; the texts of a ``ruled`` one are markup already."""
    return f"| {' | '.join(text if ruled else escape(text) for text in texts)} |"


def _facts(run: Run) -> str:
    took = "" if run.ended_at is None else f", {format_duration_s(run.ended_at - run.started_at)}"
    facts = {
        "Run": run.id,
        "Study": run.study_name,
        "Status": run.status,
        "Started": f"{moment(run.started_at)}{took}",
        "Seatrial": run.seatrial_version,
    }
    return "\n".join(f"- {name}: {escape(value)}" for name, value in facts.items())


def _finding(finding: Finding) -> str:
    parts = [finding.sentence, finding.cause, finding.next]
    text = " ".join(escape(part) for part in parts if part)
    return f"- **{escape(finding.severity)}**, {escape(finding.kind)}: {text}"


def _threshold(result: ThresholdResult) -> str:
    return f"- **{result.mark}**: {escape(result.sentence)}"
