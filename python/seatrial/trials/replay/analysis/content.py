"""What the rows that a replay left say, in words: against the capture, or an earlier replay."""

from __future__ import annotations

from typing import Final

from seatrial.results.replay_content import REPLAY, ReplayContent, TableDifference
from seatrial.stats.wording import format_count, format_plural

TABLES_MAX: Final = 3
"""That a sentence names."""
COLUMNS_MAX: Final = 3


def content_sentence(content: ReplayContent) -> str:
    """Return what was found, without a full stop."""
    if not content.against:
        return f"What the tables hold was not compared: {content.reason}"
    whom = whose(content)
    tables = format_plural(content.tables, "table")
    if content.different:
        return f"Rows differ from {whom} in {differences(content)}"
    said = f"The rows of {tables} are {whom} ({format_count(content.rows)} rows)"
    if content.not_compared:
        others = format_plural(len(content.not_compared), "table")
        said += f"; {others} {'was' if len(content.not_compared) == 1 else 'were'} not compared"
    if content.not_judged:
        said += f"; clock and chance aside ({_some(content.not_judged)})"
    return said


def whose(content: ReplayContent) -> str:
    """Return whose rows they are held against: ``the capture's``."""
    return f"those of {content.file}" if content.against == REPLAY else "the capture's"


def differences(content: ReplayContent) -> str:
    """Return which tables differ: ``1 of 5 tables: 36 of 600 rows of public.orders (seen)``."""
    reported = [_difference(each) for each in content.different[:TABLES_MAX]]
    more = len(content.different) - len(reported)
    if more:
        reported.append(f"{format_plural(more, 'more table')}")
    of = f"{format_count(len(content.different))} of {format_plural(content.tables, 'table')}"
    return f"{of}: {', '.join(reported)}"


def _difference(table: TableDifference) -> str:
    rows = max(table.rows_captured, table.rows_now)
    reported = (
        f"{format_count(table.rows_different)} of {format_plural(rows, 'row')} of {table.name}"
    )
    if table.rows_captured != table.rows_now:
        captured, now = format_count(table.rows_captured), format_count(table.rows_now)
        reported += f", of which there are {now}, not {captured}"
    return f"{reported} ({_some([*table.columns])})" if table.columns else reported


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:COLUMNS_MAX])
    more = len(names) - COLUMNS_MAX
    return f"{shown} and {more} more" if more > 0 else shown
