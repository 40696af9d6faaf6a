"""Plain tables of text, as terminal, Markdown export, notebook and page show them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from seatrial.results.model import REPORTED_MARK
from seatrial.stats.model import AtLeast, Estimate
from seatrial.stats.wording import format_at_least, format_interval, format_reported, format_value
from seatrial.study.wrapping import wrap

ONCE = "(1 round)"
NOT_MEASURED = "not measured"
ABSENT = "absent"
NO_FIGURE = "–"
TOO_FEW = "too few"
HARDLY_KNOWN = "over ± 100 %"

INTERVALS: Final = frozenset({"±", "95 %"})
ANSWERS: Final = frozenset({"Answer", "Ratio", "Change", "Limit", "Per million", "Data"})
"""The most important columns, which are left out last."""
LESS_INFORMATIVE: Final = ("p99.9", "Skipped", "Blocks", "max", "MB/s", "mean", "p90", "p50")
"""Columns that a narrow terminal leaves out first, in this order."""
_LABEL_MIN: Final = 20
"""The least length to which labels are clipped."""
_INDENT: Final = "  "
"""Indentation of rows below the line with their first label."""


class Group(msgspec.Struct, frozen=True):
    """A heading above several columns; ``title`` is empty above the labels of the rows."""

    title: str
    columns: int


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One table.

    Attributes:
        id: Unique within a summary.
        title: Its heading.
        labels: Number of columns, from the left, that name the row; the others contain figures.
        headers: One for each column.
        groups: Headings above the headers, which cover all columns; empty for none.
        rows: As many texts as headers, none of them empty.
    """

    id: str
    title: str
    labels: int
    headers: list[str]
    groups: list[Group] = []
    rows: list[list[str]]


def without_empty(table: Table) -> Table:
    """Return a table without the columns of figures that are empty in all rows."""
    kept = [
        index
        for index in range(len(table.headers))
        if index < table.labels or any(row[index] != NO_FIGURE for row in table.rows)
    ]
    return msgspec.structs.replace(
        table,
        headers=[table.headers[index] for index in kept],
        rows=[[row[index] for index in kept] for row in table.rows],
    )


def first_rows(table: Table, rows_max: int) -> Table:
    """Return a table with its first rows only."""
    return msgspec.structs.replace(table, rows=table.rows[:rows_max])


def as_text(table: Table, width: int | None = None) -> str:
    """Return a table in a fixed-width font, laid out as bm-flash lays out its own.

    Args:
        table: The table.
        width: Maximum width in characters; None for no limit. Figures of a wider table are left
            out, the least informative first and each with its interval, and a note names them.
            Labels are never left out; long ones are clipped. If that is not enough, the first
            label is a line above its rows, or each text has a line.
    """
    if width is None:
        return _drawn(table)
    fitting, left_out = fitted(table, width)
    if table_width(fitting) <= width:
        title = "\n".join(wrap(table.title, width))
        return _drawn(msgspec.structs.replace(fitting, title=title)) + _note(left_out, width)
    return _headed(table, width) or _stacked(table, width)


def _note(left_out: Sequence[str], width: int) -> str:
    """Return which columns are not shown; empty if all are."""
    if not left_out:
        return ""
    noun = "it" if len(left_out) == 1 else "them"
    note = f"Not shown at {width} columns: {', '.join(left_out)}. --json has {noun}"
    return "".join(f"{line}\n" for line in wrap(f"{note}.", width, subsequent=""))


def table_width(table: Table) -> int:
    """Return the width of a table's rows in characters."""
    widths = _widths(table)
    return max(len(_line(table, widths, table.headers)), sum(widths))


