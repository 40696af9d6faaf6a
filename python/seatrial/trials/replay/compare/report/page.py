"""The HTML page of before and after: how much faster, what became slower, and every number.

Like the report of a run it is one file that asks no network for anything and says all it knows
with scripts off.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from seatrial.findings.registry import find_in_before_after
from seatrial.report.comparison_page import findings_part, warnings_part
from seatrial.report.document import BYTES_MAX, chapters, page_document
from seatrial.report.figures.model import Figure
from seatrial.report.first_screen import first_screen, worst_anchors
from seatrial.report.markup import fill
from seatrial.report.part import KEY_FIGURES_MAX, key_section, without_frames
from seatrial.report.sections import machines_section
from seatrial.report.table import Table as Shown
from seatrial.results.model import Run
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.compare.model import Batch, BeforeAfter, Table
from seatrial.trials.replay.compare.report.answer import before_after_answer, warnings_of
from seatrial.trials.replay.compare.report.figures import before_after_figures
from seatrial.trials.replay.compare.report.tables import (
    batches_table,
    changes_table,
    one_sided_table,
    overall_table,
    plans_table,
    regressions_table,
    server_table,
)
from seatrial.trials.replay.compare.report.words import (
    NOUNS,
    Subject,
    compared_words,
    counts_words,
    floor_words,
    once_each,
    page_verdict,
    side_words,
    tables_of,
)

HEADINGS: dict[Subject, str] = {"query": "Queries", "page": "Pages"}
BATCHES_HEADING = "Batches"


def compared_part(
    table: Table, subject: Subject, figures: Sequence[Figure], rows_max: int
) -> Markup:
    """Return queries, or pages: all together, what became slower, both charts, every one.

    Args:
        table: Before and after.
        subject: What its rows are.
        figures: Its charts.
        rows_max: How many of its rows a table may have.
    """
    plural = NOUNS[subject][1]
    slower = regressions_table(table.regressions[:rows_max], subject, level=table.level)
    return fill(
        "trials/replay/compare/report/section.html",
        id=subject,
        heading=HEADINGS[subject],
        plural=plural,
        counts=counts_words(table.overall, subject) if table.overall else "",
        overall=overall_table(table, subject),
        regressions=slower if table.regressions else None,
        regressions_left_out=_left_out(len(table.regressions) - rows_max, plural),
        settled_by=_of_sides(table) if table.basis == "once" else "",
        figures=figures,
        **_changes(table, subject, rows_max),
        more=_more(table, subject, rows_max),
    )


def _of_sides(table: Table) -> str:
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


def _more(table: Table, subject: Subject, rows_max: int) -> list[tuple[Shown, str]]:
    """Return what is shown of some queries only: plans, the server's work, one side's."""
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
    """Return each batch by its times; nothing where there is none."""
    return fill(
        "trials/replay/compare/report/batches.html",
        heading=BATCHES_HEADING,
        table=batches_table(batches) if batches else None,
        warnings=[warning for batch in batches for warning in batch.warnings],
    )


def _left_out(rows: int, plural: str) -> str:
    return f"{format_plural(rows, 'more', 'more')} {plural}" if rows > 0 else ""


_ROWS_MAX = (2_000, 500, 100)
"""How many rows a table of a page has; the first that keeps it within its bound is taken."""


def render(found: BeforeAfter, runs: Sequence[tuple[str, Run]] = ()) -> str:
    """Return the page of a comparison of before and after.

    Args:
        found: What was compared.
        runs: Names and runs of the sides that come from one: their machines are shown.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
        ValueError: When there is nothing in it.
    """
    if not tables_of(found) and not found.batches:
        raise ValueError("a page of before and after needs something that was compared")
    page = ""
    for rows_max in _ROWS_MAX:
        page = _rendered(found, runs, rows_max)
        if len(page.encode()) <= BYTES_MAX:
            break
    return page


def _rendered(found: BeforeAfter, runs: Sequence[tuple[str, Run]], rows_max: int) -> str:
    tables = tables_of(found)
    drawn = {subject: before_after_figures(table, subject) for table, subject in tables}
    warnings = warnings_of(found)
    findings = find_in_before_after(found)
    name = _name(found)
    first = before_after_answer(found, findings, warnings)
    figures = [figure for subject in drawn for figure in drawn[subject]]
    keys = figures[:KEY_FIGURES_MAX]
    there = {
        "key": ("Key charts", bool(keys)),
        "findings": ("Findings", bool(findings)),
        "warnings": ("Warnings", bool(warnings)),
        "query": (HEADINGS["query"], "query" in drawn),
        "page": (HEADINGS["page"], "page" in drawn),
        "batches": (BATCHES_HEADING, bool(found.batches)),
        "machine": ("Machines", bool(runs)),
    }
    parts = {identifier: heading for identifier, (heading, is_there) in there.items() if is_there}
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
                without_frames(compared_part(table, subject, drawn[subject], rows_max), keys)
                for table, subject in tables
            ),
            batches_part(found.batches),
            machines_section(runs),
        ],
        skip=(next(iter(parts)), "the figures"),
    )
    return page_document(f"{name}: Seatrial before and after", body, figures, f"Seatrial, {name}")


def _name(found: BeforeAfter) -> str:
    """Return what was compared: the names of the two sides, else of the batches."""
    tables = tables_of(found)
    if tables:
        table, _ = tables[0]
        return f"{table.before.name} and {table.after.name}"
    return ", ".join(batch.name for batch in found.batches)


def _particulars(tables: Sequence[tuple[Table, Subject]]) -> dict[str, str]:
    """Return what the sides are, how they were compared, and what counts as noise."""
    reported: dict[str, str] = {}
    for table, subject in tables:
        kind = f" ({HEADINGS[subject].lower()})" if len(tables) > 1 else ""
        reported[f"Before{kind}: {table.before.name}"] = side_words(table.before)
        reported[f"After{kind}: {table.after.name}"] = side_words(table.after)
        reported[f"Compared{kind}"] = compared_words(table, subject)
        if noise := floor_words(table.floor):
            reported[f"Noise floor{kind}"] = noise
    return reported
