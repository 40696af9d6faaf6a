"""Layouts: as built, the article's figures, what drives did, what failures cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.figures.model import Figure, TimelineMark
from seatrial.report.markup import Markup, element, unbroken
from seatrial.report.part import Detail, PagePart
from seatrial.report.sections.charts import frame, unscripted
from seatrial.report.sections.tables import plain_table
from seatrial.report.table import Table, first_rows
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_plural, format_share
from seatrial.trials.database.report.timelines import timeline_figure
from seatrial.trials.database.report.timelines_section import timeline_table
from seatrial.trials.layouts.analysis.model import Accounting, LayoutAnalysis, Recovery, layouts_of
from seatrial.trials.layouts.report.array_marks import array_marks, dips_of
from seatrial.trials.layouts.report.failure_tables import (
    consequences_table,
    data_text,
    failure_tables,
    failure_words,
    phases_table,
    rebuild_text,
)
from seatrial.trials.layouts.report.figures import (
    FIGURE_ID,
    NUMBERS_ID,
    layout_figures,
    numbers_sentence,
    shown_figures,
)
from seatrial.trials.layouts.report.tables import (
    accounting_table,
    best_table,
    built_table,
    by_size,
    figure_table,
    informative,
    members_table,
    ratios_table,
)
from seatrial.trials.layouts.report.words import Variant, misaligned, variants_of

HEADING: Final = "Layouts"
_OPEN: Final = 1
"""Of the failures, so many are unfolded from the start."""


ROWS_MAX: Final = 200
"""Of a folded table; the JSON export has all of them."""
_EVENTS_TOLD_MAX: Final = 3
"""Of a round's events, so many are told in its title; all are listed below the chart."""


def layout_part(summary: Summary, detail: Detail) -> PagePart:
    """Return the part of a page on a run's layouts, with as much of it as there is room for."""
    variants = variants_of(summary)
    if not variants:
        return PagePart("layouts", HEADING, Markup(""), [])
    found = layouts_of(summary)
    figures = layout_figures(found) if found else []
    timelines = (
        _timelines(found, summary.cells, detail.rounds_max, detail.timelines_max) if found else {}
    )
    body = [
        unscripted("beside them"),
        *_best(found),
        *(_figures_part(found, figures) if found else []),
        *(_failures_part(found, timelines) if found else []),
        *(_accounting_part(found) if found else []),
        *_built_part(variants),
        *(_ratios_part(found) if found else []),
    ]
    section = element("section", element("h2", HEADING), *body, id="layouts", aria_label=HEADING)
    return PagePart("layouts", HEADING, section, [*figures, *timelines.values()])


def _best(found: LayoutAnalysis | None) -> list[Markup]:
    return [plain_table(best_table(found.best))] if found and found.best else []


def _figures_part(found: LayoutAnalysis, figures: Sequence[Figure]) -> list[Markup]:
    """Return the article's figures, which it has none of, and the numbers that no table has."""
    if not found.figures:
        return []
    drawn = shown_figures(found.figures)
    against_drives = [each for each in drawn if each.against == "drives"]
    tables = [figure_table(each, place) for place, each in enumerate(against_drives, start=1)]
    elsewhere = element(
        "p",
        "Figures against the block size have their numbers in the ",
        element("a", "tables", href="#tables"),
        " of each workload; the same of every other layout is drawn under ",
        element("a", "Charts", href="#charts"),
        ".",
        class_="lead",
    )
    label = "The figures in numbers"
    return [
        *(frame(figure) for figure in figures if figure.id == FIGURE_ID),
        element("p", numbers_sentence(found.figures), class_="lead figures-had"),
        element(
            "details",
            element("summary", label),
            *(plain_table(table) for table in tables),
            elsewhere,
            id=NUMBERS_ID,
        ),
    ]


def _timelines(
    found: LayoutAnalysis, cells: Sequence[CellSummary], rounds_max: int, timelines_max: int
) -> dict[str, Figure]:
    """Return the charts of failures over time by the keys of their cells, the worst ones."""
    by_key = {part.cell.key: part for part in cells}
    ranked = sorted(found.recoveries, key=_gravity)
    kept = {recovery.cell.key for recovery in ranked[:timelines_max]}
    drawn = {}
    for number, recovery in enumerate(found.recoveries, start=1):
        part = by_key.get(recovery.cell.key)
        if part is None or recovery.cell.key not in kept:
            continue
        figure = timeline_figure(part, f"failure-{number}", rounds_max, reported=_reported)
        if figure is not None:
            drawn[recovery.cell.key] = figure
    return drawn


def _gravity(recovery: Recovery) -> tuple[bool, float]:
    """Return a key that sorts lost data first, then the deepest dip."""
    lost = bool(recovery.corrupt_blocks or recovery.unreadable_bytes or recovery.failed_count)
    return not lost, 1.0 if recovery.lowest_share is None else recovery.lowest_share


def _reported(sample: Sample) -> tuple[str, list[TimelineMark]]:
    """Return what happened to a sample's array as a title, and where less was done."""
    marks = array_marks(sample)
    reported = "; ".join(mark.text for mark in marks[:_EVENTS_TOLD_MAX]) or "nothing happened"
    return reported, dips_of(sample)


