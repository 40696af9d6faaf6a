"""The section on layouts: as built, figures of the article, device I/O, effects of failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from seatrial.findings.model import Summary
from seatrial.report.exports.csv_table import Field, interval_columns
from seatrial.report.figures.model import Figure, TimelineMark
from seatrial.report.markup import fill
from seatrial.report.part import Detail, PagePart
from seatrial.report.table import Table, first_rows
from seatrial.results.model import Sample
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import format_plural, format_share
from seatrial.trials.database.report.timelines import timeline_figure, timeline_table
from seatrial.trials.layouts.analysis.figures import gravity
from seatrial.trials.layouts.analysis.model import Accounting, LayoutAnalysis, Recovery, layouts_of
from seatrial.trials.layouts.analysis.overview import verdict_line
from seatrial.trials.layouts.report.figures import (
    FIGURE_ID,
    NUMBERS_ID,
    layout_figures,
    numbers_sentence,
    shown_figures,
)
from seatrial.trials.layouts.report.phrases import (
    BuiltVariant,
    array_marks,
    dips_of,
    mean_of_builds,
    misaligned,
    variants_of,
)
from seatrial.trials.layouts.report.tables import (
    accounting_table,
    best_table,
    built_table,
    by_size,
    consequences_table,
    data_text,
    failure_tables,
    failure_text,
    figure_table,
    informative,
    members_table,
    phases_table,
    ratios_table,
    rebuild_text,
)
from seatrial.units import NS_PER_S

HEADING: Final = "Layouts"
ROWS_MAX: Final = 200
"""Maximum rows of a folded table; the JSON export has all rows."""
_EVENTS_SHOWN_MAX: Final = 3
"""Maximum events in a round's title; all events are listed below the chart."""


def layout_part(summary: Summary, detail: Detail) -> PagePart:
    """Return the part of a page on a run's layouts, within the limits of ``detail``."""
    variants = variants_of(summary)
    if not variants:
        return PagePart("layouts", HEADING, Markup(""), [])
    found = layouts_of(summary)
    figures = layout_figures(found) if found else []
    timelines = (
        _timelines(found, summary.cells, detail.rounds_max, detail.timelines_max) if found else {}
    )
    section = fill(
        "trials/layouts/report/section.html",
        heading=HEADING,
        line=verdict_line(summary) or format_plural(len(variants), "layout"),
        best=best_table(found.best) if found and found.best else None,
        **_figures_part(found, figures),
        **_failures_part(found, timelines),
        **_accounting_part(found),
        built=built_table(variants),
        built_label=f"Commands and facts of {format_plural(len(variants), 'layout')}",
        misaligned=misaligned(variants),
        variants=[_construction(each, number) for number, each in enumerate(variants, start=1)],
        **_ratios_part(found),
    )
    return PagePart("layouts", HEADING, section, [*figures, *timelines.values()])


def _figures_part(found: LayoutAnalysis | None, figures: Sequence[Figure]) -> dict[str, object]:
    """Return the article's figures, which of them are missing, and tables of their numbers."""
    if not found or not found.figures:
        return {"figures": [], "figures_had": "", "figure_tables": [], "figures_id": NUMBERS_ID}
    against_drives = [each for each in shown_figures(found.figures) if each.against == "drives"]
    return {
        "figures": [figure for figure in figures if figure.id == FIGURE_ID],
        "figures_had": numbers_sentence(found.figures),
        "figure_tables": [
            figure_table(each, number) for number, each in enumerate(against_drives, start=1)
        ],
        "figures_id": NUMBERS_ID,
    }


def _timelines(
    found: LayoutAnalysis, cells: Sequence[CellSummary], rounds_max: int, timelines_max: int
) -> dict[str, Figure]:
    """Return the timelines of the worst failures, by the keys of their cells."""
    by_key = {part.cell.key: part for part in cells}
    ranked = sorted(found.recoveries, key=gravity)
    kept = {recovery.cell.key for recovery in ranked[:timelines_max]}
    figures = {}
    for number, recovery in enumerate(found.recoveries, start=1):
        part = by_key.get(recovery.cell.key)
        if part is None or recovery.cell.key not in kept:
            continue
        figure = timeline_figure(part, f"failure-{number}", rounds_max, marker=_reported)
        if figure is not None:
            figures[recovery.cell.key] = figure
    return figures


def _reported(sample: Sample) -> tuple[str, list[TimelineMark]]:
    """Return the events of a sample's array as a title, and the phases with reduced service."""
    marks = array_marks(sample)
    text = "; ".join(mark.text for mark in marks[:_EVENTS_SHOWN_MAX]) or "no event"
    return text, dips_of(sample)


def _failures_part(found: LayoutAnalysis | None, timelines: dict[str, Figure]) -> dict[str, object]:
    """Return each failure's timeline and effects, and the tables of all failures."""
    if not found or not found.recoveries:
        return {"failures": [], "failure_tables": []}
    failures = []
    for number, recovery in enumerate(found.recoveries, start=1):
        figure = timelines.get(recovery.cell.key)
        tables = [
            phases_table(recovery, f"layout-phases-{number}"),
            consequences_table(recovery, f"layout-consequences-{number}"),
        ]
        failures.append(
            {
                "heading": _failure_heading(recovery),
                "figure": figure,
                "tables": tables,
                "timeline": timeline_table(figure) if figure else "",
            }
        )
    return {"failures": failures, "failure_tables": failure_tables(found)}


