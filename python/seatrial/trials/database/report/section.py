"""Databases on the page: the article's table and chart, where the time goes, what was loaded."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from seatrial.findings.model import Summary
from seatrial.report.articles import PGBENCH_SOURCE
from seatrial.report.exports.csv_table import Field, interval_columns
from seatrial.report.figures.latency import stalled_s
from seatrial.report.figures.model import Figure
from seatrial.report.markup import fill
from seatrial.report.part import Detail, PagePart
from seatrial.report.table import Table
from seatrial.results.model import Sample
from seatrial.stats.cell_estimates import counted
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import capitalized, format_count, format_estimate, format_plural
from seatrial.trials.database.analysis.crashes import is_crash_trial
from seatrial.trials.database.analysis.headline import headline_cell
from seatrial.trials.database.analysis.model import (
    DatabaseCell,
    ReadShares,
    batch_length,
    database_of,
)
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
from seatrial.trials.database.report.timelines import timeline_figure, timeline_table
from seatrial.trials.database.report.wording import (
    analysed,
    cell_phrase,
    database_cells,
    label_names,
    seconds_interval,
    sweeps_of,
)
from seatrial.trials.replay.analysis.model import is_replay

HEADING: Final = "Databases"


def database_part(summary: Summary, detail: Detail) -> PagePart:
    """Return a page's part on a run's databases, in as much detail as there is room for."""
    cells = database_cells(summary)
    if not cells:
        return PagePart("database", HEADING, Markup(""), [])
    by_key = analysed(summary)
    figures = database_figures(
        cells, sweeps_of(summary), by_key, with_published=detail.with_published
    )
    timed = [part for part in cells if not is_crash_trial(part.cell)]
    timelines = _timelines(timed, detail.rounds_max, detail.timelines_max)
    by_id = {figure.id: figure for figure in figures}
    without_replays = [part for part in cells if not is_replay(part.cell)]
    undrawn = len(timed) - len(timelines) if timelines else 0
    section = fill(
        "trials/database/report/section.html",
        heading=HEADING,
        line=_line(without_replays or cells),
        rates=rate_tables(cells),
        article=by_id.pop("database-tps", None),
        published=_published(cells),
        source=PGBENCH_SOURCE,
        sweep=by_id.pop("database-sweep", None),
        sweeps=sweeps_of(summary),
        sweep_tables=sweep_tables(summary),
        parts=_where_time_goes(summary, timed, timelines),
        undrawn=format_plural(undrawn, "test") if undrawn else "",
        figures=list(by_id.values()),
        latency=latency_table(without_replays),
        latency_cells=format_plural(len(without_replays), "test"),
        tables=time_tables(summary),
    )
    return PagePart("database", HEADING, section, [*figures, *timelines.values()])


def _line(cells: Sequence[CellSummary]) -> str:
    """Return how many tests there are, and the rate of the representative one."""
    best = headline_cell(cells, cells)
    rate = format_estimate(best.iops) if best and best.cell.operation != "batch" else ""
    return ", ".join(filter(None, [format_plural(len(cells), "test"), rate]))


def _timelines(
    cells: Sequence[CellSummary], rounds_max: int, timelines_max: int
) -> dict[str, Figure]:
    """Return the most informative charts over time, by the keys of their cells."""
    ranked = sorted(cells, key=lambda part: (-stalled_s(part), part.iops.value))
    shown = {part.cell.key for part in ranked[:timelines_max]}
    found = {}
    for number, part in enumerate(cells, start=1):
        figure = (
            timeline_figure(part, f"timeline-{number}", rounds_max)
            if part.cell.key in shown
            else None
        )
        if figure is not None:
            found[part.cell.key] = figure
    return found


def _published(cells: Sequence[CellSummary]) -> Table | None:
    """Return the article's figures; None if no cell is comparable."""
    published = comparable(cells)
    if not published:
        return None
    return Table(
        id="database-published",
        title="Published in 2010",
        labels=4,
        headers=["Device", "Scale", "Client machines", "Clients each", "tps", "Runs"],
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


def _where_time_goes(
    summary: Summary, cells: Sequence[CellSummary], timelines: dict[str, Figure]
) -> list[dict[str, object]]:
    """Return each cell's verdict, figures, waits and timeline."""
    by_key = analysed(summary)
    return [
        {
            "heading": _cell_heading(part, cells, by_key),
            "cell": by_key.get(part.cell.key),
            "figure": (figure := timelines.get(part.cell.key)),
            "timeline": timeline_table(figure) if figure else "",
            "notes": _notes(part),
        }
        | (_numbers(by_key[part.cell.key]) if part.cell.key in by_key else {})
        for part in cells
        if part.cell.key in by_key or part.cell.key in timelines
    ]


def _cell_heading(
    part: CellSummary, cells: Sequence[CellSummary], by_key: dict[str, DatabaseCell]
) -> str:
    same = [cell for cell in cells if cell.cell.workload == part.cell.workload]
    several = len({cell.cell.workload for cell in cells}) > 1
    words = [part.cell.workload if several else "", cell_phrase(part, label_names(same))]
    name = ": ".join(filter(None, words)) or part.cell.workload
    # A target's name keeps the user's spelling.
    name = name if several or "target" in label_names(same) else capitalized(name)
    real = batch_length(part.samples, "real")
    rate = seconds_interval(real) if real else format_estimate(part.iops)
    known = by_key.get(part.cell.key)
    bound = f", bound by: {known.verdict.bound}" if known else ""
    return f"{name}: {part.blank or rate}{bound}"


def _numbers(cell: DatabaseCell) -> dict[str, object]:
    """Return a cell's tables, its other readings, and the readings that were zero."""
    tables = [facts_table(cell)]
    tables += [events_table(cell)] if cell.wait_events else []
    tables += [rivals_table(cell)] if cell.verdict.rivals else []
    return {"tables": tables, "others": others_table(cell), "nothing": absent_readings(cell)}


def _notes(part: CellSummary) -> list[str]:
    """Return the notes of the cell's samples, each sentence once."""
    records = [sample.database for sample in part.samples if sample.database]
    return list(dict.fromkeys(note for record in records for note in record.notes))


def database_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the export columns of each database cell, by its key."""
    found = (
        {cell.cell.key: cell for cell in analysis.cells}
        if (analysis := database_of(summary))
        else {}
    )
    return {
        part.cell.key: _columns(part, found[part.cell.key])
        for part in summary.cells
        if part.cell.key in found
    }


def _columns(summary: CellSummary, found: DatabaseCell) -> dict[str, Field]:
    """Return the columns that only database cells have."""
    real_s = found.batch_s.get("real")
    return {
        "server": found.server,
        "start_state": found.start_state,
        "database_bytes": found.database_bytes,
        "loaded_s": found.loaded_s,
        "bound": found.verdict.bound,
        "client_cpu_share": found.client_cpu_share,
        "ceiling_per_s": found.ceiling_per_s,
        **_shares(found.reads),
        **(interval_columns("real_s", real_s) if real_s else {}),
        **_driver_totals(summary.samples),
    }


def _shares(reads: ReadShares | None) -> dict[str, Field]:
    if reads is None:
        return {}
    return {
        "reads_shared_buffers_share": reads.shared_buffers.value,
        "reads_page_cache_share": reads.page_cache.value,
        "reads_device_share": reads.device.value,
    }


def _driver_totals(samples: Sequence[Sample]) -> dict[str, Field]:
    """Return the mean over the rounds of each total that the driver printed in all of them."""
    totals = [sample.database.reported for sample in counted(samples) if sample.database]
    names = (
        [name for name in totals[0] if all(name in round_totals for round_totals in totals)]
        if totals
        else []
    )
    return {
        f"reported_{name}": statistics.fmean(round_totals[name] for round_totals in totals)
        for name in names
    }
