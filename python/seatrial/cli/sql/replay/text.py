"""What ``seatrial sql replay`` prints: the verdict first, then where every statement went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from seatrial.cli.outcome import WIDTH, finding_text
from seatrial.findings.model import Summary
from seatrial.report.table import as_text
from seatrial.results.replay_content import CAPTURE
from seatrial.stats.wording import format_estimate, format_interval, format_iops, format_value
from seatrial.trials.replay.analysis.content import content_sentence
from seatrial.trials.replay.analysis.judgement import Judgement
from seatrial.trials.replay.analysis.model import ReplayCell, replays_of
from seatrial.trials.replay.analysis.samples import played
from seatrial.trials.replay.report.tables import replay_tables
from seatrial.trials.replay.report.words import replayed, reported_of

INFER: Final = "infer"
COMPARABLE: Final = (
    "At the end of the capture: seatrial sql rows postgresql://SERVER/DATABASE -o TRACE.rows"
)
TOLD: Final = ("critical", "warning")
"""Findings of these severities are told here; the report has all."""
SAID_BY_FAULT: Final[Mapping[str, str]] = {
    "server_lost": "replay_under_delivered",
    "interrupted": "replay_under_delivered",
    "under_delivery": "replay_under_delivered",
    "lost_sessions": "replay_under_delivered",
    "wrong_database": "replay_wrong_database",
    "empty_database": "replay_wrong_database",
    "other_rows": "replay_rows_differ",
    "more_errors": "replay_new_errors",
    "rolled_back": "replay_rolled_back",
    "other_content": "replay_content_differs",
}
"""What a finding would say again after the verdict, by the kind of fault."""


def replay_text(judged: Mapping[str, Judgement], summary: Summary) -> str:
    """Return what came of a replay: verdicts, tables, who was the bottleneck, findings.

    Of several targets there is the table of their rates alone; the report has all.

    Args:
        judged: What is to be thought of it on each target.
        summary: Of its run.
    """
    cells = {each.cell.target: each for each in reversed(replays_of(summary))}
    several = len(judged) > 1
    blocks = [
        verdict_text(judgement, cells.get(label), label=label if several else "")
        for label, judgement in judged.items()
    ]
    if ids := ids_text(summary):
        blocks.append(ids)
    blocks += content_texts(summary)
    tables = replay_tables(summary)
    blocks += [as_text(table) for table in (tables[:1] if several else tables)]
    for label in judged:
        if label in cells:
            where = f"{label}: " if several else ""
            blocks.append(click.wrap_text(where + cells[label].bottleneck.sentence, WIDTH))
    said = {
        SAID_BY_FAULT.get(fault.kind) for judgement in judged.values() for fault in judgement.faults
    }
    blocks += [
        finding_text(each)
        for each in summary.findings
        if each.severity in TOLD and each.kind not in said
    ]
    return "\n\n".join(block.rstrip() for block in blocks)


def ids_text(summary: Summary) -> str:
    """Return what became of ids that the captured server generated; empty where nothing did."""
    if not any(played(each.cell).get("ids") == INFER for each in summary.cells):
        return ""
    return click.wrap_text(
        "Ids that the captured server generated are mapped to those that the target generates, "
        "where the log tells which is which; --ids off sends them as captured.",
        WIDTH,
    )


def content_texts(summary: Summary) -> list[str]:
    """Return what became of the comparison of rows, where no fault says it already."""
    found = []
    for reported, part in replayed(summary):
        _, record = reported_of(reported, part)
        content = record.content
        if content is not None and not (content.against == CAPTURE and content.different):
            lines = [click.wrap_text(f"{content_sentence(content)}.", WIDTH)]
            if not content.against:
                lines.append(_indented(f"{COMPARABLE}.", "    try: "))
            found.append("\n".join(lines))
    return list(dict.fromkeys(found))


def verdict_text(judgement: Judgement, cell: ReplayCell | None, *, label: str = "") -> str:
    """Return the first sentence, and below it what else went wrong, with what to do about it.

    Args:
        judgement: What is to be thought of the replay.
        cell: Its figures over all rounds; None where it has none.
        label: Of its target, where there are several.
    """
    sentence = f"{label}: {judgement.sentence}" if label else judgement.sentence
    if judgement.ok and cell is not None:
        sentence += f": {rate_text(cell)}"
    lines = [click.wrap_text(f"{sentence}.", WIDTH)]
    for place, fault in enumerate(judgement.faults):
        if place:
            lines.append(_indented(f"{fault.sentence}.", " !  "))
        lines.append(_indented(f"{fault.next}.", "    try: "))
    return "\n".join(lines)


def rate_text(cell: ReplayCell) -> str:
    """Return statements per second with its interval, and how many times the capture's it is.

    With one round there is no interval, and that is said.
    """
    rate = cell.answered_per_s
    if rate.scatter or rate.over == "timeline":
        reported = format_estimate(rate)
    elif rate.low is None or rate.high is None:
        reported = f"{format_value(rate)} ({format_interval(rate)}: no interval)"
    else:
        low, high = format_iops(rate.low), format_iops(rate.high)
        reported = f"{format_value(rate)} (95 % {low} to {high})"
    if cell.ratio is None:
        return reported
    return f"{reported}, {format_value(cell.ratio).removesuffix('x')} times the capture's"


def _indented(text: str, head: str) -> str:
    return click.wrap_text(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
