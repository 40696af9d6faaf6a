"""Databases: the article's table and chart, where the time goes cell by cell, what was loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from seatrial.findings.model import Summary
from seatrial.report.figures.heatmap import stalled_s
from seatrial.report.figures.model import Figure
from seatrial.report.figures.naming import capitalized
from seatrial.report.markup import Markup, element, join, unbroken
from seatrial.report.part import Detail, PagePart
from seatrial.report.published import PGBENCH_SOURCE
from seatrial.report.sections.charts import frame, unscripted
from seatrial.report.sections.tables import plain_table
from seatrial.report.table import Table
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_count, format_estimate, format_plural
from seatrial.trials.database.analysis.crashes import is_crash_trial
from seatrial.trials.database.analysis.model import DatabaseCell
from seatrial.trials.database.analysis.samples import batch_length
from seatrial.trials.database.report.figures import comparable, database_figures
from seatrial.trials.database.report.tables import latency_table, rate_tables, sweep_tables
from seatrial.trials.database.report.time_tables import (
    absent_readings,
    events_table,
    facts_table,
    others_table,
    rivals_table,
    time_tables,
)
from seatrial.trials.database.report.timelines import timeline_figure
from seatrial.trials.database.report.timelines_section import timeline_table
from seatrial.trials.database.report.words import (
    analysed,
    cell_words,
    database_cells,
    label_names,
    seconds_interval,
    sweeps_of,
)
from seatrial.trials.replay.analysis.samples import is_of_replay

HEADING: Final = "Databases"
_TIMELINES_OPEN: Final = 1


def database_part(summary: Summary, detail: Detail) -> PagePart:
    """Return the part of a page on a run's databases, with as much of it as there is room for."""
    cells = database_cells(summary)
    if not cells:
        return PagePart("database", HEADING, Markup(""), [])
    reported = analysed(summary)
    figures = database_figures(
        cells, sweeps_of(summary), reported, with_published=detail.with_published
    )
    timed = [part for part in cells if not is_crash_trial(part.cell)]
    timelines = _timelines(timed, detail.rounds_max, detail.timelines_max)
    by_id = {figure.id: frame(figure) for figure in figures}
    rates = rate_tables(cells)
    body = [
        unscripted("beside them"),
        *(plain_table(table) for table in rates[:1]),
        by_id.pop("database-tps", Markup("")),
        _published(cells),
        *(plain_table(table) for table in rates[1:]),
        *_sweep_part(summary, by_id),
        _where_time_goes(summary, timed, timelines),
        *by_id.values(),
        _every_latency([part for part in cells if not is_of_replay(part.cell)]),
        *(plain_table(table) for table in time_tables(summary)),
    ]
    section = element("section", element("h2", HEADING), *body, id="database", aria_label=HEADING)
    return PagePart("database", HEADING, section, [*figures, *timelines.values()])


def _timelines(
    cells: Sequence[CellSummary], rounds_max: int, timelines_max: int
) -> dict[str, Figure]:
    """Return the charts over time by the keys of their cells, the most telling ones."""
    ranked = sorted(cells, key=lambda part: (-stalled_s(part), part.iops.value))
    kept = {part.cell.key for part in ranked[:timelines_max]}
    found = {}
    for number, part in enumerate(cells, start=1):
        figure = (
            timeline_figure(part, f"timeline-{number}", rounds_max)
            if part.cell.key in kept
            else None
        )
        if figure is not None:
            found[part.cell.key] = figure
    return found


def _sweep_part(summary: Summary, frames: dict[str, Markup]) -> list[Markup]:
    """Return chart and tables of the caches' sizes; nothing where none was varied."""
    tables = sweep_tables(summary)
    if not tables:
        return []
    sentences = [element("p", unbroken(sweep.sentence)) for sweep in sweeps_of(summary)]
    drawn = frames.pop("database-sweep", Markup(""))
    return [drawn or join(sentences), *(plain_table(table) for table in tables)]


def _every_latency(cells: Sequence[CellSummary]) -> Markup:
    """Return all percentiles and counts of every cell, folded; nothing where there is none."""
    if not cells:
        return Markup("")
    table = latency_table(cells)
    label = f"{table.title} of {format_plural(len(cells), 'cell')}"
    return element(
        "details", element("summary", label), plain_table(table, captioned=False), class_="every"
    )


