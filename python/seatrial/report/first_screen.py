"""The first screen of a page: verdict line, figures, worst findings, confidence, next step.

It needs no script, and is the same for runs, comparisons, audits and checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from seatrial.findings.answer import RunAnswer
from seatrial.findings.profile import Assessment, Grade
from seatrial.findings.tile import Tile
from seatrial.grouping import grouped
from seatrial.report.answer_text import MISSED_MAX, tile_value
from seatrial.report.markup import fill
from seatrial.report.sections import instruction
from seatrial.stats.model import Finding
from seatrial.stats.wording import capitalized, format_interval

TARGETS_SHOWN_MAX: Final = 1
"""With more targets than this, the profiles of each are collapsed."""
GRADE_WORDS: Final[dict[Grade, str]] = {
    "good": "✓ good",
    "marginal": "▲ marginal",
    "poor": "■ poor",
    "unknown": "? not measured",
}
"""A sign and a word for each colour."""
_FIT_WORDS: Final[dict[Grade, str]] = {
    "good": "✓ Fit for",
    "marginal": "▲ Marginal for",
    "poor": "■ Not fit for",
    "unknown": "? Not enough measured for",
}


def first_screen(
    name: str,
    answer: RunAnswer,
    particulars: Mapping[str, str],
    *,
    anchors: Sequence[str],
    all_findings: str = "findings",
    warnings: tuple[str, str] | None = None,
    words: str = "",
    status: str = "",
    notice: str = "",
    has_severities: bool = True,
) -> Markup:
    """Return the top of a page.

    Args:
        name: The subject of the page.
        answer: The answer.
        particulars: Facts about the subject, by term, such as ``Started``.
        anchors: For each of the worst findings, the identifier of its full text.
        all_findings: Identifier of the part with all findings.
        warnings: The number of warnings in words, and the identifier of their part of the page.
        words: The whole answer as a sentence, collapsed; empty for none.
        status: A remark that qualifies the verdict; empty for none.
        notice: A remark on all figures of the page; empty for none.
        has_severities: Whether a note is known to be no warning.
    """
    is_graded = bool(answer.profile) or answer.grade == "poor"
    return fill(
        "report/templates/page_head.html",
        name=name,
        answer=answer,
        grade=answer.grade if is_graded else "",
        tiles=[_tile(each) for each in answer.tiles],
        worst=[
            {"severity": finding.severity, "text": line, "id": anchor}
            for finding, line, anchor in zip(answer.worst, answer.worst_lines, anchors, strict=True)
        ],
        missed=answer.missed[:MISSED_MAX],
        missed_more=len(answer.missed[MISSED_MAX:]),
        all_findings=all_findings,
        warnings=warnings,
        next=instruction(answer.next_step),
        profiles=_profiles(answer.assessments),
        particulars=particulars,
        words=words,
        status=status,
        notice=notice,
        has_severities=has_severities,
    )


def worst_anchors(answer: RunAnswer, findings: Sequence[Finding]) -> list[str]:
    """Return the identifiers of the worst findings in the list of all of them."""
    return [
        next(f"finding-{number}" for number, each in enumerate(findings, 1) if each is finding)
        for finding in answer.worst
    ]


def _tile(tile: Tile) -> dict[str, object]:
    value, _, unit = tile_value(tile).rpartition(" ")
    if unit.endswith("/s") and unit.removesuffix("/s") in tile.label.lower():
        unit = "/s"  # the label names what is counted
    return {
        # The name of a target keeps the user's spelling.
        "label": tile.label if ": " in tile.label else capitalized(tile.label),
        "value": value or unit,
        "unit": unit if value else "",
        "interval": format_interval(tile.estimate),
        "grade": tile.grade,
        "grade_phrase": GRADE_WORDS[tile.grade] if tile.grade else "",
        "small": [text for text in (tile.detail, tile.test, tile.rank, tile.limit) if text],
    }


def _profiles(assessments: Sequence[Assessment]) -> list[dict[str, object]]:
    """Return the assessments by target; collapsed if there are several targets."""
    by_target = grouped(assessments, lambda each: each.target)
    if len(by_target) > 1 and _unknown(assessments):
        by_target = {"": list(assessments)}
    return [
        {
            "summary": _unknown(group) or target,
            "folded": len(by_target) > TARGETS_SHOWN_MAX or bool(_unknown(group)),
            "assessments": [_assessment(each) for each in group],
        }
        for target, group in by_target.items()
    ]


def _unknown(assessments: Sequence[Assessment]) -> str:
    """Return that too little was measured for all of them; empty if one has a grade."""
    if any(each.grade != "unknown" for each in assessments):
        return ""
    titles = list(dict.fromkeys(each.profile.title for each in assessments))
    return f"{_FIT_WORDS['unknown']} {', '.join(titles)}"


def _assessment(assessment: Assessment) -> dict[str, object]:
    known = [each for each in assessment.figures if each.grade == assessment.grade]
    labels = ", ".join(each.label for each in known)
    remark = labels if assessment.grade in ("poor", "marginal") else ""
    if assessment.grade == "good" and assessment.capacity:
        remark = f"up to {assessment.capacity}"
    if assessment.grade == "unknown":
        remark = assessment.missing
    return {
        "grade": assessment.grade,
        "words": _FIT_WORDS[assessment.grade],
        "title": assessment.profile.title,
        "remark": remark,
        "description": assessment.profile.description,
        "rows": [
            [
                each.label,
                GRADE_WORDS[each.grade],
                f"{each.reason}; measured in {each.test}" if each.test else each.reason,
                each.requirement.source,
            ]
            for each in assessment.figures
        ],
    }
