"""A topic's section on the page of a run, and how much detail fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from seatrial.grouping import grouped
from seatrial.report.figures.model import Figure
from seatrial.report.figures.naming import name_by, varying
from seatrial.report.markup import fill, macro
from seatrial.report.picture import static_picture
from seatrial.report.table import Table, doubt_text, latency_text
from seatrial.report.tables import start_bytes
from seatrial.stats.model import AtLeast, CellSummary, Estimate
from seatrial.stats.wording import format_count, format_plural, format_size, format_value
from seatrial.topic import titles


class Detail(NamedTuple):
    """How much detail of a run the page shows, apart from tables, findings and charts of rates.

    Attributes:
        heat_views_max: The most cells with latency over time.
        every_figure: Whether every figure of every cell is shown.
        rounds_max: The most rounds of a cell in charts over time.
        timelines_max: The most cells in charts over time.
        charted_cells_max: The most cells with charts.
        with_published: Whether figures published in 2008 and 2010 are shown from the start.
    """

    heat_views_max: int
    every_figure: bool
    rounds_max: int
    timelines_max: int
    charted_cells_max: int = 1_000_000
    with_published: bool = False


class PagePart(NamedTuple):
    """The section of a topic on the page of a run.

    Attributes:
        key: The section's ``id``, the target of links.
        heading: Its heading.
        section: Its content; empty if the run has nothing of the topic.
        figures: Its charts, which the page's script draws.
    """

    key: str
    heading: str
    section: Markup
    figures: list[Figure]


KEY_FIGURES_MAX: Final = 3
_PERCENTILES = ("p50", "p90", "p99", "p99.9")


def tables_section(numbers: Sequence[Markup]) -> Markup:
    """Return the part of a page with all its tables; empty without tables."""
    headings = [re.search(r"<h3>(.*?)</h3>", each) for each in numbers]
    names = [Markup(found[1]).unescape() for found in headings if found]  # noqa: S704 - escaped
    return fill("report/templates/tables.html", numbers=numbers, line=", ".join(names))


def table_sections(
    cells: Sequence[CellSummary], plain: Sequence[Table], *, every_figure: bool = True
) -> list[Markup]:
    """Return a section for each kind of workload: its plain tables, then all of its figures.

    Without ``every_figure``, a sentence says where to find all of them.
    """
    by_kind = grouped(cells, lambda s: s.cell.kind)
    plain_by_kind = grouped(plain, lambda table: table.id.partition("-")[0])
    return [
        fill(
            "report/templates/kind.html",
            id=f"table-{kind}",
            title=title,
            tables=plain_by_kind.get(kind, []),
            cells=format_plural(len(by_kind[kind]), "test"),
            percentiles=_PERCENTILES,
            rows=_rows(by_kind[kind]) if every_figure else None,
        )
        for kind, title in titles().items()
        if kind in by_kind
    ]


def plain_table(table: Table, *, captioned: bool = True) -> Markup:
    """Return one of the terminal's tables, with its title by default."""
    return macro("report/templates/parts.html", "plain_table", table, captioned)


class CellFigure(NamedTuple):
    """One figure of a cell in a table.

    Attributes:
        text: Formatted.
        doubt: Its interval, formatted.
        value: Exact; None if absent.
    """

    text: str
    doubt: str = ""
    value: str | int | None = None


def _rows(cells: Sequence[CellSummary]) -> list[dict[str, object]]:
    """Return every figure of the cells: rates, all percentiles, counts."""
    factors = varying(cells, leave_out=("zone",))  # a zone is named by its start
    return [row for summary in cells for row in _cell_rows(summary, factors)]


def _cell_rows(summary: CellSummary, factors: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield a row for each operation kind of a cell; the first has rates and counts."""
    name = _cell_label(summary, factors)
    counts = [
        CellFigure(format_count(count), value=count)
        for count in (summary.completed, summary.failed, len(summary.samples))
    ]
    row = {"key": summary.cell.key, "blank": summary.blank}
    if summary.blank:
        yield row | {"label": name, "after": counts}
        return
    before = [_figure(summary.iops), _figure(summary.bandwidth)]
    after = counts
    for operation, latency in summary.latency.items():
        bounds = summary.latency_at_least.get(operation)
        figures = [
            *(_percentile(latency, percentile, bounds) for percentile in _PERCENTILES),
            _largest(latency),
            _percentile(latency, "mean"),
        ]
        label = f"{name}: {operation}" if len(summary.latency) > 1 else name
        yield row | {"label": label, "before": before, "figures": figures, "after": after}
        before, after = [CellFigure("")] * 2, [CellFigure("")] * 3


def _cell_label(summary: CellSummary, factors: Sequence[str]) -> str:
    words = name_by(summary, factors) or summary.cell.workload
    if summary.cell.kind != "map":
        return words
    begin_bytes = start_bytes(summary)
    if begin_bytes is None:
        return ", ".join(filter(None, [words, name_by(summary, ["zone"])]))
    return f"{words}, from {format_size(begin_bytes)}"


def _percentile(
    latency: dict[str, Estimate], name: str, bounds: dict[str, AtLeast] | None = None
) -> CellFigure:
    if name not in latency:
        return CellFigure(latency_text(latency, name, bounds))
    return _figure(latency[name])


def _largest(latency: dict[str, Estimate]) -> CellFigure:
    """Return the slowest request, an observation without an interval."""
    if "max" not in latency:
        return _percentile(latency, "max")
    largest = _figure(latency["max"])
    return largest if latency["max"].over == "reported" else largest._replace(doubt="")


def _figure(estimate: Estimate) -> CellFigure:
    """Return a figure with its interval and its exact value."""
    value = repr(float(estimate.value))
    return CellFigure(format_value(estimate), doubt_text(estimate), value)


def key_section(figures: Sequence[Figure]) -> Markup:
    """Return the key charts, each also as a picture that needs no script."""
    return fill(
        "report/templates/key.html", figures=[(each, static_picture(each)) for each in figures]
    )


def first_with_prefixes(figures: Sequence[Figure], *beginnings: str) -> list[Figure]:
    """Return for each prefix the first figure whose identifier has it."""
    found = (
        next((each for each in figures if each.id.startswith(beginning)), None)
        for beginning in beginnings
    )
    return [each for each in found if each is not None]


def without_frames(
    section: Markup, above: Sequence[Figure], too_short: Sequence[Figure] = ()
) -> Markup:
    """Return a topic's section without some of its charts.

    Args:
        section: The section.
        above: Charts that the page shows above: linked instead of shown again.
        too_short: Charts of too few readings over time: left out, as the tables have these.
    """
    for figure in too_short:
        section = section.replace(macro("report/templates/parts.html", "frame", figure), "")
    for figure in above:
        frame = macro("report/templates/parts.html", "frame", figure)
        link = macro("report/templates/parts.html", "shown_above", figure)
        section = section.replace(frame, link)
    return section


def charts_section(
    figures: Sequence[Figure], left_out: str = "", heading: str = "Charts"
) -> Markup:
    """Return a frame for each chart; empty without charts.

    Args:
        figures: The charts.
        left_out: What has no chart, as a sentence; empty if everything has.
        heading: Heading of the part of the page.
    """
    return fill(
        "report/templates/charts.html",
        figures=figures,
        left_out=left_out,
        heading=heading,
        line=", ".join(dict.fromkeys(figure.topic for figure in figures)),
    )
