"""The HTML page of a comparison of before and after.

Like the report of a run it is one file that makes no network requests and shows all its content
without scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from seatrial.findings.registry import find_in_before_after
from seatrial.report.comparison_page import findings_part, warnings_part
from seatrial.report.document import BYTES_MAX, chapters, page_document
from seatrial.report.figures.axes import linear_axis, log_axis
from seatrial.report.figures.model import Axis, Bubble, Figure, Point, Row, Scatter, Slope, View
from seatrial.report.first_screen import first_screen, worst_anchors
from seatrial.report.markup import fill
from seatrial.report.part import KEY_FIGURES_MAX, key_section, without_frames
from seatrial.report.sections import machines_section
from seatrial.report.table import Table as ReportTable
from seatrial.results.model import Run
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.compare.model import Batch, BeforeAfter, Change, Overall, Table
from seatrial.trials.replay.compare.report.answer import before_after_answer, warnings_of
from seatrial.trials.replay.compare.report.tables import (
    batches_table,
    changes_table,
    one_sided_table,
    overall_table,
    plans_table,
    regressions_table,
    server_table,
)
from seatrial.trials.replay.compare.report.wording import (
    calls_text,
    compared_phrase,
    counts_phrase,
    floor_phrase,
    interval_phrase,
    once_each,
    page_verdict,
    saved_phrase,
    seconds,
    side_phrase,
    tables_of,
)
from seatrial.trials.replay.compare.verdict import (
    change_phrase,
    factor_phrase,
    once_of,
    speed_phrase,
)
from seatrial.trials.replay.compare.warnings import NOUNS, Subject
from seatrial.trials.replay.report.wording import shortened
from seatrial.units import NS_PER_S

HEADINGS: dict[Subject, str] = {"query": "Queries", "page": "Pages"}
BATCHES_HEADING = "Batches"


def compared_part(
    table: Table, subject: Subject, figures: Sequence[Figure], rows_max: int
) -> Markup:
    """Return the part on queries or pages: the average, regressions, both charts, all rows.

    Args:
        table: The comparison.
        subject: Whether its rows are queries or pages.
        figures: Its charts.
        rows_max: Maximum number of rows of a table.
    """
    plural = NOUNS[subject][1]
    slower = regressions_table(table.regressions[:rows_max], subject, level=table.level)
    return fill(
        "trials/replay/compare/report/section.html",
        id=subject,
        heading=HEADINGS[subject],
        plural=plural,
        counts=counts_phrase(table.overall, subject) if table.overall else "",
        overall=overall_table(table, subject),
        regressions=slower if table.regressions else None,
        regressions_left_out=_left_out(len(table.regressions) - rows_max, plural),
        settled_by=_sides_measured_once(table) if table.basis == "once" else "",
        figures=figures,
        **_changes(table, subject, rows_max),
        more=_more(table, subject, rows_max),
    )


def _sides_measured_once(table: Table) -> str:
    """Return which sides have only one measurement."""
    return once_each(table)


def _changes(table: Table, subject: Subject, rows_max: int) -> dict[str, object]:
    singular, plural = NOUNS[subject]
    if not table.changes:
        return {"changes": None}
    names = (table.before.name, table.after.name)
    return {
        "changes": changes_table(table.changes[:rows_max], subject, names, level=table.level),
        "changes_label": f"Table of {format_plural(len(table.changes), singular, plural)}",
        "changes_left_out": _left_out(len(table.changes) - rows_max, plural),
    }


def _more(table: Table, subject: Subject, rows_max: int) -> list[tuple[ReportTable, str]]:
    """Return tables of some queries only: plans, the server's work, queries of one side."""
    names = (table.before.name, table.after.name)
    sided = (
        (table.only_before, names[1], table.before.total_s),
        (table.only_after, names[0], table.after.total_s),
    )
    tables = [
        (plans_table(table.changes[:rows_max], level=table.level), 0),
        (server_table(table.changes[:rows_max], names), 0),
        *(
            (one_sided_table(parts, subject, lacking, total_s, rows_max=rows_max), len(parts))
            for parts, lacking, total_s in sided
        ),
    ]
    plural = NOUNS[subject][1]
    return [(shown, _left_out(rows - rows_max, plural)) for shown, rows in tables if shown.rows]


