"""The HTML report: one self-contained file, readable with scripts off.

The first screen has the answer. Then come the three most important charts, thresholds and findings;
the topics, all other charts, tables, machine and study are collapsed to one line each. The page
makes no network requests, which its policy (report/document.py) forbids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from markupsafe import Markup

from seatrial.findings.answer import RunAnswer, answer
from seatrial.findings.model import Summary
from seatrial.findings.ranks import ranked
from seatrial.grouping import grouped
from seatrial.report.document import BYTES_MAX, chapters, page_document
from seatrial.report.figures.latency import COLUMNS_MAX
from seatrial.report.figures.model import Figure, HeatColumn, has_enough_points
from seatrial.report.first_screen import first_screen, worst_anchors
from seatrial.report.lab import lab_notice
from seatrial.report.markup import fill
from seatrial.report.part import (
    KEY_FIGURES_MAX,
    Detail,
    charts_section,
    first_with_prefixes,
    key_section,
    table_sections,
    tables_section,
    without_frames,
)
from seatrial.report.sections import (
    findings_section,
    machine_section,
    origin_section,
    particulars,
    status_phrase,
    steady_section,
    study_section,
    thresholds_section,
)
from seatrial.report.table import Table
from seatrial.report.tables import tables as plain_tables
from seatrial.results.model import Run, Sample, origin_of
from seatrial.stats.facts import fact_name, fact_text
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_plural,
    format_size,
    moment,
)
from seatrial.topic import topic_of, topics


def charted_part(summary: Summary, cells_max: int) -> Summary:
    """Return a run with the targets that get charts: all of them if its cells are few enough.

    Targets that are fastest at something take precedence, then the others in their order.

    Args:
        summary: The run.
        cells_max: The most cells in charts; one target gets charts whatever its number of cells.
    """
    if len(summary.cells) <= cells_max:
        return summary
    by_target = grouped(summary.cells, lambda part: part.cell.target)
    best = [target for topic in topics() for target in topic.best_targets(summary)]
    order = [target for target in dict.fromkeys([*best, *by_target]) if target in by_target]
    kept: set[str] = set()
    count = 0
    for target in order:
        count += len(by_target[target])
        if kept and count > cells_max:
            break
        kept.add(target)
    cells = [part for part in summary.cells if part.cell.target in kept]
    return msgspec.structs.replace(summary, cells=cells)


def left_out(summary: Summary, charted: Summary) -> str:
    """Return which targets of a run have charts, as a sentence; empty if all have."""
    targets = dict.fromkeys(part.cell.target for part in summary.cells)
    drawn = dict.fromkeys(part.cell.target for part in charted.cells)
    if len(drawn) == len(targets):
        return ""
    return (
        f"Charts of all {len(targets)} targets would make this page too large: these are of "
        f"{', '.join(drawn)}. The tables have all of them."
    )


_ROWS_MAX = 200
_READING = 0.0  # counted once from full histograms: three digits, no interval


def event_sections(cells: Sequence[CellSummary], figures: Sequence[Figure]) -> list[Markup]:
    """Return the tables of stalls, errors and corrupt blocks, if there are any, and of time."""
    found = [
        _events("Stalls", ["Start", "Length", "Cause", "Waiting", "Seen"], _stalls(cells)),
        _events("Errors", ["At", "Request", "Offset", "Length", "Error"], _errors(cells)),
        _events("Corrupt blocks", ["Kind", "Offset", "Detail"], _corruptions(cells)),
        *(_timeline(figure) for figure in figures if figure.kind == "heat"),
    ]
    return [part for part in found if part]


def _samples(cells: Iterable[CellSummary]) -> Iterator[tuple[str, Sample]]:
    for summary in cells:
        for sample in summary.samples:
            yield format_cell(summary.cell), sample


def _stalls(cells: Iterable[CellSummary]) -> Iterator[list[str]]:
    for name, sample in _samples(cells):
        for stall in sample.stalls:
            seen = (f"{fact_name(key)} {fact_text(key, v)}" for key, v in stall.evidence.items())
            waiting = (f"{format_count(n)} {kind}" for kind, n in stall.operations.items())
            yield [
                name,
                str(sample.round + 1),
                format_duration_s(stall.start_s),
                format_duration_s(stall.length_s),
                stall.cause,
                ", ".join(waiting),
                ", ".join(seen),
            ]


def _errors(cells: Iterable[CellSummary]) -> Iterator[list[str]]:
    for name, sample in _samples(cells):
        for error in sample.errors:
            yield [
                name,
                str(sample.round + 1),
                format_duration_s(error.at_s),
                error.operation,
                format_count(error.offset_bytes),
                format_size(error.length_bytes),
                f"{error.name} ({error.errno})",
            ]


def _corruptions(cells: Iterable[CellSummary]) -> Iterator[list[str]]:
    for name, sample in _samples(cells):
        if sample.verification is None:
            continue
        for block in sample.verification.corruptions:
            kind = block.kind.replace("_", " ")
            offset = format_count(block.offset_bytes)
            yield [name, str(sample.round + 1), kind, offset, block.detail]


def _events(title: str, headers: Sequence[str], rows: Iterable[list[str]]) -> Markup:
    """Return one table of events; empty without events."""
    listed = list(rows)
    if not listed:
        return Markup("")
    rest = len(listed) - _ROWS_MAX
    return fill(
        "report/templates/events.html",
        id=f"table-{title.lower().replace(' ', '-')}",
        title=title,
        headers=["Test", "Round", *headers],
        rows=listed[:_ROWS_MAX],
        more=format_plural(rest, "more row") if rest > 0 else "",
    )


def _timeline(figure: Figure) -> Markup:
    """Return the timeline of the cell that the heat map shows first.

    With scripts, the table follows the cell that is selected there (assets/page.js).
    """
    view = figure.views[figure.chosen]
    if view.heat is None:
        return Markup("")
    rows = [
        _column(sample.round, view.heat.column_s, column)
        for sample in view.heat.samples
        for column in sample.columns
    ]
    return fill(
        "report/templates/timeline.html",
        figure=figure,
        view=view,
        column=format_duration_s(view.heat.column_s),
        rows=rows,
    )


def _column(round_index: int, column_s: float, column: HeatColumn) -> list[str]:
    return [
        str(round_index + 1),
        f"{column.index * column_s:.4g}",
        format_count(sum(column.counts)),
        *(format_duration_ns(ns, _READING) for ns in (column.p50_ns, column.p99_ns, column.max_ns)),
    ]


_DETAILS = (
    Detail(COLUMNS_MAX, every_figure=True, rounds_max=100, timelines_max=100),
    Detail(60, every_figure=True, rounds_max=3, timelines_max=100),
    Detail(60, every_figure=True, rounds_max=1, timelines_max=24),
    Detail(60, every_figure=False, rounds_max=1, timelines_max=12),
    Detail(12, every_figure=False, rounds_max=1, timelines_max=6),
    Detail(12, every_figure=False, rounds_max=1, timelines_max=6, charted_cells_max=1000),
    Detail(6, every_figure=False, rounds_max=1, timelines_max=3, charted_cells_max=300),
)
"""From most to least; the first one that keeps the page within its bound is used."""

_CELLS_IN_FULL_MAX = 1000
"""With more cells, not even all figures fit, so the first ones are not tried."""
_FIRST_OF_MANY = 3


def render(
    summary: Summary,
    *,
    tables: Sequence[Table] | None = None,
    with_published: bool = False,
    profile: str = "",
    earlier: Sequence[Sequence[Sample]] = (),
) -> str:
    """Return the report of one run as a self-contained HTML document.

    A run of hundreds of cells is shown with less detail, and the page says so.

    Args:
        summary: The run with its cells and findings.
        tables: Tables to show instead of those of report/tables.py.
        with_published: Whether figures published in 2008 and 2010 are shown at first; the reader
            can switch them on and off.
        profile: Name or file of the profile that figures are graded by; empty for none.
        earlier: Samples of earlier runs that figures are ranked among.

    Raises:
        UsageError: When there is no such profile.
        AssetError: When the installation's ECharts is not the one that was pinned.
    """
    plain = plain_tables(summary) if tables is None else tables
    first = ranked(answer(summary, profile), summary.cells, earlier)
    page = ""
    is_large = len(summary.cells) > _CELLS_IN_FULL_MAX
    for detail in _DETAILS[_FIRST_OF_MANY if is_large else 0 :]:
        page = _rendered(summary, first, plain, detail._replace(with_published=with_published))
        if len(page.encode()) <= BYTES_MAX:
            break
    return page


def _rendered(summary: Summary, first: RunAnswer, plain: Sequence[Table], detail: Detail) -> str:
    parts = [part for topic in topics() if (part := topic.part(summary, detail))]
    shown = [part for part in parts if part.section]
    charted = charted_part(summary, detail.charted_cells_max)
    figures = [each for topic in topics() for each in topic.charts(charted, detail)]
    of_topics = [figure for part in shown for figure in part.figures]
    too_short = [figure for figure in of_topics if not any(map(has_enough_points, figure.views))]
    drawn = [each for figure in figures if (each := figure.long_enough())]
    every = [*(figure for figure in of_topics if figure not in too_short), *drawn]
    keys = key_figures(summary, every)
    others = [figure for figure in drawn if figure not in keys]
    run = summary.run
    numbers = [
        *table_sections(summary.cells, plain, every_figure=detail.every_figure),
        *steady_section(summary.steady, summary.cells),
        *event_sections(summary.cells, figures),
    ]
    all_chapters = {
        "key": ("Key charts", bool(keys)),
        "thresholds": ("Thresholds", bool(summary.thresholds)),
        "findings": ("Findings", True),
        **{part.key: (part.heading, True) for part in shown},
        "charts": ("More charts" if keys else "Charts", bool(others)),
        "tables": ("Tables", bool(numbers)),
        "origin": ("Origin", origin_of(run) is not None),
        "machine": ("Machine", _has_machine(run)),
        "study": ("Study", origin_of(run) is None),
    }
    body = fill(
        "report/templates/body.html",
        head=_head(summary, first),
        chapters=chapters(
            {key: name for key, (name, is_there) in all_chapters.items() if is_there}
        ),
        parts=[
            key_section(keys),
            thresholds_section(summary.thresholds),
            findings_section(summary.findings),
            *(without_frames(part.section, keys, too_short) for part in shown),
            charts_section(others, left_out(summary, charted), all_chapters["charts"][0]),
            tables_section(numbers),
            *provenance(run),
        ],
        skip=("findings", "the findings"),
    )
    return page_document(
        title_of(run, first.profile),
        body,
        every,
        f"Seatrial {run.seatrial_version}, run {run.id}, {moment(run.started_at)}",
    )


def title_of(run: Run, profile: str) -> str:
    """Return the title of a run's page; it names the profile that grades the figures, if any."""
    graded = f", profile {profile}" if profile else ""
    return f"{run.label or run.study_name}: Seatrial report{graded}"


