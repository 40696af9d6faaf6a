"""A replay, for a terminal: verdict, rate, ids and content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.terminal import finding_text, table_text, wrapped
from seatrial.results.replay import CAPTURE
from seatrial.stats.wording import format_estimate, format_interval, format_iops, format_value
from seatrial.trials.replay.analysis.ids import content_sentence
from seatrial.trials.replay.analysis.model import ReplayCell, played, replays_of
from seatrial.trials.replay.analysis.verdict import ReplayVerdict
from seatrial.trials.replay.report.tables import replay_tables
from seatrial.trials.replay.report.wording import replayed, reported_round_of

INFER: Final = "infer"
COMPARABLE: Final = (
    "At the end of the capture, run: seatrial sql rows postgresql://SERVER/DATABASE -o TRACE.rows"
)
REPORTED: Final = ("critical", "warning")
"""Findings of these severities are printed here; the report has all."""
FINDING_OF_FAULT: Final[Mapping[str, str]] = {
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
"""Findings that would repeat the verdict, by the kind of fault."""


def replay_text(verdicts: Mapping[str, ReplayVerdict], summary: Summary) -> str:
    """Return the results of a replay: verdicts, tables, bottleneck, findings.

    With several targets only the table of rates is included; the report has all tables.

    Args:
        verdicts: The verdict on each target.
        summary: Summary of its run.
    """
    cells = {replay.cell.target: replay for replay in reversed(replays_of(summary))}
    several = len(verdicts) > 1
    blocks = [
        verdict_text(verdict, cells.get(label), label=label if several else "")
        for label, verdict in verdicts.items()
    ]
    if ids := ids_text(summary):
        blocks.append(ids)
    blocks += content_texts(summary)
    tables = replay_tables(summary)
    blocks += [table_text(table) for table in (tables[:1] if several else tables)]
    for label in verdicts:
        if label in cells:
            where = f"{label}: " if several else ""
            blocks.append(wrapped(where + cells[label].bottleneck.sentence))
    repeated = {
        FINDING_OF_FAULT.get(fault.kind)
        for verdict in verdicts.values()
        for fault in verdict.faults
    }
    blocks += [
        finding_text(finding)
        for finding in summary.findings
        if finding.severity in REPORTED and finding.kind not in repeated
    ]
    return "\n\n".join(block.rstrip() for block in blocks)


def ids_text(summary: Summary) -> str:
    """Return a note on the mapping of generated IDs; empty if they are not mapped."""
    if not any(played(cell.cell).get("ids") == INFER for cell in summary.cells):
        return ""
    return wrapped(
        "IDs generated during the capture are replaced by the IDs that the target generates, as "
        "far as the log identifies them; --ids off sends them as captured."
    )


def content_texts(summary: Summary) -> list[str]:
    """Return the results of comparing rows, unless a fault reports them already."""
    found = []
    for replay, part in replayed(summary):
        _, record = reported_round_of(replay, part)
        content = record.content
        if content is not None and not (content.against == CAPTURE and content.different):
            lines = [wrapped(f"{content_sentence(content)}.")]
            if not content.against:
                lines.append(wrapped(f"{COMPARABLE}.", "    try: "))
            found.append("\n".join(lines))
    return list(dict.fromkeys(found))


def verdict_text(verdict: ReplayVerdict, cell: ReplayCell | None, *, label: str = "") -> str:
    """Return the headline, and below it the other faults with their next steps.

    Args:
        verdict: The verdict on the replay.
        cell: Its figures over all rounds; None if it has none.
        label: Label of its target, if there are several.
    """
    sentence = f"{label}: {verdict.sentence}" if label else verdict.sentence
    if verdict.ok and cell is not None:
        sentence += f": {rate_text(cell)}"
    lines = [wrapped(f"{sentence}.")]
    for index, fault in enumerate(verdict.faults):
        if index:
            lines.append(wrapped(f"{fault.sentence}.", " !  "))
        lines.append(wrapped(f"{fault.next}.", "    try: "))
    return "\n".join(lines)


def rate_text(cell: ReplayCell) -> str:
    """Return statements per second with its interval, and the ratio to the capture.

    With one round there is no interval, which is noted.
    """
    rate = cell.answered_per_s
    if rate.scatter or rate.over == "timeline":
        text = format_estimate(rate)
    elif rate.low is None or rate.high is None:
        text = f"{format_value(rate)} ({format_interval(rate)}: no interval)"
    else:
        low, high = format_iops(rate.low), format_iops(rate.high)
        text = f"{format_value(rate)} (95 % {low} to {high})"
    if cell.ratio is None:
        return text
    return f"{text}, {format_value(cell.ratio)} the captured rate"
