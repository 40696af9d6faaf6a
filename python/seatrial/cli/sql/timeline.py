"""A trace's timeline, a column a minute."""

from __future__ import annotations

import math
from typing import Final

from seatrial.cli.sql.words import bars
from seatrial.report.table import Table, as_text
from seatrial.stats.wording import format_count, format_duration_s, moment
from seatrial.trials.replay.trace import Timeline

COLUMNS_MAX: Final = 60
US_PER_S: Final = 1_000_000
MINUTE_S: Final = 60
DAY_S: Final = 86_400
_SHORT_S: Final = (1, 2, 5, 10, 15, 30)
_LONG_S: Final = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, DAY_S)
_NAMED: Final = {1: "second", MINUTE_S: "minute", 3_600: "hour", DAY_S: "day"}
_SHOWN_FROM_S: Final = 2
"""What takes no longer has no timeline."""


def timeline_text(timeline: Timeline) -> str:
    """Return statements and open sessions over time as bars; empty for less than two seconds."""
    if len(timeline.slices) * timeline.slice_s < _SHOWN_FROM_S:
        return ""
    column_s = column_length_s(timeline)
    statements, sessions = columns(timeline, column_s)
    begin = timeline.slices[0].start_us / US_PER_S
    every = _NAMED.get(column_s) or format_duration_s(column_s)
    table = Table(
        id="timeline",
        title=f"From {moment(begin)} on, a column every {every}",
        labels=2,
        headers=["", "Timeline", "Most", "Mean"],
        rows=[
            _row("statements", statements),
            _row("sessions open", sessions),
        ],
    )
    return as_text(table)


def column_length_s(timeline: Timeline) -> int:
    """Return how long a column is: a minute where that gives few enough, and more than one."""
    length_s = len(timeline.slices) * timeline.slice_s
    steps = _LONG_S if length_s > 2 * MINUTE_S else _SHORT_S
    for step_s in steps:
        if step_s >= timeline.slice_s and length_s / step_s <= COLUMNS_MAX - 1:
            return step_s
    return DAY_S * math.ceil(length_s / DAY_S / (COLUMNS_MAX - 1))


def columns(timeline: Timeline, column_s: int) -> tuple[list[int], list[int]]:
    """Return by column the sum of the statements, and the most sessions that were open at once."""
    first = timeline.slices[0].start_us // US_PER_S // column_s
    count = timeline.slices[-1].start_us // US_PER_S // column_s - first + 1
    statements, sessions = [0] * count, [0] * count
    for each in timeline.slices:
        place = each.start_us // US_PER_S // column_s - first
        statements[place] += each.statements
        sessions[place] = max(sessions[place], each.sessions_max)
    return statements, sessions


def _row(name: str, values: list[int]) -> list[str]:
    mean = sum(values) / len(values)
    return [name, f"▕{bars(values)}▏", format_count(max(values)), f"{mean:,.1f}"]
