"""The parts of a page on before and after: what it rests on, what became slower, every table."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.report.figures.model import Figure
from seatrial.report.markup import Markup, element, join
from seatrial.report.sections.charts import frame, unscripted
from seatrial.report.sections.tables import plain_table
from seatrial.report.table import Table as Shown
from seatrial.stats.wording import format_plural
from seatrial.trials.replay.compare.model import Batch, Table
from seatrial.trials.replay.compare.report.tables import (
    batches_table,
    changes_table,
    one_sided_table,
    overall_table,
    plans_table,
    regressions_table,
    server_table,
)
from seatrial.trials.replay.compare.report.words import NOUNS, Subject, counts_words, once_each

HEADINGS: dict[Subject, str] = {"query": "Queries", "page": "Pages"}
BATCHES_HEADING = "Batches"


def warnings_part(warnings: Sequence[str]) -> Markup:
    """Return what weakens the comparison; nothing where nothing does."""
    if not warnings:
        return Markup("")
    items = (
        element(
            "li",
            element("p", "Warning", class_="severity"),
            element("div", element("h3", warning)),
            class_="finding warning",
        )
        for warning in warnings
    )
    heading = "What weakens the comparison"
    return element(
        "section",
        element("h2", heading),
        element("ol", *items, class_="findings"),
        id="warnings",
        aria_label=heading,
    )


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
    heading = HEADINGS[subject]
    frames = [frame(figure) for figure in figures]
    return element(
        "section",
        element("h2", heading),
        element("p", counts_words(table.overall, subject), class_="lead") if table.overall else "",
        _shown(overall_table(table, subject)),
        _regressions(table, subject, rows_max),
        unscripted("beside them") if frames else "",
        *frames,
        _changes(table, subject, rows_max),
        *_more(table, subject, rows_max),
        id=subject,
        aria_label=heading,
        class_="compared",
    )


def _regressions(table: Table, subject: Subject, rows_max: int) -> Markup:
    """Return what became significantly slower; that nothing did is said."""
    found = table.regressions
    _, plural = NOUNS[subject]
    identifier = f"{subject}-regressions"
    if not found:
        why = (
            f"; one measurement of {_of_sides(table)} settles only what differs by more than the "
            "usual noise"
            if table.basis == "once"
            else ""
        )
        reported = f"None of the {plural} became significantly slower{why}."
        return element("p", reported, id=identifier)
    shown = regressions_table(found[:rows_max], subject, level=table.level)
    return element(
        "div",
        _shown(shown, is_of_texts=True, is_numbered=True),
        _left_out(len(found) - rows_max, plural),
        id=identifier,
    )


def _of_sides(table: Table) -> str:
    """Return of what there is one measurement."""
    return "each side" if once_each(table) == "each" else "one side"


def _changes(table: Table, subject: Subject, rows_max: int) -> Markup:
    if not table.changes:
        return Markup("")
    singular, plural = NOUNS[subject]
    names = (table.before.name, table.after.name)
    label = f"{format_plural(len(table.changes), singular, plural)} in numbers"
    return element(
        "details",
        element("summary", label),
        _shown(
            changes_table(table.changes[:rows_max], subject, names, level=table.level),
            is_of_texts=True,
        ),
        _left_out(len(table.changes) - rows_max, plural),
        id=f"table-{subject}-changes",
        open=True,
    )


def _more(table: Table, subject: Subject, rows_max: int) -> list[Markup]:
    """Return what is told of some queries only, folded: plans, the server's work, one side's."""
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
    return [
        element(
            "details",
            element("summary", shown.title),
            _shown(shown, is_of_texts=True, captioned=False),
            _left_out(rows - rows_max, NOUNS[subject][1]),
        )
        for shown, rows in tables
        if shown.rows
    ]


def batches_part(batches: Sequence[Batch]) -> Markup:
    """Return each batch by its times; nothing where there is none."""
    if not batches:
        return Markup("")
    weak = [warning for batch in batches for warning in batch.warnings]
    return element(
        "section",
        element("h2", BATCHES_HEADING),
        _shown(batches_table(batches)),
        element("ul", *(element("li", warning) for warning in weak), class_="notes")
        if weak
        else "",
        id="batches",
        aria_label=BATCHES_HEADING,
    )


def _shown(
    table: Shown, *, is_of_texts: bool = False, is_numbered: bool = False, captioned: bool = True
) -> Markup:
    """Return a table; nothing where it has no row. Texts of queries break their lines."""
    if not table.rows:
        return Markup("")
    kind = ("numbered" if is_numbered else "queries") if is_of_texts else None
    return element("div", plain_table(table, captioned=captioned), class_=kind)


def _left_out(rows: int, plural: str) -> Markup:
    if rows <= 0:
        return Markup("")
    reported = f"{format_plural(rows, 'more', 'more')} {plural} would make this page too large; "
    return join(
        [element("p", reported, element("code", "seatrial sql compare --json"), " writes all.")]
    )