def _published(cells: Sequence[CellSummary]) -> Markup:
    """Return the article's own figures, folded; nothing where no cell did what it did."""
    published = comparable(cells)
    if not published:
        return Markup("")
    table = Table(
        id="database-published",
        title="Published in 2010",
        labels=4,
        headers=["Device", "Scale", "Client machines", "Clients of each", "tps", "Runs"],
        rows=[
            [
                each.device,
                str(each.scale),
                str(each.processes),
                str(each.clients),
                format_count(round(each.rate_per_s)),
                str(each.rounds),
            ]
            for each in published
        ],
    )
    return element(
        "details",
        element("summary", "The figures published in 2010"),
        element("p", PGBENCH_SOURCE),
        plain_table(table, captioned=False),
        class_="published",
    )


def _where_time_goes(
    summary: Summary, cells: Sequence[CellSummary], timelines: dict[str, Figure]
) -> Markup:
    """Return each cell's verdict, figures, waits and timeline; folded where there are several."""
    reported = analysed(summary)
    shown = [part for part in cells if part.cell.key in reported or part.cell.key in timelines]
    if not shown:
        return Markup("")
    parts = []
    for place, part in enumerate(shown):
        content = _cell_content(part, reported.get(part.cell.key), timelines.get(part.cell.key))
        if len(shown) == 1:
            parts.append(content)
            continue
        heading = element("summary", unbroken(_cell_heading(part, cells, reported)))
        parts.append(
            element("details", heading, content, class_="cell", open=place < _TIMELINES_OPEN)
        )
    missing = len(cells) - len(timelines)
    more = (
        element("p", f"Of {format_plural(missing, 'cell')} the timeline is not shown here.")
        if timelines and missing
        else ""
    )
    return element("section", element("h3", "Where the time goes"), *parts, more, id="time")


def _cell_heading(
    part: CellSummary, cells: Sequence[CellSummary], reported: dict[str, DatabaseCell]
) -> str:
    same = [each for each in cells if each.cell.workload == part.cell.workload]
    several = len({each.cell.workload for each in cells}) > 1
    words = [part.cell.workload if several else "", cell_words(part, label_names(same))]
    name = ": ".join(filter(None, words)) or part.cell.workload
    # The name of a target is spelt as the user spells it.
    name = name if several or "target" in label_names(same) else capitalized(name)
    real = batch_length(part.samples, "real")
    rate = seconds_interval(real) if real else format_estimate(part.iops)
    known = reported.get(part.cell.key)
    bound = f", bound by: {known.verdict.bound}" if known else ""
    return f"{name}: {part.blank or rate}{bound}"


def _cell_content(part: CellSummary, cell: DatabaseCell | None, figure: Figure | None) -> Markup:
    return element(
        "div",
        element("p", unbroken(cell.verdict.sentence), class_="verdict") if cell else "",
        frame(figure) if figure else "",
        _numbers(cell) if cell else "",
        timeline_table(figure) if figure else "",
        _notes(part),
        class_="time",
    )


def _numbers(cell: DatabaseCell) -> Markup:
    tables = [facts_table(cell)]
    tables += [events_table(cell)] if cell.wait_events else []
    tables += [rivals_table(cell)] if cell.verdict.rivals else []
    shown = element("div", *(plain_table(table) for table in tables), class_="beside")
    return join([shown, _other_readings(cell)])


def _other_readings(cell: DatabaseCell) -> Markup:
    """Return what else was read of the server, folded, and what there was nothing of."""
    others, nothing = others_table(cell), absent_readings(cell)
    if not others.rows and not nothing:
        return Markup("")
    return element(
        "details",
        element("summary", others.title),
        plain_table(others, captioned=False) if others.rows else "",
        element("p", f"Nothing in any round: {', '.join(nothing)}.", class_="lead")
        if nothing
        else "",
    )


def _notes(part: CellSummary) -> Markup:
    """Return what could not be read or done in the cell's samples, each sentence once."""
    records = [sample.database for sample in part.samples if sample.database]
    notes = dict.fromkeys(note for record in records for note in record.notes)
    return (
        element("ul", *(element("li", note) for note in notes), class_="notes")
        if notes
        else (Markup(""))
    )
