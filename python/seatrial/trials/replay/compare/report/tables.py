"""The tables of before and after: overall, regressions, every query, page and batch.

The terminal, the Markdown export and the page can show all of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from seatrial.report.table import NO_FIGURE, Group, Table, without_empty
from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_count, format_iops, format_plural, format_size
from seatrial.trials.replay.compare.model import Batch, Change, OneSided, ServerWork
from seatrial.trials.replay.compare.model import Table as Compared
from seatrial.trials.replay.compare.report.wording import (
    LEVEL_OF_ONE,
    answer_phrase,
    calls_text,
    factor_text,
    interval_phrase,
    interval_text,
    seconds,
)
from seatrial.trials.replay.compare.verdict import inverted
from seatrial.trials.replay.compare.warnings import NOUNS, Subject
from seatrial.trials.replay.report.wording import shortened

TEXT_MAX: Final = 2_000
"""Length of a query's text on a page, which wraps it."""
_P_DIGITS: Final = 3
_P_SMALL: Final = 0.001


def overall_table(compared: Compared, subject: Subject) -> Table:
    """Return both overall speed-ups, and the time before and after."""
    overall = compared.overall
    singular, plural = NOUNS[subject]
    rows = []
    if overall is not None:
        rows = [
            [
                f"average {singular}, weighted by calls before",
                factor_text(overall.speed_up),
                interval_text(overall.speed_up),
                answer_phrase(overall),
                seconds(overall.before_s),
                seconds(overall.after_s),
            ],
            [
                f"geometric mean over {plural}",
                factor_text(overall.geometric),
                interval_text(overall.geometric),
                NO_FIGURE,
                NO_FIGURE,
                NO_FIGURE,
            ],
        ]
    return Table(
        id=f"{subject}-overall",
        title=f"All {plural}: speed-up (time before / time after)",
        labels=1,
        headers=["Average", "Speed-up", "95 %", "Verdict", "Time before", "Time after"],
        rows=rows,
    )


def regressions_table(
    changes: Sequence[Change],
    subject: Subject,
    *,
    level: float = LEVEL_OF_ONE,
) -> Table:
    """Return what became significantly slower, the largest factor first.

    Args:
        changes: In their order; the first has number 1, as in the chart.
        subject: Queries or pages.
        level: Level of the intervals.
    """
    singular, _ = NOUNS[subject]
    return without_empty(
        Table(
            id=f"{subject}-regressions",
            title="Significantly slower, the slowest first",
            labels=2,
            headers=[
                "No.", singular.capitalize(), "Class", "Before", "After", "Slower by",
                interval_phrase(level), "p, adjusted", "Costs", "Plan",
            ],
            rows=[
                [
                    str(number),
                    shortened(each.text, TEXT_MAX) or NO_FIGURE,
                    each.kind,
                    seconds(each.before.mean_s),
                    seconds(each.after.mean_s),
                    *_slower(each.speed_up),
                    _p_text(each.p_adjusted),
                    seconds(-each.saved_s),
                    _plan_text(each),
                ]
                for number, each in enumerate(changes, start=1)
            ],
        )
    )  # fmt: skip


def _slower(speed_up: Estimate) -> list[str]:
    factor = inverted(speed_up)
    return [factor_text(factor), interval_text(factor)]


def changes_table(
    changes: Sequence[Change],
    subject: Subject,
    names: tuple[str, str],
    *,
    level: float = LEVEL_OF_ONE,
) -> Table:
    """Return every query or page of both sides, those with the most time before first."""
    singular, _ = NOUNS[subject]
    has_errors = any(change.before.errors or change.after.errors for change in changes)
    heads = ["Calls", "Mean", "Total", *(["Errors"] if has_errors else [])]
    return Table(
        id=f"{subject}-changes",
        title=f"Every {singular} of both sides; calls and totals per unit",
        labels=1,
        headers=[singular.capitalize(), "Class", "Speed-up", interval_phrase(level), "Verdict",
                 "Saves", *heads, *heads],
        groups=[Group("", 6), Group(names[0], len(heads)), Group(names[1], len(heads))],
        rows=[_change_row(change, has_errors=has_errors) for change in changes],
    )  # fmt: skip


def _change_row(change: Change, *, has_errors: bool) -> list[str]:
    sides = [
        text
        for each in (change.before, change.after)
        for text in (
            calls_text(each.calls),
            seconds(each.mean_s),
            seconds(each.total_s),
            *([calls_text(each.errors) if each.errors else NO_FIGURE] if has_errors else []),
        )
    ]
    return [
        shortened(change.text, TEXT_MAX) or NO_FIGURE,
        change.kind,
        factor_text(change.speed_up),
        interval_text(change.speed_up),
        answer_phrase(change),
        seconds(change.saved_s),
        *sides,
    ]


