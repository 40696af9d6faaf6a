"""The HTML report: one file that needs nothing else, readable with scripts off.

Verdict first, then thresholds and findings, the charts that matter, tables, the machine, and the
exact study.
The page asks no network for anything, and its policy (report/assets.py) forbids it to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from seatrial.findings.model import Summary
from seatrial.report.document import BYTES_MAX, chapters, page_document
from seatrial.report.figures.heatmap import COLUMNS_MAX
from seatrial.report.figures.page_order import charted_part, figures_of_run, left_out
from seatrial.report.markup import Markup, element
from seatrial.report.sections.charts import charts_section
from seatrial.report.sections.events import event_sections
from seatrial.report.sections.findings import findings_section
from seatrial.report.sections.head import head
from seatrial.report.sections.machine import machine_section
from seatrial.report.sections.origin import origin_section
from seatrial.report.sections.steady import steady_section
from seatrial.report.sections.study import study_section
from seatrial.report.sections.tables import table_sections, tables_section
from seatrial.report.sections.thresholds import thresholds_section
from seatrial.report.tables import Table
from seatrial.report.tables import tables as plain_tables
from seatrial.results.model import Run
from seatrial.results.origin import origin_of
from seatrial.stats.wording import moment
from seatrial.trials.audit.report.section import audits_section
from seatrial.trials.database.report.section import HEADING, database_part
from seatrial.trials.layouts.report.section import HEADING as LAYOUTS_HEADING
from seatrial.trials.layouts.report.section import layout_part
from seatrial.trials.replay.report.section import HEADING as REPLAY_HEADING
from seatrial.trials.replay.report.section import replay_part

_CHAPTERS = {
    "thresholds": "Thresholds",
    "findings": "Findings",
    "layouts": LAYOUTS_HEADING,
    "replay": REPLAY_HEADING,
    "database": HEADING,
    "audits": "What the tables say",
    "charts": "Charts",
    "tables": "Tables",
    "origin": "Origin",
    "machine": "Machine",
    "study": "Study",
}


class _Detail(NamedTuple):
    """How much of a run the page shows; its tables, findings and charts of rates always."""

    heat_views_max: int
    every_figure: bool
    rounds_max: int
    courses_max: int
    charted_cells_max: int = 1_000_000


_DETAILS = (
    _Detail(COLUMNS_MAX, every_figure=True, rounds_max=100, courses_max=100),
    _Detail(60, every_figure=True, rounds_max=3, courses_max=100),
    _Detail(60, every_figure=True, rounds_max=1, courses_max=24),
    _Detail(60, every_figure=False, rounds_max=1, courses_max=12),
    _Detail(12, every_figure=False, rounds_max=1, courses_max=6),
    _Detail(12, every_figure=False, rounds_max=1, courses_max=6, charted_cells_max=1000),
    _Detail(6, every_figure=False, rounds_max=1, courses_max=3, charted_cells_max=300),
)
"""From the whole to the least; the first that keeps the page within its bound is taken."""

_CELLS_IN_FULL_MAX = 1000
"""Of more cells than that not even every figure has room, so that the first ones are not tried."""
_FIRST_OF_MANY = 3


def render(
    summary: Summary,
    *,
    tables: Sequence[Table] | None = None,
    with_published: bool = False,
) -> str:
    """Return the report of one run as a self-contained HTML document.

    A run of hundreds of cells is shown with less detail, and the page says so.

    Args:
        summary: The run with its cells and findings.
        tables: Tables to show in place of those of report/tables.py.
        with_published: Whether figures stand beside those published in 2008 and 2010 from the
            start; the reader can switch these on and off.

    Raises:
        AssetError: When the installation's ECharts is not the one that was pinned.
    """
    plain = plain_tables(summary) if tables is None else tables
    page = ""
    is_large = len(summary.cells) > _CELLS_IN_FULL_MAX
    for detail in _DETAILS[_FIRST_OF_MANY if is_large else 0 :]:
        page = _rendered(summary, plain, detail, with_published=with_published)
        if len(page.encode()) <= BYTES_MAX:
            break
    return page


def _rendered(
    summary: Summary, plain: Sequence[Table], detail: _Detail, *, with_published: bool
) -> str:
    database = database_part(
        summary,
        rounds_max=detail.rounds_max,
        courses_max=detail.courses_max,
        with_published=with_published,
    )
    replay = replay_part(summary, replays_max=detail.courses_max, with_published=with_published)
    layouts = layout_part(summary, rounds_max=detail.rounds_max, courses_max=detail.courses_max)
    charted = charted_part(summary, detail.charted_cells_max)
    figures = figures_of_run(charted, detail.heat_views_max)
    run = summary.run
    numbers = [
        *table_sections(summary.cells, plain, every_figure=detail.every_figure),
        *steady_section(summary.steady, summary.cells),
        *event_sections(summary.cells, figures),
    ]
    absent = {
        "thresholds": not summary.thresholds,
        "layouts": not layouts.section,
        "replay": not replay.section,
        "database": not database.section,
        "audits": not summary.audits,
        "charts": not figures,
        "tables": not numbers,
        "origin": origin_of(run) is None,
        "machine": not _has_machine(run),
        "study": origin_of(run) is not None,
    }
    body = [
        element("a", "Skip to the findings", href="#findings", class_="skip"),
        head(summary),
        chapters({key: name for key, name in _CHAPTERS.items() if not absent.get(key)}),
        element(
            "main",
            thresholds_section(summary.thresholds),
            findings_section(summary.findings),
            layouts.section,
            replay.section,
            database.section,
            audits_section(summary.audits, every_cell=detail.every_figure),
            charts_section(figures, left_out(summary, charted)),
            tables_section(numbers),
            *_provenance(run),
        ),
    ]
    return page_document(
        f"{run.label or run.study_name}: Seatrial report",
        body,
        [*layouts.figures, *replay.figures, *database.figures, *figures],
        f"Seatrial {run.seatrial_version}, run {run.id}, {moment(run.started_at)}",
    )


def _has_machine(run: Run) -> bool:
    """Tell whether there is a machine to show, or one to miss."""
    return origin_of(run) is None or bool(run.fingerprint_before)


def _provenance(run: Run) -> Iterator[Markup]:
    """Yield machine and study; of an imported run where it comes from."""
    origin = origin_of(run)
    if origin is not None:
        yield origin_section(origin)
    if _has_machine(run):
        yield machine_section(run)
    if origin is None:
        yield study_section(run)