def batches_part(batches: Sequence[Batch]) -> Markup:
    """Return the part on batches; empty without any."""
    return fill(
        "trials/replay/compare/report/batches.html",
        heading=BATCHES_HEADING,
        table=batches_table(batches) if batches else None,
        warnings=[warning for batch in batches for warning in batch.warnings],
    )


def _left_out(rows: int, plural: str) -> str:
    return f"{format_plural(rows, 'more', 'more')} {plural}" if rows > 0 else ""


_ROWS_MAX = (2_000, 500, 100)
"""Maximum numbers of rows of a table; the first that keeps the page within its limit is used."""


def render(found: BeforeAfter, runs: Sequence[tuple[str, Run]] = ()) -> str:
    """Return the page of a comparison of before and after.

    Args:
        found: The comparison.
        runs: Names and runs of the sides that are runs; their machines are shown.

    Raises:
        AssetError: When the installed ECharts is not the pinned one.
        ValueError: When nothing was compared.
    """
    if not found.tables and not found.batches:
        raise ValueError("a page of before and after needs something that was compared")
    page = ""
    for rows_max in _ROWS_MAX:
        page = _rendered(found, runs, rows_max)
        if len(page.encode()) <= BYTES_MAX:
            break
    return page


def _rendered(found: BeforeAfter, runs: Sequence[tuple[str, Run]], rows_max: int) -> str:
    tables = tables_of(found)
    figures_by_subject = {
        subject: before_after_figures(table, subject) for table, subject in tables
    }
    warnings = warnings_of(found)
    findings = find_in_before_after(found)
    name = _name(found)
    first = before_after_answer(found, findings, warnings)
    figures = [figure for subject in figures_by_subject for figure in figures_by_subject[subject]]
    keys = figures[:KEY_FIGURES_MAX]
    headings = {
        "key": ("Key charts", bool(keys)),
        "findings": ("Findings", bool(findings)),
        "warnings": ("Warnings", bool(warnings)),
        "query": (HEADINGS["query"], "query" in figures_by_subject),
        "page": (HEADINGS["page"], "page" in figures_by_subject),
        "batches": (BATCHES_HEADING, bool(found.batches)),
        "machine": ("Machines", bool(runs)),
    }
    parts = {
        identifier: heading for identifier, (heading, is_there) in headings.items() if is_there
    }
    body = fill(
        "report/templates/body.html",
        head=first_screen(
            name,
            first,
            _particulars(tables),
            anchors=worst_anchors(first, findings),
            words=page_verdict(found),
        ),
        chapters=chapters(parts),
        parts=[
            key_section(keys),
            findings_part(findings, "findings", "Findings"),
            warnings_part(warnings, "warnings"),
            *(
                without_frames(
                    compared_part(table, subject, figures_by_subject[subject], rows_max), keys
                )
                for table, subject in tables
            ),
            batches_part(found.batches),
            machines_section(runs),
        ],
        skip=(next(iter(parts)), "the figures"),
    )
    return page_document(f"{name}: Seatrial before and after", body, figures, f"Seatrial, {name}")


def _name(found: BeforeAfter) -> str:
    """Return the names of the two sides, or of the batches."""
    tables = tables_of(found)
    if tables:
        table, _ = tables[0]
        return f"{table.before.name} and {table.after.name}"
    return ", ".join(batch.name for batch in found.batches)


def _particulars(tables: Sequence[tuple[Table, Subject]]) -> dict[str, str]:
    """Return the sides, how they were compared, and the noise floor."""
    facts: dict[str, str] = {}
    for table, subject in tables:
        kind = f" ({HEADINGS[subject].lower()})" if len(tables) > 1 else ""
        facts[f"Before{kind}: {table.before.name}"] = side_phrase(table.before)
        facts[f"After{kind}: {table.after.name}"] = side_phrase(table.after)
        facts[f"Compared{kind}"] = compared_phrase(table, subject)
        if noise := floor_phrase(table.floor, subject):
            facts[f"Noise floor{kind}"] = noise
    return facts