def fitted(table: Table, width: int) -> tuple[Table, list[str]]:
    """Return a table that fits a width, as far as possible, and what was left out."""
    left_out: list[_Part] = []
    narrow, indexes_left = table, list(range(len(table.headers)))
    while not _fits(narrow, width):
        parts = _parts(narrow)
        if len(parts) < 2:  # the last figure stays
            break
        name, indexes = min(parts, key=lambda part: _importance(part, narrow.headers))
        left_out.append((name, [indexes_left[index] for index in indexes]))
        indexes_left = [each for at, each in enumerate(indexes_left) if at not in indexes]
        narrow = _without(narrow, indexes)
    for part in reversed(left_out[:-1]):  # a narrow one may fit again
        others = [each for each in left_out if each is not part]
        gone = {index for _, indexes in others for index in indexes}
        if any(_uncertainty_column(table, index) in gone - {*part[1]} for index in part[1]):
            continue
        wider = _without(table, [*gone])
        if _fits(wider, width):
            left_out, narrow = others, wider
    return _clipped(narrow, width), [name for name, _ in left_out]


def _uncertainty_column(table: Table, index: int) -> int:
    """Return the column of a figure's interval; the figure's own column if it has none."""
    has_one = table.headers[index + 1 : index + 2] and table.headers[index + 1] in INTERVALS
    return index + 1 if has_one else index


def _fits(table: Table, width: int) -> bool:
    return table_width(table) - _clippable(table) <= width


def _clippable(table: Table) -> int:
    """Return how many characters clipped labels would save."""
    return sum(max(0, each - _LABEL_MIN) for each in _widths(table)[: table.labels])


def _clipped(table: Table, width: int) -> Table:
    """Return a table with its longest labels clipped, as far as needed."""
    widths = _widths(table)[: table.labels]
    excess = table_width(table) - width
    while excess > 0 and max(widths, default=0) > _LABEL_MIN:
        widths[widths.index(max(widths))] -= 1
        excess -= 1
    rows = [list(row) for row in table.rows]
    for index, letters_max in enumerate(widths):
        short = _shorter({row[index] for row in rows}, letters_max)
        for row in rows:
            row[index] = short[row[index]]
    return msgspec.structs.replace(table, rows=rows)


_KEPT: Final = [(0, 0), *((end - count, end) for count in (1, 2, 3) for end in (0, -1, -2))]
"""Parts of a label that may be kept, ``8 KiB, scale 10``, counted from its end; first none."""


def _shorter(texts: Collection[str], letters_max: int) -> dict[str, str]:
    """Return labels clipped at their ends, or round other parts if more labels differ so."""
    choices = [{text: _clip(text, letters_max, *kept) for text in texts} for kept in _KEPT]
    return max(choices, key=lambda each: len(set(each.values())))


def _clip(text: str, letters_max: int, first: int, end: int) -> str:
    """Return a text cut at its end, with these of its parts if they fit."""
    if len(text) <= letters_max:
        return text
    kept = ", ".join(text.split(", ")[first : end or None]) if first else ""
    kept += "…" if kept and end else ""
    if len(kept) >= letters_max:
        kept = ""
    return f"{text[: letters_max - 1 - len(kept)].rstrip(' ,')}…{kept}"


_Part = tuple[str, list[int]]
"""Columns that are left out together: their name, and their indexes."""


def _parts(table: Table) -> list[_Part]:
    """Return the parts of a table that can be left out: figures with intervals, and groups."""
    found: dict[str, list[int]] = {}
    for first, group in _group_starts(table):
        indexes = range(max(first, table.labels), first + group.columns)
        figures_count = sum(table.headers[index] not in INTERVALS for index in indexes)
        if group.title:
            found[group.title] = list(indexes)
        for index in indexes:
            header = table.headers[index]
            is_own = not group.title or (header in LESS_INFORMATIVE and figures_count > 1)
            if is_own and header not in INTERVALS:
                found.setdefault(header, []).extend(_figure_columns(table, index))
    return [(name, indexes) for name, indexes in found.items() if indexes]


def _figure_columns(table: Table, index: int) -> list[int]:
    """Return a figure's column, with that of its interval unless another figure shares it."""
    is_alone = index == table.labels or table.headers[index - 1] in INTERVALS
    after = table.headers[index + 1 : index + 2]
    return [index, index + 1] if is_alone and after and after[0] in INTERVALS else [index]


def _importance(part: _Part, headers: Sequence[str]) -> tuple[int, int]:
    """Return the sort key of leaving out: known names in order, then from the right."""
    name, indexes = part
    if name in LESS_INFORMATIVE:
        return 0, LESS_INFORMATIVE.index(name)
    is_answer = any(headers[index] in ANSWERS for index in indexes)
    return (2 if is_answer else 1), -indexes[0]