def _failures_part(found: LayoutAnalysis, timelines: dict[str, Figure]) -> list[Markup]:
    """Return each failure's timeline and consequences; folded but for the first."""
    if not found.recoveries:
        return []
    parts = []
    for number, recovery in enumerate(found.recoveries, start=1):
        content = _failure(recovery, timelines.get(recovery.cell.key), number)
        if len(found.recoveries) == 1:
            parts.append(content)
            continue
        heading = element("summary", unbroken(_failure_heading(recovery)))
        parts.append(element("details", heading, content, class_="cell", open=number <= _OPEN))
    first, *limits = failure_tables(found)
    return [
        element(
            "section",
            element("h3", first.title),
            plain_table(first, captioned=False),
            *(plain_table(table) for table in limits),
            *parts,
            id="failures",
        )
    ]


def _failure_heading(recovery: Recovery) -> str:
    lowest = recovery.lowest_share
    dip = "" if lowest is None else f", lowest {format_share(lowest)} of the rate before"
    return (
        f"{failure_words(recovery)}: rebuild {rebuild_text(recovery)}{dip}, {data_text(recovery)}"
    )


def _failure(recovery: Recovery, figure: Figure | None, number: int) -> Markup:
    tables = [
        phases_table(recovery, f"layout-phases-{number}"),
        consequences_table(recovery, f"layout-consequences-{number}"),
    ]
    return element(
        "div",
        frame(figure) if figure else "",
        element("div", *(plain_table(table) for table in tables), class_="beside"),
        timeline_table(figure) if figure else "",
        class_="time",
    )


def _accounting_part(found: LayoutAnalysis) -> list[Markup]:
    """Return what drives did for each request, and folded that of every size and each drive."""
    if not found.accounting:
        return []
    shown = informative(found.accounting)
    sizes = by_size(found.accounting)
    members = members_table(shown)
    table = accounting_table(shown, with_words=True)
    return [
        element("h3", table.title),
        plain_table(table, captioned=False),
        _folded(f"The same of {format_plural(len(sizes), 'kind')} of requests", sizes)
        if len(sizes) > len(shown)
        else Markup(""),
        element(
            "details",
            element("summary", "Each drive's share"),
            plain_table(first_rows(members, ROWS_MAX), captioned=False),
            *_left_out(len(members.rows)),
        ),
    ]


def _folded(label: str, accounts: Sequence[Accounting]) -> Markup:
    table = first_rows(accounting_table(accounts), ROWS_MAX)
    return element(
        "details",
        element("summary", label),
        plain_table(table, captioned=False),
        *_left_out(len(accounts)),
    )


def _left_out(rows: int) -> list[Markup]:
    """Return that a table would have made the page too large, and what has all of it."""
    if rows <= ROWS_MAX:
        return []
    reported = f"{format_plural(rows - ROWS_MAX, 'more row')} would make this page too large; "
    command = element("code", "seatrial export --format json")
    return [element("p", reported, command, " writes them.", class_="lead")]


def _built_part(variants: Sequence[Variant]) -> list[Markup]:
    """Return the layouts as built, what is not aligned, and folded their drives and commands."""
    wrong = misaligned(variants)
    parts = (
        element(
            "details",
            element("summary", variant.spec.label),
            *_construction(variant, number),
            class_="variant",
        )
        for number, variant in enumerate(variants, start=1)
    )
    label = f"How {format_plural(len(variants), 'layout was', 'layouts were')} built"
    table = built_table(variants)
    return [
        element("h3", table.title),
        plain_table(table, captioned=False),
        element("ul", *(element("li", text) for text in wrong), class_="notes")
        if wrong
        else Markup(""),
        element("details", element("summary", label), *parts, class_="built"),
    ]


def _construction(variant: Variant, number: int) -> list[Markup]:
    """Return a layout's drives, commands, facts and notes."""
    record = variant.record
    roles = Table(
        id=f"layout-roles-{number}",
        title=f"Drives of {variant.spec.label}",
        labels=1,
        headers=["Drive", "Role"],
        rows=[[drive, role] for drive, role in record.roles.items()],
    )
    facts = (
        part
        for name, text in {"device": record.device, **record.facts}.items()
        for part in (element("dt", name.replace("_", " ")), element("dd", text))
    )
    notes = dict.fromkeys(note for _, each in variant.records for note in each.notes)
    return [
        plain_table(roles) if record.roles else Markup(""),
        element("dl", *facts, class_="facts"),
        element("pre", element("code", "\n".join(record.commands)), tabindex=0)
        if record.commands
        else Markup(""),
        element("ul", *(element("li", note) for note in notes), class_="notes")
        if notes
        else Markup(""),
    ]


def _ratios_part(found: LayoutAnalysis) -> list[Markup]:
    if not found.ratios:
        return []
    table = ratios_table(found.ratios)
    label = f"{table.title}, {format_plural(len(table.rows), 'pair')}"
    return [element("details", element("summary", label), plain_table(table, captioned=False))]