BUBBLES_MAX: Final = 400
"""Those with the most time, and all regressions; the table has more."""
PARTS_MAX: Final = 12
PART_SHARE_MIN: Final = 0.002
"""Share of the time before. Smaller parts of a waterfall are combined."""
ANSWERS: Final = ("slower", "faster", "undecided", "same")
_LABEL_MAX: Final = 72
_TITLE_MAX: Final = 60
_FACTORS: Final = (100.0, 10.0, 2.0, 1.0, 0.5, 0.1, 0.01)


def before_after_figures(table: Table, subject: Subject) -> list[Figure]:
    """Return the charts of queries or pages; none if the sides have nothing in common."""
    if table.overall is None or not table.changes:
        return []
    figures = [_scatter(table, table.overall, subject), _waterfall(table, table.overall, subject)]
    return [figure for figure in figures if figure is not None]


def _scatter(table: Table, overall: Overall, subject: Subject) -> Figure | None:
    timed = [
        change for change in table.changes if change.before.mean_s > 0 and change.after.mean_s > 0
    ]
    if not timed:
        return None
    numbers = {each.key: str(number) for number, each in enumerate(table.regressions, start=1)}
    shown = timed[:BUBBLES_MAX]
    shown += [each for each in timed[BUBBLES_MAX:] if each.key in numbers]
    ordered = sorted(shown, key=lambda each: -each.before.total_s)
    largest_s = max(each.before.total_s for each in ordered) or 1.0
    once = once_of(table)
    bubbles = [_bubble(each, largest_s, numbers.get(each.key, ""), once=once) for each in ordered]
    before, after = table.before.name, table.after.name
    x, y = _axes([end for each in ordered for end in _times_ns(each)], (before, after))
    singular, plural = NOUNS[subject]
    found = {bubble.name for bubble in bubbles}
    view = View(
        label=plural,
        title=_scatter_title(table, overall, plural),
        names=[name for name in ANSWERS if name in found],
        scatter=Scatter(
            x=x,
            y=y,
            bubbles=bubbles,
            slopes=[_slope(factor) for factor in _FACTORS],
            margin_share=table.margin_share,
        ),
    )
    return Figure(
        id=f"{subject}-scatter",
        kind="scatter",
        topic=f"Each {singular}, before and after",
        notes=[
            f"Each circle is a {singular}; its area is the total time of all calls before. Below "
            "the dashed line it became faster, above it slower. Significant differences are "
            f"filled; within the grey band (± {format_share(table.margin_share)}) a difference "
            "counts as none. Vertical bars are intervals of the change "
            f"({interval_phrase(table.level)}). Numbers refer to the table of regressions.",
            *_shown_in_table_only(len(timed) - len(shown), plural),
        ],
        views=[view],
        table=f"table-{subject}-changes",
    )


def _scatter_title(table: Table, overall: Overall, plural: str) -> str:
    """Return how many became slower and the slowest one, or how many became faster."""
    of = f"{format_count(len(table.changes))} {plural}"
    slower = table.regressions
    if not slower and not overall.faster:
        return f"None of {of} became significantly faster or slower"
    if not slower:
        return f"{format_count(overall.faster)} of {of} became significantly faster, none slower"
    worst = speed_phrase(slower[0].speed_up, once=once_of(table))
    text = shortened(slower[0].text, _TITLE_MAX)
    return (
        f"{format_count(len(slower))} of {of} became significantly slower, the most {worst}: {text}"
    )


def _shown_in_table_only(count: int, plural: str) -> list[str]:
    if count <= 0:
        return []
    return [f"{format_count(count)} {plural} with little time are only in the table."]


def _bubble(change: Change, largest_s: float, label: str, *, once: str) -> Bubble:
    """Return one circle; its interval is that of the speed-up, at the mean time before."""
    before_ns = change.before.mean_s * NS_PER_S
    low, high = change.speed_up.low, change.speed_up.high
    has_interval = bool(low and high)
    times = f"{seconds(change.before.mean_s)} before, {seconds(change.after.mean_s)} after"
    return Bubble(
        x=before_ns,
        y=change.after.mean_s * NS_PER_S,
        low=before_ns / high if has_interval and high else None,
        high=before_ns / low if has_interval and low else None,
        area_share=change.before.total_s / largest_s,
        name=change.answer,
        label=label,
        heading=shortened(change.text, _LABEL_MAX),
        text=f"{change_phrase(change, once=once)}; {times}; "
        f"{calls_text(change.before.calls)} calls took {seconds(change.before.total_s)}",
    )