def _head(summary: Summary, first: RunAnswer) -> Markup:
    """Return the first screen."""
    run = summary.run
    return first_screen(
        run.label or run.study_name,
        first,
        particulars(summary),
        anchors=worst_anchors(first, summary.findings),
        words=summary.verdict,
        status=status_phrase(run),
        notice=lab_notice(run),
    )


def key_figures(summary: Summary, figures: Sequence[Figure]) -> list[Figure]:
    """Return the most important charts of a run, at most three.

    Those of the run's main topic come first, then those of the topic that was measured for longest.
    """
    length_s: defaultdict[str, float] = defaultdict(float)
    for part in summary.cells:
        length_s[topic_of(part.cell).name] += sum(each.duration_s for each in part.samples)
    ordered = sorted(topics(), key=lambda topic: (not topic.charts_first, -length_s[topic.name]))
    found = [f for topic in ordered for f in first_with_prefixes(figures, *topic.key_charts)]
    return found[:KEY_FIGURES_MAX]


def _has_machine(run: Run) -> bool:
    """Return whether the page has a section on the machine."""
    return origin_of(run) is None or run.fingerprint_before.is_taken


def provenance(run: Run) -> Iterator[Markup]:
    """Yield machine and study; for an imported run its source."""
    origin = origin_of(run)
    if origin is not None:
        yield origin_section(origin)
    if _has_machine(run):
        yield machine_section(run)
    if origin is None:
        yield study_section(run)
