"""The HTML report: one file that needs nothing else, readable with scripts off.

Verdict first, then thresholds and findings, the charts that matter, tables, the machine, and the
exact study.
The page asks no network for anything, and its policy (report/assets.py) forbids it to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seatrial.findings.model import Summary
from seatrial.report.charted import charted_part, left_out
from seatrial.report.document import BYTES_MAX, chapters, page_document
from seatrial.report.figures.heatmap import COLUMNS_MAX
from seatrial.report.markup import Markup, element
from seatrial.report.part import Detail
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
from seatrial.topic import topics

_DETAILS = (
    Detail(COLUMNS_MAX, every_figure=True, rounds_max=100, timelines_max=100),
    Detail(60, every_figure=True, rounds_max=3, timelines_max=100),
    Detail(60, every_figure=True, rounds_max=1, timelines_max=24),
    Detail(60, every_figure=False, rounds_max=1, timelines_max=12),
    Detail(12, every_figure=False, rounds_max=1, timelines_max=6),
    Detail(12, every_figure=False, rounds_max=1, timelines_max=6, charted_cells_max=1000),
    Detail(6, every_figure=False, rounds_max=1, timelines_max=3, charted_cells_max=300),
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
        page = _rendered(summary, plain, detail._replace(with_published=with_published))
        if len(page.encode()) <= BYTES_MAX:
            break
    return page


def _rendered(summary: Summary, plain: Sequence[Table], detail: Detail) -> str:
    parts = [part for topic in topics() if (part := topic.part(summary, detail))]
    shown = [part for part in parts if part.section]
    charted = charted_part(summary, detail.charted_cells_max)
    figures = [each for topic in topics() for each in topic.figures(charted, detail)]
    run = summary.run
    numbers = [
        *table_sections(summary.cells, plain, every_figure=detail.every_figure),
        *steady_section(summary.steady, summary.cells),
        *event_sections(summary.cells, figures),
    ]
    all_chapters = {
        "thresholds": ("Thresholds", bool(summary.thresholds)),
        "findings": ("Findings", True),
        **{part.key: (part.heading, True) for part in shown},
        "charts": ("Charts", bool(figures)),
        "tables": ("Tables", bool(numbers)),
        "origin": ("Origin", origin_of(run) is not None),
        "machine": ("Machine", _has_machine(run)),
        "study": ("Study", origin_of(run) is None),
    }
    body = [
        element("a", "Skip to the findings", href="#findings", class_="skip"),
        head(summary),
        chapters({key: name for key, (name, is_there) in all_chapters.items() if is_there}),
        element(
            "main",
            thresholds_section(summary.thresholds),
            findings_section(summary.findings),
            *(part.section for part in shown),
            charts_section(figures, left_out(summary, charted)),
            tables_section(numbers),
            *_provenance(run),
        ),
    ]
    return page_document(
        f"{run.label or run.study_name}: Seatrial report",
        body,
        [*(figure for part in shown for figure in part.figures), *figures],
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
