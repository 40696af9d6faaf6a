"""The plain table: data first (headings and rows of text), drawn last.

Terminal, Markdown export, notebook and page all show these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from seatrial.results.origin import REPORTED_MARK
from seatrial.stats.model import AtLeast, Estimate
from seatrial.stats.wording import format_at_least, format_interval, format_reported, format_value

ONCE = "(1 round)"
NOT_MEASURED = "not measured"
ABSENT = "absent"
NO_FIGURE = "–"
TOO_FEW = "too few"
HARDLY_KNOWN = "over ± 100 %"


class Group(msgspec.Struct, frozen=True):
    """A heading above several columns; ``title`` is empty above the labels of the rows."""

    title: str
    columns: int


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One table.

    Attributes:
        id: Unique within a summary, made of kind, target and what else tells it apart.
        title: What it shows.
        labels: How many columns, from the left, name the row; the others hold figures.
        headers: One for each column.
        groups: Headings above the headers, which cover all columns; empty where there are none.
        rows: As many texts as headers, none of them empty.
    """

    id: str
    title: str
    labels: int
    headers: list[str]
    groups: list[Group] = []
    rows: list[list[str]]


def without_empty(table: Table) -> Table:
    """Return a table without those columns of figures that hold none in any row."""
    kept = [
        place
        for place in range(len(table.headers))
        if place < table.labels or any(row[place] != NO_FIGURE for row in table.rows)
    ]
    return msgspec.structs.replace(
        table,
        headers=[table.headers[place] for place in kept],
        rows=[[row[place] for place in kept] for row in table.rows],
    )


def first_rows(table: Table, rows_max: int) -> Table:
    """Return a table with at most so many of its rows."""
    return msgspec.structs.replace(table, rows=table.rows[:rows_max])


def as_text(table: Table) -> str:
    """Return a table in a fixed-width font, laid out as bm-flash lays out its own."""
    widths = _widths(table)
    lines = [table.title, ""]
    if any(group.title for group in table.groups):
        lines.append(_group_line(table, widths))
    lines += [_line(table, widths, row) for row in (table.headers, *table.rows)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _widths(table: Table) -> list[int]:
    """Return the width of each column; a group's last column makes room for its title."""
    columns = zip(table.headers, *table.rows, strict=True)
    widths = [max(len(text) for text in column) for column in columns]
    for first, group in _group_starts(table):
        inside = widths[first : first + group.columns]
        missing = len(group.title) - (sum(inside) + 2 * (group.columns - 1))
        widths[first + group.columns - 1] += max(0, missing)
    return widths


def _group_starts(table: Table) -> list[tuple[int, Group]]:
    groups = table.groups or [Group("", len(table.headers))]
    starts = [sum(group.columns for group in groups[:place]) for place in range(len(groups))]
    return list(zip(starts, groups, strict=True))


def _group_line(table: Table, widths: Sequence[int]) -> str:
    parts = []
    for first, group in _group_starts(table):
        inside = widths[first : first + group.columns]
        parts.append(group.title.center(sum(inside) + 2 * (group.columns - 1)))
    return " | ".join(parts)


def _line(table: Table, widths: Sequence[int], texts: Sequence[str]) -> str:
    """Return one line: labels to the left of their columns, figures to the right."""
    aligned = [
        text.ljust(width) if column < table.labels else text.rjust(width)
        for column, (text, width) in enumerate(zip(texts, widths, strict=True))
    ]
    return " | ".join(
        "  ".join(aligned[first : first + group.columns]) for first, group in _group_starts(table)
    )


def rate_text(estimate: Estimate) -> str:
    """Return a rate without its unit, which the heading states: ``74k`` IOPS, ``410`` MB/s."""
    return format_value(estimate).partition(" ")[0]


def doubt_text(estimate: Estimate) -> str:
    """Return how sure a figure is: ``± 3 %``, its two ends, ``over ± 100 %``, ``(1 round)``.

    What one round knows of itself alone says so: ``± 3 %, 1 round``; what another tool computed,
    that it is as reported; a median of rounds that scatter, their range.
    """
    if estimate.scatter:
        return format_interval(estimate)
    if estimate.over == "reported":
        return f"({format_interval(estimate)})"
    if estimate.low is None and estimate.rounds <= 1:
        return ONCE
    share = estimate.half_width_share
    within = msgspec.structs.replace(estimate, over="rounds")
    reported = HARDLY_KNOWN if share is not None and share > 1 else format_interval(within)
    return f"{reported}, 1 round" if estimate.over == "timeline" else reported


def absent_text(latency: dict[str, Estimate]) -> str:
    """Return what stands for a percentile that is not known: why, where it was measured here."""
    is_reported = any(estimate.over == "reported" for estimate in latency.values())
    return NO_FIGURE if is_reported else TOO_FEW


def latency_text(
    latency: dict[str, Estimate], name: str, bounds: Mapping[str, AtLeast] | None = None
) -> str:
    """Return a percentile with its doubt, ``1.24 ms ± 3 %`` or ``3 ms (1.2 ms to 4 ms)``.

    Where it is not known but has a lower bound, that stands in its place: ``at least 1.2 s``.

    The largest value has no interval: it was seen, and it grows with the time that one looks.
    What another tool reports bears its mark, which a note of the run explains.
    """
    if name not in latency:
        bound = bounds.get(name) if bounds else None
        return absent_text(latency) if bound is None else format_at_least(bound)
    estimate = latency[name]
    if estimate.over == "reported":
        return f"{format_reported(estimate)}{REPORTED_MARK}"
    if estimate.low is None:
        return format_value(estimate)
    doubt = doubt_text(estimate)
    return f"{format_value(estimate)} {doubt if doubt.endswith('%') else f'({doubt})'}"
