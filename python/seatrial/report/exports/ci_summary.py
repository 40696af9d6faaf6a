"""A run as a short Markdown summary, for the page of a CI job or a pull request."""

from __future__ import annotations

from seatrial.findings.answer import RunAnswer, answer
from seatrial.findings.model import Summary
from seatrial.report.answer_text import tile_value
from seatrial.report.exports.markdown import escape, row
from seatrial.stats.wording import format_interval


def render(summary: Summary) -> str:
    """Return verdict, figures, thresholds, the worst findings and the next step."""
    found = answer(summary)
    parts = [
        f"**{escape(found.verdict)}**",
        _figures(found),
        _thresholds(summary),
        "\n".join(f"- {escape(line)}" for line in found.worst_lines),
        f"{escape(found.confidence)}\n\nNext: {escape(found.next_step)}",
        f"Run {summary.run.id}, seatrial {summary.run.seatrial_version}",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _figures(found: RunAnswer) -> str:
    if not found.tiles:
        return ""
    rows = [
        [each.label, tile_value(each), format_interval(each.estimate), each.detail, each.test]
        for each in found.tiles
    ]
    head = [row(["Figure", "Value", "95 %", "", "Test"]), "| --- | ---: | --- | --- | --- |"]
    return "\n".join([*head, *(row(each) for each in rows)])


def _thresholds(summary: Summary) -> str:
    return "\n".join(
        f"- {each.mark if each.met else f'**{each.mark}**'}: {escape(each.sentence)}"
        for each in summary.thresholds
    )
