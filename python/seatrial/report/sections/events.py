"""Tables of what happened when: stalls, errors, corrupt blocks, and one cell's timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from seatrial.report.figures.model import Figure, HeatColumn
from seatrial.report.markup import Markup, element
from seatrial.report.sections.tables import scrolling
from seatrial.results.model import Sample
from seatrial.stats.facts import fact_name, fact_text
from seatrial.stats.model import CellSummary
from seatrial.stats.wording import (
    format_cell,
    format_count,
    format_duration_ns,
    format_duration_s,
    format_plural,
    format_size,
)

_ROWS_MAX = 200
_READING = 0.0  # counted once from full histograms: three digits, no interval


def event_sections(cells: Sequence[CellSummary], figures: Sequence[Figure]) -> list[Markup]:
    """Return the tables of stalls, errors and corrupt blocks where there are any, and of time."""
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
    """Return one table of events; nothing when there are none."""
    listed = list(rows)
    if not listed:
        return Markup("")
    more = ""
    if len(listed) > _ROWS_MAX:
        rest = format_plural(len(listed) - _ROWS_MAX, "more row")
        more = element("p", f"{rest} in the results file: seatrial export RUN --format json")
    table = element(
        "table",
        element("thead", element("tr", *_heads(["Cell", "Round", *headers]))),
        element("tbody", *(_event(row) for row in listed[:_ROWS_MAX])),
    )
    identifier = f"table-{title.lower().replace(' ', '-')}"
    return element("section", element("h3", title), scrolling(table, title), more, id=identifier)


def _heads(texts: Iterable[str]) -> list[Markup]:
    return [element("th", text, scope="col") for text in texts]


def _event(texts: Sequence[str]) -> Markup:
    cells = (element("td", text, class_="word") for text in texts[1:])
    return element("tr", element("th", texts[0], scope="row"), *cells)


def _timeline(figure: Figure) -> Markup:
    """Return the timeline of the cell that the heat map shows first.

    Where scripts run, the table follows the cell that is picked there (assets/page.js).
    """
    view = figure.views[figure.chosen]
    if view.heat is None:
        return Markup("")
    heads = ["Round", "From (s)", "Completed", "p50", "p99", "Max"]
    rows = [
        _column(sample.round, view.heat.column_s, column)
        for sample in view.heat.samples
        for column in sample.columns
    ]
    table = element(
        "table",
        element("thead", element("tr", *_heads(heads))),
        element("tbody", *rows),
    )
    caption = element(
        "p", element("span", view.label, class_="of"),
        f": a row is {format_duration_s(view.heat.column_s)} or less, counted once; "
        "no row where nothing ended.",
    )  # fmt: skip
    label = "Timeline of the cell in the heat map"
    return element(
        "section",
        element("h3", figure.topic),
        caption,
        element("details", element("summary", label), scrolling(table, label)),
        id=figure.table,
    )


def _column(round_index: int, column_s: float, column: HeatColumn) -> Markup:
    texts = [
        str(round_index + 1),
        f"{column.index * column_s:.4g}",
        format_count(sum(column.counts)),
        *(format_duration_ns(ns, _READING) for ns in (column.p50_ns, column.p99_ns, column.max_ns)),
    ]
    return element("tr", *(element("td", text) for text in texts))
