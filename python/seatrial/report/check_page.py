"""The HTML page of ``seatrial check``: the machine before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seatrial.errors import TargetError
from seatrial.findings.answer import WORST_MAX, RunAnswer, in_one_line
from seatrial.fingerprint import Fingerprint
from seatrial.report.document import chapters, page_document
from seatrial.report.first_screen import first_screen, worst_anchors
from seatrial.report.markup import fill
from seatrial.report.sections import findings_section, fingerprint_phrase
from seatrial.stats.model import Finding
from seatrial.stats.wording import format_plural


def check_answer(
    target: str, findings: Sequence[Finding], obstacle: TargetError | None = None
) -> RunAnswer:
    """Return the answer of a check: what could distort a measurement on a target.

    Args:
        target: As the user named it.
        findings: Findings of the fingerprint, the most severe first.
        obstacle: Why no file can be made there; None if one can.
    """
    worst = [each for each in findings if each.severity != "note"][:WORST_MAX]
    grave = sum(each.severity != "note" for each in findings)
    verdict = "Nothing here distorts a measurement."
    if grave:
        verdict = f"{format_plural(grave, 'problem')} would distort a measurement here."
    elif findings:
        verdict = f"Ready to measure; {format_plural(len(findings), 'note')}."
    next_step = worst[0].next if worst else f"Measure it: 'seatrial run {target}'"
    if obstacle is not None:
        verdict = f"{obstacle.seen} {verdict}" if grave else obstacle.seen
        next_step = obstacle.next_step
    return RunAnswer(
        verdict=verdict,
        grade="unknown",
        tiles=[],
        worst=worst,
        worst_lines=[in_one_line(each) for each in worst],
        notes_count=len(findings) - len(worst),
        confidence="Nothing was measured or written; this is the machine as it was found.",
        next_step=next_step,
        assessments=[],
    )


def render(
    target: str,
    fingerprint: Fingerprint,
    findings: Sequence[Finding],
    abilities: Mapping[str, str],
    obstacle: TargetError | None = None,
) -> str:
    """Return the page of a check as a self-contained HTML document.

    Args:
        target: As the user named it.
        fingerprint: Fingerprint of machine and target.
        findings: Findings of the fingerprint, the most severe first.
        abilities: What can be built or run here, such as a database server: lines of text by name;
            empty ones are left out.
        obstacle: Why no file can be made there; None if one can.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
    """
    first = check_answer(target, findings, obstacle)
    shown = {name: text for name, text in abilities.items() if text}
    names = {"findings": "Findings"}
    names |= {"abilities": "What can be tried here"} if shown else {}
    names |= {"machine": "Machine and target"}
    body = fill(
        "report/templates/body.html",
        head=first_screen(
            f"check of {target}",
            first,
            {"Target": target, "Machine": fingerprint_phrase(fingerprint)},
            anchors=worst_anchors(first, findings),
        ),
        chapters=chapters(names),
        parts=[
            findings_section(findings),
            fill(
                "report/templates/check.html",
                abilities=shown,
                facts=fingerprint.facts(),
                line=fingerprint_phrase(fingerprint),
            ),
        ],
        skip=("findings", "the findings"),
    )
    return page_document(f"{target}: Seatrial check", body, [], f"Seatrial, check of {target}")