def server_table(changes: Sequence[Change], names: tuple[str, str]) -> Table:
    """Return the server's work per call of each query, before and after; only if known."""
    known = [change for change in changes if change.server_before or change.server_after]
    heads = ["Time", "Hit", "Read", "WAL"]
    rows = [
        [
            shortened(each.text, TEXT_MAX) or NO_FIGURE,
            *_work(each.server_before),
            *_work(each.server_after),
        ]
        for each in known
    ]
    return Table(
        id="query-server",
        title="Server work per call: execution time, shared buffer hits and reads, WAL",
        labels=1,
        headers=["Query", *heads, *heads],
        groups=[Group("", 1), Group(names[0], len(heads)), Group(names[1], len(heads))],
        rows=[row for row in rows if any(text != NO_FIGURE for text in row[1:])],
    )


def _work(work: ServerWork | None) -> list[str]:
    if work is None:
        return [NO_FIGURE] * 4
    return [
        NO_FIGURE if work.exec_s is None else seconds(work.exec_s),
        NO_FIGURE if work.blocks_hit is None else format_iops(work.blocks_hit),
        NO_FIGURE if work.blocks_read is None else format_iops(work.blocks_read),
        NO_FIGURE if work.wal_bytes is None else format_size(round(work.wal_bytes)),
    ]


def plans_table(changes: Sequence[Change], *, level: float = LEVEL_OF_ONE) -> Table:
    """Return the queries whose plan changed."""
    return Table(
        id="query-plans",
        title="Changed plans",
        labels=1,
        headers=[
            "Query",
            "Plan before",
            "Plan after",
            "Speed-up",
            interval_phrase(level),
            "Verdict",
        ],
        rows=[
            [
                shortened(change.text, TEXT_MAX) or NO_FIGURE,
                change.plan_before or NO_FIGURE,
                change.plan_after or NO_FIGURE,
                factor_text(change.speed_up),
                interval_text(change.speed_up),
                answer_phrase(change),
            ]
            for change in changes
            if change.plan_changed
        ],
    )


def one_sided_table(
    parts: Sequence[OneSided],
    subject: Subject,
    lacking: str,
    total_s: float,
    *,
    rows_max: int | None = None,
) -> Table:
    """Return what one side does not have; it is in no speed-up.

    Args:
        parts: All of them, the most time first.
        subject: Queries or pages.
        lacking: The name of the side that does not have them.
        total_s: Time of the side that has them, in one unit.
        rows_max: Maximum number of rows; None for all.
    """
    singular, plural = NOUNS[subject]
    time_s = math.fsum(part.measured.total_s for part in parts)
    share = f", {_share(time_s, total_s)} of the other's time" if total_s else ""
    return Table(
        id=f"{subject}-lacking",
        title=f"{format_plural(len(parts), singular, plural)} missing in {lacking} "
        f"({seconds(time_s)}{share}), not compared",
        labels=1,
        headers=[singular.capitalize(), "Calls", "Mean", "Total"],
        rows=[
            [
                shortened(part.text, TEXT_MAX) or NO_FIGURE,
                calls_text(part.measured.calls),
                seconds(part.measured.mean_s),
                seconds(part.measured.total_s),
            ]
            for part in parts[:rows_max]
        ],
    )


def _share(part_s: float, total_s: float) -> str:
    return f"{100 * part_s / total_s:.0f} %"


def batches_table(batches: Sequence[Batch]) -> Table:
    """Return each batch by its elapsed (``real``) times, before and after."""
    return Table(
        id="batches",
        title="Batches by elapsed time (real)",
        labels=1,
        headers=["Batch", "Runs", "Real", "Runs", "Real", "Speed-up", "95 %", "Verdict",
                 "Noise floor"],
        groups=[Group("", 1), Group("before", 2), Group("after", 2), Group("", 4)],
        rows=[
            [
                batch.name,
                format_count(len(batch.before_s)),
                _times(batch.before_s),
                format_count(len(batch.after_s)),
                _times(batch.after_s),
                factor_text(batch.speed_up),
                interval_text(batch.speed_up),
                answer_phrase(batch),
                factor_text(_factor(batch.floor)),
            ]
            for batch in batches
        ],
    )  # fmt: skip


def _times(values_s: Sequence[float]) -> str:
    """Return the time of one run, or the shortest and the longest of several."""
    if len(values_s) == 1:
        return seconds(values_s[0])
    return f"{seconds(min(values_s))} to {seconds(max(values_s))}" if values_s else NO_FIGURE


def _factor(value: float) -> Estimate:
    return Estimate(value=value, low=None, high=None, rounds=1, unit="ratio")


def _p_text(p_value: float | None) -> str:
    if p_value is None:
        return NO_FIGURE
    return f"< {_P_SMALL}" if p_value < _P_SMALL else f"{p_value:.{_P_DIGITS}f}"


def _plan_text(change: Change) -> str:
    if change.plan_changed is None:
        return NO_FIGURE
    if change.plan_varies and not change.plan_changed:
        return "differs between rounds"
    return "changed" if change.plan_changed else "same"
