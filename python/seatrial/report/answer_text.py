"""The answer of a run on a terminal: verdict, figures, worst findings, confidence, next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from seatrial.findings.answer import RunAnswer, clipped, first_clauses
from seatrial.findings.profile import Assessment, Grade
from seatrial.findings.tile import Tile
from seatrial.report.terminal import SEVERITY_COLOURS, SEVERITY_MARKS
from seatrial.stats.wording import format_interval, format_plural, format_value
from seatrial.study.wrapping import wrap

COLOURS: Final[dict[Grade, str]] = {"good": "green", "marginal": "yellow", "poor": "red"}
_NEXT_LINES_MAX: Final = 3
_CONFIDENCE_LINES_MAX: Final = 3
_LABEL_MAX: Final = 36
MISSED_MAX: Final = 3
"""More thresholds that are not kept are only counted."""


def answer_text(answer: RunAnswer, width: int, *, colour: bool = True) -> str:
    """Return the answer of a run in a few lines.

    Args:
        answer: The answer.
        width: Maximum length of a line; only a single word may be longer.
        colour: Whether grades and severities are coloured; all of them are also words or signs.
    """
    verdict_colour = COLOURS.get(answer.grade) if answer.profile or answer.grade == "poor" else None
    verdict = "\n".join(wrap(answer.verdict, width))
    blocks = [click.style(verdict, fg=verdict_colour, bold=True)]
    if answer.tiles:
        blocks.append("\n".join(_tile_lines(answer.tiles, width)))
    if answer.profile and (unknown := _unknown(answer.assessments)):
        blocks.append("\n".join(_labelled("Unknown", unknown, width)))
    if answer.missed:
        blocks.append("\n".join(_missed_lines(answer.missed, width)))
    if worst := _worst_lines(answer, width):
        blocks.append("\n".join(worst))
    blocks.append(
        "\n".join(
            [
                *_labelled("Confidence", answer.confidence, width, lines_max=_CONFIDENCE_LINES_MAX),
                *_labelled("Next", answer.next_step, width, lines_max=_NEXT_LINES_MAX),
            ]
        )
    )
    text = "\n\n".join(blocks) + "\n"
    return text if colour else click.unstyle(text)


def tile_value(tile: Tile) -> str:
    """Return a tile's figure with its unit; ``none`` for a count of 0, such as of stalls."""
    is_none = tile.estimate.unit in ("ns", "count") and tile.estimate.value == 0
    return "none" if is_none else format_value(tile.estimate)


def _tile_lines(tiles: Sequence[Tile], width: int) -> list[str]:
    """Return a line for each figure; details that do not fit are left out, but no grade."""
    values = [tile_value(each) for each in tiles]
    doubts = [format_interval(each.estimate) for each in tiles]
    others = (values, doubts, [each.grade for each in tiles])
    spare = width - sum(max(map(len, column)) + 2 for column in others) - 1
    # A label that has room is whole, before any detail: its end may tell it from the others.
    labels = [clipped(each.label, max(_LABEL_MAX, spare)) for each in tiles]
    widths = [max(map(len, column)) for column in (labels, values, doubts)]
    room = width - sum(widths) - 2 * len(widths) - 1
    lines = []
    for each, label, value, doubt in zip(tiles, labels, values, doubts, strict=True):
        start = f"{label:<{widths[0]}}  {value:>{widths[1]}}  {doubt:<{widths[2]}}"
        words = ""
        for part in filter(None, [each.grade, each.detail, each.rank, each.test]):
            longer = f"{words}; {part}" if words else part
            words = longer if len(longer) <= room else words
        line = f" {start}  {words}"
        if len(line.rstrip()) > width or not words.startswith(each.grade):
            start = f" {label:<{widths[0]}}  {value:>{widths[1]}}"
            whole = f"{start}  {doubt}  {each.grade}"
            line = whole if len(whole) <= width else f"{start}  {each.grade}"
        colour = COLOURS.get(each.grade) if each.grade else None
        lines.append(click.style(line.rstrip(), fg=colour) if colour else line.rstrip())
    return lines


def _missed_lines(sentences: Sequence[str], width: int) -> list[str]:
    """Return a line for each threshold that is not kept, up to a few."""
    mark, colour = SEVERITY_MARKS["critical"], SEVERITY_COLOURS.get("critical")
    lines = [
        click.style(clipped(f"{mark} {each.rstrip('.')}", width), fg=colour)
        for each in sentences[:MISSED_MAX]
    ]
    rest = len(sentences) - len(lines)
    return [*lines, f"   and {rest} more"] if rest > 0 else lines


def _unknown(assessments: Sequence[Assessment]) -> str:
    """Return the figures that the chosen profile needs and that are not known, with the reasons."""
    several = len({each.target for each in assessments}) > 1
    labels_of: dict[str, list[str]] = {}
    for assessment in assessments:
        for each in assessment.figures:
            if each.figure is None:
                label = f"{assessment.target}: {each.label}" if several else each.label
                labels_of.setdefault(each.reason, []).append(label)
    return "; ".join(f"{', '.join(labels)} ({reason})" for reason, labels in labels_of.items())


def _worst_lines(answer: RunAnswer, width: int) -> list[str]:
    lines = [
        click.style(
            first_clauses(f"{SEVERITY_MARKS[each.severity]} {words}", width),
            fg=SEVERITY_COLOURS.get(each.severity),
        )
        for each, words in zip(answer.worst, answer.worst_lines, strict=True)
    ]
    if answer.notes_count:
        more = f"and {answer.notes_count} more"
        none = f"no warnings; {format_plural(answer.notes_count, 'note')}"
        lines.append(f"   {more if lines else none}")
    return lines


def _labelled(label: str, text: str, width: int, lines_max: int = 2) -> list[str]:
    return wrap(text, width, initial=f"{label + ':':<12}", lines_max=lines_max)
