"""The section on a real cache device: its table, its warm-up with the prediction, its pool."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from seatrial.findings.model import Summary
from seatrial.report.exports.csv_table import Field
from seatrial.report.markup import fill
from seatrial.report.part import Detail, PagePart
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import capitalized, format_iops
from seatrial.trials.cache.analysis.warm_up import LEVELS, CacheCell, cache_analysis_of
from seatrial.trials.cache.report.pool_figures import pool_figures
from seatrial.trials.cache.report.pool_phrases import (
    misses_of_bounds,
    pool_phrase,
    sentences,
    verdict_phrase,
)
from seatrial.trials.cache.report.pool_tables import SOURCE, pool_tables, published_pools

HEADING: Final = "Cache device"
KEY: Final = "cache-device"
VIEWS_MAX: Final = 12
POOLS_MAX: Final = 16


def pool_part(summary: Summary, detail: Detail) -> PagePart:
    """Return a page's part on a run's cache devices, in as much detail as there is room for."""
    found = cache_analysis_of(summary)
    if found is None:
        return PagePart(KEY, HEADING, Markup(""), [])
    figures = pool_figures(summary, min(VIEWS_MAX, max(1, detail.timelines_max)))
    tables = pool_tables(found)
    by_key = {part.cell.key: part for part in summary.cells}
    section = fill(
        "trials/cache/report/pool_section.html",
        heading=HEADING,
        line=capitalized(verdict_phrase(found)),
        tables=tables,
        sentences=sentences(found),
        figures=figures,
        source=SOURCE if published_pools() and tables[0].groups else "",
        misses=misses_of_bounds(found),
        pools=[_pool(cell, by_key.get(cell.cell.key)) for cell in found.cells[:POOLS_MAX]],
    )
    return PagePart(KEY, HEADING, section, figures)


def _pool(cell: CacheCell, part: CellSummary | None) -> dict[str, object]:
    """Return the facts of a pool, by its first sample."""
    record = next((each.cache for each in part.samples if each.cache), None) if part else None
    device = "with a cache device" if cell.has_cache else "without one"
    facts: dict[str, str] = {}
    if record:
        facts = {
            "ran by": record.zfs,
            "ceiling": f"{format_iops(record.ceiling_per_s)} with disks that are not limited",
            "prediction": cell.law or "none",
        }
        if record.forecast:
            assumed = record.forecast.assumed
            facts["made from"] = ", ".join(
                f"{name} {value:,.0f}" for name, value in assumed.items()
            )
        cold = ", ".join(f"{name} {value:,.0f}" for name, value in record.cold.items() if value)
        facts["counters before"] = cold or "all 0"
        if record.notes:
            facts["note"] = " ".join(record.notes)
    commands = "\n".join(record.commands) if record else ""
    return {"name": f"{pool_phrase(cell)}, {device}", "facts": facts, "commands": commands}


def pool_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the columns of a CSV on a cell's pool: warm-up and errors, medians over rounds."""
    found = cache_analysis_of(summary)
    columns: dict[str, dict[str, Field]] = {}
    for cell in found.cells if found else []:
        own: dict[str, Field] = {}
        for level in LEVELS:
            own[f"warm_{level}_s"] = cell.median_of(each.warm_s.get(level) for each in cell.samples)
            own[f"predicted_{level}_s"] = cell.median_of(
                each.predicted_warm_s.get(level) for each in cell.samples
            )
        own["plateau_bytes_per_s"] = cell.plateau_bytes_per_s
        own["fill_law_points"] = cell.median_of(each.fill_law_points for each in cell.samples)
        columns[cell.cell.key] = own
    return columns