def _failure_heading(recovery: Recovery) -> str:
    lowest = recovery.lowest_share
    dip = "" if lowest is None else f", slowest second {format_share(lowest)} of the rate before"
    return f"{failure_text(recovery)}: rebuild {rebuild_text(recovery)}{dip}, {data_text(recovery)}"


def _accounting_part(found: LayoutAnalysis | None) -> dict[str, object]:
    """Return the device I/O per request, by size, and by drive."""
    if not found or not found.accounting:
        return {"accounting": None, "folded": []}
    shown = informative(found.accounting)
    sizes = by_size(found.accounting)
    folded = [("Device I/O by drive", members_table(shown))]
    if len(sizes) > len(shown):
        label = f"Device I/O of all {format_plural(len(sizes), 'kind')} of requests"
        folded.insert(0, (label, accounting_table(sizes)))
    return {
        "accounting": accounting_table(shown, with_rule=True),
        "folded": [
            (label, first_rows(table, ROWS_MAX), _more(len(table.rows))) for label, table in folded
        ],
    }


def _more(rows: int) -> str:
    """Return how many rows were left out to limit the size of the page."""
    return format_plural(rows - ROWS_MAX, "more row") if rows > ROWS_MAX else ""


def _construction(variant: BuiltVariant, number: int) -> dict[str, object]:
    """Return a layout's drives, commands, facts and notes."""
    record = variant.record
    roles = Table(
        id=f"layout-roles-{number}",
        title=f"Drives of {variant.spec.label}",
        labels=1,
        headers=["Drive", "Role"],
        rows=[[drive, role] for drive, role in record.roles.items()],
    )
    return {
        "label": variant.spec.label,
        "roles": roles,
        "facts": {"device": record.device, **record.facts},
        "commands": "\n".join(record.commands),
        "notes": list(dict.fromkeys(note for _, each in variant.records for note in each.notes)),
    }


def _ratios_part(found: LayoutAnalysis | None) -> dict[str, object]:
    if not found or not found.ratios:
        return {"ratios": None, "ratios_label": ""}
    table = ratios_table(found.ratios)
    return {
        "ratios": table,
        "ratios_label": f"{table.title}, {format_plural(len(table.rows), 'pair')}",
    }


def layout_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the columns of each cell on a layout, by its key."""
    variants = {variant.spec.label: variant for variant in variants_of(summary)}
    found = layouts_of(summary)
    accounts = {each.cell.key: each for each in found.accounting} if found else {}
    recoveries = {each.cell.key: each for each in found.recoveries} if found else {}
    columns = {}
    for part in summary.cells:
        labels = [sample.layout.layout.get("label") for sample in part.samples if sample.layout]
        variant = variants.get(str(labels[0])) if labels else None
        if variant is None:
            continue
        key = part.cell.key
        columns[key] = {
            **_built(variant),
            **_device(accounts.get(key)),
            **_failure_columns(recoveries.get(key)),
        }
    return columns


def _built(variant: BuiltVariant) -> dict[str, Field]:
    spec, record = variant.spec, variant.record
    return {
        "layout": spec.label,
        "layout_backend": spec.backend,
        "layout_level": spec.level,
        "layout_drives": spec.legs * spec.drives,
        "layout_legs": spec.legs,
        "layout_spares": spec.legs * spec.spares,
        "layout_chunk_kib": spec.chunk_kib,
        "layout_filesystem": spec.filesystem,
        "layout_usable_bytes": record.usable_bytes,
        "layout_built_s": _mean_s(variant, "built_s"),
        "layout_synced_s": _mean_s(variant, "synced_s"),
        "layout_aligned": not record.misaligned,
    }


def _mean_s(variant: BuiltVariant, name: str) -> float:
    mean = mean_of_builds(variant, name)
    return mean.value / NS_PER_S if mean else 0.0


def _device(account: Accounting | None) -> dict[str, Field]:
    """Return the device I/O per request, and what the level requires."""
    if account is None:
        return {}
    rule = account.rule
    columns = {
        **interval_columns("device_reads", account.reads),
        **interval_columns("device_writes", account.writes),
        "device_reads_rule": rule.reads if rule else None,
        "device_writes_rule": rule.writes if rule else None,
    }
    if account.write_bytes:
        columns |= interval_columns("device_write_bytes_ratio", account.write_bytes)
    return columns


def _failure_columns(recovery: Recovery | None) -> dict[str, Field]:
    """Return the effects of a failure: rebuild, lowest rate, time without redundancy, errors."""
    if recovery is None:
        return {}
    rebuild = recovery.rebuild_time
    return {
        "failure_rebuild_s": rebuild.value / NS_PER_S if rebuild else None,
        "failure_window_s": recovery.window_s if recovery.exposed else 0.0,
        "failure_window_is_open": recovery.exposed and recovery.window_open_s is not None,
        "failure_lowest_share": recovery.lowest_share,
        "failure_failed": recovery.failed_count,
        "failure_corrupt_blocks": recovery.corrupt_blocks,
        "failure_unreadable_bytes": recovery.unreadable_bytes,
    }