def _times_ns(change: Change) -> tuple[float, float]:
    return change.before.mean_s * NS_PER_S, change.after.mean_s * NS_PER_S


def _axes(values_ns: Sequence[float], names: tuple[str, str]) -> tuple[Axis, Axis]:
    """Return two axes with the same range, so that the diagonal is not a change."""
    low, high = min(values_ns), max(values_ns)
    limits = (low / 1.6, high * 1.6)  # room for the largest circles
    across, up = (log_axis(f"Mean time, {name} (logarithmic)", "ns", limits) for name in names)
    return across, up


def _slope(factor: float) -> Slope:
    if factor == 1.0:
        return Slope(factor, "")
    if factor > 1:
        return Slope(factor, f"{factor:g}x slower")
    return Slope(factor, f"{1 / factor:g}x faster")


def _waterfall(table: Table, overall: Overall, subject: Subject) -> Figure | None:
    if overall.before_s <= 0:
        return None
    averaged = [change for change in table.changes if change.in_average]
    ranked = sorted(averaged, key=lambda each: -abs(each.saved_s))
    least_s = PART_SHARE_MIN * overall.before_s
    largest = [each for each in ranked[:PARTS_MAX] if abs(each.saved_s) >= least_s]
    rest = ranked[len(largest) :]
    largest.sort(key=lambda each: -each.saved_s)
    _, plural = NOUNS[subject]
    once = once_of(table)
    at_s = overall.before_s
    rows = [_whole(f"{table.before.name}, all {plural}", overall.before_s)]

    for each in largest:
        label = shortened(each.text, _LABEL_MAX)
        rows.append(_part(label, at_s, -each.saved_s, saved_phrase(each, once=once)))
        at_s -= each.saved_s
    if rest:
        left_s = sum(each.saved_s for each in rest)
        verb = "save" if left_s >= 0 else "cost"
        label = f"{format_plural(len(rest), 'other')}, total"
        rows.append(_part(label, at_s, -left_s, f"{verb} {seconds(abs(left_s))}"))
    remark = f"{seconds(overall.after_s)}: {factor_phrase(overall.speed_up, once=once)}"
    rows.append(_whole(f"{table.after.name}, same calls", overall.after_s, remark))
    view = View(
        label=plural,
        title=_waterfall_title(overall, largest),
        rows=rows,
        axis=linear_axis("Time of all calls of one unit (s)", "s", [_highest(rows)]),
    )
    return Figure(
        id=f"{subject}-waterfall",
        kind="bars",
        topic="Change of total time",
        notes=[
            f"From the total time of all {plural} before to the total time after, with the number "
            "of calls before: each bar is the time that one saves or costs."
        ],
        views=[view],
        table=f"table-{subject}-changes",
    )


def _waterfall_title(overall: Overall, largest: Sequence[Change]) -> str:
    words = f"{seconds(overall.before_s)} before, {seconds(overall.after_s)} after"
    if not largest:
        return words
    most = max(largest, key=lambda each: abs(each.saved_s))
    less = "less" if most.saved_s >= 0 else "more"
    text = shortened(most.text, _TITLE_MAX)
    return f"{words}; the largest change: {seconds(abs(most.saved_s))} {less} for {text}"


def _whole(label: str, value_s: float, remark: str = "") -> Row:
    text = remark or seconds(value_s)
    return Row(label=label, points={"time": Point(0, value_s, None, None, text)}, remark=text)


def _part(label: str, start_s: float, value_s: float, remark: str) -> Row:
    return Row(
        label=label,
        points={"change": Point(0, value_s, None, None, remark)},
        remark=remark,
        start=start_s,
        tone="better" if value_s < 0 else "worse",
    )


def _highest(rows: Sequence[Row]) -> float:
    """Return the rightmost end of any bar."""
    return max(
        max(row.start or 0.0, (row.start or 0.0) + point.y)
        for row in rows
        for point in row.points.values()
    )
