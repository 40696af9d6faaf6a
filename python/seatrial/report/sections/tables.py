"""The tables: the plain ones that the terminal shows too, then every figure of every cell."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.report.figures.naming import grouped, name_by, varying
from seatrial.report.markup import Markup, element, join
from seatrial.report.table import Table, doubt_text, latency_text
from seatrial.report.tables import start_bytes
from seatrial.stats.model import AtLeast, CellSummary, Estimate
from seatrial.stats.wording import format_count, format_plural, format_size, format_value
from seatrial.topic import titles

_ON_ONE_LINE_MAX = 26
_WITH_DOUBT = (
    "every figure, with its 95 % interval over the rounds, or the median and the range of rounds "
    "that differ by more than twice"
)
_PERCENTILES = ("p50", "p90", "p99", "p99.9")


def scrolling(table: Markup, label: str) -> Markup:
    """Return a wide table in a frame of its own that scrolls, also by keyboard."""
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def tables_section(numbers: Sequence[Markup]) -> Markup:
    """Return the part of a page that holds all its tables; nothing where there is none."""
    if not numbers:
        return Markup("")
    return element("section", element("h2", "Tables"), *numbers, id="tables", aria_label="Tables")


def table_sections(
    cells: Sequence[CellSummary], plain: Sequence[Table], *, every_figure: bool = True
) -> list[Markup]:
    """Return a section for each kind of workload: its plain tables, then all of its figures.

    Without ``every_figure`` a sentence says where those are.
    """
    last = _all_figures if every_figure else _figures_elsewhere
    by_kind = grouped(cells, lambda s: s.cell.kind)
    plain_by_kind = grouped(plain, lambda table: table.id.partition("-")[0])
    return [
        element(
            "section",
            *_plain_tables(title, plain_by_kind.get(kind, [])),
            last(title, by_kind[kind]),
            id=f"table-{kind}",
        )
        for kind, title in titles().items()
        if kind in by_kind
    ]


def _plain_tables(title: str, tables: Sequence[Table]) -> list[Markup]:
    """Return a kind's plain tables; one alone lends its title to the section."""
    if len(tables) == 1:
        return [element("h3", tables[0].title), plain_table(tables[0], captioned=False)]
    return [element("h3", title), *(plain_table(table) for table in tables)]


def plain_table(table: Table, *, captioned: bool = True) -> Markup:
    """Return one of the tables that the terminal shows, with its title above unless told."""
    heads = [
        element(
            "tr",
            *(
                element("th", text, scope="col", class_="label" if place < table.labels else None)
                for place, text in enumerate(table.headers)
            ),
        )
    ]
    if any(group.title for group in table.groups):
        groups = (
            element("th", group.title, colspan=group.columns, scope="colgroup", class_="group")
            for group in table.groups
        )
        heads.insert(0, element("tr", *groups))
    body = (
        element(
            "tr",
            *(element("th", text, scope="row") for text in row[: table.labels]),
            *(element("td", text, class_=_width(text)) for text in row[table.labels :]),
        )
        for row in table.rows
    )
    caption = element("caption", table.title) if captioned else ""
    made = element("table", caption, element("thead", *heads), element("tbody", *body))
    return scrolling(made, table.title)


def _width(text: str) -> str | None:
    """Return the class of a text that must break lines, lest it widen its whole column."""
    return "long" if len(text) > _ON_ONE_LINE_MAX else None


def _row(texts: Sequence[str], name: str, **attributes: str) -> Markup:
    return element("tr", *(element(name, text, **attributes) for text in texts))


def _all_figures(title: str, cells: Sequence[CellSummary]) -> Markup:
    """Return every figure of the cells: rates, all percentiles, counts."""
    factors = varying(cells, leave_out=("zone",))  # a zone is named by where it begins
    headers = ["Cell", "Rate", "Bandwidth", *_PERCENTILES, "max of all", "mean", "Completed",
               "Failed", "Rounds"]  # fmt: skip
    rows = [row for summary in cells for row in _cell_rows(summary, factors)]
    table = element(
        "table",
        element("caption", f"{title}: {_WITH_DOUBT}"),
        element("thead", _row(headers, "th", scope="col")),
        element("tbody", *rows),
        class_="figures",
    )
    label = f"{title}: every figure of {format_plural(len(cells), 'cell')}"
    return element("details", element("summary", label), scrolling(table, label))


def _figures_elsewhere(title: str, cells: Sequence[CellSummary]) -> Markup:
    reported = (
        f"{title}: all percentiles and counts of {format_plural(len(cells), 'cell')} would make "
        "this page too large; the results file holds them, and "
    )
    return element("p", reported, element("code", "seatrial export --format csv"), " writes them.")


def _cell_rows(summary: CellSummary, factors: Sequence[str]) -> list[Markup]:
    """Return a row for each operation kind of a cell; rates and counts stand in the first."""
    name = _cell_label(summary, factors)
    counts = [_exact(count) for count in (summary.completed, summary.failed, len(summary.samples))]
    if summary.blank:
        blank = element("td", summary.blank, colspan=4 + len(_PERCENTILES), class_="blank")
        return [_labelled_row(summary, name, [blank, *counts])]
    rates = [_figure(summary.iops), _figure(summary.bandwidth)]
    rows: list[Markup] = []
    for operation, latency in summary.latency.items():
        bounds = summary.latency_at_least.get(operation)
        figures = [
            *(_percentile(latency, percentile, bounds) for percentile in _PERCENTILES),
            _largest(latency),
            _percentile(latency, "mean"),
        ]
        label = f"{name}: {operation}" if len(summary.latency) > 1 else name
        again = [element("td")] * 2, [element("td")] * 3
        before, after = again if rows else (rates, counts)
        rows.append(_labelled_row(summary, label, [*before, *figures, *after]))
    return rows


def _labelled_row(summary: CellSummary, label: str, cells: Sequence[Markup]) -> Markup:
    return element("tr", element("th", label, scope="row"), *cells, data_key=summary.cell.key)


def _cell_label(summary: CellSummary, factors: Sequence[str]) -> str:
    words = name_by(summary, factors) or summary.cell.workload
    if summary.cell.kind != "map":
        return words
    return f"{words}, from {format_size(start_bytes(summary))}"


def _percentile(
    latency: dict[str, Estimate], name: str, bounds: dict[str, AtLeast] | None = None
) -> Markup:
    if name not in latency:
        return element("td", latency_text(latency, name, bounds), class_="absent")
    return _figure(latency[name])


def _largest(latency: dict[str, Estimate]) -> Markup:
    """Return the slowest request; it was seen, so it has no interval."""
    if "max" not in latency:
        return _percentile(latency, "max")
    estimate = latency["max"]
    if estimate.over == "reported":
        return _figure(estimate)
    return element("td", format_value(estimate), data_value=repr(float(estimate.value)))


def _figure(estimate: Estimate) -> Markup:
    """Return a figure with its interval below it; the exact value is in ``data-value``."""
    parts = [format_value(estimate), Markup(" "), element("small", doubt_text(estimate))]
    return element("td", join(parts), data_value=repr(float(estimate.value)))


def _exact(count: int) -> Markup:
    return element("td", format_count(count), data_value=count)
