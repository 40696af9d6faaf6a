"""Findings: severity in words, what was seen, the likely cause, the figures, what to do next."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from seatrial.report.facts import fact_list
from seatrial.report.figures.naming import capitalized, cell_name
from seatrial.report.markup import Markup, element, escape, join, unbroken
from seatrial.stats.facts import fact_name, fact_text, is_short
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural
from seatrial.study.cell import FactorValue

# A quoted part of a sentence: an apostrophe inside a word opens and closes nothing.
_QUOTED = re.compile(r"(?<!\w)'([^'\n]+)'(?!\w)")
_CELLS_SHOWN_MAX = 3


def findings_section(findings: Sequence[Finding]) -> Markup:
    """Return the list of findings, in the order given, or the sentence that there are none."""
    if not findings:
        body = element("p", "None of the known faults was seen in what was measured.")
    else:
        body = finding_list(findings)
    return element(
        "section", element("h2", _heading(findings)), body, id="findings", aria_label="Findings"
    )


def finding_list(findings: Sequence[Finding]) -> Markup:
    """Return findings in the order given, each with its cause, next step and evidence."""
    return element("ol", *(_finding(finding) for finding in findings), class_="findings")


def _heading(findings: Sequence[Finding]) -> str:
    counts = {
        word: sum(finding.severity == word for finding in findings)
        for word in ("critical", "warning", "note")
    }
    reported = [
        f"{count} critical" if word == "critical" else format_plural(count, word)
        for word, count in counts.items()
        if count
    ]
    return f"Findings: {', '.join(reported)}" if reported else "Findings: none"


def _finding(finding: Finding) -> Markup:
    return element(
        "li",
        element("p", capitalized(finding.severity), class_="severity"),
        element(
            "div",
            element("h3", unbroken(finding.sentence)),
            element("p", element("span", "Likely cause. ", class_="lead"), finding.cause),
            element("p", element("span", "Next. ", class_="lead"), instruction(finding.next)),
            _evidence(finding),
        ),
        class_=f"finding {finding.severity}",
    )


def instruction(text: str) -> Markup:
    """Return what to do next, its quoted commands set as code that can be copied.

    What has several words is a command; a single word is a name, set as code without a button.
    """
    parts = _QUOTED.split(text)
    return join(
        escape(part)
        if index % 2 == 0
        else element("code", part, class_="command" if " " in part else None)
        for index, part in enumerate(parts)
    )


def _evidence(finding: Finding) -> Markup:
    """Return the figures behind a finding, the long ones folded, and the cells it concerns."""
    known = {name: value for name, value in finding.evidence.items() if value is not None}
    short = {name: value for name, value in known.items() if is_short(value)}
    long = {name: value for name, value in known.items() if name not in short}
    facts = (
        join([element("dt", fact_name(name)), element("dd", fact_text(name, value))], " ")
        for name, value in short.items()
    )
    listed = element("dl", *(element("div", fact) for fact in facts), class_="evidence")
    more = element("details", element("summary", "More evidence"), fact_list(long))
    return join([listed if short else "", _cells(finding.cells), more if long else ""])


def _cells(cells: Sequence[Mapping[str, FactorValue]]) -> Markup:
    if not cells:
        return Markup("")
    names = element("ul", *(element("li", cell_name(cell)) for cell in cells))
    if len(cells) <= _CELLS_SHOWN_MAX:
        return element("div", names, class_="cells")
    heading = element("summary", format_plural(len(cells), "cell"))
    return element("details", heading, names, class_="cells")