def _without(table: Table, indexes: Sequence[int]) -> Table:
    kept = [index for index in range(len(table.headers)) if index not in indexes]
    groups = [
        Group(group.title, sum(first <= index < first + group.columns for index in kept))
        for first, group in _group_starts(table)
    ]
    return msgspec.structs.replace(
        table,
        headers=[table.headers[index] for index in kept],
        groups=[group for group in groups if group.columns] if table.groups else [],
        rows=[[row[index] for index in kept] for row in table.rows],
    )


def _headed(table: Table, width: int) -> str:
    """Return a table with its first labels as lines above its rows; empty if that is too wide."""
    if table.labels < 2:
        return ""
    rest = msgspec.structs.replace(_without(table, [0]), title="", labels=table.labels - 1)
    fitting, left_out = fitted(rest, width - len(_INDENT))
    if table_width(fitting) > width - len(_INDENT):
        return ""
    drawn = _drawn(fitting).splitlines()
    first = len(drawn) - len(table.rows)
    lines = [*wrap(table.title, width), *drawn[1 : first - 1], _INDENT + drawn[first - 1]]
    before = ""
    for row, line in zip(table.rows, drawn[first:], strict=True):
        lines += wrap(row[0], width) if row[0] != before else []
        lines.append(_INDENT + line)
        before = row[0]
    return "\n".join(line.rstrip() for line in lines) + "\n" + _note(left_out, width)


def _stacked(table: Table, width: int) -> str:
    """Return a table as a paragraph for each row, a line for each text."""
    names = _full_headers(table)
    indent = min(max(map(len, names)) + 2, width // 2)
    paragraphs = [
        "\n".join(
            line
            for name, text in zip(names, row, strict=True)
            if text != NO_FIGURE
            for line in _stacked_lines(name, text, width, indent)
        )
        for row in table.rows
    ]
    return "\n\n".join(["\n".join(wrap(table.title, width)), *paragraphs]) + "\n"


def _stacked_lines(name: str, text: str, width: int, indent: int) -> list[str]:
    """Return a text below or next to its name, whichever fits."""
    label, blank = f"{name}:", " " * indent
    if len(label) < indent:
        return wrap(text, width, initial=label.ljust(indent), subsequent=blank)
    return [*wrap(label, width), *wrap(text, width, initial=blank)]


def _full_headers(table: Table) -> list[str]:
    """Return the headers, each with the title of its group."""
    return [
        f"{group.title}, {table.headers[index]}" if group.title else table.headers[index]
        for first, group in _group_starts(table)
        for index in range(first, first + group.columns)
    ]


def _drawn(table: Table) -> str:
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
    starts = [sum(group.columns for group in groups[:index]) for index in range(len(groups))]
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
    """Return a rate without its unit, which the heading states: ``74k`` IOPS, ``410`` MB/s.

    A rate below 1 MB/s keeps its own unit: ``12 kB/s``.
    """
    words = format_value(estimate)
    return words.removesuffix(" MB/s") if estimate.unit == "B/s" else words.partition(" ")[0]


def doubt_text(estimate: Estimate) -> str:
    """Return how certain a figure is: ``± 3 %``, its two ends, ``over ± 100 %``, ``(1 round)``.

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
    text = HARDLY_KNOWN if share is not None and share > 1 else format_interval(within)
    return f"{text}, 1 round" if estimate.over == "timeline" else text


def absent_text(latency: dict[str, Estimate]) -> str:
    """Return the text for an unknown percentile: the reason, if it was measured here."""
    is_reported = any(estimate.over == "reported" for estimate in latency.values())
    return NO_FIGURE if is_reported else TOO_FEW


def latency_text(
    latency: dict[str, Estimate], name: str, bounds: Mapping[str, AtLeast] | None = None
) -> str:
    """Return a percentile with its interval, ``1.24 ms ± 3 %`` or ``3 ms (1.2 ms to 4 ms)``.

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
